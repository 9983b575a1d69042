//! The NIC's end of the control socket: accepts connections, answers requests, maps and checks regions within their limits.
//!
//! One thread accepts (`accept.rs`), and each connection has a thread of its own (`client.rs`), which does all that concerns its program
//! only: it receives, checks, maps (`attach.rs`), answers, and at last unmaps and closes. What concerns the NIC goes to the thread that
//! calls [`Listener::poll`] (`inbox.rs`), and only that thread calls the [`Handler`]. So nothing that a program does, or leaves undone,
//! holds up another one's request.

mod accept;
mod attach;
mod client;
mod configure;
mod flow;
mod observer;
pub(crate) mod refuse;
mod shared;

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ccnic::Layout;
use ccnic::rss::Rss;
use ccnic_frame::Takes;
use ccnic_shm::Region;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::account::{Account, Quotas, UserMemory};
use crate::capture::CaptureRequest;
use crate::connection::Connection;
use crate::error::Error;
use crate::flow::{FlowReply, FlowRequest, NumberedRule};
use crate::inbox::{Asked, Event, Inbox};
use crate::limits::Limits;
use crate::messages::{AddressPage, Applied, Change, Cursor, Hello, Reply, Status, TextPage};
use crate::notifier::Notifier;
use crate::socket::{ListenSocket, Occupant, SocketAccess, occupant};
use crate::teardown::Teardown;
use accept::Acceptor;
use shared::Shared;

pub use observer::Observer;

/// Identifies a connection and the program behind it. Never used twice by one listener.
pub type ClientId = u64;

/// How long the end of a listener waits for threads.
const ENDING: Duration = Duration::from_secs(1);
/// Requests that are handled before `stop` is looked at again.
const BATCH: usize = 64;

/// What a NIC does for its programs: the [`Listener`] calls it for each request that it has checked. All calls come from the thread that
/// calls [`Listener::poll`].
pub trait Handler {
    /// The NIC's version and abilities.
    fn hello(&self) -> Hello;
    /// A page of the NIC's state and counters, from `from` on: [`Page`](crate::Page) says what belongs on it.
    fn status(&self, from: Cursor) -> Status;
    /// Addresses that a switch has learned, from a place in its table on: 0, or [`AddressPage::next`].
    ///
    /// # Errors
    /// The reason for a refusal, as who asks is told: by default that there is no switch.
    fn mac_table(&self, _from: u32) -> Result<AddressPage, String> {
        Err(NO_SWITCH.to_owned())
    }
    /// The configuration that it runs with, as a file that can be used (TOML).
    ///
    /// # Errors
    /// The reason for a refusal, as who asks is told: by default that it has none.
    fn config(&self) -> Result<String, String> {
        Err(NO_CONFIG.to_owned())
    }
    /// Changes the configuration, or only says what would change ([`Change::is_check`]). Who asks is an operator ([`Limits::operators`]).
    ///
    /// # Errors
    /// The reason for a refusal, as who asks is told: by default that it has no configuration. Nothing has changed then.
    fn change(&mut self, _: &Change) -> Result<Applied, String> {
        Err(NO_CONFIG.to_owned())
    }
    /// Gives copies of packets to whoever is at the other end of `to`, until that is closed. `to` is a stream socket of an operator
    /// ([`Limits::operators`]).
    ///
    /// # Errors
    /// The reason for a refusal, as who asks is told: by default that there is no switch.
    fn capture(&mut self, _request: CaptureRequest, _to: UnixStream) -> Result<(), String> {
        Err(NO_CAPTURE.to_owned())
    }
    /// Polls this program's queues from now on.
    ///
    /// # Errors
    /// The reason for a refusal, as the program is told.
    fn attach(&mut self, request: AttachRequest) -> Result<(), String>;
    /// Spreads what an attached program receives over its queues by `rss` from now on; `None`: stops doing so. When it returns, the
    /// change is in force for every packet sent later. Called with `Some` only where [`Hello::rss`] is true.
    ///
    /// # Errors
    /// The reason for a refusal, as the program is told. Nothing has changed then.
    fn set_rss(&mut self, _: ClientId, rss: Option<Rss>) -> Result<(), String> {
        rss.map_or(Ok(()), |_| Err(NO_RSS.to_owned()))
    }
    /// An attached program takes packets with these requests as they are from now on; before that, complete packets only. Called only
    /// where [`Hello::offloads`] says something, or by a program that does not care; by default it changes nothing.
    fn set_takes(&mut self, _: ClientId, _: Takes) {}
    /// Does what a request about flow rules says, or shows them. `of` is the program that it names, or the one that asks. Its fields have
    /// been checked, but for the queue of a rule that the operator has for another program. When it returns, a change is in force for every
    /// packet sent later. Called only where [`Hello::flow`] is there.
    ///
    /// # Errors
    /// The reason for a refusal, as who asks is told. Nothing has changed then.
    fn flow(&mut self, _of: ClientId, _request: FlowRequest) -> Result<FlowReply, String> {
        Err(NO_FLOWS.to_owned())
    }
    /// Has the thread that polls this queue of an attached program notify it by `notifier`
    /// ([`Notifier::notify_if_armed`], which also confirms that to the program).
    ///
    /// # Errors
    /// The reason for a refusal; it is logged.
    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String>;
    /// The connection of an attached program has ended.
    fn detach(&mut self, id: ClientId);
}

