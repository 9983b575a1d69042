//! Frames that are put together piece by piece: datagrams.
//!
//! A draft begins in the place of a short frame and goes on in buffers when it is longer. It may end with parts of kept memory, which are
//! not copied; then all before them is in one buffer, which the NIC frees, and what is put behind them lies in kept memory of its own,
//! which is free again when the frame has been sent. There is one draft at a time, since it borrows the stack: so its buffers lie in
//! [`Transmit`], and a draft is small where it is moved.

use std::ops::Range;

use ccnic::SharedMemory;
use ccnic_client::Buf;
use ccnic_frame::Meta;
use ccnic_shm::NativeMemory;

use crate::engine::Output;
use crate::kept::runs::UNIT;
use crate::kept::{Kept, PARTS, Part};
use crate::transmit::{BUFFER, SHORT, Transmit};

/// A frame that is being written piece by piece: UDP.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Bytes before the first kept part: in the buffers of `Transmit::drafted`, or, where there are none, in a place for short frames.
    len: usize,
    parts: [Part; PARTS],
    kept: usize,
    /// Bytes behind the last part that may be written, since that is the draft's own.
    room: usize,
}

impl Draft {
    /// Bytes before the first kept part.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn kept_parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().take(self.kept)
    }
}

impl Transmit {
    /// A frame to be written piece by piece; `len` is how long it may become, as far as known.
    pub(crate) fn draft(&mut self, len: usize) -> Option<Draft> {
        self.return_drafted(0); // of a draft that was forgotten
        let draft = Draft::default();
        let fits = self.room() && (len <= SHORT || self.grow_long(len));
        if !fits {
            self.abandon(draft);
            self.refused += 1;
            return None;
        }
        Some(draft)
    }

    /// Buffers for a frame of `len` bytes; false when there are not so many.
    pub(crate) fn grow_long(&mut self, len: usize) -> bool {
        while self.drafted.len() * BUFFER < len {
            let Some(buf) = self.ready.pop() else { return false };
            let _ = self.drafted.push(buf); // as long as the longest packet, far below its capacity
        }
        true
    }

    /// Appends bytes; false, and nothing is appended, when there is no buffer for them.
    pub(crate) fn put(&mut self, draft: &mut Draft, bytes: &[u8]) -> bool {
        if draft.kept > 0 {
            return self.put_behind(draft, bytes);
        }
        let end = draft.len + bytes.len();
        let place = self.next_place();
        if self.drafted.is_empty() {
            if end <= SHORT {
                if let Some(to) = self.places.get_mut(place).and_then(|place| place.get_mut(draft.len..end)) {
                    to.copy_from_slice(bytes);
                }
                draft.len = end;
                return true;
            }
            if !self.grow_long(end) {
                return false;
            }
            let before = self.places.get(place).and_then(|place| place.get(..draft.len)).unwrap_or_default();
            write_at(&self.mem, self.drafted.as_slice(), 0, before);
        } else if !self.grow_long(end) {
            return false;
        }
        write_at(&self.mem, self.drafted.as_slice(), draft.len, bytes);
        draft.len = end;
        true
    }

    /// Appends bytes of a kept value, without a copy where that can be; `meta` is what the frame requests. False when the value has not
    /// so many, or when there is no buffer.
    pub(crate) fn put_kept(
        &mut self,
        draft: &mut Draft,
        kept: &Kept,
        range: Range<usize>,
        meta: Meta,
    ) -> bool {
        let (mut n, mut len, all) = (draft.kept, 0, range.len());
        for part in self.kept.parts(kept, range.clone()) {
            if let Some(to) = draft.parts.get_mut(n) {
                *to = part;
            }
            (n, len) = (n + 1, len + part.len());
        }
        if len < all || len == 0 {
            return len == all;
        }
        if n > PARTS || !self.takes.covers(meta) || !self.gather(draft) {
            return self.put_copy(draft, kept, range);
        }
        draft.parts.iter().take(n).skip(draft.kept).for_each(|part| self.kept.waits(part));
        (draft.kept, draft.room) = (n, 0);
        true
    }

    /// Brings the bytes of a draft into one buffer; false when they are more, or when there is none.
    fn gather(&mut self, draft: &Draft) -> bool {
        if self.drafted.is_empty() {
            let place = self.next_place();
            if !self.grow_long(1) {
                return false;
            }
            let before = self.places.get(place).and_then(|place| place.get(..draft.len)).unwrap_or_default();
            write_at(&self.mem, self.drafted.as_slice(), 0, before);
        }
        if draft.len <= BUFFER {
            self.return_drafted(1);
        }
        self.drafted.len() == 1
    }

    /// Appends a copy of bytes of a kept value.
    #[cold]
    fn put_copy(&mut self, draft: &mut Draft, kept: &Kept, range: Range<usize>) -> bool {
        let mut parts = [Part::default(); PARTS];
        let n = self.kept.parts(kept, range).zip(&mut parts).map(|(part, to)| *to = part).count();
        self.copy_parts(draft) && parts.iter().take(n).all(|part| self.put_part(draft, part))
    }

