//! The server: one thread that answers the binary get and set of `ccnic-kv`, a burst at a time, as that does on a queue pair of its own. Time in the
//! store and in the interface is told apart in the same way.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use ccnic_kv::protocol::InterfaceTime;
use ccnic_kv::rpc;
use ccnic_kv::server::{Spent, unix_time};
use ccnic_kv::store::{Limits, Place, Session, Store};
use ccnic_shm::timestamp;
use clap::Parser;

use crate::frames::{self, HEADERS, Head};
use crate::port::Port;

/// Polls after which the clock is read again.
const CLOCK: u32 = 1 << 16;

/// The server's command line.
#[derive(Debug, Parser)]
#[command(name = "serve")]
pub struct Options {
    /// Mebibytes for items
    #[arg(short = 'm', long, default_value_t = 64, value_name = "MIB")]
    memory: usize,
    /// UDP port of the binary get and set
    #[arg(long, default_value_t = 11300)]
    rpc_port: u16,
    /// A Unix socket that answers every line with where the time goes, as memcached's `stats`
    #[arg(long, value_name = "PATH")]
    stats: Option<PathBuf>,
}

/// A request that waits.
struct Request {
    head: Head,
    /// Where it ends among the bytes of all.
    end: usize,
    /// The place of its key, if it has one.
    place: Option<Place>,
}

/// The store and a burst of requests.
struct Server {
    store: Store,
    udp_port: u16,
    requests: Vec<Request>,
    bytes: Vec<u8>,
    places: Vec<Place>,
    spent: Spent,
}

/// Serves until the port says that it is over.
///
/// # Errors
/// When the socket of --stats cannot be made.
pub fn run(port: &mut impl Port, options: &Options) -> anyhow::Result<()> {
    let limits = Limits { memory: options.memory << 20, ..Limits::default() };
    let mut now = unix_time();
    let mut server = Server {
        store: Store::new(1, &limits, now),
        udp_port: options.rpc_port,
        requests: Vec::new(),
        bytes: Vec::new(),
        places: Vec::new(),
        spent: Spent::new(),
    };
    let interface = Arc::new(InterfaceTime::default());
    if let Some(path) = &options.stats {
        answer_stats(path, Arc::clone(&interface))?;
    }
    let mut polls = 0_u32;
    while !port.stopped() {
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(CLOCK) {
            now = unix_time();
        }
        let began = timestamp();
        server.spent.begin();
        let frames = server.poll(port, now);
        server.spent.end(frames > 0, began, &interface);
        if frames == 0 {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// Answers each line on this socket, from a thread that sleeps meanwhile.
fn answer_stats(path: &Path, interface: Arc<InterfaceTime>) -> anyhow::Result<()> {
    let listener = UnixListener::bind(path).with_context(|| format!("--stats {}", path.display()))?;
    let tell = move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            let mut reader = BufReader::new(&stream);
            while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
                let read = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::Relaxed);
                let lines: String = [
                    ("nic_requests", &interface.requests),
                    ("nic_busy_ns", &interface.busy_ns),
                    ("nic_sampled", &interface.sampled),
                    ("nic_sampled_store_ns", &interface.sampled_ns),
                ]
                .iter()
                .map(|(name, counter)| format!("STAT {name} {}\r\n", read(counter)))
                .collect();
                if (&stream).write_all(format!("{lines}END\r\n").as_bytes()).is_err() {
                    break;
                }
                line.clear();
            }
        }
    };
    std::thread::Builder::new().name("stats".to_owned()).spawn(tell).context("--stats: no thread")?;
    Ok(())
}

impl Server {
    /// Receives a burst and answers it; returns the number of frames.
    fn poll(&mut self, port: &mut impl Port, now: u32) -> usize {
        let Server { store, udp_port, requests, bytes, .. } = self;
        let frames = port.receive(|frame| {
            let Some((head, request)) = frames::datagram(frame, *udp_port) else { return };
            bytes.extend_from_slice(request);
            let place = rpc::key(request).map(|key| store.place(key));
            requests.push(Request { head: frames::turned(head), end: bytes.len(), place });
        });
        if !self.requests.is_empty() {
            self.answer(port, now);
        }
        frames
    }

    fn answer(&mut self, port: &mut impl Port, now: u32) {
        let Server { store, requests, bytes, places, spent, .. } = self;
        let longest = port.room().saturating_sub(HEADERS + rpc::HEADER);
        let mut session = store.session(now);
        spent.enter();
        if requests.len() > 1 {
            places.clear();
            places.extend(requests.iter().filter_map(|request| request.place));
            session.fetch_ahead(places);
        }
        spent.leave();
        let mut begin = 0;
        let mut left = requests.iter();
        // Without buffers the requests are lost, as in a NIC without receive buffers; the client asks again.
        port.send(requests.len(), true, |_, place| {
            let Some(Request { head, end, place: key }) = left.next() else { return 0 };
            let request = &bytes[begin..*end];
            begin = *end;
            spent.request();
            let len = answer(request, *key, &mut session, longest, *head, place, spent);
            spent.leave();
            len
        });
        requests.clear();
        bytes.clear();
    }
}

/// Writes the frame with the answer to a request; its length, or 0 when there is none.
fn answer(
    request: &[u8],
    key: Option<Place>,
    session: &mut Session<'_>,
    longest: usize,
    mut head: Head,
    place: &mut [u8],
    spent: &mut Spent,
) -> usize {
    let sent = rpc::answer(request, key, session, longest, |header, value, _| {
        // What it takes to write the frame is the interface's, as over a queue pair.
        spent.leave();
        let mut at = HEADERS;
        let mut put = |bytes: &[u8]| {
            if let Some(to) = place.get_mut(at..at + bytes.len()) {
                to.copy_from_slice(bytes);
                at += bytes.len();
            }
        };
        put(header);
        value.lend(put);
        frames::finish(&mut head, at - HEADERS);
        if let Some(to) = place.first_chunk_mut() {
            *to = head;
        }
        spent.enter();
        at
    });
    sent.unwrap_or(0)
}
