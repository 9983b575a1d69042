//! Frames on their way to the ring.
//!
//! A frame of more than 128 bytes is written straight into a buffer of the region, where the NIC reads it; some are kept ready, so that one can be
//! had while a received frame is lent. A shorter one waits in a place of two lines here, from which it is copied into the ring itself, beside
//! its descriptor. All leave in bursts, in the order in which they were made.

use std::collections::VecDeque;
use std::sync::Arc;

use ccnic::SharedMemory;
use ccnic_client::{Buf, Burst, Config, QueuePair};
use ccnic_frame::{Headers, Meta, Segmentation, Takes, checksum};
use ccnic_shm::NativeMemory;

use crate::draft::Draft;
use crate::engine::Output;
use crate::fragments::{Idents, Long};
use crate::kept::{KeptMemory, Part};
use crate::udp::ETHERNET;

/// Bytes of a short frame: what `QueuePair::tx_small` sends.
pub(crate) const SHORT: usize = 128;
/// Bytes of a buffer.
pub(crate) const BUFFER: usize = 4096;
/// Frames that may wait.
const PLACES: usize = 256;
/// Frames with kept parts that are sent at once.
const KEPT_BURST: usize = 16;
/// In the place of the number of buffers: a packet that is sent in fragments.
pub(crate) const LONG: u8 = u8::MAX;
/// Buffers that are kept ready.
const READY: usize = Burst::CAPACITY;

/// A frame that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// Bytes of a short frame.
    len: u16,
    /// Buffers of a long frame; 0: a short one; [`LONG`]: the first packet of `longs`.
    buffers: u8,
    /// Parts of kept memory behind the one buffer that it then has.
    kept: u8,
    meta: u64,
}

/// Where frames wait, and what they wait in.
#[derive(Debug)]
pub(crate) struct Transmit {
    pub(crate) mem: NativeMemory,
    /// Requests that the NIC takes.
    pub(crate) takes: Takes,
    waiting: VecDeque<Waiting>,
    /// The place of the first waiting frame; the others follow it, each has one.
    first: usize,
    pub(crate) places: Box<[[u8; SHORT]]>,
    /// Buffers of the long frames that wait.
    pub(crate) long: VecDeque<Buf>,
    /// Parts of kept memory of the frames that wait.
    pub(crate) parts: VecDeque<Part>,
    pub(crate) kept: KeptMemory,
    /// Packets that are sent in fragments, and the bytes that they take.
    pub(crate) longs: VecDeque<Long>,
    pub(crate) long_bytes: usize,
    /// One that is being put together.
    pub(crate) gathered: Vec<u8>,
    pub(crate) idents: Arc<Idents>,
    /// Buffers that the ring had no room for.
    pub(crate) held: Burst,
    pub(crate) ready: Burst,
    /// Buffers of the frame that is being written piece by piece.
    pub(crate) drafted: Burst,
    work: Burst,
    scratch: Vec<u8>,
    /// Frames for which there was neither place nor buffer.
    pub(crate) refused: u64,
    pub(crate) sent: u64,
    /// Packets that were cut.
    pub(crate) fragmented: u64,
}

