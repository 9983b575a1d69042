//! Looks into a frame for the policy of the port that has sent it: tag, and addresses inside.

use ccnic::Desc;
use ccnic_frame::vlan::{self, TAG};
use ccnic_frame::{MAX_HEADERS, Meta};
use ccnic_shm::NativeMemory;

use super::Rules;
use super::private::Frame;
use crate::switch::frame::Addresses;

/// The bytes in which a tag shows; of a frame with a tag, the shortest.
const TO_TAG: usize = 12 + TAG;
const WITH_TAG: u32 = TO_TAG as u32 + 2;

/// A packet as forwarding sees it.
#[derive(Debug, Clone, Copy)]
pub(in crate::switch) struct Seen {
    pub(in crate::switch) addresses: Addresses,
    /// 0: none.
    pub(in crate::switch) vlan: u16,
    /// What goes on in its place, if it was copied.
    pub(in crate::switch) held: Option<Held>,
}

/// A frame that was copied out of its sender's memory, with its metadata word.
#[derive(Debug, Clone, Copy)]
pub(in crate::switch) struct Held {
    pub(in crate::switch) frame: Frame,
    pub(in crate::switch) meta: u64,
}

/// Why a packet does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::switch) enum Unfit {
    /// Shorter than an Ethernet header, with its tag.
    TooShort,
    /// Its port is not in the VLAN.
    WrongVlan,
    /// It claims an address that its port may not speak from.
    Spoofed,
    /// There is no room for a copy in this poll.
    NoRoom,
}

impl Rules {
    /// Copies a packet of so many bytes, which lies in `mem`, and looks at the copy. With VLANs the frame has no tag of its own then.
    pub(in crate::switch) fn look(
        &mut self,
        mem: &NativeMemory,
        packet: &[Desc],
        bytes: u32,
    ) -> Result<Seen, Unfit> {
        let Some(private) = &mut self.private else { return Err(Unfit::NoRoom) };
        let mut frame = private.hold(mem, packet, bytes).ok_or(Unfit::NoRoom)?;
        let mut start = [0; TO_TAG];
        let start = private.start(frame, &mut start);
        let addresses = Addresses::of_start(start).ok_or(Unfit::TooShort)?;
        let mut meta = packet.first().map_or(0, |desc| desc.meta);
        let mut vlan = 0;
        if self.policy.vlans.has_vlans() {
            let apart = Meta::from_word(meta);
            let inside = if apart.vlan().is_none() { vlan::outer(start) } else { None };
            let tag = apart.vlan().or(inside);
            vlan = self.policy.vlans.enters(tag).ok_or(Unfit::WrongVlan)?;
            meta = apart.with_vlan(tag.unwrap_or_default().with_vid(vlan)).word();
            if inside.is_some() {
                if frame.len < WITH_TAG {
                    return Err(Unfit::TooShort);
                }
                frame = private.strip(frame);
            }
        }
        if self.sources.looks_inside() {
            let mut start = [0; MAX_HEADERS];
            let start = private.start(frame, &mut start);
            if !self.sources.allows_frame(addresses.source(), start, frame.len as usize) {
                return Err(Unfit::Spoofed);
            }
        }
        Ok(Seen { addresses, vlan, held: Some(Held { frame, meta }) })
    }
}
