//! `struct ccnic_program`: an attached program, its region, its queues.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccnic::Layout;
use ccnic_control::{AttachRequest, Connection, Teardown};
use ccnic_frame::Takes;
use ccnic_shm::Region;

use super::abi::CcnicProgramInfo;
use super::pair::NicPair;
use super::queue::CcnicNicQueue;
use super::shared::{Client, Registry};
use crate::abi::{CcnicView, HOST_MANAGED};
use crate::errno::Failure;
use crate::handle::Owned;

/// `struct ccnic_program`. Any thread may call; calls that open queues take the lock, none is a burst.
#[derive(Debug)]
pub struct CcnicProgram {
    client: Arc<Client>,
    mac: Option<[u8; 6]>,
    layout: Layout,
    queues: Mutex<Vec<Option<Owned<CcnicNicQueue>>>>,
    region: Arc<Region>,
    connection: Arc<Connection>,
    /// The NIC's list of programs, which this one leaves when it is released.
    registry: Registry,
    /// Last: what the others are references to goes after them, in another thread.
    teardown: Teardown,
}

impl CcnicProgram {
    /// A program that has attached; adds it to the NIC's list.
    pub(crate) fn new(request: AttachRequest, registry: Registry) -> CcnicProgram {
        let AttachRequest { id, name, mac, rss, pid, layout, region, connection, teardown, .. } = request;
        let config = layout.config();
        let client = Arc::new(Client::new(id, name, pid, config.design.name(), config.queues));
        if rss.is_some() {
            client.set_rss(rss);
        }
        registry.add(Arc::clone(&client));
        let queues = Mutex::new((0..config.queues).map(|_| None).collect());
        CcnicProgram { client, mac, layout, queues, region, connection, registry, teardown }
    }

    /// The NIC takes it over.
    pub(crate) fn accept(&self) {
        self.client.accept();
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Option<Owned<CcnicNicQueue>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn alive(&self) -> bool {
        !self.client.is_gone()
    }

    pub(crate) fn takes(&self) -> Takes {
        self.client.takes()
    }

    /// True while a queue is open.
    pub(crate) fn busy(&self) -> bool {
        self.queues().iter().flatten().any(Owned::is_open)
    }

    /// Opens queue `index`, for the first time or again.
    pub(crate) fn queue(&self, index: u16) -> Result<NonNull<CcnicNicQueue>, Failure> {
        let queues = &mut *self.queues();
        let count = self.layout.config().queues;
        let missing = || Failure::from(ccnic_client::Error::NoQueue { queue: index, queues: count });
        let slot = queues.get_mut(usize::from(index)).ok_or_else(missing)?;
        match slot {
            Some(queue) if queue.is_open() => {
                return Err(ccnic_client::Error::QueueTaken { queue: index }.into());
            }
            // The lock is held, so no other thread opens it.
            Some(queue) => return Ok(queue.reopen()),
            None => {}
        }
        let mut pair = NicPair::new(&self.region, &self.layout, index).map_err(|_| missing())?;
        pair.set_tuning(ccnic_client::tuning_of_environment()?);
        let link = self.client.queue(index).ok_or_else(missing)?;
        let view = CcnicView::new(&self.region, &self.layout);
        let queue = CcnicNicQueue::new(view, self.layout.config(), pair, link);
        Ok(slot.insert(Owned::new(queue)).as_ptr())
    }

    pub(crate) fn info(&self) -> CcnicProgramInfo {
        let config = self.layout.config();
        let name = c_string(&self.client.name);
        CcnicProgramInfo {
            name,
            pid: self.client.pid,
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

    /// Ends the connection, so that a program that is still running sees its NIC go, and leaves the NIC's list.
    /// Its region is unmapped by another thread: that may take milliseconds.
    pub(crate) fn release(self) {
        self.connection.hang_up();
        self.registry.remove(self.client.id);
        let teardown = self.teardown.clone();
        teardown.at_end(move || drop(self));
    }
}

/// The longest beginning of a name that fits 256 bytes with the terminating zero, and splits no character.
fn c_string(name: &str) -> [u8; 256] {
    let mut bytes = [0; 256];
    let mut end = name.len().min(255);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let kept = name.as_bytes().get(..end).unwrap_or_default();
    bytes.iter_mut().zip(kept).for_each(|(to, byte)| *to = *byte);
    bytes
}

#[cfg(test)]
mod tests {
    use super::c_string;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(c_string("a")[..2], *b"a\0");
        let long = c_string(&"n".repeat(300));
        assert!(long[..255].iter().all(|&byte| byte == b'n') && long[255] == 0);
        let wide = c_string(&"\u{e9}".repeat(200));
        assert_eq!(std::str::from_utf8(&wide[..254]).unwrap().chars().count(), 127);
        assert_eq!(wide[254..], [0, 0]);
    }
}
