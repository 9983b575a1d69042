//! The accepting thread: gives each connection a thread of its own, or refuses it.
//!
//! The thread of a connection is started before the connection is accepted, so that there is always one that closes it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, write};
use rustix::process::{Resource, getrlimit};

use super::ClientId;
use super::client::{Client, RETRY};
use super::refuse::Closers;
use super::shared::Shared;
use crate::account::{Account, Amounts, SPARE_FILES};
use crate::connection::Connection;
use crate::error::Error;
use crate::socket::ListenSocket;

/// Bytes of a connection thread's stack: a message is parsed on it, whatever it holds.
const STACK: usize = 1 << 20;
/// The user of a connection of which the kernel says nothing: nobody.
const NOBODY: u32 = 65534;

/// The listener's handle on the accepting thread.
#[derive(Debug)]
pub(super) struct Acceptor {
    stop: Arc<OwnedFd>,
    stopped: Arc<Stopped>,
}

/// Says that no further connection will be accepted. (Not a channel: waiting for one allocates for the thread that waits, which may be
/// one of a program in C, and nobody frees that.)
#[derive(Debug, Default)]
struct Stopped {
    yes: Mutex<bool>,
    changed: Condvar,
}

/// Says so when it is dropped.
struct SaysStopped(Arc<Stopped>);

impl Drop for SaysStopped {
    fn drop(&mut self) {
        *self.0.yes.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl Acceptor {
    /// Starts the thread.
    pub(super) fn start(socket: ListenSocket, shared: &Arc<Shared>) -> Result<Acceptor, Error> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = Arc::new(event().map_err(Error::os("make an eventfd"))?);
        let reserve = Some(event().map_err(Error::os("make an eventfd"))?);
        let stopped = Arc::new(Stopped::default());
        let says = SaysStopped(Arc::clone(&stopped));
        let accepting = Accepting {
            socket,
            shared: Arc::clone(shared),
            stop: Arc::clone(&stop),
            closers: Closers::default(),
            spare: None,
            reserve,
            next_id: 1,
        };
        let thread = std::thread::Builder::new().name("ccnic-accept".to_owned());
        let spawned = thread.spawn(move || accepting.run(says));
        shared.add_thread(spawned.map_err(|e| Error::Os {
            what: "start the thread that accepts connections",
            errno: Errno::from_io_error(&e).unwrap_or(Errno::AGAIN),
        })?);
        Ok(Acceptor { stop, stopped })
    }

    /// Accepts no further connections, and removes the socket file. Waits for the accepting thread, which waits for nobody.
    pub(super) fn stop(&self) {
        let _ = write(&self.stop, &1u64.to_ne_bytes());
        let yes = self.stopped.yes.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.stopped.changed.wait_while(yes, |yes| !*yes));
    }
}

/// The accepting thread.
struct Accepting {
    socket: ListenSocket,
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    closers: Closers,
    /// A thread that waits for a connection.
    spare: Option<Sender<Client>>,
    /// Makes room for one more descriptor when there is none.
    reserve: Option<OwnedFd>,
    next_id: ClientId,
}

impl Accepting {
    /// Dropping `stopped` says that there will be no further connections.
    fn run(mut self, stopped: SaysStopped) {
        while self.turn() {}
        self.socket.remove_file();
        self.spare = None;
        drop(stopped);
        // The socket goes here: closing it closes what waits in its queue, and that may block.
    }

    /// Waits for a connection and gives it a thread. False when told to stop.
    fn turn(&mut self) -> bool {
        if self.spare.is_none() {
            match spare() {
                Ok((spare, thread)) => {
                    self.spare = Some(spare);
                    self.shared.add_thread(thread);
                }
                Err(e) => {
                    self.warn("no thread for further programs; trying again", &e.to_string());
                    return self.pause();
                }
            }
        }
        let mut fds = [PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return true,
            Err(_) => return self.pause(), // no memory, say
        }
        if fds.first().is_some_and(|stop| !stop.revents().is_empty()) {
            return false;
        }
        match self.socket.accept() {
            Ok(Some(connection)) => self.admit(connection),
            Ok(None) => {}
            Err(Errno::MFILE | Errno::NFILE) if self.reserve.is_some() => self.refuse_by_reserve(),
            Err(e) => {
                self.warn("no further program can connect; trying again", &e.to_string());
                return self.pause();
            }
        }
        true
    }

