//! Waking programs: a NIC's end of the socket that a program sleeps on.
//!
//! # Why a socket, and a stream
//!
//! The descriptor is the program's, and so is whatever can be done to it: a thread that polls for many programs must not be held up
//! by it. An eventfd blocks its writer when its counter is full, unless O_NONBLOCK is set, which the program shares and can take
//! back at any time; and the kernel refuses RWF_NOWAIT for it. A socket is told with each call not to wait (MSG_DONTWAIT).
//! Of the sockets, a connected stream cannot be pointed at somebody else afterwards, and no filter of the program's runs when it is
//! sent to.
//!
//! What is left: kernels before 6.9 have everybody who sends to a Unix socket wait while they collect descriptors that were lost in
//! flight, once there are more than 16000 of those on the machine.
//!
//! # What ringing may cost
//!
//! A program decides how often it wants to be woken, and, by what waits at its end, how long that takes: a thread that has
//! a thousand pollers woken is busy for a while. So it is charged: for [`REST`] times as long as a ring has kept a thread of the NIC
//! busy, none of the program's queues rings again. An honest program's packets wait for some ten microseconds at most; a
//! dishonest one gets at most one part in [`REST`] of what the NIC has.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ccnic::SharedMemory;
use ccnic::nic::NicQueue;
use ccnic::ring::Ring;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SendFlags, SocketType, getpeername, send};

use ccnic_shm::thread_time;

/// For so many times as long as a ring took, there is none.
const REST: usize = 8;

/// Wakes the thread of a program that sleeps on a queue pair. Belongs to the thread that serves the queue.
#[derive(Debug)]
pub struct Notifier {
    socket: OwnedFd,
    budget: Arc<Budget>,
}

/// When any notifier of a program may ring again.
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
    /// Makes a call if it is time, and takes note of what it cost. False when it is too early.
    fn spend(&self, call: impl FnOnce()) -> bool {
        let now = self.start.elapsed().as_nanos() as usize;
        // Two threads may both find that it is time: each then charges what it has spent.
        if now < self.next.load(Ordering::Relaxed) {
            return false;
        }
        // Not the time in which the thread that it wakes has this processor.
        let before = thread_time();
        call();
        let cost = thread_time().saturating_sub(before);
        self.next.store(now.saturating_add((cost as usize).saturating_mul(REST)), Ordering::Relaxed);
        true
    }
}

impl Notifier {
    /// Takes a descriptor from a program.
    pub(super) fn new(socket: OwnedFd, budget: Arc<Budget>) -> Result<Notifier, String> {
        let unix = socket_domain(&socket).is_ok_and(|domain| domain == AddressFamily::UNIX);
        let stream = socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM);
        if !unix || !stream {
            return Err("the descriptor to notify by is no stream socket of the Unix family".to_owned());
        }
        if getpeername(&socket).is_err() {
            return Err("the socket to notify by is not connected".to_owned());
        }
        Ok(Notifier { socket, budget })
    }

    /// Says that the queue is looked at from now on.
    pub fn answer(&self) {
        // A program that has gone, or whose socket is full of what it has not read, has all the news it can have.
        let _ = send(&self.socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Looks whether the program sleeps while there are packets for it, and wakes it. To be called after each turn of the queue, also
    /// of those that moved nothing.
    #[inline(always)]
    pub fn look<M: SharedMemory, R: Ring>(&self, queue: &mut NicQueue<M, R>) {
        if let Some(sleep) = queue.needs_notification()
            && self.ring()
        {
            queue.notified(sleep);
        }
    }

    #[cold]
    #[inline(never)]
    fn ring(&self) -> bool {
        self.budget.spend(|| self.answer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps this thread busy for so many nanoseconds of its own time.
    fn work(nanoseconds: u64) {
        let end = thread_time() + nanoseconds;
        while thread_time() < end {}
    }

    #[test]
    fn ringing_rests_as_many_times_as_long_as_it_took() {
        let budget = Budget::default();
        let (start, mut rung) = (Instant::now(), 0);
        assert!(budget.spend(|| work(2_000_000)));
        while !budget.spend(|| rung += 1) {}
        let passed = start.elapsed().as_millis();
        assert!(passed >= 16, "{passed} ms after a ring that took 2 ms");
        assert_eq!(rung, 1, "only when it was time");
    }

    #[test]
    fn a_ring_for_a_socket_that_is_full_or_closed_neither_waits_nor_fails() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let notifier = Notifier::new(theirs.into(), Arc::default()).unwrap();
        (0..100_000).for_each(|_| notifier.answer());
        drop(ours);
        notifier.answer();
    }

    #[test]
    fn what_is_no_connected_stream_is_no_bell() {
        let why = |fd: OwnedFd| Notifier::new(fd, Arc::default()).unwrap_err();
        let (one, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        assert!(why(one.into()).contains("no stream socket"));
        assert!(why(std::fs::File::open("/dev/null").unwrap().into()).contains("no stream socket"));
        let alone = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        assert!(why(alone).contains("not connected"));
    }
}
