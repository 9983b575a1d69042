//! The load generator's book: which packets have come back, and how long each was under way.

use hdrhistogram::Histogram;

use crate::LoadError;

/// What has been sent and received. The loopback keeps order, so a number too high means packets lost, one too low a
/// repetition.
#[derive(Debug)]
pub struct Book {
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
    /// A round trip and how many in a row were equal: packets of a burst often are, and are recorded at once.
    run: (u64, u64),
}

impl Book {
    pub fn new() -> Result<Book, LoadError> {
        let rtt = Histogram::new_with_bounds(1, 1 << 44, 3).map_err(histogram)?;
        Ok(Book { next: 0, expected: 0, lost: 0, corrupt: 0, received: 0, rtt, run: (0, 0) })
    }

    /// Packets under way.
    #[inline(always)]
    pub fn outstanding(&self) -> usize {
        (self.next - self.expected) as usize
    }

    /// Books a packet that came back after `rtt` ticks.
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

    /// Forgets the round trips so far.
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
        let mut book = Book::new().unwrap();
        book.next = 10;
        for (seq, rtt) in [(0, 7), (1, 7), (4, 9), (4, 9), (99, 9)] {
            book.arrived(seq, rtt);
        }
        assert_eq!((book.lost, book.corrupt, book.received, book.outstanding()), (2, 2, 5, 5));
        let rtt = book.rtt(|ticks| ticks * 10).unwrap();
        assert_eq!((rtt.len(), rtt.min(), rtt.max()), (5, 70, 90));
        book.forget();
        assert_eq!(book.rtt(|t| t).unwrap().len(), 0);
    }
}
