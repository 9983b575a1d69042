//! `struct ccnic`: an attachment to a NIC, with all queues and pools that were ever opened on it.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccnic::Config;
use ccnic::rss::Rss;
use ccnic_control::offloads::Taken;
use ccnic_frame::Takes;
use ccnic_shm::Pages;
use rustix::io::Errno;

use super::pool::CcnicPool;
use super::queue::CcnicQueue;
use crate::abi::CcnicView;
use crate::errno::Failure;
use crate::handle::{Owned, handles};
use crate::held::Held;

/// `struct ccnic`. Any thread may call; every call takes the lock, none is a burst.
#[derive(Debug)]
pub struct Ccnic {
    inner: Mutex<Inner>,
    /// In the debug mode.
    held: Option<Arc<Held>>,
    config: Config,
    mac: [u8; 6],
}

#[derive(Debug)]
struct Inner {
    nic: ccnic_client::Nic,
    /// By number. A closed queue stays, because recovery needs its ledger of buffers, and is opened again.
    queues: Vec<Option<Owned<CcnicQueue>>>,
    /// Closed pools stay for the same reason, and are opened again before new ones are made.
    pools: Vec<Owned<CcnicPool>>,
}

handles!(Ccnic);

impl Ccnic {
    pub(crate) fn open(
        socket: &Path,
        name: &str,
        config: &Config,
        pages: Pages,
        mac: [u8; 6],
        later: bool,
    ) -> Result<Ccnic, Failure> {
        let mac = if mac == [0; 6] { local_address() } else { mac };
        if mac[0] & 1 != 0 {
            return Err(Failure::new(Errno::INVAL, c"mac is a group address: its first byte must be even"));
        }
        let nic = ccnic_client::Nic::options()
            .name(name)
            .mac(mac)
            .config(config)
            .pages(pages)
            .later(later)
            .open(socket)?;
        let queues = (0..config.queues).map(|_| None).collect();
        Ok(Ccnic {
            config: *nic.layout().config(),
            held: Held::of_environment(CcnicView::new(nic.region(), nic.layout())),
            inner: Mutex::new(Inner { nic, queues, pools: Vec::new() }),
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
        self.lock().nic.alive()
    }

    pub(crate) fn set_rss(&self, rss: Option<&Rss>) -> Result<(), Failure> {
        self.lock().nic.set_rss(rss).map_err(|e| match e {
            ccnic_client::Error::Gone => {
                Failure::new(Errno::NOTCONN, c"the NIC has ended; its successor will get the setting")
            }
            e => e.into(),
        })
    }

    /// True if the NIC spreads received packets over queues.
    pub(crate) fn rss_active(&self) -> bool {
        self.lock().nic.rss().is_some()
    }

    /// What the NIC takes of requests in metadata, and whether packets arrive as they were sent.
    pub(crate) fn offloads(&self) -> (Takes, bool) {
        let inner = self.lock();
        inner.nic.offloads().map_or((Takes::NONE, false), |said| (Taken::takes(&said.takes), said.passed))
    }

    pub(crate) fn set_takes(&self, takes: Takes) -> Result<(), Failure> {
        self.lock().nic.set_takes(takes).map_err(|e| match e {
            ccnic_client::Error::Gone => {
                Failure::new(Errno::NOTCONN, c"the NIC has ended; its successor will be told")
            }
            e => e.into(),
        })
    }

    /// Asks the NIC about flow rules.
    pub(crate) fn with_flows<T>(
        &self,
        ask: impl FnOnce(&mut ccnic_client::Nic) -> Result<T, ccnic_client::Error>,
    ) -> Result<T, Failure> {
        ask(&mut self.lock().nic).map_err(|e| match e {
            ccnic_client::Error::Gone => {
                Failure::new(Errno::NOTCONN, c"the NIC has ended; ask its successor after ccnic_reconnect()")
            }
            e => e.into(),
        })
    }

    /// True while a queue or a pool is open.
    pub(crate) fn busy(&self) -> bool {
        let inner = self.lock();
        inner.queues.iter().flatten().any(Owned::is_open) || inner.pools.iter().any(Owned::is_open)
    }

    /// Where the buffers lie.
    pub(crate) fn view(&self) -> CcnicView {
        self.lock().view()
    }

    /// Opens a pool: one that was closed, or a new one.
    pub(crate) fn pool(&self) -> NonNull<CcnicPool> {
        let inner = &mut *self.lock();
        if let Some(pool) = inner.pools.iter_mut().find(|pool| !pool.is_open()) {
            // The lock is held, so no other thread opens it.
            return pool.reopen();
        }
        let pool = Owned::new(CcnicPool::new(inner.nic.pool(), self.held.clone()));
        let handle = pool.as_ptr();
        inner.pools.push(pool);
        handle
    }

    /// Opens queue `index`, for the first time or again.
    pub(crate) fn queue(&self, index: u16) -> Result<NonNull<CcnicQueue>, Failure> {
        let inner = &mut *self.lock();
        match inner.queues.get_mut(usize::from(index)) {
            Some(Some(queue)) if queue.is_open() => {
                return Err(ccnic_client::Error::QueueTaken { queue: index }.into());
            }
            // The lock is held, so no other thread opens it.
            Some(Some(queue)) => return Ok(queue.reopen()),
            _ => {}
        }
        let pair = inner.nic.queue_pair(index)?;
        let queue = Owned::new(CcnicQueue::new(inner.view(), self.config.mtu, pair, self.held.clone()));
        let handle = queue.as_ptr();
        if let Some(slot) = inner.queues.get_mut(usize::from(index)) {
            *slot = Some(queue);
        }
        Ok(handle)
    }

    /// Attaches to the successor of a NIC that has ended; returns how many buffers were reclaimed.
    ///
    /// # Safety
    /// No thread uses a queue or a pool of this NIC.
    pub(crate) unsafe fn reconnect(&self) -> Result<usize, Failure> {
        let inner = &mut *self.lock();
        let queues = inner.queues.iter_mut().flatten();
        // SAFETY: they live as long as `inner`; the caller guarantees that no other thread uses them.
        let pairs = queues.map(|queue| unsafe { &mut queue.as_ptr().as_mut().pair });
        // SAFETY: likewise.
        let pools = inner.pools.iter_mut().map(|pool| unsafe { &mut pool.as_ptr().as_mut().pool });
        Ok(inner.nic.reconnect(pairs, pools)?)
    }
}

impl Inner {
    fn view(&self) -> CcnicView {
        CcnicView::new(self.nic.region(), self.nic.layout())
    }
}

/// A random unicast address that is locally administered (IEEE 802: the second bit of the first byte is set).
fn local_address() -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = RandomState::new().hash_one("ccnic").to_le_bytes();
    [a & !1 | 2, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_addresses_are_unicast_and_locally_administered() {
        let addresses: Vec<_> = (0..64).map(|_| local_address()).collect();
        assert!(addresses.iter().all(|mac| mac[0] & 3 == 2));
        assert!(addresses.windows(2).any(|two| two[0] != two[1]));
    }

    #[test]
    fn a_group_address_is_refused_before_anything_else() {
        let nowhere = Path::new("/nonexistent/nic.sock");
        let error = Ccnic::open(nowhere, "test", &Config::default(), Pages::Auto, [1, 0, 0, 0, 0, 2], false)
            .unwrap_err();
        assert_eq!(error.code(), -Errno::INVAL.raw_os_error());
    }
}
