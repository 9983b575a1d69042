//! A queue pair of whatever design the region has, behind one type.
//!
//! Each call branches once on the design: one branch per burst. The bursts of the five ring types are
//! compiled side by side, and those that check or copy packets also for wider registers: one more branch.

use ccnic::host::{self, HostDrops, NotSmall, Outgoing, Reserved, Segmented};
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic::{Buf, Burst, Config, Desc, Layout, QueueError};
use ccnic_shm::{Adopt, NativeMemory, Vectors};

use crate::waiter::Waiter;

/// A queue pair in mapped memory whose ring type is known at compile time.
type Native<R> = host::QueuePair<NativeMemory, R>;

/// A program's side of one queue pair: allocates, sends, receives and frees buffers. Belongs to one thread at
/// a time.
///
/// Made by [`Nic::queue_pair`](crate::Nic::queue_pair). Dropping it returns the buffers that it keeps to the
/// region's pool; buffers in the program's bursts stay the program's.
///
/// All bursts count buffers and hold whole packets. A packet of up to 4 KiB is one buffer.
///
/// ```
/// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
/// # let directory = tempfile::tempdir().unwrap();
/// # let socket = directory.path().join("nic.sock");
/// # let _nic = test_nic::TestNic::start(&socket, false);
/// use std::time::Duration;
///
/// use ccnic_client::{Burst, Nic};
///
/// let mut nic = Nic::open(&socket)?;
/// let mut pair = nic.queue_pair(0)?;
/// let mut burst = Burst::new();
///
/// assert_eq!(pair.alloc(64, 32, &mut burst), 32); // 32 packets of 64 bytes, a buffer each
/// for buf in burst.iter_mut() {
///     pair.with_mut(buf, |bytes| bytes.fill(0x55));
/// }
/// let sent = pair.tx_burst(&mut burst);
/// pair.free(&mut burst); // those for which the ring had no room: none here
///
/// let mut received = 0;
/// while received < sent {
///     pair.wait(Duration::from_secs(10))?; // a loopback returns them
///     received += pair.rx_burst(&mut burst, 32);
///     assert!(burst.as_slice().iter().all(|buf| pair.with(buf, |bytes| bytes == [0x55; 64])));
///     pair.free(&mut burst);
/// }
/// # Ok::<(), ccnic_client::Error>(())
/// ```
#[derive(Debug)]
pub struct QueuePair {
    pair: ByDesign,
    vectors: Vectors,
    waiter: Waiter,
}

#[derive(Debug)]
enum ByDesign {
    GroupedEpoch(Native<GroupedEpoch>),
    GroupedClear(Native<GroupedClear>),
    Packed(Native<Packed>),
    Padded(Native<Padded>),
    Doorbell(Native<Doorbell>),
}

/// Evaluates `$body` with `$pair` as the queue pair of whichever design.
macro_rules! each {
    ($self:expr, $pair:ident => $body:expr) => {
        match $self {
            ByDesign::GroupedEpoch($pair) => $body,
            ByDesign::GroupedClear($pair) => $body,
            ByDesign::Packed($pair) => $body,
            ByDesign::Padded($pair) => $body,
            ByDesign::Doorbell($pair) => $body,
        }
    };
}

/// As `each`, with `$body` in the widest registers of the machine: see [`Vectors`].
macro_rules! each_in_vectors {
    ($self:expr, $pair:ident => $body:expr) => {{
        let vectors = $self.vectors;
        each!(&mut $self.pair, $pair => vectors.run(
            #[inline(always)]
            || $body,
        ))
    }};
}

// Behind the macros, which they use.
mod kept;
mod waiting;

/// Work on a queue pair that is compiled once for each ring type: what [`QueuePair::dispatch`] calls, with an example.
pub trait PairVisitor {
    /// What the work returns.
    type Output;

    /// Does the work on a queue pair of the ring type `R`.
    fn visit<R: Ring>(self, pair: &mut host::QueuePair<NativeMemory, R>) -> Self::Output;
}

impl QueuePair {
    /// Opens queue pair `queue` of a region.
    pub(crate) fn new(
        mem: NativeMemory,
        layout: &Layout,
        queue: u16,
        waiter: Waiter,
    ) -> Result<QueuePair, QueueError> {
        use ccnic::Design;
        let vectors = mem.vectors();
        let pair = match layout.config().design {
            Design::GroupedEpoch => ByDesign::GroupedEpoch(Native::new(mem, layout, queue)?),
            Design::GroupedClear => ByDesign::GroupedClear(Native::new(mem, layout, queue)?),
            Design::Packed => ByDesign::Packed(Native::new(mem, layout, queue)?),
            Design::Padded => ByDesign::Padded(Native::new(mem, layout, queue)?),
            Design::Doorbell => ByDesign::Doorbell(Native::new(mem, layout, queue)?),
        };
        Ok(QueuePair { pair, vectors, waiter })
    }

