//! The NIC's end of the control socket: accepts connections, answers requests, maps and checks regions within their limits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ccnic::Layout;
use ccnic::rss::Rss;
use ccnic_shm::Region;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::connection::Connection;
use crate::error::Error;
use crate::limits::{Limits, MemoryAccount, MemoryLease};
use crate::messages::{Hello, Reply, Request, Status};
use crate::notifier::{Budget, Notifier};
use crate::rss::RssMessage;
use crate::socket::ListenSocket;

/// Identifies a connection and the program behind it. Never used twice by one listener.
pub type ClientId = u64;

/// What a NIC does for its programs: the [`Listener`] calls it for each request that it has checked. All calls come from the thread that
/// calls [`Listener::poll`].
pub trait Handler {
    /// The NIC's version and abilities.
    fn hello(&self) -> Hello;
    /// The NIC's state and counters.
    fn status(&self) -> Status;
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
    /// Has the thread that polls this queue of an attached program notify it by `notifier`, and confirm that
    /// ([`Notifier::confirm`]).
    ///
    /// # Errors
    /// The reason for a refusal; it is logged.
    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String>;
    /// The connection of an attached program has ended.
    fn detach(&mut self, id: ClientId);
}

const NO_RSS: &str = "this NIC does no RSS: whoever sends to the program chooses the queue";

/// A program that asks to be attached: what it said of itself, and its region, mapped and checked.
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
    /// Its process.
    pub pid: i32,
    /// The geometry that the region's header describes; it lies within the region.
    pub layout: Layout,
    /// Its region.
    pub region: Region,
    /// Its share of [`Limits::memory_max`].
    pub memory: MemoryLease,
    /// A copy of its connection, for a NIC that wants to end it.
    pub connection: OwnedFd,
}

/// What a program says of itself in a request to attach.
struct ClientInfo {
    name: String,
    mac: Option<[u8; 6]>,
    rss: Option<RssMessage>,
}

/// A connection, and what is known of its program once that is attached.
#[derive(Debug)]
struct ConnectedClient {
    id: ClientId,
    connection: Connection,
    attachment: Option<AttachedClient>,
}

/// What the listener remembers of an attached program.
#[derive(Debug)]
struct AttachedClient {
    /// By queue: whether it has a notifier.
    notified: Vec<bool>,
    budget: Arc<Budget>,
}

impl AttachedClient {
    fn queues(&self) -> u16 {
        self.notified.len() as u16 // one for each
    }
}

impl ConnectedClient {
    /// Checks an RSS message of a program with so many queues.
    fn check_rss(
        handler: &impl Handler,
        rss: Option<&RssMessage>,
        queues: u16,
    ) -> Result<Option<Rss>, String> {
        match rss {
            Some(_) if !handler.hello().rss => Err(NO_RSS.to_owned()),
            rss => rss.map(|rss| rss.check(queues)).transpose(),
        }
    }

    fn set_rss(&self, handler: &mut impl Handler, rss: Option<&RssMessage>) -> Result<(), String> {
        let attachment = self.attachment.as_ref().ok_or("attach a region before you ask for RSS")?;
        let rss = ConnectedClient::check_rss(handler, rss, attachment.queues())?;
        handler.set_rss(self.id, rss)
    }
}

/// The reply to a request: `done`, or the reason for a refusal, which is logged.
fn reply(done: Reply, outcome: Result<(), String>) -> Reply {
    match outcome {
        Ok(()) => done,
        Err(reason) => {
            tracing::warn!("refused a program: {reason}");
            Reply::Refused { reason }
        }
    }
}

/// The control socket of a NIC, and its connections. Belongs to one thread.
#[derive(Debug)]
pub struct Listener {
    socket: ListenSocket,
    limits: Limits,
    account: MemoryAccount,
    clients: Vec<ConnectedClient>,
    next_id: ClientId,
    /// The system refused the last connection, for want of descriptors, say: none is accepted before another one has ended.
    exhausted: bool,
}

impl Listener {
    /// Listens at `socket`; dropping the listener removes the socket file.
    ///
    /// # Errors
    /// [`Error::Socket`]: a NIC runs there already, or no socket can be made there.
    pub fn new(socket: &Path, limits: Limits) -> Result<Listener, Error> {
        let socket = ListenSocket::new(socket)?;
        let account = MemoryAccount::new(limits.memory_max);
        Ok(Listener { socket, limits, account, clients: Vec::new(), next_id: 1, exhausted: false })
    }

