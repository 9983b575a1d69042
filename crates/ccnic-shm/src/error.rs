//! What can go wrong outside the rings, each with what the user can do about it.

use std::path::PathBuf;

use ccnic::ConfigError;
use rustix::io::Errno;

/// An error of regions and of the control socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A region above 4 GiB: offsets have 32 bits.
    #[error("a region of {size} bytes is too large: offsets have 32 bits; lower --buffers or --ring")]
    TooLarge {
        /// Bytes asked for.
        size: u32,
    },
    /// A region larger than the NIC accepts.
    #[error(
        "the region has {size} bytes, this NIC takes {most}; lower the buffers, or raise ccnicd --region-max"
    )]
    TooMuch {
        /// Bytes of the region.
        size: u32,
        /// Bytes that the NIC accepts.
        most: u32,
    },
    /// A descriptor that cannot be a region.
    #[error("the descriptor passed is not a ccnic region: {why}")]
    NotARegion {
        /// The property that is missing.
        why: &'static str,
    },
    /// A configuration or a region's header that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No NIC at the socket.
    #[error("no NIC answers at {}: {source}; start one with `ccnicd --socket {}`", path.display(), path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer.
        source: Errno,
    },
    /// A NIC's own socket cannot be made.
    #[error("{what}")]
    Socket {
        /// What is in the way, and what to do about it.
        what: String,
        /// The nearest that the kernel has for it.
        errno: Errno,
    },
    /// The NIC refused.
    #[error("the NIC refused: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// The NIC closed the connection.
    #[error("the NIC closed the connection without an answer; see its log")]
    Gone,
    /// A message that is not understood.
    #[error("a message on the control socket is not understood: {what}; use the same release on both sides")]
    Protocol {
        /// What was wrong with it.
        what: String,
    },
    /// A queue that the region does not have.
    #[error("queue {queue} does not exist: the region has {queues}")]
    NoQueue {
        /// The queue asked for.
        queue: u16,
        /// The queues there are.
        queues: u16,
    },
    /// A queue pair that has been given out before.
    #[error("queue {queue} has been given out before: a queue pair belongs to one thread")]
    QueueTaken {
        /// The queue asked for.
        queue: u16,
    },
    /// Queue pairs of another design.
    #[error("the region's rings are of design {has}, not {asked}")]
    WrongDesign {
        /// The design asked for.
        asked: &'static str,
        /// The design of the region.
        has: &'static str,
    },
    /// RSS that cannot be.
    #[error("rss: {why}")]
    Rss {
        /// The field, and what it may be.
        why: String,
    },
    /// A NIC that spreads nothing.
    #[error("this NIC does no RSS: whoever sends to the program chooses the queue")]
    NoRss,
    /// A reconnection without all queue pairs.
    #[error("reconnecting needs all {given} queue pairs of the region, got {brought}")]
    PairsMissing {
        /// Queue pairs given out.
        given: usize,
        /// Queue pairs brought.
        brought: usize,
    },
    /// A reconnection while the NIC lives.
    #[error("the NIC is alive: nothing to reconnect")]
    StillAlive,
    /// A system call failed.
    #[error("could not {what}: {source}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
}

impl Error {
    /// For `map_err`: names what was tried.
    pub(crate) fn os(what: &'static str) -> impl Fn(Errno) -> Error {
        move |source| Error::Os { what, source }
    }
}
