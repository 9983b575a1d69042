//! The host side of a queue pair: what a program calls (CC-NIC figure 5, the semantics of DPDK's mempool and ethdev).

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;

use crate::buf::{Buf, Burst, Stage};
use crate::config::{Config, Demote, Design};
use crate::desc::{Desc, MORE, SMALL};
use crate::layout::{LARGE, Layout, QueuePlace};
use crate::pool::{Class, Pool};
use crate::port::{Port, lines, prefetch_payload};
use crate::ring::{Consumer, IN_VAIN, Producer, Ring};

/// Fewer descriptors than this in a burst, and the ring counts as nearly empty: less than one full line.
pub(crate) const NEARLY_EMPTY: usize = 4;

/// Packets that are taken from the receive ring at once, whatever the program asks for.
const STAGE: usize = 32;

/// The most blank buffers that the host posts at once.
const BLANKS: usize = Burst::CAPACITY / 2;

/// Packets not delivered to the program, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostDrops {
    /// Received descriptors that name no buffer of the region: the NIC is broken.
    pub bad_descriptor: u64,
    /// Received descriptors of chains with too many segments: the NIC is broken.
    pub bad_chain: u64,
}

/// The host side of a queue pair. Belongs to one thread.
#[derive(Debug)]
pub struct QueuePair<P: Port, R: Ring> {
    port: P,
    tx: R::Producer,
    rx: R::Consumer,
    pool: Pool,
    managed: Option<Managed<R>>,
    place: QueuePlace,
    config: Config,
    /// Received, checked, and not yet asked for.
    stage: Stage,
    /// Receive polls in vain since the last transmission.
    vain: u32,
    bad_descriptor: u64,
}

