//! Reads of memory by a device that are under way.

use std::collections::VecDeque;

use super::nic::Purpose;
use crate::kernel::slab::Slab;
use crate::machine::ids::{NONE, TxnId};

/// A read of the host's memory.
#[derive(Debug)]
pub struct Transfer {
    pub at: u32,
    pub data: Vec<u8>,
    pub scale: u32,
    /// Requests not completed.
    pub left: u32,
    pub purpose: Purpose,
}

/// A read request: one packet, completed by one or more.
#[derive(Debug, Clone, Copy)]
pub struct ReadRequest {
    pub transfer: u32,
    pub at: u32,
    pub len: u32,
    /// Lines that the root complex has, counted from the first.
    pub done: u128,
    /// Bytes sent in completions, and arrived.
    pub sent: u32,
    pub arrived: u32,
}

/// Reads under way.
#[derive(Debug, Default)]
pub struct Dma {
    pub transfers: Slab<Transfer>,
    pub requests: Slab<ReadRequest>,
    /// Requests that wait for a tag.
    pub waiting: VecDeque<u32>,
    /// Tags taken, and the most that were.
    pub tags: u32,
    pub most_tags: u32,
    /// The request that a transaction of the caches belongs to.
    pub by_txn: Vec<u32>,
}

impl Dma {
    /// The bytes that a request is for: address and length.
    pub fn range(&self, request: u32) -> (u32, u32) {
        self.requests.get(request).map_or((0, 0), |r| (r.at, r.len))
    }

    /// A transaction fetches a line for a request.
    pub fn requested(&mut self, txn: TxnId, request: u32) {
        let i = txn as usize;
        if self.by_txn.len() <= i {
            self.by_txn.resize(i + 1, NONE);
        }
        self.by_txn[i] = request;
    }

    /// Reads wait for a tag.
    pub fn is_short_of_tags(&self) -> bool {
        !self.waiting.is_empty()
    }
}
