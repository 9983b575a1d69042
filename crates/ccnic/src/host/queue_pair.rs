//! The queue pair: opening, transmit and receive bursts, notification, statistics.

extern crate alloc;

use alloc::collections::VecDeque;

use crate::buf::Burst;
use crate::config::{Config, Design};
use crate::desc::Desc;
use crate::layout::{Layout, QueueLayout};
use crate::memory::SharedMemory;
use crate::notify::{self, Armed, NotifyState};
use crate::pool::Allocator;
use crate::queue_error::{QueueError, queue_layout};
use crate::ring::{Consumer, Producer, Ring};
use crate::tuning::Tuning;

use super::kept::KeptBuf;
use super::managed::Managed;
use super::receive::Receiver;
use super::small::RingAhead;

/// Fewer descriptors than this in a burst, and the ring counts as nearly empty: less than one full line.
pub const NEARLY_EMPTY: usize = 4;

/// Packets not delivered to the program, by reason, since the queue pair was opened.
/// Example: [`QueuePair::tx_waiting`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostDrops {
    /// Received packets of which a descriptor names no bytes of a buffer, or none: the NIC is broken.
    pub bad_descriptor: u64,
    /// Received descriptors of packets with too many segments: the NIC is broken.
    pub bad_chain: u64,
    /// Received packets longer than the MTU: the NIC is broken.
    pub too_long: u64,
    /// Received inline packets for which there was no buffer while buffers of the pool stood in the ring behind them: the pool is small,
    /// or the NIC is broken.
    pub no_buffer: u64,
    /// Packets that the NIC dropped because this queue's ring was full or the pool dry, since the region was
    /// made. Only with RSS: otherwise the NIC waits.
    pub rx_dropped: u64,
}

