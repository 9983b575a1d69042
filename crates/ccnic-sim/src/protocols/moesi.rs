//! MOESI, write-invalidate, on a snooping bus: SPARC MBus level 2. A modified block that another cache reads stays with its writer as
//! Owned; memory is not updated before the block is replaced.

use super::snooping::{Access, Next, Snooping, State, Transaction, access, snoop};

use Access::{Load, Store, StoreBlock};
use Next::{ByShared, Is};
use State::{Exclusive, Invalid, Modified, Owned, Shared};
use Transaction::{Invalidate, Read, ReadInvalidate, WriteBack};

/// The protocol.
pub static MOESI: Snooping = Snooping {
    name: "moesi",
    about: "MOESI, write-invalidate, on a snooping bus (MBus level 2)",
    access: [
        access(Invalid, Load, Some(Read), ByShared),
        access(Invalid, Store, Some(ReadInvalidate), Is(Modified)),
        access(Invalid, StoreBlock, Some(Invalidate), Is(Modified)),
        access(Shared, Load, None, Is(Shared)),
        access(Shared, Store, Some(Invalidate), Is(Modified)),
        access(Shared, StoreBlock, Some(Invalidate), Is(Modified)),
        access(Owned, Load, None, Is(Owned)),
        access(Owned, Store, Some(Invalidate), Is(Modified)),
        access(Owned, StoreBlock, Some(Invalidate), Is(Modified)),
        access(Exclusive, Load, None, Is(Exclusive)),
        access(Exclusive, Store, None, Is(Modified)),
        access(Exclusive, StoreBlock, None, Is(Modified)),
        access(Modified, Load, None, Is(Modified)),
        access(Modified, Store, None, Is(Modified)),
        access(Modified, StoreBlock, None, Is(Modified)),
    ],
    snoop: [
        snoop(Invalid, Read, Invalid, false),
        snoop(Invalid, ReadInvalidate, Invalid, false),
        snoop(Invalid, Invalidate, Invalid, false),
        snoop(Invalid, WriteBack, Invalid, false),
        snoop(Shared, Read, Shared, false),
        snoop(Shared, ReadInvalidate, Invalid, false),
        snoop(Shared, Invalidate, Invalid, false),
        snoop(Shared, WriteBack, Shared, false),
        snoop(Owned, Read, Owned, true),
        snoop(Owned, ReadInvalidate, Invalid, true),
        snoop(Owned, Invalidate, Invalid, false),
        snoop(Owned, WriteBack, Owned, false),
        snoop(Exclusive, Read, Shared, false),
        snoop(Exclusive, ReadInvalidate, Invalid, false),
        snoop(Exclusive, Invalidate, Invalid, false),
        snoop(Exclusive, WriteBack, Exclusive, false),
        snoop(Modified, Read, Owned, true),
        snoop(Modified, ReadInvalidate, Invalid, true),
        snoop(Modified, Invalidate, Invalid, false),
        snoop(Modified, WriteBack, Modified, false),
    ],
    snarfed: Shared,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::SNOOPING;

    #[test]
    fn rows_stand_in_the_order_of_the_enums() {
        for protocol in SNOOPING {
            for state in State::ALL {
                for access in Access::ALL {
                    let row = protocol.access_row(state, access);
                    assert_eq!((row.state, row.access), (state, access), "{}", protocol.name);
                }
                for transaction in Transaction::ALL {
                    let row = protocol.snoop_row(state, transaction);
                    assert_eq!((row.state, row.transaction), (state, transaction), "{}", protocol.name);
                }
            }
        }
    }

    /// Every set of states that four caches can have together, from none having the block, by every access of every cache: at most
    /// one owner, and a writer is alone. Memory is out of date if and only if a cache owns the block.
    #[test]
    fn no_sequence_of_accesses_makes_two_owners() {
        for protocol in SNOOPING {
            let start = ([Invalid; 4], false);
            let (mut seen, mut next) = (vec![start], vec![start]);
            while let Some((caches, stale)) = next.pop() {
                let mut reached = Vec::new();
                for (cache, access) in (0..4).flat_map(|c| Access::ALL.map(|a| (c, a))) {
                    reached.push(accessed(protocol, caches, stale, cache, access));
                }
                reached.extend((0..4).map(|cache| replaced(protocol, caches, stale, cache)));
                for (after, stale) in reached {
                    let count = |f: fn(State) -> bool| after.iter().filter(|s| f(**s)).count();
                    assert!(count(State::owns) <= 1, "{caches:?} to {after:?}");
                    assert!(
                        count(State::writable) == 0 || count(State::readable) == 1,
                        "{caches:?} to {after:?}"
                    );
                    assert_eq!(stale, count(State::owns) == 1, "{caches:?} to {after:?}");
                    if !seen.contains(&(after, stale)) {
                        seen.push((after, stale));
                        next.push((after, stale));
                    }
                }
            }
            assert!(seen.len() > 30, "{} of the sets of states are reached", seen.len());
        }
    }

    type Caches = ([State; 4], bool);

    fn accessed(p: &Snooping, mut caches: [State; 4], stale: bool, cache: usize, access: Access) -> Caches {
        let row = *p.access_row(caches[cache], access);
        let mut shared = false;
        let mut supplied = !stale;
        if let Some(transaction) = row.transaction {
            for other in (0..4).filter(|other| *other != cache) {
                shared |= caches[other].readable();
                let row = p.snoop_row(caches[other], transaction);
                supplied |= row.supplies;
                caches[other] = row.next;
            }
            assert!(supplied || transaction == Invalidate, "old bytes: {caches:?} {access:?}");
        }
        caches[cache] = match row.next {
            Is(next) => next,
            ByShared if shared => Shared,
            ByShared => Exclusive,
        };
        let stale = caches.iter().any(|s| s.owns());
        (caches, stale)
    }

    fn replaced(p: &Snooping, mut caches: [State; 4], stale: bool, cache: usize) -> Caches {
        let owned = caches[cache].owns();
        caches[cache] = Invalid;
        if owned {
            for other in (0..4).filter(|other| *other != cache) {
                caches[other] = p.snoop_row(caches[other], WriteBack).next;
            }
        }
        (caches, stale && !owned)
    }
}
