//! Buffers that are sent and stay the program's: packets of a header, which is handed over as ever, and of bytes that the program keeps and
//! may send any number of times at once.
//!
//! The NIC reads such a segment ([`FLAG_KEPT`](crate::desc::FLAG_KEPT)), never frees it or passes it on, and hands its unit back when it has
//! read it. Units are handed back in order, so a buffer needs no counter: the position in the ring after the last packet that it was part
//! of says when the program may change it. A [`KeptBuf`] carries that position, and nothing here gives it up before
//! (ordering diagram: B, C, E).

use core::cell::Cell;
use core::ops::Range;

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::{CHAIN_MAX, Desc, FLAG_SMALL};
use crate::memory::{SharedMemory, copy};
use crate::ring::{Producer, Ring};

use super::QueuePair;

/// A buffer, or a part of one, that is sent and stays the program's: by the queue pair that it was made by
/// ([`keep`](QueuePair::keep)), as part of any number of packets at once ([`tx_kept`](QueuePair::tx_kept)). It cannot be changed or freed
/// before the NIC has released all of them.
///
/// A handle that is dropped loses its buffer until the region ends, as that of a [`Buf`] does.
///
/// ```
/// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
/// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
/// # let pair = &mut sides.host;
/// let mut burst = Burst::new();
/// pair.alloc(4096, 1, &mut burst);
/// if let Some(buf) = burst.pop() {
///     // Two values share a buffer, each with its own count of what is under way.
///     let (mut one, other) = pair.keep(buf).split_at(1000);
///     assert_eq!(pair.with_kept_mut(&mut one, |bytes| bytes.fill(7)), Some(()));
///     assert_eq!((one.len(), other.len(), pair.with_kept(&one, |bytes| bytes[999])), (1000, 3096, 7));
///     assert!(one.part(900..1001).is_none() && one.part(900..1000).is_some());
///
///     // Only the whole buffer can be freed, or become an ordinary one.
///     let Err(one) = pair.take_back(one) else { panic!() };
///     let Ok(whole) = one.join(other) else { panic!() };
///     assert!(pair.free_kept(whole).is_ok());
/// }
/// ```
#[derive(Debug)]
#[must_use = "a dropped buffer is lost to the pool: free it"]
pub struct KeptBuf {
    /// The position in the transmit ring after the last packet with this buffer.
    sent: Cell<u64>,
    /// The first byte of this part, and of the buffer's data.
    at: u32,
    first: u32,
    /// Bytes of this part, and of the buffer's data.
    len: u16,
    all: u16,
    /// The number of the queue pair.
    queue: u16,
    small: bool,
    /// Begins the buffer: of the parts of one, also of those without bytes, one does.
    leads: bool,
    region: RegionTag,
}

impl KeptBuf {
    /// Bytes of data. Example: [`KeptBuf`].
    pub const fn len(&self) -> u16 {
        self.len
    }

    /// True when there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// These of its bytes, to be sent; `None` when it has not so many. Example: [`KeptBuf`].
    #[inline(always)]
    pub fn part(&self, range: Range<u16>) -> Option<KeptPart<'_>> {
        let len = range.end.checked_sub(range.start)?;
        (range.end <= self.len).then_some(KeptPart { buf: self, from: range.start, len })
    }

    /// All of its bytes, to be sent. Example: [`QueuePair::tx_kept`].
    #[inline(always)]
    pub const fn whole(&self) -> KeptPart<'_> {
        KeptPart { buf: self, from: 0, len: self.len }
    }

    /// Two that are sent and changed independently: the first `len` bytes, or all, and the rest. Example: [`KeptBuf`].
    pub fn split_at(self, len: u16) -> (KeptBuf, KeptBuf) {
        let len = len.min(self.len);
        let (at, left) = (self.at + u32::from(len), self.len - len);
        let rest = KeptBuf { sent: self.sent.clone(), at, len: left, leads: false, ..self };
        (KeptBuf { len, ..self }, rest)
    }

    /// Undoes [`split_at`](KeptBuf::split_at). Example: [`KeptBuf`].
    ///
    /// # Errors
    /// Both, when `next` is not what follows in the same buffer.
    pub fn join(self, next: KeptBuf) -> Result<KeptBuf, (KeptBuf, KeptBuf)> {
        let same = (self.first, self.queue, self.region) == (next.first, next.queue, next.region);
        if !same || self.at + u32::from(self.len) != next.at {
            return Err((self, next));
        }
        let sent = Cell::new(self.sent.get().max(next.sent.get()));
        Ok(KeptBuf { sent, len: self.len + next.len, ..self })
    }

    fn is_whole(&self) -> bool {
        self.leads && self.len == self.all
    }
}

