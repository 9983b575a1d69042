//! An attached program as a NIC in C holds it: its region, what it said of itself, its queues.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ccnic::Layout;
use ccnic_control::messages::ProgramStatus;
use ccnic_control::{AttachRequest, ClientId, MemoryLease};
use ccnic_shm::Region;
use rustix::net::{Shutdown, shutdown};

use super::CcnicProgramInfo;
use super::nic::Programs;
use super::pair::SidePair;
use super::queue::{Mailbox, Published, SideQueue};
use crate::abi::View;
use crate::errno::Failure;
use crate::owned::Owned;

/// `CCNIC_HOST_MANAGED` of `ccnic.h`.
const HOST_MANAGED: u32 = 8;

/// What the control thread knows of a program, whoever serves it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: ClientId,
    name: String,
    pid: i32,
    design: &'static str,
    /// Its connection has ended.
    pub(super) gone: AtomicBool,
    counters: Vec<Arc<Published>>,
    /// By queue: the way of a notifier from the control thread to the queue's.
    pub(super) notifiers: Vec<Arc<Mailbox>>,
}

impl Shared {
    pub(super) fn status(&self) -> ProgramStatus {
        let queues = (0..).zip(&self.counters).map(|(q, counters)| counters.status(q));
        ProgramStatus {
            name: self.name.clone(),
            pid: self.pid,
            design: self.design.to_owned(),
            rss: None,
            queues: queues.collect(),
        }
    }
}

/// `struct ccnic_program`. Any thread may call; the lock is taken by every call, none of which is a burst.
#[derive(Debug)]
pub struct Program {
    pub(super) shared: Arc<Shared>,
    mac: Option<[u8; 6]>,
    layout: Layout,
    queues: Mutex<Vec<Option<Owned<SideQueue>>>>,
    region: Region,
    connection: OwnedFd,
    _memory: MemoryLease,
    /// Where the NIC lists it.
    programs: Weak<Mutex<Programs>>,
}

impl Program {
    pub(super) fn new(arrival: AttachRequest, programs: Weak<Mutex<Programs>>) -> Program {
        let AttachRequest { id, name, mac, pid, layout, region, memory, connection, .. } = arrival;
        let config = layout.config();
        let shared = Shared {
            id,
            name,
            pid,
            design: config.design.name(),
            gone: AtomicBool::new(false),
            counters: (0..config.queues).map(|_| Arc::default()).collect(),
            notifiers: (0..config.queues).map(|_| Arc::default()).collect(),
        };
        let queues = Mutex::new((0..config.queues).map(|_| None).collect());
        Program {
            shared: Arc::new(shared),
            mac,
            layout,
            queues,
            region,
            connection,
            _memory: memory,
            programs,
        }
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Option<Owned<SideQueue>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn alive(&self) -> bool {
        !self.shared.gone.load(Ordering::Acquire)
    }

    /// True while a queue is open.
    pub(super) fn busy(&self) -> bool {
        self.queues().iter().flatten().any(Owned::is_open)
    }

    /// Opens queue `index`, for the first time or again.
    pub(super) fn queue(&self, index: u16) -> Result<NonNull<SideQueue>, Failure> {
        let queues = &mut *self.queues();
        let count = self.layout.config().queues;
        let missing = || Failure::from(ccnic_client::Error::NoQueue { queue: index, queues: count });
        let place = queues.get_mut(usize::from(index)).ok_or_else(missing)?;
        match place {
            Some(queue) if queue.is_open() => {
                return Err(ccnic_client::Error::QueueTaken { queue: index }.into());
            }
            // The lock keeps others from opening it meanwhile.
            Some(queue) => return Ok(queue.reopen()),
            None => {}
        }
        let pair = SidePair::new(&self.region, &self.layout, index).ok_or_else(missing)?;
        let counters = self.shared.counters.get(usize::from(index)).ok_or_else(missing)?;
        let notifier = self.shared.notifiers.get(usize::from(index)).ok_or_else(missing)?;
        let pool = self.layout.pool();
        let view =
            View { base: self.region.base().as_ptr(), first: pool.buffers, span: pool.end - pool.buffers };
        let (counters, notifier) = (Arc::clone(counters), Arc::clone(notifier));
        let queue = Owned::new(SideQueue::new(view, self.layout.config(), pair, counters, notifier));
        Ok(place.insert(queue).handle())
    }

    pub(super) fn info(&self) -> CcnicProgramInfo {
        let config = self.layout.config();
        let mut name = [0; 256];
        let mut end = self.shared.name.len().min(255);
        while !self.shared.name.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = self.shared.name.as_bytes().get(..end).unwrap_or_default();
        // A name with a zero in it ends there for C.
        name.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
        CcnicProgramInfo {
            name,
            pid: self.shared.pid,
            design: config.design as u32,
            queues: config.queues.into(),
            ring: config.ring,
            buffers: config.buffers,
            mtu: config.mtu.into(),
            flags: if config.shared_pool { 0 } else { HOST_MANAGED },
            mac: self.mac.unwrap_or_default(),
            reserved: [0; 2],
        }
    }

    /// Ends the connection, if it has not ended: the program sees that the NIC has gone. The NIC forgets it.
    pub(super) fn release(self) {
        let _ = shutdown(&self.connection, Shutdown::Both);
        if let Some(programs) = self.programs.upgrade() {
            programs.lock().unwrap_or_else(PoisonError::into_inner).release(self.shared.id);
        }
    }
}
