//! The control thread: takes programs in and deals their queues to the polling threads.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use ccnic::rss::{Rss, Spreader};
use ccnic_control::messages::{Hello, ProgramStatus, Status};
use ccnic_control::rss::RssMessage;
use ccnic_control::{AttachRequest, ClientId, Limits, Listener, Memory, Nic, Notifier};
use ccnic_shm::numa;

use crate::served::{Serve, serve};
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
    id: ClientId,
    name: String,
    pid: i32,
    design: &'static str,
    rss: Option<RssMessage>,
    /// By queue: which of the workers serves it.
    workers: Vec<usize>,
    _memory: Memory,
}

/// The NIC daemon.
pub struct Daemon {
    listener: Listener,
    control: ControlPlane,
}

/// Who serves whom: what programs ask of the daemon ends here.
struct ControlPlane {
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
        let listener = Listener::new(&options.socket, limits)?;
        let workers = options
            .cores
            .iter()
            .map(|&cpu| Worker::start(cpu, options.alone))
            .collect::<Result<Vec<_>, _>>()
            .context("could not start a polling thread")?;
        tracing::info!(
            socket = %options.socket.display(), cores = ?options.cores, wire = options.wire.name(), "ccnicd {VERSION} is ready"
        );
        let control = ControlPlane { options, workers, programs: Vec::new(), started: Instant::now() };
        Ok(Daemon { listener, control })
    }

    /// Serves until something can be read from `stop`.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn run(mut self, stop: UnixStream) -> anyhow::Result<()> {
        while !self.listener.turn(&mut self.control, Some(stop.as_fd()), None)? {}
        tracing::info!("stopping: serving what has been submitted");
        Ok(())
    }
}

impl ControlPlane {
    /// Deals a program's queues to the workers.
    fn serve(&mut self, arrival: AttachRequest) -> anyhow::Result<()> {
        let AttachRequest { id, name, pid, layout, region, memory, rss, .. } = arrival;
        let count = layout.config().queues;
        let mut workers = vec![0; count.into()];
        for (at, numbers) in deal(&self.workers, count, rss.is_some()) {
            for queue in &numbers {
                workers.get_mut(usize::from(*queue)).into_iter().for_each(|worker| *worker = at);
            }
            let mut queues = serve(&region, &layout, numbers, self.options.wire)
                .context("the region's queues do not match its design")?;
            queues.spread(spreader(rss.as_ref()));
            let worker = self.workers.get_mut(at).context("no polling thread")?;
            anyhow::ensure!(worker.add(id, queues), DIED);
        }
        let design = layout.config().design.name();
        let spread = rss.is_some();
        tracing::info!(name, pid, queues = count, design, rss = spread, bytes = region.size(), "attached");
        let rss = rss.as_ref().map(RssMessage::from);
        self.programs.push(Attached { id, name, pid, design, rss, workers, _memory: memory });
        Ok(())
    }

    /// Brings all queues of a program to one worker, where one may deliver into the ring of another, and has it spread packets.
    /// They stay there when it ends to.
    fn gather(&mut self, id: ClientId, rss: Option<&Rss>) -> anyhow::Result<()> {
        let program = self.programs.iter_mut().find(|p| p.id == id).context("the program has gone")?;
        let spreader = spreader(rss); // while the queues are still served
        let parts = self.workers.iter_mut().filter_map(|worker| worker.take(id));
        let together = |mut all: Box<dyn Serve>, part| {
            all.join(part);
            all
        };
        let mut all = parts.reduce(together).context(DIED)?;
        let whole = all.queues() == program.workers.len();
        if whole {
            all.spread(spreader);
            program.rss = rss.map(RssMessage::from);
        }
        let workers = self.workers.iter_mut().enumerate();
        let (at, worker) = workers.min_by_key(|(_, w)| w.queues).context("no polling thread")?;
        program.workers.fill(at);
        anyhow::ensure!(worker.add(id, all) && whole, DIED);
        Ok(())
    }
}

const DIED: &str = "a polling thread has died; restart ccnicd";

/// Which worker serves which of so many queues: the least busy first, one by one or all `together`.
fn deal(workers: &[Worker], queues: u16, together: bool) -> Vec<(usize, Vec<u16>)> {
    let mut lots: Vec<_> = workers.iter().map(|worker| (worker.queues, Vec::new())).collect();
    let mut first = 0;
    for queue in 0..queues {
        let at = lots.iter().enumerate().min_by_key(|(_, (load, _))| *load).map_or(0, |(at, _)| at);
        first = if together && queue > 0 { first } else { at };
        if let Some((load, lot)) = lots.get_mut(first) {
            *load += 1;
            lot.push(queue);
        }
    }
    let lots = lots.into_iter().map(|(_, lot)| lot).enumerate();
    lots.filter(|(_, lot)| !lot.is_empty()).collect()
}

fn spreader(rss: Option<&Rss>) -> Option<Box<Spreader>> {
    rss.map(|rss| Box::new(Spreader::new(rss.clone())))
}

impl Nic for ControlPlane {
    fn hello(&self) -> Hello {
        let node = self.options.cores.first().map_or(0, |cpu| numa::node_of(*cpu));
        Hello { version: VERSION.to_owned(), node, rss: true }
    }

    fn attach(&mut self, arrival: AttachRequest) -> Result<(), String> {
        self.serve(arrival).map_err(|e| format!("{e:#}"))
    }

    fn spread(&mut self, id: ClientId, rss: Option<Rss>) -> Result<(), String> {
        let spread = self.programs.iter().any(|p| p.id == id && p.rss.is_some());
        if rss.is_none() && !spread {
            return Ok(());
        }
        self.gather(id, rss.as_ref()).map_err(|e| format!("{e:#}"))
    }

    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String> {
        let program = self.programs.iter().find(|p| p.id == id);
        let worker = program.and_then(|p| p.workers.get(usize::from(queue)));
        let worker = worker.and_then(|at| self.workers.get(*at)).ok_or("nobody serves it")?;
        if worker.notify(id, queue, notifier) { Ok(()) } else { Err("a polling thread has died".to_owned()) }
    }

    /// What the program had submitted is served, its region released.
    fn detach(&mut self, id: ClientId) {
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
                rss: program.rss.clone(),
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
        f.debug_struct("Daemon").field("options", &self.control.options).finish_non_exhaustive()
    }
}
