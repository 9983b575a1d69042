//! A NIC's socket file: a stale one is replaced, a live one refused; who may connect.
//!
//! The directory may belong to somebody who is not trusted: the service user that a daemon becomes, or everybody (`/tmp`). So it is opened
//! once, and what is done there is done by that descriptor and a name, never through a link, and never waits for strangers:
//!
//! - *One NIC at a socket.* A NIC holds an exclusive lock on a file of its own, `SOCKET.lock`, which nobody else may open, until it has
//!   stopped accepting. Only a NIC that starts or ends is waited for, and not for long. The file stays: whoever removed it would take the lock
//!   from under the next NIC.
//! - *Owner and mode.* A socket that is to have them is bound in a fresh directory of this process beside its place, gets them there, where
//!   nobody else can put anything in its place, and is moved to its place when it is finished.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, chmodat, chownat, flock, fstat, mkdirat,
    open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    shutdown, socket_with,
};
use rustix::process::geteuid;

use crate::connection::{Connection, Peer};
use crate::error::Error;
use crate::files;

/// Tries to get the lock of a NIC that starts or ends, and how long after each other: two seconds.
const TRIES: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(10);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

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
    /// `None` once the file has been removed.
    place: Option<Place>,
}

/// A socket file's folder and name, made or not. Whoever makes it there holds the lock.
#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// The same, as it was given: for messages.
    path: PathBuf,
    /// Device and inode of the socket file: a NIC removes its own file only, not one that has replaced it.
    file: Option<(u64, u64)>,
    _lock: Option<OwnedFd>,
}

impl ListenSocket {
    /// Listens at `path`.
    pub(crate) fn new(path: &Path, access: &SocketAccess) -> Result<ListenSocket, Error> {
        ListenSocket::new_while(path, access, || {})
    }

    /// `meanwhile` is called when the socket's file has been made and does not have its owner and mode yet: what a test's stranger does.
    fn new_while(
        path: &Path,
        access: &SocketAccess,
        meanwhile: impl FnOnce(),
    ) -> Result<ListenSocket, Error> {
        let address = SocketAddrUnix::new(path).map_err(socket(|| unusable(path)))?;
        let mut place = Place::claim(path)?;
        place.remove_stale()?;
        let fd = new_socket()?;
        let listen = || listen(&fd, BACKLOG).map_err(Error::os("listen on the control socket"));
        if *access == SocketAccess::default() {
            bind(&fd, &address).map_err(socket(|| cannot_make(path)))?;
            meanwhile();
            listen()?;
        } else {
            let mut stage = Stage::new(&place)?;
            stage.bind(&fd)?;
            meanwhile();
            access.apply(&stage)?;
            listen()?;
            stage.publish()?;
        }
        place.file = identity(&place.directory, &place.name);
        Ok(ListenSocket { fd, place: Some(place) })
    }

    /// Whether a socket with that access could be made at `path`, or one is there already. Leaves nothing behind.
    pub(crate) fn check(path: &Path, access: &SocketAccess) -> Result<(), Error> {
        SocketAddrUnix::new(path).map_err(socket(|| unusable(path)))?;
        let (directory, name) = Place::open(path)?;
        is_there(&directory, &name, path)?;
        if let Occupant::Unknown(errno) = occupant(path) {
            return Err(unknown(path, errno));
        }
        if statat(&directory, lock_name(&name), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            open_lock(&directory, &name, path, OFlags::empty())?;
        }
        let place = Place { directory, name, path: path.to_owned(), file: None, _lock: None };
        let mut stage = Stage::new(&place)?;
        stage.bind(&new_socket()?)?;
        access.apply(&stage)
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

    /// Removes the socket's file, once, and lets another NIC have its place. Where this process may not remove it, it stays: nobody answers
    /// there, and the next NIC replaces it.
    pub(crate) fn remove_file(&mut self) {
        let Some(place) = self.place.take() else { return };
        // From now on nobody listens there, however long closing takes.
        let _ = shutdown(&self.fd, Shutdown::Both);
        let at = place.path.display();
        if place.file.is_none() || place.file != identity(&place.directory, &place.name) {
            tracing::warn!("{at} is no longer this daemon's socket; left alone");
            return;
        }
        match unlinkat(&place.directory, &place.name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::PERM) => {
                tracing::debug!("{at} stays: this process may not remove it, and the next NIC replaces it");
            }
            Err(e) => tracing::warn!("could not remove {at}: {e}"),
        }
    }
}

