//! Notification: how a side that has stopped polling is notified of packets (virtio's event index).
//!
//! One word per queue pair and direction, on a line that only the waiting side writes: `rx_event` is a program's that waits for packets
//! to receive, `tx_event` is a NIC's that sleeps. The word is 0 when no notification is wanted, otherwise one more than the position in
//! the ring up to which the waiting side, the consumer, has taken everything. A producer that has published beyond that position, and
//! has not yet answered this request, notifies the consumer. How it does is the operating system's part (`ccnic-control`,
//! `ccnic-client`).
//!
//! # No packet is missed: a program waits
//!
//! The program stores the word (H1), checks the ring once more, and waits. The NIC publishes a packet and
//! then loads the word (H2). There is no fence between the two accesses of either side, so both may miss the
//! other's store while it is in a store buffer. The store becomes visible after a bounded time, and the NIC
//! loads the word again in its next poll, also in one that moves nothing. Its own position is private and up
//! to date, so one of these loads finds the request. While the word does not change its line stays in the
//! NIC's cache, and a load of it is a cache hit. So a NIC that notifies programs polls for a while before it sleeps itself.
//!
//! The successor of a NIC that died has answered no request, so it notifies a program that was waiting when
//! its predecessor died.
//!
//! # No packet is missed: the NIC sleeps
//!
//! A program does not poll: after it has sent a burst it may not call for a long time. So here one load must be enough. The NIC stores
//! the words of all its queues (I1), makes every thread of every program execute a full fence
//! ([`heavy_barrier`](SharedMemory::heavy_barrier): `membarrier`), checks all rings once more, and sleeps. The program publishes and
//! loads the word (I2), in this order for the compiler ([`light_barrier`](SharedMemory::light_barrier)). If its load came before that
//! fence, what it has published is visible after it, to the NIC's last check; if it came after, it finds the request. So a burst costs
//! the program a load of a line that stays in its cache, and no fence.

use crate::memory::SharedMemory;
use crate::ring::{Consumer, Producer};

/// A request for a notification: the value of `rx_event` or `tx_event`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Armed(u64);

/// Consumer: requests a notification for the next packet in `ring`, whether there is one already or not.
pub fn request<M: SharedMemory, C: Consumer>(mem: &M, at: u32, ring: &C) {
    mem.store_release(at, ring.position() + 1); // H1, I1
}

/// Host: requests a notification for the next packet in `ring`. False when there is one already; then the
/// request is withdrawn.
///
/// Call it after old notifications have been consumed, not before: one that comes later may be for a packet
/// that is published now.
pub fn arm<M: SharedMemory, C: Consumer>(mem: &M, at: u32, ring: &C) -> bool {
    request(mem, at, ring);
    let armed = !ring.ready(mem);
    if !armed {
        disarm(mem, at);
    }
    armed
}

/// Consumer: withdraws the request.
pub fn disarm<M: SharedMemory>(mem: &M, at: u32) {
    mem.store_release(at, 0); // H1, I1
}

/// Producer: whether the consumer of a ring has to be notified.
#[derive(Debug)]
pub struct NotifyState {
    at: u32,
    /// The last request that was answered; 0 before the first.
    answered: u64,
}

impl NotifyState {
    /// For the `rx_event` or `tx_event` word at `at`.
    pub fn new(at: u32) -> NotifyState {
        NotifyState { at, answered: 0 }
    }

    /// The request that is due: it has not been answered, and `ring` has been published beyond its position.
    #[inline(always)]
    pub fn needs_notification<M: SharedMemory, R: Producer>(&self, mem: &M, ring: &R) -> Option<Armed> {
        let word = mem.load_acquire(self.at); // H2, I2
        // 0, no request, becomes a position that is never reached.
        (word.wrapping_sub(1) < ring.position() && word != self.answered).then_some(Armed(word))
    }

    /// This request has been answered. (The word may hold the next request by now.)
    pub fn notified(&mut self, armed: Armed) {
        self.answered = armed.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::Desc;
    use crate::heap::HeapMemory;
    use crate::layout::RingLayout;
    use crate::ring::{GroupedEpoch, Ring};

    #[test]
    fn each_request_is_answered_once_and_a_successor_answers_again() {
        const RING: RingLayout =
            RingLayout { units: 4096, areas: 0, count: 16, tail: 0, head: 64, taken: 128 };
        const EVENT: u32 = 192;
        let mem = HeapMemory::new(8192);
        let mut nic = <GroupedEpoch as Ring>::Producer::resume(&mem, &RING);
        let mut host = <GroupedEpoch as Ring>::Consumer::resume(&mem, &RING);
        let mut state = NotifyState::new(EVENT);
        for _ in 0..40 {
            assert!(arm(&mem, EVENT, &host));
            assert_eq!(state.needs_notification(&mem, &nic), None, "nothing is published");
            nic.push(&mem, &[Desc::new(1, 1, 0)]);
            let armed = state.needs_notification(&mem, &nic).unwrap();
            assert_eq!(NotifyState::new(EVENT).needs_notification(&mem, &nic), Some(armed), "a successor");
            state.notified(armed);
            assert_eq!(state.needs_notification(&mem, &nic), None);
            assert!(!arm(&mem, EVENT, &host) && mem.load(EVENT) == 0, "a packet is there");
            assert_eq!(host.pop(&mem, &mut [Desc::default(); 4]), 1);
            host.release(&mem);
        }
    }
}
