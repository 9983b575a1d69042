//! The place of a port in a worker's switch, and what is there.

use ccnic_control::ClientId;

use super::forward::BAD_SOURCE;
use super::frame::Addresses;
use super::lanes::{Guest, Lanes};
use super::policy::Rules;
use super::port::{Accepting, SwitchPort};
use super::table::Place;

/// The verdict on packets with these addresses: of the last packet of a port, since the next one's are mostly the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    pub(super) addresses: Addresses,
    /// Theirs, on a switch where ports have rules.
    pub(super) vlan: u16,
    pub(super) to: u16,
    /// Where the source address is in the table, if it is.
    pub(super) source: Option<Place>,
}

impl Verdict {
    /// On a packet whose addresses are all zeros.
    pub(super) const ZEROS: Verdict =
        Verdict { addresses: Addresses::ZEROS, vlan: 0, to: BAD_SOURCE, source: None };
}

/// A client's part of a worker's switch.
pub enum Member {
    /// A port that this worker polls, with hand-off queues to the others if there are any.
    Home(Box<dyn SwitchPort>, Option<Box<Lanes>>),
    /// A port that another worker polls.
    Guest(Box<Guest>),
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Member::Home(..) => "Home",
            Member::Guest(_) => "Guest",
        })
    }
}

/// The place of a port.
pub(super) struct Slot {
    pub(super) client: ClientId,
    /// `None`: it is being polled, here or by another worker.
    pub(super) port: Option<Box<dyn SwitchPort>>,
    /// To other workers.
    pub(super) lanes: Option<Box<Lanes>>,
    /// Of a port that another worker polls. `None`: it is being polled, or polls here.
    pub(super) guest: Option<Box<Guest>>,
    /// The worker that polls it, if that is another one.
    pub(super) away: Option<u16>,
    pub(super) accepts: Accepting,
    pub(super) last: Verdict,
    /// `last` is right as long as this is what the table says of its changes.
    pub(super) changes: u64,
    /// What the operator has decided for it; `None`: nothing, or the port is being polled.
    pub(super) rules: Option<Box<Rules>>,
    /// True while other ports are still to get the packet that it has dealt with last.
    pub(super) floods: bool,
    /// It is the mirror of another port.
    pub(super) watches: bool,
    /// Packets to this port that were dropped: more than its rules let it receive.
    pub(super) over_rate: u64,
}

impl Slot {
    /// True when what is flooded in a VLAN, by an `isolated` port or another, goes to this port, too.
    pub(super) fn takes_floods(&self, vlan: u16, isolated: bool) -> bool {
        !self.watches && self.takes(vlan, isolated)
    }

    /// True when what is in a VLAN, from an `isolated` port or another, may go to this port.
    pub(super) fn takes(&self, vlan: u16, isolated: bool) -> bool {
        let may = |rules: &Rules| rules.vlans().carries(vlan) && !(isolated && rules.policy().isolated);
        self.rules.as_deref().map_or(vlan == 0, may)
    }
}
