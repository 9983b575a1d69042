//! Over ccnic.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ccnic_tcp::{Conn, Error, Event, Listener, Options, Stack};

use crate::net::Net;

/// A stack and its connections.
pub(crate) struct Overlay {
    stack: Stack,
    listener: Option<Listener>,
    /// By index.
    conns: Vec<Option<Conn>>,
}

impl Overlay {
    pub(crate) fn listen(socket: &Path, options: &Options, port: u16) -> Result<Overlay, Error> {
        let mut stack = Stack::open(socket, options)?;
        let listener = Some(stack.listen(port, 16 << 10)?);
        Ok(Overlay { stack, listener, conns: Vec::new() })
    }

    pub(crate) fn connect(
        socket: &Path,
        options: &Options,
        to: SocketAddr,
        flows: usize,
    ) -> Result<Overlay, Error> {
        let mut this = Overlay { stack: Stack::open(socket, options)?, listener: None, conns: Vec::new() };
        for _ in 0..flows {
            let conn = this.stack.connect(to)?;
            this.keep(conn);
        }
        Ok(this)
    }

    fn keep(&mut self, conn: Conn) {
        let index = conn.index();
        self.conns.resize(self.conns.len().max(index + 1), None);
        self.conns[index] = Some(conn);
    }

    fn conn(&self, index: usize) -> io::Result<Conn> {
        self.conns.get(index).copied().flatten().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Net for Overlay {
    fn poll(&mut self, sleep: Duration) -> io::Result<()> {
        if self.stack.poll() == 0 && !sleep.is_zero() {
            self.stack.wait_when_idle(sleep).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn ready(&mut self) -> Option<usize> {
        loop {
            match self.stack.next_event()? {
                Event::Ready(conn, _) => return Some(conn.index()),
                Event::Accept(listener) => {
                    while let Some(conn) = self.stack.accept(listener) {
                        self.keep(conn);
                    }
                }
            }
        }
    }

    fn read(&mut self, conn: usize, to: &mut [u8]) -> io::Result<usize> {
        let conn = self.conn(conn)?;
        self.stack.read(conn, to)
    }

    fn write(&mut self, conn: usize, bytes: &[u8]) -> io::Result<usize> {
        let conn = self.conn(conn)?;
        self.stack.write(conn, bytes)
    }

    fn close(&mut self, index: usize) {
        if let Ok(conn) = self.conn(index) {
            self.stack.close(conn);
            self.conns[index] = None;
        }
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        if self.listener.is_none() {
            // The peer is told, as the kernel does when a process ends.
            self.conns.iter().flatten().for_each(|conn| self.stack.abort(*conn));
            self.stack.flush();
        }
    }
}
