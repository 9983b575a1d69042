//! Channels for calls (`ccnic::call`): how a caller hands its channel to a server, and what each learns of the other's end.
//!
//! The caller makes the channel's region, so that its pages are charged to it, and hands over its descriptor. Each connection has a
//! thread at the server, which does all that a caller can delay: it receives, checks and maps, and it closes at last. The thread that
//! answers calls takes up finished channels only ([`CallListener::take`]), and drops what it has of one as soon as
//! [`CallChannel::has_ended`].
//!
//! The connection stays open. Its end is how either side learns that the other has gone; bytes on it wake the side that sleeps.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ccnic::call::{CALL_HEADER_BYTES, CallLayout};
use ccnic_shm::{OfferedRegion, Region, Sealing};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};

use crate::account::room;
use crate::connection::{Connection, Waited};
use crate::error::Error;
use crate::listener::refuse::Closers;
use crate::socket::{ListenSocket, SocketAccess};
use crate::subordinates::Subordinates;

/// The most callers of one server, and of one user among them.
const CALLERS: usize = 256;
const CALLERS_OF_USER: usize = 64;
/// How long a server waits for what a caller has to say.
const HELLO: Duration = Duration::from_secs(5);
/// How long a caller waits for the answer: the server maps the region meanwhile.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the end of a listener waits for the threads of connections.
const ENDING: Duration = Duration::from_secs(1);
/// How long an acceptor rests when the system has no resources for a connection.
const REST: Duration = Duration::from_millis(100);
/// The user of a connection of which the kernel says nothing: nobody.
const NOBODY: u32 = 65534;

/// What a caller says, with its region's descriptor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Offer {
    /// Takes calls from this region.
    Calls,
}

/// What it is told.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Accepted,
    Refused { reason: String },
}

/// A caller's connection to a server.
#[derive(Debug)]
pub struct CallConnection(Connection);

impl CallConnection {
    /// Connects to the server at `socket` and hands it a region with a channel, whose header has been written.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Refused`] with the server's reason, [`Error::NoAnswer`], or what went wrong on the way.
    pub fn open(socket: &Path, region: &Region) -> Result<CallConnection, Error> {
        let connection = Connection::open(socket)?;
        let sent = connection.send(&Offer::Calls, Some(region.as_fd()));
        if sent.is_ok() && connection.wait(PollFlags::IN, Some(ANSWER))? == Waited::TimedOut {
            return Err(Error::no_answer("an answer", ANSWER));
        }
        // A server that takes no more callers says so and closes.
        match connection.receive::<Outcome>() {
            Ok(Some((Outcome::Accepted, _))) => Ok(CallConnection(connection)),
            Ok(Some((Outcome::Refused { reason }, _))) => Err(Error::Refused { reason }),
            Ok(None) => Err(sent.err().unwrap_or(Error::Gone)),
            Err(e) => Err(sent.err().unwrap_or(e)),
        }
    }

    /// True when the server has gone.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// Wakes the server. Never blocks.
    pub fn wake(&self) {
        wake(&self.0);
    }

    /// Sleeps until the server wakes this side or goes, for `timeout` at most.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn sleep(&self, timeout: Duration) -> Result<(), Error> {
        if self.0.wait(PollFlags::IN | PollFlags::RDHUP, Some(timeout))? == Waited::Ready {
            take_wakes(&self.0);
        }
        Ok(())
    }
}

