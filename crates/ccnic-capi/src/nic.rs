//! A NIC as C holds it: an attachment, and all queues that were ever opened on it.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccnic::Config;
use ccnic::rss::Rss;
use ccnic_shm::Pages;
use rustix::io::Errno;

use crate::abi::View;
use crate::errno::Failure;
use crate::owned::Owned;
use crate::pool::Pool;
use crate::queue::Queue;

/// `struct ccnic`. Any thread may call; the lock is taken by every call, none of which is a burst.
#[derive(Debug)]
pub struct Nic {
    inner: Mutex<Inner>,
    config: Config,
    mac: [u8; 6],
}

#[derive(Debug)]
struct Inner {
    program: ccnic_client::Nic,
    /// By number. A closed queue stays: recovery counts its buffers, and opening it again gives the same one.
    queues: Vec<Option<Owned<Queue>>>,
    /// Closed ones stay, for the same reason, and are opened again before new ones are made.
    pools: Vec<Owned<Pool>>,
}

impl Nic {
    pub(crate) fn open(
        socket: &Path,
        name: &str,
        config: &Config,
        pages: Pages,
        mac: [u8; 6],
    ) -> Result<Nic, Failure> {
        let mac = if mac == [0; 6] { local_address() } else { mac };
        if mac[0] & 1 != 0 {
            return Err(Failure::new(Errno::INVAL, c"mac is a group address: its first byte must be even"));
        }
        let program =
            ccnic_client::Nic::options().name(name).mac(mac).config(config).pages(pages).open(socket)?;
        let queues = (0..config.queues).map(|_| None).collect();
        Ok(Nic {
            config: *program.layout().config(),
            inner: Mutex::new(Inner { program, queues, pools: Vec::new() }),
            mac,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn mac(&self) -> [u8; 6] {
        self.mac
    }

    pub(crate) fn alive(&self) -> bool {
        self.lock().program.alive()
    }

    pub(crate) fn set_rss(&self, rss: Option<&Rss>) -> Result<(), Failure> {
        self.lock().program.set_rss(rss).map_err(|e| match e {
            ccnic_client::Error::Gone => {
                Failure::new(Errno::NOTCONN, c"the NIC has gone; its successor will be told")
            }
            e => e.into(),
        })
    }

    /// True when the NIC spreads received packets.
    pub(crate) fn spreads(&self) -> bool {
        self.lock().program.rss().is_some()
    }

    /// True while a queue or a pool is open.
    pub(crate) fn busy(&self) -> bool {
        let inner = self.lock();
        inner.queues.iter().flatten().any(Owned::is_open) || inner.pools.iter().any(Owned::is_open)
    }

    /// Where the buffers lie.
    pub(crate) fn view(&self) -> View {
        self.lock().view()
    }

    /// Opens a pool: one that was closed, or a new one.
    pub(crate) fn pool(&self) -> NonNull<Pool> {
        let inner = &mut *self.lock();
        if let Some(pool) = inner.pools.iter_mut().find(|pool| !pool.is_open()) {
            // The lock keeps others from opening it meanwhile.
            return pool.reopen();
        }
        let pool = Owned::new(Pool::new(inner.program.pool()));
        let handle = pool.handle();
        inner.pools.push(pool);
        handle
    }

    /// Opens queue `index`, for the first time or again.
    pub(crate) fn queue(&self, index: u16) -> Result<NonNull<Queue>, Failure> {
        let inner = &mut *self.lock();
        match inner.queues.get_mut(usize::from(index)) {
            Some(Some(queue)) if queue.is_open() => {
                return Err(ccnic_client::Error::QueueTaken { queue: index }.into());
            }
            // The lock keeps others from opening it meanwhile.
            Some(Some(queue)) => return Ok(queue.reopen()),
            _ => {}
        }
        let pair = inner.program.queue_pair(index)?;
        let queue = Owned::new(Queue::new(inner.view(), self.config.mtu, pair));
        let handle = queue.handle();
        if let Some(place) = inner.queues.get_mut(usize::from(index)) {
            *place = Some(queue);
        }
        Ok(handle)
    }

    /// Attaches to the successor of a NIC that has gone; returns how many buffers came back.
    ///
    /// # Safety
    /// No thread uses a queue or a pool of this NIC.
    pub(crate) unsafe fn reconnect(&self) -> Result<usize, Failure> {
        let inner = &mut *self.lock();
        let queues = inner.queues.iter_mut().flatten();
        // SAFETY: alive as long as `inner`, and used by nobody else, as the caller vouches.
        let pairs = queues.map(|queue| unsafe { &mut queue.handle().as_mut().pair });
        // SAFETY: likewise.
        let pools = inner.pools.iter_mut().map(|pool| unsafe { &mut pool.handle().as_mut().pool });
        Ok(inner.program.reconnect(pairs, pools)?)
    }
}

impl Inner {
    fn view(&self) -> View {
        let pool = self.program.layout().pool();
        let base = self.program.region().base().as_ptr();
        View { base, first: pool.buffers, span: pool.end - pool.buffers }
    }
}

/// A random address from the range that anybody may use (IEEE 802: the second bit of the first byte).
fn local_address() -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = RandomState::new().hash_one("ccnic").to_le_bytes();
    [a & !1 | 2, b, c, d, e, f]
}
