//! Metrics for Prometheus: `GET /metrics` over TCP, answered by a thread of its own.
//!
//! | file | contents |
//! |---|---|
//! | `text.rs` | the NIC's state as text |
//! | `http.rs` | as much of HTTP as a scrape needs |
//! | `visitor.rs` | a connection, step by step |
//!
//! Who connects is trusted with nothing but reading: connections are few, each has its deadlines, and a host takes places from itself
//! before it takes them from others. The NIC's state is read at most twice a second, however often it is asked for, and as
//! any program's request: the polling threads spend a bounded share of their time on it, the control thread no more than on a
//! `ccnic status`.

mod http;
mod text;
mod visitor;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use ccnic_control::Observer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use http::{Answer, Refusal};
use visitor::Visitor;

/// Connections at a time.
const PLACES: usize = 32;
/// Of these, from one host.
const PLACES_OF_ONE: usize = 8;
/// How long a text is shown before the NIC is asked again.
const FRESH: Duration = Duration::from_millis(500);
/// Connections that are accepted before others go on.
const BATCH: usize = 16;
/// Before another try at what the system has no resources for.
const RETRY: Duration = Duration::from_millis(50);

/// The metrics of a NIC, at an address of this machine. Dropping it ends its thread, without waiting for it.
#[derive(Debug)]
pub struct Exporter {
    address: SocketAddr,
    /// The other end of it is closed when this is dropped.
    _stop: UnixStream,
}

impl Exporter {
    /// Listens at `address`, with port 0 at a free port. Nobody answers yet.
    ///
    /// # Errors
    /// When that address cannot be had.
    pub fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
        TcpListener::bind(address).with_context(|| {
            format!(
                "could not listen at {address} for metrics; name an address of this machine and a free port"
            )
        })
    }

    /// Answers at `listener` from now on.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(listener: TcpListener, observer: Observer) -> anyhow::Result<Exporter> {
        listener.set_nonblocking(true).context("could not have the socket of metrics not block")?;
        let address = listener.local_addr().context("could not ask where metrics are served")?;
        let (stop, stopped) = UnixStream::pair().context("could not make a socket to stop metrics")?;
        let server = Server { listener, visitors: Vec::new(), metrics: Metrics { observer, last: None } };
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || server.run(&stopped))
            .context("could not start the thread of metrics")?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "whoever reaches this address reads the names and counters of all programs");
        }
        tracing::info!("metrics at http://{address}/metrics");
        Ok(Exporter { address, _stop: stop })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The text of the last reading.
struct Metrics {
    observer: Observer,
    last: Option<(Instant, Arc<str>)>,
}

impl Metrics {
    fn answer(&mut self) -> Result<Answer, Refusal> {
        if let Some((when, text)) = &self.last
            && when.elapsed() < FRESH
        {
            return Ok(Answer::metrics(Arc::clone(text)));
        }
        let status = self.observer.status().ok_or(Refusal::Unavailable)?;
        let text: Arc<str> = text::text(&status).map_err(|_| Refusal::Unavailable)?.into();
        self.last = Some((Instant::now(), Arc::clone(&text)));
        Ok(Answer::metrics(text))
    }
}

/// The thread's.
struct Server {
    listener: TcpListener,
    /// In the order in which they came.
    visitors: Vec<Visitor>,
    metrics: Metrics,
}

impl Server {
    /// Answers until the other end of `stop` is closed.
    fn run(mut self, stop: &UnixStream) {
        loop {
            let now = Instant::now();
            let deadline = self.visitors.iter().map(Visitor::deadline).min();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            // A millisecond more: what is due is due when we wake up.
            let timeout = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
            let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
            let visitors = self.visitors.iter();
            fds.extend(
                visitors.map(|visitor| PollFd::from_borrowed_fd(visitor.as_fd(), visitor.waits_for())),
            );
            if poll(&mut fds, timeout.as_ref()).is_err() {
                std::thread::sleep(RETRY); // no memory, say; after a signal, too
                continue;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready.first() == Some(&true) {
                return;
            }
            self.go_on(ready.get(2..).unwrap_or_default());
            if ready.get(1) == Some(&true) {
                self.accept();
            }
        }
    }

    /// Has those that are ready go on, and closes those that are done or late.
    fn go_on(&mut self, ready: &[bool]) {
        let (now, metrics) = (Instant::now(), &mut self.metrics);
        let mut ready = ready.iter();
        self.visitors.retain_mut(|visitor| {
            let is_ready = ready.next() == Some(&true);
            !is_ready || visitor.go_on(|| metrics.answer())
        });
        self.visitors.retain(|visitor| now < visitor.deadline());
    }

    /// Takes new connections, in the places of older ones if there are no others.
    fn accept(&mut self) {
        for _ in 0..BATCH {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    let Ok(visitor) = Visitor::new(stream, from.ip()) else { continue };
                    self.make_room(&visitor);
                    self.visitors.push(visitor);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // It has gone again, or there are no descriptors: others may end meanwhile.
                Err(_) => return std::thread::sleep(RETRY),
            }
        }
    }

    /// Closes the oldest connection of the newcomer's host if that has its share, or of the host with the most if all places are taken.
    fn make_room(&mut self, newcomer: &Visitor) {
        let count = |source| self.visitors.iter().filter(|visitor| visitor.source == source).count();
        let crowd = if count(newcomer.source) >= PLACES_OF_ONE {
            Some(newcomer.source)
        } else if self.visitors.len() >= PLACES {
            self.visitors.iter().map(|visitor| visitor.source).max_by_key(|source| count(*source))
        } else {
            None
        };
        if let Some(at) = self.visitors.iter().position(|visitor| Some(visitor.source) == crowd) {
            self.visitors.remove(at);
        }
    }
}
