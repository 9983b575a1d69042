//! Notifications: the NIC's end of the socket that a program waits on, and by which it wakes a NIC that sleeps.
//!
//! # Why a socket, and a stream
//!
//! The program shares the descriptor and can do anything to it, but a thread that polls for many programs must not block on it. An
//! eventfd blocks its writer when its counter is full, unless O_NONBLOCK is set, which is a flag of the shared file: the program can
//! clear it at any time; and the kernel refuses RWF_NOWAIT for eventfds. A socket takes MSG_DONTWAIT with each call. Among sockets, a
//! connected stream cannot be reconnected to another peer, and no BPF filter of the program runs when the NIC sends.
//!
//! One case is left: kernels before 6.9 make every sender to a Unix socket wait while they collect descriptors that were lost in
//! flight, once there are more than 16000 of those on the machine.
//!
//! # Wake-ups are rate-limited per client
//!
//! A program decides how often it wants to be notified, and what waits at its end of the socket decides how long a notification
//! takes: one that wakes a thousand pollers keeps the thread busy for a while. So the CPU time of a notification is charged to the
//! program: for [`REST`] times that time none of its queues is notified again. A notification for an honest program is delayed by some
//! ten microseconds at most; a dishonest program gets at most one part in [`REST`] of a polling core this way. The byte that confirms a
//! notifier is charged like a notification, and waits like one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ccnic::SharedMemory;
use ccnic::nic::NicQueue;
use ccnic::ring::Ring;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, getpeername, recv, send};

use ccnic_shm::thread_time;

/// For so many times as long as a notification took, there is none.
const REST: usize = 8;

/// Notifies the thread of a program that waits for packets on a queue pair. Belongs to the thread that polls the queue.
#[derive(Debug)]
pub struct Notifier {
    /// The thread of the program's connection keeps another reference until the end: closing a program's socket may block, so
    /// dropping a notifier never does that.
    socket: Arc<OwnedFd>,
    budget: Arc<Budget>,
    /// The program has to be told that its queue is watched.
    unconfirmed: bool,
    wakes: bool,
}

/// When any notifier of a program may notify again. Shared by the threads that poll its queues.
#[derive(Debug)]
pub(super) struct Budget {
    start: Instant,
    /// Nanoseconds after `start`.
    next: AtomicUsize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { start: Instant::now(), next: AtomicUsize::new(0) }
    }
}

impl Budget {
    /// Makes a call if it is time, and charges the CPU time that it took. False when it is too early.
    fn spend(&self, call: impl FnOnce()) -> bool {
        let now = self.start.elapsed().as_nanos() as usize;
        // Two threads may both find that it is time: each then makes its call.
        if now < self.next.load(Ordering::Relaxed) {
            return false;
        }
        // This thread's own time: the thread that it wakes may run on this processor meanwhile.
        let before = thread_time();
        call();
        let cost = thread_time().saturating_sub(before);
        self.next.store(now.saturating_add((cost as usize).saturating_mul(REST)), Ordering::Relaxed);
        true
    }
}

