//! Copies of packets for whoever captures them (`ccnic capture`).
//!
//! ```text
//!   switch: decide ─► forward
//!              └────► may one more be captured now? room in a chunk? ─yes─► copy ─► chunk ──► thread: write ──► socket
//!                         └─no─► counted: not captured                       ▲────────────────┘ when it is written
//! ```
//!
//! The polling thread never waits: chunks that are not written yet are missing, and then packets are counted and not copied. What a
//! capture costs is bounded by its rate, and is time of whoever sends. While there is none, there is no look at it: packets go the short way.

use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{SystemTime, UNIX_EPOCH};

use ccnic::{Desc, SharedMemory};
use ccnic_control::ClientId;
use ccnic_control::capture::{
    About, CHUNK, CHUNK_HEADER, CaptureRequest, Direction, PACKET_HEADER, Reason, chunk_header, packet_bytes,
};
use ccnic_shm::NativeMemory;

use super::policy::Rate;
use super::policy::bucket::Limiter;

/// Captures at a time.
pub const MAX_CAPTURES: usize = 4;
/// Chunks of each capture on a polling core.
pub const CHUNKS: usize = 8;
/// A chunk that is not full is handed over after so many microseconds: less than the shortest time after which a worker sleeps.
const DELAY: u64 = 50;

/// Captured packets on their way to the thread that writes.
#[derive(Debug)]
pub struct Chunk {
    /// A header and packets; room for [`CHUNK`] bytes behind the header.
    pub bytes: Vec<u8>,
    /// The place of the polling core among those that capture: there it goes back to.
    pub core: usize,
}

/// One capture, on one polling core. Belongs to its thread.
#[derive(Debug)]
pub struct Capture {
    id: u64,
    port: Option<ClientId>,
    snap: u32,
    drops: bool,
    rate: Rate,
    limiter: Limiter,
    chunk: Option<Chunk>,
    /// When the first packet came into the chunk.
    since: u64,
    missed: u64,
    empty: Receiver<Chunk>,
    full: SyncSender<Chunk>,
}

impl Capture {
    /// Packets go to `full`; what has been written comes back by `empty`.
    pub fn new(
        id: u64,
        request: &CaptureRequest,
        empty: Receiver<Chunk>,
        full: SyncSender<Chunk>,
    ) -> Capture {
        let rate = Rate::of_packets((request.rate > 0).then_some(request.rate.into()));
        Capture {
            id,
            port: request.port,
            snap: request.snap,
            drops: request.drops,
            rate,
            limiter: Limiter::new(&rate, 1),
            chunk: None,
            since: 0,
            missed: 0,
            empty,
            full,
        }
    }

    fn wants(&self, seen: &Sighting) -> bool {
        let here = match seen.direction {
            Direction::In => self.port.is_none_or(|port| port == seen.port),
            Direction::Out => self.port == Some(seen.port),
        };
        here && (self.drops || seen.dropped.is_none())
    }

    /// Copies a packet, or counts it.
    fn take(&mut self, now: u64, seen: &Sighting, mem: &NativeMemory, packet: &[Desc]) {
        let len: u32 = packet.iter().map(|desc| u32::from(desc.len())).sum();
        let captured = len.min(self.snap);
        if !self.limiter.admits(now) || !self.has_room(now, packet_bytes(captured as usize)) {
            self.missed += 1;
            return;
        }
        self.limiter.charge(0);
        let Some(Chunk { bytes, .. }) = &mut self.chunk else { return };
        let Sighting { time, port, direction, dropped } = *seen;
        let meta = packet.first().map_or(0, |desc| desc.meta);
        let dropped = dropped.map(Reason::counter);
        bytes.extend_from_slice(&About { captured, len, time, port, meta, direction, dropped }.header());
        let mut left = captured as usize;
        for desc in packet {
            let (at, part) = (bytes.len(), left.min(desc.len().into()));
            bytes.resize(at + part, 0);
            mem.read(desc.offset(), bytes.get_mut(at..).unwrap_or_default());
            left -= part;
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }

    /// Makes room for so many bytes more. (Chunks are whole multiples of 8, as packets are.)
    fn has_room(&mut self, now: u64, bytes: usize) -> bool {
        const { assert!(PACKET_HEADER.is_multiple_of(8) && CHUNK_HEADER.is_multiple_of(8)) };
        if self.chunk.as_ref().is_some_and(|chunk| chunk.bytes.len() + bytes > CHUNK_HEADER + CHUNK) {
            self.hand_over();
        }
        if self.chunk.is_none() {
            self.chunk = self.empty.try_recv().ok();
            self.since = now;
        }
        self.chunk.is_some()
    }

    /// Gives what was captured to the thread that writes, which has room for all chunks there are.
    fn hand_over(&mut self) {
        if let Some(mut chunk) = self.chunk.take() {
            let header = chunk_header(chunk.bytes.len() - CHUNK_HEADER, std::mem::take(&mut self.missed));
            chunk.bytes.get_mut(..CHUNK_HEADER).into_iter().for_each(|start| start.copy_from_slice(&header));
            let _ = self.full.try_send(chunk); // it has ended: the control thread takes the capture away
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// When and where packets were seen, and what became of them.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    time: u64,
    port: ClientId,
    direction: Direction,
    dropped: Option<Reason>,
}

/// The captures of a switch.
#[derive(Debug, Default)]
pub(super) struct Captures(Vec<Capture>);

impl Captures {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more, by a clock of so many ticks a second.
    pub(super) fn add(&mut self, mut capture: Box<Capture>, second: u64) {
        capture.limiter = Limiter::new(&capture.rate, second);
        self.0.push(*capture);
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Capture> {
        let at = self.0.iter().position(|capture| capture.id == id)?;
        Some(self.0.swap_remove(at))
    }

    /// From time to time, and before the worker sleeps: hands over what has waited.
    pub(super) fn settle(&mut self, now: u64, second: u64) {
        for capture in &mut self.0 {
            let waits =
                capture.chunk.is_some() && now.saturating_sub(capture.since) > second / 1_000_000 * DELAY;
            if waits {
                capture.hand_over();
            }
        }
    }

    /// Packets that have come from a port, in the order in which the switch has dealt with them, and where each of them goes.
    #[cold]
    #[inline(never)]
    pub(super) fn came(
        &mut self,
        now: u64,
        port: ClientId,
        mem: &NativeMemory,
        packets: &[Desc],
        mut dropped: impl Iterator<Item = Option<Reason>>,
    ) {
        let time = wall_clock();
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            let seen = Sighting { time, port, direction: Direction::In, dropped: dropped.next().flatten() };
            self.see(now, &seen, mem, packet);
        }
    }

    /// Packets that go to a port, whether it has room for them or not.
    #[cold]
    #[inline(never)]
    pub(super) fn went(&mut self, now: u64, port: ClientId, mem: &NativeMemory, packets: &[Desc]) {
        if self.0.iter().all(|capture| capture.port != Some(port)) {
            return;
        }
        let seen = Sighting { time: wall_clock(), port, direction: Direction::Out, dropped: None };
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            self.see(now, &seen, mem, packet);
        }
    }

    fn see(&mut self, now: u64, seen: &Sighting, mem: &NativeMemory, packet: &[Desc]) {
        let all = self.0.iter_mut().filter(|capture| capture.wants(seen));
        all.for_each(|capture| capture.take(now, seen, mem, packet));
    }
}

/// Nanoseconds since 1970.
fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
