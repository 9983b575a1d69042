//! Frames on their way to the ring.
//!
//! A frame of more than 128 bytes is written straight into a buffer of the region, where the NIC reads it; some are kept ready, so that one can be
//! had while a received frame is lent. A shorter one waits in a place of two lines here, from which it is copied into the ring itself, beside
//! its descriptor. All leave in bursts, in the order in which they were made.

use std::collections::VecDeque;

use ccnic::SharedMemory;
use ccnic_client::{Buf, Burst, Config, QueuePair};
use ccnic_frame::{Headers, Meta, Segmentation, Takes, checksum};
use ccnic_shm::NativeMemory;

use crate::engine::Output;
use crate::udp::ETHERNET;

/// Bytes of a short frame: what `QueuePair::tx_small` sends.
pub(crate) const SHORT: usize = 128;
/// Bytes of a buffer.
const BUFFER: usize = 4096;
/// Frames that may wait.
const PLACES: usize = 256;
/// Buffers that are kept ready.
const READY: usize = Burst::CAPACITY;

/// A frame that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// Bytes of a short frame.
    len: u16,
    /// Buffers of a long frame; 0: a short one.
    buffers: u8,
    meta: u64,
}

/// A frame that is being written piece by piece: UDP.
#[derive(Debug)]
pub(crate) struct Draft {
    len: usize,
    /// In buffers, not in a place for short frames.
    long: Burst,
}

/// Where frames wait, and what they wait in.
#[derive(Debug)]
pub(crate) struct Transmit {
    mem: NativeMemory,
    /// Requests that the NIC takes.
    takes: Takes,
    waiting: VecDeque<Waiting>,
    /// The place of the first waiting frame; the others follow it, each has one.
    first: usize,
    places: Box<[[u8; SHORT]]>,
    /// Buffers of the long frames that wait.
    long: VecDeque<Buf>,
    /// Buffers that the ring had no room for.
    held: Burst,
    ready: Burst,
    work: Burst,
    scratch: Vec<u8>,
    /// Frames for which there was neither place nor buffer.
    pub(crate) refused: u64,
    pub(crate) sent: u64,
}

