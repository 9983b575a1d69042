//! The NIC side of a queue pair: opening, publishing, buffers, notification.

use crate::config::{Config, Demote};
use crate::desc::{Desc, FLAG_MORE};
use crate::layout::Layout;
use crate::memory::{SharedMemory, lines};
use crate::notify::{self, Armed, NotifyState};
use crate::pool::{Allocator, Class, data_offset};
use crate::queue_error::{QueueError, queue_layout};
use crate::ring::{Consumer, Producer, Ring};
use crate::tuning::Tuning;

use super::fill::PostedBuffers;
use super::taken::Taken;
use super::{FETCH, NicCounters};

/// The NIC side of a queue pair. Belongs to one thread at a time.
///
/// ```
/// use ccnic::nic::{NicQueue, Pipeline, loopback};
/// use ccnic::ring::GroupedEpoch;
/// use ccnic::{Burst, Config, Layout, heap::HeapMemory, host};
///
/// let layout = Layout::new(&Config::default())?;
/// let mem = HeapMemory::new(layout.size());
/// host::format(&mem, &layout);
/// let mut pair = host::QueuePair::<_, GroupedEpoch>::new(mem.clone(), &layout, 0)?;
/// let mut nic = NicQueue::<_, GroupedEpoch>::new(mem.clone(), &layout, 0)?;
///
/// let mut burst = Burst::new();
/// pair.alloc(64, 8, &mut burst);
/// pair.tx_burst(&mut burst);
/// assert_eq!(loopback(&mut nic, &mut Pipeline::default(), &mem, false), 8);
/// assert_eq!(pair.rx_burst(&mut burst, 32), 8);
/// # pair.free(&mut burst);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NicQueue<M: SharedMemory, R: Ring> {
    pub(super) mem: M,
    /// Its number in the region.
    pub(super) number: u16,
    pub(super) tx: R::Consumer,
    pub(super) rx: R::Producer,
    pub(super) pool: Allocator,
    /// Receive descriptors that are not published yet.
    pub(super) staged: [Desc; FETCH],
    pub(super) staged_len: usize,
    /// A packet among them has several segments.
    staged_chains: bool,
    /// Descriptors fetched and not completed: with the host-managed pool their units must not be handed back
    /// yet.
    pub(super) open: usize,
    /// The rings have areas.
    areas: bool,
    /// With areas: the units that are not completed.
    pub(super) taken: Taken,
    /// With areas: the position in the transmit ring after the last pop.
    pub(super) popped: u64,
    /// Beyond the last unit with a kept segment, until its hand-back: 0 when there is none. Where there are no areas, at most one burst with
    /// kept segments is open (`kept.rs`).
    pub(super) kept_until: u64,
    /// Descriptors handed to other cores that are not among the open ones.
    pub(super) untracked: usize,
    /// Receive buffers posted by the host, with the host-managed pool.
    pub(super) fill: Option<PostedBuffers<R::Consumer>>,
    pub(super) notify: NotifyState,
    /// The word by which a NIC that sleeps is woken.
    tx_event: u32,
    pub(super) config: Config,
    /// What is left of it in this region.
    pub(super) tuning: Tuning,
    /// The word in which the program reads how many packets were dropped.
    pub(super) rx_dropped: u32,
    /// Bits of the metadata of what the program sends that it may set.
    pub(super) sender_bits: u64,
    /// The last fetch found little after many empty polls: the program waits for what is delivered, so it is
    /// demoted.
    pub(super) idle: bool,
    pub(super) counters: NicCounters,
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Opens the NIC side of queue pair `queue` of a region at the positions where a predecessor left it.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`] when the region has fewer queue pairs, [`QueueError::WrongDesign`] when its
    /// rings are not `R`.
    pub fn new(mem: M, layout: &Layout, queue: u16) -> Result<NicQueue<M, R>, QueueError> {
        let config = *layout.config();
        let queue_layout = queue_layout::<R>(layout, queue)?;
        Ok(NicQueue {
            number: queue,
            tx: R::Consumer::resume(&mem, &queue_layout.tx),
            rx: R::Producer::resume(&mem, &queue_layout.rx),
            pool: Allocator::nic(layout),
            staged: [Desc::default(); FETCH],
            staged_len: 0,
            staged_chains: false,
            open: 0,
            areas: config.has_areas(),
            taken: Taken::default(),
            popped: 0,
            kept_until: 0,
            untracked: 0,
            fill: (!config.shared_pool)
                .then(|| PostedBuffers::new(R::Consumer::resume(&mem, &queue_layout.fill))),
            notify: NotifyState::new(queue_layout.rx_event),
            tx_event: queue_layout.tx_event,
            config,
            tuning: Tuning::default().within(&config),
            rx_dropped: queue_layout.rx_dropped,
            sender_bits: u64::MAX,
            idle: false,
            counters: NicCounters::default(),
            mem,
        })
    }

    /// Applies a tuning: what the region's configuration says explicitly still wins. At any time, also under
    /// load.
    pub fn set_tuning(&mut self, tuning: Tuning) {
        self.tuning = tuning.within(&self.config);
    }

    /// Of the metadata of what the program sends from now on, only these bits are fetched; the others are zero. At first all of them are:
    /// for a NIC that gives packets back to their own program, or looks at each word itself.
    pub fn set_sender_bits(&mut self, bits: u64) {
        self.sender_bits = bits;
    }

    /// The tuning in force.
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// The region's memory, for copies between regions.
    pub fn memory(&self) -> &M {
        &self.mem
    }

    #[inline(always)]
    pub(super) fn has_areas(&self) -> bool {
        R::AREAS && self.areas
    }

    /// The longest packet that is delivered to the areas of the ring.
    #[inline(always)]
    pub(super) fn inline_max(&self) -> u32 {
        if R::AREAS { self.tuning.inline_max(self.idle) } else { 0 }
    }

    /// Publishes the packets delivered since the last flush, and hands back the descriptors fetched.
    #[inline(always)]
    pub fn flush(&mut self) {
        self.publish(self.demotes());
        if self.has_areas() {
            self.rx.close(&self.mem);
            if let Some(position) = self.taken.release() {
                self.release(position);
            }
        } else if (self.config.shared_pool && self.kept_until == 0) || self.open == 0 {
            self.release(self.tx.position());
        }
        if let Some(fill) = &mut self.fill {
            fill.release(&self.mem);
        }
    }

    /// Hands back the units before `position`.
    #[inline(always)]
    fn release(&mut self, position: u64) {
        if self.kept_until == 0 {
            self.tx.release_to(&self.mem, position);
        } else {
            self.release_kept(position);
        }
    }

    /// True when lines are demoted after they are written.
    #[inline(always)]
    pub(super) fn demotes(&self) -> bool {
        match self.tuning.demote {
            Demote::Auto => self.idle,
            Demote::On => true,
            Demote::Off => false,
        }
    }

    #[inline(always)]
    pub(super) fn publish(&mut self, demote: bool) {
        let staged = self.staged.get(..self.staged_len).unwrap_or_default();
        if staged.is_empty() {
            return;
        }
        if demote {
            demote_payload(&self.mem, staged);
        }
        // All fit: `room` has counted the staged ones.
        let pushed = self.rx.append(&self.mem, staged, !self.staged_chains);
        self.staged_chains = false;
        debug_assert_eq!(pushed, self.staged_len);
        self.staged_len = 0;
        if demote {
            self.rx.demote(&self.mem);
        }
    }

    /// How many of `n` more descriptors can be staged and published.
    #[inline(always)]
    pub(super) fn room(&mut self, n: usize) -> usize {
        if self.staged_len + n > FETCH {
            self.publish(false);
        }
        let want = (self.staged_len + n).min(FETCH);
        self.rx.room(&self.mem, want).saturating_sub(self.staged_len)
    }

    /// Adds a buffer with data to what the next `publish` publishes.
    #[inline(always)]
    pub(super) fn stage(&mut self, at: u32, len: u16, class: Class, more: bool, meta: u64) {
        let flags = class.flag() | if more { FLAG_MORE } else { 0 };
        self.stage_desc(Desc::new(at, len, flags).with_meta(meta));
    }

    #[inline(always)]
    pub(super) fn stage_desc(&mut self, desc: Desc) {
        if let Some(slot) = self.staged.get_mut(self.staged_len) {
            *slot = desc;
            self.staged_len += 1;
            self.staged_chains |= desc.more();
        }
    }

    /// A buffer for (the next part of) `len` bytes: allocated from the shared pool, or the next receive
    /// buffer that the host posted, whatever its size.
    #[inline(always)]
    pub(super) fn take_buffer(&mut self, len: u32) -> Option<(u32, Class)> {
        if let Some(fill) = &mut self.fill {
            fill.load(&self.mem, 1);
        }
        self.take_loaded(len)
    }

    /// As `take_buffer`, from the posted receive buffers already loaded.
    #[inline(always)]
    pub(super) fn take_loaded(&mut self, len: u32) -> Option<(u32, Class)> {
        if let Some(fill) = &mut self.fill {
            return fill.take(&self.pool);
        }
        let (at, class) = self.pool.alloc(&self.mem, self.pool.class(len))?;
        Some((data_offset(at, len, class), class))
    }

    /// Puts back what `take_buffer` gave last.
    pub(super) fn put_back(&mut self, at: u32, class: Class) {
        match &mut self.fill {
            Some(fill) => fill.put_back(at, class),
            None => self.pool.free(&self.mem, at, class),
        }
    }

    /// The request for a notification that is due: the program has armed itself, and packets were published
    /// since. A NIC that notifies programs calls this after each poll of the queue, also of one that moved
    /// nothing (`notify.rs` says why).
    #[inline(always)]
    pub fn needs_notification(&self) -> Option<Armed> {
        self.notify.needs_notification(&self.mem, &self.rx)
    }

    /// The program has been notified: this request is answered.
    pub fn notified(&mut self, armed: Armed) {
        self.notify.notified(armed);
    }

    /// Before the NIC sleeps: has the program wake it when it sends. To be followed by one
    /// [`heavy_barrier`](SharedMemory::heavy_barrier) for all queues, and then by a look at each ([`tx_waits`](NicQueue::tx_waits)):
    /// `notify.rs` says why.
    ///
    /// ```
    /// # use ccnic::{SharedMemory, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let nic = &mut sides.nic;
    /// nic.arm();
    /// nic.memory().heavy_barrier();
    /// let may_sleep = !nic.tx_waits();
    /// # assert!(may_sleep);
    /// // The NIC sleeps, until it is woken.
    /// nic.disarm();
    /// ```
    pub fn arm(&self) {
        notify::request(&self.mem, self.tx_event, &self.tx);
    }

    /// The NIC is awake: see [`arm`](NicQueue::arm).
    pub fn disarm(&self) {
        notify::disarm(&self.mem, self.tx_event);
    }

    /// True when the program has sent what has not been fetched: see [`arm`](NicQueue::arm).
    pub fn tx_waits(&self) -> bool {
        self.tx.ready(&self.mem)
    }

    /// A snapshot of what this queue has done so far.
    pub fn counters(&self) -> NicCounters {
        NicCounters {
            bad_chain: self.counters.bad_chain + self.tx.discarded(),
            bad_descriptor: self.counters.bad_descriptor + self.fill.as_ref().map_or(0, PostedBuffers::bad),
            ..self.counters
        }
    }

    /// Before a planned end: returns the magazines to the region's pool and unused posted receive buffers to
    /// their ring.
    pub fn retire(&mut self) {
        self.flush();
        if let Some(fill) = &mut self.fill {
            fill.give_back(&self.mem);
        }
        self.pool.drain(&self.mem);
    }
}

