//! Way masks: into which ways of a set a class of requesters may allocate (Intel's CAT, and DDIO's IIO LLC ways register).

/// A class of requesters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequesterClass {
    /// Cores.
    Core,
    /// Devices: DDIO.
    Device,
}

impl RequesterClass {
    /// How many there are.
    pub const COUNT: usize = 2;
}

/// Ways, a bit each. Ways beyond the last bit go with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WayMask(u64);

impl WayMask {
    /// Every way.
    pub const ALL: WayMask = WayMask(u64::MAX);

    /// The first `n` ways, at least one.
    pub fn first(n: u32) -> WayMask {
        WayMask(if n < u64::BITS { (1 << n.max(1)) - 1 } else { u64::MAX })
    }

    /// The ways of a bit mask; none for a mask without a bit, into which nothing could go.
    pub fn of(bits: u64) -> Option<WayMask> {
        (bits != 0).then_some(WayMask(bits))
    }

    /// True for a way that may be used.
    #[inline]
    pub fn has(self, way: u32) -> bool {
        self.0 >> way.min(u64::BITS - 1) & 1 != 0
    }

    /// The first 32 ways.
    #[inline]
    pub fn low(self) -> u32 {
        self.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_its_ways() {
        let two = WayMask::first(2);
        assert!(two.has(0) && two.has(1) && !two.has(2) && !two.has(63) && !two.has(1000));
        assert!(WayMask::ALL.has(0) && WayMask::ALL.has(8000));
        assert_eq!((WayMask::first(64), WayMask::first(0)), (WayMask::ALL, WayMask::first(1)));
        let high = WayMask::of(0b1100).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|w| high.has(w)), [false, false, true, true, false]);
        assert_eq!((high.low(), WayMask::of(0)), (0b1100, None));
    }
}
