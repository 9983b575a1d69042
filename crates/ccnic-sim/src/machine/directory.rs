//! The directories: what home agents know of every line, and which socket each line is at home in.

use super::ids::{AgentId, NOBODY, NONE, SocketId, TxnId};
use crate::kernel::time::Ps;
use crate::protocols::table::Sharing;

/// Bytes of a page: homes are given by page.
pub const PAGE: u32 = 4096;
/// Lines of a page.
const PER_PAGE: usize = (PAGE / ccnic::memory::LINE) as usize;

/// A line, as its home agent knows it.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))] // one cache miss of the computer that simulates, not two
pub struct Line {
    /// Agents that may read it, a bit each.
    pub sharers: u128,
    /// The last transaction has ended at this time; the next one starts then at the earliest.
    pub free_at: Ps,
    /// Sockets whose last-level cache has it, a bit each.
    pub llc: u64,
    /// Sockets whose last-level cache has it newer than memory, a bit each.
    pub dirty: u64,
    /// The first and the last of the transactions that wait for the line.
    pub waiting: (TxnId, TxnId),
    /// The agent that may write it.
    pub owner: AgentId,
    /// The sharer in state Forward.
    pub forward: AgentId,
    /// A transaction is under way.
    pub busy: bool,
}

impl Line {
    const NEW: Line = Line {
        sharers: 0,
        free_at: 0,
        llc: 0,
        dirty: 0,
        waiting: (NONE, NONE),
        owner: NOBODY,
        forward: NOBODY,
        busy: false,
    };

    /// What is known of the private caches' copies.
    #[inline]
    pub fn sharing(&self) -> Sharing {
        match (self.owner, self.sharers) {
            (NOBODY, 0) => Sharing::Uncached,
            (NOBODY, _) => Sharing::Shared,
            _ => Sharing::Owned,
        }
    }

    /// One agent may write it.
    #[inline]
    pub fn set_owner(&mut self, agent: AgentId) {
        (self.owner, self.sharers, self.forward) = (agent, 1 << agent, NOBODY);
    }

    /// No private cache has it any more.
    #[inline]
    pub fn set_uncached(&mut self) {
        (self.owner, self.sharers, self.forward) = (NOBODY, 0, NOBODY);
    }

    /// The owner keeps a copy to read.
    #[inline]
    pub fn set_shared(&mut self, agent: AgentId) {
        (self.owner, self.sharers, self.forward) = (NOBODY, 1 << agent, NOBODY);
    }

    /// One agent has no copy any more.
    #[inline]
    pub fn remove(&mut self, agent: AgentId) {
        self.sharers &= !(1 << agent);
        if self.owner == agent {
            self.owner = NOBODY;
        }
        if self.forward == agent {
            self.forward = NOBODY;
        }
    }
}

/// Every line that has been accessed.
#[derive(Debug)]
pub struct Directory {
    pages: Vec<Option<Box<[Line; PER_PAGE]>>>,
    homes: Vec<SocketId>,
}

impl Directory {
    /// The lines of `bytes` bytes, all at home in socket 0.
    pub fn new(bytes: u32) -> Directory {
        let pages = bytes.div_ceil(PAGE) as usize;
        Directory { pages: (0..pages).map(|_| None).collect(), homes: vec![0; pages] }
    }

    /// Homes the pages of `bytes` bytes from `at` in a socket.
    pub fn set_home(&mut self, at: u32, bytes: u32, socket: SocketId) {
        let pages = at as usize / PAGE as usize..(at + bytes).div_ceil(PAGE) as usize;
        self.homes[pages].fill(socket);
    }

    /// The socket that a line is at home in.
    #[inline]
    pub fn home(&self, line: u32) -> SocketId {
        self.homes[line as usize / PER_PAGE]
    }

    /// A line, to change.
    #[inline]
    pub fn get(&mut self, line: u32) -> &mut Line {
        let page = &mut self.pages[line as usize / PER_PAGE];
        &mut page.get_or_insert_with(|| Box::new([Line::NEW; PER_PAGE]))[line as usize % PER_PAGE]
    }

    /// A line, as it is.
    pub fn look(&self, line: u32) -> Line {
        let page = self.pages[line as usize / PER_PAGE].as_ref();
        page.map_or(Line::NEW, |p| p[line as usize % PER_PAGE])
    }

    /// True when a transaction of the line is under way.
    pub fn is_busy(&self, line: u32) -> bool {
        let page = self.pages[line as usize / PER_PAGE].as_ref();
        page.is_some_and(|p| p[line as usize % PER_PAGE].busy)
    }

    /// Lines that have been accessed, and their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Line)> {
        let pages = self.pages.iter().enumerate();
        pages
            .filter_map(|(i, p)| Some((i, p.as_ref()?)))
            .flat_map(|(i, page)| page.iter().enumerate().map(move |(j, l)| ((i * PER_PAGE + j) as u32, l)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_fits_in_a_cache_line() {
        assert_eq!(size_of::<Line>(), 64);
    }

    #[test]
    fn homes_are_given_by_page() {
        let mut d = Directory::new(4 * PAGE);
        d.set_home(PAGE, PAGE + 1, 3);
        assert_eq!([0, 63, 64, 191, 192].map(|l| d.home(l)), [0, 0, 3, 3, 0]);
    }

    #[test]
    fn copies_come_and_go() {
        let mut d = Directory::new(PAGE);
        let line = d.get(7);
        assert_eq!(line.sharing(), Sharing::Uncached);
        line.set_owner(127);
        assert_eq!((line.sharing(), line.sharers), (Sharing::Owned, 1 << 127));
        line.set_shared(127);
        assert_eq!(line.sharing(), Sharing::Shared);
        line.forward = 127;
        line.remove(127);
        assert_eq!((line.sharing(), line.forward), (Sharing::Uncached, NOBODY));
        assert_eq!((d.iter().count(), d.look(7).busy, d.is_busy(9)), (64, false, false));
    }
}
