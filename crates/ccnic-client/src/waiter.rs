//! Waiting without polling: a program's thread blocks until the NIC notifies it.
//!
//! Each queue pair has a pair of connected sockets. The NIC gets one end and sends a byte when the program is
//! armed and packets have come (`ccnic/src/notify.rs` defines when, `ccnic-control/src/notifier.rs` why it is
//! a socket). The program keeps a copy of the NIC's end, so the pair outlives the NIC and is passed to its
//! successor; a thread that waits on the program's end does not see the change.
//!
//! The NIC's first byte confirms that it has its end. Without it (an older NIC, or one without a free
//! descriptor) the program does not rely on notifications: it sleeps in naps of at most a millisecond.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
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
use ccnic_shm::{NativeMemory, take_part_in_barriers};

/// The first nap; each is twice as long as the one before.
const SHORTEST: Duration = Duration::from_micros(10);
/// The longest nap: the longest delay of a packet when the NIC cannot notify the program.
const LONGEST: Duration = Duration::from_millis(1);

/// The notification socket of a queue pair: wakes the thread that waits on it. Clones refer to the same
/// socket.
///
/// ```
/// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
/// # let directory = tempfile::tempdir().unwrap();
/// # let socket = directory.path().join("nic.sock");
/// # let _nic = test_nic::TestNic::start(&socket, false);
/// # let mut nic = ccnic_client::Nic::open(&socket)?;
/// # let mut pair = nic.queue_pair(0)?;
/// use rustix::event::{PollFd, PollFlags, poll};
///
/// let waiter = pair.waiter().clone();
/// let other = std::thread::spawn(move || waiter.wake()); // it has something for this thread to do
/// poll(&mut [PollFd::new(&pair.waiter().fd()?, PollFlags::IN)], None).unwrap();
/// other.join().unwrap()?;
/// # Ok::<(), ccnic_client::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Waiter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: u16,
    connection: Mutex<Arc<Connection>>,
    /// The program wakes a NIC that sleeps by the same sockets.
    wakes: bool,
    ends: OnceLock<Ends>,
    /// The NIC has confirmed that it has its end.
    confirmed: AtomicBool,
}

#[derive(Debug)]
struct Ends {
    ours: Arc<OwnedFd>,
    /// A copy of the NIC's.
    nics: OwnedFd,
}

/// The descriptor of a queue pair's notifications: see [`QueuePair::fd`](crate::QueuePair::fd). It stays the same when the NIC is replaced,
/// and open as long as this lives. An event loop takes it as it is: with tokio, `AsyncFd::with_interest(notifications, Interest::READABLE)`.
///
/// ```
/// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
/// # let directory = tempfile::tempdir().unwrap();
/// # let socket = directory.path().join("nic.sock");
/// # let _nic = test_nic::TestNic::start(&socket, false);
/// # let mut nic = ccnic_client::Nic::open(&socket)?;
/// # let mut pair = nic.queue_pair(0)?;
/// use rustix::event::{PollFd, PollFlags, poll};
///
/// let notifications = pair.waiter().notifications()?;
/// # let mut burst = ccnic_client::Burst::new();
/// # pair.alloc(64, 1, &mut burst);
/// # pair.tx_burst(&mut burst);
/// while pair.arm()? {
///     poll(&mut [PollFd::new(&notifications, PollFlags::IN)], None).unwrap(); // a loop's turn; `readable().await` of an AsyncFd
/// }
/// assert_eq!(pair.receive(32).len(), 1);
/// # Ok::<(), ccnic_client::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Notifications(Arc<OwnedFd>);

impl AsFd for Notifications {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Notifications {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Ends {
    fn new() -> Result<Ends, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, nics) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(Error::os("make a pair of sockets for notifications"))?;
        Ok(Ends { ours: Arc::new(ours), nics })
    }

    /// Reads all notifications; true when there was one.
    fn drain(&self) -> bool {
        let mut bytes = [0; 256];
        let mut any = false;
        // Bounded: a broken NIC may send without end.
        for _ in 0..16 {
            match recv(&*self.ours, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((_, n)) if n > 0 => any = true,
                _ => break,
            }
        }
        any
    }
}

