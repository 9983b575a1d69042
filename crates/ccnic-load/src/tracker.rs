//! Which packets have come back to the load generator, and how long their round trips took.

use hdrhistogram::Histogram;

use crate::LoadError;

/// Sequence numbers sent and received, and round trips. The loopback keeps order, so a number that is too
/// high means lost packets, one that is too low a repetition.
#[derive(Debug)]
pub struct Tracker {
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
    /// Round trips in clock ticks.
    rtt: Histogram<u64>,
    /// The last round trip and the number of consecutive ones equal to it, as those of a burst often are: they are
    /// recorded together.
    run: (u64, u64),
}

impl Tracker {
    pub fn new() -> Result<Tracker, LoadError> {
        let rtt = Histogram::new_with_bounds(1, 1 << 44, 3).map_err(histogram)?;
        Ok(Tracker { next: 0, expected: 0, lost: 0, corrupt: 0, received: 0, rtt, run: (0, 0) })
    }

    /// Packets in flight.
    #[inline(always)]
    pub fn outstanding(&self) -> usize {
        (self.next - self.expected) as usize
    }

    /// Records a packet that came back after `rtt` ticks.
    #[inline(always)]
    pub fn arrived(&mut self, seq: u64, rtt: u64) {
        if seq == self.expected {
            self.expected += 1;
        } else {
            self.out_of_order(seq);
        }
        self.received += 1;
        if rtt == self.run.0 {
            self.run.1 += 1;
        } else {
            self.flush();
            self.run = (rtt, 1);
        }
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

    #[inline(always)]
    fn flush(&mut self) {
        if self.run.1 > 0 {
            self.rtt.saturating_record_n(self.run.0.max(1), self.run.1);
            self.run.1 = 0;
        }
    }

    /// Discards the round trips so far.
    pub fn forget(&mut self) {
        self.flush();
        self.rtt.reset();
    }

    /// The round trips since the last `forget`, each turned into nanoseconds.
    pub fn rtt(&mut self, nanoseconds: impl Fn(u64) -> u64) -> Result<Histogram<u64>, LoadError> {
        self.flush();
        let mut ns = Histogram::new(3).map_err(histogram)?;
        for v in self.rtt.iter_recorded() {
            ns.record_n(nanoseconds(v.value_iterated_to()), v.count_since_last_iteration())
                .map_err(histogram)?;
        }
        Ok(ns)
    }
}

fn histogram(e: impl std::fmt::Display) -> LoadError {
    LoadError::Histogram(e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_losses_and_repetitions_corruption() {
        let mut tracker = Tracker::new().unwrap();
        tracker.next = 10;
        for (seq, rtt) in [(0, 7), (1, 7), (4, 9), (4, 9), (99, 9)] {
            tracker.arrived(seq, rtt);
        }
        assert_eq!((tracker.lost, tracker.corrupt, tracker.received, tracker.outstanding()), (2, 2, 5, 5));
        let rtt = tracker.rtt(|ticks| ticks * 10).unwrap();
        assert_eq!((rtt.len(), rtt.min(), rtt.max()), (5, 70, 90));
        tracker.forget();
        assert_eq!(tracker.rtt(|t| t).unwrap().len(), 0);
    }
}
