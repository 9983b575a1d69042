//! A server from its start to its end. The main thread takes new clients and signals; the others serve.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ccnic_tcp::Stack;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use super::datagrams::{Datagrams, Kind};
use super::listen::{self, Listener, Sockets};
use super::nic::{self, NicWorker};
use super::poller::Poller;
use super::snapshots::{self, Snapshots};
use super::worker::{Mailbox, NewClient, Worker};
use super::{Options, process, say, unix_time};
use crate::protocol::{Endpoint, Listed, Server, ServerCounters, Settings};
use crate::store::snapshot::{self, SnapshotError};
use crate::store::{Limits, Store};

const SIGNAL: u64 = u64::MAX;
/// Clients of a listener that are accepted at once.
const ACCEPTED: usize = 64;

/// Runs a server until it is told to end.
pub fn run(options: &Options) -> anyhow::Result<()> {
    options.check()?;
    if options.ccnic.is_none() {
        process::allow_files(options.conn_limit)?;
    }
    if options.lock_memory {
        process::allow_locking();
    }
    if let Some(user) = &options.user {
        process::become_user(user)?;
    }
    let options = &process::absolute(options).context("the current folder")?;
    let signals = Signals::new().context("cannot wait for signals")?;
    let limits = Limits {
        memory: options.memory_limit << 20,
        item: options.item_size()?,
        evict: !options.disable_evictions,
        cas: !options.disable_cas,
    };
    let store = Arc::new(Store::new(options.shards(limits.item), &limits, unix_time()));
    if let Some(path) = &options.snapshot {
        snapshot::remove_leftovers(path);
    }
    if let Some(path) = &options.snapshot {
        match snapshot::load(&mut store.session(unix_time()), path, &|| signals.ended()) {
            Ok(None) => {}
            Ok(Some(items)) => say(options, &format!("{items} items loaded from {}", path.display())),
            // The file stays as it is.
            Err(error @ SnapshotError::Stopped(_)) => {
                say(options, &error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error).context("--snapshot"),
        }
        // At its end it would be too late to say so.
        snapshot::try_out(path).context("--snapshot")?;
    }
    let sockets = Sockets::open(options)?;
    let socket_file = options.unix_socket.as_deref().and_then(listen::identity);
    // Whatever fails until here is told where the program was started.
    if options.daemon {
        process::become_daemon(options)?;
    }
    if options.lock_memory {
        process::lock_memory();
    }
    let server = Arc::new(server(options));
    let stacks = nic::open(options)?;
    let mut crew = Crew::new(options, &store, &server, &signals);
    crew.start_on_nic(stacks)?;
    crew.start_on_sockets(&sockets)?;
    let Crew { workers, threads, .. } = crew;
    let listed = list(options, &sockets, &server)?;
    if let Some(path) = &options.pidfile {
        process::write_pid(path);
    }
    say(options, "ready");
    let sockets_threads =
        if options.ccnic.is_some() { sockets.listeners.len().min(1) } else { workers.len() };
    let snapshots = Snapshots::start(options, &store)?;
    let front = Front {
        options,
        snapshots: snapshots.as_ref(),
        server: &server,
        workers: &workers[..sockets_threads],
        next: 0,
    };
    let mut result = front.serve(&sockets.listeners, &signals);
    drop((sockets, listed));
    workers.iter().for_each(|worker| worker.stop());
    if let Some(snapshots) = snapshots {
        snapshots.end();
    }
    for thread in threads {
        let ended = match thread.join() {
            Ok(ended) => ended.context("a server thread failed"),
            Err(_) => Err(anyhow!("a server thread panicked")),
        };
        // Whatever has failed, what is stored is saved.
        result = result.and(ended);
    }
    if let Some(path) = &options.unix_socket {
        // Another server may listen there meanwhile.
        if socket_file.is_some() && socket_file == listen::identity(path) {
            let _ = std::fs::remove_file(path);
        }
    }
    if let Some(path) = options.pidfile.as_ref().filter(|_| options.daemon) {
        process::remove_pid(path);
    }
    snapshots::save(options, &store)?;
    result
}

/// What is listened to, for `stats conns`.
fn list(options: &Options, sockets: &Sockets, server: &Server) -> anyhow::Result<Vec<Listed>> {
    let mut all: Vec<Endpoint> = sockets.listeners.iter().map(Listener::endpoint).collect();
    for socket in sockets.text.iter().chain(&sockets.rpc) {
        all.push(Endpoint::Udp(socket.local_addr()?));
    }
    all.extend(nic::endpoints(options)?);
    let now = unix_time();
    Ok(all.into_iter().map(|endpoint| server.connections.add(endpoint, None, now)).collect())
}

fn server(options: &Options) -> Server {
    let tcp = options.unix_socket.is_none() || options.ccnic.is_some();
    let settings = Settings {
        port: if tcp { options.port } else { 0 },
        udp_port: if tcp { options.udp_port } else { 0 },
        address: (!options.listen.is_empty()).then(|| options.listen.join(",")),
        socket: options.unix_socket.as_ref().map(|path| path.display().to_string()),
        threads: options.threads,
        connections: options.conn_limit,
        no_eviction: options.disable_evictions,
        no_flush: options.disable_flush_all,
        memory_limit: options.enable_cache_memlimit,
        idle_timeout: options.idle_timeout,
        verbosity: AtomicU32::new(options.verbose.into()),
        access: options.socket_mode().unwrap_or_default(),
        backlog: options.listen_backlog,
        requests_per_event: options.max_reqs_per_event,
        no_cas: options.disable_cas,
        shutdown: options.enable_shutdown,
        processor_time: Some(process::processor_time),
    };
    let counters = ServerCounters { started: AtomicU32::new(unix_time()), ..ServerCounters::default() };
    Server { settings, counters, ..Server::default() }
}

/// The server threads, while they are started.
struct Crew<'a> {
    options: &'a Options,
    store: &'a Arc<Store>,
    server: &'a Arc<Server>,
    signals: &'a Signals,
    /// Those that serve kernel sockets first.
    workers: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl<'a> Crew<'a> {
    fn new(
        options: &'a Options,
        store: &'a Arc<Store>,
        server: &'a Arc<Server>,
        signals: &'a Signals,
    ) -> Crew<'a> {
        Crew { options, store, server, signals, workers: Vec::new(), threads: Vec::new() }
    }

    fn start(
        &mut self,
        name: String,
        run: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let end = self.signals.end_of_a_thread()?;
        let ends = move || {
            // Also when it panics: without this thread the server is none.
            let _end = end;
            run()
        };
        let thread = std::thread::Builder::new().name(name);
        self.threads.push(thread.spawn(ends).context("cannot start a thread")?);
        Ok(())
    }

    fn start_on_nic(&mut self, stacks: Vec<Stack>) -> anyhow::Result<()> {
        for (number, stack) in stacks.into_iter().enumerate() {
            let mailbox = Arc::new(Mailbox::new()?);
            let (store, server) = (self.store.clone(), self.server.clone());
            let worker = NicWorker::new(number, stack, self.options, store, server, mailbox.clone())?;
            self.start(format!("kv-nic-{number}"), || worker.run())?;
            self.workers.push(mailbox);
        }
        Ok(())
    }

    /// Beside threads on a NIC one is enough.
    fn start_on_sockets(&mut self, sockets: &Sockets) -> anyhow::Result<()> {
        let threads = match self.workers.len() {
            0 => self.options.threads,
            _ => sockets.listeners.len().min(1),
        };
        for number in 0..threads {
            let mailbox = Arc::new(Mailbox::new()?);
            let mut datagrams = Vec::new();
            for socket in &sockets.text {
                datagrams.push(Datagrams::new(socket.try_clone()?, Kind::Text));
            }
            if let Some(socket) = sockets.rpc.get(number) {
                datagrams.push(Datagrams::new(socket.try_clone()?, Kind::Rpc));
            }
            let (store, server) = (self.store.clone(), self.server.clone());
            let worker = Worker { number, store, server, mailbox: mailbox.clone(), datagrams };
            self.start(format!("kv-{number}"), || Ok(worker.run()?))?;
            self.workers.insert(number, mailbox);
        }
        Ok(())
    }
}

