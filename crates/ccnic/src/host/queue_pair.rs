//! The queue pair: opening, transmit and receive bursts, notification, statistics.

use crate::buf::{Buf, Burst, RegionTag};
use crate::config::{Config, Demote, Design};
use crate::desc::{Desc, FLAG_MORE, FLAG_SMALL};
use crate::layout::{Layout, QueueLayout};
use crate::memory::{LINE, SharedMemory, copy, lines};
use crate::notify;
use crate::pool::{Allocator, Class, flags};
use crate::queue_error::{QueueError, queue_layout};
use crate::ring::{Consumer, IDLE_POLLS, Producer, Ring};
use crate::tuning::Tuning;

use super::managed::Managed;
use super::receive::Receiver;
use super::small::RingAhead;

/// Fewer descriptors than this in a burst, and the ring counts as nearly empty: less than one full line.
pub(crate) const NEARLY_EMPTY: usize = 4;

/// Packets not delivered to the program, by reason, since the queue pair was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostDrops {
    /// Received packets of which a descriptor names no bytes of a buffer, or none: the NIC is broken.
    pub bad_descriptor: u64,
    /// Received descriptors of packets with too many segments: the NIC is broken.
    pub bad_chain: u64,
    /// Received packets longer than the MTU: the NIC is broken.
    pub too_long: u64,
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
    layout: QueueLayout,
    config: Config,
    /// What is left of it in this region.
    tuning: Tuning,
    pub(super) ring_ahead: RingAhead,
}

