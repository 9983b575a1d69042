//! What ports to somewhere outside have in common when they send: what a packet requests, how long it may be, and why it was not sent.

use ccnic::Desc;
use ccnic::nic::gather;
use ccnic_control::capture::Reason;
use ccnic_control::messages::QueueStatus;
use ccnic_frame::vlan::{self, TAG};
use ccnic_frame::{Checksum, MAX_HEADERS, Malformed, Meta, Refusal};
use ccnic_shm::NativeMemory;

use super::Losses;

/// Bytes that a frame may have beyond the MTU: an Ethernet header and a tag, as Linux has it (`is_skb_forwardable`).
pub(super) const BEYOND_MTU: usize = 14 + TAG;

/// Why a packet was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// Longer than the interface's MTU, or its segments are.
    OverMtu,
    /// What its metadata request cannot be done.
    BadOffload,
    /// There is no room for it now.
    Full,
    /// The interface is down, or gone.
    Down,
    /// The kernel has refused it otherwise.
    Refused,
}

impl From<Refusal> for Unsent {
    fn from(_: Refusal) -> Unsent {
        Unsent::BadOffload
    }
}

impl Unsent {
    /// Counts packets, and tells of them.
    pub(super) fn lose(self, counters: &mut QueueStatus, packets: &[Desc], lost: &mut Losses<'_>) {
        let number = packets.iter().filter(|desc| !desc.more()).count();
        lost(packets, self.count(counters, number as u64));
    }

    /// Counts so many packets; returns the reason that has this counter.
    pub(super) fn count(self, counters: &mut QueueStatus, packets: u64) -> Reason {
        let (counter, reason) = match self {
            Unsent::OverMtu => (&mut counters.drop_over_mtu, Reason::OverMtu),
            Unsent::BadOffload => (&mut counters.drop_bad_offload, Reason::BadOffload),
            Unsent::Full => (&mut counters.drop_ring_full, Reason::RingFull),
            Unsent::Down => (&mut counters.drop_port_down, Reason::PortDown),
            Unsent::Refused => (&mut counters.drop_port_refused, Reason::PortRefused),
        };
        *counter += packets;
        reason
    }
}

/// True when something is to be done with a packet of these metadata. (That a checksum is good is not believed.)
#[inline(always)]
pub(super) fn requests(meta: Meta) -> bool {
    let requested = |checksum| checksum == Checksum::Requested;
    meta.vlan().is_some() || requested(meta.ip_checksum()) || requested(meta.l4_checksum())
}

/// The first bytes of a packet of which something is requested: copied out of its sender's memory once, since that may change them at any
/// time, and with the VLAN tag that is requested.
pub(super) struct Start {
    bytes: [u8; TAG + MAX_HEADERS],
    /// Bytes of the packet that were copied, all of its headers; they begin behind room for a tag.
    pub(super) copied: usize,
    /// Bytes of the tag that was inserted: 0 without.
    pub(super) tagged: usize,
}

impl Start {
    pub(super) fn of(mem: &NativeMemory, packet: &[Desc], meta: Meta) -> Result<Start, Unsent> {
        let mut bytes = [0; TAG + MAX_HEADERS];
        let copied = gather(mem, packet, bytes.get_mut(TAG..).unwrap_or_default());
        let tagged = match meta.vlan() {
            Some(tci) if vlan::insert(bytes.get_mut(..TAG + copied).unwrap_or_default(), tci) => TAG,
            Some(_) => return Err(Refusal::Malformed(Malformed::Truncated).into()),
            None => 0,
        };
        Ok(Start { bytes, copied, tagged })
    }

    /// The bytes, from the tag or without one.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.bytes.get_mut(TAG - self.tagged..TAG + self.copied).unwrap_or_default()
    }
}
