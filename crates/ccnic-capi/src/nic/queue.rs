//! `struct ccnic_nic_queue`: a queue of the crate `ccnic-nic` that C can close and open again. `exports.rs` makes slices of pointers.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use ccnic_nic::{Desc, Queue, START, Segment};

use super::abi::{CcnicNicStats, CcnicSegment, SEGMENT_MORE};
use crate::abi::{CcnicBuf, CcnicView};
use crate::errno::Failure;
use crate::handle::handles;
use crate::held::{Fate, Held};

/// `struct ccnic_nic_queue`. One thread uses it at a time; it stays until the program is released.
#[derive(Debug)]
#[repr(C)]
pub struct CcnicNicQueue {
    /// First: the inline functions of `ccnic_nic.h` read it here.
    view: CcnicView,
    queue: Queue,
    /// In the debug mode.
    held: Option<Arc<Held>>,
}

handles!(CcnicNicQueue);

/// Segments whose bytes can be read.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Readable(CcnicSegment);

impl Readable {
    /// # Safety
    /// The `data` of each is null, or points to `len` bytes that can be read.
    #[inline(always)]
    pub(super) unsafe fn all(segments: &[CcnicSegment]) -> &[Readable] {
        // SAFETY: the same layout.
        unsafe { std::slice::from_raw_parts(segments.as_ptr().cast(), segments.len()) }
    }
}

impl Segment for Readable {
    #[inline(always)]
    fn bytes(&self) -> Option<&[u8]> {
        let CcnicSegment { data, len, .. } = self.0;
        if data.is_null() {
            return (len == 0).then_some(&[]);
        }
        // SAFETY: not null; whoever made this guarantees that the bytes can be read.
        Some(unsafe { std::slice::from_raw_parts(data.cast(), len as usize) })
    }

    #[inline(always)]
    fn meta(&self) -> u64 {
        self.0.meta
    }

    #[inline(always)]
    fn more(&self) -> bool {
        self.0.flags & SEGMENT_MORE != 0
    }
}

/// Writes descriptors to the entries from `at` on.
#[inline(always)]
fn hand_out(out: &mut [MaybeUninit<CcnicBuf>], at: usize, descs: &[Desc]) {
    for (to, desc) in out.get_mut(at..).unwrap_or_default().iter_mut().zip(descs) {
        to.write((*desc).into());
    }
}

impl CcnicNicQueue {
    pub(crate) fn new(view: CcnicView, queue: Queue, held: Option<Arc<Held>>) -> CcnicNicQueue {
        CcnicNicQueue { view, queue, held }
    }

    /// Drops packets that were fetched and not received, and frees the buffers of the NIC's magazine.
    pub(crate) fn close(&mut self) {
        self.queue.retire();
    }

    /// Receives as many whole packets of the program as there are and as `out` has entries for; returns the number of buffers.
    #[inline(always)]
    pub(crate) fn receive(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        let n = self.queue.rx_burst_with(
            out.len(),
            #[inline(always)]
            |at, descs| hand_out(out, at, descs),
        );
        if let Some(held) = &self.held {
            held.take_written(out, n);
        }
        Ok(n)
    }

    /// Sends packets in the program's own buffers.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        if let Some(held) = &self.held {
            held.give("ccnic_nic_tx_burst", Fate::Sent, bufs)?;
        }
        let sent = self.queue.tx_burst(bufs).map_err(Failure::from);
        if let Some(held) = &self.held {
            held.take_back(bufs, &sent);
        }
        sent
    }

    /// Receives packets of one buffer as copies.
    #[inline(always)]
    pub(crate) fn receive_copies<'a>(
        &mut self,
        max: usize,
        longest: u16,
        room: impl FnMut(usize, Desc) -> &'a mut [u8],
    ) -> Result<usize, Failure> {
        Ok(self.queue.rx_copy(max, longest, room)?)
    }

    /// Copies as many whole packets to the program as there is room for; returns the number of their segments.
    #[inline(always)]
    pub(super) fn copy(&mut self, segments: &[Readable]) -> Result<usize, Failure> {
        Ok(self.queue.tx_copy(segments)?)
    }

    /// By the program's RSS: the queue of each packet, of which these are the first segments, and the metadata that it is received with.
    /// False if the program has none.
    ///
    /// # Safety
    /// Each segment's `data` is null, or points to `len` readable bytes.
    #[inline(always)]
    pub(crate) unsafe fn steer(
        &mut self,
        packets: &mut [CcnicSegment],
        to: &mut [u16],
    ) -> Result<bool, Failure> {
        let Some(spreader) = self.queue.spreader() else { return Ok(false) };
        for (packet, to) in packets.iter_mut().zip(to) {
            let len = if packet.data.is_null() { 0 } else { START.min(packet.len as usize) };
            let start = if len == 0 {
                &[]
            } else {
                // SAFETY: not null, and readable (guaranteed by the caller).
                unsafe { std::slice::from_raw_parts(packet.data.cast::<u8>(), len) }
            };
            let hash = spreader.hash(start);
            *to = spreader.queue(hash);
            packet.meta = spreader.meta(packet.meta, hash);
        }
        Ok(true)
    }

    /// Counts packets that were for this queue and were dropped because it had no room.
    pub(crate) fn missed(&mut self, packets: u64) {
        self.queue.missed(packets);
    }

    /// What becomes readable when the program wakes the NIC.
    pub(crate) fn fd(&mut self) -> Result<i32, Failure> {
        Ok(self.queue.fd()?.as_raw_fd())
    }

    /// Asks the program to wake the NIC with its next packet. True when there is something to do now.
    pub(crate) fn arm(&mut self) -> Result<bool, Failure> {
        Ok(!self.queue.arm()?)
    }

    /// Withdraws the request.
    pub(crate) fn disarm(&mut self) {
        self.queue.disarm();
    }

    /// Allocates as many whole packets of `len` bytes as `out` has entries for; returns the number of buffers.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, len: u16, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        let n = self.queue.alloc_with(
            len,
            out.len(),
            #[inline(always)]
            |at, descs| hand_out(out, at, descs),
        )?;
        if let Some(held) = &self.held {
            held.take_written(out, n);
        }
        Ok(n)
    }

    /// Frees all buffers. Handles that name no buffer are skipped; they are an error.
    #[inline(always)]
    pub(crate) fn free(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        if let Some(held) = &self.held {
            held.give("ccnic_nic_buf_free", Fate::Freed, bufs)?;
        }
        self.queue.free(bufs)?;
        Ok(0)
    }

    pub(crate) fn stats(&self) -> CcnicNicStats {
        self.queue.stats()
    }
}

#[cfg(test)]
mod tests;