    /// Waits until a program connects, asks something or goes, for `timeout` at most (`None`: without limit), and handles one request
    /// of each connection. Returns true, with nothing handled, as soon as `stop` can be read.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn poll(
        &mut self,
        handler: &mut impl Handler,
        stop: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> Result<bool, Error> {
        let accept = if self.exhausted { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(&self.socket, accept)];
        fds.extend(self.clients.iter().map(|c| PollFd::new(&c.connection, PollFlags::IN)));
        let connections = fds.len();
        fds.extend(stop.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(Error::os("wait for programs")(e)),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let Some(([connecting, asking @ ..], stopping)) = ready.split_at_checked(connections) else {
            return Ok(false);
        };
        if stopping.contains(&true) {
            return Ok(true);
        }
        let asking = self.clients.iter().zip(asking).filter(|(_, ready)| **ready).map(|(c, _)| c.id);
        for id in asking.collect::<Vec<_>>() {
            self.handle_request(handler, id);
        }
        if *connecting {
            self.accept();
        }
        Ok(false)
    }

    fn accept(&mut self) {
        match self.socket.accept() {
            Ok(Some(connection)) => {
                self.clients.push(ConnectedClient { id: self.next_id, connection, attachment: None });
                self.next_id += 1;
            }
            Ok(None) => {}
            Err(e) => {
                let n = self.clients.len();
                tracing::warn!("no further program can connect before one of {n} leaves: {e}");
                self.exhausted = true;
            }
        }
    }

    /// Handles one message of a client, or the end of its connection.
    fn handle_request(&mut self, handler: &mut impl Handler, id: ClientId) {
        let Some(at) = self.clients.iter().position(|c| c.id == id) else { return };
        let Some(client) = self.clients.get(at) else { return };
        let reply = match client.connection.receive::<Request>() {
            Ok(None) => return self.remove(handler, at),
            Err(e) => Reply::Refused { reason: e.to_string() },
            Ok(Some((Request::Hello, _))) => Reply::Hello(handler.hello()),
            Ok(Some((Request::Status, _))) => Reply::Status(handler.status()),
            Ok(Some((Request::Notify { queue }, fd))) => {
                // No reply on this connection: the program learns the outcome by its socket, or not at all.
                if let Err(reason) = self.notify(handler, at, queue, fd) {
                    tracing::warn!("a program will not be notified: {reason}");
                }
                return;
            }
            Ok(Some((Request::Attach { name, mac, rss }, fd))) => {
                reply(Reply::Attached, self.attach(handler, at, ClientInfo { name, mac, rss }, fd))
            }
            Ok(Some((Request::Rss(rss), _))) => reply(Reply::Done, client.set_rss(handler, rss.as_ref())),
        };
        let sent = self.clients.get(at).is_some_and(|c| c.connection.send(&reply, None).is_ok());
        if !sent {
            self.remove(handler, at);
        }
    }

    /// Maps and checks a program's region, and hands it to the NIC; otherwise says why not.
    fn attach(
        &mut self,
        handler: &mut impl Handler,
        at: usize,
        info: ClientInfo,
        fd: Option<OwnedFd>,
    ) -> Result<(), String> {
        let client = self.clients.get(at).ok_or("the program has gone")?;
        if client.attachment.is_some() {
            return Err("this connection has a region already; open another one".to_owned());
        }
        let fd = fd.ok_or("no descriptor came with the request to attach")?;
        let region = self.map(fd)?;
        let layout = Layout::load(&region.memory(), region.size()).map_err(|e| e.to_string())?;
        let queues = layout.config().queues;
        let rss = ConnectedClient::check_rss(handler, info.rss.as_ref(), queues)?;
        let pid = client.connection.peer_pid().map_err(|e| e.to_string())?;
        let connection = client.connection.as_fd().try_clone_to_owned();
        let connection = connection.map_err(|e| format!("could not copy the connection: {e}"))?;
        let memory = self.account.lease(region.size());
        let ClientInfo { name, mac, .. } = info;
        let request =
            AttachRequest { id: client.id, name, mac, rss, pid, layout, region, memory, connection };
        handler.attach(request)?;
        if let Some(client) = self.clients.get_mut(at) {
            let notified = vec![false; queues.into()];
            client.attachment = Some(AttachedClient { notified, budget: Arc::default() });
        }
        Ok(())
    }

    /// Hands a program's notifier for a queue to the NIC; otherwise says why not. Once for each queue, so that a program cannot keep
    /// polling threads busy with sockets.
    fn notify(
        &mut self,
        handler: &mut impl Handler,
        at: usize,
        queue: u16,
        fd: Option<OwnedFd>,
    ) -> Result<(), String> {
        let client = self.clients.get_mut(at).ok_or("the program has gone")?;
        let attachment = client.attachment.as_mut().ok_or("it has not brought a region yet")?;
        let notified = attachment.notified.get_mut(usize::from(queue));
        let notified = notified.ok_or_else(|| format!("its region has no queue {queue}"))?;
        if *notified {
            return Err(format!("queue {queue} has a socket to be notified by already"));
        }
        let fd = fd.ok_or("no descriptor came with the request to notify")?;
        let notifier = Notifier::new(Arc::new(fd), Arc::clone(&attachment.budget))?;
        handler.notify(client.id, queue, notifier)?;
        *notified = true;
        Ok(())
    }

    /// Maps a region that is within both limits.
    fn map(&self, fd: OwnedFd) -> Result<Region, String> {
        let (most, free) = (self.limits.region_max, self.account.free());
        Region::from_fd(fd, most.min(free)).map_err(|e| match e {
            ccnic_shm::Error::TooMuch { size, .. } if size <= most => format!(
                "the region has {size} bytes, {free} are left for this NIC's programs; lower the buffers, detach another program, or raise ccnicd --memory-max"
            ),
            e => e.to_string(),
        })
    }

    /// The connection of a client has ended.
    fn remove(&mut self, handler: &mut impl Handler, at: usize) {
        let client = self.clients.swap_remove(at);
        self.exhausted = false;
        if client.attachment.is_some() {
            handler.detach(client.id);
        }
    }
}

#[cfg(test)]
mod tests;
