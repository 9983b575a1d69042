//! One client with a connection: what of its stream could not be used or sent yet.

use std::io;
use std::sync::atomic::Ordering;

use crate::protocol::{Activity, Connection, Listed, Output, Server};
use crate::store::{Store, TURN};

/// A connection's bytes, whatever carries them.
pub(crate) trait Stream {
    /// How often a client is read before others have their turn. One that is not told again of what it leaves unread reads to the end.
    const TURNS: usize;

    /// Lends what has come; returns how much, and whether there may be more. Nothing is the end.
    fn read(&mut self, take: impl FnOnce(&[u8])) -> io::Result<(usize, bool)>;

    /// Sends what there is room for.
    fn write(&mut self, output: &Output) -> io::Result<usize>;
}

/// What the server keeps of a client.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
    /// The beginning of a command that is not whole. Empty most of the time, so that an idle client costs no buffer.
    input: Vec<u8>,
    output: Output,
    /// It has to read replies before it is listened to again.
    pub(crate) blocked: bool,
    /// When it was last heard of, Unix time.
    pub(crate) heard: u32,
    /// It waits in its thread's list for another turn.
    pub(crate) waits: bool,
    listed: Listed,
}

/// Whether a client stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    Yes,
    No,
    /// It has more to do than one turn permits.
    Again,
}

impl Client {
    pub(crate) fn new(listed: Listed, now: u32) -> Client {
        Client {
            connection: Connection::new(),
            input: Vec::new(),
            output: Output::new(),
            blocked: false,
            heard: now,
            waits: false,
            listed,
        }
    }

    /// There is something to read, or room to write.
    pub(crate) fn turn<S: Stream>(
        &mut self,
        stream: &mut S,
        store: &Store,
        server: &Server,
        now: u32,
    ) -> Stay {
        self.heard = now;
        self.listed.heard(now);
        self.listed.does(Activity::ParseCmd);
        let stays = self.serve(stream, store, server, now);
        self.listed.does(if self.blocked { Activity::Mwrite } else { self.connection.activity() });
        stays
    }

    fn serve<S: Stream>(&mut self, stream: &mut S, store: &Store, server: &Server, now: u32) -> Stay {
        let (mut turns, mut all_read) = (S::TURNS, false);
        let mut sent = 0;
        self.connection.allow(server.settings.requests_per_event.unwrap_or(u32::MAX), TURN);
        loop {
            match self.flush(stream, server, &mut sent) {
                Ok(true) => {}
                Ok(false) if self.blocked => return Stay::Yes,
                Ok(false) => return self.yields(server),
                Err(_) => return Stay::No,
            }
            if self.connection.is_closed() {
                return Stay::No;
            }
            if self.connection.is_used_up() && (self.has_more() || !all_read) {
                return self.yields(server);
            }
            // Commands are kept back while much output waits: they come before what is still to be read.
            if self.execute_kept(store, server, now) || self.connection.is_used_up() && self.has_more() {
                continue;
            }
            if all_read {
                return Stay::Yes;
            }
            if turns == 0 {
                server.counters.conn_yields.fetch_add(1, Ordering::Relaxed);
                return Stay::Yes;
            }
            match stream.read(|bytes| self.execute(bytes, store, server, now)) {
                Ok((0, _)) => return Stay::No,
                Ok((count, more)) => {
                    server.counters.bytes_read.fetch_add(count, Ordering::Relaxed);
                    turns -= 1;
                    all_read = !more;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Stay::Yes,
                Err(_) => return Stay::No,
            }
        }
    }

    /// Others have their turn.
    fn yields(&self, server: &Server) -> Stay {
        server.counters.conn_yields.fetch_add(1, Ordering::Relaxed);
        Stay::Again
    }

    /// There is something to execute before more is read.
    fn has_more(&self) -> bool {
        !self.input.is_empty() || self.connection.is_paused()
    }

    /// Executes what came before, as far as it is whole. True if some of it was.
    fn execute_kept(&mut self, store: &Store, server: &Server, now: u32) -> bool {
        if !self.has_more() {
            return false;
        }
        let paused = self.connection.is_paused();
        let mut session = store.session(now);
        let used = self.connection.advance(&self.input, &mut session, server, &mut self.output);
        self.input.drain(..used);
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        used > 0 || paused
    }

    fn execute(&mut self, bytes: &[u8], store: &Store, server: &Server, now: u32) {
        if bytes.is_empty() {
            return;
        }
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

    /// Sends what there is room for. True: all of it. False: the client is blocked, or has been `sent` as much as one turn permits.
    fn flush(&mut self, stream: &mut impl Stream, server: &Server, sent: &mut usize) -> io::Result<bool> {
        while !self.output.is_empty() {
            if *sent >= TURN {
                self.blocked = false;
                return Ok(false);
            }
            match stream.write(&self.output) {
                Ok(written) => {
                    *sent += written;
                    server.counters.bytes_written.fetch_add(written, Ordering::Relaxed);
                    self.output.sent(written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(false);
                }
                Err(error) => return Err(error),
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
