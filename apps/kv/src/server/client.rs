//! One client with a connection, over TCP or a Unix socket.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::protocol::{Connection, Output, Server};
use crate::store::Store;

/// How much is read at once.
pub(crate) const READ: usize = 64 << 10;
/// How often a client may be read before others have their turn.
const TURNS: usize = 4;
/// How many pieces are written at once.
const PIECES: usize = 64;

/// Its stream and what of it could not be used or sent yet.
#[derive(Debug)]
pub(crate) struct Client {
    fd: OwnedFd,
    connection: Connection,
    /// The beginning of a command that is not whole. Empty most of the time, so that an idle client costs no buffer.
    input: Vec<u8>,
    output: Output,
    /// It has to read replies before it is listened to again.
    pub(crate) blocked: bool,
    /// When it was last heard of, Unix time.
    pub(crate) heard: u32,
}

/// Whether a client stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    Yes,
    No,
}

impl Client {
    pub(crate) fn new(fd: OwnedFd, now: u32) -> Client {
        Client {
            fd,
            connection: Connection::new(),
            input: Vec::new(),
            output: Output::new(),
            blocked: false,
            heard: now,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// There is something to read, or room to write.
    pub(crate) fn turn(&mut self, buffer: &mut [u8], store: &Store, server: &Server, now: u32) -> Stay {
        self.heard = now;
        let mut reads = 0;
        loop {
            match self.flush(server) {
                Ok(true) => {}
                Ok(false) => return Stay::Yes,
                Err(_) => return Stay::No,
            }
            if self.connection.is_closed() {
                return Stay::No;
            }
            // Commands are kept back while much output waits: they come before what is still to be read.
            if self.execute_kept(store, server, now) {
                continue;
            }
            if reads == TURNS {
                return Stay::Yes;
            }
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(0) => return Stay::No,
                Ok(count) => {
                    server.counters.bytes_read.fetch_add(count, Ordering::Relaxed);
                    self.execute(&buffer[..count], store, server, now);
                    // Less than there was room for was all there was.
                    reads = if count < buffer.len() { TURNS } else { reads + 1 };
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Stay::Yes,
                Err(_) => return Stay::No,
            }
        }
    }

    /// Executes what came before, as far as it is whole. True if some of it was.
    fn execute_kept(&mut self, store: &Store, server: &Server, now: u32) -> bool {
        if self.input.is_empty() {
            return false;
        }
        let mut session = store.session(now);
        let used = self.connection.advance(&self.input, &mut session, server, &mut self.output);
        self.input.drain(..used);
        used > 0
    }

    fn execute(&mut self, bytes: &[u8], store: &Store, server: &Server, now: u32) {
        if !self.input.is_empty() {
            self.input.extend_from_slice(bytes);
            self.execute_kept(store, server, now);
            return;
        }
        let mut session = store.session(now);
        let used = self.connection.advance(bytes, &mut session, server, &mut self.output);
        drop(session);
        self.input = bytes[used..].to_vec();
    }

    /// Sends what there is room for. True: all of it.
    fn flush(&mut self, server: &Server) -> io::Result<bool> {
        while !self.output.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let mut count = 0;
            for (piece, segment) in pieces.iter_mut().zip(self.output.segments()) {
                *piece = IoSlice::new(segment);
                count += 1;
            }
            match rustix::io::writev(&self.fd, &pieces[..count]) {
                Ok(written) => {
                    server.counters.bytes_written.fetch_add(written, Ordering::Relaxed);
                    self.output.sent(written);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.blocked = true;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.blocked = false;
        Ok(true)
    }

    /// The client is gone, or is to go.
    pub(crate) fn end(&mut self, store: &Store) {
        self.connection.end(&store.session(self.heard));
    }
}