    /// Calls `visitor` with the queue pair of the region's ring type: for a loop that is compiled without a
    /// branch per burst. If its `visit` is `#[inline(always)]`, it is also compiled for the widest registers of the
    /// machine ([`Vectors`]).
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use std::time::Duration;
    ///
    /// use ccnic_client::{Burst, NativeMemory, PairVisitor, host, ring};
    ///
    /// /// Receives and frees all packets that have arrived; returns their number of buffers.
    /// struct Drain;
    ///
    /// impl PairVisitor for Drain {
    ///     type Output = usize;
    ///     fn visit<R: ring::Ring>(self, pair: &mut host::QueuePair<NativeMemory, R>) -> usize {
    ///         let (mut burst, mut received) = (Burst::new(), 0);
    ///         while pair.rx_burst(&mut burst, 32) > 0 {
    ///             received += burst.len();
    ///             pair.free(&mut burst);
    ///         }
    ///         received
    ///     }
    /// }
    ///
    /// let mut burst = Burst::new();
    /// pair.alloc(64, 1, &mut burst);
    /// pair.tx_burst(&mut burst);
    /// pair.wait(Duration::from_secs(10))?; // a loopback returns the packet
    /// assert_eq!(pair.dispatch(Drain), 1);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    #[inline]
    pub fn dispatch<V: PairVisitor>(&mut self, visitor: V) -> V::Output {
        each_in_vectors!(self, pair => visitor.visit(pair))
    }

    /// Allocates packets of `len` bytes each, as many whole ones as fit into `max` buffers, and adds the
    /// buffers to `burst`; returns the number of buffers. See [`host::QueuePair::alloc`], with an example.
    #[inline(always)]
    pub fn alloc(&mut self, len: u16, max: usize, burst: &mut Burst) -> usize {
        each!(&mut self.pair, pair => pair.alloc(len, max, burst))
    }

    /// Returns all buffers of `burst` to the pool. See [`host::QueuePair::free`]. Example: [`QueuePair`].
    #[inline]
    pub fn free(&mut self, burst: &mut Burst) {
        each!(&mut self.pair, pair => pair.free(burst));
    }

    /// Returns one buffer to the pool. See [`host::QueuePair::free_one`], with an example.
    #[inline]
    pub fn free_one(&mut self, buf: Buf) {
        each!(&mut self.pair, pair => pair.free_one(buf));
    }

    /// Hands packets to the NIC, as many whole ones as the ring has room for; removes them from `burst` and
    /// returns the number of buffers. See [`host::QueuePair::tx_burst`], with an example.
    #[inline]
    pub fn tx_burst(&mut self, burst: &mut Burst) -> usize {
        each_in_vectors!(self, pair => pair.tx_burst(burst))
    }

    /// Buffers that a transmit burst is sure to take now: 0 when the ring is full. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    #[inline]
    pub fn tx_room(&mut self) -> usize {
        each!(&mut self.pair, pair => pair.tx_room())
    }

