//! Waiting without polling: a program's thread sleeps until the NIC wakes it.
//!
//! Each queue pair has a pair of connected sockets; the NIC gets one end and sends a byte when the program sleeps and packets
//! come (`ccnic::notify` says when, `nic/notifier.rs` why it is a socket). The program keeps a copy of the NIC's end: the pair outlives
//! the NIC and is handed to its successor, so whoever waits for the descriptor need not notice.
//!
//! The NIC's first byte says that it has taken its end. Without it (an older NIC, or one that has no descriptor left) nobody
//! is relied on: then the thread naps, for a millisecond at most.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use crate::error::Error;
use ccnic_control::Connection;
use ccnic_control::messages::Request;
use ccnic_shm::NativeMemory;

/// The first nap; each is twice as long as the one before.
const SHORTEST: Duration = Duration::from_micros(10);
/// The longest nap: what a packet waits at most for a program that the NIC cannot wake.
const LONGEST: Duration = Duration::from_millis(1);

/// What the thread of a queue pair sleeps with. Clones are of the same.
#[derive(Debug, Clone)]
pub struct Waiter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: u16,
    connection: Mutex<Arc<Connection>>,
    ends: OnceLock<Ends>,
    /// The NIC has taken its end.
    answered: AtomicBool,
}

#[derive(Debug)]
struct Ends {
    ours: OwnedFd,
    nics: OwnedFd,
}

impl Ends {
    fn new() -> Result<Ends, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, nics) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(Error::os("make a pair of sockets to be woken by"))?;
        Ok(Ends { ours, nics })
    }

    /// Takes away what has come; true when something had.
    fn drain(&self) -> bool {
        let mut bytes = [0; 256];
        let mut any = false;
        // A NIC that sends without end only wakes us for nothing.
        for _ in 0..16 {
            match recv(&self.ours, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((_, n)) if n > 0 => any = true,
                _ => break,
            }
        }
        any
    }
}

impl Waiter {
    pub(crate) fn new(queue: u16, connection: Arc<Connection>) -> Waiter {
        let inner = Inner {
            queue,
            connection: Mutex::new(connection),
            ends: OnceLock::new(),
            answered: AtomicBool::new(false),
        };
        Waiter { inner: Arc::new(inner) }
    }

    fn connection(&self) -> MutexGuard<'_, Arc<Connection>> {
        self.inner.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another NIC serves the queue pair.
    pub(crate) fn move_to(&self, connection: Arc<Connection>) {
        *self.connection() = connection;
        self.inner.answered.store(false, Ordering::Relaxed);
        if let Some(ends) = self.inner.ends.get() {
            ends.drain();
            self.offer(ends);
        }
    }

    /// Hands the NIC its end.
    fn offer(&self, ends: &Ends) {
        let request = Request::Notify { queue: self.inner.queue };
        // A NIC that has gone: its successor gets it.
        if let Err(e) = self.connection().send_now(&request, Some(ends.nics.as_fd())) {
            tracing::debug!("queue {}: the NIC cannot wake us: {e}", self.inner.queue);
        }
    }

    fn ends(&self) -> Result<&Ends, Error> {
        if let Some(ends) = self.inner.ends.get() {
            return Ok(ends);
        }
        let new = Ends::new()?;
        let mut first = false;
        let ends = self.inner.ends.get_or_init(|| {
            first = true;
            new
        });
        if first {
            self.offer(ends);
        }
        Ok(ends)
    }

    /// The descriptor that can be read when the thread should wake up: for programs that wait for several things at once. It stays
    /// the same, also with the NIC's successor; what is read from it means nothing. Before each sleep: [`QueuePair::arm`](crate::QueuePair::arm).
    ///
    /// The end of the NIC does not show here, but in [`Nic`](crate::Nic)'s own descriptor.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.ends()?.ours.as_fd())
    }

    /// Asks the NIC to wake the thread of `pair` by [`fd`](Waiter::fd) when there is something to receive. False when there is
    /// already: then it is not asked. To be asked before each sleep.
    ///
    /// # Errors
    /// As [`fd`](Waiter::fd).
    pub(crate) fn arm<R: Ring>(&self, pair: &mut QueuePair<NativeMemory, R>) -> Result<bool, Error> {
        // Before the look at the ring, not after: what comes from now on is news.
        self.heed(self.ends()?);
        Ok(pair.arm())
    }

    /// Takes away what woke us.
    fn heed(&self, ends: &Ends) {
        if ends.drain() {
            self.inner.answered.store(true, Ordering::Relaxed);
        }
    }

    /// True when the NIC has said that it wakes us.
    fn answered(&self) -> bool {
        self.inner.answered.load(Ordering::Relaxed)
    }

    /// Makes [`fd`](Waiter::fd) readable, as the NIC does.
    ///
    /// # Errors
    /// As [`fd`](Waiter::fd).
    pub fn wake(&self) -> Result<(), Error> {
        // When the socket is full it can be read.
        let _ = send(&self.ends()?.nics, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        Ok(())
    }

    /// Blocks until there is something to receive on `pair`.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Gone`], or [`Error::Os`] with `EINTR` after a signal.
    pub(crate) fn wait<R: Ring>(
        &self,
        pair: &mut QueuePair<NativeMemory, R>,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut nap = SHORTEST;
        loop {
            // Without a descriptor it naps.
            let ends = self.ends().ok();
            ends.into_iter().for_each(|ends| self.heed(ends));
            if !pair.arm() {
                return Ok(());
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let most = if self.answered() { left } else { Some(left.map_or(nap, |left| left.min(nap))) };
            let slept = self.sleep(ends, most);
            pair.disarm();
            let gone = slept?;
            if pair.rx_waits() {
                return Ok(());
            }
            if gone {
                return Err(Error::Gone);
            }
            if left == Some(Duration::ZERO) {
                return Err(Error::TimedOut);
            }
            nap = (nap * 2).min(LONGEST);
        }
    }

    /// Sleeps until something comes; true when that is the end of the NIC.
    fn sleep(&self, ends: Option<&Ends>, timeout: Option<Duration>) -> Result<bool, Error> {
        let connection = Arc::clone(&self.connection());
        let notifier = ends.map_or(connection.as_fd(), |ends| ends.ours.as_fd());
        let mut fds = [PollFd::new(&connection, PollFlags::RDHUP), PollFd::new(&notifier, PollFlags::IN)];
        // A time that is too long for the kernel is no time to wait for.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        poll(&mut fds, timeout.as_ref()).map_err(Error::os("wait for the NIC"))?;
        let [control, notifier] = fds.map(|fd| !fd.revents().is_empty());
        if let (true, Some(ends)) = (notifier, ends) {
            self.heed(ends);
        }
        Ok(control)
    }
}