impl Transmit {
    pub(crate) fn new(mem: NativeMemory, takes: Takes, kept: KeptMemory, idents: Arc<Idents>) -> Transmit {
        Transmit {
            mem,
            takes,
            waiting: VecDeque::with_capacity(PLACES),
            first: 0,
            places: vec![[0; SHORT]; PLACES].into(),
            long: VecDeque::with_capacity(PLACES),
            parts: VecDeque::with_capacity(PLACES),
            kept,
            longs: VecDeque::new(),
            long_bytes: 0,
            gathered: Vec::new(),
            idents,
            held: Burst::new(),
            ready: Burst::new(),
            drafted: Burst::new(),
            work: Burst::new(),
            scratch: Vec::new(),
            refused: 0,
            sent: 0,
            fragmented: 0,
        }
    }

    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty()
    }

    pub(crate) fn next_place(&self) -> usize {
        (self.first + self.waiting.len()) % PLACES
    }

    pub(crate) fn push(&mut self, len: usize, buffers: usize, meta: Meta) {
        self.push_kept(len, buffers, 0, meta);
    }

    pub(crate) fn push_kept(&mut self, len: usize, buffers: usize, kept: usize, meta: Meta) {
        let (len, buffers, kept) = (len as u16, buffers as u8, kept as u8);
        self.waiting.push_back(Waiting { len, buffers, kept, meta: meta.word() });
    }

    fn is_short(&self) -> bool {
        self.ready.len() < READY * 3 / 4
    }

    /// Nothing to send, to get ready or to reclaim.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_empty() && !self.is_short() && !self.kept.is_leaving()
    }

    /// Gets buffers ready for what is made until the next call.
    #[inline]
    pub(crate) fn prepare(&mut self, pair: &mut QueuePair) {
        self.kept.reclaim(pair);
        if self.is_short() {
            pair.alloc(BUFFER as u16, READY - self.ready.len(), &mut self.ready);
        }
    }

    /// Frames of this MTU for which buffers are ready.
    #[inline]
    pub(crate) fn frames_ready(&self, mtu: usize) -> usize {
        self.ready.len() / (mtu + ETHERNET).div_ceil(BUFFER)
    }

    /// Frames that may be received, each of which is answered by a datagram.
    #[inline]
    pub(crate) fn answers_ready(&self, mtu: usize) -> usize {
        let frames = self.frames_ready(mtu);
        if self.longs.is_empty() { frames } else { frames.min(self.longs_ready()) }
    }

    /// True when there is room for a frame of this MTU.
    #[inline]
    pub(crate) fn room_for(&self, mtu: usize) -> bool {
        self.room() && self.frames_ready(mtu) > 0
    }

    /// Sends what waits, as much as there is room for.
    #[inline]
    pub(crate) fn flush(&mut self, pair: &mut QueuePair) {
        if !self.is_empty() {
            self.flush_waiting(pair);
        }
    }

    fn flush_waiting(&mut self, pair: &mut QueuePair) {
        loop {
            if !self.held.is_empty() {
                pair.tx_burst(&mut self.held);
                if !self.held.is_empty() {
                    return;
                }
            }
            match self.waiting.front() {
                None => return,
                Some(Waiting { buffers: 0, .. }) => {
                    if !self.flush_short(pair) {
                        return;
                    }
                }
                Some(Waiting { kept: 1.., .. }) => {
                    if !self.flush_kept(pair) {
                        return;
                    }
                }
                Some(Waiting { buffers: LONG, .. }) => {
                    if !self.take_fragments(pair) {
                        return;
                    }
                }
                Some(_) => self.take_long(),
            }
        }
    }

    /// Sends the frames with kept parts before the first other one; false when there was no room for all.
    fn flush_kept(&mut self, pair: &mut QueuePair) -> bool {
        let frames = self.waiting.iter().take(KEPT_BURST).take_while(|frame| frame.kept > 0);
        let n = frames.map_while(|_| self.work.push(self.long.pop_front()?).ok()).count();
        let (mut at, kept, parts) = (0, &self.kept, &self.parts);
        let parts = self.waiting.iter().take(n).map(|frame| {
            let from = at;
            at += usize::from(frame.kept);
            parts.range(from..at).filter_map(move |part| kept.segment(part))
        });
        let sent = pair.tx_kept(&mut self.work, parts);
        let mark = if pair.knows_kept() { pair.tx_mark() } else { 0 };
        let parts: usize = self.waiting.iter().take(sent).map(|frame| usize::from(frame.kept)).sum();
        self.parts.drain(..parts).for_each(|part| self.kept.waits_no_longer(&part, mark));
        while let Some(header) = self.work.pop() {
            self.long.push_front(header);
        }
        self.took(sent);
        sent == n
    }

    /// Sends the short frames before the first long one; false when there was no room for all.
    fn flush_short(&mut self, pair: &mut QueuePair) -> bool {
        let most = Burst::CAPACITY.min(PLACES - self.first);
        let short = self.waiting.iter().take(most).take_while(|frame| frame.buffers == 0);
        let (n, longest) = short.fold((0, 0), |(n, longest), frame| (n + 1, frame.len.max(longest)));
        let places = self.places.get(self.first..).unwrap_or_default();
        let frames = self.waiting.iter().zip(places).take(n);
        let frames =
            frames.map(|(frame, place)| (place.get(..frame.len.into()).unwrap_or(place), frame.meta));
        let sent = pair.tx_small(longest, Exactly(frames, n), &mut self.work);
        self.took(sent);
        sent == n
    }

    fn took(&mut self, n: usize) {
        self.pass(n);
        self.sent += n as u64;
    }

    /// The first `n` wait no longer.
    pub(crate) fn pass(&mut self, n: usize) {
        self.waiting.drain(..n);
        self.first = (self.first + n) % PLACES;
    }

    /// Moves the long frames before the first short one to `held`, as many as it has space for.
    fn take_long(&mut self) {
        let mut n = 0;
        for frame in &self.waiting {
            let buffers = usize::from(frame.buffers);
            if buffers == 0 || frame.kept > 0 || buffers > self.held.space() {
                break;
            }
            for buf in self.long.drain(..buffers) {
                let _ = self.held.push(buf); // there is space
            }
            n += 1;
        }
        self.took(n);
    }

    /// Queues a frame of these headers and pieces of payload, `len` bytes together, that is as long as one buffer at most; false when there
    /// is no room for it.
    pub(crate) fn whole(&mut self, len: usize, headers: &[u8], pieces: &[&[u8]], meta: Meta) -> bool {
        if !self.room() {
            self.refused += 1;
            return false;
        }
        self.frame(len, |bytes| {
            let mut rest = bytes;
            for piece in std::iter::once(&headers).chain(pieces) {
                let Some((to, after)) = rest.split_at_mut_checked(piece.len()) else { break };
                to.copy_from_slice(piece);
                rest = after;
            }
            (meta, ())
        });
        true
    }

    /// The metadata of a frame, after what the NIC does not take has been done.
    #[inline]
    pub(crate) fn finish(takes: Takes, bytes: &mut [u8], meta: Meta) -> Meta {
        if takes.covers(meta) {
            return meta;
        }
        let headers = Headers::parse(bytes, bytes.len());
        let _ = checksum::complete(meta, bytes, &headers, []); // the engine requests only what its frames have
        Meta::default()
    }

    /// A long frame: into one buffer, or through `scratch` into several.
    #[inline(never)]
    fn long_frame<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> (Meta, R)) -> R {
        let takes = self.takes;
        let room = self.room();
        if room
            && len <= BUFFER
            && let Some(mut buf) = self.ready.pop()
        {
            let _ = buf.set_len(len as u16); // it has 4096 bytes
            let (meta, result) = self.mem.with_mut(buf.desc().offset(), len as u32, |bytes| {
                let (meta, result) = fill(bytes);
                (Transmit::finish(takes, bytes, meta), result)
            });
            buf.set_meta(meta.word());
            self.long.push_back(buf);
            self.push(0, 1, meta);
            return result;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.resize(len, 0);
        let (meta, result) = fill(&mut scratch);
        let meta = Transmit::finish(takes, &mut scratch, meta);
        let mut draft = Draft::default();
        if room && self.grow_long(len) && self.put(&mut draft, &scratch) {
            self.submit(&draft, meta);
        } else {
            self.abandon(draft);
            self.refused += 1;
        }
        self.scratch = scratch;
        result
    }

    /// Returns all buffers.
    pub(crate) fn retire(&mut self, pair: &mut QueuePair) {
        pair.free(&mut self.held);
        pair.free(&mut self.ready);
        pair.free(&mut self.drafted);
        while let Some(buf) = self.long.pop_front() {
            pair.free_one(buf);
        }
        self.waiting.clear();
        self.longs.clear();
        self.long_bytes = 0;
        self.parts.clear();
        self.kept.retire(pair);
    }

    /// Another NIC takes other requests.
    pub(crate) fn moved(&mut self, takes: Takes) {
        self.takes = takes;
    }

    /// Bytes of the longest super-packet of TCP that the NIC cuts, if it does.
    pub(crate) fn segmentation(&self) -> Option<usize> {
        let cuts = |cut| self.takes.covers(Meta::default().with_segmentation(cut));
        let all = [Segmentation::tcp_ipv4(1), Segmentation::tcp_ipv6(1)].into_iter().all(cuts);
        all.then_some(Config::MAX_MTU.into())
    }
}

impl Output for Transmit {
    #[inline]
    fn room(&self) -> bool {
        self.waiting.len() < PLACES && !self.ready.is_empty()
    }

    #[inline]
    fn frame<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> (Meta, R)) -> R {
        let place = self.next_place();
        if len > SHORT || self.waiting.len() == PLACES {
            return self.long_frame(len, fill);
        }
        let bytes = &mut self.places[place][..len];
        let (meta, result) = fill(bytes);
        let meta = Transmit::finish(self.takes, bytes, meta);
        self.push(len, 0, meta);
        result
    }
}

/// An iterator whose length is known to whom made it.
struct Exactly<I>(I, usize);

impl<I: Iterator> Iterator for Exactly<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        self.1 = self.1.saturating_sub(1);
        self.0.next()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

impl<I: Iterator> ExactSizeIterator for Exactly<I> {}