/// How a transmit burst meets the NIC.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// Its lines are demoted.
    pub(super) demote: bool,
    /// The ring is nearly empty: the NIC waits.
    pub(super) idle: bool,
}

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Opens queue pair `queue` of a region at the positions where its last user left it.
    ///
    /// At most one `QueuePair` may exist for each queue of a region.
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
            layout: queue_layout,
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

    /// Hands packets to the NIC, in order, as many whole ones as the ring has room for; removes them from
    /// `burst` and returns the number of buffers. The rest stays in `burst`, still the program's.
    ///
    /// A packet whose last segment is missing, or that has more than [`CHAIN_MAX`](crate::desc::CHAIN_MAX)
    /// segments, is not taken.
    ///
    /// # Panics
    /// Debug builds: when a buffer is of another region.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// pair.alloc(64, 8, &mut burst);
    /// assert_eq!(pair.tx_burst(&mut burst), 8);
    /// assert!(burst.is_empty());
    /// ```
    #[inline(always)]
    pub fn tx_burst(&mut self, burst: &mut Burst) -> usize {
        let pace = self.pace(burst.len());
        self.transmit(burst, None, pace)
    }

    /// `transmit` where the ring has areas: packets that fit are copied there, and their buffers are free again, still in this core's
    /// cache. Then buffers do not wander to the NIC, which delivers short packets without any.
    #[inline(always)]
    fn transmit_inline(&mut self, burst: &mut Burst, pace: Pace) -> usize {
        let most = self.tuning.inline_max(pace.idle);
        let n =
            if most == 0 { self.append_buffers(burst.as_slice()) } else { self.transmit_up_to(burst, most) };
        self.tx.close(&self.mem);
        burst.remove_front(n);
        self.rx.prefetch(&self.mem);
        n
    }

    /// Where packets may be inline: keeps a spare buffer for one that is received while the pool is dry.
    #[inline(always)]
    pub(super) fn keep_spare(&mut self) {
        self.pool.keep_spare(&self.mem);
    }

    /// Copies packets of at most `most` bytes into the areas and hands over others in their buffers, as many as there is room for; returns
    /// the number of buffers.
    #[inline(always)]
    fn transmit_up_to(&mut self, burst: &Burst, most: u32) -> usize {
        let (mut shortest, mut longest, mut chains) = (u16::MAX, 0, false);
        for buf in burst.as_slice() {
            shortest = buf.len().min(shortest);
            longest = buf.len().max(longest);
            chains |= buf.more();
        }
        if u32::from(shortest) > most {
            self.append_buffers(burst.as_slice())
        } else if chains || u32::from(longest) > most {
            self.transmit_mixed(burst, most)
        } else {
            let n = self.copy_inline(burst.as_slice(), longest);
            self.pool.free_many(&self.mem, burst.first(n));
            n
        }
    }

    /// Hands over packets in their buffers, as many as there is room for; returns the number of buffers.
    #[inline(always)]
    pub(super) fn append_buffers(&mut self, bufs: &[Buf]) -> usize {
        let (any, all) = flags(bufs);
        let n = self.tx.append(&self.mem, bufs, any & u32::from(FLAG_MORE) == 0);
        let (sent, small) = (bufs.get(..n).unwrap_or_default(), u32::from(FLAG_SMALL));
        match (any & small, all & small) {
            (0, _) => self.pool.sent_alike(Class::Large, sent),
            (_, 0) => self.pool.sent_many(sent),
            _ => self.pool.sent_alike(Class::Small, sent),
        }
        n
    }

    /// Copies packets of one segment into the areas, as many as there is room for; returns their number.
    #[inline(always)]
    fn copy_inline(&mut self, bufs: &[Buf], longest: u16) -> usize {
        let (mem, tx) = (&self.mem, &mut self.tx);
        if u32::from(longest) <= LINE {
            let mut bufs = bufs.iter();
            return tx.push_lines(mem, bufs.len(), |_, at| {
                let Some(desc) = bufs.next().map(Buf::desc) else { return (0, 0) };
                copy(mem, desc.offset(), mem, at, desc.len().into());
                (desc.len(), desc.meta)
            });
        }
        for (n, desc) in bufs.iter().map(Buf::desc).enumerate() {
            let Some(at) = tx.place(mem, desc.len().into()) else { return n };
            copy(mem, desc.offset(), mem, at, desc.len().into());
            tx.add(mem, at, desc.len(), desc.meta);
        }
        bufs.len()
    }

    /// A burst in which some packets are longer than `most` or chains: the others are copied, these are sent in their buffers.
    #[inline(never)]
    fn transmit_mixed(&mut self, burst: &Burst, most: u32) -> usize {
        let (bufs, mut n) = (burst.as_slice(), 0);
        while let Some(rest) = bufs.get(n..).filter(|rest| !rest.is_empty()) {
            let segments = rest.iter().position(|buf| !buf.more()).map_or(rest.len(), |last| last + 1);
            let packet = rest.get(..segments).unwrap_or_default();
            let sent = match packet {
                [short] if !short.more() && u32::from(short.len()) <= most => {
                    let sent = self.copy_inline(packet, short.len());
                    self.pool.free_many(&self.mem, packet.get(..sent).unwrap_or_default());
                    sent
                }
                _ => self.append_buffers(packet),
            };
            n += sent;
            if sent < segments {
                break;
            }
        }
        n
    }

    /// `tx_burst`; with `alike` every packet is known to be one segment in a buffer of that class, too long to be copied inline.
    #[inline(always)]
    pub(super) fn transmit(&mut self, burst: &mut Burst, alike: Option<Class>, pace: Pace) -> usize {
        RegionTag::of(&self.mem).check(burst.as_slice());
        let Pace { demote, idle } = pace;
        let first = self.tx.position();
        if demote {
            self.demote_payload(burst);
        }
        if self.tx.has_areas() {
            self.tx.begin(demote, if idle { 0 } else { self.tuning.ahead });
            let Some(class) = alike else { return self.transmit_inline(burst, pace) };
            let n = self.tx.append(&self.mem, burst.as_slice(), true);
            self.tx.close(&self.mem);
            self.pool.sent_alike(class, burst.first(n));
            burst.remove_front(n);
            self.rx.prefetch(&self.mem);
            return n;
        }
        let most = if self.managed.is_some() { self.managed_room(burst.len()) } else { Burst::CAPACITY };
        let n = self.tx.push(&self.mem, burst.first(most));
        if demote {
            self.tx.demote(&self.mem);
        }
        match (&mut self.managed, alike) {
            (None, Some(class)) => self.pool.sent_alike(class, burst.first(n)),
            (None, None) => self.pool.sent_many(burst.first(n)),
            (Some(managed), _) => managed.note_sent(first, burst.first(n)),
        }
        burst.remove_front(n);
        self.rx.prefetch(&self.mem);
        n
    }

    /// The pace of a burst of `n` packets.
    #[inline(always)]
    pub(super) fn pace(&mut self, n: usize) -> Pace {
        let idle = self.rx.empty_polls() >= IDLE_POLLS && n < NEARLY_EMPTY;
        let demote = match self.tuning.demote {
            Demote::Auto => idle,
            Demote::On => true,
            Demote::Off => false,
        };
        Pace { demote, idle }
    }

    /// Host-managed pool: how many of `n` buffers can be sent, which is as many as can be noted until the NIC
    /// has completed them.
    #[inline(never)]
    pub(super) fn managed_room(&mut self, n: usize) -> usize {
        let first = self.tx.position();
        let Some(managed) = &mut self.managed else { return n };
        if managed.free_slots(first) < n {
            managed.reap(&self.mem, &mut self.tx, &mut self.pool);
        }
        managed.free_slots(first)
    }

    /// Demotes the data of a burst.
    #[inline(never)]
    pub(super) fn demote_payload(&self, burst: &Burst) {
        for buf in burst.as_slice() {
            for line in lines(buf.desc().offset(), u32::from(buf.len())) {
                self.mem.demote(line);
            }
        }
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
        if !self.rx.poll(&self.mem) {
            return 0;
        }
        let n = self.rx.burst(&self.mem, &mut self.pool, burst, max);
        if self.managed.is_some() {
            self.manage();
        }
        self.rx.prefetch(&self.mem);
        n
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
    /// With the host-managed pool, buffers that the NIC has not completed are not returned: let it finish
    /// first.
    pub fn retire(&mut self) {
        self.rx.discard(&self.mem, &mut self.pool);
        if let Some(managed) = &mut self.managed {
            managed.reap(&self.mem, &mut self.tx, &mut self.pool);
        }
        self.pool.drain(&self.mem);
    }

    /// After the NIC died: makes the rings what this side knows them to be. Packets that wait in them stay if
    /// `admit` accepts their buffers, each of which it must accept once only; otherwise those of that ring
    /// are dropped.
    pub(crate) fn repair(&mut self, mut admit: impl FnMut(&[Desc]) -> bool) {
        let (mem, layout) = (&self.mem, &self.layout);
        let Some(managed) = &mut self.managed else {
            self.tx.repair(mem, &layout.tx, &mut admit);
            self.rx.repair(mem, &layout.rx, 0, &mut admit);
            return;
        };
        // The host holds what it has sent, whatever the ring says.
        self.tx.repair(mem, &layout.tx, |_| true);
        if self.config.design == Design::Doorbell {
            self.rx.repair(mem, &layout.rx, managed.fill_position(), &mut admit);
            // Receive buffers that the NIC took and did not fill are still in the ring, which it fills in
            // place: they are posted again.
            mem.store_release(layout.fill.taken, mem.load_acquire(layout.rx.tail));
            managed.repair_fill(mem, &layout.fill, |_| true);
        } else {
            self.rx.repair(mem, &layout.rx, 0, &mut admit);
            managed.repair_fill(mem, &layout.fill, &mut admit);
        }
        let mut posted = 0;
        R::Consumer::look(mem, &layout.fill).peek(mem, |_| posted += 1);
        self.rx.ring().peek(mem, |_| posted += 1);
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
    pub fn arm(&mut self) -> bool {
        self.rx.staged() == 0 && notify::arm(&self.mem, self.layout.rx_event, self.rx.ring())
    }

    /// Withdraws what [`arm`](QueuePair::arm) asked for. A notification may be on its way all the same.
    pub fn disarm(&mut self) {
        notify::disarm(&self.mem, self.layout.rx_event);
    }

    /// True when there is something to receive. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    pub fn rx_waits(&self) -> bool {
        self.rx.staged() > 0 || self.rx.ring().ready(&self.mem)
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
    /// // The NIC returns them:
    /// # while sides.poll() > 0 {}
    /// assert_eq!((sides.host.tx_waiting(), sides.host.rx_ready(), sides.host.rx_waits()), (0, 4, true));
    /// assert_eq!(sides.host.drops(), HostDrops::default());
    /// assert_eq!(sides.host.config().queues, 1);
    /// ```
    pub fn tx_waiting(&self) -> usize {
        let mut n = 0;
        R::Consumer::look(&self.mem, &self.layout.tx).peek(&self.mem, |_| n += 1);
        n
    }

    /// Pauses for a moment: call it in each poll that found nothing.
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
            rx_dropped: self.mem.load(self.layout.rx_dropped),
        }
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
mod tests {
    use super::*;
    use crate::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded};
    use crate::testing::{Sides, config, region};

    fn packets_come_back<R: Ring>() {
        let mut sides = Sides::<R>::new(&config::<R>());
        let rounds = if cfg!(miri) { 4 } else { 100 }; // an interpreter takes minutes for all of them
        for i in 0..rounds {
            assert_eq!(sides.send(200, 3, i), 3, "{:?}", R::DESIGN);
            while sides.poll() > 0 {}
            let mut received = 0;
            while sides.receive(32, |len, byte| assert_eq!((len, byte), (200, Some(i)))) > 0 {
                received += 1;
            }
            assert!(received > 0);
        }
        assert_eq!(sides.host.drops(), HostDrops::default());
    }

    #[test]
    fn packets_come_back_in_every_design() {
        packets_come_back::<GroupedEpoch>();
        packets_come_back::<GroupedClear>();
        packets_come_back::<Packed>();
        packets_come_back::<Padded>();
        packets_come_back::<Doorbell>();
    }

    #[test]
    fn opening_says_what_is_wrong() {
        let (mem, layout) = region(&config::<Packed>());
        let none = QueuePair::<_, Packed>::new(mem.clone(), &layout, 1).unwrap_err();
        assert_eq!(none, QueueError::NoQueue { queue: 1, queues: 1 });
        let wrong = QueuePair::<_, Padded>::new(mem, &layout, 0).unwrap_err();
        assert_eq!(wrong, QueueError::WrongDesign { asked: Design::Padded, has: Design::Packed });
    }

    #[test]
    fn a_full_ring_leaves_the_rest_in_the_burst() {
        let mut host = Sides::<Packed>::new(&config::<Packed>()).host;
        let mut burst = Burst::new();
        assert_eq!((host.alloc(64, 64, &mut burst), host.tx_room()), (64, 64));
        assert_eq!((host.tx_burst(&mut burst), host.tx_room(), host.tx_waiting()), (64, 0, 64));
        host.alloc(64, 5, &mut burst);
        assert_eq!((host.tx_burst(&mut burst), burst.len()), (0, 5));
        host.free(&mut burst);
    }

    #[test]
    fn what_is_taken_ahead_counts_as_ready_and_goes_back_with_retire() {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        assert_eq!((sides.send(64, 20, 1), sides.poll()), (20, 20));
        assert_eq!((sides.host.rx_ready(), sides.receive(5, |_, _| ())), (20, 5));
        assert!(sides.host.rx_waits() && !sides.host.arm());
        assert_eq!(sides.host.rx_ready(), 15);
        sides.host.retire();
        assert_eq!((sides.host.rx_ready(), sides.receive(32, |_, _| ())), (0, 0));
        assert!(sides.host.arm(), "nothing is there");
        sides.host.disarm();
    }

    #[test]
    fn a_chain_longer_than_asked_for_comes_alone_and_waits_only_for_space() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        assert_eq!((sides.send(9000, 6, 1), sides.send(64, 2, 2), sides.poll()), (6, 2, 8));
        assert_eq!([0, 1, 2].map(|max| sides.receive(max, |_, _| ())), [0, 3, 3]);
        assert_eq!((sides.send(9000, 3, 1), sides.poll()), (3, 3));
        let mut burst = Burst::new();
        sides.host.alloc(64, 60, &mut burst);
        assert_eq!((sides.host.rx_burst(&mut burst, 32), burst.space()), (2, 2));
        assert_eq!((sides.host.rx_burst(&mut burst, 32), sides.host.rx_ready()), (0, 3));
        sides.host.free(&mut burst);
        assert_eq!(sides.host.rx_burst(&mut burst, 1), 3);
        sides.host.free(&mut burst);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a buffer of another region")]
    fn a_buffer_of_another_region_is_not_sent() {
        let [mut one, mut other] =
            [(); 2].map(|()| Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()).host);
        let mut burst = Burst::new();
        one.alloc(64, 1, &mut burst);
        other.tx_burst(&mut burst);
    }
}
