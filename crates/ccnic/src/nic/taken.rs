//! Units that a queue has taken from a ring with areas: they are handed back, in order, when their packets have been completed.

/// The most bursts that may be open at once: the one that is delivered, the next one, and one more.
const BURSTS: usize = 4;

/// Bursts taken from the ring and not completed yet.
#[derive(Debug, Default)]
pub(super) struct Taken {
    bursts: [Burst; BURSTS],
    len: usize,
    /// The position in the ring before which all packets have been completed.
    done: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Burst {
    /// Descriptors that have not been completed.
    open: usize,
    /// The position in the ring after the burst.
    end: u64,
}

impl Taken {
    /// False while too many bursts are open to take another one.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.len < BURSTS
    }

    /// A burst of `open` descriptors has been taken, up to the position `end`.
    #[inline(always)]
    pub(super) fn take(&mut self, open: usize, end: u64) {
        if let Some(burst) = self.bursts.get_mut(self.len) {
            *burst = Burst { open, end };
            self.len += 1;
        }
    }

    /// The next `descs` descriptors, in order, have been completed.
    #[inline(always)]
    pub(super) fn complete(&mut self, mut descs: usize) {
        for burst in self.bursts.iter_mut().take(self.len) {
            let now = descs.min(burst.open);
            burst.open -= now;
            descs -= now;
        }
    }

    /// The position before which units may be handed back; `None` if it is where it was at the last call.
    #[inline(always)]
    pub(super) fn release(&mut self) -> Option<u64> {
        let before = self.done;
        while self.len > 0 && self.bursts[0].open == 0 {
            self.done = self.bursts[0].end;
            self.bursts.rotate_left(1);
            self.len -= 1;
        }
        (self.done != before).then_some(self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_handed_back_in_order_when_all_packets_of_their_burst_are_done() {
        let mut taken = Taken::default();
        taken.take(32, 8);
        taken.take(3, 9);
        taken.complete(31);
        assert_eq!(taken.release(), None);
        taken.complete(2);
        assert_eq!((taken.release(), taken.release()), (Some(8), None));
        taken.take(0, 10); // all of it was dropped
        taken.complete(2);
        assert_eq!(taken.release(), Some(10));
    }

    #[test]
    fn four_bursts_may_be_open() {
        let mut taken = Taken::default();
        (1..=4).for_each(|end| taken.take(1, end));
        assert!(!taken.has_room());
        taken.complete(4);
        assert_eq!((taken.release(), taken.has_room()), (Some(4), true));
    }
}
