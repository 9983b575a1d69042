//! An attached program.

use std::sync::{Arc, Mutex, PoisonError};

use ccnic::{Config, Layout};
use ccnic_control::AttachRequest;
use ccnic_frame::Takes;
use ccnic_shm::Region;

use crate::attached::Attached;
use crate::error::Error;
use crate::pair::NicPair;
use crate::queue::Queue;
use crate::shared::{Client, Registry};

/// An attached program. Any thread may call; no call is one for a burst.
///
/// When this and its queues have been dropped the program is released: one that still runs sees its NIC go, takes back the buffers that the
/// NIC had, and may attach again.
///
/// ```
/// use std::time::Duration;
///
/// use ccnic_nic::{Nic, Takes};
///
/// # let directory = tempfile::tempdir()?;
/// # let socket = directory.path().join("nic.sock");
/// let nic = Nic::options().listen(&socket)?;
/// nic.set_takes(Takes::NONE.with_ip_checksum());
/// # let attach = std::thread::spawn(move || ccnic_client::Nic::options().name("monitor").mac([2, 0, 0, 0, 0, 7]).open(&socket));
/// # while !attach.is_finished() { nic.poll(Some(Duration::from_millis(1)))?; }
/// # let client = attach.join().unwrap()?;
/// let program = nic.accept().ok_or("nobody has attached")?;
/// assert_eq!((program.name(), program.mac()), ("monitor", Some([2, 0, 0, 0, 0, 7])));
/// assert_eq!(program.pid(), std::process::id() as i32); // here it is a thread of the same process
/// assert_eq!(program.config().queues, 1);
/// assert!(program.region().size() >= program.layout().size());
/// assert_eq!(program.takes(), Takes::NONE); // it has not said that it takes packets without checksums
///
/// drop(client);
/// while program.alive() {
///     nic.poll(Some(Duration::from_millis(1)))?;
/// }
/// assert!(nic.has_programs());
/// drop(program);
/// assert!(!nic.has_programs());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Program {
    attached: Arc<Attached>,
    /// The queues that have been opened.
    taken: Mutex<Vec<bool>>,
}

impl Program {
    /// A program that has attached; adds it to the NIC's list.
    pub(crate) fn new(request: AttachRequest, registry: Registry) -> Program {
        let AttachRequest { id, name, mac, rss, pid, layout, region, connection, teardown, .. } = request;
        let config = layout.config();
        let client = Arc::new(Client::new(id, name, pid, config.design.name(), config.queues));
        if rss.is_some() {
            client.set_rss(rss);
        }
        registry.add(Arc::clone(&client));
        let taken = Mutex::new(vec![false; config.queues.into()]);
        let attached = Attached { client, mac, layout, region, connection, registry, _teardown: teardown };
        Program { attached: Arc::new(attached), taken }
    }

    /// The NIC takes it over.
    pub(crate) fn accept(&self) {
        self.attached.client.accept();
    }

    /// False once [`Nic::poll`](crate::Nic::poll) has noticed its end: what it has sent before can still be received. Example: [`Program`].
    pub fn alive(&self) -> bool {
        !self.attached.client.is_gone()
    }

    /// What it takes of what is requested in the metadata of packets. It may change at any time. Example: [`Program`].
    pub fn takes(&self) -> Takes {
        self.attached.client.takes()
    }

    /// Its name, as it says: not unique. Example: [`Program`].
    pub fn name(&self) -> &str {
        &self.attached.client.name
    }

    /// Its process; 0 when that is in a PID namespace that this process does not see. Example: [`Program`].
    pub fn pid(&self) -> i32 {
        self.attached.client.pid
    }

    /// Its Ethernet address, as it says: not checked, not unique. Example: [`Program`].
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.attached.mac
    }

    /// How its region is laid out; checked, it does not change. Example: [`Program`].
    pub fn config(&self) -> &Config {
        self.attached.layout.config()
    }

    /// Where things lie in its region. Example: [`Program`].
    pub fn layout(&self) -> &Layout {
        &self.attached.layout
    }

    /// Its region. The program may write to it at any time. Example: [`Program`].
    pub fn region(&self) -> &Region {
        &self.attached.region
    }

    /// Opens the NIC's side of queue pair `index`, from 0 on, once: for the thread that will use it. [The crate](crate) has an example.
    ///
    /// # Errors
    /// [`Error::NoQueue`], [`Error::QueueTaken`], [`Error::Tuning`].
    pub fn queue(&self, index: u16) -> Result<Queue, Error> {
        let Attached { client, layout, region, .. } = &*self.attached;
        let missing = || Error::NoQueue { queue: index, queues: layout.config().queues };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = taken.get_mut(usize::from(index)).ok_or_else(missing)?;
        if *taken {
            return Err(Error::QueueTaken { queue: index });
        }
        let mut pair = NicPair::new(region, layout, index).map_err(|_| missing())?;
        pair.set_tuning(ccnic_client::tuning_of_environment().map_err(Error::Tuning)?);
        let link = client.queue(index).ok_or_else(missing)?;
        *taken = true;
        Ok(Queue::new(layout.config(), pair, link, Arc::clone(&self.attached)))
    }
}
