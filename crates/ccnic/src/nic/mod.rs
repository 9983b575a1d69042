//! The NIC side of a queue pair: what a wire calls.
//!
//! The NIC trusts nothing it reads in a region. Descriptors are copied out once and checked against the pool before
//! any byte they name is touched; bytes are only ever copied, never borrowed; work per call is bounded by
//! [`FETCH`]. A program can harm only its own packets.

mod burst;
mod deliver;
mod fetched;
mod fill;
mod own;
mod spread;
mod spread_across;
mod wire;

use crate::config::{Config, Demote};
use crate::desc::{CHAIN_MAX, Desc, FLAG_MORE, FLAG_SMALL};
use crate::host::NEARLY_EMPTY;
use crate::layout::{Layout, SMALL_BUF};
use crate::memory::{SharedMemory, lines, prefetch_payload};
use crate::notify::NotifyState;
use crate::pool::{Allocator, Class, data_offset};
use crate::queue_error::{QueueError, queue_layout};
use crate::ring::{Consumer, Producer, Ring};

pub use crate::notify::Armed;
pub use burst::BurstQueue;
pub use fetched::Fetched;
pub use own::BadPacket;
pub use spread::{Steered, spread};
pub use spread_across::{OtherCores, deliver_handed, spread_across};
pub use wire::{Pipeline, loopback};

use fetched::first;
use fill::FillRing;

/// The most descriptors fetched at once.
pub const FETCH: usize = 32;

/// What a NIC queue has done. Plain counters of the queue's own thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicCounters {
    /// Packets fetched from the program.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets delivered to the program.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets dropped because a descriptor named bytes outside the pool's buffers, or none.
    pub bad_descriptor: u64,
    /// Packets dropped because they were longer than the MTU.
    pub too_long: u64,
    /// Descriptors dropped because their chain had too many segments.
    pub bad_chain: u64,
    /// Times that a packet waited because the receive ring was full.
    pub ring_full: u64,
    /// Times that a packet waited because the pool had no buffer, or went back without a copy.
    pub no_buffer: u64,
    /// Packets dropped, with RSS, because the receive ring was full.
    pub dropped_ring_full: u64,
    /// Packets dropped, with RSS, because the pool had no buffer.
    pub dropped_no_buffer: u64,
    /// Packets fetched here and dropped, with RSS over several cores, because the hand-off queue to the core of their receive queue
    /// was full, or that core has stopped.
    pub dropped_handoff: u64,
}

