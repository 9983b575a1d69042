//! Where programs come in: accepts connections, answers requests, maps and checks regions within their limits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccnic::Layout;
use ccnic::rss::Rss;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::connection::Connection;
use crate::error::Error;
use crate::messages::{Hello, Reply, Request, Status};
use crate::notifier::{Budget, Notifier};
use crate::rss::RssMessage;
use crate::socket::ListenSocket;
use ccnic_shm::Region;

/// Identifies a connection, and the program behind it; never used twice.
pub type ClientId = u64;

/// What programs may take of a NIC's memory: the pages of their regions count as the NIC's.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest region, in bytes.
    pub region_max: u32,
    /// All regions together, in bytes.
    pub memory_max: u64,
}

impl Limits {
    /// What all regions may take when nothing else is said.
    pub fn half_the_memory() -> u64 {
        let info = rustix::system::sysinfo();
        info.totalram / 2 * u64::from(info.mem_unit)
    }
}

/// A NIC as its programs see it.
pub trait Nic {
    /// Who are you?
    fn hello(&self) -> Hello;
    /// What are you doing?
    fn status(&self) -> Status;
    /// Serve this program from now on, or say why not.
    ///
    /// # Errors
    /// The reason, as the program is told.
    fn attach(&mut self, arrival: AttachRequest) -> Result<(), String>;
    /// Spread what an attached program receives over its queues like this from now on, or say why not. Asked where
    /// [`Hello::rss`] is true; elsewhere only to stop.
    ///
    /// # Errors
    /// The reason, as the program is told. Nothing has changed then.
    fn spread(&mut self, _: ClientId, rss: Option<Rss>) -> Result<(), String> {
        rss.map_or(Ok(()), |_| Err(NO_RSS.to_owned()))
    }
    /// Whoever serves this queue of an attached program wakes it by this notifier, and says so ([`Notifier::answer`]).
    ///
    /// # Errors
    /// Why that is not to be.
    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String>;
    /// An attached program has gone: its connection has ended.
    fn detach(&mut self, id: ClientId);
}

const NO_RSS: &str = "this NIC does no RSS: whoever sends to the program chooses the queue";

/// A program that wants to be served: what it said of itself, and its region, mapped and checked.
#[derive(Debug)]
pub struct AttachRequest {
    /// Until it goes.
    pub id: ClientId,
    /// Its name in the status.
    pub name: String,
    /// The address that it goes by, if it said so.
    pub mac: Option<[u8; 6]>,
    /// How what it receives is spread over its queues.
    pub rss: Option<Rss>,
    /// Its process.
    pub pid: i32,
    /// The geometry that its header describes, within the region.
    pub layout: Layout,
    /// Its region.
    pub region: Region,
    /// Its share of the NIC's memory, free for others when this is dropped.
    pub memory: Memory,
    /// Its connection, for a NIC that ends it.
    pub connection: OwnedFd,
}

/// Bytes that count against [`Limits::memory_max`] as long as this lives.
#[derive(Debug)]
pub struct Memory {
    bytes: usize,
    used: Arc<AtomicUsize>,
}

