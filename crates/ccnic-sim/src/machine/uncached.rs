//! What a core's uncached accesses are: messages to a device, not requests for lines.

use super::ids::AgentId;

/// An uncached access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The core. It waits, or keeps a buffer, until the device says what becomes of the access.
    pub core: AgentId,
    /// What it does.
    pub kind: AccessKind,
}

/// What an uncached access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// Stores a word. It stays at the head of the core's store buffer until the device accepts it.
    Store {
        /// The address.
        at: u32,
        /// The word.
        value: u64,
    },
    /// Stores the bytes of a line that the mask has, from a write-combining buffer. The buffer is taken until the device accepts
    /// it. What is stored is not modelled.
    Combined {
        /// The line.
        line: u32,
        /// Its bytes, a bit each.
        mask: u64,
    },
    /// Reads. The core waits until the device answers.
    Read {
        /// The address.
        at: u32,
        /// 8 or 64.
        bytes: u32,
    },
}
