//! Tells a service manager that the daemon is ready: the protocol of sd_notify(3), by the socket that `NOTIFY_SOCKET` names.

use std::env;
use std::os::fd::OwnedFd;

use anyhow::Context;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};

/// A connection to the service manager; of a daemon that nobody waits for, none.
#[derive(Debug)]
pub struct Manager(Option<OwnedFd>);

impl Manager {
    /// Connects, as long as the process may.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn connect() -> anyhow::Result<Manager> {
        let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
            return Ok(Manager(None));
        };
        let open = || {
            let bytes = path.as_encoded_bytes();
            let address = match bytes.strip_prefix(b"@") {
                Some(name) => SocketAddrUnix::new_abstract_name(name)?,
                None => SocketAddrUnix::new(bytes)?,
            };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
            connect(&socket, &address)?;
            Ok::<_, rustix::io::Errno>(socket)
        };
        open().map(Some).map(Manager).with_context(|| format!("NOTIFY_SOCKET={}", path.display()))
    }

    /// Programs can attach from now on.
    pub fn ready(&self) {
        if let Manager(Some(socket)) = self
            && let Err(e) = send(socket, b"READY=1\n", SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        {
            tracing::warn!("could not tell the service manager that the daemon is ready: {e}");
        }
    }
}
