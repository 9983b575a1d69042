//! Streaming: one side writes through a shared buffer, signalling per megabyte, the other copies it out
//! (CC-NIC section 3.3, figure 9). Caching stores against non-temporal stores.

use ccnic::{LINE, SharedMemory};
use quanta::Clock;
use serde::Serialize;

use super::{Side, duet};
use crate::stats::Spread;

/// How the writer stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stores {
    /// Through the cache.
    Caching,
    /// Around it (non-temporal), towards memory.
    NonTemporal,
}

/// The result of one experiment over several rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Stream {
    /// How the writer stored.
    pub stores: Stores,
    /// Data that the reader copied, in gigabits per second: the median of the rounds.
    pub gbps: f64,
    /// Mebibytes moved in all rounds.
    pub megabytes: u64,
    /// How far the rounds' rates lie apart.
    pub spread: Spread,
    /// Each round.
    pub rounds: Vec<StreamRound>,
}

impl Stream {
    /// Sums up the rounds of an experiment.
    pub fn of(stores: Stores, rounds: Vec<StreamRound>) -> Stream {
        let spread = Spread::of(rounds.iter().map(|r| r.gbps));
        let megabytes = rounds.iter().map(|r| r.megabytes).sum();
        Stream { stores, gbps: spread.median, megabytes, spread, rounds }
    }
}

/// One round of an experiment.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct StreamRound {
    /// Data that the reader copied, in gigabits per second.
    pub gbps: f64,
    /// Mebibytes moved.
    pub megabytes: u64,
}

/// Bytes per signal.
const CHUNK: u32 = 1 << 20;
/// Chunks of the shared buffer: the writer is at most so far ahead.
const CHUNKS: u64 = 4;
/// Words, each in its own line: chunks written, chunks read, and the end.
const WRITTEN: u32 = 0;
const READ: u32 = LINE;
const STOP: u32 = 2 * LINE;
const DATA: u32 = 4096;

/// Measures one round for `seconds`.
///
/// # Errors
/// When the region or the threads cannot be made, or lines arrive damaged.
pub fn round(stores: Stores, seconds: f64) -> anyhow::Result<StreamRound> {
    let [_, read] = duet(DATA + CHUNKS as u32 * CHUNK, |side| {
        if side.number == 0 { write(&side, stores) } else { read(&side, seconds) }
    })?;
    anyhow::ensure!(read.damaged == 0, "{} lines arrived damaged", read.damaged);
    let bytes = read.chunks as f64 * f64::from(CHUNK);
    Ok(StreamRound { gbps: bytes * 8.0 / read.seconds / 1e9, megabytes: read.chunks })
}

#[derive(Debug, Default)]
struct Seen {
    chunks: u64,
    seconds: f64,
    damaged: u64,
}

fn offset(chunk: u64) -> u32 {
    DATA + (chunk % CHUNKS) as u32 * CHUNK
}

fn write(side: &Side, stores: Stores) -> Seen {
    let mut chunk = 0;
    loop {
        while chunk - side.mem.load_acquire(READ) >= CHUNKS {
            if side.mem.load_acquire(STOP) != 0 {
                return Seen::default();
            }
            side.wait();
        }
        let mut line = [0u8; LINE as usize];
        line.as_chunks_mut::<8>().0.iter_mut().for_each(|w| *w = chunk.to_le_bytes());
        for i in 0..CHUNK / LINE {
            match stores {
                Stores::Caching => side.mem.write(offset(chunk) + i * LINE, &line),
                Stores::NonTemporal => side.mem.write_around(offset(chunk) + i * LINE, &line),
            }
        }
        if stores == Stores::NonTemporal {
            ccnic_shm::wait_for_stores();
        }
        chunk += 1;
        side.mem.store_release(WRITTEN, chunk);
    }
}

fn read(side: &Side, seconds: f64) -> Seen {
    let clock = Clock::new();
    let mut local = vec![0u8; CHUNK as usize];
    let (start, mut seen) = (clock.raw(), Seen::default());
    while seen.seconds < seconds {
        while side.mem.load_acquire(WRITTEN) == seen.chunks {
            side.wait();
        }
        side.mem.read(offset(seen.chunks), &mut local);
        let expected = seen.chunks.to_le_bytes();
        seen.damaged += local.as_chunks::<8>().0.iter().step_by(8).filter(|w| **w != expected).count() as u64;
        seen.chunks += 1;
        side.mem.store_release(READ, seen.chunks);
        seen.seconds = clock.delta(start, clock.raw()).as_secs_f64();
    }
    side.mem.store_release(STOP, 1);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_stores_arrive() {
        for stores in [Stores::Caching, Stores::NonTemporal] {
            assert!(round(stores, 0.01).unwrap().megabytes > 0);
        }
    }

    #[test]
    fn rounds_are_summed_up_by_medians() {
        let round = |gbps| StreamRound { gbps, megabytes: 2 };
        let all = Stream::of(Stores::Caching, vec![round(9.0), round(1.0), round(3.0)]);
        assert_eq!((all.gbps, all.megabytes, all.spread.max), (3.0, 6, 9.0));
    }
}
