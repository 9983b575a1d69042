//! An open NIC: the program's region, its queue pairs, and what to do when the NIC ends.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ccnic::recovery::{Inventory, post_again};
use ccnic::ring::Ring;
use ccnic::rss::Rss;
use ccnic::{Config, Layout, Tuning, host};
use ccnic_control::Connection;
use ccnic_control::messages::{Hello, Reply, Request, Status};
use ccnic_control::offloads::{Offloads, Taken};
use ccnic_control::rss::{RssMessage, check_table};
use ccnic_frame::Takes;
use ccnic_shm::{HUGE_PAGE, NativeMemory, Pages, Region, numa};

use crate::error::Error;
use crate::flow::Flows;
use crate::options::NicOptions;
use crate::queue_pair::{PairVisitor, QueuePair};
use crate::tuning::Choice;
use crate::waiter::Waiter;

/// Between two tries to reach the next NIC.
const BETWEEN: Duration = Duration::from_millis(10);

/// Buffers of a region without a queue pair: see [`Nic::pool`]; [`host::Pool`] has an example.
pub type Pool = host::Pool<NativeMemory>;

/// An open NIC: a region of memory, attached to a NIC that serves its queue pairs as long as this lives.
///
/// May be used from any thread; its calls are too slow for a burst.
///
/// ```
/// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
/// # let directory = tempfile::tempdir().unwrap();
/// # let socket = directory.path().join("nic.sock");
/// # let first = test_nic::TestNic::start(&socket, true);
/// use ccnic_client::{Config, Nic, Rss};
///
/// let config = Config { queues: 2, ..Config::default() };
/// let mut nic = Nic::options().config(&config).open(&socket)?;
/// let mut pairs = [nic.queue_pair(0)?, nic.queue_pair(1)?];
/// let mut pool = nic.pool(); // for a thread that has no queue pair
/// assert_eq!((nic.config().queues, nic.layout().size()), (2, nic.region().size()));
///
/// nic.set_rss(Some(&Rss::new(2)))?;
/// assert_eq!(nic.rss(), Some(&Rss::new(2)));
/// assert_eq!(nic.status()?.wire, "loopback");
///
/// // The NIC ends, and another one is started:
/// # drop(first);
/// # let _second = test_nic::TestNic::start(&socket, true);
/// assert!(!nic.alive());
/// let reclaimed = nic.reconnect(&mut pairs, [&mut pool])?; // buffers of the dead NIC are in the pool again
/// assert_eq!(reclaimed, 0); // it had none
/// # Ok::<(), ccnic_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Nic {
    socket: PathBuf,
    name: String,
    mac: Option<[u8; 6]>,
    pub(crate) connection: Arc<Connection>,
    /// The NIC can do receive-side scaling.
    spreads: bool,
    /// What the NIC does about requests in the metadata of packets.
    offloads: Option<Offloads>,
    /// Those that the program takes as they are.
    takes: Takes,
    /// The NIC may sleep.
    sleeps: bool,
    /// The NIC knows kept segments.
    knows_kept: bool,
    /// The parameters for a NIC that can do receive-side scaling.
    rss: Option<Rss>,
    pub(crate) flows: Flows,
    /// What is chosen of each NIC's tuning.
    choice: Choice,
    tuning: Tuning,
    region: Region,
    layout: Layout,
    /// By queue: the waiter of each queue pair that has been taken.
    waiters: Vec<Option<Waiter>>,
    pools: usize,
}

impl Nic {
    /// Opens the NIC at `socket` with the default options: one queue pair. Example: [`QueuePair`].
    ///
    /// # Errors
    /// As [`NicOptions::open`].
    pub fn open(socket: impl AsRef<Path>) -> Result<Nic, Error> {
        NicOptions::new().open(socket)
    }

    /// Options to open a NIC with. Example: [`NicOptions`].
    pub fn options() -> NicOptions {
        NicOptions::new()
    }

