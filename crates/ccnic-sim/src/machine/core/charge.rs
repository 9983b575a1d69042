//! When the instructions of a program are charged: one with each access to a word; of those that the program says it has executed the rest
//! after its accesses, or (`spread`) evenly with the lines that it goes to.
//!
//! Evenly is not where they lie either. Of the 5522 that the NIC executes for a burst of 32 (valgrind's lackey, `--trace-mem=yes`), 76 come
//! with each line of a ring that it reads, 55 with the two lines of each packet's payload, 44 with each line of a ring that it writes; but
//! half of them in three blocks that touch no line of the region: 1214 after the ring is read, 940 before the payload, 496 before the ring
//! is written. After the last store there are 55.

use crate::machine::ids::NONE;

/// A core's account of instructions.
#[derive(Debug)]
pub struct Charge {
    /// Instructions are spread over lines.
    spread: bool,
    /// Instructions dispatched since the program last said how many it has executed.
    counted: u64,
    /// Accesses to words since then, and lines that it has gone to.
    accesses: u64,
    lines: u64,
    /// The line of the last access to a word.
    line: u32,
    /// What a line of a burst is charged with besides its accesses: the average of the last bursts.
    share: u64,
    /// The program deals with a burst: its last poll has found something.
    busy: bool,
}

impl Charge {
    /// An account of nothing.
    pub fn new(spread: bool) -> Charge {
        Charge { spread, counted: 0, accesses: 0, lines: 0, line: NONE, share: 0, busy: false }
    }

    /// The instructions to dispatch for an access to a word of a line.
    #[inline]
    pub fn access(&mut self, line: u32) -> u64 {
        let goes_on = std::mem::replace(&mut self.line, line) == line;
        let share = if goes_on { 0 } else { self.go_to_line() };
        self.instruction() + share
    }

    /// The instruction to dispatch for what goes to no line: a prefetch, a demotion, a fence.
    #[inline]
    pub fn instruction(&mut self) -> u64 {
        self.counted += 1;
        self.accesses += 1;
        1
    }

    /// The instructions to dispatch for a line of payload, which needs so many itself.
    #[inline]
    pub fn payload(&mut self, own: u64) -> u64 {
        own + self.go_to_line()
    }

    #[inline]
    fn go_to_line(&mut self) -> u64 {
        self.lines += 1;
        let share = if self.busy { self.share } else { 0 };
        self.counted += share;
        share
    }

    /// So many have been dispatched without an access.
    pub fn count(&mut self, instructions: u64) {
        self.counted += instructions;
    }

    /// The program has dealt with a burst by so many instructions: those to dispatch now.
    pub fn end_burst(&mut self, executed: u64) -> u64 {
        let each = executed.saturating_sub(self.accesses).checked_div(self.lines).unwrap_or(0);
        self.share = if self.share == 0 { each } else { (7 * self.share + each) / 8 };
        (self.accesses, self.lines, self.busy) = (0, 0, self.spread);
        self.rest(executed)
    }

    /// A poll of so many instructions has found nothing: those to dispatch now. `found`: the next one will find something.
    pub fn end_poll(&mut self, executed: u64, found: bool) -> u64 {
        let rest = self.rest(executed);
        if self.spread {
            (self.counted, self.accesses, self.lines, self.busy) = (0, 0, 0, found);
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

    /// Bursts of 100 instructions that go to three lines, one of them payload's; what accesses and ends are charged with.
    fn bursts(spread: bool) -> Vec<(u64, u64)> {
        let mut charge = Charge::new(spread);
        let mut burst = || {
            let words: u64 = [7, 7, 8, 8].map(|line| charge.access(line)).into_iter().sum();
            (words + charge.payload(5), charge.end_burst(100))
        };
        (0..3).map(|_| burst()).collect()
    }

    #[test]
    fn instructions_follow_their_accesses_or_are_spread_over_lines() {
        assert_eq!(bursts(false), [(9, 96); 3]);
        assert_eq!(bursts(true), [(9, 96), (105, 0), (105, 0)]);
    }

    #[test]
    fn an_empty_poll_is_charged_with_its_own() {
        let mut charge = Charge::new(true);
        let accesses: u64 = (0..4).map(|line| charge.access(line)).sum();
        assert_eq!(accesses, 4);
        charge.end_burst(100);
        // The poll after a burst is taken for one of a burst until it has found nothing.
        assert_eq!((charge.access(0), charge.end_poll(20, false)), (25, 0));
        assert_eq!((charge.access(0), charge.access(1), charge.end_poll(20, false)), (1, 1, 18));
        charge.wake();
        assert_eq!(charge.access(2), 25, "what woke it is dealt with");
    }
}
