//! The daemon's socket file: a stale one is replaced, a live one refused.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ccnic_shm::control::Connection;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

/// A listening control socket; its file goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    fd: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket file: at its end a daemon removes its own, not one that took its place.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Listens at `path`.
    pub(crate) fn new(path: &Path) -> anyhow::Result<Listener> {
        let _alone = lock_directory(path)?;
        clear_the_way(path)?;
        let fd = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .context("could not make the control socket")?;
        let address = SocketAddrUnix::new(path)
            .with_context(|| format!("--socket {} is no usable socket path", path.display()))?;
        bind(&fd, &address).with_context(|| {
            format!("could not make the socket {}; choose another place with --socket", path.display())
        })?;
        listen(&fd, 64).context("could not listen on the control socket")?;
        Ok(Listener { fd, path: path.to_owned(), file: identity(path) })
    }

    /// The next program that connects, or `None` when there is none now.
    ///
    /// # Errors
    /// When the system has nothing left for another connection: there is no use in asking again before one is closed.
    pub(crate) fn accept(&self) -> Result<Option<Connection>, Errno> {
        match accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(Connection::from(fd))),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Of two daemons that start at once on one stale socket, only one may find it stale. The lock goes with the descriptor.
fn lock_directory(path: &Path) -> anyhow::Result<OwnedFd> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = || format!("could not use the directory of --socket {}", path.display());
    let directory = open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .with_context(refused)?;
    flock(&directory, FlockOperation::LockExclusive).with_context(refused)?;
    Ok(directory)
}

/// Device and inode of the file at `path`.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Removes a socket file that nobody listens at.
fn clear_the_way(path: &Path) -> anyhow::Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        bail!("{} exists and is no socket; remove it or choose another --socket", path.display());
    }
    if let Ok(connection) = Connection::open(path) {
        let pid = connection.peer_pid().map_or_else(|_| "unknown".to_owned(), |p| p.to_string());
        bail!(
            "a ccnicd (process {pid}) is already running at {}; stop it or choose another --socket",
            path.display()
        );
    }
    tracing::info!("replacing the stale socket {}", path.display());
    std::fs::remove_file(path)
        .with_context(|| format!("could not remove the stale socket {}", path.display()))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.file != identity(&self.path) {
            tracing::warn!("{} is no longer this daemon's socket; left alone", self.path.display());
        } else if let Err(e) = std::fs::remove_file(&self.path) {
            tracing::warn!("could not remove {}: {e}", self.path.display());
        }
    }
}
