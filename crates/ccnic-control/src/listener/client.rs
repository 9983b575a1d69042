//! The thread of a connection: receives requests, checks them, asks the handler, answers; and lets go of all that its program has
//! brought.
//!
//! Whatever a program sends is received, mapped, unmapped and closed here, where it delays nobody else.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ccnic::rss::Rss;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};

use super::attach::{AttachedClient, ClientInfo};
use super::configure::Configuring;
use super::flow::Flows;
use super::shared::Shared;
use super::{ClientId, NO_RSS};
use crate::account::Lease;
use crate::capture::{CaptureRequest, SNAP_MAX};
use crate::connection::{Connection, Peer, Waited};
use crate::error::Error;
use crate::inbox::Event;
use crate::log_limit::ClientLog;
use crate::messages::{Change, Cursor, Reply, Request};
use crate::notifier::Notifier;
use crate::offloads::Taken;
use crate::rss::RssMessage;
use crate::text::printable;

/// How long a new connection may say nothing.
const GREETING: Duration = Duration::from_secs(10);
/// How long a connection may say nothing between a request and an attachment: the program makes its region meanwhile.
const ATTACHING: Duration = Duration::from_secs(60);
/// How long a reply waits to be read.
const READING: Duration = Duration::from_secs(5);
/// Before another try at what the system has no resources for.
pub(super) const RETRY: Duration = Duration::from_millis(50);

/// Why a request is not done.
pub(super) enum Stop {
    /// It is refused, for this reason.
    Refused(String),
    /// The NIC has ended.
    Ended,
}

impl From<String> for Stop {
    fn from(reason: String) -> Stop {
        Stop::Refused(reason)
    }
}

impl From<&str> for Stop {
    fn from(reason: &str) -> Stop {
        Stop::Refused(reason.to_owned())
    }
}

/// A connection. Belongs to its thread. The order of the fields is that in which they go.
pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) peer: Peer,
    /// The user that it counts as, whose turn its requests take.
    user: u32,
    pub(super) shared: Arc<Shared>,
    pub(super) log: ClientLog,
    pub(super) attached: Option<AttachedClient>,
    /// The handler does RSS, once that is known.
    spreads: Option<bool>,
    /// Its flow rules, until it attaches.
    pub(super) flows: Flows,
    /// What an operator's requests are about.
    pub(super) configuring: Configuring,
    /// Other references are gone before the last one goes here: those in [`Shared`] and in `AttachRequest`.
    pub(super) connection: Arc<Connection>,
    /// Its place among the connections of its user.
    _place: Lease,
}

impl Client {
    pub(super) fn new(
        id: ClientId,
        (peer, user): (Peer, u32),
        place: Lease,
        connection: Arc<Connection>,
        shared: Arc<Shared>,
    ) -> Client {
        let log = shared.logs.client(user);
        shared.add(id, &connection);
        Client {
            id,
            peer,
            user,
            shared,
            log,
            attached: None,
            spreads: None,
            flows: Flows::default(),
            configuring: Configuring::default(),
            connection,
            _place: place,
        }
    }

    /// Serves the connection until it ends, then lets go of everything.
    pub(super) fn run(mut self) {
        // A defect here must not keep a program attached whose connection nobody watches.
        let _ = catch_unwind(AssertUnwindSafe(|| self.serve()));
        if let Some(attached) = self.attached.take() {
            self.shared.inbox.tell(self.user, Event::Detach(self.id));
            self.info("detached", &attached);
            attached.let_go();
        }
        self.shared.remove(self.id);
    }

    fn serve(&mut self) {
        let mut greeted = false;
        while self.wait(greeted) {
            let answer = match self.connection.receive::<Request>() {
                Ok(Some((request, fd))) => {
                    let what = request.what();
                    let answer = self.handle(request, fd);
                    if let Err(Stop::Refused(reason)) = &answer {
                        self.warn(&format!("refused {what}"), reason);
                    }
                    answer
                }
                Ok(None) => return,
                Err(Error::Os { errno: Errno::AGAIN, .. }) => continue,
                Err(Error::Os { .. }) => return,
                Err(e) => Ok(Some(Reply::Refused { reason: e.to_string() })),
            };
            greeted = true;
            let reply = match answer {
                Ok(Some(reply)) => reply,
                Ok(None) => continue,
                Err(Stop::Refused(reason)) => Reply::Refused { reason },
                Err(Stop::Ended) => return,
            };
            if self.connection.send_within(&reply, READING).is_err() {
                return;
            }
        }
    }

    /// Waits for the next request. False when there will be none.
    fn wait(&self, greeted: bool) -> bool {
        let patience = match (&self.attached, greeted) {
            (Some(_), _) => None,
            (None, true) => Some(ATTACHING),
            (None, false) => Some(GREETING),
        };
        loop {
            match self.connection.wait(PollFlags::IN, patience) {
                Ok(Waited::Ready) => return true,
                Ok(Waited::TimedOut) => break,
                Err(_) => std::thread::sleep(RETRY), // no memory, say
            }
        }
        let seconds = patience.unwrap_or_default().as_secs();
        let reason = format!("no request for {seconds} s: the connection is closed; connect again");
        self.warn("closed a connection", &reason);
        let _ = self.connection.send_now(&Reply::Refused { reason }, None); // it may not read either
        false
    }

