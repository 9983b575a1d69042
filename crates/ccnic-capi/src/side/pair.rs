//! The NIC's side of a queue pair of any design behind one type.

use ccnic::nic::{BadPacket, Fetched, NicCounters, NicQueue};
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded};
use ccnic::{Desc, Layout};
use ccnic_control::Notifier;
use ccnic_shm::{NativeMemory, Region};

use crate::design::{ByDesign, by_design, of_any_design};

type Native<R> = NicQueue<NativeMemory, R>;

/// The NIC's side of a queue pair of one of the five designs.
pub(super) type SidePair =
    ByDesign<Native<GroupedEpoch>, Native<GroupedClear>, Native<Packed>, Native<Padded>, Native<Doorbell>>;

impl SidePair {
    /// `None` when there is no such queue.
    pub(super) fn new(region: &Region, layout: &Layout, queue: u16) -> Option<SidePair> {
        let mem = region.memory();
        Some(by_design!(layout.config().design, NicQueue::new(mem, layout, queue).ok()?))
    }

    /// Fetches the next packets, and hands back what was fetched before.
    #[inline(always)]
    pub(super) fn fetch(&mut self, into: &mut Fetched) -> usize {
        of_any_design!(self, queue => {
            let n = queue.fetch(into);
            queue.flush();
            n
        })
    }

    /// Hands packets to the program as they are, as many whole ones as the ring takes; returns their descriptors, and what is
    /// wrong with the packet after those that could go.
    #[inline(always)]
    pub(super) fn reflect(&mut self, descs: &[Desc]) -> (usize, usize, Option<BadPacket>) {
        of_any_design!(self, queue => {
            let (whole, bad) = queue.whole_packets(descs);
            let sent = queue.reflect(descs.get(..whole).unwrap_or_default());
            (sent, whole, bad)
        })
    }

    #[inline(always)]
    pub(super) fn deliver_bytes(&mut self, parts: &[&[u8]], meta: u64) -> bool {
        of_any_design!(self, queue => queue.deliver_bytes(parts, meta))
    }

    #[inline(always)]
    pub(super) fn alloc(&mut self, len: u16, out: &mut [Desc]) -> usize {
        of_any_design!(self, queue => queue.alloc(len, out))
    }

    /// Frees the first buffers, up to one that is none; returns how many.
    #[inline(always)]
    pub(super) fn free(&mut self, descs: &[Desc]) -> usize {
        of_any_design!(self, queue => {
            let good = descs.iter().position(|d| !queue.names_buffer(*d)).unwrap_or(descs.len());
            queue.give_back(descs.get(..good).unwrap_or_default());
            good
        })
    }

    #[inline(always)]
    pub(super) fn flush(&mut self) {
        of_any_design!(self, queue => queue.flush());
    }

    /// Wakes the program if it sleeps while there are packets for it.
    #[inline(always)]
    pub(super) fn look(&mut self, notifier: &Notifier) {
        of_any_design!(self, queue => notifier.notify_if_armed(queue));
    }

    #[inline(always)]
    pub(super) fn counters(&self) -> NicCounters {
        of_any_design!(self, queue => queue.counters())
    }

    pub(super) fn retire(&mut self) {
        of_any_design!(self, queue => queue.retire());
    }
}
