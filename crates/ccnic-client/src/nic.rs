//! An open NIC: the program's region, its queue pairs, and what to do when the NIC ends.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccnic::recovery::Inventory;
use ccnic::ring::Ring;
use ccnic::rss::Rss;
use ccnic::{Config, Layout, host};
use ccnic_control::Connection;
use ccnic_control::messages::{Hello, Reply, Request, Status};
use ccnic_control::rss::{RssMessage, check_table};
use ccnic_shm::{HUGE_PAGE, NativeMemory, Pages, Region, numa};

use crate::error::Error;
use crate::options::NicOptions;
use crate::queue_pair::{PairVisitor, QueuePair};
use crate::waiter::Waiter;

/// The memory buffers of a region without a queue pair: see [`Nic::pool`].
pub type Pool = host::Pool<NativeMemory>;

/// An open NIC: a region of memory, attached to a NIC that serves its queue pairs as long as this lives.
///
/// May be used from any thread; no call of it belongs in a burst.
#[derive(Debug)]
pub struct Nic {
    socket: PathBuf,
    name: String,
    mac: Option<[u8; 6]>,
    connection: Arc<Connection>,
    /// The NIC can spread packets over queues.
    spreads: bool,
    /// What is wanted of one that can.
    rss: Option<Rss>,
    region: Region,
    layout: Layout,
    /// By queue: the waiter of each queue pair that has been given out.
    waiters: Vec<Option<Waiter>>,
    pools: usize,
}

impl Nic {
    /// Opens the NIC at `socket` with the default options: one queue pair.
    ///
    /// # Errors
    /// As [`NicOptions::open`].
    pub fn open(socket: impl AsRef<Path>) -> Result<Nic, Error> {
        NicOptions::new().open(socket)
    }

    /// Options to open a NIC with.
    pub fn options() -> NicOptions {
        NicOptions::new()
    }

    pub(crate) fn open_with(socket: &Path, options: &NicOptions) -> Result<Nic, Error> {
        let NicOptions { config, pages, .. } = options;
        config.check()?;
        if let Some(rss) = &options.rss {
            check_table(rss, config.queues).map_err(|why| Error::Rss { why })?;
        }
        let connection = Arc::new(Connection::open(socket)?);
        let hello = greet(&connection)?;
        if options.rss.is_some() && !hello.rss {
            return Err(Error::NoRss);
        }
        let (region, layout) = make_region(config, *pages, hello.node)?;
        host::format(&region.memory(), &layout);
        let this = Nic {
            socket: socket.to_owned(),
            name: options.name.clone(),
            mac: options.mac,
            connection,
            spreads: hello.rss,
            rss: options.rss.clone(),
            region,
            layout,
            waiters: vec![None; usize::from(config.queues)],
            pools: 0,
        };
        this.attach()?;
        Ok(this)
    }

    fn attach(&self) -> Result<(), Error> {
        let request =
            Request::Attach { name: self.name.clone(), mac: self.mac, rss: self.rss().map(RssMessage::from) };
        match self.connection.ask(&request, Some(self.region.as_fd()))? {
            Reply::Attached => Ok(()),
            other => Err(Error::Protocol { what: format!("{other:?} in answer to an attachment") }),
        }
    }

    /// The geometry of the region.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The region itself.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The configuration of the region.
    pub fn config(&self) -> &Config {
        self.layout.config()
    }

    /// Queue pair `queue`, 0 to `config().queues - 1`. Each is given out once: it belongs to one thread.
    ///
    /// # Errors
    /// [`Error::NoQueue`] when there is no such queue, [`Error::QueueTaken`] when it has been given out.
    pub fn queue_pair(&mut self, queue: u16) -> Result<QueuePair, Error> {
        let queues = self.layout.config().queues;
        let slot = self.waiters.get_mut(usize::from(queue)).ok_or(Error::NoQueue { queue, queues })?;
        if slot.is_some() {
            return Err(Error::QueueTaken { queue });
        }
        let waiter = Waiter::new(queue, Arc::clone(&self.connection));
        let pair = QueuePair::new(self.region.memory(), &self.layout, queue, waiter.clone())?;
        *slot = Some(waiter);
        Ok(pair)
    }

    /// A handle on the region's buffers without a queue. What it frees and allocates counts for recovery, so all that were
    /// ever made must be brought to [`reconnect`](Nic::reconnect).
    pub fn pool(&mut self) -> Pool {
        self.pools += 1;
        Pool::new(self.region.memory(), &self.layout)
    }

    /// Has the NIC spread received packets over the queues like this from now on, and every NIC after it; with `None`, each
    /// packet comes back on the queue pair that it was sent on. Packets under way may still come on the queue they had. May
    /// be called at any time, under load as well.
    ///
    /// # Errors
    /// [`Error::Rss`]: the table names a queue that is not there. [`Error::Gone`] and [`Error::NoRss`]: the NIC has gone, or can
    /// do no RSS; then it is kept for a successor. Otherwise why the NIC refused: it goes on as before.
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

    /// How the NIC spreads received packets; `None` when it does not, or cannot.
    pub fn rss(&self) -> Option<&Rss> {
        self.rss.as_ref().filter(|_| self.spreads)
    }

    /// False when the NIC has died or left. Asks the kernel: not for every burst.
    pub fn alive(&self) -> bool {
        !self.connection.has_ended()
    }

    /// Attaches the region to the NIC that now listens at the same socket, after the old one has gone. Packets in the
    /// rings are delivered; those that were in the dead NIC's hands are lost, and its buffers go back to the pool.
    /// Returns how many.
    ///
    /// `pairs` and `pools` must be all those that were given out.
    ///
    /// # Errors
    /// [`Error::PairsMissing`], [`Error::StillAlive`], or as [`NicOptions::open`]; the program may try again.
    pub fn reconnect<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = &'a mut QueuePair>,
        pools: impl IntoIterator<Item = &'a mut Pool>,
    ) -> Result<usize, Error> {
        let (pairs, pools): (Vec<_>, Vec<_>) = (pairs.into_iter().collect(), pools.into_iter().collect());
        let given = self.waiters.iter().flatten().count() + self.pools;
        let brought = pairs.len() + pools.len();
        if brought != given {
            return Err(Error::PairsMissing { given, brought });
        }
        if self.alive() {
            return Err(Error::StillAlive);
        }
        let connection = Arc::new(Connection::open(&self.socket)?);
        self.spreads = greet(&connection)?.rss;
        let mem = self.region.memory();
        let mut inventory = Inventory::new(&mem, &self.layout);
        pairs.into_iter().for_each(|pair| pair.dispatch(Count(&mut inventory)));
        pools.into_iter().for_each(|pool| inventory.count_pool(pool));
        let reclaimed = inventory.reclaim();
        self.connection = connection;
        self.attach()?;
        self.waiters.iter().flatten().for_each(|waiter| waiter.move_to(Arc::clone(&self.connection)));
        Ok(reclaimed)
    }

    /// The state of the NIC.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn status(&self) -> Result<Status, Error> {
        Ok(Connection::open(&self.socket)?.status()?)
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

/// Asks a NIC who it is.
fn greet(connection: &Connection) -> Result<Hello, Error> {
    match connection.ask(&Request::Hello, None)? {
        Reply::Hello(hello) => Ok(hello),
        other => Err(Error::Protocol { what: format!("{other:?} in answer to a greeting") }),
    }
}

/// The control connection, which is hung up when the NIC has gone: poll it for that (`POLLRDHUP`), not for something to read, which
/// may be an answer.
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
