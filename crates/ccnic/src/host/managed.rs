//! The host's extra work with the host-managed pool: it posts every blank buffer and frees every sent one, as PCIe NICs
//! make it do (CC-NIC section 2.1 and figure 10).

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;

use crate::buf::{Buf, Burst};
use crate::config::Config;
use crate::desc::{Desc, FLAG_SMALL};
use crate::layout::RingLayout;
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Class};
use crate::ring::{Producer, Ring};

/// The most blank buffers that the host posts at once.
const POST_MAX: usize = Burst::CAPACITY / 2;

/// What the host must remember about buffers in the NIC's hands.
#[derive(Debug)]
pub(super) struct Managed<R: Ring> {
    fill: R::Producer,
    /// What was transmitted, by ring position, until the NIC has completed it.
    sent: Box<[Option<Desc>]>,
    freed: u64,
    /// Blank buffers posted and not received back.
    posted: usize,
    limit: usize,
    batch: usize,
    class: Class,
}

impl<R: Ring> Managed<R> {
    /// `position` is where the transmit ring goes on.
    pub(super) fn new<M: SharedMemory>(
        mem: &M,
        config: &Config,
        fill: &RingLayout,
        position: u64,
    ) -> Managed<R> {
        // Never all of the pool, or there would be nothing to send; in batches small enough that blanks for a
        // packet of several buffers are always posted.
        let most = config.buffers / (2 * u32::from(config.queues));
        let limit = (config.ring - (config.ring / 4).min(POST_MAX as u32)).min(most) as usize;
        let small = u32::from(config.mtu) <= config.small_limit();
        Managed {
            fill: R::Producer::resume(mem, fill),
            sent: vec![None; config.ring as usize].into_boxed_slice(),
            freed: position,
            posted: 0,
            limit,
            batch: (limit / 2).clamp(1, POST_MAX),
            class: if small { Class::Small } else { Class::Large },
        }
    }

    /// Units of the transmit ring.
    fn units(&self) -> usize {
        self.sent.len() / R::Producer::PER_UNIT
    }

    /// Where the descriptors of the unit at `position` stand in `sent`.
    fn slot(&self, position: u64) -> usize {
        (position as usize & (self.units() - 1)) * R::Producer::PER_UNIT
    }

    /// The descriptors that can be sent from `position` on and noted in places of `sent` that have been freed. The ring may
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
                if let Some(desc) = slot.take() {
                    pool.free(mem, desc.offset(), class(desc));
                }
            }
            self.freed += 1;
        }
    }

    /// Posts blank buffers in place of `received` ones, when that makes a batch.
    pub(super) fn replace<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator, received: usize) {
        self.posted = self.posted.saturating_sub(received);
        if self.posted + self.batch <= self.limit {
            self.post(mem, pool);
        }
    }

    /// Posts blank buffers up to the limit, in batches.
    pub(super) fn post<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) {
        while self.posted + self.batch <= self.limit && self.post_batch(mem, pool) == self.batch {}
    }

    fn post_batch<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) -> usize {
        let mut blanks = [Desc::default(); POST_MAX];
        let mut n = 0;
        for slot in blanks.iter_mut().take(self.batch) {
            let Some((at, class)) = pool.alloc(mem, self.class) else { break };
            *slot = Desc::new(at, class.size() as u16, if class == Class::Small { FLAG_SMALL } else { 0 });
            n += 1;
        }
        let blanks = blanks.get(..n).unwrap_or_default();
        self.fill.prefetch(mem, n);
        let pushed = self.fill.push(mem, blanks);
        for (i, desc) in blanks.iter().enumerate() {
            if i < pushed {
                pool.sent(desc.offset(), class(*desc));
            } else {
                pool.free(mem, desc.offset(), class(*desc));
            }
        }
        self.posted += pushed;
        pushed
    }

    /// After the NIC died: so many blanks are still posted or filled.
    pub(super) fn recount(&mut self, posted: usize) {
        self.posted = posted;
    }
}

/// The class of the buffer in a descriptor of our own.
fn class(desc: Desc) -> Class {
    if desc.small() { Class::Small } else { Class::Large }
}
