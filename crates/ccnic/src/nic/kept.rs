//! Kept segments: they lie in buffers of the pool that stay the program's ([`FLAG_KEPT`]). The NIC reads them, neither frees nor passes on
//! their buffers, and hands their units back when it has read them, at once: the hand-back says that the program may change them.
//!
//! * Where the ring has areas, units are handed back in the order of completion anyway (`taken.rs`).
//! * Otherwise units are handed back when they have been read (shared pool) or completed (host-managed pool). So with the shared pool a
//!   burst with kept segments is treated as one of the host-managed pool is: no other burst is fetched, and no unit handed back, before all
//!   of it has been completed.
//! * A packet that would go back in its own buffers is copied.

use crate::desc::{Desc, FLAG_KEPT};
use crate::layout::AREA;
use crate::memory::SharedMemory;
use crate::pool::{Class, flags, move_to_buffer};
use crate::ring::{Consumer, Producer, Ring};

use super::deliver::Busy;
use super::fetched::{Segments, bytes};
use super::{Fetched, NicQueue};

/// True when a segment is kept.
#[inline(always)]
pub(super) fn has_kept(descs: &[Desc]) -> bool {
    flags(descs).0 & u32::from(FLAG_KEPT) != 0
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// A burst with kept segments has been taken from the ring.
    #[cold]
    #[inline(never)]
    pub(super) fn note_kept(&mut self, fetched: &mut Fetched) {
        // The burst may end within a unit, which is the next one then.
        self.kept_until = self.tx.position() + 1;
        if !self.config.shared_pool {
            // There the program keeps all that it sends: whoever gets these descriptors need not tell them apart.
            fetched.descs.iter_mut().for_each(|desc| *desc = desc.with_kept(false));
        }
    }

    /// True while a burst with kept segments is open and none must be fetched behind it.
    #[cold]
    #[inline(never)]
    pub(super) fn waits_for_kept(&self) -> bool {
        self.config.shared_pool && !self.has_areas() && self.open > 0
    }

    /// Hands back the units before `position`, among them perhaps some with kept segments.
    #[cold]
    #[inline(never)]
    pub(super) fn release_kept(&mut self, position: u64) {
        self.tx.release_now(&self.mem, position);
        if position >= self.kept_until {
            self.kept_until = 0;
        }
    }

    /// `copy_to_pool` of kept segments, where the ring has no areas. Units wait for kept segments only, not for what this NIC keeps.
    #[cold]
    #[inline(never)]
    pub(super) fn move_kept_to_pool(&mut self, fetched: &mut Fetched) -> usize {
        let waiting = fetched.descs.iter_mut().take(fetched.len).skip(fetched.next);
        for (n, slot) in waiting.enumerate() {
            if slot.kept() {
                let class = self.pool.class(slot.len().into());
                let Some(buffer) = self.pool.alloc(&self.mem, class) else { return n };
                move_to_buffer(&self.mem, slot, buffer);
            }
        }
        self.kept_until = 0;
        self.tx.release_now(&self.mem, self.tx.position());
        fetched.rest().len()
    }

    /// Sends back a copy of a fetched packet of this region, of which a segment is inline or kept. `None` when the ring is full.
    /// `Some(false)` when there is no buffer: then it is dropped, since its own buffers, or those that the program keeps, may be all that is
    /// left.
    pub(super) fn reflect_copy(&mut self, packet: &[Desc]) -> Option<bool> {
        let (total, meta) = (bytes(packet) as u32, packet.first().map_or(0, |desc| desc.meta));
        if self.has_areas() && total <= AREA {
            self.publish(false);
            let at = self.rx.place(&self.mem, total)?;
            Segments { descs: packet, within: 0 }.copy_to(&self.mem, &self.mem, at, total);
            self.free_all(packet);
            self.add_inline(at, total, meta);
            return Some(true);
        }
        let mut buffers = [(0, Class::Large); crate::desc::CHAIN_MAX];
        let n = match self.take_room(total, &mut buffers) {
            Ok(n) => n,
            Err(Busy::RingFull) => return None,
            Err(Busy::NoBuffer) => return Some(false),
        };
        let (mut source, mut left) = (Segments { descs: packet, within: 0 }, total);
        for &(at, class) in buffers.get(..n).unwrap_or_default() {
            let part = left.min(class.size());
            source.copy_to(&self.mem, &self.mem, at, part);
            left -= part;
            self.stage(at, part as u16, class, left > 0, meta);
        }
        self.free_all(packet);
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += u64::from(total);
        Some(true)
    }
}