impl Memory {
    fn take(used: &Arc<AtomicUsize>, bytes: u32) -> Memory {
        let bytes = bytes as usize;
        used.fetch_add(bytes, Ordering::Relaxed);
        Memory { bytes, used: Arc::clone(used) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A connection, and what is known of its program if that is served.
#[derive(Debug)]
struct Client {
    id: ClientId,
    connection: Connection,
    attached: Option<Attached>,
}

/// A program that is served.
#[derive(Debug)]
struct Attached {
    /// By queue: whether the program is woken.
    notified: Vec<bool>,
    budget: Arc<Budget>,
}

/// What a program says of itself when it attaches.
struct Introduction {
    name: String,
    mac: Option<[u8; 6]>,
    rss: Option<RssMessage>,
}

/// What a program is told of its request.
fn answer(done: Reply, outcome: Result<(), String>) -> Reply {
    outcome.map_or_else(
        |reason| {
            tracing::warn!("refused a program: {reason}");
            Reply::Refused { reason }
        },
        |()| done,
    )
}

impl Client {
    /// What the program, which has so many queues, wants of RSS.
    fn check(&self, nic: &impl Nic, rss: Option<&RssMessage>, queues: u16) -> Result<Option<Rss>, String> {
        match rss {
            Some(_) if !nic.hello().rss => Err(NO_RSS.to_owned()),
            rss => rss.map(|rss| rss.check(queues)).transpose(),
        }
    }

    fn spread(&self, nic: &mut impl Nic, rss: Option<&RssMessage>) -> Result<(), String> {
        let attached = self.attached.as_ref().ok_or("attach a region before you ask for RSS")?;
        let rss = self.check(nic, rss, attached.queues())?;
        nic.spread(self.id, rss)
    }
}

impl Attached {
    fn queues(&self) -> u16 {
        self.notified.len() as u16 // one for each
    }
}

/// The place where programs come in. Belongs to one thread.
#[derive(Debug)]
pub struct Listener {
    socket: ListenSocket,
    limits: Limits,
    used: Arc<AtomicUsize>,
    clients: Vec<Client>,
    next_id: ClientId,
    /// The system had nothing left for another connection.
    crowded: bool,
}

impl Listener {
    /// Listens at `socket`; its file goes when this is dropped.
    ///
    /// # Errors
    /// [`Error::Socket`]: a NIC runs there already, or the place is no good.
    pub fn new(socket: &Path, limits: Limits) -> Result<Listener, Error> {
        let socket = ListenSocket::new(socket)?;
        Ok(Listener { socket, limits, used: Arc::default(), clients: Vec::new(), next_id: 1, crowded: false })
    }

    /// Waits until a program comes or says something, for `timeout` at most (`None`: for ever), and deals with it. Ends early
    /// when `stop` can be read: then true, and nothing has been dealt with.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn turn(
        &mut self,
        nic: &mut impl Nic,
        stop: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> Result<bool, Error> {
        let arrivals = if self.crowded { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(&self.socket, arrivals)];
        fds.extend(self.clients.iter().map(|c| PollFd::new(&c.connection, PollFlags::IN)));
        let programs = fds.len();
        fds.extend(stop.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(Error::os("wait for programs")(e)),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let Some(([arriving, talking @ ..], stopping)) = ready.split_at_checked(programs) else {
            return Ok(false);
        };
        if stopping.contains(&true) {
            return Ok(true);
        }
        let talking = self.clients.iter().zip(talking).filter(|(_, ready)| **ready).map(|(c, _)| c.id);
        for id in talking.collect::<Vec<_>>() {
            self.receive(nic, id);
        }
        if *arriving {
            self.welcome();
        }
        Ok(false)
    }

    /// A program connects.
    fn welcome(&mut self) {
        match self.socket.accept() {
            Ok(Some(connection)) => {
                self.clients.push(Client { id: self.next_id, connection, attached: None });
                self.next_id += 1;
            }
            Ok(None) => {}
            Err(e) => {
                let n = self.clients.len();
                tracing::warn!("no further program can connect before one of {n} leaves: {e}");
                self.crowded = true;
            }
        }
    }

    /// One message of a client, or its end.
    fn receive(&mut self, nic: &mut impl Nic, id: ClientId) {
        let Some(at) = self.clients.iter().position(|c| c.id == id) else { return };
        let Some(client) = self.clients.get(at) else { return };
        let reply = match client.connection.receive::<Request>() {
            Ok(None) => return self.forget(nic, at),
            Err(e) => Reply::Refused { reason: e.to_string() },
            Ok(Some((Request::Hello, _))) => Reply::Hello(nic.hello()),
            Ok(Some((Request::Status, _))) => Reply::Status(nic.status()),
            Ok(Some((Request::Notify { queue }, fd))) => {
                // Not answered here: the program hears of it by its socket, or not at all.
                if let Err(reason) = self.notify(nic, at, queue, fd) {
                    tracing::warn!("a program will not be woken: {reason}");
                }
                return;
            }
            Ok(Some((Request::Attach { name, mac, rss }, fd))) => {
                answer(Reply::Attached, self.attach(nic, at, Introduction { name, mac, rss }, fd))
            }
            Ok(Some((Request::Rss(rss), _))) => answer(Reply::Done, client.spread(nic, rss.as_ref())),
        };
        let sent = self.clients.get(at).is_some_and(|c| c.connection.send(&reply, None).is_ok());
        if !sent {
            self.forget(nic, at);
        }
    }

    /// Maps and checks a program's region, and hands it to the NIC; otherwise says why not.
    fn attach(
        &mut self,
        nic: &mut impl Nic,
        at: usize,
        who: Introduction,
        fd: Option<OwnedFd>,
    ) -> Result<(), String> {
        let client = self.clients.get(at).ok_or("the program has gone")?;
        if client.attached.is_some() {
            return Err("this connection has a region already; open another one".to_owned());
        }
        let fd = fd.ok_or("no descriptor came with the request to attach")?;
        let region = self.map(fd)?;
        let layout = Layout::load(&region.memory(), region.size()).map_err(|e| e.to_string())?;
        let queues = layout.config().queues;
        let rss = client.check(nic, who.rss.as_ref(), queues)?;
        let pid = client.connection.peer_pid().map_err(|e| e.to_string())?;
        let connection = client.connection.as_fd().try_clone_to_owned();
        let connection = connection.map_err(|e| format!("could not copy the connection: {e}"))?;
        let memory = Memory::take(&self.used, region.size());
        let Introduction { name, mac, .. } = who;
        nic.attach(AttachRequest { id: client.id, name, mac, rss, pid, layout, region, memory, connection })?;
        if let Some(client) = self.clients.get_mut(at) {
            let notified = vec![false; queues.into()];
            client.attached = Some(Attached { notified, budget: Arc::default() });
        }
        Ok(())
    }

    /// Has a program's queue woken by the socket that it sent; otherwise says why not. Once for each queue: a program must not keep
    /// polling threads busy with sockets.
    fn notify(
        &mut self,
        nic: &mut impl Nic,
        at: usize,
        queue: u16,
        fd: Option<OwnedFd>,
    ) -> Result<(), String> {
        let client = self.clients.get_mut(at).ok_or("the program has gone")?;
        let attached = client.attached.as_mut().ok_or("it has not brought a region yet")?;
        let notified = attached.notified.get_mut(usize::from(queue));
        let notified = notified.ok_or_else(|| format!("its region has no queue {queue}"))?;
        if *notified {
            return Err(format!("queue {queue} has a socket to be woken by already"));
        }
        let fd = fd.ok_or("no descriptor came with the request to notify")?;
        let notifier = Notifier::new(fd, Arc::clone(&attached.budget))?;
        nic.notify(client.id, queue, notifier)?;
        *notified = true;
        Ok(())
    }

    /// Maps a region that is no larger than any may be, and than all together may still become.
    fn map(&self, fd: OwnedFd) -> Result<Region, String> {
        let (most, free) = (self.limits.region_max, self.free());
        Region::from_fd(fd, most.min(free)).map_err(|e| match e {
            ccnic_shm::Error::TooMuch { size, .. } if size <= most => format!(
                "the region has {size} bytes, {free} are left for this NIC's programs; lower the buffers, detach another program, or raise ccnicd --memory-max"
            ),
            e => e.to_string(),
        })
    }

    /// Bytes of memory that further regions may take.
    fn free(&self) -> u32 {
        let used = self.used.load(Ordering::Relaxed) as u64;
        u32::try_from(self.limits.memory_max.saturating_sub(used)).unwrap_or(u32::MAX)
    }

    /// A program has gone.
    fn forget(&mut self, nic: &mut impl Nic, at: usize) {
        let client = self.clients.swap_remove(at);
        self.crowded = false;
        if client.attached.is_some() {
            nic.detach(client.id);
        }
    }
}
