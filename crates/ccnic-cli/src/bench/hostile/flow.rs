//! The packets of one good program, by their numbers: what is under way, what has arrived, what never will.
//!
//! They arrive in order, so one that arrives says that all before it which have not were lost. When nothing comes for a while all that
//! is under way is given up, and others are sent in its place: a program whose packets the NIC drops goes on, as one with a
//! retransmission timer would. What comes later nevertheless has arrived.

use super::own_clock::OwnClock;

/// Packets in flight.
pub const WINDOW: usize = 64;
/// Times of sending that are kept: of more packets than can be under way, given up or not.
const KEPT: usize = 4 * WINDOW;
/// Packets under way are given up when the oldest is so many stalls old: ten milliseconds in which the thread had its CPU.
const STALLS: u64 = 10;

/// What a program has sent, and what became of it.
#[derive(Debug)]
pub struct Flow {
    pub sent: u64,
    /// Packets that arrived, whole and in order.
    pub received: u64,
    /// Packets that arrived damaged, twice or out of order.
    pub corrupt: u64,
    /// The number after that of the last packet that arrived.
    next: u64,
    /// Packets before this number are not waited for.
    given_up: u64,
    /// By number: when it was sent, in ticks.
    sent_at: [u64; KEPT],
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { sent: 0, received: 0, corrupt: 0, next: 0, given_up: 0, sent_at: [0; KEPT] }
    }
}

impl Flow {
    /// How many packets may be sent now.
    pub fn room(&mut self, clock: &OwnClock) -> usize {
        let oldest = self.next.max(self.given_up);
        let under_way = self.sent - oldest;
        if under_way < WINDOW as u64 {
            return WINDOW - under_way as usize;
        }
        if self.age(oldest, clock.now) > STALLS * clock.stall {
            self.given_up = self.sent;
            return WINDOW;
        }
        0
    }

    /// A packet with the next number is about to be sent.
    pub fn stamp(&mut self, seq: u64, now: u64) {
        if let Some(at) = self.sent_at.get_mut(seq as usize % KEPT) {
            *at = now;
        }
    }

    /// A packet has come, with this number if it is whole. Says whether it has arrived in order.
    pub fn arrive(&mut self, number: Option<u64>) -> bool {
        let Some(number) = number.filter(|number| (self.next..self.sent).contains(number)) else {
            self.corrupt += 1;
            return false;
        };
        self.received += 1;
        self.next = number + 1;
        true
    }

    /// The number of the oldest packet that may still arrive; none when there is none.
    pub fn awaited(&self) -> Option<u64> {
        (self.next < self.sent).then_some(self.next)
    }

    /// How long ago, in ticks, a packet was sent.
    pub fn age(&self, seq: u64, now: u64) -> u64 {
        now.saturating_sub(self.sent_at.get(seq as usize % KEPT).copied().unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends as many as there is room for.
    fn send(flow: &mut Flow, clock: &OwnClock) -> usize {
        let room = flow.room(clock);
        (0..room as u64).for_each(|n| flow.stamp(flow.sent + n, clock.now));
        flow.sent += room as u64;
        room
    }

    #[test]
    fn a_gap_is_room_for_others() {
        let (mut flow, clock) = (Flow::default(), OwnClock::new());
        assert_eq!((send(&mut flow, &clock), send(&mut flow, &clock)), (WINDOW, 0));
        assert!(flow.arrive(Some(0)) && flow.arrive(Some(9)), "1 to 8 are lost");
        assert_eq!(send(&mut flow, &clock), 10);
        for wrong in [Some(9), Some(3), Some(74), None] {
            assert!(!flow.arrive(wrong), "{wrong:?}");
        }
        assert!((10..74).all(|n| flow.arrive(Some(n))));
        assert_eq!((flow.sent - flow.received, flow.corrupt, flow.awaited()), (8, 4, None));
    }

    #[test]
    fn what_does_not_come_is_given_up_and_counts_if_it_comes_late() {
        let (mut flow, mut clock) = (Flow::default(), OwnClock::new());
        send(&mut flow, &clock);
        clock.now += STALLS * clock.stall;
        assert_eq!(send(&mut flow, &clock), 0, "not yet");
        clock.now += 1;
        assert_eq!((send(&mut flow, &clock), send(&mut flow, &clock)), (WINDOW, 0));
        assert!(flow.arrive(Some(5)), "of those that were given up");
        assert_eq!(send(&mut flow, &clock), 0, "the others are under way");
        assert_eq!((flow.awaited(), flow.age(6, clock.now)), (Some(6), STALLS * clock.stall + 1));
        assert!(flow.arrive(Some(127)));
        assert_eq!((flow.awaited(), send(&mut flow, &clock)), (None, WINDOW));
    }
}