/// An error says that the other side has gone, or that it has bytes to read: it will wake.
fn wake(connection: &Connection) {
    let _ = send(connection, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Takes a message that has woken this side; the other may send without end.
fn take_wakes(connection: &Connection) {
    let _ = recv(connection, &mut [0; 64], RecvFlags::DONTWAIT);
}

/// A channel that a caller has handed over: its region, mapped and checked.
///
/// Dropping it never blocks: the connection's thread holds the same, and lets go of it last.
#[derive(Debug)]
pub struct CallChannel {
    layout: CallLayout,
    region: Arc<Region>,
    connection: Arc<Connection>,
    ended: Arc<AtomicBool>,
    /// The connection's thread waits until this is dropped.
    _held: Sender<()>,
}

impl CallChannel {
    /// The geometry that the region's header described when it was read, once.
    pub fn layout(&self) -> &CallLayout {
        &self.layout
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// True when the caller has gone: drop the channel.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the connection, of a caller that has done what it must not. Never blocks.
    pub fn hang_up(&self) {
        self.connection.hang_up();
    }

    /// Wakes the caller. Never blocks.
    pub fn wake(&self) {
        wake(&self.connection);
    }

    /// Takes what the caller has sent to wake this side. Never blocks.
    pub fn take_wakes(&self) {
        take_wakes(&self.connection);
    }
}

impl Drop for CallChannel {
    fn drop(&mut self) {
        self.connection.hang_up();
    }
}

impl AsFd for CallChannel {
    /// Can be read when the caller wakes this side, or has gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

/// What the listener and its threads share.
#[derive(Debug)]
struct Shared {
    /// Readable when a channel has come or gone, or somebody wakes the server.
    event: Arc<OwnedFd>,
    ready: Mutex<Vec<CallChannel>>,
    /// Connections of each user.
    users: Mutex<HashMap<u32, usize>>,
    /// Whose uids count as another user's.
    subordinates: Subordinates,
    /// For connections that are refused: closing them may block.
    closers: Closers,
    /// Those of connections. (A thread that still ends when the program does looks like a leak.)
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// No further connections.
    stopped: AtomicBool,
}

impl Shared {
    fn ready(&self) -> MutexGuard<'_, Vec<CallChannel>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn users(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the threads of connections that have ended: for as long as it usually takes them, and no longer, since a caller can hold
    /// one up.
    fn wait_for_threads(&self) {
        let deadline = Instant::now() + ENDING;
        for thread in self.threads().drain(..) {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                let _ = thread.join(); // an error is its panic, which has been printed
            }
        }
    }

    fn notify(&self) {
        let _ = write(&self.event, &1_u64.to_ne_bytes()); // an error says that it is readable already
    }

    /// A place for one more connection of a user.
    fn admit(self: &Arc<Shared>, uid: u32) -> Result<Place, String> {
        let mut users = self.users();
        if users.values().sum::<usize>() >= CALLERS {
            return Err(format!("{CALLERS} callers are connected, and this server takes no more"));
        }
        let (all, of_user) = (users.values().sum::<usize>(), users.get(&uid).copied().unwrap_or(0));
        if of_user >= CALLERS_OF_USER {
            return Err(format!(
                "user {uid} has {CALLERS_OF_USER} callers, and this server takes no more of one user"
            ));
        }
        if room(CALLERS as u64, all as u64, of_user as u64) == 0 {
            return Err(format!(
                "user {uid} has {of_user} callers, and the places that are left of {CALLERS} are kept for users who have less"
            ));
        }
        users.insert(uid, of_user + 1);
        Ok(Place { shared: Arc::clone(self), uid })
    }
}

/// The place of a connection among those of its user.
struct Place {
    shared: Arc<Shared>,
    uid: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.shared.users();
        let left = users.get(&self.uid).copied().unwrap_or(0).saturating_sub(1);
        if left == 0 {
            users.remove(&self.uid);
        } else {
            users.insert(self.uid, left);
        }
    }
}

/// A server's socket. Dropping it removes the socket file; channels that have been taken stay.
#[derive(Debug)]
pub struct CallListener {
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl CallListener {
    /// Listens at `socket`: a stale file there is replaced, a live server refused. Starts a thread.
    ///
    /// # Errors
    /// [`Error::Socket`] when no such socket can be made; [`Error::Os`].
    pub fn new(socket: &Path, access: &SocketAccess) -> Result<CallListener, Error> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared {
            event: Arc::new(event().map_err(Error::os("make an eventfd"))?),
            ready: Mutex::default(),
            users: Mutex::default(),
            subordinates: Subordinates::of_system().unwrap_or_else(|e| {
                tracing::warn!("subordinate uids count as users of their own: {e}");
                Subordinates::default()
            }),
            closers: Closers::default(),
            threads: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let stop = Arc::new(event().map_err(Error::os("make an eventfd"))?);
        let socket = ListenSocket::new(socket, access)?;
        let (theirs, stops) = (Arc::clone(&shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("ccnic-calls".to_owned())
            .spawn(move || accept(&socket, &theirs, &stops))
            .map_err(|e| Error::Os {
                what: "start the thread that accepts callers",
                errno: Errno::from_io_error(&e).unwrap_or(Errno::AGAIN),
            })?;
        Ok(CallListener { shared, stop, thread: Some(thread) })
    }

    /// The channels that have come since the last call.
    pub fn take(&self) -> Vec<CallChannel> {
        std::mem::take(&mut *self.shared.ready())
    }

    /// Becomes readable when a channel has come or gone, or somebody has written to it; until
    /// [`clear_event`](CallListener::clear_event). An eventfd.
    pub fn event(&self) -> &Arc<OwnedFd> {
        &self.shared.event
    }

    /// Call it before [`take`](CallListener::take) and [`CallChannel::has_ended`].
    pub fn clear_event(&self) {
        let _ = read(&self.shared.event, &mut [0; 8]);
    }
}

impl Drop for CallListener {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        let _ = write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it waits for nobody
        }
        // Channels that nobody has taken: their callers are told.
        drop(self.take());
        self.shared.wait_for_threads();
    }
}

/// The accepting thread.
fn accept(socket: &ListenSocket, shared: &Arc<Shared>, stop: &OwnedFd) {
    loop {
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        let waited = poll(&mut fds, None);
        if fds.first().is_some_and(|stop| !stop.revents().is_empty()) {
            return;
        }
        match waited.and_then(|_| socket.accept()) {
            Ok(None) => {}
            Ok(Some(connection)) => admit(connection, shared),
            Err(e) => {
                tracing::warn!("a caller could not connect: {e}; trying again");
                std::thread::sleep(REST);
            }
        }
    }
}

/// Gives a connection a thread, or refuses it.
fn admit(connection: Connection, shared: &Arc<Shared>) {
    let uid = connection.peer().map_or(NOBODY, |peer| shared.subordinates.user_of(peer.uid));
    let place = match shared.admit(uid) {
        Ok(place) => place,
        Err(reason) => {
            refuse(&connection, reason);
            return shared.closers.let_go(uid, connection);
        }
    };
    let thread = std::thread::Builder::new().name("ccnic-caller".to_owned());
    match thread.spawn(move || serve(connection, place)) {
        Ok(thread) => {
            let mut threads = shared.threads();
            threads.retain(|thread| !thread.is_finished());
            threads.push(thread);
        }
        Err(e) => tracing::warn!("no thread for a caller: {e}"), // its connection has been closed
    }
}

fn refuse(connection: &Connection, reason: String) {
    tracing::info!("a caller was refused: {reason}");
    let _ = connection.send_now(&Outcome::Refused { reason }, None); // an error says that it has gone
}

/// The thread of a connection, until it ends.
fn serve(connection: Connection, place: Place) {
    let connection = Arc::new(connection);
    let kept = match receive(&connection) {
        Ok((layout, region)) => hand_over(layout, region, &connection, &place.shared),
        Err(reason) => return refuse(&connection, reason),
    };
    let Some(kept) = kept else { return };
    // Until the caller goes, or the server ends the connection.
    while matches!(connection.wait(PollFlags::RDHUP, None), Ok(Waited::Ready)) && !connection.has_ended() {}
    kept.ended.store(true, Ordering::Release);
    place.shared.notify();
    let _ = kept.held.recv(); // fails when the server has dropped the channel
}

/// Waits for a caller's offer and checks it.
fn receive(connection: &Connection) -> Result<(CallLayout, Region), String> {
    let wait = connection.wait(PollFlags::IN, Some(HELLO)).map_err(|e| e.to_string())?;
    if wait == Waited::TimedOut {
        return Err("nothing was offered in time".to_owned());
    }
    let offer = connection.receive::<Offer>().map_err(|e| e.to_string())?;
    let (Offer::Calls, Some(fd)) = offer.ok_or("the caller has gone")? else {
        return Err("there is no region with the offer".to_owned());
    };
    let offered = OfferedRegion::new(fd).map_err(|e| e.to_string())?;
    let header = offered.read_header::<CALL_HEADER_BYTES>().map_err(|e| e.to_string())?;
    let layout = CallLayout::from_header(&header, offered.size()).map_err(|e| e.to_string())?;
    // More than the channel needs would be mapped, and locked, for nothing.
    if offered.size() > layout.size().next_multiple_of(ccnic_shm::HUGE_PAGE) {
        return Err(format!("the region has {} bytes, its channel needs {}", offered.size(), layout.size()));
    }
    let region = offered.map(Sealing::Required).map_err(|e| e.to_string())?;
    Ok((layout, region))
}

/// What the thread of a connection keeps of its channel.
struct Kept {
    ended: Arc<AtomicBool>,
    /// Ends when the server has dropped the channel.
    held: Receiver<()>,
    _region: Arc<Region>,
}

/// Gives a channel to the server. `None` when the caller has gone, or the server.
fn hand_over(
    layout: CallLayout,
    region: Region,
    connection: &Arc<Connection>,
    shared: &Shared,
) -> Option<Kept> {
    let (region, ended) = (Arc::new(region), Arc::new(AtomicBool::new(false)));
    let (token, held) = channel();
    let channel = CallChannel {
        layout,
        region: Arc::clone(&region),
        connection: Arc::clone(connection),
        ended: Arc::clone(&ended),
        _held: token,
    };
    connection.send_now(&Outcome::Accepted, None).ok()?;
    let mut ready = shared.ready();
    // The listener takes `ready` for the last time after it has set `stopped`.
    if shared.stopped.load(Ordering::Acquire) {
        return None;
    }
    ready.push(channel);
    drop(ready);
    shared.notify();
    Some(Kept { ended, held, _region: region })
}
