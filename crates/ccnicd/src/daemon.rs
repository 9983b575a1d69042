//! The control thread: accepts programs, answers them, and deals their queues to the polling threads.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use ccnic::Layout;
use ccnic_shm::control::{Connection, Hello, ProgramStatus, Reply, Request, Status};
use ccnic_shm::{Error, Region, numa};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::listener::Listener;
use crate::served::serve;
use crate::wire::Wire;
use crate::worker::{ProgramId, Worker};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How a daemon is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where programs connect.
    pub socket: PathBuf,
    /// CPUs that poll; at least one.
    pub cores: Vec<usize>,
    /// What queue pairs are connected to.
    pub wire: Wire,
    /// The largest region that is accepted, in bytes.
    pub region_max: u32,
    /// What all regions together may take, in bytes: their pages count as the daemon's.
    pub memory_max: u64,
    /// False when programs share the polling cores.
    pub alone: bool,
}

/// Where programs and the daemon meet when nothing else is said: `ccnic.sock` in `/run` for root, in the user's runtime
/// directory otherwise.
pub fn default_socket() -> PathBuf {
    let directory = if rustix::process::geteuid().is_root() {
        PathBuf::from("/run")
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
    };
    directory.join("ccnic.sock")
}

/// A program that has connected.
struct Client {
    id: ProgramId,
    connection: Connection,
    attached: Option<Attached>,
}

/// A region being served. Dropping it unmaps the region, when the workers have let go of theirs.
struct Attached {
    name: String,
    pid: i32,
    layout: Layout,
    bytes: u64,
}

/// The NIC daemon.
pub struct Daemon {
    options: Options,
    listener: Listener,
    workers: Vec<Worker>,
    clients: Vec<Client>,
    next_id: ProgramId,
    /// The system had nothing left for another connection.
    crowded: bool,
    started: Instant,
}

impl Daemon {
    /// Binds the socket and starts the polling threads.
    ///
    /// # Errors
    /// When a daemon already runs at the socket, or the system refuses something.
    pub fn new(options: Options) -> anyhow::Result<Daemon> {
        let listener = Listener::new(&options.socket)?;
        let workers = options
            .cores
            .iter()
            .map(|&cpu| Worker::start(cpu, options.alone))
            .collect::<Result<Vec<_>, _>>()
            .context("could not start a polling thread")?;
        tracing::info!(
            socket = %options.socket.display(), cores = ?options.cores, wire = options.wire.name(), "ccnicd {VERSION} is ready"
        );
        Ok(Daemon {
            options,
            listener,
            workers,
            clients: Vec::new(),
            next_id: 1,
            crowded: false,
            started: Instant::now(),
        })
    }

