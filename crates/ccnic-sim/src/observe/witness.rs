//! What tests ask of a run: how often each row of the protocol's tables was used, and every store of a word, in coherence order.

use super::trace::{Hop, Trace};
use crate::kernel::time::Ps;
use crate::protocols::table::{HOME_ROWS, Protocol};

/// How often each row of the protocol's tables was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Rows of [`Protocol::home`].
    pub home: [u64; HOME_ROWS],
    /// Rows of [`Protocol::cache`].
    pub cache: Vec<u64>,
    /// Snoops for which the table has no row: each is a defect of the simulator.
    pub missing: u64,
}

/// A word has got a value, visible to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The core that stored it.
    pub core: u8,
    /// The word's address.
    pub at: u32,
    /// Its new value.
    pub value: u64,
}

/// Everything that a machine reports to while it runs. Nothing here changes a result.
#[derive(Debug)]
pub(crate) struct Observer {
    pub trace: Option<Box<Trace>>,
    pub rows: Rows,
    /// Kept if a test asks for it.
    pub journal: Option<Vec<Commit>>,
}

impl Observer {
    pub fn new(protocol: &Protocol) -> Observer {
        let rows = Rows { home: [0; HOME_ROWS], cache: vec![0; protocol.cache.len()], missing: 0 };
        Observer { trace: None, rows, journal: None }
    }

    /// A request is at a hop.
    #[inline]
    pub fn hop(&mut self, txn: u32, hop: Hop, at: Ps) {
        if let Some(trace) = &mut self.trace {
            trace.hop(txn, hop, at);
        }
    }

    /// Something happened to an address at an agent, in no time.
    #[inline]
    pub fn instant(&mut self, socket: u8, agent: u8, what: &str, address: u32, now: Ps) {
        if let Some(trace) = &mut self.trace {
            trace.instant(socket, agent, what, address, now);
        }
    }

    /// An agent has waited from `from` to `to`.
    #[inline]
    pub fn waited(&mut self, socket: u8, agent: u8, on: (&str, Option<u32>), from: Ps, to: Ps) {
        if let Some(trace) = &mut self.trace {
            trace.waited(socket, agent, on, from, to);
        }
    }
}
