//! Sockets that clients connect to, or send datagrams to.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::umask;

use super::Options;
use crate::protocol::Endpoint;

/// A socket that gives clients.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// The next client, ready to be polled, and its end. None: there is none now.
    pub(crate) fn accept(&self) -> std::io::Result<Option<(OwnedFd, Endpoint)>> {
        let client = match self {
            Listener::Tcp(listener) => {
                listener.accept().and_then(|(stream, from)| Ok((ready_tcp(stream)?, Endpoint::Tcp(from))))
            }
            Listener::Unix(listener) => {
                listener.accept().and_then(|(stream, _)| Ok((ready_unix(stream)?, Endpoint::Unnamed)))
            }
        };
        match client {
            Ok(client) => Ok(Some(client)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The server's end.
    pub(crate) fn endpoint(&self) -> Endpoint {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map_or(Endpoint::Unnamed, Endpoint::Tcp),
            Listener::Unix(listener) => {
                let path =
                    listener.local_addr().ok().and_then(|address| Some(address.as_pathname()?.to_owned()));
                path.map_or(Endpoint::Unnamed, Endpoint::Unix)
            }
        }
    }
}

fn ready_tcp(stream: TcpStream) -> std::io::Result<OwnedFd> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Ok(stream.into())
}

fn ready_unix(stream: UnixStream) -> std::io::Result<OwnedFd> {
    stream.set_nonblocking(true)?;
    Ok(stream.into())
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

/// All sockets of a server.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) text: Vec<UdpSocket>,
    /// One for each thread.
    pub(crate) rpc: Vec<UdpSocket>,
}

impl Sockets {
    pub(crate) fn open(options: &Options) -> anyhow::Result<Sockets> {
        let mut sockets = Sockets::default();
        if let Some(path) = &options.unix_socket {
            sockets.listeners.push(Listener::Unix(unix(
                path,
                options.socket_mode()?,
                options.listen_backlog,
            )?));
        }
        if options.ccnic.is_some() {
            return Ok(sockets);
        }
        if options.unix_socket.is_none() {
            sockets.open_ports(options)?;
        }
        if options.rpc_port != 0 {
            for thread in 0..options.threads {
                let port = usize::from(options.rpc_port) + thread;
                let Ok(port) = u16::try_from(port) else { bail!("--rpc-port: there is no port {port}") };
                let address = addresses(options, port)?[0];
                sockets.rpc.push(udp(address)?);
            }
        }
        if sockets.listeners.is_empty() && sockets.text.is_empty() && sockets.rpc.is_empty() {
            bail!("nothing to listen on: give -p, -U, -s or --rpc-port");
        }
        Ok(sockets)
    }

    fn open_ports(&mut self, options: &Options) -> anyhow::Result<()> {
        if options.port != 0 {
            for address in addresses(options, options.port)? {
                let listener = TcpListener::bind(address)
                    .with_context(|| format!("-p {}: cannot listen on TCP {address}", options.port))?;
                rustix::net::listen(&listener, options.listen_backlog.into())?;
                listener.set_nonblocking(true)?;
                self.listeners.push(Listener::Tcp(listener));
            }
        }
        if options.udp_port != 0 {
            for address in addresses(options, options.udp_port)? {
                self.text.push(udp(address)?);
            }
        }
        Ok(())
    }
}

/// What -l names, or every address; an own port behind a colon goes before the one of -p or -U.
fn addresses(options: &Options, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
    if options.listen.is_empty() {
        // One socket for both versions of IP, where there are both.
        let any: SocketAddr = ([0u16; 8], port).into();
        let address = if UdpSocket::bind((any.ip(), 0)).is_ok() { any } else { ([0u8; 4], port).into() };
        return Ok(vec![address]);
    }
    let mut all = Vec::new();
    for name in &options.listen {
        let found = name.to_socket_addrs().or_else(|_| (name.as_str(), port).to_socket_addrs());
        let found = found.with_context(|| format!("-l {name}: no address"))?;
        all.extend(found);
    }
    Ok(all)
}

fn udp(address: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind(address).with_context(|| format!("cannot listen on UDP {address}"))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Which file a path names, not followed: device and inode. None: there is none.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// True when a socket was left behind. One whose backlog is full is not waited for: it is whoever's.
///
/// # Errors
/// Why that cannot be told: it is of another kind, or may not be connected to.
fn nobody_listens(path: &Path) -> Result<bool, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(false),
        Err(Errno::CONNREFUSED) => Ok(true),
        Err(e) => Err(e),
    }
}

/// A socket that a server has left behind gives way; anything else does not. There is no moment in which it has other permissions, and they
/// are not set by path. The umask is the process's: it has no other threads yet.
fn unix(path: &Path, mode: u32, backlog: u16) -> anyhow::Result<UnixListener> {
    let found = identity(path);
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        match nobody_listens(path) {
            Ok(true) => {}
            Ok(false) => bail!("-s {}: another server listens there", path.display()),
            Err(e) => bail!(
                "-s {}: it may be another program's: {e}; remove it, or choose another path",
                path.display()
            ),
        }
        if identity(path) == found {
            fs::remove_file(path).with_context(|| format!("-s {}", path.display()))?;
        }
    }
    let before = umask(Mode::from_raw_mode(!mode & 0o777));
    let listener = UnixListener::bind(path);
    umask(before);
    let listener = listener.with_context(|| format!("-s {}: cannot listen", path.display()))?;
    rustix::net::listen(&listener, backlog.into())?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn a_socket_whose_backlog_is_full_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kv.sock");
        let other = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&other, 0).unwrap();
        let _waits = UnixStream::connect(&path).unwrap();
        let refused = unix(&path, 0o600, 1).unwrap_err();
        assert!(refused.to_string().contains("another server listens there"), "{refused}");
        drop(other);
        assert!(unix(&path, 0o600, 1).is_ok(), "a socket that nobody has gives way");
    }

    #[test]
    fn a_socket_of_another_kind_is_another_programs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let _other = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let refused = unix(&path, 0o600, 1).unwrap_err();
        assert!(refused.to_string().contains("it may be another program's"), "{refused}");
    }
}