    /// Receives whole packets in at most `max` buffers, adds them to `burst` and returns the number of
    /// buffers. See [`host::QueuePair::rx_burst`], with an example.
    #[inline(always)]
    pub fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        each_in_vectors!(self, pair => pair.rx_burst(burst, max))
    }

    /// True when small packets of `len` bytes are sent in buffers of the pool. See [`host::QueuePair::takes_buffers`]. Example:
    /// [`tx_commit`](QueuePair::tx_commit).
    pub fn takes_buffers(&self, len: u16) -> bool {
        each!(&self.pair, pair => pair.takes_buffers(len))
    }

    /// Sends packets that `fill` writes where the NIC reads them. See [`host::QueuePair::tx_fill`], with an example.
    #[inline(always)]
    pub fn tx_fill(
        &mut self,
        len: u16,
        n: usize,
        burst: &mut Burst,
        fill: impl FnMut(usize, &mut [u8]) -> u64,
    ) -> usize {
        each_in_vectors!(self, pair => pair.tx_fill(len, n, burst, fill))
    }

    /// Sends copies and packets in buffers. See [`host::QueuePair::tx_mixed`], with an example.
    #[inline(always)]
    pub fn tx_mixed<'a>(
        &mut self,
        packets: impl Iterator<Item = Outgoing<'a>>,
        burst: &mut Burst,
        adopt: Adopt,
    ) -> usize {
        each_in_vectors!(self, pair => pair.tx_mixed(packets, burst, adopt))
    }

    /// Reserves places for packets. See [`host::QueuePair::tx_reserve`], with an example.
    #[inline(always)]
    pub fn tx_reserve(
        &mut self,
        len: u16,
        n: usize,
        reserved: &mut Reserved,
        place: impl FnMut(usize, u32),
    ) -> usize {
        each!(&mut self.pair, pair => pair.tx_reserve(len, n, reserved, place))
    }

    /// Sends the packets in reserved places. See [`host::QueuePair::tx_commit`].
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use std::time::Duration;
    ///
    /// use ccnic_client::{Reserved, SharedMemory};
    ///
    /// // SAFETY: used for the reserved places only.
    /// let mem = unsafe { nic.region().agent() };
    /// let mut reserved = Reserved::default();
    /// assert!(pair.takes_buffers(4096)); // so long ones never lie in the ring
    /// assert_eq!(pair.tx_reserve(64, 4, &mut reserved, |_, at| mem.write(at, &[7; 60])), 4);
    /// assert_eq!(pair.tx_commit(&mut reserved, 3, |_| (60, 0)), Some(3)); // the fourth place is given back
    ///
    /// let mut received = 0;
    /// while received < 3 {
    ///     pair.wait(Duration::from_secs(10))?; // a loopback returns them
    ///     received += pair.rx_lend(32, |_, bytes, _| assert_eq!(bytes, [7; 60])).unwrap(); // none has several segments
    /// }
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    #[inline(always)]
    pub fn tx_commit(
        &mut self,
        reserved: &mut Reserved,
        n: usize,
        packet: impl FnMut(usize) -> (u16, u64),
    ) -> Option<usize> {
        each!(&mut self.pair, pair => pair.tx_commit(reserved, n, packet))
    }

    /// Sends copies of packets of up to 128 bytes. See [`host::QueuePair::tx_small`], with an example.
    #[inline(always)]
    pub fn tx_small<'a>(
        &mut self,
        longest: u16,
        packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>,
        burst: &mut Burst,
    ) -> usize {
        each_in_vectors!(self, pair => pair.tx_small(longest, packets, burst))
    }

    /// Receives packets of up to 128 bytes without handles. See [`host::QueuePair::rx_small`].
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use std::time::Duration;
    ///
    /// use ccnic_client::{Burst, NotSmall, Segmented};
    ///
    /// let mut burst = Burst::new();
    /// assert_eq!(pair.tx_small(5, [(&b"short"[..], 0)].into_iter(), &mut burst), 1);
    /// assert_eq!(pair.alloc(9000, 3, &mut burst), 3); // one packet of three buffers
    /// assert_eq!(pair.tx_burst(&mut burst), 3);
    /// let mut wait_for = |what: Result<usize, NotSmall>| loop {
    ///     pair.wait(Duration::from_secs(10))?; // a loopback returns them
    ///     let got = pair.rx_small(32, |_, bytes, _| assert_eq!(bytes, b"short"));
    ///     if got != Ok(0) {
    ///         assert_eq!(got, what);
    ///         return Ok::<(), ccnic_client::Error>(());
    ///     }
    /// };
    /// wait_for(Ok(1))?;
    /// wait_for(Err(NotSmall))?; // rx_burst receives it
    /// assert_eq!(pair.rx_lend(32, |_, _, _| ()), Err(Segmented)); // so it is for packets of one segment
    /// assert_eq!(pair.rx_burst(&mut burst, 32), 3);
    /// pair.free(&mut burst);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotSmall`] when the first packet that waits is not small.
    #[inline(always)]
    pub fn rx_small(&mut self, max: usize, read: impl FnMut(usize, &[u8], u64)) -> Result<usize, NotSmall> {
        each_in_vectors!(self, pair => pair.rx_small(max, read))
    }

    /// Receives packets of one segment without handles: each is lent where it lies. See [`host::QueuePair::rx_lend`], with an example.
    ///
    /// # Errors
    /// [`Segmented`] when the first packet that waits has several segments.
    #[inline(always)]
    pub fn rx_lend(&mut self, max: usize, read: impl FnMut(usize, &[u8], u64)) -> Result<usize, Segmented> {
        each_in_vectors!(self, pair => pair.rx_lend(max, read))
    }

    /// Sends buffers that are held as descriptors, by a program in another language. See [`host::QueuePair::tx_descs`]; [`Adopt`] is the
    /// promise that the caller holds them, which only `unsafe` code can make.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use std::time::Duration;
    ///
    /// use ccnic_client::{Burst, Desc};
    ///
    /// let (mut burst, mut empty) = (Burst::new(), Burst::new());
    /// assert_eq!(pair.alloc(64, 2, &mut burst), 2);
    /// let held: Vec<Desc> = burst.disown().collect(); // as a library in another language holds them
    /// // SAFETY: each descriptor below comes from `disown` and is handed over once.
    /// let adopt = unsafe { ccnic_shm::Adopt::promise() };
    /// assert_eq!(pair.tx_descs(held.into_iter(), &mut empty, adopt), (2, 2)); // both are valid, both were taken
    ///
    /// let mut received = 0;
    /// while received < 2 {
    ///     pair.wait(Duration::from_secs(10))?;
    ///     pair.rx_burst(&mut burst, 32);
    ///     let descs: Vec<Desc> = burst.disown().collect();
    ///     received += pair.read_descs(descs.into_iter(), &mut empty, adopt, |_, bytes, _| assert_eq!(bytes.len(), 64));
    /// }
    ///
    /// pair.alloc(64, 2, &mut burst);
    /// let unsent: Vec<Desc> = burst.disown().collect();
    /// assert_eq!(pair.free_descs(unsent.into_iter(), &mut empty, adopt), 2);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    #[inline(always)]
    pub fn tx_descs(
        &mut self,
        descs: impl Iterator<Item = Desc>,
        burst: &mut Burst,
        adopt: Adopt,
    ) -> (usize, usize) {
        each_in_vectors!(self, pair => pair.tx_descs(descs, burst, adopt))
    }

    /// Frees buffers that are held as descriptors. See [`host::QueuePair::free_descs`]. Example:
    /// [`tx_descs`](QueuePair::tx_descs).
    #[inline(always)]
    pub fn free_descs(
        &mut self,
        descs: impl Iterator<Item = Desc>,
        burst: &mut Burst,
        adopt: Adopt,
    ) -> usize {
        each!(&mut self.pair, pair => pair.free_descs(descs, burst, adopt))
    }

    /// Reads and frees buffers that are held as descriptors. See [`host::QueuePair::read_descs`]. Example:
    /// [`tx_descs`](QueuePair::tx_descs).
    pub fn read_descs(
        &mut self,
        descs: impl Iterator<Item = Desc>,
        burst: &mut Burst,
        adopt: Adopt,
        read: impl FnMut(usize, &[u8], u64),
    ) -> usize {
        each_in_vectors!(self, pair => pair.read_descs(descs, burst, adopt, read))
    }

    /// True when the descriptor names bytes of one buffer of the pool. See [`host::QueuePair::holds`], with an example.
    pub fn holds(&self, desc: Desc) -> bool {
        each!(&self.pair, pair => pair.holds(desc))
    }

    /// Copies `from` into the buffer from byte `at` on; returns the bytes that fitted. See
    /// [`host::QueuePair::write`], with an example.
    #[inline]
    pub fn write(&self, buf: &mut Buf, at: u16, from: &[u8]) -> usize {
        each!(&self.pair, pair => pair.write(buf, at, from))
    }

    /// Copies the buffer's data from byte `at` on into `to`; returns the bytes copied. See
    /// [`host::QueuePair::write`], with an example.
    #[inline]
    pub fn read(&self, buf: &Buf, at: u16, to: &mut [u8]) -> usize {
        each!(&self.pair, pair => pair.read(buf, at, to))
    }

    /// Lends the buffer's data to `f`. See
    /// [`host::QueuePair::with`], with an example.
    #[inline]
    pub fn with<T>(&self, buf: &Buf, f: impl FnOnce(&[u8]) -> T) -> T {
        each!(&self.pair, pair => pair.with(buf, f))
    }

    /// Lends the buffer's data to `f` for writing. See
    /// [`host::QueuePair::with`], with an example.
    #[inline]
    pub fn with_mut<T>(&self, buf: &mut Buf, f: impl FnOnce(&mut [u8]) -> T) -> T {
        each!(&self.pair, pair => pair.with_mut(buf, f))
    }

    /// Packets not delivered, by reason. Example: [`tx_waiting`](QueuePair::tx_waiting).
    pub fn drops(&self) -> HostDrops {
        each!(&self.pair, pair => pair.drops())
    }

    /// Tells the queue pairs of one NIC from those of others.
    pub(crate) fn region(&self) -> usize {
        each!(&self.pair, pair => pair.region())
    }

    /// The region's configuration. Example: [`tx_waiting`](QueuePair::tx_waiting).
    pub fn config(&self) -> &Config {
        each!(&self.pair, pair => pair.config())
    }

    /// Returns the buffers that this queue pair keeps to the region's pool. See [`host::QueuePair::retire`]. Example:
    /// [`tx_waiting`](QueuePair::tx_waiting).
    pub fn retire(&mut self) {
        each!(&mut self.pair, pair => pair.retire());
    }
}