    pub(crate) fn open_with(socket: &Path, options: &NicOptions) -> Result<Nic, Error> {
        let NicOptions { config, pages, .. } = options;
        config.check()?;
        if let Some(rss) = &options.rss {
            check_table(rss, config.queues).map_err(|why| Error::Rss { why })?;
        }
        let choice = Choice::new(options.tuning)?;
        let connection = match Connection::open(socket).map_err(Error::from) {
            Err(Error::Unreachable { .. }) if options.later => Connection::ended()?,
            other => other?,
        };
        let connection = Arc::new(connection);
        let there = !connection.has_ended();
        let hello = if there { greet(&connection)? } else { unknown() };
        if options.rss.is_some() && !hello.rss {
            return Err(Error::NoRss);
        }
        let (region, layout) = make_region(config, *pages, hello.node)?;
        host::format(&memory(&region), &layout);
        let this = Nic {
            socket: socket.to_owned(),
            name: options.name.clone(),
            mac: options.mac,
            connection,
            spreads: hello.rss,
            offloads: hello.offloads,
            takes: Takes::NONE,
            sleeps: hello.sleeps,
            knows_kept: hello.kept,
            rss: options.rss.clone(),
            flows: Flows::new(hello.flow),
            tuning: choice.of(hello.tuning),
            choice,
            region,
            layout,
            waiters: vec![None; usize::from(config.queues)],
            pools: 0,
        };
        if there {
            this.attach(&this.connection, hello.rss)?;
        }
        Ok(this)
    }

    /// Attaches the region to the NIC at the other end, which can spread received packets or cannot.
    fn attach(&self, connection: &Connection, spreads: bool) -> Result<(), Error> {
        let rss = self.rss.as_ref().filter(|_| spreads).map(RssMessage::from);
        let request = Request::Attach { name: self.name.clone(), mac: self.mac, rss };
        match connection.ask(&request, Some(self.region.as_fd()))? {
            Reply::Attached => Ok(()),
            other => Err(Error::Protocol { what: format!("{other:?} in answer to an attachment") }),
        }
    }

    /// The geometry of the region. [`Nic`] has an example.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The region itself. [`Nic`] has an example.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The configuration of the region. [`Nic`] has an example.
    pub fn config(&self) -> &Config {
        self.layout.config()
    }

    /// How the machine is used: what [`NicOptions::tuning`] says, else what the NIC has measured, with what the environment variable
    /// `CCNIC_TUNING` changes of it. A queue pair uses what the region's configuration leaves of it ([`Tuning::within`]).
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// use ccnic_client::{FetchMode, Nic};
    ///
    /// let nic = Nic::options().tuning("fetch=read".parse()?).open(&socket)?;
    /// assert_eq!(nic.tuning().fetch, FetchMode::Read);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// Queue pair `queue`, 0 to `config().queues - 1`. Each can be taken once, for one thread.
    /// [`Nic`] has an example.
    ///
    /// # Errors
    /// [`Error::NoQueue`] when there is no such queue, [`Error::QueueTaken`] when it has been taken before.
    pub fn queue_pair(&mut self, queue: u16) -> Result<QueuePair, Error> {
        let queues = self.layout.config().queues;
        let slot = self.waiters.get_mut(usize::from(queue)).ok_or(Error::NoQueue { queue, queues })?;
        if slot.is_some() {
            return Err(Error::QueueTaken { queue });
        }
        let waiter = Waiter::new(queue, Arc::clone(&self.connection), self.sleeps);
        let mut pair =
            QueuePair::new(with_waker(memory(&self.region), &waiter), &self.layout, queue, waiter.clone())?;
        pair.dispatch(Tune(self.tuning, self.knows_kept));
        *slot = Some(waiter);
        Ok(pair)
    }

    /// A handle on the region's buffers without a queue pair, for a thread that only allocates and frees. Its
    /// buffers count for recovery, so all handles that were ever made must be passed to
    /// [`reconnect`](Nic::reconnect). [`Nic`] has an example.
    pub fn pool(&mut self) -> Pool {
        self.pools += 1;
        Pool::new(memory(&self.region), &self.layout)
    }

    /// Sets receive-side scaling for this NIC and its successors; with `None`, the sender chooses the queue
    /// of a packet (a loopback returns it on the queue pair that it was sent on). Packets under way may still
    /// arrive on their former queue. May be called at any time, also under load. [`Nic`] has an example.
    ///
    /// # Errors
    /// [`Error::Rss`]: the table names a queue that does not exist. [`Error::Gone`] and [`Error::NoRss`]: the NIC has gone, or cannot
    /// do RSS; the setting is kept for its successor. [`Error::Refused`]: nothing has changed.
    pub fn set_rss(&mut self, rss: Option<&Rss>) -> Result<(), Error> {
        if let Some(rss) = rss {
            check_table(rss, self.layout.config().queues).map_err(|why| Error::Rss { why })?;
        }
        let told = match rss {
            Some(_) if !self.spreads => Err(Error::NoRss),
            None if !self.spreads => Ok(()),
            rss => self.tell_rss(rss),
        };
        if matches!(told, Ok(()) | Err(Error::NoRss | Error::Gone)) {
            self.rss = rss.cloned();
        }
        told
    }