const NO_SWITCH: &str = "this NIC has no address table: it is no switch (ccnicd --wire switch is one)";

const NO_CONFIG: &str = "this NIC has no configuration that can be read or changed while it runs (ccnicd has one): end it and start it anew";

const NO_CAPTURE: &str = "this NIC captures nothing: it is no switch (ccnicd --wire switch is one)";

const NO_RSS: &str = "this NIC does no RSS: whoever sends to the program chooses the queue";

const NO_FLOWS: &str = "this NIC has no flow rules: whoever sends to the program chooses the queue";

/// A program that asks to be attached: what it said of itself, and its region, mapped and checked.
///
/// Dropping any of it never blocks: the thread of the program's connection lets go of the region and of the connection after everybody
/// else. For that, keep `teardown` for as long as anything else of this, and drop it last.
#[derive(Debug)]
pub struct AttachRequest {
    /// Identifies it until it detaches.
    pub id: ClientId,
    /// Its name in the status.
    pub name: String,
    /// Its MAC address, if it has given one.
    pub mac: Option<[u8; 6]>,
    /// How its received packets are spread over its queues.
    pub rss: Option<Rss>,
    /// Its flow rules, which have been checked but for their numbers.
    pub flows: Vec<NumberedRule>,
    /// Its process; 0 when that is in a PID namespace that the NIC does not see.
    pub pid: i32,
    /// The geometry that the region's header described when it was read, once; it lies within the region.
    pub layout: Layout,
    /// Its region, which is accounted for.
    pub region: Arc<Region>,
    /// To account for further memory that the NIC needs for it.
    pub memory: UserMemory,
    /// Its connection, for a NIC that wants to end it ([`Connection::hang_up`]).
    pub connection: Arc<Connection>,
    /// What must go when the program goes.
    pub teardown: Teardown,
}

/// The control socket of a NIC, and its connections. Belongs to one thread.
#[derive(Debug)]
pub struct Listener {
    acceptor: Acceptor,
    shared: Arc<Shared>,
}

/// A control socket at which programs can connect and nobody answers yet. Dropping it removes the socket file.
#[derive(Debug)]
pub struct Bound {
    socket: ListenSocket,
    /// Bytes that this process may take. Asked for here: a sandbox that is entered later may not see control groups.
    memory: u64,
}

impl Bound {
    /// The next connection, or `None` when there is none now: for whoever serves something else than a NIC. Its calls do not block.
    ///
    /// # Errors
    /// When the system has no resources for another connection: try again when one has been closed.
    pub fn accept(&self) -> Result<Option<Connection>, Error> {
        self.socket.accept().map_err(Error::os("accept a connection"))
    }
}

