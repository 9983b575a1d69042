//! From a region's [`Design`], known at run time, to code that is compiled for its ring type.

use crate::config::Design;

use super::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};

/// Work that is compiled once for each ring type: what [`Design::dispatch`] calls.
pub trait RingVisitor {
    /// What the work returns.
    type Output;

    /// Does the work for the ring type `R`.
    fn visit<R: Ring>(self) -> Self::Output;
}

impl Design {
    /// Calls `visitor` with the ring type of this design. This is the only place where a design is matched to
    /// its ring type.
    ///
    /// The match is one branch; everything inside [`visit`](RingVisitor::visit) is compiled for that ring
    /// alone. Call it outside a burst: once per thread, queue or poll.
    ///
    /// ```
    /// use ccnic::Design;
    /// use ccnic::ring::{Ring, RingVisitor};
    ///
    /// struct Name;
    ///
    /// impl RingVisitor for Name {
    ///     type Output = &'static str;
    ///     fn visit<R: Ring>(self) -> &'static str {
    ///         R::DESIGN.name()
    ///     }
    /// }
    ///
    /// assert_eq!(Design::Packed.dispatch(Name), "packed");
    /// ```
    #[inline]
    pub fn dispatch<V: RingVisitor>(self, visitor: V) -> V::Output {
        match self {
            Design::GroupedEpoch => visitor.visit::<GroupedEpoch>(),
            Design::GroupedClear => visitor.visit::<GroupedClear>(),
            Design::Packed => visitor.visit::<Packed>(),
            Design::Padded => visitor.visit::<Padded>(),
            Design::Doorbell => visitor.visit::<Doorbell>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TheDesign;

    impl RingVisitor for TheDesign {
        type Output = Design;

        fn visit<R: Ring>(self) -> Design {
            R::DESIGN
        }
    }

    #[test]
    fn every_design_finds_its_own_ring() {
        for design in Design::ALL {
            assert_eq!(design.dispatch(TheDesign), design);
        }
    }
}
