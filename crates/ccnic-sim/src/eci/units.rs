//! The units of a processor's second-level cache that work on transactions, by line. A load that waits for its data keeps a place of its
//! unit; what the other node wants of a line needs one as well. Where both lines of a protocol are in one unit with one place, nothing
//! goes on any more (PIO section 4.4).

use std::collections::VecDeque;

use super::link::Event;

/// The units of a node.
#[derive(Debug)]
pub struct Units {
    free: Vec<u32>,
    waiting: Vec<VecDeque<Event>>,
}

impl Units {
    /// So many units with so many places each.
    pub fn new(units: u32, slots: u32) -> Units {
        let units = units.max(1) as usize;
        Units { free: vec![slots; units], waiting: vec![VecDeque::new(); units] }
    }

    fn unit(&self, line: u32) -> usize {
        line as usize % self.free.len()
    }

    /// True when a line's unit has a free place; otherwise the event waits for one.
    pub fn has_room(&mut self, line: u32, event: Event) -> bool {
        let unit = self.unit(line);
        if self.free[unit] == 0 {
            self.waiting[unit].push_back(event);
        }
        self.free[unit] > 0
    }

    /// Takes a place, which must be free.
    pub fn take(&mut self, line: u32) {
        let unit = self.unit(line);
        self.free[unit] -= 1;
    }

    /// Gives a place back; returns what has waited for it.
    pub fn give(&mut self, line: u32) -> VecDeque<Event> {
        let unit = self.unit(line);
        self.free[unit] += 1;
        std::mem::take(&mut self.waiting[unit])
    }
}
