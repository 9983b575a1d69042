//! Which packets have come back to the load generator, and how long their round trips took.

use hdrhistogram::Histogram;

use crate::times::Times;
use crate::{LoadError, payload};

/// The most packets of a receive burst.
pub const BURST: usize = 32;

/// Sequence numbers sent and received, and round trips. The loopback keeps order, so a number that is too
/// high means lost packets, one that is too low a repetition.
#[derive(Debug)]
pub struct Tracker<const N: usize = 0> {
    /// What packets that come back begin with.
    header: payload::Header<N>,
    /// Bytes of a packet.
    size: usize,
    /// The number of the next packet to send.
    pub next: u64,
    /// The number of the next packet to come back.
    pub expected: u64,
    /// Packets sent and never received.
    pub lost: u64,
    /// Packets that came back damaged, twice or out of order.
    pub corrupt: u64,
    /// Packets that came back.
    pub received: u64,
    /// Packets of this burst, by the time when they were sent: those of a transmit burst have the same, and mostly come
    /// back together. `current` is the last of these runs.
    runs: [Run; BURST],
    full: usize,
    current: Run,
    /// Of a packet that is being received: the time when it was sent, its number, the bytes so far.
    open: (u64, u64, usize),
    /// Round trips in clock ticks.
    rtt: Times,
}

/// Packets in a row that were sent at the same time.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    time: u64,
    packets: u64,
}

impl<const N: usize> Tracker<N> {
    /// For packets of `size` bytes that come back with this header.
    pub fn new(size: u16, header: payload::Header<N>) -> Tracker<N> {
        Tracker {
            header,
            size: size.into(),
            next: 0,
            expected: 0,
            lost: 0,
            corrupt: 0,
            received: 0,
            runs: [Run::default(); BURST],
            full: 0,
            current: Run::default(),
            open: (0, 0, 0),
            rtt: Times::new(),
        }
    }

    /// Packets in flight.
    #[inline(always)]
    pub fn outstanding(&self) -> usize {
        (self.next - self.expected) as usize
    }

    /// So many packets are sent at this time. If none is in flight, they are the next to come back.
    #[inline(always)]
    pub fn sent(&mut self, packets: usize, now: u64) {
        if self.next == self.expected && self.current.packets == 0 {
            self.current = Run { time: now, packets: 0 };
        }
        self.next += packets as u64;
    }

    /// A packet of one segment came back: reads and checks every byte of it. At most [`BURST`] before
    /// [`finish`](Tracker::finish).
    ///
    /// Nearly every packet is the one that is expected, sent at the same time as the one before: one comparison of the
    /// whole packet tells. The time of a long packet is looked at before, as comparing it twice takes longer.
    #[inline(always)]
    pub fn packet(&mut self, bytes: &[u8]) {
        if self.size > payload::LINE
            && let Some((time, _)) = payload::stamps_after::<N>(bytes)
            && time != self.current.time
        {
            self.next_run(time);
        }
        let intact = bytes.len() == self.size
            && payload::matches(&self.header, bytes, 0, self.expected, self.current.time);
        if intact {
            (self.expected, self.current.packets) = (self.expected + 1, self.current.packets + 1);
        } else {
            self.other_packet(bytes);
        }
    }

    /// A packet that was sent at another time, or is not the one that is expected.
    #[inline(never)]
    fn other_packet(&mut self, bytes: &[u8]) {
        self.segment(bytes, false);
    }

    /// A segment of a packet came back, the last one unless `more` follow: reads and checks every byte of it.
    #[inline(always)]
    pub fn segment(&mut self, bytes: &[u8], more: bool) {
        let (mut time, mut seq, mut at) = self.open;
        if at == 0 {
            (time, seq) = payload::stamps_after::<N>(bytes).unwrap_or((0, u64::MAX));
        }
        self.corrupt += u64::from(!payload::check_after(&self.header, bytes, at, seq));
        at += bytes.len();
        self.open = (time, seq, if more { at } else { 0 });
        if !more {
            self.corrupt += u64::from(at != self.size);
            self.arrived(seq, time);
        }
    }

    /// A packet came back that was sent at this time.
    #[inline(always)]
    fn arrived(&mut self, seq: u64, time: u64) {
        if seq == self.expected {
            self.expected += 1;
        } else {
            self.out_of_order(seq);
        }
        if time != self.current.time {
            self.next_run(time);
        }
        self.current.packets += 1;
    }