impl Notifier {
    /// Takes a descriptor from a program, which `wakes` a NIC that sleeps or does not. The caller keeps a reference until all notifiers
    /// have gone.
    pub(super) fn new(socket: Arc<OwnedFd>, budget: Arc<Budget>, wakes: bool) -> Result<Notifier, String> {
        let unix = socket_domain(&socket).is_ok_and(|domain| domain == AddressFamily::UNIX);
        let stream = socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM);
        if !unix || !stream {
            return Err("the descriptor to notify by is no stream socket of the Unix family".to_owned());
        }
        if getpeername(&socket).is_err() {
            return Err("the socket to notify by is not connected".to_owned());
        }
        Ok(Notifier { socket, budget, unconfirmed: true, wakes })
    }

    /// Tells the program that its queue is watched from now on: one byte, as for a notification. Never blocks.
    ///
    /// [`notify_if_armed`](Notifier::notify_if_armed) does so in its first call, or as soon as it is time for the program's next
    /// notification, so that what the program makes of it costs the time of its own queues.
    pub(super) fn confirm(&mut self) {
        self.unconfirmed = !self.notify();
    }

    /// What the program wakes the NIC by: readable when it has done so. `None` when it does not, or must be told something first.
    pub fn waker(&self) -> Option<BorrowedFd<'_>> {
        (self.wakes && !self.unconfirmed).then(|| self.socket.as_fd())
    }

    /// Takes what the program has sent to wake the NIC: some of it, for it may send without end. Never blocks.
    pub fn take_calls(&self) {
        let _ = recv(&*self.socket, &mut [0; 256], RecvFlags::DONTWAIT);
    }

    fn send(&self) {
        // An error says that the program has gone, or that its socket is full of bytes that it has not read: it is notified.
        let _ = send(&*self.socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Notifies the program if it has armed the queue and there are packets for it. To be called after each poll of the queue, also
    /// after those that moved nothing (see `ccnic::notify`).
    #[inline(always)]
    pub fn notify_if_armed<M: SharedMemory, R: Ring>(&mut self, queue: &mut NicQueue<M, R>) {
        if self.unconfirmed {
            self.confirm();
        }
        if let Some(armed) = queue.needs_notification()
            && self.notify()
        {
            queue.notified(armed);
        }
    }

    #[cold]
    #[inline(never)]
    fn notify(&self) -> bool {
        self.budget.spend(|| self.send())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Keeps this thread busy for so many nanoseconds of its own time.
    fn work(nanoseconds: u64) {
        let end = thread_time() + nanoseconds;
        while thread_time() < end {}
    }

    #[test]
    fn a_notification_is_followed_by_a_rest_of_several_times_its_cost() {
        let budget = Budget::default();
        let (start, mut calls) = (Instant::now(), 0);
        assert!(budget.spend(|| work(2_000_000)));
        while !budget.spend(|| calls += 1) {}
        let passed = start.elapsed().as_millis();
        assert!(passed >= 16, "{passed} ms after a notification that took 2 ms");
        assert_eq!(calls, 1, "only when it was time");
    }

    #[test]
    fn a_socket_that_is_full_or_closed_neither_blocks_nor_fails() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut notifier = Notifier::new(Arc::new(theirs.into()), Arc::default(), false).unwrap();
        (0..100_000).for_each(|_| notifier.send());
        drop(ours);
        notifier.send();
        notifier.confirm();
        assert!(!notifier.unconfirmed);
    }

    /// True when a byte has been sent; takes it.
    fn told(ours: &std::os::unix::net::UnixStream) -> bool {
        ours.set_nonblocking(true).unwrap();
        (&*ours).read(&mut [0; 8]).is_ok_and(|n| n > 0)
    }

    #[test]
    fn a_confirmation_waits_until_the_budget_allows_it() {
        let config = ccnic::Config::default();
        let layout = ccnic::Layout::new(&config).unwrap();
        let mem = ccnic::heap::HeapMemory::new(layout.size());
        ccnic::host::format(&mem, &layout);
        let mut queue = NicQueue::<_, ccnic::ring::GroupedEpoch>::new(mem, &layout, 0).unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let budget = Arc::new(Budget::default());
        let mut notifier = Notifier::new(Arc::new(theirs.into()), Arc::clone(&budget), true).unwrap();
        budget.next.store(usize::MAX, Ordering::Relaxed);
        notifier.confirm();
        (0..1000).for_each(|_| notifier.notify_if_armed(&mut queue));
        assert!(notifier.unconfirmed && !told(&ours), "too early");
        assert!(notifier.waker().is_none(), "no sleep before the program has been told");
        budget.next.store(0, Ordering::Relaxed);
        notifier.notify_if_armed(&mut queue);
        assert!(!notifier.unconfirmed && told(&ours) && notifier.waker().is_some());
        assert!(budget.next.load(Ordering::Relaxed) > 0, "it is charged");
        budget.next.store(0, Ordering::Relaxed);
        notifier.notify_if_armed(&mut queue);
        assert!(!told(&ours), "once");
    }

    #[test]
    fn only_a_connected_stream_is_taken() {
        let why = |fd: OwnedFd| Notifier::new(Arc::new(fd), Arc::default(), false).unwrap_err();
        let (one, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        assert!(why(one.into()).contains("no stream socket"));
        assert!(why(std::fs::File::open("/dev/null").unwrap().into()).contains("no stream socket"));
        let alone = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        assert!(why(alone).contains("not connected"));
    }
}
