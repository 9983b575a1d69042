//! Hardware prefetchers: what a core's caches ask for on their own (Intel's optimization manual, "data prefetching"). The streamer sees
//! what loads and (where the platform says so) stores ask the second level for. The adjacent-line prefetcher completes pairs of lines of
//! which one is fetched to the second level, by loads and (where it says so) stores and software prefetches. Both ask to own where the
//! access did: the manual of the IA-32 has "RFO transactions for store streams".
//!
//! Software prefetches count on a Zen 4: of lines that two cores pass back and forth in shuffled order, requested by PREFETCHW, 120
//! million a second cross in each direction where they are neighbours, 260 to 320 where there is a line between any two.
//!
//! The paper runs with all of them on at the host and off at the NIC (section 5.8).

use crate::machine::costs::Prefetch;

/// Prefetchers that are followed at once.
const STREAMS: usize = 32;
/// Kinds of accesses that stand for instructions.
const SITES: usize = 4;
/// Lines of a page: no prefetcher crosses it.
const PAGE: u32 = 64;

/// Why a line is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A load, of a kind that stands for an instruction.
    Load(usize),
    Store,
    /// A software prefetch.
    Prefetch,
}

impl Access {
    /// True when such prefetchers look at it.
    #[inline]
    pub fn is_followed(self, p: Prefetch) -> bool {
        match self {
            Access::Load(_) => true,
            Access::Store => p.stores,
            Access::Prefetch => p.software,
        }
    }
}

/// What the prefetchers of a core have seen.
#[derive(Debug, Clone, Default)]
pub struct Prefetchers {
    /// For each page that is followed: its number, the last line in it, the direction, how often it was kept, its age.
    streams: Vec<(u32, u32, i32, u32, u64)>,
    /// For each site: the last line, the stride, how often it was the same.
    sites: [(u32, i32, u32); SITES],
    clock: u64,
}

impl Prefetchers {
    /// What to fetch after an access to `line`, which the cache of this level had (3: neither).
    pub fn after(&mut self, p: Prefetch, access: Access, line: u32, level: u8) -> [Option<u32>; 4] {
        if !access.is_followed(p) {
            return [None; 4];
        }
        let adjacent = (p.adjacent && level > 2).then_some(line ^ 1);
        let ip = match access {
            Access::Load(site) if p.ip => self.stride(site, line),
            _ => None,
        };
        let streams = p.streamer && level > 1 && access != Access::Prefetch;
        let [a, b] = if streams { self.stream(line) } else { [None; 2] };
        [adjacent, ip, a, b]
    }

    /// The instruction's next line, after two equal strides.
    fn stride(&mut self, site: usize, line: u32) -> Option<u32> {
        let (last, stride, same) = &mut self.sites[site % SITES];
        let step = line.wrapping_sub(*last) as i32;
        if step == 0 {
            return None;
        }
        *same = if step == *stride { *same + 1 } else { 0 };
        (*last, *stride) = (line, step);
        let next = line.wrapping_add_signed(step);
        // Strides of up to 2 KiB, within the page.
        (*same >= 2 && step.unsigned_abs() <= 32 && next / PAGE == line / PAGE).then_some(next)
    }

    /// The next two lines of a page that is walked in one direction.
    fn stream(&mut self, line: u32) -> [Option<u32>; 2] {
        self.clock += 1;
        let (page, clock) = (line / PAGE, self.clock);
        let Some((_, last, direction, kept, age)) = self.streams.iter_mut().find(|s| s.0 == page) else {
            let new = (page, line, 0, 0, clock);
            if self.streams.len() < STREAMS {
                self.streams.push(new);
            } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.4) {
                *oldest = new;
            }
            return [None; 2];
        };
        *age = clock;
        let step = (line as i32 - *last as i32).signum();
        if step == 0 {
            return [None; 2];
        }
        *kept = if step == *direction { *kept + 1 } else { 1 };
        (*last, *direction) = (line, step);
        if *kept < 2 {
            return [None; 2];
        }
        [1, 2].map(|n| Some(line.wrapping_add_signed(step * n)).filter(|next| next / PAGE == page))
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Load, Prefetch as Software, Store};
    use super::*;

    #[test]
    fn each_prefetcher_sees_its_pattern() {
        let all = Prefetch { adjacent: true, streamer: true, ip: true, ..Prefetch::default() };
        let mut s = Prefetchers::default();
        assert_eq!(s.after(all, Load(0), 6, 3), [Some(7), None, None, None]);
        assert_eq!(s.after(all, Load(0), 7, 2), [None; 4]);
        assert_eq!(s.after(all, Load(0), 8, 2), [None, None, Some(9), Some(10)]);
        assert_eq!(s.after(all, Load(0), 9, 2), [None, Some(10), Some(10), Some(11)]);
        let off = Prefetch::default();
        assert_eq!((10..20).flat_map(|l| s.after(off, Load(0), l, 3)).flatten().count(), 0);
    }

    #[test]
    fn stores_and_software_prefetches_count_where_the_platform_says_so() {
        let loads = Prefetch { adjacent: true, streamer: true, ip: true, ..Prefetch::default() };
        let all = Prefetch { stores: true, software: true, ..loads };
        let mut s = Prefetchers::default();
        let none = |access| {
            (5..8).flat_map(|line| Prefetchers::default().after(loads, access, line, 3)).flatten().count()
        };
        assert_eq!([none(Store), none(Software)], [0, 0]);
        let last = (5..8).map(|line| s.after(all, Store, line, 3)).last();
        assert_eq!(last, Some([Some(6), None, Some(8), Some(9)]));
        assert_eq!(s.after(all, Store, 8, 2), [None, None, Some(9), Some(10)]);
        let last = (105..108).map(|line| s.after(all, Software, line, 3)).last();
        assert_eq!(last, Some([Some(106), None, None, None]));
    }

    #[test]
    fn no_prefetcher_leaves_the_page() {
        let p = Prefetch { streamer: true, ip: true, ..Prefetch::default() };
        let mut s = Prefetchers::default();
        let last = (50..64).map(|line| s.after(p, Load(0), line, 2)).last();
        assert_eq!(last, Some([None; 4]));
    }
}
