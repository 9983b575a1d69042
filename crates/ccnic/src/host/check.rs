//! The checks of what a NIC has delivered: the program is given whole packets of at most
//! [`CHAIN_MAX`] segments, each inside one buffer, and no longer than the MTU. Other packets are
//! dropped as a whole and counted; those of their buffers that exist go to the pool.

use crate::config::Config;
use crate::desc::{CHAIN_MAX, Desc, FLAG_MORE};
use crate::layout::AREA;
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Class};

/// Checks descriptors that a NIC has delivered, and counts what it drops.
#[derive(Debug)]
pub(super) struct Checker {
    mtu: u32,
    /// The ring has areas, and so checks where inline packets lie.
    areas: bool,
    /// Packets with a segment that lies in no buffer, or has no data.
    pub(super) bad_descriptor: u64,
    /// Descriptors of packets with too many segments. (The ring counts those of chains without an end.)
    pub(super) bad_chain: u64,
    /// Packets longer than the MTU.
    pub(super) too_long: u64,
    /// Inline packets for which there was no buffer, dropped to make way (`receive.rs`).
    pub(super) no_buffer: u64,
}

/// Why a packet is dropped.
enum Bad {
    Descriptor,
    Chain,
    TooLong,
}

impl Checker {
    pub(super) fn new(config: &Config) -> Checker {
        let (mtu, areas) = (u32::from(config.mtu), config.has_areas());
        Checker { mtu, areas, bad_descriptor: 0, bad_chain: 0, too_long: 0, no_buffer: 0 }
    }

    /// True when every packet is inline, and valid, where the ring has found out that all are whole and lie in their areas.
    #[inline(always)]
    pub(super) fn all_inline(&self, descs: &[Desc]) -> bool {
        self.mtu >= AREA || descs.iter().fold(true, |ok, desc| ok & (u32::from(desc.len()) <= self.mtu))
    }

    /// True when the segment lies in one buffer, or inline. (A NIC keeps none of the buffers that it delivers.)
    #[inline(always)]
    fn lies_well(&self, pool: &Allocator, desc: Desc) -> bool {
        !desc.kept() & (pool.holds_segment(desc) | (desc.inline() & self.areas))
    }

    /// The class of buffer of all packets, when every one is one segment in such a buffer, and valid. For most bursts this is the only
    /// check.
    #[inline(always)]
    pub(super) fn alike(&self, pool: &Allocator, descs: &[Desc]) -> Option<Class> {
        pool.alike(descs).filter(|class| self.mtu >= class.size())
    }

    /// True when every packet is valid.
    #[inline(always)]
    pub(super) fn all_valid(&self, pool: &Allocator, descs: &[Desc]) -> bool {
        let (mut valid, mut flags) = (true, 0);
        for desc in descs {
            // Less one, so that a segment without data is longer than any MTU.
            let beyond = u32::from(desc.len()).wrapping_sub(1);
            valid &= self.lies_well(pool, *desc) & (beyond < self.mtu);
            flags |= desc.flags();
        }
        valid && !(flags & FLAG_MORE != 0 && self.has_bad_chain(descs))
    }

    /// True when a packet has too many segments or bytes, or no end.
    #[inline(never)]
    fn has_bad_chain(&self, descs: &[Desc]) -> bool {
        let (mut segments, mut len, mut bad) = (0, 0, false);
        for desc in descs {
            segments += 1;
            len += u32::from(desc.len());
            bad |= segments > CHAIN_MAX || len > self.mtu;
            if !desc.more() {
                (segments, len) = (0, 0);
            }
        }
        bad || segments > 0
    }

    /// Keeps the valid packets of `descs`, in order, and drops the others; returns the number of descriptors
    /// kept. `descs` ends with the end of a packet.
    #[cold]
    #[inline(never)]
    pub(super) fn sift<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        descs: &mut [Desc],
    ) -> usize {
        let (mut kept, mut next) = (0, 0);
        while let Some(rest) = descs.get(next..).filter(|rest| !rest.is_empty()) {
            let segments = rest.iter().position(|d| !d.more()).map_or(rest.len(), |last| last + 1);
            let end = next + segments;
            match self.verdict(pool, descs.get(next..end).unwrap_or_default()) {
                Ok(()) => {
                    descs.copy_within(next..end, kept);
                    kept += segments;
                }
                Err(bad) => self.drop_packet(mem, pool, descs.get(next..end).unwrap_or_default(), bad),
            }
            next = end;
        }
        pool.received_many(descs.get(..kept).unwrap_or_default());
        kept
    }

    fn verdict(&self, pool: &Allocator, packet: &[Desc]) -> Result<(), Bad> {
        let len: u32 = packet.iter().map(|d| u32::from(d.len())).sum();
        if packet.len() > CHAIN_MAX || packet.last().is_some_and(|d| d.more()) {
            return Err(Bad::Chain);
        }
        if !packet.iter().all(|d| !d.is_empty() && self.lies_well(pool, *d)) {
            return Err(Bad::Descriptor);
        }
        if len > self.mtu { Err(Bad::TooLong) } else { Ok(()) }
    }

    fn drop_packet<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator, packet: &[Desc], bad: Bad) {
        match bad {
            Bad::Descriptor => self.bad_descriptor += 1,
            Bad::Chain => self.bad_chain += packet.len() as u64,
            Bad::TooLong => self.too_long += 1,
        }
        packet.iter().for_each(|desc| take_back(mem, pool, *desc));
    }
}

/// Frees the buffer of a descriptor that is dropped, if it names one.
pub(super) fn take_back<M: SharedMemory>(mem: &M, pool: &mut Allocator, desc: Desc) {
    if !desc.borrowed() && pool.holds(desc.offset(), 0, Class::of(desc)) {
        pool.received_many(&[desc]);
        pool.free(mem, desc.offset(), Class::of(desc));
    }
}
