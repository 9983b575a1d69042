//! A port of a switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ccnic::Desc;
use ccnic::nic::Origin;
use ccnic::rss::Spreader;
use ccnic_control::messages::QueueStatus;
use ccnic_frame::Takes;
use ccnic_shm::NativeMemory;

use super::policy::Rules;
use super::{Completer, PortId, Switch};
use crate::ports::{Accepts, Doze, Losses, Notify, Statistics};

/// What a port takes as it is, for all workers.
#[derive(Debug, Clone)]
pub enum Accepting {
    /// It stays so.
    Always(Accepts),
    /// A program that may say something else at any time; one that has changed its mind meanwhile has the rest done for it by its port.
    Program {
        /// [`Takes::bits`], stored by the control thread.
        takes: Arc<AtomicU32>,
        /// Bytes of the longest packet.
        longest: u32,
    },
}

impl Accepting {
    /// What it takes now.
    pub fn now(&self) -> Accepts {
        match self {
            Accepting::Always(accepts) => *accepts,
            Accepting::Program { takes, longest } => {
                Accepts { takes: Takes::from_bits(takes.load(Ordering::Relaxed)), longest: *longest }
            }
        }
    }
}

/// A port of any kind, joined with others by a [`Switch`]. One dynamic call moves a burst.
///
/// It is two things: a client of its worker, which polls it in its turn and charges it with the time that its packets take, wherever they
/// go; and a receiver of other ports' packets.
pub trait SwitchPort: Statistics + Send {
    /// Looks at a few queues at most, up to `polls` times, until one has a burst, and gives that to [`Switch::forward`] as coming from
    /// port `at`; returns the descriptors dealt with.
    fn spin(&mut self, at: PortId, polls: usize, switch: &mut Switch) -> usize;

    /// Takes copies of another port's packets, at most [`FETCH`](ccnic::nic::FETCH) descriptors, and publishes them. Never waits: what it
    /// has no room for it drops and counts, and tells `lost`. Prefetches the payload of `ahead`, which lies where `packets` do. What it does
    /// not take as it is `completer` does for it.
    fn receive(
        &mut self,
        from: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
        lost: &mut Losses<'_>,
        completer: &mut Completer,
    );

    /// True when it takes packets whose metadata request something (`ccnic_frame::Meta`): checksums that are not computed,
    /// super-packets. Others get such packets only from programs, whose metadata are passed on whatever they say.
    fn takes_offloads(&self) -> bool {
        false
    }

    /// What it takes as it is of packets from outside, now and later.
    fn accepts(&self) -> Accepting {
        Accepting::Always(if self.takes_offloads() { Accepts::ALL } else { Accepts::COMPLETE })
    }

    /// The memory that the packets lie in which it gives, and the most bytes that one of them has: for workers that copy from there.
    fn lends(&self) -> (NativeMemory, u16);

    /// What it has given to other workers is done with, perhaps: it is to be [settled](Switch::settle_handed).
    fn settle(&mut self, at: PortId, switch: &mut Switch);

    /// What the operator has decided for it. The switch takes it when the port joins.
    fn take_rules(&mut self) -> Option<Box<Rules>> {
        None
    }

    /// See [`Poll::round`](crate::poll::Poll::round).
    fn round(&self) -> usize;

    /// See [`Poll::sweep`](crate::poll::Poll::sweep).
    fn sweep(&self) -> usize;

    /// See [`Poll::backlog`](crate::poll::Poll::backlog).
    fn backlog(&self) -> usize;

    /// See [`Poll::awoke`](crate::poll::Poll::awoke).
    fn awoke(&mut self) {}

    /// When it is no port of the switch any more: gives back what one more queue keeps. False when there is no such queue left.
    fn retire(&mut self) -> bool;

    /// Its way to let its worker sleep, if it has one and there is nothing to do.
    fn doze(&self) -> Option<&dyn Doze> {
        None
    }

    /// Its way to be told of notifiers, if it has one.
    fn notify(&mut self) -> Option<&mut dyn Notify>;

    /// Spreads what it receives over its queues by this table from now on; `None`: all of it goes to the first queue.
    fn set_rss(&mut self, spreader: Option<Arc<Spreader>>);
}

/// What became of the packets of one queue of a port, but for those that went to another port. Each packet that is not delivered is
/// counted here or, under its reason, at the port that it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwitchCounters {
    /// Dropped: shorter than an Ethernet header.
    pub too_short: u64,
    /// Dropped: from a group address, or from none.
    pub bad_source: u64,
    /// Dropped: to an address of protocols that end at the next bridge.
    pub reserved: u64,
    /// Dropped: to an address at the port that they came from, or there is no other port.
    pub no_destination: u64,
    /// Dropped: the port may not speak from an address that they claim.
    pub spoofed: u64,
    /// Dropped: the port is not in their VLAN.
    pub wrong_vlan: u64,
    /// Dropped: their port and the one that they were for are isolated.
    pub isolated: u64,
    /// Dropped: more than the port may flood.
    pub storm: u64,
    /// Dropped: they could not be handed over to another worker.
    pub not_handed: u64,
    /// Times that packets waited: the port had sent what it may.
    pub waits: u64,
    /// Sent to all other ports.
    pub flooded: u64,
    /// Copies of these, beyond the first of each; and copies for mirrors.
    pub extra_copies: u64,
    /// Times that a source address was not learned: there was no room for it.
    pub not_learned: u64,
}

impl SwitchCounters {
    /// Adds them to what the port itself reports of the queue.
    pub(super) fn add_to(&self, queue: &mut QueueStatus) {
        queue.drop_too_short = self.too_short;
        queue.drop_bad_source = self.bad_source;
        queue.drop_reserved = self.reserved;
        queue.drop_no_destination = self.no_destination;
        queue.drop_spoofed = self.spoofed;
        queue.drop_vlan = self.wrong_vlan;
        queue.drop_isolated = self.isolated;
        queue.drop_storm = self.storm;
        queue.drop_handoff_full += self.not_handed;
        queue.wait_rate = self.waits;
        queue.flooded = self.flooded;
        queue.extra_copies = self.extra_copies;
        queue.not_learned = self.not_learned;
    }
}
