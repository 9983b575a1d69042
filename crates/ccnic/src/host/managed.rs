//! The host's work with the host-managed pool: it posts every receive buffer and frees every sent one, as
//! PCIe NICs require (CC-NIC section 2.1 and figure 10).

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;

use crate::buf::{Buf, Burst};
use crate::config::Config;
use crate::desc::Desc;
use crate::layout::{LARGE_BUF, RingLayout};
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Class};
use crate::ring::{Producer, Ring};

/// The most receive buffers that the host posts at once.
const POST_MAX: usize = Burst::CAPACITY / 2;

/// The buffers that the host has given to the NIC: sent and not completed, posted and not filled.
#[derive(Debug)]
pub(super) struct Managed<R: Ring> {
    fill: R::Producer,
    /// What was transmitted, by ring position, until the NIC has completed it.
    sent: Box<[Option<Desc>]>,
    /// The position in the transmit ring up to which `sent` has been freed.
    freed: u64,
    /// Receive buffers posted and not received back.
    posted: usize,
    /// Fewer are posted than should be, since the pool had too few or the NIC has died. To be tried again even
    /// if nothing is received. (A fill ring without room is no reason: its buffers will be received.)
    short: bool,
    /// The most that may be posted.
    limit: usize,
    /// Buffers posted at once.
    batch: usize,
    class: Class,
}

/// What is posted: whole buffers of this class, or large ones when there are none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posts(Class);

impl Posts {
    /// After the NIC died: false when it has changed one of these. Its successor would drop that one, or find no room for a packet,
    /// while it counts as posted here. (Lengths and other flags say nothing: an honest NIC that fills the E810's ring in place may have
    /// died over them.)
    pub(super) fn all(self, descs: &[Desc]) -> bool {
        descs.iter().all(|desc| {
            let class = Class::of(*desc);
            !desc.kept()
                && desc.offset().is_multiple_of(class.size())
                && (class == self.0 || class == Class::Large)
        })
    }
}

impl<R: Ring> Managed<R> {
    /// `position` is the transmit ring's next unit.
    pub(super) fn new<M: SharedMemory>(
        mem: &M,
        config: &Config,
        fill: &RingLayout,
        position: u64,
    ) -> Managed<R> {
        // At most half of the pool, so that buffers to send remain, but enough for the longest packet; in batches so
        // small that there are always enough for a packet of several buffers.
        let half = config.buffers / (2 * u32::from(config.queues));
        let packet = u32::from(config.mtu).div_ceil(LARGE_BUF);
        let limit = (config.ring - (config.ring / 4).min(POST_MAX as u32)).min(half.max(packet)) as usize;
        let small = u32::from(config.mtu) <= config.small_limit();
        Managed {
            fill: R::Producer::resume(mem, fill),
            sent: vec![None; config.ring as usize].into_boxed_slice(),
            freed: position,
            posted: 0,
            short: false,
            limit,
            batch: (limit / 2).clamp(1, POST_MAX),
            class: if small { Class::Small } else { Class::Large },
        }
    }

    /// Units of the transmit ring.
    fn units(&self) -> usize {
        self.sent.len() / R::Producer::PER_UNIT
    }

    /// The index in `sent` of the first descriptor of the unit at `position`.
    fn slot(&self, position: u64) -> usize {
        (position as usize & (self.units() - 1)) * R::Producer::PER_UNIT
    }

    /// How many descriptors can be sent from `position` on and noted in free slots of `sent`. The ring may
    /// have room for more: what the NIC has completed since the last `reap`.
    #[inline(always)]
    pub(super) fn free_slots(&self, position: u64) -> usize {
        (self.units() - (position - self.freed) as usize) * R::Producer::PER_UNIT
    }

    /// Notes the buffers transmitted from the unit at `first` on.
    pub(super) fn note_sent(&mut self, first: u64, bufs: &[Buf]) {
        for (position, group) in (first..).zip(bufs.chunks(R::Producer::PER_UNIT)) {
            let at = self.slot(position);
            for (slot, buf) in self.sent.iter_mut().skip(at).zip(group) {
                *slot = Some(buf.desc());
            }
        }
    }

    /// Frees what the NIC has completed.
    pub(super) fn reap<M: SharedMemory>(&mut self, mem: &M, tx: &mut R::Producer, pool: &mut Allocator) {
        let done = tx.completed(mem);
        while self.freed < done {
            let at = self.slot(self.freed);
            for slot in self.sent.iter_mut().skip(at).take(R::Producer::PER_UNIT) {
                if let Some(desc) = slot.take().filter(|desc| !desc.kept()) {
                    pool.free(mem, desc.offset(), Class::of(desc));
                }
            }
            self.freed += 1;
        }
    }