/// Readable when there is something to [accept](Bound::accept).
impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listener {
    /// [Binds](Listener::bind) with the permissions that new files have, and [serves](Listener::serve).
    ///
    /// # Errors
    /// As these two.
    pub fn new(socket: &Path, limits: Limits) -> Result<Listener, Error> {
        Listener::serve(Listener::bind(socket, &SocketAccess::default())?, limits)
    }

    /// Makes the socket, and no thread.
    ///
    /// # Errors
    /// [`Error::Socket`]: a NIC runs there already, or no such socket can be made there.
    pub fn bind(socket: &Path, access: &SocketAccess) -> Result<Bound, Error> {
        Ok(Bound { socket: ListenSocket::new(socket, access)?, memory: Limits::memory() })
    }

    /// Whether a socket with that access could be made at `socket`, or a NIC runs there. Leaves nothing behind.
    ///
    /// # Errors
    /// [`Error::Socket`]: no such socket can be made there.
    pub fn check(socket: &Path, access: &SocketAccess) -> Result<(), Error> {
        ListenSocket::check(socket, access)
    }

    /// True when somebody listens at `socket`. Waits for nobody.
    pub fn is_taken(socket: &Path) -> bool {
        matches!(occupant(socket), Occupant::Listens(_))
    }

    /// Accepts connections from now on. Dropping the listener removes the socket file and ends all connections.
    ///
    /// Starts threads, which may run on the CPUs that the caller may run on.
    ///
    /// # Errors
    /// [`Error::Os`]: no thread can be started.
    pub fn serve(Bound { socket, memory }: Bound, limits: Limits) -> Result<Listener, Error> {
        let account = Account::new(limits, accept::files(), memory);
        if let Err(e) = Quotas(Arc::clone(&account)).read_subordinates() {
            tracing::warn!("subordinate uids count as users of their own: {e}");
        }
        let shared = Arc::new(Shared::new(account, Inbox::new()?));
        let acceptor = Acceptor::start(socket, &shared)?;
        Ok(Listener { acceptor, shared })
    }

    /// Reads the NIC's state from other threads.
    pub fn observer(&self) -> Observer {
        Observer::new(&self.shared)
    }

    /// Changes what programs of a name may take ([`Limits::quotas`]).
    pub fn quotas(&self) -> Quotas {
        Quotas(Arc::clone(&self.shared.account))
    }

    /// Waits until a program asks something or goes, for `timeout` at most (`None`: without limit), and handles the requests that wait,
    /// one of each connection at most. Returns true, with nothing handled, as soon as `stop` can be read.
    ///
    /// When the system refuses to wait, for want of memory, say, it sleeps for some milliseconds.
    pub fn poll(
        &mut self,
        handler: &mut impl Handler,
        stop: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds = vec![PollFd::new(&self.shared.inbox, PollFlags::IN)];
        fds.extend(stop.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => {
                tracing::warn!("could not wait for programs: {e}; trying again");
                std::thread::sleep(Duration::from_millis(10));
                return false;
            }
        }
        if fds.get(1).is_some_and(|stop| !stop.revents().is_empty()) {
            return true;
        }
        for _ in 0..BATCH {
            let Some(Asked { event, answer }) = self.shared.inbox.next() else { break };
            let _ = answer.send(handle(handler, event)); // its thread waits
        }
        false
    }

    /// Accepts no further programs, and removes the socket file, so that a successor can listen there. Connections go on.
    pub fn stop_accepting(&self) {
        self.acceptor.stop();
    }
}

impl Drop for Listener {
    /// The threads of connections end by themselves. They are waited for as long as it usually takes them, and no longer: what programs
    /// have sent may take for ever to close.
    fn drop(&mut self) {
        self.acceptor.stop();
        self.shared.hang_up();
        self.shared.inbox.close();
        self.shared.wait_for_threads(Instant::now() + ENDING);
    }
}

/// Calls the handler.
fn handle(handler: &mut impl Handler, event: Event) -> Reply {
    let done = |done: Reply, outcome: Result<(), String>| match outcome {
        Ok(()) => done,
        Err(reason) => Reply::Refused { reason },
    };
    match event {
        Event::Hello => Reply::Hello(handler.hello()),
        Event::Status(from) => Reply::Status(Box::new(handler.status(from))),
        Event::MacTable(from) => {
            handler.mac_table(from).map_or_else(|reason| Reply::Refused { reason }, Reply::MacTable)
        }
        // As one page: `client.rs` makes more of it.
        Event::Config => handler.config().map_or_else(
            |reason| Reply::Refused { reason },
            |text| Reply::Config(TextPage { text, next: None }),
        ),
        Event::Change(change) => handler.change(&change).map_or_else(
            |reason| Reply::Refused { reason },
            |applied| Reply::Applied(Box::new(applied.fit())),
        ),
        Event::Capture(request, to) => done(Reply::Done, handler.capture(request, to)),
        Event::Attach(request) => done(Reply::Attached, handler.attach(*request)),
        Event::SetRss(id, rss) => done(Reply::Done, handler.set_rss(id, rss.map(|rss| *rss))),
        Event::SetTakes(id, takes) => {
            handler.set_takes(id, takes);
            Reply::Done
        }
        Event::Flow(of, request) => {
            handler.flow(of, *request).map_or_else(|reason| Reply::Refused { reason }, Reply::Flow)
        }
        Event::Notify(id, queue, notifier) => done(Reply::Done, handler.notify(id, queue, notifier)),
        Event::Detach(id) => {
            handler.detach(id);
            Reply::Done
        }
    }
}

#[cfg(test)]
mod tests;