/// The NIC side of a queue pair. Belongs to one thread.
#[derive(Debug)]
pub struct NicQueue<M: SharedMemory, R: Ring> {
    mem: M,
    tx: R::Consumer,
    rx: R::Producer,
    pool: Allocator,
    /// Receive descriptors not yet published.
    staged: [Desc; FETCH],
    staged_len: usize,
    /// Descriptors fetched and not yet completed: with the host-managed pool they must not be handed back.
    open: usize,
    /// Blank buffers from the host, with the host-managed pool.
    fill: Option<FillRing<R::Consumer>>,
    notify: NotifyState,
    config: Config,
    /// The word in which the program reads what was dropped.
    rx_dropped: u32,
    /// Little was fetched, after a wait: the program waits for what we deliver.
    idle: bool,
    counters: NicCounters,
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Opens the NIC side of queue pair `queue` of a region at the positions where a predecessor left it.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`] when the region has fewer queue pairs, [`QueueError::WrongDesign`] when its rings are not `R`.
    pub fn new(mem: M, layout: &Layout, queue: u16) -> Result<NicQueue<M, R>, QueueError> {
        let config = *layout.config();
        let queue_layout = queue_layout::<R>(layout, queue)?;
        Ok(NicQueue {
            tx: R::Consumer::resume(&mem, &queue_layout.tx),
            rx: R::Producer::resume(&mem, &queue_layout.rx),
            pool: Allocator::nic(layout),
            staged: [Desc::default(); FETCH],
            staged_len: 0,
            open: 0,
            fill: (!config.shared_pool).then(|| FillRing::new(R::Consumer::resume(&mem, &queue_layout.fill))),
            notify: NotifyState::new(queue_layout.rx_event),
            config,
            rx_dropped: queue_layout.rx_dropped,
            idle: false,
            counters: NicCounters::default(),
            mem,
        })
    }

    /// This side's port, for copies between regions.
    pub fn memory(&self) -> &M {
        &self.mem
    }

    /// Fetches the program's next packets into `into`, which must be empty; returns the number of descriptors.
    ///
    /// What comes out is checked: every segment lies inside one buffer and every packet is within the MTU. Their lines
    /// are fetched all at once.
    #[inline(always)]
    pub fn fetch(&mut self, into: &mut Fetched) -> usize {
        let n = self.fetch_ahead(into);
        let fetch = self.config.fetch();
        for desc in into.rest() {
            prefetch_payload(&self.mem, desc.offset(), u32::from(desc.len()), fetch);
        }
        n
    }

    /// True when a burst may be fetched before the last one is completed. With the host-managed pool the host frees the
    /// buffers of what the ring hands back, so each burst must be dealt with first.
    pub fn may_fetch_ahead(&self) -> bool {
        self.config.shared_pool
    }

    /// As [`fetch`](NicQueue::fetch), but the packets' lines are not requested: [`deliver`](NicQueue::deliver) does that while it
    /// copies the burst before.
    #[inline(always)]
    pub fn fetch_ahead(&mut self, into: &mut Fetched) -> usize {
        let n = self.tx.pop(&self.mem, &mut into.descs);
        (into.next, into.len) = (0, n);
        if n == 0 {
            return 0;
        }
        self.idle = n < NEARLY_EMPTY && self.tx.was_idle();
        let descs = into.rest();
        self.counters.tx_packets += n as u64;
        self.counters.tx_bytes += bytes(descs);
        let small = self.config.mtu >= SMALL_BUF as u16 && self.pool.holds_small(descs);
        let plain = small || descs.iter().fold(true, |ok, d| ok & self.plain(*d));
        if !plain {
            self.sift(into);
        }
        self.open += into.len;
        into.len
    }

    /// True for a whole packet in one legal segment.
    #[inline(always)]
    fn plain(&self, desc: Desc) -> bool {
        !desc.more() & self.legal(desc) & (desc.len() <= self.config.mtu)
    }

    #[inline(always)]
    fn holds(&self, desc: Desc) -> bool {
        self.pool.holds(desc.offset(), u32::from(desc.len()), class(desc))
    }

    #[inline(always)]
    fn legal(&self, desc: Desc) -> bool {
        !desc.is_empty() && self.holds(desc)
    }

    /// A burst with chains, or with something illegal: keeps the packets that are legal.
    #[cold]
    #[inline(never)]
    fn sift(&mut self, into: &mut Fetched) {
        let fetched = core::mem::take(into);
        self.counters.tx_packets -= fetched.len as u64;
        let mut rest = fetched;
        while !rest.is_empty() {
            let packet = first(rest.rest());
            let len = packet.iter().map(|d| u32::from(d.len())).sum::<u32>();
            self.counters.tx_packets += 1;
            if packet.len() > CHAIN_MAX {
                self.counters.bad_chain += 1;
            } else if !packet.iter().all(|d| self.legal(*d)) {
                self.counters.bad_descriptor += 1;
                // An honest program errs too, with a segment of no bytes, say: its buffers come back to it.
                for desc in packet.iter().copied() {
                    if self.holds(desc) {
                        self.free(desc);
                    }
                }
            } else if len > u32::from(self.config.mtu) {
                self.counters.too_long += 1;
                packet.iter().for_each(|d| self.free(*d));
            } else {
                for (slot, desc) in into.descs.iter_mut().skip(into.len).zip(packet) {
                    *slot = *desc;
                }
                into.len += packet.len();
            }
            let n = packet.len();
            rest.advance(n);
        }
    }

    /// Hands fetched packets of this region back to their program without a copy, as [`deliver`](NicQueue::deliver) does
    /// with one. Only with the shared pool: with the host-managed one the host frees what it has sent.
    #[inline(always)]
    pub fn reflect(&mut self, packets: &[Desc]) -> usize {
        let n = self.reflect_most(packets);
        self.done(n);
        self.counters.ring_full += u64::from(n < packets.len());
        n
    }

    /// `reflect` but for its books.
    #[inline(always)]
    fn reflect_most(&mut self, packets: &[Desc]) -> usize {
        let mut room = self.room(packets.len());
        while room < packets.len() && room > 0 && packets.get(room - 1).is_some_and(|d| d.more()) {
            room -= 1;
        }
        for desc in packets.iter().take(room) {
            self.stage_desc(*desc);
            self.counters.rx_packets += u64::from(!desc.more());
            self.counters.rx_bytes += u64::from(desc.len());
        }
        room
    }

    /// Done with fetched packets of this region: their buffers are free (with the host-managed pool, the host learns
    /// that from the ring).
    #[inline(always)]
    pub fn complete(&mut self, packets: &[Desc]) {
        self.done(packets.len());
        self.free_all(packets);
    }

    /// So many of the descriptors that this queue has fetched need not be kept from the program any longer.
    #[inline(always)]
    fn done(&mut self, descs: usize) {
        self.open = self.open.saturating_sub(descs);
    }

    #[inline(always)]
    fn free_all(&mut self, packets: &[Desc]) {
        if self.config.shared_pool {
            self.pool.free_many(&self.mem, packets);
        }
    }

    #[inline(always)]
    fn free(&mut self, desc: Desc) {
        if self.config.shared_pool {
            self.pool.free(&self.mem, desc.offset(), class(desc));
        }
    }

    /// Publishes the packets delivered since the last flush, and hands back the descriptors fetched.
    #[inline(always)]
    pub fn flush(&mut self) {
        let demote = match self.config.demote {
            Demote::Auto => self.idle,
            Demote::On => true,
            Demote::Off => false,
        };
        self.publish(demote);
        if self.config.shared_pool || self.open == 0 {
            self.tx.release(&self.mem);
        }
        if let Some(fill) = &mut self.fill {
            fill.release(&self.mem);
        }
    }

    #[inline(always)]
    fn publish(&mut self, demote: bool) {
        let staged = self.staged.get(..self.staged_len).unwrap_or_default();
        if staged.is_empty() {
            return;
        }
        if demote {
            demote_payload(&self.mem, staged);
        }
        // All fit: `make_room` has counted the staged ones.
        let pushed = self.rx.push(&self.mem, staged);
        debug_assert_eq!(pushed, self.staged_len);
        self.staged_len = 0;
        if demote {
            self.rx.demote(&self.mem);
        }
    }

    /// How many of `n` more descriptors can be staged and published.
    #[inline(always)]
    fn room(&mut self, n: usize) -> usize {
        if self.staged_len + n > FETCH {
            self.publish(false);
        }
        let want = (self.staged_len + n).min(FETCH);
        self.rx.room(&self.mem, want).saturating_sub(self.staged_len)
    }

    #[inline(always)]
    fn stage(&mut self, at: u32, len: u16, class: Class, more: bool, meta: u64) {
        let flags = if class == Class::Small { FLAG_SMALL } else { 0 } | if more { FLAG_MORE } else { 0 };
        self.stage_desc(Desc::new(at, len, flags).with_meta(meta));
    }

    #[inline(always)]
    fn stage_desc(&mut self, desc: Desc) {
        if let Some(slot) = self.staged.get_mut(self.staged_len) {
            *slot = desc;
            self.staged_len += 1;
        }
    }

    /// A buffer for (the next part of) `len` bytes: our own choice from the shared pool, or the next blank buffer that
    /// the host posted, whatever its size.
    #[inline(always)]
    fn take_buffer(&mut self, len: u32) -> Option<(u32, Class)> {
        if let Some(fill) = &mut self.fill {
            fill.ready(&self.mem, 1);
        }
        self.take_at_hand(len)
    }

    #[inline(always)]
    fn take_at_hand(&mut self, len: u32) -> Option<(u32, Class)> {
        if let Some(fill) = &mut self.fill {
            return fill.take(&self.pool);
        }
        let (at, class) = self.pool.alloc(&self.mem, self.pool.class(len))?;
        Some((data_offset(at, len, class), class))
    }

    /// Puts back what `take_buffer` gave.
    fn untake(&mut self, at: u32, class: Class) {
        match &mut self.fill {
            Some(fill) => fill.untake(at, class),
            None => self.pool.free(&self.mem, at, class),
        }
    }

    /// The sleep that this side has to end, if the program sleeps while there are packets for it. A NIC that wakes programs looks
    /// after each turn of the queue, also of those that moved nothing ([`sleep`](crate::notify)).
    #[inline(always)]
    pub fn needs_notification(&self) -> Option<Armed> {
        self.notify.needs_notification(&self.mem, &self.rx)
    }

    /// The program has been woken from this sleep: once is enough.
    pub fn notified(&mut self, sleep: Armed) {
        self.notify.notified(sleep);
    }

    /// A snapshot of what this queue has done so far.
    pub fn counters(&self) -> NicCounters {
        NicCounters {
            bad_chain: self.counters.bad_chain + self.tx.discarded(),
            bad_descriptor: self.counters.bad_descriptor + self.fill.as_ref().map_or(0, FillRing::bad),
            ..self.counters
        }
    }

    /// Before a planned end: returns the private stacks to the region's pool, and blank buffers to their ring.
    pub fn retire(&mut self) {
        self.flush();
        if let Some(fill) = &mut self.fill {
            fill.give_back(&self.mem);
        }
        self.pool.drain(&self.mem);
    }
}

#[cold]
#[inline(never)]
fn demote_payload<M: SharedMemory>(mem: &M, descs: &[Desc]) {
    for desc in descs {
        for line in lines(desc.offset(), u32::from(desc.len())) {
            mem.demote(line);
        }
    }
}

/// The class of buffer that a descriptor claims.
#[inline(always)]
fn class(desc: Desc) -> Class {
    if desc.small() { Class::Small } else { Class::Large }
}

#[inline(always)]
fn bytes(descs: &[Desc]) -> u64 {
    descs.iter().map(|d| u64::from(d.len())).sum()
}
