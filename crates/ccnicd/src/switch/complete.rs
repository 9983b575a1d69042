//! Packets whose sender has requested what their receiver does not take: checksums are computed, super-packets cut, tags inserted.
//!
//! All of it is done in a copy in the switch's memory: their sender may change the packets at any time, and nothing that its metadata or
//! headers say is believed.

use ccnic::layout::LARGE_BUF;
use ccnic::nic::{FETCH, Origin};
use ccnic::{Config, Desc, SharedMemory};
use ccnic_frame::vlan::TAG;
use ccnic_frame::{Headers, MAX_HEADERS, Meta, Segment, Segmenter, Sum, Takes, checksum};
use ccnic_shm::{NativeMemory, Pages, Region};

use super::policy::private::{Frame, tag};
use crate::ports::unsent::Unsent;

/// Headers of segments that are delivered together: each segment has a descriptor for its headers and one for its payload at least.
const HEADS: u32 = FETCH as u32 / 2;
const HEAD: u32 = MAX_HEADERS as u32;

/// Where the packet is copied to, behind the headers and with room for a tag.
const FRAME: u32 = HEADS * HEAD + 64;
/// The longest packet of a program, with a tag that a policy has inserted.
const LONGEST: u32 = Config::MAX_MTU as u32 + TAG as u32;
/// The most segments of a super-packet. It bounds what one packet of a hostile sender costs at each of its receivers: some microseconds. The
/// longest packet in segments of 150 bytes.
const SEGMENTS: u32 = 64;

/// Bytes of a packet that can be tagged: addresses and EtherType.
const UNTAGGED: u32 = 14;
/// Copies may read whole vectors behind the packet, so there is a page that is never written.
const SIZE: u32 = (FRAME + LONGEST).next_multiple_of(4096) + 4096;

/// Memory for one packet and the segments that it is cut into.
#[derive(Debug)]
pub(super) struct Completer {
    mem: NativeMemory,
}

impl Completer {
    /// # Errors
    /// When there is no memory.
    pub(super) fn new() -> Result<Completer, ccnic_shm::Error> {
        Ok(Completer { mem: Region::create(SIZE, Pages::Small)?.memory() })
    }

    /// Does for a packet, of whole segments, what a receiver that `takes` so much needs, and has `deliver` take the result: one packet, or
    /// the segments of a super-packet in bursts of at most [`FETCH`] descriptors.
    ///
    /// # Errors
    /// What is requested cannot be done, and nothing was delivered.
    pub(super) fn complete(
        &mut self,
        from: &Origin<'_, NativeMemory>,
        packet: &[Desc],
        takes: Takes,
        mut deliver: impl FnMut(&Origin<'_, NativeMemory>, &[Desc]),
    ) -> Result<(), Unsent> {
        let meta = Meta::from_word(packet.first().map_or(0, |desc| desc.meta));
        let (requested, rest) = (takes.leaves(meta), takes.rest(meta).word());
        let mut frame = self.copy(from.mem, packet)?;
        if requested.segmentation().is_some_and(|cut| frame.len > SEGMENTS * u32::from(cut.size)) {
            return Err(Unsent::BadOffload);
        }
        if let Some(tci) = requested.vlan() {
            if frame.len < UNTAGGED {
                return Err(Unsent::BadOffload);
            }
            frame = tag(&self.mem, frame, tci);
        }
        let origin = Origin { mem: &self.mem, mtu: frame.len as u16, idle: from.idle };
        let segmenter = self.mem.with_mut(frame.at, frame.len, |bytes| {
            let headers = Headers::parse(bytes, bytes.len());
            match requested.segmentation() {
                Some(cut) => Segmenter::new(cut, bytes, &headers).map(Some),
                None => checksum::complete(requested, bytes, &headers, []).map(|()| None),
            }
        })?;
        let mut burst = Burst::new();
        match segmenter {
            Some(segmenter) => {
                cut(&self.mem, frame, segmenter, rest, &mut burst, |burst| deliver(&origin, burst))
            }
            None => {
                frame.segments(rest).for_each(|desc| burst.push(desc));
                deliver(&origin, burst.descs());
            }
        }
        Ok(())
    }

    /// A copy of the packet in one piece.
    fn copy(&self, from: &NativeMemory, packet: &[Desc]) -> Result<Frame, Unsent> {
        let len = packet.iter().map(|desc| u32::from(desc.len())).sum();
        if len > LONGEST {
            return Err(Unsent::OverMtu);
        }
        let mut at = FRAME;
        for desc in packet {
            from.copy_to(desc.offset(), &self.mem, at, desc.len().into());
            at += u32::from(desc.len());
        }
        Ok(Frame { at: FRAME, len })
    }
}

/// Descriptors of whole packets, for one delivery.
struct Burst {
    descs: [Desc; FETCH],
    len: usize,
    heads: u32,
}

impl Burst {
    fn new() -> Burst {
        Burst { descs: [Desc::default(); FETCH], len: 0, heads: 0 }
    }

    fn push(&mut self, desc: Desc) {
        if let Some(slot) = self.descs.get_mut(self.len) {
            *slot = desc;
            self.len += 1;
        }
    }

    fn descs(&self) -> &[Desc] {
        self.descs.get(..self.len).unwrap_or_default()
    }

    /// True when there is room for the headers of one more segment, and for so many descriptors.
    fn has_room(&self, descs: usize) -> bool {
        self.len + descs <= FETCH && self.heads < HEADS
    }
}

/// Delivers the segments of a super-packet, each as its headers and its payload, where that is. `rest` is their metadata.
fn cut(
    mem: &NativeMemory,
    frame: Frame,
    mut segmenter: Segmenter,
    rest: u64,
    burst: &mut Burst,
    mut deliver: impl FnMut(&[Desc]),
) {
    for segment in segmenter.segments() {
        let payload = payload_of(frame, &segment);
        if !burst.has_room(1 + payload.descs()) {
            deliver(burst.descs());
            *burst = Burst::new();
        }
        let sum = mem.with(payload.at, payload.len, Sum::of);
        let head = segmenter.header(&segment, sum);
        let at = burst.heads * HEAD;
        mem.write(at, head);
        burst.heads += 1;
        burst.push(Desc::new(at, head.len() as u16, 0).with_meta(rest).with_more(payload.len > 0));
        payload.segments(rest).for_each(|desc| burst.push(desc));
    }
    deliver(burst.descs());
}

fn payload_of(frame: Frame, segment: &Segment) -> Frame {
    Frame { at: frame.at + segment.payload.start as u32, len: segment.payload.len() as u32 }
}

// A segment fits one delivery, and a tag the room before the packet.
const _: () = assert!((LONGEST.div_ceil(LARGE_BUF) as usize) < FETCH && TAG <= 64);

#[cfg(test)]
mod tests;
