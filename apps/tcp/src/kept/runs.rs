//! Where values lie: which units of which pages are free.
//!
//! A page has sixteen units, a value takes runs of them: no more than the value's length asks for, and in as few pieces as there are.
//! Pages stand in a list by their longest free run, so the tightest that fits is found without a search.

/// Bytes of a unit.
pub(crate) const UNIT: usize = 256;
/// Units of a page.
pub(crate) const UNITS: u32 = 16;
/// Bytes of a page: a buffer of the pool.
pub(crate) const PAGE: usize = UNIT * UNITS as usize;

const NONE: u32 = u32::MAX;

/// Units of a page that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) page: u32,
    pub(crate) first: u8,
    pub(crate) units: u8,
}

#[derive(Debug, Clone, Copy)]
struct Page {
    /// By unit: it is free.
    free: u16,
    /// The neighbours in the list of its longest free run.
    next: u32,
    before: u32,
}

/// The units of all pages.
#[derive(Debug)]
pub(crate) struct Runs {
    pages: Box<[Page]>,
    /// By the length of the longest free run: the first page.
    lists: [u32; UNITS as usize + 1],
    free: usize,
}

/// The length of the longest run in a page.
fn longest(mut free: u16) -> usize {
    let mut n = 0;
    while free != 0 {
        free &= free << 1;
        n += 1;
    }
    n
}

/// The first run of at least so many units, and how long it is.
fn find(free: u16, units: u32) -> Option<u32> {
    let mut starts = free;
    for n in 1..units.min(UNITS) {
        starts &= free >> n;
    }
    (starts != 0).then(|| starts.trailing_zeros())
}

fn mask(run: Run) -> u16 {
    let ones = (1u32 << run.units) - 1;
    (ones << run.first) as u16
}

impl Runs {
    /// So many pages, all free.
    pub(crate) fn new(pages: u32) -> Runs {
        let page = Page { free: 0, next: NONE, before: NONE };
        let mut runs =
            Runs { pages: vec![page; pages as usize].into(), lists: [NONE; UNITS as usize + 1], free: 0 };
        for page in (0..pages).rev() {
            runs.give(Run { page, first: 0, units: UNITS as u8 });
        }
        runs
    }

    /// Units that are free.
    pub(crate) fn free(&self) -> usize {
        self.free
    }

    /// A run of `units`, or the longest one that is shorter; `None` when nothing is free.
    pub(crate) fn take(&mut self, units: u32) -> Option<Run> {
        let units = units.clamp(1, UNITS);
        let longer = units..=UNITS;
        let shorter = (1..units).rev();
        let list = longer.chain(shorter).find(|n| self.lists[*n as usize] != NONE)?;
        let (page, units) = (self.lists[list as usize], units.min(list));
        let first = find(self.pages.get(page as usize)?.free, units)?;
        let run = Run { page, first: first as u8, units: units as u8 };
        self.change(page, |free| free & !mask(run));
        self.free -= units as usize;
        Some(run)
    }

    /// A run is free again.
    pub(crate) fn give(&mut self, run: Run) {
        debug_assert!(self.pages.get(run.page as usize).is_some_and(|page| page.free & mask(run) == 0));
        self.change(run.page, |free| free | mask(run));
        self.free += usize::from(run.units);
    }

    fn change(&mut self, page: u32, f: impl FnOnce(u16) -> u16) {
        let Some(slot) = self.pages.get_mut(page as usize) else { return };
        let before = longest(slot.free);
        slot.free = f(slot.free);
        let after = longest(slot.free);
        if before != after {
            self.unlink(page, before);
            self.link(page, after);
        }
    }

    /// Puts a page in front of a list. Pages without a free unit are in none.
    fn link(&mut self, page: u32, list: usize) {
        if list == 0 {
            return;
        }
        let first = std::mem::replace(&mut self.lists[list], page);
        if let Some(slot) = self.pages.get_mut(first as usize) {
            slot.before = page;
        }
        if let Some(slot) = self.pages.get_mut(page as usize) {
            (slot.before, slot.next) = (NONE, first);
        }
    }

    fn unlink(&mut self, page: u32, list: usize) {
        let Some(Page { next, before, .. }) = self.pages.get(page as usize).copied() else { return };
        if list == 0 {
            return;
        }
        match self.pages.get_mut(before as usize) {
            Some(slot) => slot.next = next,
            None => self.lists[list] = next,
        }
        if let Some(slot) = self.pages.get_mut(next as usize) {
            slot.before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_are_taken_where_they_fit_best() {
        let mut runs = Runs::new(2);
        let all = runs.take(16).map(|run| run.units);
        let three = runs.take(3);
        assert_eq!((all, three.map(|run| (run.page, run.first))), (Some(16), Some((1, 0))));
        // The rest of the second page is shorter than what is asked for.
        assert_eq!(runs.take(16).map(|run| run.units), Some(13));
        assert_eq!((runs.take(1), runs.free()), (None, 0));
        // A hole of three fits better than one of ten.
        runs.give(Run { page: 0, first: 2, units: 10 });
        runs.give(Run { page: 1, first: 0, units: 3 });
        assert_eq!(runs.take(2), Some(Run { page: 1, first: 0, units: 2 }));
        assert_eq!(runs.take(2), Some(Run { page: 0, first: 2, units: 2 }));
    }

    proptest! {
        /// No unit is given twice, all come back, and a run that fits is found if there is one.
        #[test]
        fn no_unit_is_taken_twice(steps in prop::collection::vec((any::<bool>(), 1u32..20, any::<prop::sample::Index>()), 1..300)) {
            let mut runs = Runs::new(5);
            let mut model = [0u16; 5]; // taken
            let mut held: Vec<Run> = Vec::new();
            for (take, units, which) in steps {
                if take {
                    let best = model.iter().map(|taken| longest(!taken)).max().unwrap_or(0) as u32;
                    match runs.take(units) {
                        Some(run) => {
                            prop_assert_eq!(u32::from(run.units), units.min(UNITS).min(best));
                            prop_assert!(u32::from(run.first) + u32::from(run.units) <= UNITS);
                            prop_assert_eq!(model[run.page as usize] & mask(run), 0);
                            model[run.page as usize] |= mask(run);
                            held.push(run);
                        }
                        None => prop_assert_eq!(best, 0),
                    }
                } else if !held.is_empty() {
                    let run = held.swap_remove(which.index(held.len()));
                    model[run.page as usize] &= !mask(run);
                    runs.give(run);
                }
                let taken: u32 = model.iter().map(|page| page.count_ones()).sum();
                prop_assert_eq!(runs.free(), (5 * UNITS - taken) as usize);
            }
            held.into_iter().for_each(|run| runs.give(run));
            prop_assert_eq!((0..5).map_while(|_| runs.take(16)).map(|run| run.units).sum::<u8>(), 80);
        }
    }
}
