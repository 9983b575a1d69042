//! Ports of files: packets of a pcap or pcapng file come from the port, what is sent to it is recorded in another one.
//!
//! | file | contents |
//! |---|---|
//! | `options.rs` | [`PcapOptions`]: `--port pcap:FILE,...` |
//! | `stream.rs`, `read.rs`, `pcapng.rs` | reads a file of either format |
//! | `replay.rs` | reads it ahead, and says which packets are due |
//! | `write.rs`, `record.rs` | blocks of pcapng; hands them to the thread that writes |
//!
//! ```text
//!   file ──► thread: read ──► part of the port's memory ──► when it is due: burst ──► switch
//!   file ◄── thread: write ◄── chunk of blocks ◄── copied, with the time ◄── switch
//! ```
//!
//! The polling thread never waits for a disk: it takes parts and chunks when they are there, and gives them back.

#[cfg(test)]
mod offload_tests;
pub(super) mod options;
mod pcapng;
mod read;
#[cfg(test)]
mod read_tests;
mod record;
mod replay;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use crate::memory::RegionMemory;
use anyhow::{Context, ensure};
use ccnic::Desc;
use ccnic::nic::Origin;
use ccnic_control::files;
use ccnic_control::messages::QueueStatus;
use ccnic_shm::{NativeMemory, Pages, Region};
use rustix::event::PollFd;

pub use options::{PcapOptions, Rate, Start};

use super::{Burst, Doze, Losses, OutsidePort, Statistics};
use record::Recorder;
use replay::Replay;

/// Files as a port.
#[derive(Debug)]
pub struct PcapPort {
    replay: Option<Replay>,
    recorder: Option<Recorder>,
    /// Of a port that only records: nothing.
    none: NativeMemory,
    /// The replay goes on; otherwise it waits for a packet.
    runs: bool,
    /// It begins when the other end has gone.
    held: Option<Receiver<Infallible>>,
    /// All but what the switch counts. `tx` is replayed, `rx` recorded.
    counters: QueueStatus,
}

impl PcapPort {
    /// Opens the files.
    ///
    /// # Errors
    /// Which file, and what is wrong with it.
    pub fn open(options: &PcapOptions) -> anyhow::Result<PcapPort> {
        let replay = options.replay.as_deref();
        let replay =
            replay.map(|path| Replay::open(path, options).with_context(|| path.display().to_string()));
        let replay = replay.transpose()?;
        // By whatever name: beginning a recording cuts the file.
        let same = options
            .replay
            .as_deref()
            .zip(options.record.as_deref())
            .is_some_and(|(a, b)| files::are_one(a, b));
        ensure!(!same, "a file is replayed and recorded at once: name another one");
        let recorder = options.record.as_deref();
        let recorder =
            recorder.map(|path| Recorder::open(path).with_context(|| format!("record={}", path.display())));
        let none = Region::create(4096, Pages::Small).context("no memory")?.memory();
        let counters = QueueStatus::default();
        Ok(PcapPort {
            replay,
            recorder: recorder.transpose()?,
            none,
            runs: options.start == Start::Now,
            held: None,
            counters,
        })
    }

    /// Has the replay not begin before what this returns is dropped.
    pub fn hold(&mut self) -> Hold {
        let (hold, held) = channel();
        self.held = Some(held);
        Hold { _hold: hold }
    }
}

/// Keeps a replay from beginning: a packet that came before all other ports have joined would miss them.
#[derive(Debug)]
pub struct Hold {
    _hold: Sender<Infallible>,
}

impl OutsidePort for PcapPort {
    fn queues(&self) -> usize {
        1
    }

    fn memory(&self) -> &NativeMemory {
        self.replay.as_ref().map_or(&self.none, Replay::memory)
    }

    fn looks_are_cheap(&self) -> bool {
        true
    }

    fn fetch(&mut self, burst: &mut Burst, _: &dyn Fn(&[u8]) -> crate::ports::Accepts) -> usize {
        if let Some(recorder) = &mut self.recorder {
            recorder.settle();
        }
        let Some(replay) = self.replay.as_mut().filter(|_| self.runs) else { return 0 };
        if let Some(held) = &self.held {
            if matches!(held.try_recv(), Err(TryRecvError::Empty)) {
                return 0;
            }
            self.held = None;
        }
        let gathered = replay.gather();
        let packets = gathered.packets;
        self.counters.missed = replay.skipped();
        if packets > 0 {
            self.counters.tx_packets += packets;
            self.counters.tx_bytes += gathered.bytes;
            gathered.into(burst, 0);
        }
        packets as usize
    }

    fn doze(&self) -> Option<&dyn Doze> {
        Some(self)
    }

    fn send(&mut self, from: &Origin<'_, NativeMemory>, packets: &[Desc], lost: &mut Losses<'_>) {
        self.runs = true;
        let counters = &mut self.counters;
        let now = if self.recorder.is_some() { Recorder::now() } else { 0 };
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            let outcome = match &mut self.recorder {
                Some(recorder) => recorder.record(now, from.mem, packet),
                // It takes what comes, as a wire with nobody at its end.
                None => Ok(packet.iter().map(|desc| u64::from(desc.len())).sum()),
            };
            match outcome {
                Ok(bytes) => {
                    counters.rx_packets += 1;
                    counters.rx_bytes += bytes;
                }
                Err(why) => why.lose(counters, packet, lost),
            }
        }
    }
}

/// Nothing comes from the port but what is replayed: while that goes on it cannot sleep, nor before what it has recorded is on its way to the
/// disk.
impl Doze for PcapPort {
    fn arm(&self) -> bool {
        !self.has_work()
    }

    fn has_work(&self) -> bool {
        let replays = self.runs && self.replay.as_ref().is_some_and(|replay| !replay.has_ended());
        replays || self.recorder.as_ref().is_some_and(Recorder::holds)
    }

    fn calls<'a>(&'a self, _: &mut Vec<PollFd<'a>>) {}

    fn disarm(&self, _: &[PollFd<'_>]) {}
}

impl Statistics for PcapPort {
    fn report(&self) -> Vec<QueueStatus> {
        vec![self.counters]
    }
}
