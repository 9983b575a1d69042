//! What a queue pair waits for: something to receive, by blocking, by a descriptor or by polling.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{ByDesign, QueuePair};
use crate::error::Error;
use crate::waiter::Waiter;

impl QueuePair {
    /// Blocks until there is something to receive. Poll [`rx_burst`](QueuePair::rx_burst) for a while first:
    /// a sleep and a wake-up take longer than a round trip. `None` waits without a limit.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use std::time::Duration;
    ///
    /// use ccnic_client::{Burst, Error};
    ///
    /// let mut burst = Burst::new();
    /// assert!(matches!(pair.wait(Duration::from_millis(1)), Err(Error::TimedOut))); // nothing was sent
    /// pair.alloc(64, 1, &mut burst);
    /// pair.tx_burst(&mut burst);
    /// while pair.rx_burst(&mut burst, 32) == 0 {
    ///     pair.wait(Duration::from_secs(10))?;
    /// }
    /// pair.free(&mut burst);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TimedOut`] after `timeout`. [`Error::Gone`] when the NIC has gone and nothing is left to
    /// receive. [`Error::Os`] with `EINTR` after a signal.
    pub fn wait(&mut self, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        let (waiter, timeout) = (&self.waiter, timeout.into());
        each!(&mut self.pair, pair => waiter.wait(pair, timeout))
    }

    /// Sleeps once: until there is something to receive, another thread calls [`Waiter::wake`], or the timeout is over, which
    /// is no error. For a program that is also told things in memory: it looks for them in `ready`, which is asked once
    /// before the sleep; whoever tells them after that, and then wakes this thread, is not missed.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use std::sync::mpsc::channel;
    ///
    /// let (waiter, (tell, told)) = (pair.waiter().clone(), channel());
    /// let other = std::thread::spawn(move || {
    ///     tell.send(7).unwrap();
    ///     waiter.wake()
    /// });
    /// let mut news = None;
    /// while news.is_none() {
    ///     pair.wait_once(None, || {
    ///         news = told.try_recv().ok();
    ///         news.is_some()
    ///     })?;
    /// }
    /// other.join().unwrap()?;
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Gone`] when the NIC has gone and nothing is left to receive. [`Error::Os`] with `EINTR` after a signal.
    pub fn wait_once(
        &mut self,
        timeout: impl Into<Option<Duration>>,
        ready: impl FnOnce() -> bool,
    ) -> Result<(), Error> {
        let (waiter, timeout) = (&self.waiter, timeout.into());
        each!(&mut self.pair, pair => waiter.wait_once(pair, timeout, ready))
    }

    /// Asks the NIC for a notification: [`fd`](QueuePair::fd) becomes readable when there is something to
    /// receive. False when there is something already; then nothing is asked. Call it before each sleep in
    /// `poll` or `epoll_wait`.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use ccnic_client::Burst;
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// let mut burst = Burst::new();
    /// pair.alloc(64, 1, &mut burst);
    /// pair.tx_burst(&mut burst);
    /// while pair.rx_burst(&mut burst, 32) == 0 {
    ///     if pair.arm()? {
    ///         // A program adds its other descriptors here.
    ///         poll(&mut [PollFd::new(&pair.fd()?, PollFlags::IN)], None).unwrap();
    ///         pair.disarm();
    ///     }
    /// }
    /// pair.free(&mut burst);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`fd`](QueuePair::fd).
    pub fn arm(&mut self) -> Result<bool, Error> {
        let waiter = &self.waiter;
        each!(&mut self.pair, pair => waiter.arm(pair))
    }

    /// Withdraws the request of [`arm`](QueuePair::arm), which has an example. A notification may already be under
    /// way.
    pub fn disarm(&mut self) {
        each!(&mut self.pair, pair => pair.disarm());
    }

    /// The descriptor that becomes readable when there is something to receive after [`arm`](QueuePair::arm):
    /// for a program that waits for several things at once. It stays the same with the NIC's successor; the
    /// bytes in it mean nothing. [`arm`](QueuePair::arm) has an example.
    ///
    /// It does not show that the NIC has gone: [`Nic`](crate::Nic)'s own descriptor does.
    ///
    /// # Errors
    /// [`Error::Os`] when the system has no descriptor left.
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.waiter.fd()
    }

    /// A handle with which another thread wakes the one that waits on this queue pair. Example: [`Waiter`].
    pub fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// True when there is something to receive. Example: [`tx_waiting`](QueuePair::tx_waiting).
    pub fn rx_waits(&self) -> bool {
        each!(&self.pair, pair => pair.rx_waits())
    }

    /// As [`ccnic::host::QueuePair::rx_poll`]: false when there is nothing to receive. Example: there.
    #[inline]
    pub fn rx_poll(&mut self) -> bool {
        each!(&mut self.pair, pair => pair.rx_poll())
    }

    /// As [`ccnic::host::QueuePair::rx_watch`]: the word that the NIC writes with the next packet. Example: there.
    pub fn rx_watch(&self) -> Option<(u32, u64)> {
        each!(&self.pair, pair => pair.rx_watch())
    }

    /// Buffers that can be received now. Reads the whole ring: not for every burst. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    pub fn rx_ready(&self) -> usize {
        each!(&self.pair, pair => pair.rx_ready())
    }

    /// Buffers handed to the NIC that it has not taken yet. Reads the whole ring: not for every burst.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use ccnic_client::{Burst, HostDrops};
    ///
    /// let mut burst = Burst::new();
    /// pair.alloc(64, 16, &mut burst);
    /// assert!(pair.tx_room() >= 16);
    /// pair.tx_burst(&mut burst);
    /// while pair.tx_waiting() > 0 || pair.rx_ready() < 16 {
    ///     pair.relax(); // the loopback NIC is busy with them
    /// }
    /// assert!(pair.rx_waits() && pair.drops() == HostDrops::default() && pair.config().queues == 1);
    /// assert_eq!(pair.rx_burst(&mut burst, 32), 16);
    /// pair.free(&mut burst);
    /// pair.retire(); // the buffers that it keeps are in the pool, for other queue pairs
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    pub fn tx_waiting(&self) -> usize {
        each!(&self.pair, pair => pair.tx_waiting())
    }

    /// Pauses the processor for a moment: call it in each empty poll. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    #[inline]
    pub fn relax(&self) {
        each!(&self.pair, pair => pair.relax());
    }
}
