//! The calling program's end.

use std::path::Path;
use std::time::{Duration, Instant};

use ccnic::Tuning;
use ccnic::call::{CallLayout, Caller as Protocol};
use ccnic_control::call::CallConnection;
use ccnic_shm::{NativeMemory, Pages, Region, take_part_in_barriers};
use rustix::io::Errno;

use super::{CAPACITY, NAP, POLLS, relax};
use crate::error::Error;
use crate::tuning::tuning_of_environment;

/// A program's connection to a [`CallServer`](super::CallServer). Belongs to one thread: one call at a time.
///
/// A call happens at most once. After [`Error::TimedOut`] it may still happen, and its answer is dropped when it comes: the next call
/// waits for it first, within its own time. After [`Error::ServerGone`] or [`Error::Call`] open another one. [The module](super) has an
/// example.
#[derive(Debug)]
pub struct Caller {
    protocol: Protocol,
    mem: NativeMemory,
    connection: CallConnection,
    tuning: Tuning,
    /// The server has gone, or has done what it must not.
    broken: bool,
    _region: Region,
}

impl Caller {
    /// Connects to the server at `socket`, for messages of up to 4088 bytes. [The module](super) has an example.
    ///
    /// # Errors
    /// As [`open_with`](Caller::open_with).
    pub fn open(socket: impl AsRef<Path>) -> Result<Caller, Error> {
        Caller::open_with(socket, CAPACITY)
    }

    /// Connects to the server at `socket`, for requests and answers of up to `capacity` bytes: 1 to [`MAX_MESSAGE`](super::MAX_MESSAGE).
    /// Short messages are as fast, whatever the capacity.
    ///
    /// ```
    /// # use ccnic_client::call::{CallServer, Caller};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("calls.sock");
    /// # let _server = CallServer::listen(&socket)?;
    /// let caller = Caller::open_with(&socket, 100_000)?;
    /// assert_eq!(caller.capacity(), 100_000);
    /// let error = Caller::open_with(&socket, 0).unwrap_err();
    /// assert_eq!(error.to_string(), "capacity is 0; choose 1 to 1048568");
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the capacity is out of range, no server answers, or it refuses.
    pub fn open_with(socket: impl AsRef<Path>, capacity: u32) -> Result<Caller, Error> {
        let tuning = tuning_of_environment()?;
        let layout = CallLayout::new(capacity)?;
        let region = Region::create(layout.size(), Pages::Small)?;
        let mem = super::memory(&region);
        layout.store(&mem);
        // Before the server can sleep: its heavy barriers have to reach this process.
        take_part_in_barriers();
        let connection = CallConnection::open(socket.as_ref(), &region).map_err(of_server)?;
        let mut protocol = Protocol::new(&layout);
        protocol.set_tuning(tuning);
        Ok(Caller { protocol, mem, connection, tuning, broken: false, _region: region })
    }

    /// The most bytes of a request or an answer. Example: [`open_with`](Caller::open_with).
    pub fn capacity(&self) -> u32 {
        self.protocol.capacity()
    }

    /// Calls: sends `request` and waits for the answer, which is copied into `answer`; returns its length, which is more than
    /// `answer.len()` when it did not fit: then what fits is there. Polls for some tens of microseconds, then sleeps. `None` waits without a limit.
    /// [The module](super) has an example.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::ServerGone`] when the server has gone, [`Error::Call`] when the request is too long (nothing has been sent) or
    /// the server has written what no server writes.
    #[inline]
    pub fn call(
        &mut self,
        request: &[u8],
        answer: &mut [u8],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<usize, Error> {
        if self.broken || self.protocol.is_waiting() {
            return self.call_after(request, answer, timeout.into());
        }
        self.send(request)?;
        for _ in 0..POLLS {
            if let Some(n) = self.take(answer)? {
                return Ok(n);
            }
            relax(&self.mem, &self.tuning);
        }
        self.await_answer(answer, deadline(timeout.into()))
    }

    /// A call after one that has timed out: the late answer comes first.
    #[cold]
    fn call_after(
        &mut self,
        request: &[u8],
        answer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, Error> {
        if self.broken {
            return Err(Error::ServerGone);
        }
        let end = deadline(timeout);
        self.await_answer(&mut [], end)?;
        self.send(request)?;
        self.await_answer(answer, end)
    }

    #[inline]
    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        self.protocol.send(&self.mem, request).map_err(|e| Error::Call { what: e.to_string() })?;
        if self.protocol.server_sleeps(&self.mem) {
            self.connection.wake();
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, answer: &mut [u8]) -> Result<Option<usize>, Error> {
        self.protocol.take(&self.mem, answer).map_err(|e| {
            self.broken = true;
            Error::Call { what: e.to_string() }
        })
    }

    /// Sleeps until the answer comes.
    #[cold]
    fn await_answer(&mut self, answer: &mut [u8], end: Option<Instant>) -> Result<usize, Error> {
        loop {
            // What a server has answered before it ended is still taken: so look whether it has ended first.
            let ended = self.connection.has_ended();
            if let Some(n) = self.take(answer)? {
                return Ok(n);
            }
            if ended {
                self.broken = true;
                return Err(Error::ServerGone);
            }
            let left = end.map_or(NAP, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Error::TimedOut);
            }
            if self.protocol.arm(&self.mem) {
                let slept = self.connection.sleep(left.min(NAP));
                self.protocol.disarm(&self.mem);
                slept?;
            }
        }
    }
}

fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// The errors of a connection to a server say what to do about a NIC.
fn of_server(error: ccnic_control::Error) -> Error {
    use ccnic_control::Error as Control;
    match error {
        Control::Unreachable { path, errno: Errno::ACCESS } => {
            let path = path.display();
            Error::Call {
                what: format!(
                    "this user may not connect to the server at {path}: have it let this user write to that socket"
                ),
            }
        }
        Control::Unreachable { path, errno } => {
            Error::Call { what: format!("no server answers at {}: {errno}; start it first", path.display()) }
        }
        other => other.into(),
    }
}