impl Waiter {
    pub(crate) fn new(queue: u16, connection: Arc<Connection>, wakes: bool) -> Waiter {
        let inner = Inner {
            queue,
            connection: Mutex::new(connection),
            wakes,
            ends: OnceLock::new(),
            confirmed: AtomicBool::new(false),
        };
        Waiter { inner: Arc::new(inner) }
    }

    pub(crate) fn queue(&self) -> u16 {
        self.inner.queue
    }

    fn connection(&self) -> MutexGuard<'_, Arc<Connection>> {
        self.inner.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another NIC serves the queue pair: gives it the NIC's end.
    pub(crate) fn move_to(&self, connection: Arc<Connection>) {
        *self.connection() = connection;
        self.inner.confirmed.store(false, Ordering::Relaxed);
        if let Some(ends) = self.inner.ends.get() {
            ends.drain();
            self.offer(ends);
        }
    }

    /// Sends the NIC its end.
    fn offer(&self, ends: &Ends) {
        let request = Request::Notify { queue: self.inner.queue, wakes: self.inner.wakes };
        // If the NIC has gone, its successor gets it.
        if let Err(e) = self.connection().send_now(&request, Some(ends.nics.as_fd())) {
            tracing::debug!("queue {}: the NIC cannot notify: {e}", self.inner.queue);
        }
    }

    /// What a NIC that sleeps is woken by. From then on it may sleep.
    pub(crate) fn waker(&self) -> Result<Option<Arc<OwnedFd>>, Error> {
        if !self.inner.wakes {
            return Ok(None);
        }
        take_part_in_barriers();
        Ok(Some(Arc::clone(&self.ends()?.ours)))
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

    /// The descriptor that becomes readable with a notification: see [`QueuePair::fd`](crate::QueuePair::fd). [`Waiter`] has an
    /// example.
    ///
    /// The end of the NIC does not show here, but in [`Nic`](crate::Nic)'s own descriptor.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.ends()?.ours.as_fd())
    }

    /// The same descriptor to keep, for a reactor that owns what it waits for. [`Notifications`] has an example.
    ///
    /// # Errors
    /// As [`fd`](Waiter::fd).
    pub fn notifications(&self) -> Result<Notifications, Error> {
        Ok(Notifications(Arc::clone(&self.ends()?.ours)))
    }

    /// Asks the NIC for a notification when there is something to receive on `pair`. False when there is
    /// something already; then nothing is asked.
    ///
    /// # Errors
    /// As [`fd`](Waiter::fd).
    pub(crate) fn arm<R: Ring>(&self, pair: &mut QueuePair<NativeMemory, R>) -> Result<bool, Error> {
        // Old notifications are read before the ring is checked: one that comes later may be for a packet
        // that is not seen here.
        self.consume(self.ends()?);
        Ok(pair.arm())
    }

    /// Reads all notifications; the first of them is the NIC's confirmation.
    fn consume(&self, ends: &Ends) {
        if ends.drain() {
            self.inner.confirmed.store(true, Ordering::Relaxed);
        }
    }

    /// True when the NIC has confirmed that it notifies this program.
    fn confirmed(&self) -> bool {
        self.inner.confirmed.load(Ordering::Relaxed)
    }

