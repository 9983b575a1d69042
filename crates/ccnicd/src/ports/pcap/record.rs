//! A file that packets to the port are recorded in. The polling thread makes blocks of them in memory, another thread writes these to the
//! disk: where that is too slow, packets are dropped and counted; when it is full, recording ends and the switch goes on.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use ccnic::Desc;
use ccnic_control::files;
use ccnic_shm::NativeMemory;

use super::write;
use crate::ports::unsent::Unsent;

/// Pieces of memory on their way to the disk, and bytes of each.
const CHUNKS: usize = 16;
const CHUNK: usize = 256 << 10;

/// What was recorded is written after so long at most, if the port is polled.
const DELAY: Duration = Duration::from_millis(20);

/// Files that ports record in, by device and inode.
static TAKEN: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// A place in [`TAKEN`], of a regular file: two ports would write over each other.
#[derive(Debug)]
struct Sole((u64, u64));

impl Sole {
    fn identity(about: &Metadata) -> Option<(u64, u64)> {
        about.is_file().then(|| (about.dev(), about.ino()))
    }

    fn is_taken(path: &Path) -> bool {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        path.metadata()
            .ok()
            .and_then(|about| Sole::identity(&about))
            .is_some_and(|file| taken.contains(&file))
    }

    fn take(about: &Metadata) -> Option<Sole> {
        let file = Sole::identity(about)?;
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
        Some(Sole(file))
    }
}

impl Drop for Sole {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Blocks of packets.
#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    packets: u64,
}

/// The port's side. When it is dropped, all that was recorded is written.
#[derive(Debug)]
pub(super) struct Recorder {
    /// What is being filled, and since when.
    chunk: Option<Chunk>,
    since: Instant,
    empty: Receiver<Chunk>,
    /// `None`: recording has ended.
    full: Option<SyncSender<Chunk>>,
    writer: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Begins a file, in the place of one that there is. Only its user may read it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn open(path: &Path) -> anyhow::Result<Recorder> {
        // Before what there is is cut away.
        ensure!(!Sole::is_taken(path), "another port records in this file: name another one");
        let mut file = files::create_private(path).context("could not make it")?;
        let sole = Sole::take(&file.metadata().context("could not look at it")?);
        let header = write::header();
        file.write_all(&header).context("could not write to it")?;
        let ((full, chunks), (back, empty)) = (sync_channel(CHUNKS), sync_channel(CHUNKS));
        (0..CHUNKS)
            .try_for_each(|_| back.send(Chunk { bytes: Vec::with_capacity(CHUNK), packets: 0 }))
            .context("no memory")?;
        let mut writing = Writing {
            path: path.to_owned(),
            file,
            written: header.len() as u64,
            packets: 0,
            chunks,
            back,
            _sole: sole,
        };
        let thread = std::thread::Builder::new().name("ccnicd-record".to_owned());
        let writer = thread.spawn(move || writing.run()).context("could not start a thread")?;
        Ok(Recorder { chunk: None, since: Instant::now(), empty, full: Some(full), writer: Some(writer) })
    }

    /// The time of packets that come now, in nanoseconds since 1970.
    pub(super) fn now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
    }

    /// Records a packet, of whole segments, whose bytes lie in `mem`; returns its length.
    #[inline(always)]
    pub(super) fn record(&mut self, now: u64, mem: &NativeMemory, packet: &[Desc]) -> Result<u64, Unsent> {
        let len: usize = packet.iter().map(|desc| usize::from(desc.len())).sum();
        let needed = write::block_len(len);
        if needed > CHUNK {
            return Err(Unsent::OverMtu);
        }
        if self.chunk.as_ref().is_some_and(|chunk| chunk.bytes.len() + needed > CHUNK) {
            self.hand_over();
        }
        if self.chunk.is_none() {
            self.begin()?;
        }
        let Some(chunk) = &mut self.chunk else { return Err(Unsent::Down) };
        write::packet(&mut chunk.bytes, now, mem, packet, len);
        chunk.packets += 1;
        Ok(len as u64)
    }

    /// True when something was recorded that the thread which writes has yet to get.
    pub(super) fn holds(&self) -> bool {
        self.chunk.is_some()
    }

    /// Between bursts: has what was recorded a while ago written.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if self.chunk.is_some() && self.since.elapsed() >= DELAY {
            self.hand_over();
        }
    }

    /// Takes an empty piece of memory.
    fn begin(&mut self) -> Result<(), Unsent> {
        if self.full.is_none() {
            return Err(Unsent::Down);
        }
        match self.empty.try_recv() {
            Ok(chunk) => {
                (self.chunk, self.since) = (Some(chunk), Instant::now());
                Ok(())
            }
            Err(TryRecvError::Empty) => Err(Unsent::Full),
            Err(TryRecvError::Disconnected) => {
                self.full = None;
                Err(Unsent::Down)
            }
        }
    }

    /// Gives what was recorded to the thread that writes. It has room for all pieces there are.
    fn hand_over(&mut self) {
        if let Some((chunk, full)) = self.chunk.take().zip(self.full.as_ref())
            && full.try_send(chunk).is_err()
        {
            self.full = None;
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_over();
        self.full = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join(); // it has said what went wrong
        }
    }
}

/// The side of the thread that writes.
struct Writing {
    path: PathBuf,
    file: File,
    /// No other port records in it until it is closed.
    _sole: Option<Sole>,
    /// Bytes of whole chunks, and the packets in them.
    written: u64,
    packets: u64,
    chunks: Receiver<Chunk>,
    back: SyncSender<Chunk>,
}

impl Writing {
    /// Writes until the port has gone or the disk is full. Then the file ends with the last whole chunk.
    fn run(&mut self) {
        let file = self.path.display().to_string();
        while let Ok(mut chunk) = self.chunks.recv() {
            if let Err(e) = self.file.write_all(&chunk.bytes) {
                let packets = self.packets;
                tracing::error!(
                    file,
                    packets,
                    "recording ends, what it would have gets dropped from now on: {e}"
                );
                if let Err(e) = self.file.set_len(self.written) {
                    tracing::error!(file, "its last block may be incomplete: {e}");
                }
                return;
            }
            self.written += chunk.bytes.len() as u64;
            self.packets += std::mem::take(&mut chunk.packets);
            chunk.bytes.clear();
            let _ = self.back.send(chunk); // the port has gone: the next turn ends
        }
        tracing::info!(file, packets = self.packets, bytes = self.written, "recorded");
    }
}
