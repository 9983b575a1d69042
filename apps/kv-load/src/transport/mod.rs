//! How requests reach a store: streams and datagrams of the kernel, datagrams over a ccnic NIC, or as the NIC of the store.
//!
//! A transport sends requests by their numbers and says which number a reply answers; it never waits.

mod arp;
mod as_nic;
mod ccnic;
mod stream;
mod udp;

use std::fmt;

pub use as_nic::AsNic;
pub use ccnic::Attached;
pub use stream::Streams;
pub use udp::{Coder, Datagrams, Speech};

use crate::protocol::{Broken, Reply, Request};

/// Requests in flight, at most: memcached's frame header has 16 bits for a request's number, half of which tell old replies from new ones.
pub const MOST_INFLIGHT: usize = 1 << 15;

/// Which request a reply answers.
pub type Number = u64;

/// A way to a store.
pub trait Transport {
    /// Sends a request, or keeps it until [`flush`](Transport::flush); false when there is no room for it now.
    ///
    /// # Errors
    /// When the store can be reached no longer.
    fn send(&mut self, number: Number, request: Request<'_>) -> Result<bool, Lost>;

    /// Sends what was kept.
    ///
    /// # Errors
    /// As [`send`](Transport::send).
    fn flush(&mut self) -> Result<(), Lost> {
        Ok(())
    }

    /// Takes replies that have come, some at a time; returns how many.
    ///
    /// # Errors
    /// As [`send`](Transport::send).
    fn receive(&mut self, take: &mut impl FnMut(Number, Reply<'_>)) -> Result<usize, Lost>;

    /// Forgets a request whose reply nobody waits for any more. False where replies cannot be lost, so that waiting for one
    /// goes on.
    fn forget(&mut self, number: Number) -> bool;

    /// What is known of why no reply comes.
    fn clue(&self) -> Option<&'static str> {
        None
    }

    /// Datagrams that were no answer to any request, or none that could be understood.
    fn strays(&self) -> u64 {
        0
    }
}

/// Why a store can be reached no longer.
#[derive(Debug)]
pub enum Lost {
    /// The socket says so.
    Io(std::io::Error),
    /// What it sends is no reply.
    Broken(Broken),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Io(_) => write!(f, "the connection to the store broke"),
            Lost::Broken(Broken(what)) => write!(f, "the store's answer cannot be read: {what}"),
        }
    }
}

impl std::error::Error for Lost {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Lost::Io(error) => Some(error),
            Lost::Broken(_) => None,
        }
    }
}

impl From<std::io::Error> for Lost {
    fn from(error: std::io::Error) -> Lost {
        Lost::Io(error)
    }
}

impl From<Broken> for Lost {
    fn from(broken: Broken) -> Lost {
        Lost::Broken(broken)
    }
}
