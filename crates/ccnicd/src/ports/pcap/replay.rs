//! A file that is replayed. A thread reads it ahead into memory of the port, a part of which it fills while others are played.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Instant;

use crate::memory::RegionMemory;
use anyhow::Context;
use ccnic::SharedMemory;
use ccnic_shm::{NativeMemory, Pages, Region};

use super::options::{PcapOptions, Rate};
use super::read::{self, Item, Reader};
use crate::ports::outside::Gathered;

/// Parts of the memory, and bytes of each.
const PARTS: u32 = 4;
const PART: u32 = 512 << 10;
/// Bytes that a packet takes at most, and packets of a part at most: those of 64 bytes.
const ROOM: u32 = read::ROOM as u32;
const PACKETS: usize = (PART / 64) as usize;
/// Records that are read for a part at most: there may be millions of which none is a packet to be sent.
const RECORDS: usize = 1 << 20;

/// A packet that has been read.
#[derive(Debug, Clone, Copy)]
struct Packet {
    at: u32,
    len: u32,
    /// When it comes, in nanoseconds after the first.
    time: u64,
}

/// A part of the memory with what has been read into it.
#[derive(Debug)]
struct Part {
    first: u32,
    packets: Vec<Packet>,
    /// Packets of the file that cannot be sent.
    skipped: u64,
}

/// The port's side: what has been read, and when it is due.
#[derive(Debug)]
pub(super) struct Replay {
    mem: NativeMemory,
    filled: Receiver<Part>,
    played: SyncSender<Part>,
    /// The part that is played, and how much of it has been.
    part: Option<Part>,
    done: usize,
    /// All has been played.
    ended: bool,
    /// Packets of the file that were skipped, as far as it was played.
    skipped: u64,
    rate: Rate,
    /// When the first packet came.
    started: Option<Instant>,
    /// With a rate: between two packets, and when the next one is due, in units of 2^-20 nanoseconds after the first.
    interval: u128,
    due: u128,
}

impl Replay {
    /// Opens the file and reads its beginning.
    ///
    /// # Errors
    /// What is wrong with the file, and at which packet.
    pub(super) fn open(path: &Path, options: &PcapOptions) -> anyhow::Result<Replay> {
        let region =
            Region::create(PARTS * (PART + ROOM) + 4096, Pages::Small).context("no memory for packets")?;
        let (give, filled) = sync_channel(PARTS as usize);
        let (played, take) = sync_channel(PARTS as usize);
        let reader = Reader::open(path)?;
        let mut reading = Reading {
            path: path.to_owned(),
            mem: region.memory(),
            reader,
            wanted: options.times,
            times: 0,
            first: None,
            last: 0,
            base: 0,
            packets: 0,
            skipped: 0,
            why: None,
        };
        let mut parts = (0..PARTS).map(|n| Part {
            first: n * (PART + ROOM),
            packets: Vec::with_capacity(PACKETS),
            skipped: 0,
        });
        let mut first = parts.next().context("no memory for packets")?;
        let more = reading.fill(&mut first)?;
        anyhow::ensure!(reading.packets > 0, "{}", reading.why_none());
        give.send(first).context("no thread")?;
        parts.try_for_each(|part| played.send(part)).context("no thread")?;
        std::thread::Builder::new()
            .name("ccnicd-replay".to_owned())
            .spawn(move || reading.run(more, &give, &take))
            .context("could not start a thread")?;
        let interval = match options.rate {
            Rate::Packets(rate) => (1_000_000_000 << 20) / u128::from(rate),
            _ => 0,
        };
        let mem = region.memory();
        Ok(Replay {
            mem,
            filled,
            played,
            part: None,
            done: 0,
            ended: false,
            skipped: 0,
            rate: options.rate,
            started: None,
            interval,
            due: 0,
        })
    }

    pub(super) fn memory(&self) -> &NativeMemory {
        &self.mem
    }

    /// True when all has been played.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Packets of the file that were skipped, as far as it was played.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The packets that are due, as many as a burst has.
    pub(super) fn gather(&mut self) -> Gathered {
        let mut burst = Gathered::new();
        if self.part.as_ref().is_some_and(|part| self.done >= part.packets.len()) {
            // All bursts of it have been dealt with. (There is room for all parts; the thread may have ended.)
            self.part.take().into_iter().for_each(|part| _ = self.played.try_send(part));
        }
        if self.part.is_none() {
            let next = self.filled.try_recv();
            self.ended = matches!(next, Err(TryRecvError::Disconnected));
            (self.part, self.done) = (next.ok(), 0);
            self.skipped += self.part.as_ref().map_or(0, |part| part.skipped);
        }
        let Some(part) = &self.part else { return burst };
        let now = match self.rate {
            Rate::Asap => 0,
            _ => self.started.get_or_insert_with(Instant::now).elapsed().as_nanos() as u64,
        };
        while let Some(packet) = part.packets.get(self.done) {
            let is_due = match self.rate {
                Rate::Asap => true,
                Rate::Recorded => packet.time <= now,
                Rate::Packets(_) => self.due <= u128::from(now) << 20,
            };
            if !is_due || !burst.push(&[(packet.at, packet.len)], 0) {
                break;
            }
            self.done += 1;
            self.due += self.interval;
        }
        burst
    }
}