    /// Logs what a program is told, unless it has been told too much already.
    fn warn(&self, what: &str, reason: &str) {
        if let Some(left_out) = self.log.line() {
            let Peer { pid, uid } = self.peer;
            // In one line: what shows a place in a file has several.
            let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
            tracing::warn!(pid, uid, left_out = left_out.0, "{what}: {}", printable(&reason));
        }
    }

    /// Asks the handler.
    pub(super) fn ask(&self, event: Event) -> Result<Reply, Stop> {
        match self.shared.inbox.ask(self.user, event) {
            Some(Reply::Refused { reason }) => Err(Stop::Refused(reason)),
            Some(reply) => Ok(reply),
            None => Err(Stop::Ended),
        }
    }

    /// The reply to a request, if there is to be one.
    fn handle(&mut self, request: Request, fd: Option<OwnedFd>) -> Result<Option<Reply>, Stop> {
        let reply = match request {
            Request::Hello => self.ask(Event::Hello)?,
            Request::Status => self.ask(Event::Status(Cursor::default()))?,
            Request::StatusFrom(from) => self.ask(Event::Status(from))?,
            Request::MacTable(from) => self.ask(Event::MacTable(from))?,
            Request::Apply(part) => self.apply(part)?,
            Request::Config(from) => self.config(from)?,
            Request::PortAdd(add) => self.change(Change::PortAdd(add))?,
            Request::PortDel(del) => self.change(Change::PortDel(del))?,
            Request::PortSet(set) => self.change(Change::PortSet(set))?,
            Request::Capture(request) => {
                let to = self.check_capture(&request, fd)?;
                self.ask(Event::Capture(request, to))?
            }
            Request::Notify { queue, wakes } => {
                // No reply on this connection: the program learns the outcome by its socket, or not at all.
                match self.notify(queue, wakes, fd) {
                    Err(Stop::Refused(reason)) => self.warn("a program will not be notified", &reason),
                    other => other?,
                }
                return Ok(None);
            }
            Request::Attach { name, mac, rss } => self.attach(ClientInfo { name, mac, rss }, fd)?,
            Request::Rss(rss) => {
                let queues = self.attached.as_ref().ok_or("attach a region before you ask for RSS")?.queues();
                let rss = self.check_rss(rss.as_ref(), queues)?;
                self.ask(Event::SetRss(self.id, rss.map(Box::new)))?
            }
            Request::Takes(list) => {
                self.attached.as_ref().ok_or("attach a region before you say what the program takes")?;
                self.ask(Event::SetTakes(self.id, Taken::takes(&list)))?
            }
            Request::Flow(request) => self.flow(request)?,
        };
        Ok(Some(reply))
    }

    /// Checks who wants to capture, and the socket that copies go to. Here, where closing it may block.
    fn check_capture(&self, request: &CaptureRequest, fd: Option<OwnedFd>) -> Result<UnixStream, Stop> {
        self.check_operator("capture packets")?;
        if !(1..=SNAP_MAX).contains(&request.snap) {
            return Err(format!("snap is {}: choose 1 to {SNAP_MAX}", request.snap).into());
        }
        let fd = fd.ok_or("no socket came with the request to capture")?;
        self.shared.account.check_file(&fd)?;
        let unix = socket_domain(&fd).is_ok_and(|domain| domain == AddressFamily::UNIX);
        let stream = socket_type(&fd).is_ok_and(|kind| kind == SocketType::STREAM);
        if !unix || !stream {
            return Err("the descriptor to capture to is no stream socket of the Unix family".into());
        }
        Ok(UnixStream::from(fd))
    }

    /// Checks an RSS message of a program with so many queues.
    pub(super) fn check_rss(&mut self, rss: Option<&RssMessage>, queues: u16) -> Result<Option<Rss>, Stop> {
        let Some(rss) = rss else { return Ok(None) };
        let spreads = match self.spreads {
            Some(spreads) => spreads,
            None => matches!(self.ask(Event::Hello)?, Reply::Hello(hello) if hello.rss),
        };
        self.spreads = Some(spreads);
        if !spreads {
            return Err(NO_RSS.into());
        }
        Ok(Some(rss.check(queues)?))
    }

    /// Hands a program's notifier for a queue to the NIC. Once for each queue, so that a program cannot keep polling threads busy with
    /// sockets.
    fn notify(&mut self, queue: u16, wakes: bool, fd: Option<OwnedFd>) -> Result<(), Stop> {
        let attached = self.attached.as_mut().ok_or("it has not brought a region yet")?;
        let socket = attached.sockets.get(usize::from(queue));
        if socket.ok_or_else(|| format!("its region has no queue {queue}"))?.is_some() {
            return Err(format!("queue {queue} has a socket to be notified by already").into());
        }
        let socket = Arc::new(fd.ok_or("no descriptor came with the request to notify")?);
        self.shared.account.check_file(&*socket)?;
        let notifier = Notifier::new(Arc::clone(&socket), Arc::clone(&attached.budget), wakes)?;
        // Kept from now on, whatever the handler says: it may have the notifier still.
        if let Some(kept) = attached.sockets.get_mut(usize::from(queue)) {
            *kept = Some(socket);
        }
        self.ask(Event::Notify(self.id, queue, notifier)).map(drop)
    }
}
