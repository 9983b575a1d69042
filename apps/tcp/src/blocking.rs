//! A thread that has nothing else to do sleeps until something comes.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ccnic_client::Error as NicError;
use rustix::io::Errno;

use crate::attachment::RETRY;
use crate::connections::Conn;
use crate::engine::{Engine, NEVER};
use crate::error::Error;
use crate::sockets::Listener;
use crate::stack::Stack;

/// Polls without a frame before a thread sleeps: a round trip takes less time than to be woken.
const SPINS: usize = 2000;
/// The longest sleep while frames wait for room in the ring.
const NAP: Duration = Duration::from_micros(100);

impl<E: Engine> Stack<E> {
    /// Sends what there is to send, and sleeps until something comes, a connection has to be looked at, or the timeout is over. Poll after
    /// it. While the NIC has gone it sleeps for some milliseconds, and looks whether another one has come. Example:
    /// [`connect`](Stack::connect).
    ///
    /// # Errors
    /// The NIC has gone, where the stack may not [reconnect](crate::Options::reconnect); another one has come, and refuses this program:
    /// the next call tries again.
    pub fn wait(&mut self, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.flush();
        let timeout = timeout.into();
        if self.pair.is_none() && self.core.events.is_empty() {
            std::thread::sleep(timeout.map_or(RETRY, |timeout: Duration| timeout.min(RETRY)));
            return self.look();
        }
        let timer = match self.core.next() {
            NEVER => None,
            at => Some(Duration::from_micros(at.saturating_sub(self.core.now))),
        };
        let room = (!self.core.out.is_empty()).then_some(NAP);
        let timeout = [timeout, timer, room].into_iter().flatten().min();
        if timeout == Some(Duration::ZERO) || !self.core.events.is_empty() {
            return Ok(());
        }
        let Stack { core, pair, .. } = self;
        let Some(pair) = pair else { return Ok(()) };
        core.time.sleeps(timeout);
        match pair.wait_once(timeout, || core.group.waits()) {
            Err(NicError::Os { errno: Errno::INTR, .. }) => Ok(()), // a signal: the program polls, and may wait again
            Err(NicError::Gone) if self.core.options.reconnect => self.look(),
            done => Ok(done?),
        }
    }

    /// Between two polls of a program that polls while it is busy: sleeps as [`wait`](Stack::wait) does once no frame has come for
    /// [`Options::sleep_after`](crate::Options::sleep_after). Returns whether it has waited. Example: [`open_many`](Stack::open_many).
    ///
    /// # Errors
    /// As [`wait`](Stack::wait).
    pub fn wait_when_idle(&mut self, timeout: impl Into<Option<Duration>>) -> Result<bool, Error> {
        let after = self.core.options.sleep_after;
        if after.is_zero() || Duration::from_micros(self.core.now.saturating_sub(self.core.heard)) < after {
            return Ok(false);
        }
        self.wait(timeout)?;
        Ok(true)
    }

    /// Polls, and sleeps between polls, until `step` does not return `WouldBlock`.
    fn block<R>(&mut self, mut step: impl FnMut(&mut Stack<E>) -> io::Result<R>) -> io::Result<R> {
        let mut idle = 0;
        loop {
            match step(self) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            idle = if self.poll() > 0 { 0 } else { idle + 1 };
            if idle > SPINS {
                self.wait(None).map_err(io::Error::other)?;
            }
        }
    }

    /// Accepts, and waits for a connection if there is none. Like the other calls that block, it takes the events of all others: for
    /// programs with one connection at a time. Example: [`connect_blocking`](Stack::connect_blocking).
    ///
    /// # Errors
    /// As [`wait`](Stack::wait).
    pub fn accept_blocking(&mut self, listener: Listener) -> io::Result<Conn> {
        self.block(|stack| {
            stack.core.events.clear();
            stack.accept(listener).ok_or_else(|| io::ErrorKind::WouldBlock.into())
        })
    }

    /// Connects, and waits until the connection is established.
    ///
    /// ```no_run
    /// use ccnic_tcp::{Options, Stack};
    ///
    /// let mut stack = Stack::open("/tmp/nic.sock", &Options::new("10.9.0.3/24".parse()?))?;
    /// let conn = stack.connect_blocking("10.9.0.2:7".parse()?)?;
    /// stack.write_all_blocking(conn, b"hello")?;
    /// let mut answer = [0; 64];
    /// let n = stack.read_blocking(conn, &mut answer)?;
    /// println!("{}", answer[..n].escape_ascii());
    /// stack.close(conn);
    ///
    /// let listener = stack.listen(7, 1)?;
    /// let visitor = stack.accept_blocking(listener)?; // the other way round
    /// println!("{} has come", stack.remote(visitor)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`connect`](Stack::connect); `ConnectionRefused`; `TimedOut`.
    pub fn connect_blocking(&mut self, to: SocketAddr) -> io::Result<Conn> {
        let conn = self.connect(to).map_err(io::Error::other)?;
        let outcome = self.block(|stack| {
            stack.core.events.clear();
            stack.write_with(conn, |_| (0, ()))
        });
        if outcome.is_err() {
            self.close(conn);
        }
        outcome.map(|()| conn)
    }

    /// Reads, and waits until there is something. Example: [`connect_blocking`](Stack::connect_blocking).
    ///
    /// # Errors
    /// As [`read`](Stack::read), but not `WouldBlock`.
    pub fn read_blocking(&mut self, conn: Conn, to: &mut [u8]) -> io::Result<usize> {
        self.block(|stack| {
            stack.core.events.clear();
            stack.read(conn, to)
        })
    }

    /// Writes all bytes, and waits for room. Example: [`connect_blocking`](Stack::connect_blocking).
    ///
    /// # Errors
    /// As [`write`](Stack::write), but not `WouldBlock`.
    pub fn write_all_blocking(&mut self, conn: Conn, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = self.block(|stack| {
                stack.core.events.clear();
                stack.write(conn, rest)
            })?;
            rest = &rest[n..];
        }
        self.flush();
        Ok(())
    }

    /// The peer at this address, once its Ethernet address is known. Example: [`Peer`](crate::Peer).
    ///
    /// # Errors
    /// As [`peer`](Stack::peer); `TimedOut` after `timeout`.
    pub fn peer_blocking(&mut self, to: SocketAddr, timeout: Duration) -> io::Result<crate::Peer> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(peer) = self.peer(to).map_err(io::Error::other)? {
                return Ok(peer);
            }
            if Instant::now() > end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.poll();
            self.wait(Duration::from_millis(10)).map_err(io::Error::other)?;
            self.poll();
        }
    }
}
