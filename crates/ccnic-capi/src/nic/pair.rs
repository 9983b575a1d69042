//! The NIC's side of a queue pair of any design behind one type.

use ccnic::nic::{BadPacket, Fetched, NicCounters, NicQueue};
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded};
use ccnic::{Desc, Layout};
use ccnic_control::Notifier;
use ccnic_shm::{NativeMemory, Region};

use crate::design::{ByDesign, by_design, of_any_design};

type Native<R> = NicQueue<NativeMemory, R>;

/// The NIC's side of a queue pair of one of the five designs.
pub(crate) type NicPair =
    ByDesign<Native<GroupedEpoch>, Native<GroupedClear>, Native<Packed>, Native<Padded>, Native<Doorbell>>;

impl NicPair {
    /// `None` when there is no such queue.
    pub(crate) fn new(region: &Region, layout: &Layout, queue: u16) -> Option<NicPair> {
        let mem = region.memory();
        Some(by_design!(layout.config().design, NicQueue::new(mem, layout, queue)?))
    }

    /// Fetches the next packets, and completes those fetched before.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, into: &mut Fetched) -> usize {
        of_any_design!(self, queue => {
            let n = queue.fetch(into);
            queue.flush();
            n
        })
    }

    /// Sends packets in the program's own buffers, as many whole ones as the ring has room for. Returns the number of their
    /// descriptors, the number that could have been sent, and what is wrong with the packet after those.
    #[inline(always)]
    pub(crate) fn reflect(&mut self, descs: &[Desc]) -> (usize, usize, Option<BadPacket>) {
        of_any_design!(self, queue => {
            let (whole, bad) = queue.whole_packets(descs);
            let sent = queue.reflect(descs.get(..whole).unwrap_or_default());
            (sent, whole, bad)
        })
    }

    #[inline(always)]
    pub(crate) fn deliver_bytes(&mut self, parts: &[&[u8]], meta: u64) -> bool {
        of_any_design!(self, queue => queue.deliver_bytes(parts, meta))
    }

    #[inline(always)]
    pub(crate) fn alloc(&mut self, len: u16, out: &mut [Desc]) -> usize {
        of_any_design!(self, queue => queue.alloc(len, out))
    }

    /// Frees buffers up to the first handle that names none; returns how many.
    #[inline(always)]
    pub(crate) fn free(&mut self, descs: &[Desc]) -> usize {
        of_any_design!(self, queue => {
            let good = descs.iter().position(|d| !queue.names_buffer(*d)).unwrap_or(descs.len());
            queue.give_back(descs.get(..good).unwrap_or_default());
            good
        })
    }

    #[inline(always)]
    pub(crate) fn flush(&mut self) {
        of_any_design!(self, queue => queue.flush());
    }

    /// Notifies the program if it waits for a notification and packets were published.
    #[inline(always)]
    pub(crate) fn look(&mut self, notifier: &Notifier) {
        of_any_design!(self, queue => notifier.look(queue));
    }

    /// The counters, with those that rings and the fill ring keep themselves.
    #[inline(always)]
    pub(crate) fn counters(&self) -> NicCounters {
        of_any_design!(self, queue => NicCounters {
            bad_descriptor: queue.bad_descriptors(),
            bad_chain: queue.bad_chains(),
            ..queue.counters
        })
    }

    pub(crate) fn retire(&mut self) {
        of_any_design!(self, queue => queue.retire());
    }
}
