//! MESIF with a directory at each line's home agent: the protocol of Intel's UPI; CXL.cache has the same answers.

use super::table::{Data, Grant, Protocol, Request, Sharing, Snoop, Snoops, State, cache, home};

use Request::{Flush, OwnNoData, Read, ReadCurrent, ReadOwn, WriteInvalidate};
use Sharing::{Owned, Shared, Uncached};
use Snoop::{Current, Drop, Invalidate};
use Snoops::{Owner, Sharers};
use State::{Exclusive, Forward, Invalid, Modified};

/// The protocol.
pub static MESIF: Protocol = Protocol {
    name: "mesif",
    about: "MESIF with a directory at each line's home agent (UPI, CXL.cache)",
    home: [
        home(Uncached, Read, Snoops::None, Data::Nearest, Grant::Sole),
        home(Uncached, ReadOwn, Snoops::None, Data::Nearest, Grant::Is(Modified)),
        home(Uncached, OwnNoData, Snoops::None, Data::None, Grant::Is(Modified)),
        home(Uncached, ReadCurrent, Snoops::None, Data::Nearest, Grant::Nothing),
        home(Uncached, WriteInvalidate, Snoops::None, Data::None, Grant::Nothing),
        home(Uncached, Flush, Snoops::None, Data::None, Grant::Nothing),
        home(Shared, Read, Snoops::None, Data::Nearest, Grant::Is(Forward)),
        home(Shared, ReadOwn, Sharers(Drop), Data::Nearest, Grant::Is(Modified)),
        home(Shared, OwnNoData, Sharers(Drop), Data::None, Grant::Is(Modified)),
        home(Shared, ReadCurrent, Snoops::None, Data::Nearest, Grant::Nothing),
        home(Shared, WriteInvalidate, Sharers(Drop), Data::None, Grant::Nothing),
        home(Shared, Flush, Sharers(Drop), Data::None, Grant::Nothing),
        home(Owned, Read, Owner(Snoop::Data), Data::Owner, Grant::Answered),
        home(Owned, ReadOwn, Owner(Invalidate), Data::Owner, Grant::Is(Modified)),
        home(Owned, OwnNoData, Owner(Drop), Data::None, Grant::Is(Modified)),
        home(Owned, ReadCurrent, Owner(Current), Data::Owner, Grant::Nothing),
        home(Owned, WriteInvalidate, Owner(Drop), Data::None, Grant::Nothing),
        home(Owned, Flush, Owner(Invalidate), Data::None, Grant::Nothing),
    ],
    cache: &[
        // UPI has RdDataMig and SnpDataMig for this; CXL.cache allows RspIFwdM as an answer to SnpData.
        cache(Modified, Snoop::Data, Some(true), Invalid, Modified),
        cache(Modified, Snoop::Data, Some(false), State::Shared, Forward),
        cache(Exclusive, Snoop::Data, None, State::Shared, Forward),
        cache(Modified, Invalidate, None, Invalid, Modified),
        cache(Exclusive, Invalidate, None, Invalid, Modified),
        cache(Modified, Drop, None, Invalid, Modified),
        cache(Exclusive, Drop, None, Invalid, Modified),
        cache(State::Shared, Drop, None, Invalid, Modified),
        cache(Forward, Drop, None, Invalid, Modified),
        cache(Modified, Current, None, Modified, Invalid),
        cache(Exclusive, Current, None, Exclusive, Invalid),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::ALL;
    use crate::protocols::table::home_number;

    #[test]
    fn every_request_finds_its_row() {
        for (protocol, sharing) in ALL.iter().flat_map(|p| Sharing::ALL.map(|s| (p, s))) {
            for request in Request::ALL {
                let row = protocol.home_row(sharing, request);
                assert_eq!((row.sharing, row.request), (sharing, request), "{}", protocol.name);
                assert_eq!(&protocol.home[home_number(sharing, request)], row);
            }
        }
    }

    /// A cache that is snooped has the line: in a state of an owner if the owner is snooped, of a reader otherwise.
    #[test]
    fn every_snoop_of_every_state_is_answered_once() {
        for protocol in ALL {
            for row in &protocol.home {
                let (snoop, writable) = match row.snoops {
                    Snoops::None => continue,
                    Owner(snoop) => (snoop, true),
                    Sharers(snoop) => (snoop, false),
                };
                let states = State::ALL.into_iter().filter(|s| s.readable() && s.writable() == writable);
                for (state, migratory) in states.flat_map(|s| [(s, false), (s, true)]) {
                    let answers = protocol.cache.iter().filter(|a| {
                        (a.state, a.snoop) == (state, snoop) && a.migratory.is_none_or(|m| m == migratory)
                    });
                    assert_eq!(answers.count(), 1, "{}: {state:?} {snoop:?} {migratory}", protocol.name);
                }
            }
        }
    }

    #[test]
    fn a_grant_of_ownership_invalidates_every_other_copy() {
        for row in MESIF.home.iter().filter(|r| r.grant == Grant::Is(Modified)) {
            let snoop = match row.snoops {
                Snoops::None => {
                    assert_eq!(row.sharing, Uncached);
                    continue;
                }
                Owner(s) | Sharers(s) => s,
            };
            assert!(MESIF.cache.iter().filter(|a| a.snoop == snoop).all(|a| a.next == Invalid));
        }
    }

    #[test]
    fn a_reader_never_gets_more_than_the_owner_leaves() {
        for answer in MESIF.cache.iter().filter(|a| a.snoop == Snoop::Data) {
            assert!(!answer.grants.writable() || answer.next == Invalid, "{answer:?}");
            assert!(answer.writes_back == (answer.state == Modified && !answer.grants.writable()));
        }
        assert_eq!(MESIF.cache.iter().filter(|a| a.writes_back).count(), 1);
    }
}
