//! The host side of a queue pair: what a program calls (CC-NIC figure 5, the semantics of DPDK's mempool and ethdev).

mod descs;
mod managed;
mod pool;
mod receive;
mod small;

use crate::buf::{Buf, Burst};
use crate::config::{Config, Demote, Design};
use crate::desc::{Desc, FLAG_MORE, FLAG_SMALL};
use crate::layout::{LARGE_BUF, Layout, QueueLayout};
use crate::memory::{Fetch, SharedMemory, lines, prefetch_payload};
use crate::notify;
use crate::pool::{Allocator, Class, data_offset};
use crate::queue_error::{QueueError, queue_layout};
use crate::ring::{Consumer, IDLE_POLLS, Producer, Ring};

use managed::Managed;
use receive::Receiver;

pub use pool::Pool;
pub use small::NotSmall;
use small::RingAhead;

/// Makes a new region ready to be attached: all buffers go to the free lists, then the header is written. The memory must be zero.
pub fn format<M: SharedMemory>(mem: &M, layout: &Layout) {
    Allocator::fill(mem, layout);
    layout.store(mem);
}

/// Fewer descriptors than this in a burst, and the ring counts as nearly empty: less than one full line.
pub(crate) const NEARLY_EMPTY: usize = 4;

/// Packets not delivered to the program, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostDrops {
    /// Received descriptors that name no buffer of the region: the NIC is broken.
    pub bad_descriptor: u64,
    /// Received descriptors of chains with too many segments: the NIC is broken.
    pub bad_chain: u64,
    /// Packets that the NIC dropped, over the region's life, since this queue's ring was full or the pool dry: with RSS, which
    /// keeps no queue waiting for another.
    pub rx_dropped: u64,
}