    fn tell_rss(&self, rss: Option<&Rss>) -> Result<(), Error> {
        match self.connection.ask(&Request::Rss(rss.map(RssMessage::from)), None) {
            Ok(Reply::Done) => Ok(()),
            Ok(other) => Err(Error::Protocol { what: format!("{other:?} in answer to RSS") }),
            Err(_) if !self.alive() => Err(Error::Gone),
            Err(e) => Err(e.into()),
        }
    }

    /// The receive-side scaling in force; `None` when there is none, or the NIC cannot do it. [`Nic`] has an example.
    pub fn rss(&self) -> Option<&Rss> {
        self.rss.as_ref().filter(|_| self.spreads)
    }

    /// What the NIC does about requests in the metadata of packets ([`Meta`](crate::Meta)); `None`: it may not know them.
    /// [`set_takes`](Nic::set_takes) has an example.
    pub fn offloads(&self) -> Option<&Offloads> {
        self.offloads.as_ref()
    }

    /// Has this NIC and its successors leave packets as they are of which this is requested. At first the program gets complete packets
    /// only; a loopback returns packets as they were sent, whatever this says.
    ///
    /// ```no_run
    /// use ccnic_client::{Nic, Takes};
    ///
    /// let mut nic = Nic::open("/tmp/nic.sock")?;
    /// nic.set_takes(Takes::NONE.with_l4_checksum())?; // TCP and UDP checksums may be missing from now on
    /// let whole = nic.offloads().is_some(); // everything else is done before packets come
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Gone`]: the NIC has gone; its successor will be told. [`Error::Refused`] and others: nothing has changed.
    pub fn set_takes(&mut self, takes: Takes) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.takes, takes);
        let told = self.tell_takes();
        if told.as_ref().is_err_and(|e| !matches!(e, Error::Gone)) {
            self.takes = before;
        }
        told
    }

    fn tell_takes(&self) -> Result<(), Error> {
        if self.offloads.is_none() {
            return Ok(());
        }
        match self.connection.ask(&Request::Takes(Taken::list(self.takes)), None) {
            Ok(Reply::Done) => Ok(()),
            Ok(other) => Err(Error::Protocol { what: format!("{other:?} in answer to what is taken") }),
            Err(_) if !self.alive() => Err(Error::Gone),
            Err(e) => Err(e.into()),
        }
    }

    /// False when the NIC has ended. A system call: not for every burst. [`Nic`] has an example.
    pub fn alive(&self) -> bool {
        !self.connection.has_ended()
    }

    /// Attaches the region to the NIC that now listens at the same socket, after the old one has ended.
    /// Packets in the rings are delivered; those that the old NIC had taken from the rings are lost. The
    /// buffers that it held go back to the pool; returns their number.
    ///
    /// RSS and flow rules are in force from the first packet on, if the NIC can do that.
    ///
    /// `pairs` and `pools` must be all those that were taken. [`Nic`] has an example.
    ///
    /// If the old NIC had sealed the region against holes, as `ccnicd` does unless its operator trusts this
    /// user, the program's memory is copied first, to the same addresses: see [`Region::renew`] for what that
    /// takes, and for what other threads may do meanwhile with packets that they hold. A call that finds no
    /// NIC has made the copy already: the next one is quick.
    ///
    /// # Errors
    /// [`Error::PairsMissing`], [`Error::StillAlive`], [`Error::Region`] when there is no memory for the copy,
    /// or as [`NicOptions::open`]; the program may try again.
    pub fn reconnect<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = &'a mut QueuePair>,
        pools: impl IntoIterator<Item = &'a mut Pool>,
    ) -> Result<usize, Error> {
        let (pairs, pools): (Vec<_>, Vec<_>) = (pairs.into_iter().collect(), pools.into_iter().collect());
        let given = self.waiters.iter().flatten().count() + self.pools;
        let brought = pairs.len() + pools.len();
        // With those of another NIC in their place, the buffers of those that are missing would be taken for lost.
        let region = self.region.base().addr().get();
        let foreign = pairs.iter().any(|pair| pair.region() != region);
        if brought != given || foreign || pools.iter().any(|pool| pool.region() != region) {
            return Err(Error::PairsMissing { given, brought });
        }
        if self.alive() {
            return Err(Error::StillAlive);
        }
        // Before a NIC is called: it need not wait, and may not be there yet.
        self.region.renew()?;
        let connection = Arc::new(Connection::open(&self.socket)?);
        let Hello { rss: spreads, tuning, offloads, flow, kept, .. } = greet(&connection)?;
        self.flows.prepare(&connection, flow)?;
        (self.tuning, self.knows_kept) = (self.choice.of(tuning), kept);
        let reclaimed = self.reclaim(pairs, pools);
        self.attach(&connection, spreads)?;
        (self.connection, self.spreads, self.offloads) = (connection, spreads, offloads);
        if self.tell_takes().is_err() {
            tracing::warn!("the NIC was not told what the program takes: it completes packets for it");
        }
        self.waiters.iter().flatten().for_each(|waiter| waiter.move_to(Arc::clone(&self.connection)));
        Ok(reclaimed)
    }

    /// As [`reconnect`](Nic::reconnect), as soon as a NIC listens: tries for so long, `None`: without end.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let first = test_nic::TestNic::start(&socket, true);
    /// use std::time::Duration;
    ///
    /// use ccnic_client::{Error, Nic};
    ///
    /// let mut nic = Nic::open(&socket)?;
    /// let mut pair = nic.queue_pair(0)?;
    /// # drop(first);
    /// # let _second = test_nic::TestNic::start(&socket, true);
    /// if let Err(Error::Gone) = pair.wait(None) {
    ///     nic.reconnect_within([&mut pair], [], Duration::from_secs(60))?;
    /// }
    /// assert!(nic.alive());
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PairsMissing`], [`Error::StillAlive`] and [`Error::Region`] at once; otherwise those of the last try.
    pub fn reconnect_within<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = &'a mut QueuePair>,
        pools: impl IntoIterator<Item = &'a mut Pool>,
        patience: impl Into<Option<Duration>>,
    ) -> Result<usize, Error> {
        let (mut pairs, mut pools): (Vec<_>, Vec<_>) =
            (pairs.into_iter().collect(), pools.into_iter().collect());
        let end = patience.into().and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let pairs = pairs.iter_mut().map(|pair| &mut **pair);
            let tried = self.reconnect(pairs, pools.iter_mut().map(|pool| &mut **pool));
            let in_vain =
                |e: &Error| matches!(e, Error::PairsMissing { .. } | Error::StillAlive | Error::Region(_));
            match tried {
                Err(e) if !in_vain(&e) && end.is_none_or(|end| Instant::now() < end) => {
                    std::thread::sleep(BETWEEN)
                }
                tried => return tried,
            }
        }
    }

    /// Returns the buffers that a dead NIC held to the pool; gives their number.
    fn reclaim(&self, mut pairs: Vec<&mut QueuePair>, pools: Vec<&mut Pool>) -> usize {
        let mem = memory(&self.region);
        let mut inventory = Inventory::new(&mem, &self.layout);
        pairs.iter_mut().for_each(|pair| pair.dispatch(Count(&mut inventory)));
        pools.iter().for_each(|pool| inventory.count_pool(pool));
        // Only now is it known what the rings may not name.
        for pair in &mut pairs {
            pair.dispatch(Tune(self.tuning, self.knows_kept));
            pair.dispatch(Repair(&mut inventory));
        }
        let lost = inventory.reclaim();
        pairs.into_iter().for_each(|pair| pair.dispatch(PostAgain));
        lost
    }

    /// The state and counters of the NIC and its programs. [`Nic`] has an example.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn status(&self) -> Result<Status, Error> {
        Ok(Connection::open(&self.socket)?.status()?)
    }
}

