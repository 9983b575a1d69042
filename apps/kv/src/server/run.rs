//! A server from its start to its end. The main thread takes new clients, signals and snapshots; the others serve.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use super::datagrams::{Datagrams, Kind};
use super::listen::{Listener, Sockets};
use super::poller::Poller;
use super::worker::{Mailbox, Worker};
use super::{Options, unix_time};
use crate::protocol::{Server, ServerCounters, Settings};
use crate::store::{Limits, Store, snapshot};

const SIGNAL: u64 = u64::MAX;

/// Runs a server until it is told to end.
pub fn run(options: &Options) -> anyhow::Result<()> {
    options.check()?;
    let signals = Signals::new().context("cannot wait for signals")?;
    let limits = Limits {
        memory: options.memory_limit << 20,
        item: options.item_size()?,
        evict: !options.disable_evictions,
    };
    let store = Arc::new(Store::new(options.shards(limits.item), &limits, unix_time()));
    if let Some(path) = options.snapshot.as_deref().filter(|path| path.exists()) {
        let items = snapshot::load(&mut store.session(unix_time()), path).context("--snapshot")?;
        say(options, &format!("{items} items loaded from {}", path.display()));
    }
    let sockets = Sockets::open(options)?;
    let server = Arc::new(server(options));
    let (workers, threads) = start_workers(options, &store, &server, &sockets)?;
    say(options, "ready");
    let front = Front { options, store: &store, server: &server, workers: &workers, next: 0 };
    let result = front.serve(&sockets.listeners, &signals);
    drop(sockets);
    workers.iter().for_each(|worker| worker.stop());
    for thread in threads {
        match thread.join() {
            Ok(ended) => ended.context("a server thread failed")?,
            Err(_) => bail!("a server thread panicked"),
        }
    }
    if let Some(path) = &options.unix_socket {
        let _ = std::fs::remove_file(path);
    }
    if let Some(path) = &options.snapshot {
        save(options, &store, path)?;
    }
    result
}

fn say(options: &Options, what: &str) {
    if options.verbose > 0 {
        eprintln!("ccnic-kv: {what}");
    }
}

fn save(options: &Options, store: &Store, path: &Path) -> anyhow::Result<()> {
    let items = snapshot::save(&mut store.session(unix_time()), path).context("--snapshot")?;
    say(options, &format!("{items} items written to {}", path.display()));
    Ok(())
}

fn server(options: &Options) -> Server {
    let tcp = options.unix_socket.is_none();
    let settings = Settings {
        port: if tcp { options.port } else { 0 },
        udp_port: if tcp { options.udp_port } else { 0 },
        address: (!options.listen.is_empty()).then(|| options.listen.join(",")),
        socket: options.unix_socket.as_ref().map(|path| path.display().to_string()),
        threads: options.threads,
        connections: options.conn_limit,
        no_eviction: options.disable_evictions,
        idle_timeout: options.idle_timeout,
        verbosity: AtomicU32::new(options.verbose.into()),
    };
    let counters = ServerCounters { started: AtomicU32::new(unix_time()), ..ServerCounters::default() };
    Server { settings, counters }
}

type Threads = Vec<JoinHandle<io::Result<()>>>;

fn start_workers(
    options: &Options,
    store: &Arc<Store>,
    server: &Arc<Server>,
    sockets: &Sockets,
) -> anyhow::Result<(Vec<Arc<Mailbox>>, Threads)> {
    let (mut mailboxes, mut threads) = (Vec::new(), Vec::new());
    for number in 0..options.threads {
        let mailbox = Arc::new(Mailbox::new()?);
        let mut datagrams = Vec::new();
        for socket in &sockets.text {
            datagrams.push(Datagrams::new(socket.try_clone()?, Kind::Text));
        }
        if let Some(socket) = sockets.rpc.get(number) {
            datagrams.push(Datagrams::new(socket.try_clone()?, Kind::Rpc));
        }
        let worker = Worker {
            number,
            store: store.clone(),
            server: server.clone(),
            mailbox: mailbox.clone(),
            datagrams,
        };
        let thread = std::thread::Builder::new().name(format!("kv-{number}"));
        threads.push(thread.spawn(|| worker.run()).context("cannot start a thread")?);
        mailboxes.push(mailbox);
    }
    Ok((mailboxes, threads))
}

/// Signals as something to poll.
struct Signals {
    wake: UnixStream,
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
        Ok(Signals { wake, end, snapshot })
    }

    fn drain(&self) {
        while rustix::io::read(&self.wake, &mut [0u8; 64][..]).is_ok_and(|count| count > 0) {}
    }
}

/// What the main thread does.
struct Front<'a> {
    options: &'a Options,
    store: &'a Store,
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
        while !signals.end.load(Ordering::Relaxed) {
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

    /// A snapshot that fails while the server runs is told, and nothing else: the one before it is still there.
    fn snapshot(&self) {
        match &self.options.snapshot {
            None => eprintln!("ccnic-kv: SIGUSR1 without --snapshot: there is no file to write to"),
            Some(path) => {
                if let Err(error) = save(self.options, self.store, path) {
                    eprintln!("ccnic-kv: {error:#}");
                }
            }
        }
    }

    fn accept(&mut self, listener: &Listener) {
        loop {
            match listener.accept() {
                Ok(Some(client)) => self.admit(client),
                Ok(None) => return,
                Err(error) => {
                    // Out of file descriptors, mostly: the client waits in the kernel's queue until there are some.
                    say(self.options, &format!("a client could not be accepted: {error}"));
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    return;
                }
            }
        }
    }

    fn admit(&mut self, client: OwnedFd) {
        let counters = &self.server.counters;
        if counters.current_connections.load(Ordering::Relaxed) >= self.options.conn_limit {
            counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
            let _ = rustix::io::write(&client, b"ERROR Too many open connections\r\n");
            return;
        }
        counters.current_connections.fetch_add(1, Ordering::Relaxed);
        counters.total_connections.fetch_add(1, Ordering::Relaxed);
        self.workers[self.next % self.workers.len()].give(client);
        self.next += 1;
    }
}
