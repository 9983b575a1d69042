//! Tells the service manager that started this process what sd_notify(3) has words for, by the socket that `NOTIFY_SOCKET` names: that the
//! daemon is ready, and which descriptors are to be kept.

use std::env;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sendmsg, socket_with,
};

/// How long a service manager that is busy is waited for.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The connection; of a daemon that nobody waits for, none.
static MANAGER: OnceLock<OwnedFd> = OnceLock::new();

/// Connects to the service manager, if there is one. Before the process confines itself; once.
///
/// # Errors
/// There is no such socket.
pub fn connect() -> anyhow::Result<()> {
    let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else { return Ok(()) };
    let open = || {
        let bytes = path.as_encoded_bytes();
        let address = match bytes.strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name)?,
            None => SocketAddrUnix::new(bytes)?,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        rustix::net::connect(&socket, &address)?;
        Ok::<_, Errno>(socket)
    };
    let socket = open().with_context(|| format!("NOTIFY_SOCKET={}", path.display()))?;
    let _ = MANAGER.set(socket); // once
    Ok(())
}

/// Says that programs can attach from now on.
pub fn ready() {
    tell("READY=1", None);
}

/// Tells the service manager, and hands it a descriptor. One that is not told keeps less, or waits longer: no reason to stop.
pub(crate) fn tell(words: &str, with: Option<BorrowedFd<'_>>) {
    let Some(manager) = MANAGER.get() else { return };
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    let fds = [with.unwrap_or(manager.as_fd())];
    if with.is_some() {
        beside.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let mut send = || sendmsg(manager, &[IoSlice::new(words.as_bytes())], &mut beside, SendFlags::NOSIGNAL);
    let sent = match send() {
        // It has ten messages to read already, or as many as the system permits.
        Err(Errno::AGAIN) => {
            poll(&mut [PollFd::new(manager, PollFlags::OUT)], Some(&PATIENCE)).and_then(|_| send())
        }
        sent => sent,
    };
    if let Err(e) = sent {
        tracing::warn!("the service manager was not told {words:?}: {e}");
    }
}