    /// Serves until something can be read from `stop`.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn run(mut self, mut stop: UnixStream) -> anyhow::Result<()> {
        loop {
            let arrivals = if self.crowded { PollFlags::empty() } else { PollFlags::IN };
            let mut fds = vec![PollFd::new(&stop, PollFlags::IN), PollFd::new(&self.listener, arrivals)];
            fds.extend(self.clients.iter().map(|c| PollFd::new(&c.connection, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e).context("could not wait for programs"),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            let [stopping, arriving, talking @ ..] = ready.as_slice() else { continue };
            if *stopping {
                let _ = stop.read(&mut [0]); // what it says does not matter
                break;
            }
            let talking: Vec<ProgramId> =
                self.clients.iter().zip(talking).filter(|(_, r)| **r).map(|(c, _)| c.id).collect();
            talking.into_iter().for_each(|id| self.hear(id));
            if *arriving {
                self.welcome();
            }
        }
        tracing::info!("stopping: serving what has been submitted");
        Ok(())
    }

    /// A program connects.
    fn welcome(&mut self) {
        match self.listener.accept() {
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
    fn hear(&mut self, id: ProgramId) {
        let Some(at) = self.clients.iter().position(|c| c.id == id) else { return };
        let Some(client) = self.clients.get(at) else { return };
        let (reply, fd) = match client.connection.receive::<Request>() {
            Ok(None) => return self.forget(at),
            Err(e) => (Err(e.to_string()), None),
            Ok(Some((request, fd))) => (Ok(request), fd),
        };
        let reply = match reply {
            Err(reason) => Reply::Refused { reason },
            Ok(Request::Hello) => Reply::Hello(self.hello()),
            Ok(Request::Status) => Reply::Status(self.status()),
            Ok(Request::Attach { name }) => match self.attach(at, name, fd) {
                Ok(()) => Reply::Attached,
                Err(e) => {
                    tracing::warn!("refused a program: {e:#}");
                    Reply::Refused { reason: format!("{e:#}") }
                }
            },
        };
        let sent = self.clients.get(at).is_some_and(|c| c.connection.send(&reply, None).is_ok());
        if !sent {
            self.forget(at);
        }
    }

    fn hello(&self) -> Hello {
        let node = self.options.cores.first().map_or(0, |cpu| numa::node_of(*cpu));
        Hello { version: VERSION.to_owned(), node }
    }

    /// Maps and checks a program's region, and deals its queues to the workers, the least busy first.
    fn attach(&mut self, at: usize, name: String, fd: Option<OwnedFd>) -> anyhow::Result<()> {
        let client = self.clients.get(at).context("the program has gone")?;
        anyhow::ensure!(client.attached.is_none(), "this connection has a region already; open another one");
        let fd = fd.context("no descriptor came with the request to attach")?;
        let region = self.map(fd)?;
        let layout = Layout::load(&region.port(), region.size())?;
        let pid = client.connection.peer_pid()?;
        let queues = (0..layout.config().queues)
            .map(|q| serve(&region, &layout, q, self.options.wire))
            .collect::<Option<Vec<_>>>()
            .context("the region's queues do not match its design")?;
        let count = queues.len();
        let client = self.clients.get_mut(at).context("the program has gone")?;
        for queue in queues {
            let worker = self.workers.iter_mut().min_by_key(|w| w.queues).context("no polling thread")?;
            anyhow::ensure!(worker.add(client.id, queue), "a polling thread has died; restart ccnicd");
        }
        let design = layout.config().design.name();
        tracing::info!(name, pid, queues = count, design, bytes = region.size(), "attached");
        client.attached = Some(Attached { name, pid, layout, bytes: region.size().into() });
        Ok(())
    }

    /// Maps a region that is no larger than any may be, and than all together may still become.
    fn map(&self, fd: OwnedFd) -> anyhow::Result<Region> {
        let (most, free) = (self.options.region_max, self.free());
        Region::from_fd(fd, most.min(free)).map_err(|e| match e {
            Error::TooMuch { size, .. } if size <= most => anyhow::anyhow!(
                "the region has {size} bytes, {free} are left for this NIC's programs; lower the buffers, detach another program, or raise ccnicd --memory-max"
            ),
            e => e.into(),
        })
    }

    /// Bytes of memory that further regions may take.
    fn free(&self) -> u32 {
        let used: u64 = self.clients.iter().filter_map(|c| c.attached.as_ref()).map(|a| a.bytes).sum();
        u32::try_from(self.options.memory_max.saturating_sub(used)).unwrap_or(u32::MAX)
    }

    /// A program has gone: what it had submitted is served, its region released.
    fn forget(&mut self, at: usize) {
        let client = self.clients.swap_remove(at);
        self.crowded = false;
        let Some(attached) = client.attached else { return };
        let (done, queues) = std::sync::mpsc::channel();
        for worker in &mut self.workers {
            let served = worker.report().iter().filter(|(id, _)| *id == client.id).count();
            if served > 0 {
                worker.remove(client.id, served, done.clone());
            }
        }
        drop(done);
        // Unmapping a large region takes milliseconds: neither a polling thread nor the next program waits for that.
        let unmap = std::thread::Builder::new().name("unmap".to_owned());
        let _ = unmap.spawn(move || queues.into_iter().for_each(drop)); // without a thread the others do wait
        tracing::info!(name = attached.name, pid = attached.pid, "detached");
    }

    fn status(&self) -> Status {
        let queues: Vec<_> = self.workers.iter().flat_map(Worker::report).collect();
        let programs = self.clients.iter().filter_map(|client| {
            let attached = client.attached.as_ref()?;
            let mut mine: Vec<_> =
                queues.iter().filter(|(id, _)| *id == client.id).map(|(_, q)| *q).collect();
            mine.sort_by_key(|q| q.queue);
            Some(ProgramStatus {
                name: attached.name.clone(),
                pid: attached.pid,
                design: attached.layout.config().design.name().to_owned(),
                queues: mine,
            })
        });
        Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            wire: self.options.wire.name().to_owned(),
            cores: self.options.cores.clone(),
            programs: programs.collect(),
        }
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("options", &self.options).finish_non_exhaustive()
    }
}