    /// Posts receive buffers in place of `received` ones, once they make a batch.
    pub(super) fn replace<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator, received: usize) {
        self.posted = self.posted.saturating_sub(received);
        self.post(mem, pool);
    }

    /// Posts receive buffers up to the limit, in batches.
    pub(super) fn post<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) {
        self.short = false;
        while self.posted + self.batch <= self.limit && self.post_batch(mem, pool) == self.batch {}
    }

    fn post_batch<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) -> usize {
        let mut buffers = [Desc::default(); POST_MAX];
        let mut n = 0;
        for slot in buffers.iter_mut().take(self.batch) {
            let Some((at, class)) = pool.alloc(mem, self.class) else { break };
            *slot = Desc::new(at, class.size() as u16, class.flag());
            n += 1;
        }
        // Otherwise a queue that had its last receive buffer filled while the pool was empty would stay without.
        self.short = n < self.batch;
        let buffers = buffers.get(..n).unwrap_or_default();
        self.fill.prefetch(mem, n);
        let pushed = self.fill.push(mem, buffers);
        for (i, desc) in buffers.iter().enumerate() {
            if i < pushed {
                pool.sent(desc.offset(), Class::of(*desc));
            } else {
                pool.free(mem, desc.offset(), Class::of(*desc));
            }
        }
        self.posted += pushed;
        pushed
    }

    /// The position up to which receive buffers are posted.
    pub(super) fn fill_position(&self) -> u64 {
        self.fill.position()
    }

    /// What this side posts.
    pub(super) fn posts(&self) -> Posts {
        Posts(self.class)
    }

    /// After the NIC died. See [`Producer::repair`].
    pub(super) fn repair_fill<M: SharedMemory>(
        &mut self,
        mem: &M,
        layout: &RingLayout,
        keep: impl FnOnce(&[Desc]) -> bool,
    ) {
        self.fill.repair(mem, layout, keep);
    }

    /// After the NIC died: so many receive buffers are still posted or filled.
    pub(super) fn recount(&mut self, posted: usize) {
        (self.posted, self.short) = (posted, true);
    }

    /// True while fewer receive buffers are posted than should be, although none has been received since.
    #[inline(always)]
    pub(super) fn is_short(&self) -> bool {
        self.short
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::Fetched;
    use crate::ring::{Consumer, Doorbell, GroupedEpoch, Padded};
    use crate::testing::{Sides, config, rounds};

    fn host_managed<R: Ring>() -> Config {
        Config { shared_pool: false, ..config::<R>() }
    }

    /// Found by the fuzz target `recovery`: the last receive buffer was filled while the pool was empty.
    #[test]
    fn what_the_pool_had_no_buffers_for_is_posted_when_it_has_some() {
        let mut sides = Sides::<GroupedEpoch>::new(&host_managed::<GroupedEpoch>());
        let (mem, host) = (&sides.mem, &mut sides.host);
        let managed = host.managed.as_mut().unwrap();
        let mut taken = alloc::vec::Vec::new();
        while let Some(buffer) = host.pool.alloc(mem, Class::Large) {
            taken.push(buffer);
        }
        managed.replace(mem, &mut host.pool, managed.batch);
        assert_eq!((managed.posted, managed.is_short()), (managed.limit - managed.batch, true));
        taken.into_iter().for_each(|(at, class)| host.pool.free(mem, at, class));
        managed.replace(mem, &mut host.pool, 0);
        assert_eq!((managed.posted, managed.is_short()), (managed.limit, false));
    }

    #[test]
    fn half_of_the_pool_is_posted_at_most_and_again_when_received() {
        let mut sides = Sides::<GroupedEpoch>::new(&host_managed::<GroupedEpoch>());
        let posted = |sides: &Sides<GroupedEpoch>| {
            let mut n = 0;
            let fill = sides.layout.queue(0).unwrap().fill;
            <GroupedEpoch as Ring>::Consumer::resume(&sides.mem, &fill).peek(&sides.mem, |_| n += 1);
            n
        };
        assert_eq!(posted(&sides), 32);
        for _ in 0..rounds(20, 2) {
            let (sent, polled) = (sides.send(1500, 20, 1), sides.poll() + sides.poll());
            assert_eq!((sent, polled, sides.receive(32, |_, _| ())), (20, 20, 20));
            assert!(posted(&sides) + 20 >= 32 && posted(&sides) <= 32);
        }
    }

    /// Found by the fuzz target `recovery`: half of a small pool, shared by three queues, is two buffers for each.
    #[test]
    fn the_longest_packet_is_received_however_small_the_pool() {
        let config = Config { queues: 3, buffers: 16, mtu: 9600, ..host_managed::<GroupedEpoch>() };
        let mut sides = Sides::<GroupedEpoch>::new(&config);
        for i in 0..rounds(20, 2) as u8 {
            assert_eq!((sides.send(9600, 3, i), sides.poll(), sides.receive(3, |_, _| ())), (3, 3, 3), "{i}");
        }
    }

    fn sent_buffers_come_back_when_completed<R: Ring>() {
        let mut sides = Sides::<R>::new(&host_managed::<R>());
        let free = 64 - 32;
        assert_eq!(sides.send(4000, 40, 1), free, "the others are posted");
        assert_eq!(sides.send(4000, 1, 1), 0, "nothing is left, nothing has been completed");
        let mut fetched = Fetched::default();
        assert_eq!(sides.nic.fetch(&mut fetched), free);
        assert_eq!(sides.send(4000, 1, 1), 0, "fetched is not completed");
        sides.nic.complete(fetched.rest());
        sides.nic.flush();
        assert_eq!(sides.send(4000, 40, 1), free, "{:?}", R::DESIGN);
    }

    #[test]
    fn what_the_nic_has_completed_is_allocated_again() {
        sent_buffers_come_back_when_completed::<Padded>();
        sent_buffers_come_back_when_completed::<Doorbell>();
    }
}
