//! Packets to the interface: copied out of their sender's memory into frames, with what is requested for them computed there.
//!
//! Packets come from programs: nothing that their metadata or headers say is believed, and a program may change the bytes at any time. So
//! headers are copied out once and checked there, and sums are of the bytes that are in the frames.

use ccnic::{Desc, SharedMemory};
use ccnic_frame::{Checksum, Headers, Meta, Segmentation, Segmenter, Sum, checksum};
use ccnic_shm::NativeMemory;
use ccnic_shm::xdp::{Descriptor, FRAME};

use super::lane::Lane;
use crate::ports::unsent::{Start, Unsent, requests};

/// The most frames of a packet: 64 KiB, and headers (the kernel's own limit, `MAX_SKB_FRAGS`).
const FRAMES: usize = 17;

/// Where a packet's bytes come from.
struct Source<'a> {
    mem: &'a NativeMemory,
    packet: &'a [Desc],
}

impl Lane {
    /// Puts a packet, of whole segments, into frames; the kernel gets it with the next [`send`](Lane::send). No frame that is sent has more
    /// than `most` bytes. `ours` is the port's memory, `from` the one that the packet lies in.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        ours: &NativeMemory,
        most: usize,
        from: &NativeMemory,
        packet: &[Desc],
    ) -> Result<(), Unsent> {
        let source = Source { mem: from, packet };
        let meta = Meta::from_word(packet.first().map_or(0, |desc| desc.meta));
        match packet {
            [desc] if u32::from(desc.len()) <= FRAME && !requests(meta) => {
                self.push_short(ours, most, from, *desc)
            }
            _ => self.push_any(ours, most, &source, meta),
        }
    }

    /// A packet in one piece, of which nothing is requested, in one frame.
    #[inline(always)]
    fn push_short(
        &mut self,
        ours: &NativeMemory,
        most: usize,
        from: &NativeMemory,
        desc: Desc,
    ) -> Result<(), Unsent> {
        let len = u32::from(desc.len());
        if len as usize > most {
            return Err(Unsent::OverMtu);
        }
        if self.free.is_empty() {
            self.reclaim();
        }
        let frame = self.frame(0)?;
        if !self.socket.tx.push(Descriptor::new(frame, len, false)) {
            return Err(Unsent::Full);
        }
        self.free.pop();
        from.copy_to(desc.offset(), ours, self.base + frame as u32, len);
        self.packets += 1;
        self.bytes += u64::from(len);
        Ok(())
    }

    #[inline(never)]
    fn push_any(
        &mut self,
        ours: &NativeMemory,
        most: usize,
        source: &Source<'_>,
        meta: Meta,
    ) -> Result<(), Unsent> {
        let len: usize = source.packet.iter().map(|desc| usize::from(desc.len())).sum();
        if self.free.len() < FRAMES {
            self.reclaim();
        }
        if requests(meta) {
            self.push_prepared(ours, most, source, len, meta)?;
        } else if len > most {
            return Err(Unsent::OverMtu);
        } else {
            self.copy(ours, source, 0, 0, len)?;
            self.commit(len)?;
        }
        self.packets += 1;
        self.bytes += len as u64;
        Ok(())
    }

    /// A packet of which something is requested.
    fn push_prepared(
        &mut self,
        ours: &NativeMemory,
        most: usize,
        source: &Source<'_>,
        len: usize,
        meta: Meta,
    ) -> Result<(), Unsent> {
        let mut start = Start::of(source.mem, source.packet, meta)?;
        let (copied, tagged) = (start.copied, start.tagged);
        let start = start.bytes();
        let headers = Headers::parse(start, len + tagged);
        if let Some(cut) = meta.segmentation() {
            return self.push_segments(
                ours,
                most,
                source,
                tagged,
                Segmenter::new(cut, start, &headers)?,
                cut,
            );
        }
        if len + tagged > most {
            return Err(Unsent::OverMtu);
        }
        self.copy(ours, source, start.len(), copied, len + tagged)?;
        if meta.ip_checksum() == Checksum::Requested {
            checksum::fill_ipv4(start, &headers)?;
        }
        if meta.l4_checksum() == Checksum::Requested {
            let mut sum = checksum::l4_sum(start, &headers)?;
            sum.add_sum(self.sum(ours, start.len(), headers.l4_end));
            checksum::store_l4(start, &headers, sum);
        }
        self.write_head(ours, start);
        self.commit(len + tagged)
    }

    /// A super-packet: all of its segments, or none.
    fn push_segments(
        &mut self,
        ours: &NativeMemory,
        most: usize,
        source: &Source<'_>,
        tagged: usize,
        mut segmenter: Segmenter,
        cut: Segmentation,
    ) -> Result<(), Unsent> {
        let head = segmenter.header_len();
        if segmenter.longest() > most {
            return Err(Unsent::OverMtu);
        }
        let segments = segmenter.segments();
        let (number, each) =
            (segments.clone().count(), (head + usize::from(cut.size)).div_ceil(FRAME as usize));
        if self.free.len() < number * each {
            self.reclaim();
        }
        let room = self.socket.tx.room((number * each) as u32) as usize;
        if self.free.len() < number * each || room < number * each {
            return Err(Unsent::Full);
        }
        for segment in segments {
            let len = head + segment.payload.len();
            // (Where the payload lies in the packet, which has no tag yet.)
            self.copy(ours, source, head, segment.payload.start - tagged, len)?;
            let payload = self.sum(ours, head, len);
            self.write_head(ours, segmenter.header(&segment, payload));
            self.commit(len)?;
        }
        Ok(())
    }

    /// The free frame that is taken after so many others.
    #[inline(always)]
    fn frame(&self, after: usize) -> Result<u64, Unsent> {
        self.free.iter().rev().nth(after).copied().ok_or(Unsent::Full)
    }

    /// Copies bytes of the packet, from its byte `from` on, to the free frames that are taken next: to byte `to` on of what becomes a packet
    /// of `len` bytes.
    fn copy(
        &self,
        ours: &NativeMemory,
        source: &Source<'_>,
        to: usize,
        from: usize,
        len: usize,
    ) -> Result<(), Unsent> {
        if len > FRAMES * FRAME as usize {
            return Err(Unsent::OverMtu);
        }
        let (mut to, mut skip, len) = (to as u32, from as u32, len as u32);
        for desc in source.packet {
            let before = skip.min(desc.len().into());
            skip -= before;
            let (mut at, mut left) = (desc.offset() + before, u32::from(desc.len()) - before);
            while left > 0 && to < len {
                let frame = self.frame((to / FRAME) as usize)? as u32;
                let n = left.min(FRAME - to % FRAME).min(len - to);
                source.mem.copy_to(at, ours, self.base + frame + to % FRAME, n);
                (at, left, to) = (at + n, left - n, to + n);
            }
        }
        Ok(())
    }

    /// The sum of the bytes from `from` to `to` of the packet that is being made.
    fn sum(&self, ours: &NativeMemory, from: usize, to: usize) -> Sum {
        let mut sum = Sum::new();
        let (mut at, to) = (from as u32, to as u32);
        while at < to {
            let Ok(frame) = self.frame((at / FRAME) as usize) else { break };
            let n = (FRAME - at % FRAME).min(to - at);
            sum.add_sum(ours.with(self.base + frame as u32 + at % FRAME, n, Sum::of));
            at += n;
        }
        sum
    }

    /// Writes the first bytes of the packet that is being made: fewer than a frame has.
    fn write_head(&self, ours: &NativeMemory, head: &[u8]) {
        if let Ok(frame) = self.frame(0) {
            ours.write(self.base + frame as u32, head);
        }
    }

    /// Puts the packet that has been made, of `len` bytes, into the ring.
    fn commit(&mut self, len: usize) -> Result<(), Unsent> {
        let frames = len.div_ceil(FRAME as usize).max(1);
        if self.free.len() < frames || (self.socket.tx.room(frames as u32) as usize) < frames {
            return Err(Unsent::Full);
        }
        let mut left = len as u32;
        for _ in 0..frames {
            let Some(frame) = self.free.pop() else { break };
            let n = left.min(FRAME);
            left -= n;
            self.socket.tx.push(Descriptor::new(frame, n, left > 0));
        }
        Ok(())
    }
}
