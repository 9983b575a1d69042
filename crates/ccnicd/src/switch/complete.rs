//! Packets whose sender has requested what their receiver does not take: checksums are computed, super-packets cut, tags inserted.
//!
//! All of it is done in a copy in the switch's memory: their sender may change the packets at any time, and nothing that its metadata or
//! headers say is believed.
//!
//! A packet that is flooded is done with once for all its receivers that need the same of it: the result is kept for as long as the flood
//! goes on.

use crate::memory::RegionMemory;
use ccnic::layout::LARGE_BUF;
use ccnic::nic::{FETCH, Origin};
use ccnic::{Config, Desc, SharedMemory};
use ccnic_frame::vlan::TAG;
use ccnic_frame::{Headers, MAX_HEADERS, Meta, Segment, Segmenter, Sum, Takes, checksum};
use ccnic_shm::{NativeMemory, Pages, Region};

use super::govern::first;
use super::policy::private::{Frame, tag};
use crate::ports::unsent::Unsent;

/// The most segments of a super-packet. It bounds what one packet of a hostile sender costs: some microseconds for whoever needs it cut
/// anew, and as many copies for each receiver. The longest packet in segments of 150 bytes.
pub(super) const SEGMENTS: u32 = 64;
/// Each segment begins with the headers.
const HEAD: u32 = MAX_HEADERS as u32;

/// The longest packet of a program, with a tag that a policy has inserted.
const LONGEST: u32 = Config::MAX_MTU as u32 + TAG as u32;
/// The copy's place, behind the headers and with room for a tag.
const FRAME: u32 = SEGMENTS * HEAD + 64;
/// The most descriptors of a result: of each segment one for its headers and one for its payload, and one more for each large buffer that
/// the payload of all fills.
const DESCS: usize = 2 * SEGMENTS as usize + LONGEST.div_ceil(LARGE_BUF) as usize;
/// Memory of one result.
const ROOM: u32 = (FRAME + LONGEST).next_multiple_of(4096);

/// Bytes of a packet that can be tagged: addresses and EtherType.
const UNTAGGED: u32 = 14;

/// Results: what one flooded packet can become by what its receivers take and whether their VLAN has a tag, with some to spare for other
/// floods; the first is that of packets for one receiver.
const RESULTS: usize = 8;

/// Bytes that are written as fast as a segment's descriptors, headers and calls.
pub(super) const BYTES: u32 = 512;

/// Completes packets whose receivers do not take the offloads that their senders request. A worker's switch has one.
#[derive(Debug)]
pub struct Completer {
    results: Box<[Completed]>,
    /// The flood that goes on, if one does: a number that no other has.
    flood: Option<u64>,
    /// The result that is replaced next, of those of floods.
    next: usize,
    /// Work so far, and of that what has been asked for.
    pub(super) work: Work,
    told: Work,
}

/// Work done, in units that do not depend on a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Work {
    /// Packets that were copied here and done with.
    pub(super) completed: usize,
    /// Segments that super-packets were cut into.
    pub(super) cut: usize,
    /// Bytes that were copied for that.
    pub(super) bytes: usize,
    /// Descriptors of results that were delivered.
    pub(super) delivered: usize,
}

impl Work {
    /// In copies of small packets. Bytes are copied here, and summed.
    fn weight(self) -> usize {
        self.cut + self.delivered + 2 * self.bytes / BYTES as usize
    }
}

/// Of which packet and for which receivers a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    flood: u64,
    start: Desc,
    done: Meta,
}

/// A packet as receivers need it.
#[derive(Debug)]
struct Completed {
    mem: NativeMemory,
    key: Option<Key>,
    /// None of its packets has more bytes.
    longest: u16,
    outcome: Result<(), Unsent>,
    descs: [Desc; DESCS],
    len: usize,
}

impl Completer {
    /// # Errors
    /// When there is no memory.
    pub(super) fn new() -> Result<Completer, ccnic_shm::Error> {
        // Copies may read whole vectors behind a packet, so there is a page that is never written.
        let result = || -> Result<Completed, ccnic_shm::Error> {
            let mem = Region::create(ROOM + 4096, Pages::Small)?.memory();
            let (longest, descs) = (0, [Desc::default(); DESCS]);
            Ok(Completed { mem, key: None, longest, outcome: Ok(()), descs, len: 0 })
        };
        let results = (0..RESULTS).map(|_| result()).collect::<Result<_, _>>()?;
        Ok(Completer { results, ..Completer::none() })
    }

    /// For a switch without ports.
    pub(super) fn none() -> Completer {
        Completer {
            results: Box::default(),
            flood: None,
            next: 0,
            work: Work::default(),
            told: Work::default(),
        }
    }