/// The host's extra work with the host-managed pool: it posts every blank buffer and frees every sent one, as PCIe NICs
/// make it do (CC-NIC section 2.1 and figure 10).
#[derive(Debug)]
struct Managed<R: Ring> {
    fill: R::Producer,
    /// What was transmitted, by ring position, until the NIC has completed it.
    sent: Box<[Desc]>,
    freed: u64,
    /// Blank buffers posted and not received back.
    posted: usize,
    limit: usize,
    batch: usize,
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
        let managed = (!config.shared_pool).then(|| {
            // Never all of the pool, or there would be nothing to send; in batches small enough that blanks for a
            // packet of several buffers are always posted.
            let most = config.buffers / (2 * u32::from(config.queues));
            let limit = (config.ring - (config.ring / 4).min(BLANKS as u32)).min(most) as usize;
            Managed {
                fill: R::Producer::resume(&port, &place.fill),
                sent: vec![Desc::default(); config.ring as usize].into_boxed_slice(),
                freed: 0,
                posted: 0,
                limit,
                batch: (limit / 2).clamp(1, BLANKS),
            }
        });
        let mut this = QueuePair {
            tx: R::Producer::resume(&port, &place.tx),
            rx: R::Consumer::resume(&port, &place.rx),
            pool: Pool::host(layout),
            managed,
            place,
            config,
            stage: Stage::default(),
            vain: 0,
            bad_descriptor: 0,
            port,
        };
        this.post_blanks();
        Some(this)
    }

    /// Allocates `packets` packets of `len` bytes each and adds their buffers to `burst`; returns how many packets it
    /// got. Fewer when the pool is dry or the burst full. A packet above 4 KiB is a chain of large buffers.
    ///
    /// The buffers' lines are fetched with ownership, all at once, so that writing them does not wait.
    #[inline(always)]
    pub fn alloc(&mut self, len: u16, packets: usize, burst: &mut Burst) -> usize {
        if u32::from(len) > LARGE {
            return self.alloc_chains(len, packets, burst);
        }
        let class = self.pool.class(u32::from(len));
        let mut n = 0;
        for place in burst.places(packets) {
            let Some((at, class)) = self.pool.alloc(&self.port, class).or_else(|| self.reap_and_alloc(class))
            else {
                break;
            };
            prefetch_payload(&self.port, at, u32::from(len), true);
            let flags = if class == Class::Small { SMALL } else { 0 };
            *place = Buf::new(Desc::new(at, len, flags));
            n += 1;
        }
        burst.added(n);
        self.tx.prefetch(&self.port, n);
        n
    }

    #[cold]
    fn alloc_chains(&mut self, len: u16, packets: usize, burst: &mut Burst) -> usize {
        let segments = u32::from(len).div_ceil(LARGE) as usize;
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
        for buf in burst.as_slice() {
            self.pool.free(&self.port, buf.desc().offset(), buf.class());
        }
        burst.remove_front(Burst::CAPACITY);
    }

    /// Returns one buffer to the pool.
    #[inline(always)]
    pub fn free_one(&mut self, buf: Buf) {
        self.pool.free(&self.port, buf.desc().offset(), buf.class());
    }

    /// Hands packets to the NIC, in order, as many whole ones as the ring has room for; removes them from `burst` and
    /// returns the number of buffers. The rest stays in `burst`.
    ///
    /// A packet whose last segment is missing, or that has more than [`CHAIN_MAX`](crate::desc::CHAIN_MAX), is not taken.
    #[inline(always)]
    pub fn tx_burst(&mut self, burst: &mut Burst) -> usize {
        let demote = match self.config.demote {
            Demote::Auto => self.vain >= IN_VAIN && burst.len() < NEARLY_EMPTY,
            Demote::On => true,
            Demote::Off => false,
        };
        self.vain = 0;
        let first = self.tx.position();
        if self.managed.as_ref().is_some_and(|m| m.crowded(first)) {
            self.reap(); // before the push reuses their places in `sent`
        }
        if demote {
            self.demote_payload(burst);
        }
        let n = self.tx.push(&self.port, burst.as_slice());
        if demote {
            self.tx.demote(&self.port);
        }
        match &mut self.managed {
            None => {
                for buf in burst.as_slice().iter().take(n) {
                    self.pool.sent(buf.desc().offset(), buf.class());
                }
            }
            Some(managed) => managed.note_sent(first, burst.as_slice(), n),
        }
        burst.remove_front(n);
        n
    }

    #[inline(never)]
    fn demote_payload(&self, burst: &Burst) {
        for buf in burst.as_slice() {
            for line in lines(buf.desc().offset(), u32::from(buf.len())) {
                self.port.demote(line);
            }
        }
    }

    /// Receives the buffers of whole packets, at most `max` of them, into `burst`; returns their number.
    ///
    /// A packet with more segments than `max` or than the burst has space waits;
    /// [`CHAIN_MAX`](crate::desc::CHAIN_MAX) always suffices. The packets' lines are fetched all at once, with ownership
    /// when recycled buffers are written next. That holds for small bursts too: what is ready beyond `max` is taken from
    /// the ring and waits in private memory, its lines under way.
    #[inline(always)]
    pub fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        if self.stage.is_empty() && max.min(burst.space()) >= STAGE {
            return self.take_ready(burst, max);
        }
        self.rx_staged(burst, max)
    }

    /// Small bursts, by way of the stage.
    #[inline(always)]
    fn rx_staged(&mut self, burst: &mut Burst, max: usize) -> usize {
        if self.stage.is_empty() {
            let mut stage = core::mem::take(&mut self.stage);
            self.take_ready(stage.clear(), STAGE);
            self.stage = stage;
        }
        self.stage.hand_out(burst, max)
    }

    /// Takes what is ready from the ring, requests its lines, checks it.
    #[inline(always)]
    fn take_ready(&mut self, burst: &mut Burst, max: usize) -> usize {
        let n = self.rx.pop(&self.port, burst.places(max));
        if n == 0 {
            self.vain = self.vain.saturating_add(1);
            return 0;
        }
        self.rx.release(&self.port);
        if n == max {
            self.rx.prefetch(&self.port, n); // a full burst: the next one is probably there already
        }
        let places = burst.places(n);
        let (mut ok, own) = (true, self.config.recycles());
        for buf in places.iter() {
            let (desc, class) = (buf.desc(), buf.class());
            ok &= self.pool.holds(desc.offset(), u32::from(desc.len()), class);
            self.pool.received(desc.offset(), class);
            prefetch_payload(&self.port, desc.offset(), u32::from(desc.len()), own);
        }
        let before = burst.len();
        burst.added(n);
        if !ok {
            self.drop_bad(burst);
        }
        if self.managed.is_some() {
            self.manage(n);
        }
        burst.len() - before
    }

    /// Drops received buffers that lie outside the pool: reading them would read something else.
    #[cold]
    #[inline(never)]
    fn drop_bad(&mut self, burst: &mut Burst) {
        let before = burst.len();
        burst.retain(|b| self.pool.holds(b.desc().offset(), u32::from(b.len()), b.class()));
        self.bad_descriptor += (before - burst.len()) as u64;
    }

    /// Frees what the NIC has completed and posts blank buffers in place of those received.
    #[inline(never)]
    fn manage(&mut self, received: usize) {
        self.reap();
        if let Some(m) = &mut self.managed {
            m.posted = m.posted.saturating_sub(received);
            if m.posted + m.batch <= m.limit {
                self.post_blanks();
            }
        }
    }

    /// The pool is dry. With the host-managed pool the NIC may have completed buffers that nobody has freed yet.
    #[cold]
    #[inline(never)]
    fn reap_and_alloc(&mut self, class: Class) -> Option<(u32, Class)> {
        self.managed.is_some().then(|| self.reap())?;
        self.pool.alloc(&self.port, class)
    }

    #[inline(never)]
    fn reap(&mut self) {
        let Some(m) = &mut self.managed else { return };
        let done = self.tx.completed(&self.port);
        let per = R::Producer::PER_UNIT;
        let units = m.sent.len() / per;
        while m.freed < done {
            let at = (m.freed as usize & (units - 1)) * per;
            for desc in m.sent.iter_mut().skip(at).take(per).filter(|d| !d.is_empty()) {
                let class = if desc.small() { Class::Small } else { Class::Large };
                self.pool.free(&self.port, desc.offset(), class);
                *desc = Desc::default();
            }
            m.freed += 1;
        }
    }

    fn post_blanks(&mut self) {
        let Some(m) = &mut self.managed else { return };
        let class =
            if u32::from(self.config.mtu) <= self.config.small_limit() { Class::Small } else { Class::Large };
        let mut blanks = [Desc::default(); BLANKS];
        let Some(blanks) = blanks.get_mut(..m.batch) else { return };
        while m.posted + blanks.len() <= m.limit {
            let mut n = 0;
            for slot in blanks.iter_mut() {
                let Some((at, class)) = self.pool.alloc(&self.port, class) else { break };
                *slot = Desc::new(at, class.size() as u16, if class == Class::Small { SMALL } else { 0 });
                n += 1;
            }
            let Some(blanks) = blanks.get(..n) else { return };
            m.fill.prefetch(&self.port, n);
            let pushed = m.fill.push(&self.port, blanks);
            for (i, desc) in blanks.iter().enumerate() {
                let class = if desc.small() { Class::Small } else { Class::Large };
                if i < pushed {
                    self.pool.sent(desc.offset(), class);
                } else {
                    self.pool.free(&self.port, desc.offset(), class);
                }
            }
            m.posted += pushed;
            if pushed < m.batch {
                return;
            }
        }
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
        self.rx.peek(&self.port, |_| posted += 1);
        m.posted = posted;
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

    /// One turn of a polling loop that found nothing.
    #[inline(always)]
    pub fn relax(&self) {
        self.port.relax();
    }

    /// Packets not delivered, by reason.
    pub fn drops(&self) -> HostDrops {
        HostDrops { bad_descriptor: self.bad_descriptor, bad_chain: self.rx.discarded() }
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
        &self.rx
    }
}

impl<R: Ring> Managed<R> {
    /// True when a burst at `position` could reach places of `sent` that have not been freed.
    #[inline(always)]
    fn crowded(&self, position: u64) -> bool {
        let units = (self.sent.len() / R::Producer::PER_UNIT) as u64;
        position - self.freed + Burst::CAPACITY as u64 > units
    }

    fn note_sent(&mut self, first: u64, bufs: &[Buf], n: usize) {
        let per = R::Producer::PER_UNIT;
        let units = self.sent.len() / per;
        for (i, group) in bufs.get(..n).unwrap_or_default().chunks(per).enumerate() {
            let at = ((first + i as u64) as usize & (units - 1)) * per;
            for (slot, buf) in self.sent.iter_mut().skip(at).take(per).zip(group) {
                *slot = buf.desc();
            }
        }
    }
}