impl Transmit {
    pub(crate) fn new(mem: NativeMemory, takes: Takes) -> Transmit {
        Transmit {
            mem,
            takes,
            waiting: VecDeque::with_capacity(PLACES),
            first: 0,
            places: vec![[0; SHORT]; PLACES].into(),
            long: VecDeque::with_capacity(PLACES),
            held: Burst::new(),
            ready: Burst::new(),
            work: Burst::new(),
            scratch: Vec::new(),
            refused: 0,
            sent: 0,
        }
    }

    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.held.is_empty()
    }

    fn next_place(&self) -> usize {
        (self.first + self.waiting.len()) % PLACES
    }

    fn push(&mut self, len: usize, buffers: usize, meta: Meta) {
        self.waiting.push_back(Waiting { len: len as u16, buffers: buffers as u8, meta: meta.word() });
    }

    /// Gets buffers ready for what is made until the next call.
    #[inline]
    pub(crate) fn prepare(&mut self, pair: &mut QueuePair) {
        if self.ready.len() < READY * 3 / 4 {
            pair.alloc(BUFFER as u16, READY - self.ready.len(), &mut self.ready);
        }
    }

    /// Frames of this MTU for which buffers are ready.
    #[inline]
    pub(crate) fn frames_ready(&self, mtu: usize) -> usize {
        self.ready.len() / (mtu + ETHERNET).div_ceil(BUFFER)
    }

    /// Sends what waits, as much as there is room for.
    pub(crate) fn flush(&mut self, pair: &mut QueuePair) {
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
                Some(_) => self.take_long(),
            }
        }
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
        self.waiting.drain(..n);
        self.first = (self.first + n) % PLACES;
        self.sent += n as u64;
    }

    /// Moves the long frames before the first short one to `held`, as many as it has space for.
    fn take_long(&mut self) {
        let mut n = 0;
        for frame in &self.waiting {
            let buffers = usize::from(frame.buffers);
            if buffers == 0 || buffers > self.held.space() {
                break;
            }
            for buf in self.long.drain(..buffers) {
                let _ = self.held.push(buf); // there is space
            }
            n += 1;
        }
        self.took(n);
    }

    /// The metadata of a frame, after what the NIC does not take has been done.
    #[inline]
    fn finish(takes: Takes, bytes: &mut [u8], meta: Meta) -> Meta {
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
        let mut draft = Draft { len: 0, long: Burst::new() };
        if room && self.grow_long(&mut draft, len) && self.put(&mut draft, &scratch) {
            self.submit(draft, meta);
        } else {
            self.abandon(draft);
            self.refused += 1;
        }
        self.scratch = scratch;
        result
    }

    /// A frame to be written piece by piece; `len` is how long it may become, as far as known.
    pub(crate) fn draft(&mut self, len: usize) -> Option<Draft> {
        let mut draft = Draft { len: 0, long: Burst::new() };
        let fits = self.room() && (len <= SHORT || self.grow_long(&mut draft, len));
        if !fits {
            self.abandon(draft);
            self.refused += 1;
            return None;
        }
        Some(draft)
    }

    /// Buffers for a frame of `len` bytes; false when there are not so many.
    fn grow_long(&mut self, draft: &mut Draft, len: usize) -> bool {
        while draft.long.len() * BUFFER < len {
            let Some(buf) = self.ready.pop() else { return false };
            let _ = draft.long.push(buf); // as long as the longest packet, far below its capacity
        }
        true
    }

    /// Appends bytes; false, and nothing is appended, when there is no buffer for them.
    pub(crate) fn put(&mut self, draft: &mut Draft, bytes: &[u8]) -> bool {
        let end = draft.len + bytes.len();
        let place = self.next_place();
        if draft.long.is_empty() {
            if end <= SHORT {
                if let Some(to) = self.places.get_mut(place).and_then(|place| place.get_mut(draft.len..end)) {
                    to.copy_from_slice(bytes);
                }
                draft.len = end;
                return true;
            }
            if !self.grow_long(draft, end) {
                return false;
            }
            let before = self.places.get(place).and_then(|place| place.get(..draft.len)).unwrap_or_default();
            write_at(&self.mem, draft.long.as_slice(), 0, before);
        } else if !self.grow_long(draft, end) {
            return false;
        }
        write_at(&self.mem, draft.long.as_slice(), draft.len, bytes);
        draft.len = end;
        true
    }

    /// Writes the headers of a draft, whose first bytes are theirs, and queues it.
    pub(crate) fn submit_with(&mut self, draft: Draft, headers: &[u8], meta: Meta) {
        if draft.long.is_empty() {
            let place = self.next_place();
            let Some(frame) = self.places.get_mut(place).and_then(|place| place.get_mut(..draft.len)) else {
                return;
            };
            if let Some(to) = frame.get_mut(..headers.len()) {
                to.copy_from_slice(headers);
            }
            let meta = Transmit::finish(self.takes, frame, meta);
            self.push(draft.len, 0, meta);
            return;
        }
        write_at(&self.mem, draft.long.as_slice(), 0, headers);
        let meta = if self.takes.covers(meta) { meta } else { self.finish_long(&draft, meta) };
        self.submit(draft, meta);
    }

    /// `finish` of a frame in buffers.
    #[cold]
    fn finish_long(&mut self, draft: &Draft, meta: Meta) -> Meta {
        let mut bytes = vec![0; draft.len];
        for (part, buf) in bytes.chunks_mut(BUFFER).zip(draft.long.as_slice()) {
            self.mem.read(buf.desc().offset(), part);
        }
        let meta = Transmit::finish(self.takes, &mut bytes, meta);
        write_at(&self.mem, draft.long.as_slice(), 0, bytes.get(..BUFFER).unwrap_or(&bytes));
        meta
    }

    /// Queues a frame in buffers.
    fn submit(&mut self, mut draft: Draft, meta: Meta) {
        let n = draft.len.div_ceil(BUFFER);
        while draft.long.len() > n
            && let Some(buf) = draft.long.pop()
        {
            self.return_one(buf);
        }
        for (i, buf) in draft.long.iter_mut().enumerate() {
            let left = draft.len - i * BUFFER;
            let _ = buf.set_len(left.min(BUFFER) as u16);
            buf.set_more(left > BUFFER);
            buf.set_meta(meta.word());
        }
        let at = self.long.len();
        while let Some(buf) = draft.long.pop() {
            self.long.insert(at, buf);
        }
        self.push(0, n, meta);
    }

    /// Gives up a draft.
    pub(crate) fn abandon(&mut self, mut draft: Draft) {
        while let Some(buf) = draft.long.pop() {
            self.return_one(buf);
        }
    }

    fn return_one(&mut self, mut buf: Buf) {
        buf.set_more(false);
        let _ = buf.set_len(BUFFER as u16);
        let _ = self.ready.push(buf); // it came from there
    }

    /// Returns all buffers.
    pub(crate) fn retire(&mut self, pair: &mut QueuePair) {
        pair.free(&mut self.held);
        pair.free(&mut self.ready);
        while let Some(buf) = self.long.pop_front() {
            pair.free_one(buf);
        }
        self.waiting.clear();
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

/// Writes bytes that may lie in several buffers.
fn write_at(mem: &NativeMemory, bufs: &[Buf], at: usize, mut bytes: &[u8]) {
    let mut skip = at % BUFFER;
    for buf in bufs.iter().skip(at / BUFFER) {
        let n = bytes.len().min(BUFFER - skip);
        let (part, rest) = bytes.split_at(n);
        mem.write(buf.desc().offset() + skip as u32, part);
        if rest.is_empty() {
            return;
        }
        (bytes, skip) = (rest, 0);
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
