//! A program's attachment to a NIC: its region, its queue pairs, and what to do when the NIC dies.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccnic::host::{Pool, QueuePair};
use ccnic::ring::Ring;
use ccnic::rss::Rss;
use ccnic::{Config, Layout, pool::Allocator, recovery};

use crate::error::Error;
use ccnic_control::Connection;
use ccnic_control::messages::{Hello, Reply, Request, Status};
use ccnic_shm::NativeMemory;
use ccnic_shm::numa;
use ccnic_shm::{HUGE_PAGE, Pages, Region};

use crate::waiter::Waiter;
use ccnic_control::rss::{RssMessage, check_table};

/// An attachment to a NIC. The NIC serves its queue pairs as long as this lives.
#[derive(Debug)]
pub struct Program {
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
    taken: Vec<bool>,
    waiters: Vec<Waiter>,
    pools: usize,
}

impl Program {
    /// Makes a region and attaches it to the NIC at `socket`. `config.page` is chosen here, by `pages`.
    ///
    /// # Errors
    /// A field of `config` that is out of range, a NIC that cannot be reached, or one that refuses.
    pub fn connect(socket: &Path, name: &str, config: &Config, pages: Pages) -> Result<Program, Error> {
        Program::connect_as(socket, name, None, config, pages)
    }

    /// As [`connect`](Program::connect), and tells the NIC the address that the program goes by.
    ///
    /// # Errors
    /// As [`connect`](Program::connect).
    pub fn connect_as(
        socket: &Path,
        name: &str,
        mac: Option<[u8; 6]>,
        config: &Config,
        pages: Pages,
    ) -> Result<Program, Error> {
        config.check()?;
        let connection = Arc::new(Connection::open(socket)?);
        let hello = greet(&connection)?;
        let (region, layout) = make_region(config, pages, hello.node)?;
        Allocator::fill(&region.memory(), &layout);
        layout.store(&region.memory());
        let mut this = Program {
            socket: socket.to_owned(),
            name: name.to_owned(),
            mac,
            connection,
            spreads: hello.rss,
            rss: None,
            region,
            layout,
            taken: vec![false; usize::from(config.queues)],
            waiters: Vec::new(),
            pools: 0,
        };
        this.attach()?;
        Ok(this)
    }

    fn attach(&mut self) -> Result<(), Error> {
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

    /// Queue pair `queue`. Each is given out once: it belongs to one thread.
    ///
    /// # Errors
    /// When there is no such queue, it has been given out, or the region's design is not `R`.
    pub fn queue_pair<R: Ring>(&mut self, queue: u16) -> Result<QueuePair<NativeMemory, R>, Error> {
        let queues = self.layout.config().queues;
        match self.taken.get_mut(usize::from(queue)) {
            None => return Err(Error::NoQueue { queue, queues }),
            Some(taken) if *taken => return Err(Error::QueueTaken { queue }),
            Some(taken) => *taken = true,
        }
        let design = self.layout.config().design;
        QueuePair::new(self.region.memory(), &self.layout, queue)
            .ok_or(Error::WrongDesign { asked: R::DESIGN.name(), has: design.name() })
    }

    /// A handle on the region's buffers without a queue. What it frees and allocates counts for recovery, so all that were
    /// ever made must be brought to [`reconnect_all`](Program::reconnect_all).
    pub fn pool(&mut self) -> Pool<NativeMemory> {
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

    /// What the thread of queue pair `queue` sleeps with when it has nothing to do. Asking again gives the same. Until it is first
    /// used it costs neither side anything.
    ///
    /// # Errors
    /// When there is no such queue.
    pub fn waiter(&mut self, queue: u16) -> Result<Waiter, Error> {
        let queues = self.layout.config().queues;
        if queue >= queues {
            return Err(Error::NoQueue { queue, queues });
        }
        if let Some(waiter) = self.waiters.iter().find(|waiter| waiter.queue() == queue) {
            return Ok(waiter.clone());
        }
        let waiter = Waiter::new(queue, Arc::clone(&self.connection));
        self.waiters.push(waiter.clone());
        Ok(waiter)
    }

    /// False when the NIC has died or left. Asks the kernel: not for every burst.
    pub fn alive(&self) -> bool {
        !self.connection.has_ended()
    }

    /// Attaches the region to the NIC that now listens at the same socket, after the old one died. Packets in the
    /// rings are delivered; those that were in the dead NIC's hands are lost, and its buffers go back to the pool.
    /// Returns how many.
    ///
    /// `pairs` must be all queue pairs that were given out; a program with pools calls
    /// [`reconnect_all`](Program::reconnect_all).
    ///
    /// # Errors
    /// [`Error::PairsMissing`], [`Error::StillAlive`], or as [`connect`](Program::connect); the program may try again.
    pub fn reconnect<R: Ring>(
        &mut self,
        pairs: &mut [&mut QueuePair<NativeMemory, R>],
    ) -> Result<usize, Error> {
        self.reconnect_all(pairs, &mut [])
    }

    /// As [`reconnect`](Program::reconnect), with all pools that were given out.
    ///
    /// # Errors
    /// As there.
    pub fn reconnect_all<R: Ring>(
        &mut self,
        pairs: &mut [&mut QueuePair<NativeMemory, R>],
        pools: &mut [&mut Pool<NativeMemory>],
    ) -> Result<usize, Error> {
        let given = self.taken.iter().filter(|t| **t).count() + self.pools;
        let brought = pairs.len() + pools.len();
        if brought != given {
            return Err(Error::PairsMissing { given, brought });
        }
        if self.alive() {
            return Err(Error::StillAlive);
        }
        let connection = Arc::new(Connection::open(&self.socket)?);
        self.spreads = greet(&connection)?.rss;
        let reclaimed = recovery::reclaim(&self.region.memory(), &self.layout, pairs, pools);
        self.connection = connection;
        self.attach()?;
        self.waiters.iter().for_each(|waiter| waiter.move_to(Arc::clone(&self.connection)));
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

/// Asks a NIC who it is.
fn greet(connection: &Connection) -> Result<Hello, Error> {
    match connection.ask(&Request::Hello, None)? {
        Reply::Hello(hello) => Ok(hello),
        other => Err(Error::Protocol { what: format!("{other:?} in answer to a greeting") }),
    }
}

/// The control connection, which is hung up when the NIC has gone: poll it for that (`POLLRDHUP`), not for something to read, which
/// may be an answer.
impl AsFd for Program {
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
