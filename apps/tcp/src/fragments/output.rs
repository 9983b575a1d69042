//! Packets that are longer than what their way carries, on their way to the ring.
//!
//! One is accepted whole or not at all, and waits in memory of the program, in a place among the frames. Its fragments are made when there
//! are buffers and places in the ring for them, all before what was put behind it.

use ccnic::SharedMemory;
use ccnic_client::QueuePair;
use ccnic_frame::Meta;

use super::Long;
use crate::draft::Draft;
use crate::engine::Output;
use crate::kept::Kept;
use crate::stack::BURST;
use crate::transmit::{BUFFER, LONG, Transmit};
use crate::udp::ETHERNET;

/// Bytes of the longest frame that is cut: the longest packet of IPv6, rounded up.
const LONGEST: usize = 65_600;
/// Bytes of packets that wait: an answer to each frame of a burst.
const MOST: usize = (BURST + 1) * LONGEST;

impl Transmit {
    /// True when there is room for one more packet that has to be cut, however long.
    #[inline]
    pub(crate) fn has_room_for_long(&self) -> bool {
        self.long_bytes <= MOST - LONGEST
    }

    /// Packets for which there is room.
    #[cold]
    pub(crate) fn longs_ready(&self) -> usize {
        MOST.saturating_sub(self.long_bytes) / LONGEST
    }

    /// True when no more than half of that room is taken.
    pub(crate) fn has_much_room_for_long(&self) -> bool {
        self.long_bytes <= MOST / 2 && self.room()
    }

    /// Makes a draft, or the place of so many bytes of headers, a packet that is cut when it is sent, of `len` bytes as far as known; false
    /// when there is no room for one. What is put behind it is appended to `gathered`.
    #[cold]
    pub(crate) fn lift(&mut self, draft: Option<Draft>, headers: usize, len: usize) -> bool {
        let mut bytes = Vec::with_capacity(len.min(LONGEST));
        match draft {
            Some(draft) => {
                self.copy_of(&draft, &mut bytes);
                self.abandon(draft);
            }
            None => bytes.resize(headers, 0),
        }
        self.gathered = bytes;
        let fits = self.room() && self.has_room_for_long();
        self.refused += u64::from(!fits);
        fits
    }

    /// Appends what a draft has.
    fn copy_of(&self, draft: &Draft, to: &mut Vec<u8>) {
        if self.drafted.is_empty() {
            let place = self.places.get(self.next_place()).and_then(|place| place.get(..draft.len()));
            to.extend_from_slice(place.unwrap_or_default());
        }
        for (i, buf) in self.drafted.as_slice().iter().enumerate() {
            let len = draft.len().saturating_sub(i * BUFFER).min(BUFFER);
            self.mem.with(buf.desc().offset(), len as u32, |bytes| to.extend_from_slice(bytes));
        }
        for part in draft.kept_parts() {
            self.mem.with(self.kept.offset(part), part.len() as u32, |bytes| to.extend_from_slice(bytes));
        }
    }

    /// Appends bytes of a kept value; false when it has not so many.
    pub(crate) fn gather_kept(&mut self, kept: &Kept, range: std::ops::Range<usize>) -> bool {
        let (all, before) = (range.len(), self.gathered.len());
        let Transmit { kept: memory, gathered, .. } = self;
        memory.read(kept, range, |bytes| gathered.extend_from_slice(bytes));
        self.gathered.len() - before == all
    }

    /// Queues what was gathered behind these headers.
    pub(crate) fn submit_gathered(&mut self, headers: &[u8], mtu: usize) {
        let mut bytes = std::mem::take(&mut self.gathered);
        bytes.iter_mut().zip(headers).for_each(|(to, from)| *to = *from);
        self.submit_long(bytes, mtu);
    }

    /// Queues a packet, which [`Long::new`] completes. There is room for it.
    pub(crate) fn submit_long(&mut self, bytes: Vec<u8>, mtu: usize) {
        self.fragmented += u64::from(bytes.len() > ETHERNET + mtu);
        let long = Long::new(bytes, mtu, &self.idents);
        self.long_bytes += long.takes();
        self.longs.push_back(long);
        self.push(0, LONG.into(), Meta::default());
    }

    /// Makes fragments of the first packet that waits, as many as there are buffers; false when there was none.
    #[cold]
    pub(crate) fn take_fragments(&mut self, pair: &mut QueuePair) -> bool {
        let mut made = 0;
        while let Some(long) = self.longs.front_mut() {
            let Some((head, data)) = long.next() else {
                self.long_bytes -= long.takes();
                self.longs.pop_front();
                break;
            };
            let len = head.bytes().len() + data.len();
            let (buffers, before) = (len.div_ceil(BUFFER), self.held.len());
            if buffers > self.held.space() || pair.alloc(len as u16, buffers, &mut self.held) < buffers {
                self.sent += made;
                return made > 0;
            }
            let mut parts = [head.bytes(), data];
            for buf in self.held.iter_mut().skip(before) {
                let mut at = 0;
                for part in &mut parts {
                    let n = pair.write(buf, at, part); // as much as it has room for
                    (*part, at) = (part.get(n..).unwrap_or_default(), at + n as u16);
                }
            }
            long.advance();
            made += 1;
        }
        self.pass(1);
        self.sent += made;
        true
    }
}
