//! The packets of one good program, by their numbers: what is under way, what has arrived, what never will.
//!
//! They arrive in order, so one that arrives says that all before it which have not were lost. When nothing comes for a while although all
//! that may be is under way, one more packet is sent, and another after each further while: if one arrives, the program goes on, as one
//! with a retransmission timer would. (One at a time, so that a NIC that only stands still finds no more than fits a ring.)

use super::own_clock::OwnClock;

/// Packets in flight.
pub const WINDOW: usize = 64;
/// Times of sending that are kept: of more packets than are under way, but for a NIC that stands still for seconds.
const KEPT: usize = 4 * WINDOW;
/// One more is sent when the oldest is so many stalls old, ten milliseconds in which the thread had its CPU, and each time that passes again.
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
    /// When one more was sent last, in ticks.
    another: u64,
    /// By number: when it was sent, in ticks.
    sent_at: [u64; KEPT],
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { sent: 0, received: 0, corrupt: 0, next: 0, another: 0, sent_at: [0; KEPT] }
    }
}

impl Flow {
    /// How many packets may be sent now.
    pub fn room(&mut self, clock: &OwnClock) -> usize {
        let under_way = self.sent - self.next;
        if under_way < WINDOW as u64 {
            return WINDOW - under_way as usize;
        }
        let silent = self.age(self.next, clock.now).min(clock.now.saturating_sub(self.another));
        if silent > STALLS * clock.stall {
            self.another = clock.now;
            return 1;
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
    fn when_nothing_comes_one_more_is_sent_at_a_time() {
        let (mut flow, mut clock) = (Flow::default(), OwnClock::new());
        let pause = STALLS * clock.stall;
        send(&mut flow, &clock);
        clock.now += pause;
        assert_eq!(send(&mut flow, &clock), 0, "not yet");
        for _ in 0..3 {
            clock.now += pause + 1;
            assert_eq!((send(&mut flow, &clock), send(&mut flow, &clock)), (1, 0));
        }
        assert!(flow.arrive(Some(5)), "late, but in order");
        assert_eq!(
            (send(&mut flow, &clock), flow.awaited()),
            (3, Some(6)),
            "67 were sent, 6 to 66 are under way"
        );
        assert_eq!(flow.age(6, clock.now), 4 * pause + 3);
        assert!(flow.arrive(Some(66)));
        assert_eq!((send(&mut flow, &clock), flow.sent - flow.received), (WINDOW - 3, 67 + 3 + 61 - 2));
    }
}