/// The host side of a queue pair. Belongs to one thread at a time.
///
/// All bursts count buffers, and hold whole packets: a packet of several buffers (a chain) is never split.
///
/// ```
/// use ccnic::ring::GroupedEpoch;
/// use ccnic::{Burst, Config, Layout, heap::HeapMemory, host};
///
/// let layout = Layout::new(&Config::default())?;
/// let mem = HeapMemory::new(layout.size());
/// host::format(&mem, &layout);
/// let mut pair = host::QueuePair::<_, GroupedEpoch>::new(mem, &layout, 0)?;
///
/// let mut burst = Burst::new();
/// pair.alloc(5, 1, &mut burst);
/// for buf in burst.iter_mut() {
///     pair.write(buf, 0, b"hello");
/// }
/// assert_eq!(pair.tx_burst(&mut burst), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct QueuePair<M: SharedMemory, R: Ring> {
    pub(super) mem: M,
    pub(super) tx: R::Producer,
    pub(super) rx: Receiver<R::Consumer>,
    pub(super) pool: Allocator,
    /// With the host-managed pool.
    pub(super) managed: Option<Managed<R>>,
    pub(super) layout: QueueLayout,
    pub(super) number: u16,
    /// The NIC knows kept segments.
    pub(super) knows_kept: bool,
    /// Kept buffers to be freed when the NIC has released them.
    pub(super) leaving: VecDeque<KeptBuf>,
    /// Whether the NIC sleeps.
    notify: NotifyState,
    config: Config,
    /// What is left of it in this region.
    tuning: Tuning,
    pub(super) ring_ahead: RingAhead,
}

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Opens queue pair `queue` of a region at the positions where its last user left it.
    ///
    /// At most one `QueuePair` may exist for each queue of a region. Example: [`QueuePair`].
    ///
    /// # Errors
    /// [`QueueError::NoQueue`] when the region has fewer queue pairs, [`QueueError::WrongDesign`] when its
    /// rings are not `R`.
    pub fn new(mem: M, layout: &Layout, queue: u16) -> Result<QueuePair<M, R>, QueueError> {
        let config = *layout.config();
        let queue_layout = queue_layout::<R>(layout, queue)?;
        let tx = R::Producer::resume(&mem, &queue_layout.tx);
        let managed =
            (!config.shared_pool).then(|| Managed::new(&mem, &config, &queue_layout.fill, tx.position()));
        let mut this = QueuePair {
            tx,
            rx: Receiver::new(R::Consumer::resume(&mem, &queue_layout.rx), &config),
            pool: Allocator::host(layout),
            managed,
            notify: NotifyState::new(queue_layout.tx_event),
            layout: queue_layout,
            number: queue,
            knows_kept: true,
            leaving: VecDeque::new(),
            config,
            tuning: Tuning::default().within(&config),
            ring_ahead: RingAhead::default(),
            mem,
        };
        if let Some(managed) = &mut this.managed {
            managed.post(&this.mem, &mut this.pool);
        }
        this.keep_spare();
        Ok(this)
    }

    /// Where packets may be inline: keeps a spare buffer for one that is received while the pool is dry.
    #[inline(always)]
    pub(super) fn keep_spare(&mut self) {
        self.pool.keep_spare(&self.mem);
    }

    /// After a transmit burst: wakes a NIC that sleeps, and requests the lines of the next receive burst.
    #[inline(always)]
    pub(super) fn published(&mut self) {
        if self.mem.nic_may_sleep() {
            self.mem.light_barrier();
            if let Some(armed) = self.notify.needs_notification(&self.mem, &self.tx) {
                self.wake_nic(armed);
            }
        }
        self.rx.prefetch(&self.mem);
    }

    #[cold]
    #[inline(never)]
    fn wake_nic(&mut self, armed: Armed) {
        self.notify.notified(armed);
        self.mem.wake_nic();
    }

    /// Buffers that a transmit burst is sure to take now: 0 when the ring is full. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    pub fn tx_room(&mut self) -> usize {
        let room = self.tx.room(&self.mem, Burst::CAPACITY);
        if self.managed.is_some() { self.managed_room(room).min(room) } else { room }
    }

    /// Receives whole packets in at most `max` buffers, adds them to `burst` and returns the number of
    /// buffers: 32 at most in one call.
    ///
    /// If the first packet has more than `max` segments, it is received alone: at most
    /// [`CHAIN_MAX`](crate::desc::CHAIN_MAX) buffers. A packet waits only while the burst has no space for
    /// it. Up to 64 descriptors are taken from the ring ahead of the program's requests; their packets' lines
    /// are prefetched a few in each call of this queue pair.
    ///
    /// An inline packet is copied into a buffer. When there is none it waits until the program frees one, unless buffers of the pool
    /// stand in the ring behind it: then it is dropped and counted, since those may be the ones that it waits for.
    ///
    /// The NIC is not trusted: every packet has at most `CHAIN_MAX` segments, each with data and inside one
    /// buffer, and at most as many bytes as the MTU. Other packets are dropped and counted
    /// ([`drops`](QueuePair::drops)).
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// pair.alloc(64, 8, &mut burst);
    /// pair.tx_burst(&mut burst);
    /// # sides.poll();
    /// # let pair = &mut sides.host;
    /// assert_eq!(pair.rx_burst(&mut burst, 32), 8); // a loopback NIC has sent them back
    /// pair.free(&mut burst);
    /// ```
    #[inline(always)]
    pub fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        if !self.rx_poll() {
            return 0;
        }
        let n = self.rx.burst(&self.mem, &mut self.pool, burst, max);
        if self.managed.is_some() {
            self.manage();
        }
        self.rx.prefetch(&self.mem);
        n
    }

    /// Nothing is there to be received. With the host-managed pool that may be so because the pool had no buffers to post: it may have
    /// some now, and without a posted buffer nothing will ever be received.
    #[inline(always)]
    pub(super) fn receive_none(&mut self) {
        if self.managed.is_some() {
            self.manage();
        }
    }

    /// Host-managed pool: frees what the NIC has completed and posts receive buffers in place of those
    /// received.
    #[inline(never)]
    pub(super) fn manage(&mut self) {
        let taken = self.rx.taken();
        let Some(m) = &mut self.managed else { return };
        if taken > 0 || m.is_short() {
            m.reap(&self.mem, &mut self.tx, &mut self.pool);
            m.replace(&self.mem, &mut self.pool, taken);
        }
    }

    /// Returns the buffers that this queue pair keeps to the region's pool, also those of packets that were
    /// taken from the ring and not yet handed to the program. Dropping the queue pair does the same.
    ///
    /// Buffers that the NIC has not completed, of kept ones or with the host-managed pool, are not returned: let it finish
    /// first. Example: [`tx_waiting`](QueuePair::tx_waiting).
    pub fn retire(&mut self) {
        self.rx.discard(&self.mem, &mut self.pool);
        if let Some(managed) = &mut self.managed {
            managed.reap(&self.mem, &mut self.tx, &mut self.pool);
        }
        self.free_released();
        self.pool.drain(&self.mem);
    }

    /// After the NIC died: makes the rings what this side knows them to be. Packets that wait in them stay if
    /// `admit` accepts their buffers, each of which it must accept once only; otherwise those of that ring
    /// are dropped.
    pub(crate) fn repair(&mut self, mut admit: impl FnMut(&[Desc]) -> bool) {
        let (mem, layout) = (&self.mem, &self.layout);
        // A successor that does not know kept segments would free their buffers.
        let knows_kept = self.knows_kept;
        let known = |descs: &[Desc]| knows_kept || !descs.iter().any(|desc| desc.kept());
        self.notify = NotifyState::new(layout.tx_event); // the successor's requests may look like the dead NIC's
        let Some(managed) = &mut self.managed else {
            self.tx.repair(mem, &layout.tx, |descs| known(descs) && admit(descs));
            self.rx.repair(mem, &layout.rx, 0, &mut admit);
            return;
        };
        // The host holds what it has sent, whatever the ring says.
        self.tx.repair(mem, &layout.tx, known);
        let posts = managed.posts();
        if self.config.design == Design::Doorbell {
            // The ring holds what the NIC has filled, then what it has not.
            let filled = mem.load_acquire(layout.rx.tail).wrapping_sub(self.rx.ring().position()) as usize;
            let unfilled = |descs: &[Desc]| posts.all(descs.get(filled..).unwrap_or_default());
            self.rx.repair(mem, &layout.rx, managed.fill_position(), |descs| unfilled(descs) && admit(descs));
            // Receive buffers that the NIC took and did not fill are still in the ring, which it fills in
            // place: they are posted again.
            mem.store_release(layout.fill.taken, mem.load_acquire(layout.rx.tail));
            managed.repair_fill(mem, &layout.fill, |_| true);
        } else {
            self.rx.repair(mem, &layout.rx, 0, &mut admit);
            managed.repair_fill(mem, &layout.fill, |descs| posts.all(descs) && admit(descs));
        }
        let mut posted = 0;
        R::Consumer::look(mem, &layout.fill).peek(mem, |_| posted += 1);
        self.rx.ring().peek(mem, |_| posted += 1);
        // What this side had taken from the ring is not among them: it is not subtracted a second time.
        self.rx.taken();
        managed.recount(posted);
    }

    /// After recovery, with the host-managed pool: posts receive buffers in place of those that the dead NIC
    /// had taken, before the program allocates them for other things.
    pub(crate) fn post_again(&mut self) {
        if let Some(managed) = &mut self.managed {
            managed.replace(&self.mem, &mut self.pool, 0);
        }
    }

    /// Asks the NIC for a notification when there is something to receive. False when there is something
    /// already; then nothing is asked. How the NIC notifies is the operating system's part (`ccnic-client`).
    /// Example: [`tx_waiting`](QueuePair::tx_waiting).
    pub fn arm(&mut self) -> bool {
        self.rx.staged() == 0 && notify::arm(&self.mem, self.layout.rx_event, self.rx.ring())
    }

    /// Withdraws what [`arm`](QueuePair::arm) asked for. A notification may be on its way all the same.
    /// Example: [`tx_waiting`](QueuePair::tx_waiting).
    pub fn disarm(&mut self) {
        notify::disarm(&self.mem, self.layout.rx_event);
    }

    /// True when there is something to receive. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    pub fn rx_waits(&self) -> bool {
        self.rx.staged() > 0 || self.rx.ring().ready(&self.mem)
    }

    /// False when there is nothing to receive: then it does what a burst does that receives nothing, and in fewer instructions. For a program
    /// that has more to do between two bursts than to look for packets.
    ///
    /// ```
    /// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// assert!(!sides.host.rx_poll());
    /// # sides.send(64, 1, 7);
    /// # sides.poll();
    /// assert!(sides.host.rx_poll()); // a packet has come
    /// ```
    #[inline(always)]
    pub fn rx_poll(&mut self) -> bool {
        let waits = self.rx.poll(&self.mem);
        if !waits {
            self.receive_none();
        }
        waits
    }

    /// For processors that can wait for a write to a line (UMWAIT): the offset of the word that the NIC writes with the next packet, and what
    /// it holds. `None` when there is something to receive already. A packet that comes after this call changes the word.
    ///
    /// ```
    /// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// let watched = sides.host.rx_watch();
    /// assert!(watched.is_some() && watched == sides.host.rx_watch(), "no packet has come");
    /// ```
    pub fn rx_watch(&self) -> Option<(u32, u64)> {
        let at = self.rx.ring().awaited();
        let value = self.mem.load_acquire(at);
        (!self.rx_waits()).then_some((at, value))
    }

    /// Buffers that can be received now. Reads the whole ring: not for every burst. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    pub fn rx_ready(&self) -> usize {
        let mut n = self.rx.staged();
        self.rx.ring().peek(&self.mem, |_| n += 1);
        n
    }

    /// Buffers handed to the NIC that it has not taken yet. Reads the whole ring: not for every burst.
    ///
    /// ```
    /// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// use ccnic::{Burst, host::HostDrops};
    ///
    /// let mut burst = Burst::new();
    /// sides.host.alloc(64, 4, &mut burst);
    /// assert!(sides.host.tx_room() >= 4);
    /// sides.host.tx_burst(&mut burst);
    /// assert_eq!((sides.host.tx_waiting(), sides.host.rx_waits()), (4, false));
    /// assert!(sides.host.arm()); // asks for a notification: nothing can be received yet
    /// sides.host.relax(); // a program that polls does this meanwhile
    /// sides.host.disarm();
    /// // The NIC returns them:
    /// # while sides.poll() > 0 {}
    /// assert_eq!((sides.host.tx_waiting(), sides.host.rx_ready(), sides.host.rx_waits()), (0, 4, true));
    /// assert!(!sides.host.arm());
    /// assert_eq!(sides.host.drops(), HostDrops::default());
    /// assert_eq!(sides.host.config().queues, 1);
    /// sides.host.retire(); // frees what it keeps, also the four packets
    /// ```
    pub fn tx_waiting(&self) -> usize {
        let mut n = 0;
        R::Consumer::look(&self.mem, &self.layout.tx).peek(&self.mem, |_| n += 1);
        n
    }

    /// Pauses for a moment: call it in each poll that found nothing. Example: [`tx_waiting`](QueuePair::tx_waiting).
    #[inline(always)]
    pub fn relax(&self) {
        self.tuning.relax(&self.mem);
    }

    /// Applies a tuning: what the region's configuration says explicitly still wins. At any time, also under
    /// load.
    ///
    /// ```
    /// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// pair.set_tuning("fetch=read".parse()?);
    /// assert_eq!(pair.tuning().to_string(), "fetch=read,ahead=0,demote=auto,idle=pause,inline=1,loaded=0");
    /// # Ok::<(), ccnic::ConfigError>(())
    /// ```
    pub fn set_tuning(&mut self, tuning: Tuning) {
        self.tuning = tuning.within(&self.config);
        self.rx.set_tuning(self.tuning);
    }

    /// The tuning in force. [`set_tuning`](QueuePair::set_tuning) has an example.
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// Packets not delivered, by reason. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    pub fn drops(&self) -> HostDrops {
        let checker = self.rx.checker();
        HostDrops {
            bad_descriptor: checker.bad_descriptor,
            bad_chain: checker.bad_chain + self.rx.ring().discarded(),
            too_long: checker.too_long,
            no_buffer: checker.no_buffer,
            rx_dropped: self.mem.load(self.layout.rx_dropped),
        }
    }

    /// Tells the queue pairs of one region from those of others: [`SharedMemory::region`].
    ///
    /// ```
    /// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
    /// # let [one, other] = [(); 2].map(|()| Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()));
    /// assert_ne!(one.host.region(), other.host.region());
    /// ```
    pub fn region(&self) -> usize {
        self.mem.region()
    }

    /// The region's configuration. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn pool(&self) -> &Allocator {
        &self.pool
    }
}

impl<M: SharedMemory, R: Ring> Drop for QueuePair<M, R> {
    fn drop(&mut self) {
        self.retire();
    }
}

#[cfg(test)]
mod tests;
