//! Queues of TAP interfaces that systemd keeps while the daemon is started again, so that the interfaces stay, wherever they are by then
//! (`FileDescriptorStoreMax=` of a unit; sd_notify(3), `FDSTORE`).
//!
//! A queue is stored when it is opened, before the process confines itself, and taken out of the store with its port. One whose interface was
//! deleted leaves the store by itself: it reports an error, which systemd watches for.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, OnceLock, PoisonError};

use ccnic_shm::inherited;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// What the service manager of this process keeps.
#[derive(Debug)]
struct Store {
    /// Where it is told. `None`: there is none.
    manager: Option<UnixDatagram>,
    /// What it has kept, and nobody has asked for yet, by name.
    given: Mutex<BTreeMap<String, OwnedFd>>,
}

fn store() -> &'static Store {
    static STORE: OnceLock<Store> = OnceLock::new();
    STORE.get_or_init(|| Store {
        manager: manager().ok(),
        given: Mutex::new(inherited().into_iter().collect()),
    })
}

fn manager() -> std::io::Result<UnixDatagram> {
    let path = std::env::var("NOTIFY_SOCKET").map_err(std::io::Error::other)?;
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    let manager = UnixDatagram::unbound()?;
    manager.connect_addr(&address)?;
    manager.set_nonblocking(true)?;
    Ok(manager)
}

/// The name of a queue in the store: names there have no colons.
fn key(interface: &str, queue: u16) -> String {
    format!("tap.{interface}.{queue}")
}

/// The queues of a port that were kept, in order; all that are stored by its name leave the store's list.
pub(super) fn take(interface: &str) -> Vec<OwnedFd> {
    let mut given = store().given.lock().unwrap_or_else(PoisonError::into_inner);
    (0..).map_while(|queue| given.remove(&key(interface, queue))).collect()
}

/// Has these queues of a port kept.
pub(super) fn keep(interface: &str, queues: &[OwnedFd]) {
    for (queue, fd) in (0..).zip(queues) {
        say(&format!("FDSTORE=1\nFDNAME={}", key(interface, queue)), Some(fd.as_fd()));
    }
}

/// Has so many queues of a port, which has gone, kept no longer.
pub(crate) fn forget(interface: &str, queues: u16) {
    (0..queues).for_each(|queue| say(&format!("FDSTOREREMOVE=1\nFDNAME={}", key(interface, queue)), None));
}

/// Lets go of what no port has asked for: ports that are not in the configuration any more.
pub(crate) fn forget_others() {
    let given = std::mem::take(&mut *store().given.lock().unwrap_or_else(PoisonError::into_inner));
    for (name, _) in given.iter().filter(|(name, _)| name.starts_with("tap.")) {
        say(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None);
    }
}

/// Tells the service manager; a failure means that it keeps less.
fn say(words: &str, with: Option<BorrowedFd<'_>>) {
    let Some(manager) = &store().manager else { return };
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    let fds = [with.unwrap_or(manager.as_fd())];
    if with.is_some() {
        beside.push(SendAncillaryMessage::ScmRights(&fds));
    }
    if let Err(e) = sendmsg(manager, &[IoSlice::new(words.as_bytes())], &mut beside, SendFlags::NOSIGNAL) {
        tracing::warn!("systemd was not told {words:?}: {e}");
    }
}