/// Signals as something to poll.
struct Signals {
    wake: UnixStream,
    sender: UnixStream,
    end: Arc<AtomicBool>,
    snapshot: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        let (wake, sender) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (end, snapshot) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [(SIGTERM, &end), (SIGINT, &end), (SIGUSR1, &snapshot)] {
            // The flag first: who wakes up finds it.
            signal_hook::flag::register(signal, flag.clone())?;
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Signals { wake, sender, end, snapshot })
    }

    fn end_of_a_thread(&self) -> io::Result<EndOfThread> {
        Ok(EndOfThread { sender: self.sender.try_clone()?, end: self.end.clone() })
    }

    /// The server is to end.
    fn ended(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    fn drain(&self) {
        while rustix::io::read(&self.wake, &mut [0u8; 64][..]).is_ok_and(|count| count > 0) {}
    }
}

/// A server thread's end is the server's: as by a signal.
struct EndOfThread {
    sender: UnixStream,
    end: Arc<AtomicBool>,
}

impl Drop for EndOfThread {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&self.sender, b"e");
    }
}

/// What the main thread does.
struct Front<'a> {
    options: &'a Options,
    snapshots: Option<&'a Snapshots>,
    server: &'a Server,
    workers: &'a [Arc<Mailbox>],
    next: usize,
}

