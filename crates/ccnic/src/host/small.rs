//! Small packets without handles: for programs that keep packets in memory of their own, and copy them in and out.
//!
//! A buffer is taken, filled and sent, or received, read and freed, within one call: nothing has to be checked that this side
//! has just made, and nothing is handed out and taken back.

use crate::buf::{Buf, Burst};
use crate::desc::{Desc, FLAG_SMALL};
use crate::layout;
use crate::memory::{Fetch, SharedMemory, prefetch_payload, write_small};
use crate::pool::Class;
use crate::ring::{Producer, Ring};

use super::QueuePair;
use super::receive::AHEAD;

/// Which lines of the transmit ring have been requested ahead of the burst that writes them. When a burst is filled a core's fill
/// buffers are busy with the lines of its packets; when receiving begins they are idle.
#[derive(Debug, Default)]
pub(super) struct RingAhead {
    /// Packets of the last burst: the next is probably like it.
    sent: usize,
    /// Packets of the next one whose descriptors' lines have been requested.
    requested: usize,
}

/// The packet that waits to be received is not a small one: [`QueuePair::rx_burst`] receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSmall;

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Sends copies of packets of 1 to `longest` bytes (128 at most), each with its metadata, in order, as many as there are
    /// buffers and places in the ring for; returns their number. `burst` is room to work in: it must be empty, and is when this
    /// returns.
    #[inline(always)]
    pub fn tx_small<'a>(
        &mut self,
        longest: u16,
        packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>,
        burst: &mut Burst,
    ) -> usize {
        let room = self.tx.room(&self.mem, packets.len().min(burst.space()));
        let class = self.pool.class(u32::from(longest));
        if class == Class::Small
            && self.managed.is_none()
            && let Some(buffers) = self.pool.alloc_many(Class::Small, room)
        {
            for &at in buffers {
                prefetch_payload(&self.mem, at, u32::from(longest), Fetch::Write);
            }
            if self.ring_ahead.requested < room {
                self.tx.prefetch(&self.mem, room);
            }
            self.rx.request(&self.mem);
            for ((place, &at), (packet, meta)) in burst.spare(room).iter_mut().zip(buffers).zip(packets) {
                write_small(&self.mem, at, packet);
                *place = Buf::new(Desc::new(at, packet.len() as u16, FLAG_SMALL).with_meta(meta));
            }
            burst.added(room);
            let sent = self.transmit(burst, true);
            self.ring_ahead = RingAhead { sent, requested: 0 };
            return sent;
        }
        self.tx_small_slowly(longest, room, packets, burst)
    }

    /// The same with whatever buffers there are, and with the host-managed pool, which remembers only so many.
    #[cold]
    #[inline(never)]
    fn tx_small_slowly<'a>(
        &mut self,
        longest: u16,
        room: usize,
        packets: impl Iterator<Item = (&'a [u8], u64)>,
        burst: &mut Burst,
    ) -> usize {
        self.alloc(longest.min(layout::SMALL_BUF as u16), room, burst);
        for (buf, (packet, meta)) in burst.iter_mut().zip(packets) {
            if buf.set_len(packet.len() as u16).is_ok() {
                self.mem.write(buf.desc().offset(), packet);
            }
            buf.set_meta(meta);
        }
        let sent = self.tx_burst(burst);
        self.free(burst);
        sent
    }

    /// Receives up to `max` small packets: shows each to `read`, with its place from 0 on and its metadata, and frees its buffer;
    /// returns their number. Stops before a packet that is not small, as [`rx_burst`](QueuePair::rx_burst) gives it.
    ///
    /// # Errors
    /// [`NotSmall`] when the first packet that waits is not.
    #[inline(always)]
    pub fn rx_small(
        &mut self,
        max: usize,
        mut read: impl FnMut(usize, &[u8], u64),
    ) -> Result<usize, NotSmall> {
        self.request_ring();
        let mut done = 0;
        while done < max {
            let want = (max - done).min(AHEAD);
            let got =
                self.rx.lend(&self.mem, &mut self.pool, want, |i, bytes, meta| read(done + i, bytes, meta));
            if self.managed.is_some() {
                self.manage();
            }
            match got {
                Some(n) => done += n,
                None if done == 0 => return Err(NotSmall),
                None => break,
            }
            if got != Some(want) {
                break;
            }
        }
        self.rx.request(&self.mem);
        Ok(done)
    }

    /// Requests the lines of the transmit ring for the next burst, if the NIC is ahead: otherwise it polls the first of them.
    #[inline(always)]
    fn request_ring(&mut self) {
        let RingAhead { sent, requested } = &mut self.ring_ahead;
        if *requested < *sent && self.rx.backlog() {
            self.tx.prefetch(&self.mem, *sent);
            *requested = *sent;
        }
    }
}
