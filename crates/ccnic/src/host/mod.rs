//! The host side of a queue pair: what a program calls (CC-NIC figure 5, the semantics of DPDK's mempool and ethdev).

mod managed;
mod receive;
mod small;
mod store;

use crate::buf::{Buf, Burst};
use crate::config::{Config, Demote, Design};
use crate::desc::{Desc, MORE, SMALL};
use crate::layout::{LARGE, Layout, QueuePlace};
use crate::pool::{Class, Pool, place};
use crate::port::{Fetch, Port, lines, prefetch_payload};
use crate::ring::{Consumer, IN_VAIN, Producer, Ring};
use crate::sleep;

use managed::Managed;
use receive::Receiver;

pub use small::NotSmall;
use small::RingAhead;
pub use store::Store;

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
    pub missed: u64,
}

/// The host side of a queue pair. Belongs to one thread.
#[derive(Debug)]
pub struct QueuePair<P: Port, R: Ring> {
    port: P,
    tx: R::Producer,
    rx: Receiver<R::Consumer>,
    pool: Pool,
    managed: Option<Managed<R>>,
    place: QueuePlace,
    config: Config,
    ring_ahead: RingAhead,
}

impl<P: Port, R: Ring> QueuePair<P, R> {
    /// Takes up queue pair `queue` of a region, where it was left. `None` when the region has no such queue or
    /// another design of ring.
    ///
    /// At most one `QueuePair` may exist for each queue of a region.
    pub fn new(port: P, layout: &Layout, queue: u16) -> Option<QueuePair<P, R>> {
        let config = *layout.config();
        let place = layout.queue(queue)?;
        if config.design != R::DESIGN {
            return None;
        }
        let tx = R::Producer::resume(&port, &place.tx);
        let managed = (!config.shared_pool).then(|| Managed::new(&port, &config, &place.fill, tx.position()));
        let mut this = QueuePair {
            tx,
            rx: Receiver::new(R::Consumer::resume(&port, &place.rx), config.fetch()),
            pool: Pool::host(layout),
            managed,
            place,
            config,
            ring_ahead: RingAhead::default(),
            port,
        };
        if let Some(managed) = &mut this.managed {
            managed.post(&this.port, &mut this.pool);
        }
        Some(this)
    }

    /// Allocates `packets` packets of `len` bytes each and adds their buffers to `burst`; returns how many packets it
    /// got. Fewer when the pool is dry or the burst full. A packet above 4 KiB is a chain of large buffers.
    ///
    /// The buffers' lines are fetched to be written, all at once, so that writing them does not wait.
    #[inline(always)]
    pub fn alloc(&mut self, len: u16, packets: usize, burst: &mut Burst) -> usize {
        if u32::from(len) > LARGE {
            return self.alloc_chains(len, packets, burst);
        }
        let class = self.pool.class(u32::from(len));
        let flags = if class == Class::Small { SMALL } else { 0 };
        // With the host-managed pool, as the paper's PCIe NICs have it, data begin at the first byte.
        let spread = self.managed.is_none();
        let places = burst.places(packets);
        let want = places.len();
        if let Some(buffers) = self.pool.alloc_many(class, want) {
            for (slot, &at) in places.iter_mut().zip(buffers.iter().rev()) {
                let at = if spread { place(at, u32::from(len), class) } else { at };
                prefetch_payload(&self.port, at, u32::from(len), Fetch::Write);
                *slot = Buf::new(Desc::new(at, len, flags));
            }
            burst.added(want);
            self.tx.prefetch(&self.port, want);
            self.rx.request(&self.port);
            return want;
        }
        let mut n = 0;
        for slot in burst.places(packets) {
            let Some((at, class)) = self.pool.alloc(&self.port, class).or_else(|| self.reap_and_alloc(class))
            else {
                break;
            };
            let at = if spread { place(at, u32::from(len), class) } else { at };
            prefetch_payload(&self.port, at, u32::from(len), Fetch::Write);
            let flags = if class == Class::Small { SMALL } else { 0 };
            *slot = Buf::new(Desc::new(at, len, flags));
            n += 1;
        }
        burst.added(n);
        self.tx.prefetch(&self.port, n);
        n
    }