    fn warn(&self, what: &str, why: &str) {
        if let Some(left_out) = self.shared.logs.line(NOBODY) {
            tracing::warn!(left_out = left_out.0, "{what}: {why}");
        }
    }

    /// Lets some time pass. False when told to stop.
    fn pause(&mut self) -> bool {
        self.refill();
        let timeout = Timespec::try_from(RETRY).ok();
        match poll(&mut [PollFd::new(&self.stop, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => ready == 0,
            Err(_) => {
                std::thread::sleep(Duration::from_millis(10));
                true
            }
        }
    }

    fn refill(&mut self) {
        if self.reserve.is_none() {
            self.reserve = eventfd(0, EventfdFlags::CLOEXEC).ok();
        }
    }

    /// There are no descriptors left: takes the connection in place of the reserve, to say so.
    fn refuse_by_reserve(&mut self) {
        self.reserve = None;
        if let Ok(Some(connection)) = self.socket.accept() {
            let user = connection.peer().map_or(NOBODY, |peer| self.shared.account.user_of(peer.uid));
            self.refuse(user, connection, no_files());
        }
        self.refill();
    }

    fn refuse(&self, user: u32, connection: Connection, reason: String) {
        if let Some(left_out) = self.shared.logs.line(user) {
            tracing::warn!(uid = user, left_out = left_out.0, "refused a connection: {reason}");
        }
        self.closers.refuse(user, connection, reason);
    }

    /// Gives a connection its thread, if its user may have another one.
    fn admit(&mut self, connection: Connection) {
        let peer = match connection.peer() {
            Ok(peer) => peer,
            Err(e) => return self.refuse(NOBODY, connection, e.to_string()),
        };
        let user = self.shared.account.user_of(peer.uid);
        let one = Amounts { connections: 1, ..Amounts::default() };
        let account = &self.shared.account;
        let place = account.check_file(&connection).and_then(|()| account.take(peer.uid, one));
        let place = match place {
            Ok(place) => place,
            Err(reason) => return self.refuse(user, connection, reason),
        };
        let Some(spare) = self.spare.take() else { return self.closers.close(user, connection) };
        let who = (peer, user);
        let client = Client::new(self.next_id, who, place, Arc::new(connection), Arc::clone(&self.shared));
        self.next_id += 1;
        if let Err(refused) = spare.send(client) {
            std::mem::forget(refused); // its thread has died by a defect
        }
    }
}

/// Starts a thread that waits for a connection.
fn spare() -> std::io::Result<(Sender<Client>, JoinHandle<()>)> {
    let (give, take) = channel::<Client>();
    let thread = std::thread::Builder::new().name("ccnic-client".to_owned()).stack_size(STACK);
    let thread = thread.spawn(move || {
        if let Ok(client) = take.recv() {
            client.run();
        }
    })?;
    Ok((give, thread))
}

/// The files that this process may have open.
pub(super) fn files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn no_files() -> String {
    format!(
        "the NIC has as many files open as it may ({}); try again when a program has gone, or raise its RLIMIT_NOFILE \
         (LimitNOFILE= of its systemd unit)",
        files()
    )
}

impl Account {
    /// Checks that the last descriptors stay free. The kernel gives the lowest free number, so a high one says that most are taken.
    pub(super) fn check_file(&self, fd: &impl std::os::fd::AsFd) -> Result<(), String> {
        let number = u64::try_from(fd.as_fd().as_raw_fd()).unwrap_or(0);
        if number + SPARE_FILES >= files() { Err(no_files()) } else { Ok(()) }
    }
}
