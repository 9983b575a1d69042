//! Miss status holding registers: the lines that a core has asked for.

use crate::machine::ids::{NONE, TxnId};
use crate::protocols::table::Request;

/// The position of no load: behind all.
pub const NO_LOAD: u64 = u64::MAX;

/// A line that a core has asked for, or is going to as soon as a fill buffer is free.
#[derive(Debug, Clone, Copy)]
pub struct Mshr {
    pub line: u32,
    pub txn: TxnId,
    /// What was asked.
    pub request: Request,
    /// By a hardware prefetcher: takes no fill buffer.
    pub prefetch: bool,
    /// The home agent has answered: snoops of later transactions wait until the answer is here.
    pub granted: bool,
    /// The transaction of such a snoop.
    pub deferred: TxnId,
    /// A store wants to own the line once it is here to read.
    pub upgrade: bool,
    /// A non-temporal store or a flush.
    pub non_temporal: bool,
    /// The program computes an address from what it brings: a descriptor.
    pub address: bool,
    /// The position in program order of the oldest load that waits for it; [`NO_LOAD`] for none.
    pub load: u64,
}

impl Mshr {
    pub fn new(line: u32, request: Request) -> Mshr {
        Mshr {
            line,
            txn: NONE,
            request,
            prefetch: false,
            granted: false,
            deferred: NONE,
            upgrade: false,
            non_temporal: false,
            address: false,
            load: NO_LOAD,
        }
    }

    /// Merges another miss of the same line.
    pub fn merge(&mut self, other: &Mshr) {
        self.upgrade |= other.request != Request::Read && self.request == Request::Read;
        self.load = self.load.min(other.load);
        self.address |= other.address;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_upgrades_a_read_that_is_under_way() {
        let mut read = Mshr { load: 9, ..Mshr::new(1, Request::Read) };
        read.merge(&Mshr { load: 5, address: true, ..Mshr::new(1, Request::Read) });
        assert_eq!((read.upgrade, read.load, read.address), (false, 5, true));
        read.merge(&Mshr::new(1, Request::ReadOwn));
        assert!(read.upgrade);
        let mut own = Mshr::new(1, Request::OwnNoData);
        own.merge(&Mshr::new(1, Request::ReadOwn));
        assert!(!own.upgrade, "it is owned already");
    }
}