    fn put_part(&mut self, draft: &mut Draft, part: &Part) -> bool {
        let (mem, at) = (self.mem.clone(), self.kept.offset(part));
        mem.with(at, part.len() as u32, |bytes| self.put(draft, bytes))
    }

    /// Puts copies in the place of the kept parts.
    #[cold]
    fn copy_parts(&mut self, draft: &mut Draft) -> bool {
        let (parts, n) = (draft.parts, std::mem::take(&mut draft.kept));
        parts.iter().take(n).fold(true, |whole, part| {
            let put = whole && self.put_part(draft, part);
            self.kept.waits_no_longer(part, 0);
            put
        })
    }

    /// Appends bytes behind a kept part: in kept memory that is free again when the frame has been sent.
    fn put_behind(&mut self, draft: &mut Draft, bytes: &[u8]) -> bool {
        if bytes.len() <= draft.room
            && let Some(last) = draft.parts.get_mut(draft.kept - 1)
        {
            self.kept.extend(last, bytes);
            draft.room -= bytes.len();
            return true;
        }
        let Some(mut tail) = self.kept.alloc(bytes.len()) else {
            return self.copy_parts(draft) && self.put(draft, bytes);
        };
        let mut n = draft.kept;
        for part in self.kept.parts(&tail, 0..bytes.len()) {
            if let Some(to) = draft.parts.get_mut(n) {
                *to = part;
            }
            n += 1;
        }
        if n > PARTS || !self.kept.write(&mut tail, 0, bytes) {
            self.kept.free(tail);
            return self.copy_parts(draft) && self.put(draft, bytes);
        }
        draft.parts.iter().take(n).skip(draft.kept).for_each(|part| self.kept.waits(part));
        (draft.kept, draft.room) = (n, bytes.len().next_multiple_of(UNIT) - bytes.len());
        self.kept.free(tail);
        true
    }

    /// Writes the headers of a draft, whose first bytes are theirs, and queues it.
    pub(crate) fn submit_with(&mut self, draft: Draft, headers: &[u8], meta: Meta) {
        if self.drafted.is_empty() {
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
        write_at(&self.mem, self.drafted.as_slice(), 0, headers);
        if draft.kept > 0 {
            return self.submit_kept(draft, meta);
        }
        let meta = if self.takes.covers(meta) { meta } else { self.finish_long(&draft, meta) };
        self.submit(&draft, meta);
    }

    /// `finish` of a frame in buffers.
    #[cold]
    fn finish_long(&mut self, draft: &Draft, meta: Meta) -> Meta {
        let mut bytes = vec![0; draft.len];
        for (part, buf) in bytes.chunks_mut(BUFFER).zip(self.drafted.as_slice()) {
            self.mem.read(buf.desc().offset(), part);
        }
        let meta = Transmit::finish(self.takes, &mut bytes, meta);
        write_at(&self.mem, self.drafted.as_slice(), 0, bytes.get(..BUFFER).unwrap_or(&bytes));
        meta
    }

    /// Queues a frame in buffers.
    pub(crate) fn submit(&mut self, draft: &Draft, meta: Meta) {
        let n = draft.len.div_ceil(BUFFER);
        self.return_drafted(n);
        for (i, buf) in self.drafted.iter_mut().enumerate() {
            let left = draft.len - i * BUFFER;
            let _ = buf.set_len(left.min(BUFFER) as u16);
            buf.set_more(left > BUFFER);
            buf.set_meta(meta.word());
        }
        let at = self.long.len();
        while let Some(buf) = self.drafted.pop() {
            self.long.insert(at, buf);
        }
        self.push(0, n, meta);
    }

    /// Queues a frame with kept parts, whose requests the NIC takes.
    fn submit_kept(&mut self, draft: Draft, meta: Meta) {
        let Some(mut buf) = self.drafted.pop() else { return };
        let _ = buf.set_len(draft.len as u16); // it has 4096 bytes
        buf.set_meta(meta.word());
        self.long.push_back(buf);
        self.parts.extend(draft.parts.iter().take(draft.kept));
        self.push_kept(0, 1, draft.kept, meta);
    }

    /// Gives up a draft.
    pub(crate) fn abandon(&mut self, draft: Draft) {
        draft.parts.iter().take(draft.kept).for_each(|part| self.kept.waits_no_longer(part, 0));
        self.return_drafted(0);
    }

    /// Makes all buffers ready again but the first `n`.
    fn return_drafted(&mut self, n: usize) {
        while self.drafted.len() > n
            && let Some(mut buf) = self.drafted.pop()
        {
            buf.set_more(false);
            let _ = buf.set_len(BUFFER as u16);
            let _ = self.ready.push(buf); // it came from there
        }
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