/// Bytes of a [`KeptBuf`] as a segment of a packet: [`QueuePair::tx_kept`].
#[derive(Debug, Clone, Copy)]
pub struct KeptPart<'k> {
    buf: &'k KeptBuf,
    from: u16,
    len: u16,
}

impl KeptPart<'_> {
    #[inline(always)]
    fn desc(&self) -> Desc {
        let flags = if self.buf.small { FLAG_SMALL } else { 0 };
        Desc::new(self.buf.at + u32::from(self.from), self.len, flags).with_kept(true)
    }
}

/// A burst that is being put together.
struct Chains<'k> {
    segments: Burst,
    /// Of each segment, the count of the buffer that it lies in, if that is kept.
    counts: [Option<&'k Cell<u64>>; Burst::CAPACITY],
    /// By index: the segment is a copy of a kept one, for a NIC that does not know those.
    copies: u64,
    packets: usize,
}

impl Chains<'_> {
    /// Out of line: 1.5 KiB of zeros are a call of `memset` or dozens of instructions.
    #[inline(never)]
    fn no_chains() -> Self {
        Chains { segments: Burst::new(), counts: [None; Burst::CAPACITY], copies: 0, packets: 0 }
    }
}

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Makes a buffer one that is sent and stays the program's. Its data are those of `buf`. Example: [`tx_kept`](QueuePair::tx_kept).
    ///
    /// # Panics
    /// Debug builds: when the buffer is of another region.
    pub fn keep(&self, buf: Buf) -> KeptBuf {
        let region = RegionTag::of(&self.mem);
        region.check(core::slice::from_ref(&buf));
        let desc = buf.desc();
        KeptBuf {
            sent: Cell::new(0),
            at: desc.offset(),
            first: desc.offset(),
            len: desc.len(),
            all: desc.len(),
            queue: self.number,
            small: desc.small(),
            leads: true,
            region,
        }
    }

    /// Sends packets, each of which begins with a buffer of `headers`, one segment, and goes on with the parts of kept buffers that `parts`
    /// gives for it: as many, in order, as the ring has room for. Returns the number of packets and removes their headers, which are the
    /// NIC's then. The kept buffers stay the program's: they can be sent again at once, by any number of packets, and can be read. They
    /// cannot be changed or freed before the NIC has released them ([`with_kept_mut`](QueuePair::with_kept_mut),
    /// [`take_back`](QueuePair::take_back), [`free_kept`](QueuePair::free_kept)).
    ///
    /// A packet with an empty part, with more than [`CHAIN_MAX`] segments, or with a part of a buffer that another queue pair has made is
    /// not taken, nor are those behind it. A packet without parts is its header.
    ///
    /// A few dozen bytes are sent faster behind the header in its own buffer, as one segment. To a NIC that does not know kept segments
    /// ([`knows_kept`](QueuePair::knows_kept)) copies are sent in buffers of the pool.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// pair.alloc(1000, 1, &mut burst);
    /// for buf in burst.iter_mut() {
    ///     pair.write(buf, 0, &[42; 1000]);
    /// }
    /// let mut value = pair.keep(burst.pop().unwrap());
    ///
    /// // Three answers, each a header of 8 bytes and the same value, which is copied by the NIC only.
    /// let mut headers = Burst::new();
    /// pair.alloc(8, 3, &mut headers);
    /// for (i, header) in (0u64..).zip(headers.iter_mut()) {
    ///     pair.write(header, 0, &i.to_le_bytes());
    /// }
    /// assert_eq!(pair.tx_kept(&mut headers, [[value.whole()]; 3]), 3);
    /// assert!(headers.is_empty());
    ///
    /// // The value is under way: it can be read and sent, not changed.
    /// assert!(!pair.is_released(&value) && pair.with_kept_mut(&mut value, |_| ()).is_none());
    /// # while sides.poll() > 0 {}
    /// # let pair = &mut sides.host;
    /// // The NIC has read all three.
    /// assert!(pair.is_released(&value));
    /// assert_eq!(pair.rx_burst(&mut burst, 32), 3); // a loopback has sent them back
    /// assert!(burst.as_slice().iter().all(|buf| buf.len() == 1008));
    /// pair.free(&mut burst);
    /// assert!(pair.free_kept(value).is_ok());
    /// ```
    ///
    /// # Panics
    /// Debug builds: when a buffer is of another region.
    #[inline(always)]
    pub fn tx_kept<'k, P>(&mut self, headers: &mut Burst, parts: impl IntoIterator<Item = P>) -> usize
    where
        P: IntoIterator<Item = KeptPart<'k>>,
    {
        let (mut parts, mut sent) = (parts.into_iter(), 0);
        let mut chains = Chains::no_chains();
        loop {
            (chains.copies, chains.packets) = (0, 0);
            let mut last = false;
            while !last && chains.segments.space() >= CHAIN_MAX {
                last = match headers.as_slice().get(chains.packets).zip(parts.next()) {
                    Some((header, parts)) => !self.add_chain(&mut chains, header.desc(), parts),
                    None => true,
                };
            }
            let packets = chains.packets;
            let done = self.send_chains(&mut chains);
            headers.remove_front(done);
            sent += done;
            if last || done < packets {
                return sent;
            }
        }
    }

    /// Adds a packet, for which there is space; false if it cannot be sent.
    #[inline(always)]
    fn add_chain<'k>(
        &mut self,
        chains: &mut Chains<'k>,
        header: Desc,
        parts: impl IntoIterator<Item = KeptPart<'k>>,
    ) -> bool {
        let region = RegionTag::of(&self.mem);
        let from = chains.segments.len();
        let mut valid = chains.segments.push(Buf::new(header, region)).is_ok();
        if let Some(count) = chains.counts.get_mut(from) {
            *count = None;
        }
        for part in parts {
            debug_assert!(part.buf.region == region, "a buffer of another region");
            let at = chains.segments.len();
            valid &= at - from < CHAIN_MAX && part.len > 0 && part.buf.queue == self.number;
            if !valid {
                break;
            }
            if self.knows_kept {
                valid &= chains.segments.push(Buf::new(part.desc(), region)).is_ok();
            } else {
                valid &= self.add_copy_of(chains, part);
            }
            if let Some(count) = chains.counts.get_mut(at) {
                *count = self.knows_kept.then_some(&part.buf.sent);
            }
        }
        if !valid {
            self.forget_chain(chains, from);
            return false;
        }
        let last = chains.segments.len() - 1;
        for (i, buf) in chains.segments.iter_mut().enumerate().skip(from) {
            buf.set_more(i < last);
        }
        chains.packets += 1;
        true
    }

    /// A copy, for a NIC that does not know kept segments; false when there is no buffer for it.
    #[cold]
    #[inline(never)]
    fn add_copy_of(&mut self, chains: &mut Chains<'_>, part: KeptPart<'_>) -> bool {
        let at = chains.segments.len();
        if self.alloc(part.len, 1, &mut chains.segments) == 0 {
            return false;
        }
        chains.copies |= 1 << at;
        for buf in chains.segments.iter_mut().skip(at) {
            copy(&self.mem, part.desc().offset(), &self.mem, buf.desc().offset(), part.len.into());
        }
        true
    }

    /// Removes the segments from the index `from` on.
    #[cold]
    #[inline(never)]
    fn forget_chain(&mut self, chains: &mut Chains<'_>, from: usize) {
        while chains.segments.len() > from
            && let Some(buf) = chains.segments.pop()
        {
            if chains.copies >> chains.segments.len() & 1 != 0 {
                self.free_one(buf);
            }
        }
    }

    /// Sends what has been put together; returns the number of packets. The others are the caller's.
    #[inline(always)]
    fn send_chains(&mut self, chains: &mut Chains<'_>) -> usize {
        let segments = chains.segments.len();
        if segments == 0 {
            return 0;
        }
        let pace = self.pace(segments);
        let n = self.transmit(&mut chains.segments, None, pace);
        let mark = self.tx.position();
        for count in chains.counts.iter().take(n).flatten() {
            count.set(mark);
        }
        let unsent = chains.segments.as_slice().iter().filter(|buf| !buf.more()).count();
        chains.copies = chains.copies.checked_shr(n as u32).unwrap_or(0);
        if chains.copies != 0 {
            self.forget_chain(chains, 0);
        }
        chains.segments.clear();
        chains.packets - unsent
    }

    /// The position in the transmit ring after all that has been sent: when [`tx_released`](QueuePair::tx_released) is true of it the NIC
    /// has read all of that.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::Padded};
    /// # let mut sides = Sides::<Padded>::new(&config::<Padded>());
    /// let mut burst = Burst::new();
    /// sides.host.alloc(64, 1, &mut burst);
    /// sides.host.tx_burst(&mut burst);
    /// let mark = sides.host.tx_mark();
    /// assert!(!sides.host.tx_released(mark));
    /// # while sides.poll() > 0 {}
    /// // The NIC has polled:
    /// assert!(sides.host.tx_released(mark));
    /// ```
    #[inline(always)]
    pub fn tx_mark(&self) -> u64 {
        self.tx.position()
    }

    /// True when the NIC has handed back all units before a [mark](QueuePair::tx_mark). A NIC may postpone the hand-back of units without
    /// kept segments until the ring is a quarter behind. Reads the NIC's lines only if what is known does not say so.
    #[inline(always)]
    pub fn tx_released(&mut self, mark: u64) -> bool {
        self.tx.known_completed() >= mark || self.tx.completed(&self.mem) >= mark // B2, C2, E2
    }

    /// True when the NIC has released all packets with this buffer. Reads as little as [`tx_released`](QueuePair::tx_released).
    /// Example: [`tx_kept`](QueuePair::tx_kept).
    #[inline(always)]
    pub fn is_released(&mut self, kept: &KeptBuf) -> bool {
        kept.sent.get() == 0 || kept.queue == self.number && self.tx_released(kept.sent.get())
    }

    /// Lends the bytes to `f`. Example: [`KeptBuf`].
    #[inline(always)]
    pub fn with_kept<T>(&self, kept: &KeptBuf, f: impl FnOnce(&[u8]) -> T) -> T {
        debug_assert!(kept.region == RegionTag::of(&self.mem), "a buffer of another region");
        self.mem.with(kept.at, kept.len.into(), f)
    }

    /// Lends the bytes to `f` for writing; `None` while the NIC has not released them. Example: [`tx_kept`](QueuePair::tx_kept).
    #[inline(always)]
    pub fn with_kept_mut<T>(&mut self, kept: &mut KeptBuf, f: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        debug_assert!(kept.region == RegionTag::of(&self.mem), "a buffer of another region");
        self.is_released(kept).then(|| self.mem.with_mut(kept.at, kept.len.into(), f))
    }

    /// Makes it an ordinary buffer again. Example: [`KeptBuf`].
    ///
    /// # Errors
    /// The buffer, while the NIC has not released it, or when it is a part of one.
    pub fn take_back(&mut self, kept: KeptBuf) -> Result<Buf, KeptBuf> {
        if !kept.is_whole() || !self.is_released(&kept) {
            return Err(kept);
        }
        let flags = if kept.small { FLAG_SMALL } else { 0 };
        Ok(Buf::new(Desc::new(kept.first, kept.all, flags), kept.region))
    }

    /// Frees the buffer, now or when the NIC has released it: in a later call of this, or when the pool is dry. Example: [`KeptBuf`].
    ///
    /// # Errors
    /// The buffer, when it is a part of one, or another queue pair has made it.
    pub fn free_kept(&mut self, kept: KeptBuf) -> Result<(), KeptBuf> {
        if !kept.is_whole() || kept.queue != self.number {
            return Err(kept);
        }
        self.leaving.push_back(kept);
        self.free_released();
        Ok(())
    }

    /// Frees the first of the buffers that are to be freed, up to one that the NIC has not released.
    pub(super) fn free_released(&mut self) {
        while let Some(kept) = self.leaving.pop_front() {
            match self.take_back(kept) {
                Ok(buf) => self.free_one(buf),
                Err(kept) => return self.leaving.push_front(kept),
            }
        }
    }

    /// Whether the NIC knows kept segments. Otherwise [`tx_kept`](QueuePair::tx_kept) sends copies.
    pub fn knows_kept(&self) -> bool {
        self.knows_kept
    }

    /// Says whether the NIC knows kept segments: for whoever has asked it, before anything is sent to it, and before its rings are repaired
    /// for it.
    pub fn set_knows_kept(&mut self, knows: bool) {
        self.knows_kept = knows;
    }
}

#[cfg(test)]
mod tests;