/// The host side of a queue pair. Belongs to one thread.
#[derive(Debug)]
pub struct QueuePair<M: SharedMemory, R: Ring> {
    mem: M,
    tx: R::Producer,
    rx: Receiver<R::Consumer>,
    pool: Allocator,
    managed: Option<Managed<R>>,
    layout: QueueLayout,
    config: Config,
    ring_ahead: RingAhead,
}

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Opens queue pair `queue` of a region at the positions where its last user left it.
    ///
    /// At most one `QueuePair` may exist for each queue of a region.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`] when the region has fewer queue pairs, [`QueueError::WrongDesign`] when its rings are not `R`.
    pub fn new(mem: M, layout: &Layout, queue: u16) -> Result<QueuePair<M, R>, QueueError> {
        let config = *layout.config();
        let queue_layout = queue_layout::<R>(layout, queue)?;
        let tx = R::Producer::resume(&mem, &queue_layout.tx);
        let managed =
            (!config.shared_pool).then(|| Managed::new(&mem, &config, &queue_layout.fill, tx.position()));
        let mut this = QueuePair {
            tx,
            rx: Receiver::new(R::Consumer::resume(&mem, &queue_layout.rx), config.fetch()),
            pool: Allocator::host(layout),
            managed,
            layout: queue_layout,
            config,
            ring_ahead: RingAhead::default(),
            mem,
        };
        if let Some(managed) = &mut this.managed {
            managed.post(&this.mem, &mut this.pool);
        }
        Ok(this)
    }

    /// Allocates packets of `len` bytes each, as many whole ones as fit into `max` buffers, and adds the buffers to `burst`. Returns
    /// the number of buffers, as all bursts do: less than asked for when the pool is dry or the burst full.
    ///
    /// A packet of up to 4 KiB is one buffer; a longer one is a chain of large buffers, all but the last with [`Buf::more`].
    ///
    /// The buffers' lines are prefetched for writing, all at once, so that their transfers overlap.
    #[inline(always)]
    pub fn alloc(&mut self, len: u16, max: usize, burst: &mut Burst) -> usize {
        if u32::from(len) > LARGE_BUF {
            return self.alloc_chains(len, max, burst);
        }
        let class = self.pool.class(u32::from(len));
        let flags = if class == Class::Small { FLAG_SMALL } else { 0 };
        // With the host-managed pool, as the paper's PCIe NICs have it, data begin at the first byte.
        let spread = self.managed.is_none();
        let slots = burst.spare(max);
        let want = slots.len();
        if let Some(buffers) = self.pool.alloc_many(class, want) {
            for (slot, &at) in slots.iter_mut().zip(buffers.iter().rev()) {
                let at = if spread { data_offset(at, u32::from(len), class) } else { at };
                prefetch_payload(&self.mem, at, u32::from(len), Fetch::Write);
                *slot = Buf::new(Desc::new(at, len, flags));
            }
            burst.added(want);
            self.tx.prefetch(&self.mem, want);
            self.rx.request(&self.mem);
            return want;
        }
        let mut n = 0;
        for slot in burst.spare(max) {
            let Some((at, class)) = self.pool.alloc(&self.mem, class).or_else(|| self.reap_and_alloc(class))
            else {
                break;
            };
            let at = if spread { data_offset(at, u32::from(len), class) } else { at };
            prefetch_payload(&self.mem, at, u32::from(len), Fetch::Write);
            let flags = if class == Class::Small { FLAG_SMALL } else { 0 };
            *slot = Buf::new(Desc::new(at, len, flags));
            n += 1;
        }
        burst.added(n);
        self.tx.prefetch(&self.mem, n);
        n
    }

    #[cold]
    fn alloc_chains(&mut self, len: u16, max: usize, burst: &mut Burst) -> usize {
        let segments = u32::from(len).div_ceil(LARGE_BUF) as usize;
        let packets = max.min(burst.space()) / segments;
        let spread = self.managed.is_none();
        for packet in 0..packets {
            let mut left = u32::from(len);
            for i in 0..segments {
                let buffer = self.pool.alloc(&self.mem, Class::Large);
                let Some((at, _)) = buffer.or_else(|| self.reap_and_alloc(Class::Large)) else {
                    (0..i).filter_map(|_| burst.pop()).for_each(|b| self.free_one(b));
                    return packet * segments;
                };
                let part = left.min(LARGE_BUF);
                left -= part;
                let at = if spread { data_offset(at, part, Class::Large) } else { at };
                let desc = Desc::new(at, part as u16, if left > 0 { FLAG_MORE } else { 0 });
                if let Err(buf) = burst.push(Buf::new(desc)) {
                    self.free_one(buf); // cannot be: the space was checked
                }
            }
        }
        packets * segments
    }

    /// Returns all buffers of `burst` to the pool.
    #[inline(always)]
    pub fn free(&mut self, burst: &mut Burst) {
        self.pool.free_many(&self.mem, burst.as_slice());
        burst.clear();
        self.rx.request(&self.mem);
    }

    /// Returns one buffer to the pool.
    #[inline(always)]
    pub fn free_one(&mut self, buf: Buf) {
        self.pool.free(&self.mem, buf.desc().offset(), buf.class());
    }

    /// Hands packets to the NIC, in order, as many whole ones as the ring has room for; removes them from `burst` and
    /// returns the number of buffers. The rest stays in `burst`.
    ///
    /// A packet whose last segment is missing, or that has more than [`CHAIN_MAX`](crate::desc::CHAIN_MAX), is not taken.
    #[inline(always)]
    pub fn tx_burst(&mut self, burst: &mut Burst) -> usize {
        self.transmit(burst, false)
    }

    /// As `tx_burst`; `small` says that all buffers are.
    #[inline(always)]
    fn transmit(&mut self, burst: &mut Burst, small: bool) -> usize {
        let empty_polls = self.rx.empty_polls();
        let demote = match self.config.demote {
            Demote::Auto => empty_polls >= IDLE_POLLS && burst.len() < NEARLY_EMPTY,
            Demote::On => true,
            Demote::Off => false,
        };
        let first = self.tx.position();
        if demote {
            self.demote_payload(burst);
        }
        let most = if self.managed.is_some() { self.managed_room(burst.len()) } else { Burst::CAPACITY };
        let n = self.tx.push(&self.mem, burst.first(most));
        if demote {
            self.tx.demote(&self.mem);
        }
        match &mut self.managed {
            None if small => self.pool.sent_small(burst.first(n)),
            None => self.pool.sent_many(burst.first(n)),
            Some(managed) => managed.note_sent(first, burst.first(n)),
        }
        burst.remove_front(n);
        self.rx.request(&self.mem);
        n
    }

    /// How many of `n` buffers can be sent: as many as can be remembered until the NIC has completed them.
    #[inline(never)]
    fn managed_room(&mut self, n: usize) -> usize {
        let first = self.tx.position();
        let Some(managed) = &mut self.managed else { return n };
        if managed.free_slots(first) < n {
            managed.reap(&self.mem, &mut self.tx, &mut self.pool);
        }
        managed.free_slots(first)
    }

    #[inline(never)]
    fn demote_payload(&self, burst: &Burst) {
        for buf in burst.as_slice() {
            for line in lines(buf.desc().offset(), u32::from(buf.len())) {
                self.mem.demote(line);
            }
        }
    }

    /// Buffers that a transmit burst is sure to take now: 0 when the ring is full.
    pub fn tx_room(&mut self) -> usize {
        let room = self.tx.room(&self.mem, Burst::CAPACITY);
        if self.managed.is_some() { self.managed_room(room).min(room) } else { room }
    }

    /// Receives the buffers of whole packets, at most `max` of them, into `burst`; returns their number.
    ///
    /// A packet with more segments than `max` or than the burst has space waits;
    /// [`CHAIN_MAX`](crate::desc::CHAIN_MAX) always suffices. At most 32 buffers come at once. What is ready beyond `max` is
    /// taken from the ring and waits in private memory; its lines are fetched meanwhile, some in each call of this queue
    /// pair.
    #[inline(always)]
    pub fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        let n = self.rx.burst(&self.mem, &mut self.pool, burst, max);
        if self.managed.is_some() {
            self.manage();
        }
        self.rx.request(&self.mem);
        n
    }

    /// Frees what the NIC has completed and posts blank buffers in place of those received.
    #[inline(never)]
    fn manage(&mut self) {
        let taken = self.rx.taken();
        let Some(m) = &mut self.managed else { return };
        if taken > 0 {
            m.reap(&self.mem, &mut self.tx, &mut self.pool);
            m.replace(&self.mem, &mut self.pool, taken);
        }
    }

    /// The pool is dry. With the host-managed pool the NIC may have completed buffers that nobody has freed yet.
    #[cold]
    #[inline(never)]
    fn reap_and_alloc(&mut self, class: Class) -> Option<(u32, Class)> {
        self.managed.as_mut()?.reap(&self.mem, &mut self.tx, &mut self.pool);
        self.pool.alloc(&self.mem, class)
    }

    /// Before its end: returns the buffers that this queue pair keeps to the region's pool, those of packets received and
    /// not asked for among them. Dropping it does the same.
    ///
    /// With the host-managed pool, what the NIC has not completed yet stays with this queue pair: let it finish first.
    pub fn retire(&mut self) {
        self.rx.abandon(&self.mem, &mut self.pool);
        if let Some(managed) = &mut self.managed {
            managed.reap(&self.mem, &mut self.tx, &mut self.pool);
        }
        self.pool.drain(&self.mem);
    }

    /// Doorbell, after the NIC died: offers it again the blanks that it took and did not use. They still stand in the
    /// ring, which the NIC fills in place.
    pub(crate) fn rewind_fill(&mut self) {
        if self.managed.is_some() && self.config.design == Design::Doorbell {
            self.mem.store_release(self.layout.fill.taken, self.mem.load_acquire(self.layout.rx.tail));
        }
    }

    /// Host-managed pool, after the NIC died: counts the blanks that are still posted or filled.
    pub(crate) fn recount_posted(&mut self) {
        let Some(m) = &mut self.managed else { return };
        let mut posted = 0;
        R::Consumer::resume(&self.mem, &self.layout.fill).peek(&self.mem, |_| posted += 1);
        self.rx.ring().peek(&self.mem, |_| posted += 1);
        m.recount(posted);
    }

    /// Copies `from` into the buffer at `at`; returns the bytes that fitted.
    #[inline(always)]
    pub fn write(&self, buf: &mut Buf, at: u16, from: &[u8]) -> usize {
        let room = usize::from(buf.len().saturating_sub(at));
        let n = from.len().min(room);
        self.mem.write(buf.desc().offset() + u32::from(at), from.get(..n).unwrap_or_default());
        n
    }

    /// Copies the buffer's data from `at` on into `to`; returns the bytes that there were.
    #[inline(always)]
    pub fn read(&self, buf: &Buf, at: u16, to: &mut [u8]) -> usize {
        let n = to.len().min(usize::from(buf.len().saturating_sub(at)));
        self.mem.read(buf.desc().offset() + u32::from(at), to.get_mut(..n).unwrap_or_default());
        n
    }

    /// Lends the buffer's data to `f`.
    #[inline(always)]
    pub fn with<T>(&self, buf: &Buf, f: impl FnOnce(&[u8]) -> T) -> T {
        self.mem.with(buf.desc().offset(), u32::from(buf.len()), f)
    }

    /// Lends the buffer's data to `f` for writing.
    #[inline(always)]
    pub fn with_mut<T>(&self, buf: &mut Buf, f: impl FnOnce(&mut [u8]) -> T) -> T {
        self.mem.with_mut(buf.desc().offset(), u32::from(buf.len()), f)
    }

    /// Asks the NIC to wake this side when there is something to receive. False when there is already: then nothing is asked.
    /// What it does to wake is a matter of the operating system (`ccnic-shm`).
    pub fn arm(&mut self) -> bool {
        self.rx.staged() == 0 && notify::arm(&self.mem, self.layout.rx_event, self.rx.ring())
    }

    /// This side is awake. The NIC may be about to wake it all the same.
    pub fn disarm(&mut self) {
        notify::disarm(&self.mem, self.layout.rx_event);
    }

    /// True when there is something to receive.
    pub fn rx_waits(&self) -> bool {
        self.rx.staged() > 0 || self.rx.ring().ready(&self.mem)
    }

    /// Buffers that can be received now. Walks what stands in the ring: not for every burst.
    pub fn rx_ready(&self) -> usize {
        let mut n = self.rx.staged();
        self.rx.ring().peek(&self.mem, |_| n += 1);
        n
    }

    /// Buffers handed to the NIC that it has not taken yet. Walks them: not for every burst.
    pub fn tx_waiting(&self) -> usize {
        let mut n = 0;
        R::Consumer::resume(&self.mem, &self.layout.tx).peek(&self.mem, |_| n += 1);
        n
    }

    /// One turn of a polling loop that found nothing.
    #[inline(always)]
    pub fn relax(&self) {
        self.mem.relax();
    }

    /// Packets not delivered, by reason.
    pub fn drops(&self) -> HostDrops {
        HostDrops {
            bad_descriptor: self.rx.bad_descriptor(),
            bad_chain: self.rx.ring().discarded(),
            rx_dropped: self.mem.load(self.layout.rx_dropped),
        }
    }

    /// The region's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn pool(&self) -> &Allocator {
        &self.pool
    }

    pub(crate) fn layout(&self) -> &QueueLayout {
        &self.layout
    }

    pub(crate) fn rx(&self) -> &R::Consumer {
        self.rx.ring()
    }
}

impl<M: SharedMemory, R: Ring> Drop for QueuePair<M, R> {
    fn drop(&mut self) {
        self.retire();
    }
}
