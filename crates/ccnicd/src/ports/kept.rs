//! Queues of TAP interfaces that systemd keeps while the daemon is started again, so that the interfaces stay, wherever they are by then
//! (`FileDescriptorStoreMax=` of a unit; sd_notify(3), `FDSTORE`).
//!
//! A queue is stored when it is opened, before the process confines itself, and taken out of the store with its port. One whose interface was
//! deleted leaves the store by itself: it reports an error, which systemd watches for.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ccnic_shm::inherited;

use crate::notify::tell;

/// Descriptors that the service manager has kept, and that nobody has asked for yet, by name.
fn given() -> MutexGuard<'static, BTreeMap<String, OwnedFd>> {
    static GIVEN: OnceLock<Mutex<BTreeMap<String, OwnedFd>>> = OnceLock::new();
    let given = GIVEN.get_or_init(|| Mutex::new(inherited().into_iter().collect()));
    given.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a queue in the store: names there have no colons.
fn key(interface: &str, queue: u16) -> String {
    format!("tap.{interface}.{queue}")
}

/// The queues of a port that were kept, in order; all that are stored by its name leave the store's list.
pub(super) fn take(interface: &str) -> Vec<OwnedFd> {
    let mut given = given();
    (0..).map_while(|queue| given.remove(&key(interface, queue))).collect()
}

/// Has these queues of a port kept.
pub(super) fn keep(interface: &str, queues: &[OwnedFd]) {
    for (queue, fd) in (0..).zip(queues) {
        tell(&format!("FDSTORE=1\nFDNAME={}", key(interface, queue)), Some(fd.as_fd()));
    }
}

/// Has so many queues of a port, which has gone, kept no longer.
pub(crate) fn forget(interface: &str, queues: u16) {
    (0..queues).for_each(|queue| tell(&format!("FDSTOREREMOVE=1\nFDNAME={}", key(interface, queue)), None));
}

/// Lets go of what no port has asked for: ports that are not in the configuration any more.
pub(crate) fn forget_others() {
    let given = std::mem::take(&mut *given());
    for (name, _) in given.iter().filter(|(name, _)| name.starts_with("tap.")) {
        tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None);
    }
}
