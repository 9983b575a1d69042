//! What the operator has decided for a port, and what forwarding makes of it.
//!
//! | file | contents |
//! |---|---|
//! | `assigned.rs` | [`Policies`]: which port or program gets which |
//! | `vlan.rs` | [`Vlans`]: which frames enter and leave, and how |
//! | `sources.rs` | which addresses a port may speak from |
//! | `bucket.rs` | [`Rate`]: token buckets |
//! | `look.rs`, `private.rs` | frames that are looked into, and where they are copied to first |
//!
//! A [`Policy`] is what was configured. [`Rules`] are the same, made ready for one port; the port brings them into the switch. A port without
//! has none, and a switch without any port that has rules does not look for them; where they only limit floods, it does so when a packet is
//! to be flooded.

mod assigned;
pub(super) mod bucket;
pub(super) mod look;
pub(super) mod private;
mod sources;
mod vlan;

use ccnic_control::ClientId;

pub use assigned::{Policies, ProgramPolicy};
pub use bucket::Rate;
pub use sources::Prefix;
pub use vlan::{Carried, VLANS, Vlans};

use super::frame::{Mac, Station};
use bucket::Limiter;
use private::Private;
use sources::Sources;

/// What a port may do. The default is anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The VLANs that it is in.
    pub vlans: Vlans,
    /// The MAC addresses that it may speak from; none: any.
    pub macs: Vec<Mac>,
    /// The IP addresses that it may speak from; none: any.
    pub addresses: Vec<Prefix>,
    /// It exchanges nothing with other isolated ports.
    pub isolated: bool,
    /// The packets a second from it that may be flooded: to groups, and to addresses that are not known.
    pub storm: Option<u64>,
    /// What it may send. More waits.
    pub sends: Rate,
    /// What may be sent to it. More is dropped.
    pub receives: Rate,
    /// Addresses that are at this port, whatever frames say.
    pub fixed: Vec<Station>,
    /// Where copies of its packets go.
    pub mirror: Option<Mirror>,
}

/// Copies of a port's packets for another port, which takes no other part in the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mirror {
    /// The port that they go to.
    pub to: ClientId,
    /// Of what the port sends, as it has sent it, also of what is dropped then.
    pub sent: bool,
    /// Of what is sent to the port.
    pub received: bool,
}

/// A policy, ready for use by one port of a switch.
#[derive(Debug)]
pub struct Rules {
    policy: Policy,
    pub(super) sources: Sources,
    pub(super) limits: Limits,
    /// Of frames that are looked into.
    pub(super) private: Option<Private>,
    /// The port that its mirror is.
    pub(super) mirror: Option<super::PortId>,
    /// They limit nothing but floods: packets take the way of ports without rules.
    pub(super) only_storm: bool,
}

/// The token buckets of a port.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) sends: Limiter,
    pub(super) receives: Limiter,
    pub(super) floods: Limiter,
}

impl Limits {
    fn new(policy: &Policy, second: u64) -> Limits {
        Limits {
            sends: Limiter::new(&policy.sends, second),
            receives: Limiter::new(&policy.receives, second),
            floods: Limiter::new(&Rate::of_packets(policy.storm), second),
        }
    }
}

impl Rules {
    /// What a port needs for this policy; `None`: nothing, it allows everything.
    ///
    /// # Errors
    /// When there is no memory for frames that are to be looked into.
    pub fn new(policy: &Policy) -> Result<Option<Box<Rules>>, ccnic_shm::Error> {
        if *policy == Policy::default() {
            return Ok(None);
        }
        let sources = Sources::new(&policy.macs, &policy.addresses);
        let looks = policy.vlans.has_vlans() || !sources.is_open();
        Ok(Some(Box::new(Rules {
            sources,
            limits: Limits::new(policy, 1),
            private: if looks { Some(Private::new()?) } else { None },
            mirror: None,
            only_storm: Policy { storm: None, ..policy.clone() } == Policy::default(),
            policy: policy.clone(),
        })))
    }

    /// They are in force from now on, by a clock of so many ticks a second.
    pub(super) fn start(&mut self, second: u64) {
        self.limits = Limits::new(&self.policy, second);
    }

    #[inline(always)]
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    #[inline(always)]
    pub(super) fn vlans(&self) -> &Vlans {
        &self.policy.vlans
    }

    /// The mirror of what it sends.
    pub(super) fn mirrors_sent(&self) -> Option<super::PortId> {
        self.mirror.filter(|_| self.policy.mirror.is_some_and(|mirror| mirror.sent))
    }

    /// The mirror of what is sent to it.
    pub(super) fn mirrors_received(&self) -> Option<super::PortId> {
        self.mirror.filter(|_| self.policy.mirror.is_some_and(|mirror| mirror.received))
    }
}
