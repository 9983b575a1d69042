//! What can go wrong on the NIC's side, each with what the user can do about it.

use std::io;

use rustix::io::Errno;

/// An error of a NIC, a program or a queue, outside of bursts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The NIC's socket cannot be made.
    #[error(transparent)]
    Control(#[from] ccnic_control::Error),
    /// The environment variable `CCNIC_TUNING` says nothing that can be.
    #[error(transparent)]
    Tuning(ccnic_client::Error),
    /// The handler of SIGBUS cannot be installed.
    #[error("could not install the SIGBUS handler: {0}")]
    Sigbus(io::Error),
    /// Two threads poll one NIC.
    #[error("another thread polls this NIC: one at a time")]
    Polled,
    /// A queue that the region does not have.
    #[error("queue {queue} does not exist: the region has {queues}")]
    NoQueue {
        /// The queue asked for.
        queue: u16,
        /// The queues there are.
        queues: u16,
    },
    /// A queue that has been opened before.
    #[error("queue {queue} has been opened before: a queue belongs to one thread")]
    QueueTaken {
        /// The queue asked for.
        queue: u16,
    },
    /// The program cannot wake the NIC, or not yet.
    #[error("the program does not wake the NIC, or not yet: look for its packets every ten milliseconds")]
    Silent,
    /// The system has no descriptor left.
    #[error("no descriptor to sleep by: {0}")]
    NoDescriptor(Errno),
}

/// Why a burst did nothing. Whatever it was given is the caller's still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BurstError {
    /// A descriptor names no bytes of this program's buffers.
    #[error("a descriptor names no bytes of this program's buffers")]
    BadBuffer,
    /// The packet is longer than the program's MTU, or has too many segments.
    #[error("a packet is longer than the MTU, or has too many segments")]
    TooLong,
    /// The last segment that was given says that the packet goes on.
    #[error("the last packet has no end: its last segment must not be marked `more`")]
    NoEnd,
    /// The packet has no bytes.
    #[error("a packet has no bytes, or a segment without data")]
    Empty,
    /// There are fewer entries than one packet has segments.
    #[error("fewer entries than one packet has segments")]
    TooFewEntries,
    /// The program posts and frees all buffers itself.
    #[error("this program manages its buffers itself (the E810 design does): only copies reach it")]
    NotShared,
    /// The next packet does not fit into one room.
    #[error("the next packet is longer than a room, or a chain: receive it as descriptors")]
    NotOneRoom,
}
