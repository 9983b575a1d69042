//! The control thread: takes programs in and deals their queues to the polling threads.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use ccnic_shm::control::{Hello, ProgramStatus, Status};
use ccnic_shm::nic::{Arrival, Bell, Limits, Memory, Nic, ProgramId, Reception};
use ccnic_shm::numa;

use crate::served::serve;
use crate::wire::Wire;
use crate::worker::Worker;

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

/// A program being served.
struct Attached {
    id: ProgramId,
    name: String,
    pid: i32,
    design: &'static str,
    /// By queue: which of the workers serves it.
    workers: Vec<usize>,
    _memory: Memory,
}

/// The NIC daemon.
pub struct Daemon {
    reception: Reception,
    switchboard: Switchboard,
}

/// Who serves whom: what programs ask of the daemon ends here.
struct Switchboard {
    options: Options,
    workers: Vec<Worker>,
    programs: Vec<Attached>,
    started: Instant,
}

impl Daemon {
    /// Binds the socket and starts the polling threads.
    ///
    /// # Errors
    /// When a daemon already runs at the socket, or the system refuses something.
    pub fn new(options: Options) -> anyhow::Result<Daemon> {
        let limits = Limits { region_max: options.region_max, memory_max: options.memory_max };
        let reception = Reception::new(&options.socket, limits)?;
        let workers = options
            .cores
            .iter()
            .map(|&cpu| Worker::start(cpu, options.alone))
            .collect::<Result<Vec<_>, _>>()
            .context("could not start a polling thread")?;
        tracing::info!(
            socket = %options.socket.display(), cores = ?options.cores, wire = options.wire.name(), "ccnicd {VERSION} is ready"
        );
        let switchboard = Switchboard { options, workers, programs: Vec::new(), started: Instant::now() };
        Ok(Daemon { reception, switchboard })
    }

    /// Serves until something can be read from `stop`.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn run(mut self, stop: UnixStream) -> anyhow::Result<()> {
        while !self.reception.turn(&mut self.switchboard, Some(stop.as_fd()), None)? {}
        tracing::info!("stopping: serving what has been submitted");
        Ok(())
    }
}

impl Switchboard {
    /// Deals a program's queues to the workers, the least busy first.
    fn serve(&mut self, arrival: Arrival) -> anyhow::Result<()> {
        let Arrival { id, name, pid, layout, region, memory, .. } = arrival;
        let queues = (0..layout.config().queues)
            .map(|q| serve(&region, &layout, q, self.options.wire))
            .collect::<Option<Vec<_>>>()
            .context("the region's queues do not match its design")?;
        let count = queues.len();
        let mut workers = Vec::with_capacity(count);
        for queue in queues {
            let all = self.workers.iter_mut().enumerate();
            let (at, worker) = all.min_by_key(|(_, w)| w.queues).context("no polling thread")?;
            anyhow::ensure!(worker.add(id, queue), "a polling thread has died; restart ccnicd");
            workers.push(at);
        }
        let design = layout.config().design.name();
        tracing::info!(name, pid, queues = count, design, bytes = region.size(), "attached");
        self.programs.push(Attached { id, name, pid, design, workers, _memory: memory });
        Ok(())
    }
}

impl Nic for Switchboard {
    fn hello(&self) -> Hello {
        let node = self.options.cores.first().map_or(0, |cpu| numa::node_of(*cpu));
        Hello { version: VERSION.to_owned(), node }
    }

    fn attach(&mut self, arrival: Arrival) -> Result<(), String> {
        self.serve(arrival).map_err(|e| format!("{e:#}"))
    }

    fn notify(&mut self, id: ProgramId, queue: u16, bell: Bell) -> Result<(), String> {
        let program = self.programs.iter().find(|p| p.id == id);
        let worker = program.and_then(|p| p.workers.get(usize::from(queue)));
        let worker = worker.and_then(|at| self.workers.get(*at)).ok_or("nobody serves it")?;
        if worker.notify(id, queue, bell) { Ok(()) } else { Err("a polling thread has died".to_owned()) }
    }

    /// What the program had submitted is served, its region released.
    fn detach(&mut self, id: ProgramId) {
        let Some(at) = self.programs.iter().position(|p| p.id == id) else { return };
        let Attached { name, pid, .. } = self.programs.remove(at);
        let (done, queues) = std::sync::mpsc::channel();
        for worker in &mut self.workers {
            let served = worker.report().iter().filter(|(program, _)| *program == id).count();
            if served > 0 {
                worker.remove(id, served, done.clone());
            }
        }
        drop(done);
        // Unmapping a large region takes milliseconds: neither a polling thread nor the next program waits for that.
        let unmap = std::thread::Builder::new().name("unmap".to_owned());
        let _ = unmap.spawn(move || queues.into_iter().for_each(drop)); // without a thread the others do wait
        tracing::info!(name, pid, "detached");
    }

    fn status(&self) -> Status {
        let queues: Vec<_> = self.workers.iter().flat_map(Worker::report).collect();
        let programs = self.programs.iter().map(|program| {
            let mut mine: Vec<_> =
                queues.iter().filter(|(id, _)| *id == program.id).map(|(_, q)| *q).collect();
            mine.sort_by_key(|q| q.queue);
            ProgramStatus {
                name: program.name.clone(),
                pid: program.pid,
                design: program.design.to_owned(),
                queues: mine,
            }
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
        f.debug_struct("Daemon").field("options", &self.switchboard.options).finish_non_exhaustive()
    }
}
