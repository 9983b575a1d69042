//! What has reached the root complex and is not done.

use std::collections::VecDeque;

use ccnic::memory::LINE;

use crate::kernel::time::Ps;
use crate::machine::ids::AgentId;

/// A packet from the device.
#[derive(Debug)]
pub enum Packet {
    /// A posted write.
    Write { at: u32, data: Vec<u8> },
    /// A read request, by number.
    Read(u32),
    /// The completion of a core's read.
    Completion { core: AgentId, value: u64 },
}

/// What waits in order.
#[derive(Debug)]
pub enum Entry {
    Write(Piece),
    Read(u32),
    Completion { core: AgentId, value: u64 },
}

/// What a write does to one line.
#[derive(Debug)]
pub struct Piece {
    pub line: u32,
    pub from: usize,
    pub len: usize,
    pub bytes: [u8; LINE as usize],
}

impl Piece {
    /// True when it writes all of the line.
    pub fn is_whole(&self) -> bool {
        self.len == LINE as usize
    }
}

/// A line that is wanted for writes.
#[derive(Debug)]
pub struct Wanted {
    pub line: u32,
    /// Writes to it in the queue.
    pub writes: u32,
    /// The last-level cache had it.
    pub hit: bool,
}

/// What has reached the root complex and is not done.
#[derive(Debug, Default)]
pub struct Root {
    pub queue: VecDeque<Entry>,
    pub wanted: Vec<Wanted>,
    /// Lines to write in the queue.
    pub lines: usize,
    /// Packets that arrived when there were too many of those.
    pub blocked: VecDeque<Packet>,
    /// When the last line was written.
    pub last: Ps,
}

impl Root {
    /// Packets and lines that are not done.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.blocked.len() + self.wanted.len()
    }
}
