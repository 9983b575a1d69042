//! Memcached's text over streams of the kernel, TCP or Unix sockets: requests go over the connections in turn, and each connection
//! answers in order.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Lost, Number, Transport};
use crate::dial;
use crate::protocol::{Reply, Request, text};

/// Bytes that wait for a connection's socket, at most, besides the last request.
const KEPT: usize = 256 << 10;
/// Bytes that are read at once.
const READ: usize = 64 << 10;

/// A stream socket that does not block.
trait Socket: Read + Write + AsFd {}
impl<T: Read + Write + AsFd> Socket for T {}

/// Some connections to one store.
pub struct Streams {
    connections: Vec<Connection>,
    /// The connection that sends next.
    turn: usize,
    /// Connections with requests that were not written yet.
    dirty: bool,
}

struct Connection {
    socket: Box<dyn Socket>,
    /// Requests that are not written yet, from `written` on.
    out: Vec<u8>,
    written: usize,
    /// Replies that are not complete yet: the bytes from `begin` to `end`.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    /// Requests that were sent, in order.
    waiting: VecDeque<Number>,
}

impl Streams {
    /// Connects over TCP, each connection within `limit`.
    ///
    /// # Errors
    /// When a connection is refused, or not made in time.
    pub fn tcp(address: SocketAddr, connections: usize, limit: Option<Duration>) -> std::io::Result<Streams> {
        Streams::new(connections, || {
            let socket = dial::tcp(address, limit)?;
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            Ok(Box::new(socket))
        })
    }

    /// Connects over a Unix socket.
    ///
    /// # Errors
    /// As [`tcp`](Streams::tcp).
    pub fn unix(path: &Path, connections: usize, limit: Option<Duration>) -> std::io::Result<Streams> {
        Streams::new(connections, || {
            let socket = dial::unix(path, limit)?;
            socket.set_nonblocking(true)?;
            Ok(Box::new(socket))
        })
    }

    fn new(
        connections: usize,
        mut open: impl FnMut() -> std::io::Result<Box<dyn Socket>>,
    ) -> std::io::Result<Streams> {
        let connections = (0..connections.max(1)).map(|_| Ok(Connection::new(open()?)));
        Ok(Streams { connections: connections.collect::<std::io::Result<_>>()?, turn: 0, dirty: false })
    }

    /// The connections that can be read or written, by their numbers.
    fn ready(&self) -> std::io::Result<Vec<usize>> {
        if self.connections.len() == 1 {
            return Ok(vec![0]);
        }
        let mut fds: Vec<PollFd<'_>> = self.connections.iter().map(Connection::interest).collect();
        poll(&mut fds, Some(&Timespec::default()))?;
        Ok((0..fds.len()).filter(|i| !fds[*i].revents().is_empty()).collect())
    }
}

impl Transport for Streams {
    fn send(&mut self, number: Number, request: Request<'_>) -> Result<bool, Lost> {
        let turn = self.turn % self.connections.len();
        let connection = &mut self.connections[turn];
        if connection.out.len() - connection.written > KEPT {
            return Ok(false);
        }
        text::write(request, &mut connection.out);
        connection.waiting.push_back(number);
        (self.turn, self.dirty) = (turn + 1, true);
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Lost> {
        if std::mem::take(&mut self.dirty) {
            for connection in &mut self.connections {
                connection.write()?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, take: &mut impl FnMut(Number, Reply<'_>)) -> Result<usize, Lost> {
        let mut replies = 0;
        for i in self.ready()? {
            let connection = &mut self.connections[i];
            connection.write()?;
            replies += connection.read(take)?;
        }
        Ok(replies)
    }

    fn forget(&mut self, _: Number) -> bool {
        false
    }
}

impl Connection {
    fn new(socket: Box<dyn Socket>) -> Connection {
        let (out, input) = (Vec::new(), vec![0; READ]);
        Connection { socket, out, written: 0, input, begin: 0, end: 0, waiting: VecDeque::new() }
    }

    fn interest(&self) -> PollFd<'_> {
        let fd: BorrowedFd<'_> = self.socket.as_fd();
        let writes = if self.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        PollFd::from_borrowed_fd(fd, PollFlags::IN | writes)
    }

    /// Writes what the socket takes.
    fn write(&mut self) -> Result<(), Lost> {
        while self.written < self.out.len() {
            match self.socket.write(&self.out[self.written..]) {
                Ok(0) => return Err(std::io::Error::from(ErrorKind::WriteZero).into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads once, and takes the replies that are complete.
    fn read(&mut self, take: &mut impl FnMut(Number, Reply<'_>)) -> Result<usize, Lost> {
        self.make_room();
        match self.socket.read(&mut self.input[self.end..]) {
            Ok(0) => return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(bytes) => self.end += bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(0);
            }
            Err(error) => return Err(error.into()),
        }
        let mut replies = 0;
        while let Some((reply, used)) = text::read(&self.input[self.begin..self.end])? {
            let unasked = || std::io::Error::new(ErrorKind::InvalidData, "a reply that nobody asked for");
            let number = self.waiting.pop_front().ok_or_else(unasked)?;
            take(number, reply);
            self.begin += used;
            replies += 1;
        }
        Ok(replies)
    }

    /// Moves what is incomplete to the front when the rest is short, and lets the buffer grow for a reply that is longer than it.
    fn make_room(&mut self) {
        if self.input.len() - self.end >= READ / 2 {
            return;
        }
        self.input.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        if self.input.len() - self.end < READ / 2 {
            self.input.resize(self.input.len() * 2, 0);
        }
    }
}
