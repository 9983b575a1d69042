//! A NIC's socket file: a stale one is replaced, a live one refused; who may connect.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, chmod, chown, flock, open, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

use crate::connection::{Connection, Peer};
use crate::error::Error;

/// Who may connect to a control socket: whoever may write to its file. What is left out is as for any file that the process makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketAccess {
    /// The permissions of the file, as for chmod(2).
    pub mode: Option<u32>,
    /// The user that it belongs to.
    pub owner: Option<u32>,
    /// The group that it belongs to.
    pub group: Option<u32>,
}

/// A listening control socket. Dropping it removes its file, and closes what waits to be accepted, which may block.
#[derive(Debug)]
pub(crate) struct ListenSocket {
    fd: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket file: a daemon removes its own file only, not one that has replaced it.
    file: Option<(u64, u64)>,
}

impl ListenSocket {
    /// Listens at `path`.
    pub(crate) fn new(path: &Path, access: &SocketAccess) -> Result<ListenSocket, Error> {
        let _alone = lock_directory(path)?;
        remove_stale(path)?;
        let fd = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .map_err(Error::os("make the control socket"))?;
        let address = SocketAddrUnix::new(path)
            .map_err(socket(|| format!("--socket {} is no usable socket path", path.display())))?;
        bind(&fd, &address).map_err(socket(|| {
            format!("could not make the socket {}; choose another place with --socket", path.display())
        }))?;
        let socket = ListenSocket { fd, path: path.to_owned(), file: identity(path) };
        // Before it listens, nobody can connect: there is no moment with other permissions. On an error its file goes.
        access.apply(path)?;
        listen(&socket.fd, 64).map_err(Error::os("listen on the control socket"))?;
        Ok(socket)
    }

    /// The next program that connects, or `None` when there is none now.
    ///
    /// # Errors
    /// When the system has no resources for another connection: try again when one has been closed.
    pub(crate) fn accept(&self) -> Result<Option<Connection>, Errno> {
        match accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(Connection::from(fd))),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl SocketAccess {
    fn apply(&self, path: &Path) -> Result<(), Error> {
        let SocketAccess { mode, owner, group } = *self;
        let at = path.display();
        if owner.is_some() || group.is_some() {
            chown(path, owner.map(Uid::from_raw), group.map(Gid::from_raw)).map_err(socket(|| {
                format!(
                    "could not give the socket {at} to another user or group: that takes CAP_CHOWN, or a group that this process is in"
                )
            }))?;
        }
        // After its owner, which clears some bits.
        if let Some(mode) = mode {
            chmod(path, Mode::from_raw_mode(mode))
                .map_err(socket(|| format!("could not set the permissions of the socket {at}")))?;
        }
        Ok(())
    }
}

/// Locks the socket's directory: of two daemons that start at once on one stale socket, only one may find it stale. Dropping the
/// descriptor unlocks it.
fn lock_directory(path: &Path) -> Result<OwnedFd, Error> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = || socket(|| format!("could not use the directory of --socket {}", path.display()));
    let directory = open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(refused())?;
    flock(&directory, FlockOperation::LockExclusive).map_err(refused())?;
    Ok(directory)
}

/// Device and inode of the file at `path`.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Removes a socket file that no process listens at.
fn remove_stale(path: &Path) -> Result<(), Error> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        let what =
            format!("{} exists and is no socket; remove it or choose another --socket", path.display());
        return Err(Error::Socket { what, errno: Errno::EXIST });
    }
    if let Ok(connection) = Connection::open(path) {
        let pid = match connection.peer() {
            Ok(Peer { pid: 0, .. }) => "in another PID namespace".to_owned(),
            Ok(Peer { pid, .. }) => pid.to_string(),
            Err(_) => "unknown".to_owned(),
        };
        let at = path.display();
        let what =
            format!("a NIC (process {pid}) is already running at {at}; stop it or choose another --socket");
        return Err(Error::Socket { what, errno: Errno::ADDRINUSE });
    }
    tracing::info!("replacing the stale socket {}", path.display());
    unlink(path).map_err(socket(|| format!("could not remove the stale socket {}", path.display())))
}

/// For `map_err`: what could not be done with the socket, with the kernel's answer.
fn socket(what: impl Fn() -> String) -> impl Fn(Errno) -> Error {
    move |errno| Error::Socket { what: format!("{}: {errno}", what()), errno }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl ListenSocket {
    /// Removes the socket's file, once.
    pub(crate) fn remove_file(&mut self) {
        let Some(file) = self.file.take() else { return };
        if Some(file) != identity(&self.path) {
            tracing::warn!("{} is no longer this daemon's socket; left alone", self.path.display());
        } else if let Err(e) = std::fs::remove_file(&self.path) {
            tracing::warn!("could not remove {}: {e}", self.path.display());
        }
    }
}

impl Drop for ListenSocket {
    fn drop(&mut self) {
        self.remove_file();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_cannot_be_made_says_why_once() {
        let directory = tempfile::tempdir().unwrap();
        let why = |path: &str| {
            ListenSocket::new(&directory.path().join(path), &SocketAccess::default()).unwrap_err()
        };
        let missing = why("missing/nic.sock");
        assert_eq!(missing.to_string().matches("No such file").count(), 1, "{missing}");
        assert!(std::error::Error::source(&missing).is_none(), "it would be printed again");
        std::fs::write(directory.path().join("file"), "").unwrap();
        assert!(why("file").to_string().contains("exists and is no socket"));
        assert!(why(&"x".repeat(150)).to_string().contains("no usable socket path"));
    }

    #[test]
    fn its_file_goes_with_it_but_not_one_that_replaced_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        let socket = ListenSocket::new(&path, &SocketAccess::default()).unwrap();
        assert!(socket.accept().unwrap().is_none());
        let program = Connection::open(&path).unwrap();
        let accepted = socket.accept().unwrap().unwrap();
        assert_eq!(accepted.peer().unwrap(), program.peer().unwrap());
        drop(socket);
        assert!(!path.exists());
        let socket = ListenSocket::new(&path, &SocketAccess::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another's").unwrap();
        drop(socket);
        assert!(path.exists());
    }

    #[test]
    fn its_file_has_the_permissions_that_were_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        for mode in [0o660, 0o777, 0o600] {
            let access = SocketAccess { mode: Some(mode), ..SocketAccess::default() };
            let _socket = ListenSocket::new(&path, &access).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, mode);
        }
        let me = rustix::process::geteuid();
        let other = SocketAccess { mode: Some(0o660), owner: Some(4242), group: Some(4243) };
        match ListenSocket::new(&path, &other) {
            Ok(_socket) => {
                let meta = std::fs::metadata(&path).unwrap();
                assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (4242, 4243, 0o660));
            }
            Err(why) => {
                assert!(!me.is_root() && why.to_string().contains("CAP_CHOWN"), "{why}");
                assert!(!path.exists(), "nothing is left");
            }
        }
    }
}
