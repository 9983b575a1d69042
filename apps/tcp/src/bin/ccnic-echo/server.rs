//! The server: returns what comes.

use std::io::ErrorKind;
use std::time::Duration;

use crate::net::Net;

/// What is kept of each connection: bytes that there was no room for.
pub(crate) struct Server {
    unsent: Vec<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Default for Server {
    fn default() -> Server {
        Server { unsent: Vec::new(), bytes: vec![0; 16 << 10] }
    }
}

impl Server {
    /// Answers what has come.
    pub(crate) fn step(&mut self, net: &mut dyn Net, sleep: Duration) -> anyhow::Result<()> {
        net.poll(sleep)?;
        while let Some(conn) = net.ready() {
            if self.unsent.len() <= conn {
                self.unsent.resize_with(conn + 1, Vec::new);
            }
            if !self.serve(net, conn) {
                net.close(conn);
                self.unsent[conn].clear();
            }
        }
        Ok(())
    }

    /// False at the end of a connection.
    fn serve(&mut self, net: &mut dyn Net, conn: usize) -> bool {
        let unsent = &mut self.unsent[conn];
        loop {
            if !unsent.is_empty() {
                match net.write(conn, unsent) {
                    Ok(n) => drop(unsent.drain(..n)),
                    Err(e) => return e.kind() == ErrorKind::WouldBlock,
                }
                if !unsent.is_empty() {
                    return true; // it is told when there is room
                }
            }
            let n = match net.read(conn, &mut self.bytes) {
                Ok(0) => return false,
                Ok(n) => n,
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            };
            let written = match net.write(conn, &self.bytes[..n]) {
                Ok(written) => written,
                Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
                Err(_) => return false,
            };
            unsent.extend_from_slice(&self.bytes[written..n]);
            if unsent.is_empty() && n < self.bytes.len() {
                return true; // all was read
            }
        }
    }
}
