//! Requests under way.

use super::ids::{AgentId, NONE, SocketId, TxnId};
use crate::kernel::time::Ps;
use crate::observe::counters::Source;
use crate::protocols::table::{Request, State};

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub struct Transaction {
    pub line: u32,
    pub request: Request,
    /// The requester.
    pub agent: AgentId,
    /// The socket whose home agent orders it.
    pub at: SocketId,
    /// It has been to another socket.
    pub crossed: bool,
    /// The device that is the line's home has given its data.
    pub supplied: bool,
    /// Answers to snoops still to come, and when the last so far arrived.
    pub pending: u16,
    pub latest: Ps,
    /// What the requester gets, and from where.
    pub grant: State,
    pub source: Source,
    /// The next one that waits for the same line.
    pub next: TxnId,
}

impl Transaction {
    /// A request that leaves its requester.
    pub fn new(line: u32, request: Request, agent: AgentId, socket: SocketId) -> Transaction {
        Transaction {
            line,
            request,
            agent,
            at: socket,
            crossed: false,
            supplied: false,
            pending: 0,
            latest: 0,
            grant: State::Invalid,
            source: Source::Nowhere,
            next: NONE,
        }
    }
}

/// All requests under way; a number is used again when its transaction has ended.
#[derive(Debug, Default)]
pub struct Transactions {
    all: Vec<Transaction>,
    free: Vec<TxnId>,
}

impl Transactions {
    /// Begins a transaction.
    pub fn begin(&mut self, txn: Transaction) -> TxnId {
        match self.free.pop() {
            Some(i) => {
                self.all[i as usize] = txn;
                i
            }
            None => {
                self.all.push(txn);
                self.all.len() as u32 - 1
            }
        }
    }

    /// Ends a transaction; its record stays readable until the next one begins.
    pub fn end(&mut self, txn: TxnId) {
        debug_assert_ne!(txn, NONE);
        self.free.push(txn);
    }
}

impl std::ops::Index<TxnId> for Transactions {
    type Output = Transaction;

    #[inline]
    fn index(&self, txn: TxnId) -> &Transaction {
        &self.all[txn as usize]
    }
}

impl std::ops::IndexMut<TxnId> for Transactions {
    #[inline]
    fn index_mut(&mut self, txn: TxnId) -> &mut Transaction {
        &mut self.all[txn as usize]
    }
}