/// A socket that neither listens nor has a name.
fn new_socket() -> Result<OwnedFd, Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(Error::os("make the control socket"))
}

fn cannot_make(path: &Path) -> String {
    format!("could not make the socket {}; choose another path", path.display())
}

fn unusable(path: &Path) -> String {
    format!("{} is no usable path of a socket; choose another one", path.display())
}

fn unknown(path: &Path, errno: Errno) -> Error {
    let what = format!(
        "could not see whether a NIC runs at {}: {errno}; remove that socket if it is none's, or choose another path",
        path.display()
    );
    Error::Socket { what, errno }
}

impl Place {
    /// Opens the directory and takes the lock.
    fn claim(path: &Path) -> Result<Place, Error> {
        let (directory, name) = Place::open(path)?;
        is_there(&directory, &name, path)?; // what is refused leaves no lock either
        let lock = lock(&directory, &name, path)?;
        Ok(Place { directory, name, path: path.to_owned(), file: None, _lock: Some(lock) })
    }

    /// The directory of a socket, and its name there.
    fn open(path: &Path) -> Result<(OwnedFd, OsString), Error> {
        let cannot = || {
            socket(|| {
                format!("could not use the directory of the socket {}; choose another path", path.display())
            })
        };
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().ok_or(Errno::ISDIR).map_err(cannot())?.to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok((open(parent, flags, Mode::empty()).map_err(cannot())?, name))
    }

    /// Removes a socket file that no process listens at.
    fn remove_stale(&self) -> Result<(), Error> {
        let at = self.path.display();
        if !is_there(&self.directory, &self.name, &self.path)? {
            return Ok(());
        }
        match occupant(&self.path) {
            Occupant::Nobody => {}
            Occupant::Listens(pid) => return Err(taken(&self.path, pid)),
            Occupant::Unknown(errno) => return Err(unknown(&self.path, errno)),
        }
        tracing::info!("replacing the stale socket {at}");
        unlinkat(&self.directory, &self.name, AtFlags::empty())
            .map_err(socket(|| format!("could not remove the stale socket {at}")))
    }
}

/// True when there is a socket file already. What is none is an error.
fn is_there(directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<bool, Error> {
    let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(false) };
    if FileType::from_raw_mode(stat.st_mode) == FileType::Socket {
        return Ok(true);
    }
    let what = format!("{} exists and is no socket; remove it or choose another path", path.display());
    Err(Error::Socket { what, errno: Errno::EXIST })
}

/// The lock's file, which `flags` may make. Neither a pipe in its place nor a lease on it is waited for.
fn open_lock(directory: &OwnedFd, name: &OsStr, path: &Path, flags: OFlags) -> Result<OwnedFd, Error> {
    let refused = |errno: Errno| unfit(path, &errno, errno);
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = openat(directory, lock_name(name), flags, Mode::RUSR | Mode::WUSR).map_err(refused)?;
    let stat = fstat(&fd).map_err(refused)?;
    let owner = fstat(directory).map_err(refused)?.st_uid;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
        return Err(unfit(path, &"it is no file of its own", Errno::EXIST));
    }
    if ![0, geteuid().as_raw(), owner].contains(&stat.st_uid) {
        return Err(unfit(path, &format_args!("it belongs to user {}", stat.st_uid), Errno::PERM));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(unfit(path, &"others may open it, and hold the lock", Errno::PERM));
    }
    Ok(fd)
}