/// One agent's access to the region of a [`Nic`].
#[expect(unsafe_code, reason = "the types of this crate keep the contract")]
fn memory(region: &Region) -> NativeMemory {
    // SAFETY: the region is as large as the layout that it was made for and formatted with, before anybody else has it, and that all
    // queue pairs and pools are made with. `queue_pair` gives each queue out once. Of the memory itself nothing leaves this crate but in
    // a `QueuePair` or a `Pool`. Those check what the NIC says against the layout; they lend the bytes of a buffer to whoever holds its
    // handle, of which there is one: they cannot be copied, and be made of descriptors
    // only by who promises to hold their buffers (`Adopt`).
    unsafe { region.agent() }
}

/// The memory of a queue pair that may have to wake the NIC.
fn with_waker(memory: NativeMemory, waiter: &Waiter) -> NativeMemory {
    match waiter.waker() {
        Ok(Some(waker)) => memory.with_waker(waker),
        Ok(None) => memory,
        Err(e) => {
            tracing::warn!("queue {}: the NIC will not sleep: {e}", waiter.queue());
            memory
        }
    }
}

/// Counts a queue pair in an inventory.
struct Count<'a, 'm>(&'a mut Inventory<'m, NativeMemory>);

impl PairVisitor for Count<'_, '_> {
    type Output = ();

