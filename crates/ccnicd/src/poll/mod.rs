//! Polling: workers (threads pinned to a core), how they share their time among clients, and the links by which they hand packets over
//! (`ccnic_handoff`).
//!
//! A worker knows of a client only what stands here: it can be polled, it can be closed, it counts; and, of some clients, that they
//! notify their users or steer packets.

mod busy;
pub(crate) mod client;
pub(crate) mod core;
pub mod links;
pub(crate) mod schedule;
pub(crate) mod sleep;
pub(crate) mod worker;

use std::sync::Arc;

use ccnic::rss::Spreader;

use crate::ports::{Doze, Notify, Statistics};
use links::Links;

/// What a worker polls: a port, and the dataplane that its packets go through. The one dynamic call of a poll.
pub trait Poll: Send {
    /// Looks at a few queues at most, and moves one burst, of the first of them that has one; returns the descriptors dealt with, also
    /// those that were dropped.
    fn poll(&mut self) -> usize;

    /// Up to so many polls in a row, until one has found something; returns what that one did. A loop of its own, since the call of a
    /// poll costs more than a look at an empty ring.
    fn spin(&mut self, polls: usize) -> usize {
        (0..polls).map(|_| self.poll()).find(|moved| *moved > 0).unwrap_or(0)
    }

    /// Empty polls in a row after which every queue that had packets lately has been looked at.
    fn round(&self) -> usize {
        1
    }

    /// Empty polls in a row after which every queue has been looked at. Never changes.
    fn sweep(&self) -> usize {
        1
    }

    /// The most bursts that can be waiting: a client that goes is polled so often at most, for a program that lives on may send more
    /// all the time.
    fn backlog(&self) -> usize;

    /// True when a poll that moved nothing does not mean that nothing waits: packets are with other workers first.
    fn waits(&self) -> bool {
        false
    }

    /// Its worker has slept since the last poll, or tried to.
    fn awoke(&mut self) {}

    /// One bounded step towards the end, after the last poll: delivers what other workers have handed over, or gives back the buffers
    /// of one queue.
    fn close(&mut self) -> Closing;
}

/// How far a client has been closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// A step was made.
    Working,
    /// Other workers have to make a step first.
    Waiting,
    /// There is nothing left to do.
    Done,
}

/// A client on a worker: what is polled, and what the control thread wants to know of it.
pub trait Client: Poll + Statistics {
    /// Its way to be told of notifiers, if it has one.
    fn notify(&mut self) -> Option<&mut dyn Notify>;
    /// Its way to let its worker sleep, if it has one and there is nothing to do.
    fn doze(&self) -> Option<&dyn Doze> {
        None
    }
    /// Its way to be told of RSS, if it has one.
    fn steer(&mut self) -> Option<&mut dyn Steer>;
}

/// A dataplane that can spread packets over the queues of their receiver.
pub trait Steer {
    /// Spreads packets by this table from now on; `None`: no longer.
    fn set_rss(&mut self, spreader: Option<Arc<Spreader>>);
    /// Takes the hand-off queues to the workers that poll the other queues of the same program. Once.
    fn link(&mut self, links: Links);
}