fn lock_name(socket: &OsStr) -> OsString {
    let mut file = socket.to_owned();
    file.push(".lock");
    file
}

/// The lock of the socket at `path` cannot be had.
fn unfit(path: &Path, why: &dyn std::fmt::Display, errno: Errno) -> Error {
    let at = path.with_file_name(lock_name(path.file_name().unwrap_or_default()));
    let what = format!(
        "could not lock {}: {why}; remove it if no NIC runs there, or choose another path",
        at.display()
    );
    Error::Socket { what, errno }
}

/// Takes the lock of a socket: of two NICs that start at once on one stale socket, only one may find it stale. Dropping the descriptor
/// unlocks it.
fn lock(directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<OwnedFd, Error> {
    let fd = open_lock(directory, name, path, OFlags::CREATE)?;
    for _ in 0..TRIES {
        match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(fd),
            Err(Errno::AGAIN) => {}
            Err(e) => return Err(unfit(path, &e, e)),
        }
        if let Occupant::Listens(pid) = occupant(path) {
            return Err(taken(path, pid));
        }
        std::thread::sleep(BETWEEN);
    }
    Err(unfit(path, &"a NIC that starts or ends holds it", Errno::ADDRINUSE))
}

/// The listener at a socket file, if there is one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    Nobody,
    /// A process that listens there, if it is known which.
    Listens(Option<Peer>),
    /// Somebody else's, or a socket of another kind.
    Unknown(Errno),
}

/// Looks for a listener at the socket file `path`. Waits for nobody, whoever listens there.
pub(crate) fn occupant(path: &Path) -> Occupant {
    let connect = || -> Result<Connection, Errno> {
        let fd = new_socket().map_err(|_| Errno::NOMEM)?;
        connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Connection::from(fd))
    };
    match connect() {
        Ok(connection) => Occupant::Listens(connection.peer().ok()),
        Err(Errno::AGAIN) => Occupant::Listens(None), // as many as can be wait to be accepted
        Err(Errno::CONNREFUSED | Errno::NOENT) => Occupant::Nobody,
        Err(e) => Occupant::Unknown(e),
    }
}

fn taken(path: &Path, by: Option<Peer>) -> Error {
    let process = match by {
        Some(Peer { pid: 0, .. }) => "in another PID namespace".to_owned(),
        Some(Peer { pid, .. }) => pid.to_string(),
        None => "unknown".to_owned(),
    };
    let at = path.display();
    let what =
        format!("a NIC (process {process}) is already running at {at}; stop it or choose another path");
    Error::Socket { what, errno: Errno::ADDRINUSE }
}

/// A fresh directory of this process beside a socket's place. Nobody else can put anything there, whoever owns the directory around it.
struct Stage<'a> {
    place: &'a Place,
    name: OsString,
    directory: OwnedFd,
    /// The socket's file is here.
    bound: bool,
}

impl Stage<'_> {
    /// Tries: others may have taken a name, but do not know the next one.
    const TRIES: usize = 8;

    fn new(place: &Place) -> Result<Stage<'_>, Error> {
        let cannot = || socket(|| cannot_make(&place.path));
        for _ in 0..Stage::TRIES {
            let mut name = OsString::from(".");
            name.push(&place.name);
            name.push(format!(".{:016x}", files::random()));
            match mkdirat(&place.directory, &name, Mode::RWXU) {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(e) => return Err(cannot()(e)),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let directory = openat(&place.directory, &name, flags, Mode::empty()).map_err(cannot())?;
            let stat = fstat(&directory).map_err(cannot())?;
            let ours = stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o077 == 0;
            let stage = Stage { place, name, directory, bound: false };
            return ours.then_some(stage).ok_or(Errno::PERM).map_err(cannot());
        }
        Err(cannot()(Errno::EXIST))
    }

    /// By the descriptor of the directory: no name on the way can be replaced.
    fn bind(&mut self, fd: &OwnedFd) -> Result<(), Error> {
        let mut path = PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()));
        path.push(&self.place.name);
        let bound = SocketAddrUnix::new(&path).and_then(|address| bind(fd, &address));
        bound.map_err(socket(|| {
            format!("{} (its owner and mode are set by way of /proc)", cannot_make(&self.place.path))
        }))?;
        self.bound = true;
        Ok(())
    }

    /// Moves the socket's file to its place.
    fn publish(&mut self) -> Result<(), Error> {
        let name = &self.place.name;
        renameat(&self.directory, name, &self.place.directory, name)
            .map_err(socket(|| cannot_make(&self.place.path)))?;
        self.bound = false;
        Ok(())
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if self.bound {
            let _ = unlinkat(&self.directory, &self.place.name, AtFlags::empty());
        }
        // Of another one that has taken its place, none but an empty one.
        let _ = unlinkat(&self.place.directory, &self.name, AtFlags::REMOVEDIR);
    }
}

