//! Packets on their way out of the switch, as the policy of the port that they go to has it: no more than it may receive, with a tag or
//! without.

use ccnic::Desc;
use ccnic::nic::{FETCH, Origin};
use ccnic_frame::vlan::TAG;
use ccnic_frame::{Meta, Tci};
use ccnic_shm::NativeMemory;

use super::govern::first;
use super::policy::Rules;
use super::policy::private::{Frame, tag, untag};

/// A burst for one port.
pub(super) struct Leaving {
    descs: [Desc; FETCH],
    len: usize,
    /// Frames that have been given a tag.
    tagged: [Frame; FETCH],
    tags: usize,
    /// Packets that were dropped: more than the port may receive.
    over_rate: u64,
    /// The port takes tags in the metadata.
    takes_offloads: bool,
}

impl Leaving {
    pub(super) fn new(takes_offloads: bool) -> Leaving {
        let none = Frame { at: 0, len: 0 };
        Leaving {
            descs: [Desc::default(); FETCH],
            len: 0,
            tagged: [none; FETCH],
            tags: 0,
            over_rate: 0,
            takes_offloads,
        }
    }

    pub(super) fn descs(&self) -> &[Desc] {
        self.descs.get(..self.len).unwrap_or_default()
    }

    pub(super) fn over_rate(&self) -> u64 {
        self.over_rate
    }

    /// Where the packets come from, which may be longer than they were.
    pub(super) fn origin<'a>(&self, origin: &Origin<'a, NativeMemory>) -> Origin<'a, NativeMemory> {
        let more = if self.tags > 0 { TAG as u16 } else { 0 };
        Origin { mem: origin.mem, mtu: origin.mtu.saturating_add(more), idle: origin.idle }
    }

    /// Adds packets that lie in `mem`, as many as there is room for, less those that are more than the port may receive, which are counted;
    /// and shown to `lost`; returns the rest. If they come from a port that `has_vlans`, `mem` is the switch's, and their VLAN is in their
    /// metadata.
    pub(super) fn fill<'a>(
        &mut self,
        rules: &mut Rules,
        has_vlans: bool,
        mem: &NativeMemory,
        packets: &'a [Desc],
        now: u64,
        mut lost: impl FnMut(&[Desc]),
    ) -> &'a [Desc] {
        let mut done = 0;
        while let Some(packet) = first(packets, done) {
            if self.len + packet.len() >= FETCH && self.len > 0 {
                break; // a tag may make one more segment
            }
            done += packet.len();
            if !rules.limits.receives.admits(now) {
                self.over_rate += 1;
                lost(packet);
                continue;
            }
            let bytes = packet.iter().map(|desc| u32::from(desc.len())).sum();
            rules.limits.receives.charge(bytes);
            let meta = Meta::from_word(packet.first().map_or(0, |desc| desc.meta));
            match meta.vlan().filter(|_| has_vlans) {
                Some(tci) => self.push_of_vlan(rules, mem, packet, bytes, meta, tci),
                None => self.push(packet.iter().copied()),
            }
        }
        packets.get(done..).unwrap_or_default()
    }

    fn push(&mut self, packet: impl Iterator<Item = Desc>) {
        for (slot, desc) in self.descs.iter_mut().skip(self.len).zip(packet) {
            *slot = desc;
            self.len += 1;
        }
    }

    fn push_of_vlan(
        &mut self,
        rules: &Rules,
        mem: &NativeMemory,
        packet: &[Desc],
        bytes: u32,
        meta: Meta,
        tci: Tci,
    ) {
        let tags = rules.vlans().tags(tci.vid());
        if tags && self.takes_offloads {
            return self.push(packet.iter().copied());
        }
        let word = meta.without_vlan().word();
        if !tags {
            return self.push(packet.iter().map(|desc| desc.with_meta(word)));
        }
        let frame = tag(mem, Frame { at: packet.first().map_or(0, |desc| desc.offset()), len: bytes }, tci);
        self.tagged.get_mut(self.tags).into_iter().for_each(|slot| *slot = frame);
        self.tags += 1;
        self.push(frame.segments(word));
    }

    /// Takes the tags out again: the same frames may go to other ports.
    pub(super) fn restore(&self, mem: &NativeMemory) {
        self.tagged.iter().take(self.tags).for_each(|frame| untag(mem, *frame));
    }
}
