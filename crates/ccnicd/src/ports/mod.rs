//! Ports: what packets come from and go to. A worker polls them.
//!
//! A port is a set of queues, each of which gives bursts and takes bursts ([`BurstQueue`]). What a port must do is small: name its
//! queues and their memory. All else has a default: a port that cannot notify anybody, say, does not mention it.
//!
//! [`program`] is the queue pairs of an attached program; [`InTurn`] says which of a port's queues a poll looks at. Ports that are no
//! programs, such as [`tap`], [`xdp`] and [`pcap`], are [`OutsidePort`]s: ports of a switch only.

mod in_turn;
pub(crate) mod kept;
pub mod latency;
mod link;
mod namespace;
#[cfg(test)]
mod offload_table;
mod options;
mod outside;
pub mod pcap;
pub mod program;
pub mod tap;
mod turns;
pub(crate) mod unsent;
pub mod xdp;

use ccnic::Desc;
use ccnic::nic::BurstQueue;
use ccnic_control::Notifier;
use ccnic_control::capture::Reason;
use ccnic_control::messages::QueueStatus;
use ccnic_shm::NativeMemory;
use rustix::event::PollFd;

pub use in_turn::InTurn;
pub use options::PortOptions;
pub use outside::{Accepts, Burst, OutsidePort};

/// The queues of one port that one worker polls. Belongs to that worker's thread.
///
/// Dataplanes are generic over ports, so that everything between the worker's call ([`Poll`](crate::poll::Poll)) and the queue is
/// compiled for one kind of port: a poll costs one dynamic call, a packet none.
pub trait Port: Send {
    /// A queue of it.
    type Queue: BurstQueue<Memory = NativeMemory> + Send;

    /// The queues, and the memory that their packets lie in.
    fn queues(&mut self) -> (&mut [Self::Queue], &NativeMemory);

    /// The most bursts that can be waiting in all queues together. A port that goes is polled so often at most.
    fn backlog(&self) -> usize;

    /// Called after each poll of the queue with index `at`, also after one that moved nothing.
    #[inline(always)]
    fn polled(&mut self, _at: usize) {}

    /// True when the queue with index `at` has somebody to notify: one that receives packets is to be polled soon.
    fn notifies(&self, _at: usize) -> bool {
        false
    }

    /// Before its end: gives back what one more queue keeps. False when there is no such queue left.
    fn retire(&mut self) -> bool {
        false
    }

    /// The port's way to let its worker sleep, if it has one.
    fn doze(&self) -> Option<&dyn Doze> {
        None
    }

    /// The port's way to be told of notifiers, if it notifies anybody.
    fn notify(&mut self) -> Option<&mut dyn Notify> {
        None
    }
}

/// A port whose user can wait for packets without polling.
pub trait Notify {
    /// Has the queue with this number notify its user by `notifier` from now on.
    fn set_notifier(&mut self, queue: u16, notifier: Notifier);
}

/// A port whose worker may sleep while there is nothing to do, since somebody calls when there is.
///
/// The worker calls [`arm`](Doze::arm), executes a [`heavy_barrier`](ccnic::SharedMemory::heavy_barrier), asks whether
/// [something has come](Doze::has_work), and sleeps until one of the [calls](Doze::calls) comes. `ccnic::notify` says why no packet is missed.
pub trait Doze {
    /// Asks to be called for whatever comes from now on. False when nobody would call, or there is something to do already.
    fn arm(&self) -> bool;

    /// True when something has come.
    fn has_work(&self) -> bool;

    /// Adds what becomes readable with a call.
    fn calls<'a>(&'a self, to: &mut Vec<PollFd<'a>>);

    /// Awake again: no calls any more. `answered` is what [`calls`](Doze::calls) has added, with what has become of it.
    fn disarm(&self, answered: &[PollFd<'_>]);
}

/// Is told of packets that a port drops and counts, of those that it was given: all segments of each, their metadata perhaps changed.
pub type Losses<'a> = dyn FnMut(&[Desc], Reason) + 'a;

/// [`Losses`] that are counted, and that is all.
pub fn only_counted(_: &[Desc], _: Reason) {}

/// A port that counts.
pub trait Statistics {
    /// The counters of every queue. `core` is left to the caller.
    fn report(&self) -> Vec<QueueStatus>;
}