    /// Copies completed from now on are of the packet of this flood, until it is another one; `None`: of packets that differ.
    pub(super) fn flood(&mut self, number: Option<u64>) {
        self.flood = number;
    }

    /// Work done since the last call, in copies of small packets.
    pub(super) fn take_work(&mut self) -> usize {
        let told = std::mem::replace(&mut self.told, self.work);
        self.work.weight().saturating_sub(told.weight())
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
        let start = packet.first().copied().unwrap_or_default();
        let done = takes.leaves(Meta::from_word(start.meta));
        let key = self.flood.map(|flood| Key { flood, start, done });
        let kept = key.and_then(|key| self.results.iter().position(|result| result.key == Some(key)));
        let at = match (kept, key) {
            (Some(at), _) => at,
            (None, None) => 0,
            (None, Some(_)) => {
                self.next = self.next % (RESULTS - 1) + 1;
                self.next
            }
        };
        let Some(result) = self.results.get_mut(at) else { return Err(Unsent::BadOffload) };
        if kept.is_none() {
            result.key = key;
            result.outcome = result.prepare(from.mem, packet, takes, &mut self.work);
        }
        result.outcome?;
        let origin = Origin { mem: &result.mem, mtu: result.longest, idle: from.idle };
        let descs = result.descs.get(..result.len).unwrap_or_default();
        self.work.delivered += descs.len();
        let mut sent = 0;
        while sent < descs.len() {
            let mut end = sent;
            while let Some(packet) = first(descs, end).filter(|packet| end + packet.len() - sent <= FETCH) {
                end += packet.len();
            }
            deliver(&origin, descs.get(sent..end).unwrap_or_default());
            sent = end.max(sent + 1);
        }
        Ok(())
    }
}

impl Completed {
    /// Makes it the result for a packet.
    fn prepare(
        &mut self,
        from: &NativeMemory,
        packet: &[Desc],
        takes: Takes,
        work: &mut Work,
    ) -> Result<(), Unsent> {
        self.len = 0;
        work.completed += 1;
        let meta = Meta::from_word(packet.first().map_or(0, |desc| desc.meta));
        let (requested, rest) = (takes.leaves(meta), takes.rest(meta).word());
        let mut frame = self.copy(from, packet)?;
        work.bytes += frame.len as usize;
        if requested.segmentation().is_some_and(|cut| frame.len > SEGMENTS * u32::from(cut.size)) {
            return Err(Unsent::BadOffload);
        }
        if let Some(tci) = requested.vlan() {
            if frame.len < UNTAGGED {
                return Err(Unsent::BadOffload);
            }
            frame = tag(&self.mem, frame, tci);
        }
        self.longest = frame.len as u16;
        let segmenter = self.mem.with_mut(frame.at, frame.len, |bytes| {
            let headers = Headers::parse(bytes, bytes.len());
            match requested.segmentation() {
                Some(cut) => Segmenter::new(cut, bytes, &headers).map(Some),
                None => checksum::complete(requested, bytes, &headers, []).map(|()| None),
            }
        })?;
        match segmenter {
            Some(segmenter) => self.cut(frame, segmenter, rest, work),
            None => frame.segments(rest).for_each(|desc| self.push(desc)),
        }
        Ok(())
    }

    fn push(&mut self, desc: Desc) {
        if let Some(slot) = self.descs.get_mut(self.len) {
            *slot = desc;
            self.len += 1;
        }
    }

    /// Adds the segments of a super-packet, each as its headers and its payload, where that is. `rest` is their metadata.
    fn cut(&mut self, frame: Frame, mut segmenter: Segmenter, rest: u64, work: &mut Work) {
        for (segment, number) in segmenter.segments().zip(0..SEGMENTS) {
            let payload = payload_of(frame, &segment);
            let sum = self.mem.with(payload.at, payload.len, Sum::of);
            let head = segmenter.header(&segment, sum);
            let at = number * HEAD;
            self.mem.write(at, head);
            let head = Desc::new(at, head.len() as u16, 0).with_meta(rest).with_more(payload.len > 0);
            self.push(head);
            payload.segments(rest).for_each(|desc| self.push(desc));
            work.cut += 1;
        }
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

fn payload_of(frame: Frame, segment: &Segment) -> Frame {
    Frame { at: frame.at + segment.payload.start as u32, len: segment.payload.len() as u32 }
}

// A segment fits one delivery, and a tag the room before the packet.
const _: () = assert!((LONGEST.div_ceil(LARGE_BUF) as usize) < FETCH && TAG <= 64);

#[cfg(test)]
mod tests;
