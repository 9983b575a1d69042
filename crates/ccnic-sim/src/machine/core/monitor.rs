//! What a core watches while it polls.

use crate::kernel::time::Ps;

/// A loop that loads more lines than this spins.
pub const LINES_MAX: usize = 64;

/// What a core watches while it polls.
#[derive(Debug)]
pub struct Monitor {
    /// Lines loaded since the last empty poll or burst.
    pub lines: Vec<u32>,
    /// One of them has been invalidated, or has come.
    pub triggered: bool,
    /// What that costs when the loop sees it.
    pub penalty: Ps,
    /// Empty polls since the core has slept.
    pub spins: u32,
    /// It has slept: the poll that it slept in is over.
    pub slept: bool,
    /// When the last empty poll ended, and the shortest time between two: that of polling alone.
    pub last_poll: Ps,
    pub period: Ps,
    /// When the program has something to do whatever its lines hold.
    pub deadline: Option<Ps>,
}

impl Default for Monitor {
    fn default() -> Monitor {
        Monitor {
            lines: Vec::new(),
            triggered: false,
            penalty: 0,
            spins: 0,
            slept: false,
            last_poll: 0,
            period: Ps::MAX,
            deadline: None,
        }
    }
}

impl Monitor {
    /// Watches a line.
    #[inline]
    pub fn watch(&mut self, line: u32) {
        if self.lines.last() != Some(&line) && self.lines.len() <= LINES_MAX && !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// The time that a control-dependent load takes longer because a watched line changed.
    #[inline]
    pub fn take_penalty(&mut self) -> Ps {
        std::mem::take(&mut self.penalty)
    }

    /// Watches nothing any more.
    pub fn reset(&mut self) {
        self.triggered = false;
        self.lines.clear();
    }
}