    #[cold]
    fn alloc_chains(&mut self, len: u16, packets: usize, burst: &mut Burst) -> usize {
        let segments = u32::from(len).div_ceil(LARGE) as usize;
        let spread = self.managed.is_none();
        for n in 0..packets {
            if burst.space() < segments {
                return n;
            }
            let mut left = u32::from(len);
            for i in 0..segments {
                let buffer = self.pool.alloc(&self.port, Class::Large);
                let Some((at, _)) = buffer.or_else(|| self.reap_and_alloc(Class::Large)) else {
                    (0..i).filter_map(|_| burst.pop()).for_each(|b| self.free_one(b));
                    return n;
                };
                let part = left.min(LARGE);
                left -= part;
                let at = if spread { place(at, part, Class::Large) } else { at };
                let desc = Desc::new(at, part as u16, if left > 0 { MORE } else { 0 });
                if let Err(buf) = burst.push(Buf::new(desc)) {
                    self.free_one(buf); // cannot be: the space was checked
                }
            }
        }
        packets
    }

    /// Returns all buffers of `burst` to the pool.
    #[inline(always)]
    pub fn free(&mut self, burst: &mut Burst) {
        self.pool.free_many(&self.port, burst.as_slice());
        burst.clear();
        self.rx.request(&self.port);
    }

    /// Returns one buffer to the pool.
    #[inline(always)]
    pub fn free_one(&mut self, buf: Buf) {
        self.pool.free(&self.port, buf.desc().offset(), buf.class());
    }