impl Front<'_> {
    fn serve(mut self, listeners: &[Listener], signals: &Signals) -> anyhow::Result<()> {
        let mut poller = Poller::new()?;
        poller.add(&signals.wake, SIGNAL, false)?;
        for (number, listener) in listeners.iter().enumerate() {
            poller.add(listener, number as u64, false)?;
        }
        while !signals.ended() {
            let ready: Vec<u64> = poller.wait(60_000)?.collect();
            for token in ready {
                if token == SIGNAL {
                    signals.drain();
                } else {
                    self.accept(&listeners[token as usize]);
                }
            }
            if signals.snapshot.swap(false, Ordering::Relaxed) {
                self.snapshot();
            }
        }
        say(self.options, "ends");
        Ok(())
    }

    fn snapshot(&self) {
        match self.snapshots {
            None => eprintln!("ccnic-kv: SIGUSR1 without --snapshot: there is no file to write to"),
            Some(snapshots) => snapshots.ask(),
        }
    }

    fn accept(&mut self, listener: &Listener) {
        // Signals are looked at in between.
        for _ in 0..ACCEPTED {
            match listener.accept() {
                Ok(Some((fd, address))) => self.admit(fd, address, listener.endpoint()),
                Ok(None) => return,
                Err(error) => {
                    // Out of file descriptors, mostly: the client waits in the kernel's queue until there are some.
                    say(self.options, &format!("a client could not be accepted: {error}"));
                    let began = Instant::now();
                    std::thread::sleep(Duration::from_millis(10));
                    let counters = &self.server.counters;
                    counters.listen_disabled_num.fetch_add(1, Ordering::Relaxed);
                    let waited = began.elapsed().as_micros() as usize;
                    counters.time_in_listen_disabled_us.fetch_add(waited, Ordering::Relaxed);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, fd: OwnedFd, address: Endpoint, server: Endpoint) {
        let counters = &self.server.counters;
        if counters.current_connections.load(Ordering::Relaxed) >= self.options.conn_limit {
            counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
            let _ = rustix::io::write(&fd, b"ERROR Too many open connections\r\n");
            return;
        }
        counters.current_connections.fetch_add(1, Ordering::Relaxed);
        counters.total_connections.fetch_add(1, Ordering::Relaxed);
        self.workers[self.next % self.workers.len()].give(NewClient { fd, address, server });
        self.next += 1;
    }
}
