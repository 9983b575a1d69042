//! Numbers of the parts of a machine, and how many of each there can be.

/// A coherence agent: a core, or what asks for lines on behalf of a device. Cores come first.
pub type AgentId = u8;
/// A socket: agents that share a last-level cache, a home agent and memory.
pub type SocketId = u8;
/// A device.
pub type DeviceId = u8;
/// A transaction: one request under way.
pub type TxnId = u32;

/// No agent.
pub const NOBODY: AgentId = u8::MAX;
/// No transaction, no line.
pub const NONE: u32 = u32::MAX;

/// Agents of a machine at most: the directory has a bit for each in a line's set of sharers.
pub const AGENTS_MAX: usize = u128::BITS as usize;
/// Sockets of a machine at most: the directory has a bit for each last-level cache.
pub const SOCKETS_MAX: usize = u64::BITS as usize;
/// Devices of a machine at most.
pub const DEVICES_MAX: usize = 64;
