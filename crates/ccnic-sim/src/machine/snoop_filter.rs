//! The snoop filter of a socket: the lines that its cores' private caches have. It is finite: for a line that finds its set full,
//! another one leaves the filter, and with it all private caches of the socket (back-invalidation).
//!
//! The directory knows every copy; the filter says how many of them there may be. An entry whose line no core of the socket has any more
//! stays until its place is needed.

use super::caches::mask::WayMask;
use super::caches::sets::Spread;
use super::caches::tags::Tags;
use super::ids::AgentId;

/// A snoop filter.
#[derive(Debug)]
pub struct SnoopFilter {
    tags: Tags<bool>,
    /// The cores of the socket, a bit each.
    cores: u128,
}

impl SnoopFilter {
    /// A filter with so many sets and ways in each slice, for a socket without cores.
    pub fn new(slices: u32, sets: u32, ways: u32) -> SnoopFilter {
        SnoopFilter { tags: Tags::new(slices * sets * ways, ways, Spread::Sliced(slices)), cores: 0 }
    }

    /// A core is in this socket.
    pub fn add_core(&mut self, core: AgentId) {
        self.cores |= 1 << core;
    }

    /// Those among some agents that are cores of this socket.
    #[inline]
    pub fn members(&self, agents: u128) -> u128 {
        agents & self.cores
    }

    /// True for a line that is in the filter.
    pub fn has(&self, line: u32) -> bool {
        self.tags.get(line).is_some()
    }

    /// A core of the socket is granted a line: puts it into the filter. Returns the line that has to leave the private caches for it.
    /// `sharers` are the agents that have a line; one for which `busy` holds stays, as long as there is another.
    #[inline]
    pub fn put(
        &mut self,
        line: u32,
        sharers: impl Fn(u32) -> u128,
        busy: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if let Some((slot, _)) = self.tags.get(line) {
            self.tags.touch(slot);
            return None;
        }
        self.put_new(line, sharers, busy)
    }

    fn put_new(
        &mut self,
        line: u32,
        sharers: impl Fn(u32) -> u128,
        busy: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if !self.tags.has_room(line) {
            let cores = self.cores;
            let left = self.tags.beside(line).find(|other| sharers(*other) & cores == 0);
            left.and_then(|left| self.tags.remove(left));
        }
        self.tags.insert(line, false, WayMask::ALL, busy).1.map(|(gone, _)| gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_gives_up_what_no_core_has_then_the_oldest_line() {
        let mut filter = SnoopFilter::new(1, 1, 2);
        [0, 5].into_iter().for_each(|core| filter.add_core(core));
        assert_eq!(filter.members(1 << 5 | 1 << 6), 1 << 5);
        let mut put = |line, sharers: fn(u32) -> u128, busy: fn(u32) -> bool| filter.put(line, sharers, busy);
        let all: fn(u32) -> u128 = |_| 1;
        let none: fn(u32) -> bool = |_| false;
        assert_eq!([put(1, all, none), put(2, all, none)], [None, None]);
        assert_eq!(put(1, all, none), None, "it is there");
        // Line 1 has been used last, but only another socket's core has it.
        assert_eq!(put(3, |line| if line == 1 { 1 << 6 } else { 1 }, none), None);
        assert_eq!(put(4, all, none), Some(2));
        assert_eq!(put(5, all, |line| line == 3), Some(4));
        assert!(filter.has(3) && filter.has(5) && !filter.has(4));
    }
}
