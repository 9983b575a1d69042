//! What a program has taken of a NIC's memory, as a status says it.

use serde::{Deserialize, Serialize};

/// What a program has taken of the memory that the NIC accounts for, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// It alone: its region, and what the NIC needs for it.
    pub bytes: u64,
    /// The user that it runs as.
    pub uid: u32,
    /// All programs of that user, and what they may take (`--user-memory`).
    pub user: Share,
    /// Those of them that the same `[[program]]` entry fits, where that entry says `memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<Share>,
}

/// What has been taken of what may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Taken.
    pub used: u64,
    /// It may be so much. Less than `used` where the limit was lowered since.
    pub most: u64,
}
