//! What the directories know of every line, and where each line is at home.

use crate::kernel::time::Ps;
use crate::protocols::Known;

/// Bytes of a page: homes are given by page.
pub const PAGE: u32 = 4096;
/// Lines of a page.
const PER_PAGE: usize = (PAGE / ccnic::memory::LINE) as usize;
/// No core.
pub const NOBODY: u8 = u8::MAX;
/// No transaction.
pub const NONE: u32 = u32::MAX;

/// A line, as its home sees it.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))] // one miss of this machine's caches, not two
pub struct Line {
    /// Cores that may read it.
    pub sharers: u128,
    /// The last transaction is over at this time; the next one starts then at the earliest.
    pub free_at: Ps,
    /// The first and the last transaction that wait for their turn.
    pub waiting: (u32, u32),
    /// The core that may write it.
    pub owner: u8,
    /// The sharer that answers for the others.
    pub forward: u8,
    /// Sockets whose last-level cache has it (a bit each).
    pub llc: u8,
    /// Sockets whose last-level cache has what memory lacks.
    pub dirty: u8,
    /// A transaction is under way.
    pub busy: bool,
}

impl Line {
    const NEW: Line = Line {
        sharers: 0,
        free_at: 0,
        waiting: (NONE, NONE),
        owner: NOBODY,
        forward: NOBODY,
        llc: 0,
        dirty: 0,
        busy: false,
    };

    /// What is known of private caches.
    pub fn known(&self) -> Known {
        match (self.owner, self.sharers) {
            (NOBODY, 0) => Known::Uncached,
            (NOBODY, _) => Known::Shared,
            _ => Known::Owned,
        }
    }
}

/// Every line that has been touched.
#[derive(Debug)]
pub struct Lines {
    pages: Vec<Option<Box<[Line; PER_PAGE]>>>,
    homes: Vec<u8>,
}

impl Lines {
    /// Lines of `bytes` bytes, all at home in socket 0.
    pub fn new(bytes: u32) -> Lines {
        let pages = bytes.div_ceil(PAGE) as usize;
        Lines { pages: (0..pages).map(|_| None).collect(), homes: vec![0; pages] }
    }

    /// Homes the pages of `bytes` bytes from `at` in a socket.
    pub fn set_home(&mut self, at: u32, bytes: u32, socket: u8) {
        let pages = at as usize / PAGE as usize..(at + bytes).div_ceil(PAGE) as usize;
        self.homes[pages].fill(socket);
    }

    /// The socket that a line is at home in.
    #[inline]
    pub fn home(&self, line: u32) -> u8 {
        self.homes[line as usize / PER_PAGE]
    }

    /// A line.
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
    pub fn busy(&self, line: u32) -> bool {
        let page = self.pages[line as usize / PER_PAGE].as_ref();
        page.is_some_and(|p| p[line as usize % PER_PAGE].busy)
    }

    /// Lines that have been touched, and their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Line)> {
        let pages = self.pages.iter().enumerate();
        pages
            .filter_map(|(i, p)| Some((i, p.as_ref()?)))
            .flat_map(|(i, page)| page.iter().enumerate().map(move |(j, l)| ((i * PER_PAGE + j) as u32, l)))
    }
}