    /// Takes up buffers that a program in another language has held as plain descriptors
    /// ([`Burst::disown`]): adds those of `descs` to `burst` up to the first that names no bytes of the pool, or until the
    /// burst is full; returns their number.
    ///
    /// A descriptor does not say who holds its buffer. One that is used twice is believed: it harms the program's own packets.
    #[inline(always)]
    pub fn adopt(&self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> usize {
        let new = burst.take_up(descs);
        let mut n = new.len();
        if !self.pool.holds_small(new) && !self.pool.holds_all(new) {
            let bad = |buf: &Buf| !self.pool.holds(buf.desc().offset(), u32::from(buf.len()), buf.class());
            n = new.iter().position(bad).unwrap_or(n);
        }
        burst.added(n);
        n
    }

    /// As [`adopt`](QueuePair::adopt) for buffers to free: their lengths do not matter.
    #[inline(always)]
    pub fn adopt_to_free(&self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> usize {
        let new = burst.take_up(descs);
        let n = self.pool.contains(new);
        burst.added(n);
        n
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
        let vain = self.rx.vain();
        let demote = match self.config.demote {
            Demote::Auto => vain >= IN_VAIN && burst.len() < NEARLY_EMPTY,
            Demote::On => true,
            Demote::Off => false,
        };
        let first = self.tx.position();
        if demote {
            self.demote_payload(burst);
        }
        let most = if self.managed.is_some() { self.managed_room(burst.len()) } else { Burst::CAPACITY };
        let n = self.tx.push(&self.port, burst.first(most));
        if demote {
            self.tx.demote(&self.port);
        }
        match &mut self.managed {
            None if small => self.pool.sent_small(burst.first(n)),
            None => self.pool.sent_many(burst.first(n)),
            Some(managed) => managed.note_sent(first, burst.first(n)),
        }
        burst.remove_front(n);
        self.rx.request(&self.port);
        n
    }

    /// How many of `n` buffers can be sent: as many as can be remembered until the NIC has completed them.
    #[inline(never)]
    fn managed_room(&mut self, n: usize) -> usize {
        let first = self.tx.position();
        let Some(managed) = &mut self.managed else { return n };
        if managed.places(first) < n {
            managed.reap(&self.port, &mut self.tx, &mut self.pool);
        }
        managed.places(first)
    }

    #[inline(never)]
    fn demote_payload(&self, burst: &Burst) {
        for buf in burst.as_slice() {
            for line in lines(buf.desc().offset(), u32::from(buf.len())) {
                self.port.demote(line);
            }
        }
    }

    /// Buffers that a transmit burst is sure to take now: 0 when the ring is full.
    pub fn tx_room(&mut self) -> usize {
        let room = self.tx.room(&self.port, Burst::CAPACITY);
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
        let n = self.rx.burst(&self.port, &mut self.pool, burst, max);
        if self.managed.is_some() {
            self.manage();
        }
        self.rx.request(&self.port);
        n
    }

    /// Frees what the NIC has completed and posts blank buffers in place of those received.
    #[inline(never)]
    fn manage(&mut self) {
        let taken = self.rx.taken();
        let Some(m) = &mut self.managed else { return };
        if taken > 0 {
            m.reap(&self.port, &mut self.tx, &mut self.pool);
            m.replace(&self.port, &mut self.pool, taken);
        }
    }

    /// The pool is dry. With the host-managed pool the NIC may have completed buffers that nobody has freed yet.
    #[cold]
    #[inline(never)]
    fn reap_and_alloc(&mut self, class: Class) -> Option<(u32, Class)> {
        self.managed.as_mut()?.reap(&self.port, &mut self.tx, &mut self.pool);
        self.pool.alloc(&self.port, class)
    }

    /// Before its end: returns the buffers that this queue pair keeps to the region's pool, those of packets received and
    /// not asked for among them. Dropping it does the same.
    ///
    /// With the host-managed pool, what the NIC has not completed yet stays with this queue pair: let it finish first.
    pub fn retire(&mut self) {
        self.rx.abandon(&self.port, &mut self.pool);
        if let Some(managed) = &mut self.managed {
            managed.reap(&self.port, &mut self.tx, &mut self.pool);
        }
        self.pool.drain(&self.port);
    }

    /// Doorbell, after the NIC died: offers it again the blanks that it took and did not use. They still stand in the
    /// ring, which the NIC fills in place.
    pub(crate) fn rewind_blanks(&mut self) {
        if self.managed.is_some() && self.config.design == Design::Doorbell {
            self.port.store_release(self.place.fill.taken, self.port.load_acquire(self.place.rx.tail));
        }
    }

    /// Host-managed pool, after the NIC died: counts the blanks that are still posted or filled.
    pub(crate) fn recount_blanks(&mut self) {
        let Some(m) = &mut self.managed else { return };
        let mut posted = 0;
        R::Consumer::resume(&self.port, &self.place.fill).peek(&self.port, |_| posted += 1);
        self.rx.ring().peek(&self.port, |_| posted += 1);
        m.recount(posted);
    }

    /// Copies `from` into the buffer at `at`; returns the bytes that fitted.
    #[inline(always)]
    pub fn write(&self, buf: &mut Buf, at: u16, from: &[u8]) -> usize {
        let room = usize::from(buf.len().saturating_sub(at));
        let n = from.len().min(room);
        self.port.write(buf.desc().offset() + u32::from(at), from.get(..n).unwrap_or_default());
        n
    }

    /// Copies the buffer's data from `at` on into `to`; returns the bytes that there were.
    #[inline(always)]
    pub fn read(&self, buf: &Buf, at: u16, to: &mut [u8]) -> usize {
        let n = to.len().min(usize::from(buf.len().saturating_sub(at)));
        self.port.read(buf.desc().offset() + u32::from(at), to.get_mut(..n).unwrap_or_default());
        n
    }

    /// Lends the buffer's data to `f`.
    #[inline(always)]
    pub fn with<T>(&self, buf: &Buf, f: impl FnOnce(&[u8]) -> T) -> T {
        self.port.with(buf.desc().offset(), u32::from(buf.len()), f)
    }

    /// Lends the buffer's data to `f` for writing.
    #[inline(always)]
    pub fn with_mut<T>(&self, buf: &mut Buf, f: impl FnOnce(&mut [u8]) -> T) -> T {
        self.port.with_mut(buf.desc().offset(), u32::from(buf.len()), f)
    }

    /// Asks the NIC to wake this side when there is something to receive. False when there is already: then nothing is asked.
    /// What it does to wake is a matter of the operating system (`ccnic-shm`).
    pub fn arm(&mut self) -> bool {
        self.rx.staged() == 0 && sleep::arm(&self.port, self.place.sleeping, self.rx.ring())
    }

    /// This side is awake. The NIC may be about to wake it all the same.
    pub fn disarm(&mut self) {
        sleep::disarm(&self.port, self.place.sleeping);
    }

    /// True when there is something to receive.
    pub fn rx_waits(&self) -> bool {
        self.rx.staged() > 0 || self.rx.ring().ready(&self.port)
    }

    /// Buffers that can be received now. Walks what stands in the ring: not for every burst.
    pub fn rx_ready(&self) -> usize {
        let mut n = self.rx.staged();
        self.rx.ring().peek(&self.port, |_| n += 1);
        n
    }

    /// Buffers handed to the NIC that it has not taken yet. Walks them: not for every burst.
    pub fn tx_waiting(&self) -> usize {
        let mut n = 0;
        R::Consumer::resume(&self.port, &self.place.tx).peek(&self.port, |_| n += 1);
        n
    }

    /// One turn of a polling loop that found nothing.
    #[inline(always)]
    pub fn relax(&self) {
        self.port.relax();
    }

    /// Packets not delivered, by reason.
    pub fn drops(&self) -> HostDrops {
        HostDrops {
            bad_descriptor: self.rx.bad_descriptor(),
            bad_chain: self.rx.ring().discarded(),
            missed: self.port.load(self.place.missed),
        }
    }

    /// The region's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn place(&self) -> &QueuePlace {
        &self.place
    }

    pub(crate) fn rx(&self) -> &R::Consumer {
        self.rx.ring()
    }
}

impl<P: Port, R: Ring> Drop for QueuePair<P, R> {
    fn drop(&mut self) {
        self.retire();
    }
}