/// The thread's side.
struct Reading {
    path: PathBuf,
    mem: NativeMemory,
    reader: Reader,
    /// How often the file is to be played (0: without end), and has been read.
    wanted: u32,
    times: u32,
    /// Time of the file's first packet; of the last one that was read, after the start; of the start of this time.
    first: Option<u64>,
    last: u64,
    base: u64,
    /// Packets to be sent, and those that cannot be.
    packets: u64,
    skipped: u64,
    /// The first reason for which one cannot.
    why: Option<String>,
}

impl Reading {
    /// Reads until the port has gone, or there is no more to read.
    fn run(&mut self, mut goes_on: bool, give: &SyncSender<Part>, take: &Receiver<Part>) {
        while goes_on {
            let Ok(mut part) = take.recv() else { return };
            let filled = self.fill(&mut part);
            if give.send(part).is_err() {
                return;
            }
            goes_on = filled.unwrap_or_else(|e| {
                tracing::error!(file = %self.path.display(), "the replay ends early: {e:#}");
                false
            });
        }
        let (file, packets, skipped, times) = (self.path.display(), self.packets, self.skipped, self.times);
        tracing::info!(%file, packets, skipped, times, "the file has been read to its end");
    }

    /// Fills a part; false when there is no more to read. What is whole before a file's end, or before damage, is replayed.
    ///
    /// # Errors
    /// What is wrong with a file of which no packet can be replayed.
    fn fill(&mut self, part: &mut Part) -> anyhow::Result<bool> {
        part.packets.clear();
        part.skipped = 0;
        let (mut at, end) = (part.first, part.first + PART);
        for _ in 0..RECORDS {
            if at >= end || part.packets.len() >= PACKETS {
                break;
            }
            let reader = &mut self.reader;
            let read = self.mem.with_mut(at, ROOM, |room| reader.next(room));
            match read {
                Ok(Some(Item::Packet(len, time))) => {
                    let since = time.saturating_sub(*self.first.get_or_insert(time));
                    self.last = self.base.saturating_add(since).max(self.last);
                    self.packets += 1;
                    part.packets.push(Packet { at, len: len as u32, time: self.last });
                    at = (at + len as u32).next_multiple_of(64);
                }
                Ok(Some(Item::Skipped(why))) => {
                    part.skipped += 1;
                    self.skip(&why.to_string());
                }
                Ok(Some(Item::Other)) => {}
                Ok(None) if self.again()? => {}
                Ok(None) => return Ok(false),
                Err(e) if self.packets == 0 => return Err(e),
                Err(e) => {
                    if self.times == 0 {
                        let (file, packets) = (self.path.display(), self.packets);
                        tracing::error!(%file, packets, "the replay ends early: {e:#}");
                    }
                    if !self.again()? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Counts a packet that cannot be sent, and says so of the first one.
    fn skip(&mut self, why: &str) {
        self.skipped += 1;
        if self.why.is_none() {
            let why = format!("packet {}: {why}", self.reader.packets());
            tracing::warn!(file = %self.path.display(), "skipped {why}; more of them are counted (missed)");
            self.why = Some(why);
        }
    }

    /// Begins anew at the end of the file; false where that was the last time.
    fn again(&mut self) -> anyhow::Result<bool> {
        self.times = self.times.saturating_add(1);
        if self.packets == 0 || self.wanted != 0 && self.times >= self.wanted {
            return Ok(false);
        }
        self.reader = Reader::open(&self.path)?;
        (self.base, self.first) = (self.last, None);
        Ok(true)
    }

    /// Says of a file of which nothing can be replayed what is wrong with it.
    fn why_none(&self) -> String {
        match (&self.why, self.skipped) {
            (Some(why), 1) => why.clone(),
            (Some(why), skipped) if self.times == 0 => {
                format!("none of its first {skipped} packets can be sent; {why}")
            }
            (Some(why), skipped) => format!("none of its {skipped} packets can be sent; {why}"),
            (None, _) if self.times == 0 => format!("it has no packets in its first {RECORDS} blocks"),
            (None, _) => "it has no packets".to_owned(),
        }
    }
}