impl SocketAccess {
    fn apply(&self, stage: &Stage<'_>) -> Result<(), Error> {
        let SocketAccess { mode, owner, group } = *self;
        let (directory, name, at) = (&stage.directory, &stage.place.name, stage.place.path.display());
        if owner.is_some() || group.is_some() {
            let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
            chownat(directory, name, owner, group, AtFlags::SYMLINK_NOFOLLOW).map_err(socket(|| {
                format!(
                    "could not give the socket {at} to another user or group: that takes CAP_CHOWN, or a group that this process is in"
                )
            }))?;
        }
        // After its owner, which clears some bits.
        if let Some(mode) = mode {
            chmodat(directory, name, Mode::from_raw_mode(mode), AtFlags::empty())
                .map_err(socket(|| format!("could not set the permissions of the socket {at}")))?;
        }
        Ok(())
    }
}

/// Device and inode of a file.
fn identity(directory: &OwnedFd, name: &OsStr) -> Option<(u64, u64)> {
    let stat: Stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((stat.st_dev, stat.st_ino))
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

impl Drop for ListenSocket {
    fn drop(&mut self) {
        self.remove_file();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn lock_file(path: &Path) -> PathBuf {
        path.with_file_name("nic.sock.lock")
    }

    #[track_caller]
    fn why(path: &Path) -> String {
        ListenSocket::new(path, &SocketAccess::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_lock_of_a_strangers_on_the_directory_is_in_nobodys_way() {
        let directory = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let stranger = open(directory.path(), flags, Mode::empty()).unwrap();
        flock(&stranger, FlockOperation::LockExclusive).unwrap();
        let path = directory.path().join("nic.sock");
        let socket = ListenSocket::new(&path, &SocketAccess::default()).unwrap();
        assert_eq!(
            std::fs::metadata(lock_file(&path)).unwrap().mode() & 0o7777,
            0o600,
            "nobody else opens it"
        );
        drop(socket);
        ListenSocket::new(&path, &SocketAccess::default()).unwrap();
    }

    #[test]
    fn one_nic_has_the_place_until_it_stops_accepting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        let first = ListenSocket::new(&path, &SocketAccess::default()).unwrap();
        assert!(why(&path).contains("is already running at"), "{}", why(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(why(&path).contains("nic.sock.lock: a NIC that starts or ends holds it"), "{}", why(&path));
        drop(first);
        // One whose file stays, since it may not remove it, and whose socket takes long to close.
        let mut first = ListenSocket::new(&path, &SocketAccess::default()).unwrap();
        let kept = directory.path().join("kept");
        std::fs::hard_link(&path, &kept).unwrap();
        first.remove_file();
        std::fs::rename(&kept, &path).unwrap();
        let second = ListenSocket::new(&path, &SocketAccess::default()).unwrap();
        drop(first);
        assert!(path.exists(), "the second's");
        drop(second);
    }

    #[test]
    fn a_full_backlog_is_a_nic_and_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        let stranger = new_socket().unwrap();
        bind(&stranger, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&stranger, 1).unwrap();
        let mut waiting = Vec::new();
        while let Occupant::Listens(Some(_)) = occupant(&path) {
            let fd = new_socket().unwrap();
            connect(&fd, &SocketAddrUnix::new(&path).unwrap()).unwrap();
            waiting.push(fd);
        }
        assert_eq!(occupant(&path), Occupant::Listens(None));
        assert!(why(&path).contains("(process unknown) is already running"), "{}", why(&path));
        assert!(path.exists(), "it is not replaced");
    }

    #[test]
    fn a_socket_of_another_kind_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(why(&path).contains("remove that socket if it is none's"), "{}", why(&path));
        drop(other);
        ListenSocket::new(&path, &SocketAccess::default()).unwrap();
    }

    #[test]
    fn what_is_no_lock_of_ours_is_neither_followed_nor_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        let (lock, precious) = (lock_file(&path), directory.path().join("precious"));
        let expect = |part: &str| {
            let why = why(&path);
            assert!(why.contains("could not lock") && why.contains(part), "{part}: {why}");
            assert!(why.contains("nic.sock.lock") && why.contains("choose another path"), "{why}");
            std::fs::remove_file(&lock).unwrap();
            assert!(!path.exists());
        };
        std::fs::write(&precious, "").unwrap();
        symlink(&precious, &lock).unwrap();
        expect("symbolic link");
        std::fs::hard_link(&precious, &lock).unwrap();
        expect("no file of its own");
        rustix::fs::mknodat(rustix::fs::CWD, &lock, FileType::Fifo, 0o600.into(), 0).unwrap();
        expect("no file of its own");
        std::fs::write(&lock, "").unwrap();
        std::fs::set_permissions(&lock, PermissionsExt::from_mode(0o604)).unwrap();
        expect("others may open it");
        if geteuid().is_root() {
            std::fs::write(&lock, "").unwrap();
            std::os::unix::fs::chown(&lock, Some(4242), None).unwrap();
            expect("it belongs to user 4242");
        }
    }

    /// The service user owns the directory, and replaces all that is in it, by links to a file of root, when the socket is there and is
    /// not its own yet.
    #[test]
    fn owner_and_mode_are_the_sockets_whatever_its_directory_shows_meanwhile() {
        let directory = tempfile::tempdir().unwrap();
        let (path, victim) = (directory.path().join("nic.sock"), tempfile::NamedTempFile::new().unwrap());
        let about = || victim.as_file().metadata().map(|meta| (meta.uid(), meta.gid(), meta.mode())).unwrap();
        let before = about();
        let root = geteuid().is_root();
        let owner = if root { 4242 } else { geteuid().as_raw() };
        let access = SocketAccess { mode: Some(0o666), owner: Some(owner), group: None };
        let taken = tempfile::tempdir().unwrap();
        let swap = || {
            for entry in std::fs::read_dir(directory.path()).unwrap() {
                let (at, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
                std::fs::rename(&at, taken.path().join(name)).unwrap();
                symlink(victim.path(), &at).unwrap();
            }
            let _ = symlink(victim.path(), &path);
        };
        let made = ListenSocket::new_while(&path, &access, swap);
        assert_eq!(about(), before, "{made:?}");
        // It gets its own socket, if it left one there.
        if let Ok(_socket) = made {
            let meta = std::fs::symlink_metadata(&path).unwrap();
            assert_eq!((meta.uid(), meta.mode() & 0o7777), (owner, 0o666));
        }
    }

    #[test]
    fn nothing_is_left_beside_the_socket_but_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        let access = SocketAccess { mode: Some(0o660), ..SocketAccess::default() };
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap()); // a stale one
        let socket = ListenSocket::new(&path, &access).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
        assert!(Connection::open(&path).is_ok());
        drop(socket);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

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
        assert!(why("..").to_string().contains("could not use the directory"));
        assert!(why(&"x".repeat(150)).to_string().contains("no usable path of a socket"));
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