/// Demotes the data of a burst.
#[cold]
#[inline(never)]
fn demote_payload<M: SharedMemory>(mem: &M, descs: &[Desc]) {
    for desc in descs {
        for line in lines(desc.offset(), u32::from(desc.len())) {
            mem.demote(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Design;
    use crate::ring::{GroupedEpoch, Packed};
    use crate::testing::{Sides, config, region};

    #[test]
    fn opening_says_what_is_wrong() {
        let (mem, layout) = region(&config::<Packed>());
        let none = NicQueue::<_, Packed>::new(mem.clone(), &layout, 9).unwrap_err();
        assert_eq!(none, QueueError::NoQueue { queue: 9, queues: 1 });
        let wrong = NicQueue::<_, GroupedEpoch>::new(mem, &layout, 0).unwrap_err();
        assert_eq!(wrong, QueueError::WrongDesign { asked: Design::GroupedEpoch, has: Design::Packed });
    }

    #[test]
    fn nothing_is_visible_before_flush_unless_the_stage_is_full() {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        for n in 1..=FETCH {
            assert!(sides.nic.deliver_bytes(&[&[1; 64]], 0));
            assert_eq!((sides.nic.staged_len, sides.host.rx_ready()), (n, 0));
        }
        assert!(sides.nic.deliver_bytes(&[&[1; 64]], 0));
        assert_eq!((sides.nic.staged_len, sides.host.rx_ready()), (1, FETCH));
        sides.nic.flush();
        assert_eq!((sides.nic.staged_len, sides.host.rx_ready()), (0, FETCH + 1));
    }

    #[test]
    fn an_armed_program_is_notified_once() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        assert!(sides.host.arm());
        assert_eq!(sides.nic.needs_notification(), None, "nothing has come");
        assert!(sides.nic.deliver_bytes(&[b"x"], 0));
        assert_eq!(sides.nic.needs_notification(), None, "nothing is published");
        sides.nic.flush();
        let armed = sides.nic.needs_notification().unwrap();
        sides.nic.notified(armed);
        assert_eq!(sides.nic.needs_notification(), None);
        assert!(!sides.host.arm(), "a packet waits");
    }

    #[test]
    fn retire_returns_the_magazines() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        assert_eq!((sides.send(1500, 9, 1), sides.poll(), sides.receive(32, |_, _| ())), (9, 9, 9));
        assert!(sides.nic.pool.kept() > 0);
        sides.nic.retire();
        assert_eq!(sides.nic.pool.kept(), 0);
    }
}
