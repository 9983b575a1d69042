//! When the instructions of a program are charged: one with each access to a word; of those that the program says it has executed the rest
//! after its accesses, or (`spread`) evenly with them, as they lie between them in the code.

/// A core's account of instructions.
#[derive(Debug, Default)]
pub struct Charge {
    /// Instructions are spread over accesses.
    spread: bool,
    /// Instructions dispatched since the program last said how many it has executed.
    counted: u64,
    /// Accesses to words since then.
    accesses: u64,
    /// What an access of a burst is charged with besides itself: the average of the last bursts.
    share: u64,
    /// The program deals with a burst: its last poll has found something.
    busy: bool,
}

impl Charge {
    /// An account of nothing.
    pub fn new(spread: bool) -> Charge {
        Charge { spread, ..Charge::default() }
    }

    /// The instructions to dispatch for an access to a word.
    #[inline]
    pub fn access(&mut self) -> u64 {
        let instructions = if self.busy { 1 + self.share } else { 1 };
        self.counted += instructions;
        self.accesses += 1;
        instructions
    }

    /// So many have been dispatched without an access.
    pub fn count(&mut self, instructions: u64) {
        self.counted += instructions;
    }

    /// The program has dealt with a burst by so many instructions: those to dispatch now.
    pub fn end_burst(&mut self, executed: u64) -> u64 {
        let each = executed.checked_div(self.accesses).unwrap_or(0).saturating_sub(1);
        self.share = if self.share == 0 { each } else { (7 * self.share + each) / 8 };
        (self.accesses, self.busy) = (0, self.spread);
        self.rest(executed)
    }

    /// A poll of so many instructions has found nothing: those to dispatch now. `found`: the next one will find something.
    pub fn end_poll(&mut self, executed: u64, found: bool) -> u64 {
        let rest = self.rest(executed);
        if self.spread {
            (self.counted, self.accesses, self.busy) = (0, 0, found);
        }
        rest
    }

    /// A sleeping poll has been woken by what it waits for.
    pub fn wake(&mut self) {
        self.busy = self.spread;
    }

    /// Of those executed, what has not been dispatched. What has been dispatched beyond them is left for the next time.
    fn rest(&mut self, executed: u64) -> u64 {
        let rest = executed.saturating_sub(self.counted);
        self.counted = self.counted.saturating_sub(executed);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of 100 instructions with four accesses each; what accesses and ends are charged with.
    fn bursts(spread: bool) -> Vec<(u64, u64)> {
        let mut charge = Charge::new(spread);
        let mut burst = || {
            let accesses = (0..4).map(|_| charge.access()).sum();
            (accesses, charge.end_burst(100))
        };
        (0..3).map(|_| burst()).collect()
    }

    #[test]
    fn instructions_follow_their_accesses_or_are_spread_over_them() {
        assert_eq!(bursts(false), [(4, 96); 3]);
        assert_eq!(bursts(true), [(4, 96), (100, 0), (100, 0)]);
    }

    #[test]
    fn an_empty_poll_is_charged_with_its_own() {
        let mut charge = Charge::new(true);
        let accesses: u64 = (0..4).map(|_| charge.access()).sum();
        assert_eq!(accesses, 4);
        charge.end_burst(100);
        // The poll after a burst is taken for one of a burst until it has found nothing.
        assert_eq!((charge.access(), charge.end_poll(20, false)), (25, 0));
        assert_eq!((charge.access(), charge.end_poll(20, false)), (1, 19));
        charge.wake();
        assert_eq!(charge.access(), 25, "what woke it is dealt with");
    }
}