    #[inline(always)]
    fn next_run(&mut self, time: u64) {
        if self.current.packets > 0
            && let Some(run) = self.runs.get_mut(self.full)
        {
            *run = self.current;
            self.full += 1;
        }
        self.current = Run { time, packets: 0 };
    }

    #[cold]
    fn out_of_order(&mut self, seq: u64) {
        if seq > self.expected && seq < self.next {
            self.lost += seq - self.expected;
            self.expected = seq + 1;
        } else {
            self.corrupt += 1;
        }
    }

    /// The end of a receive burst, at this time: records the round trips.
    #[inline(always)]
    pub fn finish(&mut self, now: u64) {
        for run in self.runs.get(..self.full).unwrap_or_default() {
            self.rtt.record(now.saturating_sub(run.time), run.packets);
            self.received += run.packets;
        }
        self.rtt.record(now.saturating_sub(self.current.time), self.current.packets);
        self.received += self.current.packets;
        (self.full, self.current.packets) = (0, 0);
    }

    /// Discards the round trips so far.
    pub fn forget(&mut self) {
        self.rtt.clear();
    }

    /// The round trips since the last `forget`, each turned into nanoseconds.
    pub fn rtt(&self, nanoseconds: &dyn Fn(u64) -> u64) -> Result<Histogram<u64>, LoadError> {
        self.rtt.histogram(nanoseconds).map_err(LoadError::Histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u64, time: u64) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        payload::fill(&mut bytes, 0, seq, time);
        bytes
    }

    #[test]
    fn gaps_are_losses_and_repetitions_corruption() {
        let mut tracker = Tracker::new(64, payload::NO_HEADER);
        tracker.next = 10;
        for (seq, time) in [(0, 93), (1, 93), (4, 91), (4, 91), (99, 91)] {
            tracker.packet(&packet(seq, time));
        }
        tracker.finish(100);
        assert_eq!((tracker.lost, tracker.corrupt, tracker.received, tracker.outstanding()), (2, 2, 5, 5));
        let rtt = tracker.rtt(&|ticks| ticks * 10).unwrap();
        assert_eq!((rtt.len(), rtt.min(), rtt.max()), (5, 70, 90));
        tracker.forget();
        assert_eq!(tracker.rtt(&|t| t).unwrap().len(), 0);
    }

    #[test]
    fn every_packet_of_a_burst_has_its_own_round_trip() {
        let mut tracker = Tracker::new(64, payload::NO_HEADER);
        tracker.next = 100;
        for burst in 0..3 {
            (0..BURST as u64).for_each(|i| tracker.packet(&packet(burst * BURST as u64 + i, 500 + i)));
            tracker.finish(1000);
        }
        let rtt = tracker.rtt(&|t| t).unwrap();
        assert_eq!((tracker.received, tracker.corrupt, rtt.len()), (96, 0, 96));
        assert!((469..=500).all(|ns| rtt.count_at(ns) == 3));
    }

    #[test]
    fn damage_and_a_wrong_length_are_counted_once() {
        let mut tracker = Tracker::new(64, payload::NO_HEADER);
        tracker.next = 10;
        let (mut damaged, mut long) = (packet(0, 5), packet(1, 5));
        damaged[63] ^= 1;
        long.resize(72, 0);
        payload::fill(&mut long, 0, 1, 5);
        for bytes in [&damaged, &long, &packet(2, 5)] {
            tracker.packet(bytes);
        }
        tracker.finish(9);
        assert_eq!((tracker.corrupt, tracker.lost, tracker.received), (2, 0, 3));
    }

    #[test]
    fn segments_are_put_together() {
        let mut tracker = Tracker::new(5000, payload::NO_HEADER);
        tracker.next = 2;
        let mut bytes = vec![0; 5000];
        for (seq, corrupt) in [(0, 0), (1, 1)] {
            payload::fill(&mut bytes[..4096], 0, seq, 3);
            payload::fill(&mut bytes[4096..], 4096, seq, 3);
            bytes[4999] ^= corrupt;
            tracker.segment(&bytes[..4096], true);
            tracker.segment(&bytes[4096..], false);
        }
        tracker.finish(4);
        assert_eq!((tracker.corrupt, tracker.received, tracker.outstanding()), (1, 2, 0));
    }
}
