//! Over ccnic.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ccnic_tcp::{Conn, Error, Event, Listener, Options, Stack};

use crate::net::Net;

/// Handshakes under way at most: what a server's backlog and a burst of frames bear, also where this thread is the server's, too.
const OPENING: usize = 256;

/// A stack and its connections.
pub(crate) struct Overlay {
    stack: Stack,
    listener: Option<Listener>,
    /// By index.
    conns: Vec<Option<Link>>,
    /// Connections that are still to be begun, and to whom.
    rest: Option<(SocketAddr, usize)>,
    /// Handshakes under way.
    opening: usize,
}

/// A connection.
#[derive(Debug, Clone, Copy)]
struct Link {
    conn: Conn,
    /// Its handshake is under way.
    opening: bool,
}

impl Overlay {
    pub(crate) fn listen(socket: &Path, options: &Options, port: u16) -> Result<Overlay, Error> {
        let mut stack = Stack::open(socket, options)?;
        let listener = Some(stack.listen(port, 16 << 10)?);
        Ok(Overlay { stack, listener, conns: Vec::new(), rest: None, opening: 0 })
    }

    pub(crate) fn connect(
        socket: &Path,
        options: &Options,
        to: SocketAddr,
        flows: usize,
    ) -> Result<Overlay, Error> {
        let (stack, rest) = (Stack::open(socket, options)?, Some((to, flows)));
        let mut this = Overlay { stack, listener: None, conns: Vec::new(), rest, opening: 0 };
        this.begin()?;
        Ok(this)
    }

    /// Begins further connections.
    fn begin(&mut self) -> Result<(), Error> {
        while let Some((to, left @ 1..)) = self.rest
            && self.opening < OPENING
        {
            let conn = self.stack.connect(to)?;
            self.keep(Link { conn, opening: true });
            self.opening += 1;
            self.rest = Some((to, left - 1));
        }
        Ok(())
    }

    fn keep(&mut self, link: Link) {
        let index = link.conn.index();
        self.conns.resize(self.conns.len().max(index + 1), None);
        self.conns[index] = Some(link);
    }

    fn conn(&self, index: usize) -> io::Result<Conn> {
        let link = self.conns.get(index).copied().flatten();
        link.map(|link| link.conn).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The handshake of a connection is over: another one may begin.
    fn opened(&mut self, index: usize) {
        if let Some(Some(link)) = self.conns.get_mut(index)
            && link.opening
        {
            link.opening = false;
            self.opening -= 1;
        }
    }
}

impl Net for Overlay {
    fn poll(&mut self, sleep: Duration) -> io::Result<()> {
        self.begin().map_err(io::Error::other)?;
        if self.stack.poll() == 0 && !sleep.is_zero() {
            self.stack.wait_when_idle(sleep).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn ready(&mut self) -> Option<usize> {
        loop {
            match self.stack.next_event()? {
                Event::Ready(conn, _) => {
                    self.opened(conn.index());
                    return Some(conn.index());
                }
                Event::Accept(listener) => {
                    while let Some(conn) = self.stack.accept(listener) {
                        self.keep(Link { conn, opening: false });
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
            self.conns.iter().flatten().for_each(|link| self.stack.abort(link.conn));
            self.stack.flush();
        }
    }
}
