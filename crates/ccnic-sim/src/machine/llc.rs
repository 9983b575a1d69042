//! The last-level cache of a socket: a victim cache for the private ones, which devices write into (DDIO). A mask says for each class
//! of requesters into which ways of a set it may allocate.

use super::caches::mask::{RequesterClass, WayMask};
use super::caches::sets::Spread;
use super::caches::tags::Tags;

/// A last-level cache. Its lines are clean or (`true`) newer than memory.
#[derive(Debug)]
pub struct Llc {
    tags: Tags<bool>,
    masks: [WayMask; RequesterClass::COUNT],
}

impl Llc {
    /// A cache of so many lines; every class may use every way. Without slices a hash spreads lines over all sets.
    pub fn new(lines: u32, ways: u32, slices: Option<u32>) -> Llc {
        let spread = slices.map_or(Spread::Hashed, Spread::Sliced);
        Llc { tags: Tags::new(lines, ways, spread), masks: [WayMask::ALL; RequesterClass::COUNT] }
    }

    /// Sets the ways of a class of requesters.
    pub fn set_mask(&mut self, class: RequesterClass, mask: WayMask) {
        self.masks[class as usize] = mask;
    }

    /// The ways of a class of requesters.
    pub fn mask(&self, class: RequesterClass) -> WayMask {
        self.masks[class as usize]
    }

    /// Whether a line is here, and newer than memory.
    pub fn get(&self, line: u32) -> Option<bool> {
        self.tags.get(line).map(|(_, dirty)| dirty)
    }

    /// Puts a line in: in place if it is here, otherwise into one of the ways of the mask. Returns the line that was evicted, and
    /// whether it is newer than memory.
    pub fn fill(&mut self, line: u32, dirty: bool, mask: WayMask) -> Option<(u32, bool)> {
        if let Some(slot) = self.tags.set_state(line, dirty) {
            self.tags.touch(slot);
            return None;
        }
        self.tags.insert(line, dirty, mask, |_| false).1
    }

    /// Every line, and whether it is newer than memory.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        self.tags.iter()
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: u32) {
        self.tags.remove(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_allocates_in_its_ways() {
        // One set of four ways.
        let mut llc = Llc::new(4, 4, None);
        llc.set_mask(RequesterClass::Device, WayMask::first(1));
        assert_eq!(
            (llc.mask(RequesterClass::Core), llc.mask(RequesterClass::Device)),
            (WayMask::ALL, WayMask::first(1))
        );
        let fill = |llc: &mut Llc, line, class| llc.fill(line, true, llc.mask(class));
        assert_eq!(fill(&mut llc, 1, RequesterClass::Device), None);
        assert_eq!(
            fill(&mut llc, 2, RequesterClass::Device),
            Some((1, true)),
            "a device evicts its own lines"
        );
        assert_eq!([3, 4, 5].map(|line| fill(&mut llc, line, RequesterClass::Core)), [None; 3]);
        // A line that is here is updated where it is, whoever writes it.
        assert_eq!((llc.fill(4, false, llc.mask(RequesterClass::Device)), llc.get(4)), (None, Some(false)));
        assert_eq!(fill(&mut llc, 6, RequesterClass::Device), Some((2, true)));
        assert_eq!(
            fill(&mut llc, 7, RequesterClass::Core),
            Some((3, true)),
            "the least recently used of all ways"
        );
        assert_eq!([2, 3, 4, 5, 6, 7].map(|l| llc.get(l).is_some()), [false, false, true, true, true, true]);
    }
}
