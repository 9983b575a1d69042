//! Captures that run: each has a thread that writes to whoever has asked for it, and a part on each polling core.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, ensure};
use ccnic_control::capture::{CHUNK, CHUNK_HEADER, CaptureRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::plane::{ControlPlane, DIED};
use crate::switch::capture::{CHUNKS, Capture, Chunk, MAX_CAPTURES, Missed};

/// While nothing is captured, the thread looks so often whether the other end has been closed.
const LOOK: Duration = Duration::from_millis(200);

/// A capture that runs. Its thread ends when the other end of its socket is closed, or its parts have gone.
#[derive(Debug)]
pub(super) struct Running {
    id: u64,
    writer: JoinHandle<()>,
}

impl ControlPlane {
    /// Starts a capture.
    pub(super) fn start_capture(&mut self, request: &CaptureRequest, to: UnixStream) -> anyhow::Result<()> {
        ensure!(self.options.joins(), "the loopback captures nothing; start ccnicd with --wire switch");
        let port = request.port;
        let known = |id: u64| self.clients.contains_key(&id) || self.outside.iter().any(|port| port.id == id);
        ensure!(
            port.is_none_or(known),
            "there is no port {}; see ccnic status --json",
            port.unwrap_or_default()
        );
        self.end_captures();
        ensure!(self.captures.len() < MAX_CAPTURES, "{MAX_CAPTURES} captures run already; end one of them");
        let id = self.next_capture;
        let (parts, writer) = start(id, request, to, self.workers.len())?;
        for (worker, part) in self.workers.iter().zip(parts) {
            ensure!(worker.capture(Box::new(part)), DIED);
        }
        self.next_capture += 1;
        self.captures.push(Running { id, writer });
        tracing::info!(capture = id, port, snap = request.snap, "a capture begins");
        Ok(())
    }

    /// Takes captures away whose reader has gone. Called from time to time.
    pub(super) fn end_captures(&mut self) {
        let (ended, going): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.captures).into_iter().partition(|running| running.writer.is_finished());
        self.captures = going;
        for Running { id, .. } in ended {
            self.workers.iter().for_each(|worker| worker.end_capture(id));
            tracing::info!(capture = id, "a capture has ended");
        }
    }
}

/// Starts the thread of a capture; returns its parts, one for each of so many polling cores.
fn start(
    id: u64,
    request: &CaptureRequest,
    to: UnixStream,
    cores: usize,
) -> anyhow::Result<(Vec<Capture>, JoinHandle<()>)> {
    let (full, chunks) = sync_channel(CHUNKS * cores);
    let (mut parts, mut back, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    for core in 0..cores {
        let (give, empty) = sync_channel(CHUNKS);
        for _ in 0..CHUNKS {
            give.send(Chunk { bytes: new_chunk(), core }).context("no thread")?;
        }
        back.push(give);
        let here = Missed::default();
        parts.push(Capture::new(id, request, empty, full.clone(), Missed::clone(&here)));
        missed.push(here);
    }
    let thread = std::thread::Builder::new().name("ccnicd-capture".to_owned());
    let writer = thread
        .spawn(move || {
            Writing { to, missed, told: 0 }.run(&chunks, &back);
        })
        .context("could not start a thread")?;
    Ok((parts, writer))
}

fn new_chunk() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CHUNK_HEADER + CHUNK);
    bytes.resize(CHUNK_HEADER, 0);
    bytes
}

/// What is written, and to where.
struct Writing {
    to: UnixStream,
    /// Of each polling core.
    missed: Vec<Missed>,
    /// So many have been told of.
    told: u64,
}

impl Writing {
    /// Writes chunks and gives them back, until nobody reads or there will be no more.
    fn run(&mut self, chunks: &Receiver<Chunk>, back: &[SyncSender<Chunk>]) {
        loop {
            let written = match chunks.recv_timeout(LOOK) {
                Ok(mut chunk) => {
                    let written = self.write(&mut chunk);
                    chunk.bytes.truncate(CHUNK_HEADER);
                    if let Some(core) = back.get(chunk.core) {
                        let _ = core.send(chunk); // it has gone: so will the others, and that is the end
                    }
                    written
                }
                Err(RecvTimeoutError::Timeout) if is_closed(&self.to) => return,
                Err(RecvTimeoutError::Timeout) => self.write_missed(),
                Err(RecvTimeoutError::Disconnected) => return drop(self.write_missed()),
            };
            if written.is_err() {
                return;
            }
        }
    }

    /// Packets that were missed so far.
    fn missed(&self) -> u64 {
        self.missed.iter().map(|missed| missed.load(Relaxed)).sum()
    }

    fn write(&mut self, chunk: &mut Chunk) -> std::io::Result<()> {
        let missed = self.missed();
        chunk.seal(missed - self.told);
        self.told = missed;
        self.to.write_all(&chunk.bytes)
    }

    /// Without packets: there may be none for long.
    fn write_missed(&mut self) -> std::io::Result<()> {
        if self.missed() == self.told {
            return Ok(());
        }
        self.write(&mut Chunk { bytes: vec![0; CHUNK_HEADER], core: 0 })
    }
}

fn is_closed(to: &UnixStream) -> bool {
    let mut fds = [PollFd::new(to, PollFlags::RDHUP)];
    !poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready == 0)
}