    fn visit<R: Ring>(self, pair: &mut host::QueuePair<NativeMemory, R>) {
        self.0.count_pair(pair);
    }
}

/// Posts receive buffers again.
struct PostAgain;

impl PairVisitor for PostAgain {
    type Output = ();

    fn visit<R: Ring>(self, pair: &mut host::QueuePair<NativeMemory, R>) {
        post_again(pair);
    }
}

/// Tells a queue pair its tuning, and whether the NIC knows kept segments.
struct Tune(Tuning, bool);

impl PairVisitor for Tune {
    type Output = ();

    fn visit<R: Ring>(self, pair: &mut host::QueuePair<NativeMemory, R>) {
        pair.set_tuning(self.0);
        pair.set_knows_kept(self.1);
    }
}

/// Repairs the rings of a queue pair.
struct Repair<'a, 'm>(&'a mut Inventory<'m, NativeMemory>);

impl PairVisitor for Repair<'_, '_> {
    type Output = ();

    fn visit<R: Ring>(self, pair: &mut host::QueuePair<NativeMemory, R>) {
        self.0.repair_rings(pair);
    }
}

impl NicOptions {
    /// Makes a region and attaches it to the NIC at `socket`. [`NicOptions`] has an example.
    ///
    /// # Errors
    /// [`Error::Config`] for a field of the configuration that is out of range, [`Error::Region`] when there
    /// is no memory, [`Error::Unreachable`] when no NIC answers, [`Error::Refused`] when it refuses,
    /// [`Error::Rss`] and [`Error::NoRss`] as [`Nic::set_rss`].
    pub fn open(&self, socket: impl AsRef<Path>) -> Result<Nic, Error> {
        Nic::open_with(socket.as_ref(), self)
    }
}

/// What a NIC may be able to do that is not there yet.
fn unknown() -> Hello {
    Hello { node: numa::current_node(), rss: true, sleeps: true, ..Hello::default() }
}

/// Asks a NIC for its version and abilities.
fn greet(connection: &Connection) -> Result<Hello, Error> {
    match connection.ask(&Request::Hello, None)? {
        Reply::Hello(hello) => Ok(hello),
        other => Err(Error::Protocol { what: format!("{other:?} in answer to a greeting") }),
    }
}

/// The control connection. The kernel hangs it up when the NIC ends: poll it for `POLLRDHUP`, not for
/// something to read, which may be an answer.
impl AsFd for Nic {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

/// A region for `config`, on huge pages if possible, homed as its layout says.
fn make_region(config: &Config, pages: Pages, nic_node: u32) -> Result<(Region, Layout), Error> {
    let make = |page, pages| -> Result<_, Error> {
        let layout = Layout::new(&Config { page, ..*config })?;
        let homes = [(layout.host_segment(), numa::current_node()), (layout.nic_segment(), nic_node)];
        let region = Region::create_homed(layout.size(), pages, &homes)?;
        Ok((region, layout))
    };
    match pages {
        Pages::Small => make(4096, Pages::Small),
        Pages::Huge => make(HUGE_PAGE, Pages::Huge),
        Pages::Auto => make(HUGE_PAGE, Pages::Huge).or_else(|e| {
            tracing::info!("ordinary pages: no 2 MiB pages to be had ({e})");
            make(4096, Pages::Small)
        }),
    }
}

#[cfg(test)]
mod tests;