    /// Wakes the thread that waits, as a notification of the NIC does. From any thread; for a program that
    /// has something else to do. [`QueuePair::wait`](crate::QueuePair::wait) goes on waiting unless there is
    /// a packet: use it with [`fd`](Waiter::fd). [`Waiter`] has an example.
    ///
    /// # Errors
    /// As [`fd`](Waiter::fd).
    pub fn wake(&self) -> Result<(), Error> {
        // A full socket is readable already.
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
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if self.turn(pair, left, nap, || false)? {
                return Ok(());
            }
            if left == Some(Duration::ZERO) {
                return Err(Error::TimedOut);
            }
            nap = (nap * 2).min(LONGEST);
        }
    }

    /// Sleeps once, unless there is something to receive on `pair` or `ready` says that there is something else.
    ///
    /// # Errors
    /// [`Error::Gone`], or [`Error::Os`] with `EINTR` after a signal.
    pub(crate) fn wait_once<R: Ring>(
        &self,
        pair: &mut QueuePair<NativeMemory, R>,
        timeout: Option<Duration>,
        ready: impl FnOnce() -> bool,
    ) -> Result<(), Error> {
        self.turn(pair, timeout, LONGEST, ready).map(drop)
    }

    /// One sleep, for `nap` at most where the NIC may not notify. True when there is something to receive.
    fn turn<R: Ring>(
        &self,
        pair: &mut QueuePair<NativeMemory, R>,
        timeout: Option<Duration>,
        nap: Duration,
        ready: impl FnOnce() -> bool,
    ) -> Result<bool, Error> {
        // Without a descriptor this thread naps.
        let ends = self.ends().ok();
        // Before the ring and `ready` are looked at: whoever comes after that sends a new notification.
        ends.into_iter().for_each(|ends| self.consume(ends));
        if !pair.arm() {
            return Ok(true);
        }
        if ready() {
            pair.disarm();
            return Ok(false);
        }
        let most = if self.confirmed() { timeout } else { Some(timeout.map_or(nap, |left| left.min(nap))) };
        let slept = self.sleep(ends, most);
        pair.disarm();
        let gone = slept?;
        match (pair.rx_waits(), gone) {
            (false, true) => Err(Error::Gone),
            (waits, _) => Ok(waits),
        }
    }

    /// Blocks until a notification or the end of the NIC, which returns true, or `timeout`.
    fn sleep(&self, ends: Option<&Ends>, timeout: Option<Duration>) -> Result<bool, Error> {
        let connection = Arc::clone(&self.connection());
        let notifier = ends.map_or(connection.as_fd(), |ends| ends.ours.as_fd());
        let mut fds = [PollFd::new(&connection, PollFlags::RDHUP), PollFd::new(&notifier, PollFlags::IN)];
        // A timeout that is too long for the kernel is no timeout.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        poll(&mut fds, timeout.as_ref()).map_err(Error::os("wait for the NIC"))?;
        let [control, notifier] = fds.map(|fd| !fd.revents().is_empty());
        if let (true, Some(ends)) = (notifier, ends) {
            self.consume(ends);
        }
        Ok(control)
    }
}

#[cfg(test)]
mod tests {
    use crate::test_nic::{PATIENCE, TestNic};
    use crate::{Burst, Error, Nic, Pages};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::time::Duration;

    /// True when the descriptor of the queue pair can be read within `timeout`.
    fn readable(pair: &crate::QueuePair, timeout: Duration) -> bool {
        let fd = pair.fd().unwrap();
        let timeout = Timespec::try_from(timeout).unwrap();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() > 0
    }

    #[test]
    fn a_wait_ends_with_its_time() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let _nic = TestNic::start(&socket, false);
        let mut nic = Nic::options().pages(Pages::Small).open(&socket).unwrap();
        let mut pair = nic.queue_pair(0).unwrap();
        assert!(matches!(pair.wait(Duration::ZERO), Err(Error::TimedOut)));
        assert!(matches!(pair.wait(Some(Duration::from_millis(5))), Err(Error::TimedOut)));
    }

    #[test]
    fn the_descriptor_is_readable_after_the_confirmation_a_packet_and_a_wake() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let _nic = TestNic::start(&socket, false);
        let mut nic = Nic::options().pages(Pages::Small).open(&socket).unwrap();
        let mut pair = nic.queue_pair(0).unwrap();
        assert!(readable(&pair, PATIENCE), "the NIC has confirmed");
        assert!(pair.arm().unwrap() && !readable(&pair, Duration::ZERO));
        let mut burst = Burst::new();
        pair.alloc(64, 1, &mut burst);
        pair.tx_burst(&mut burst);
        assert!(readable(&pair, PATIENCE) && !pair.arm().unwrap(), "a packet is there");
        assert_eq!(pair.rx_burst(&mut burst, 32), 1);
        pair.free(&mut burst);
        assert!(pair.arm().unwrap());
        let waiter = pair.waiter().clone();
        std::thread::spawn(move || waiter.wake().unwrap()).join().unwrap();
        assert!(readable(&pair, Duration::ZERO));
    }
}
