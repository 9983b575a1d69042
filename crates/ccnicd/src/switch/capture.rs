//! Copies of packets for whoever captures them (`ccnic capture`).
//!
//! ```text
//!   switch: decide ─► forward
//!              └────► may one more be captured now? room in a chunk? ─yes─► copy ─► chunk ──► thread: write ──► socket
//!                         └─no─► counted: not captured                       ▲────────────────┘ when it is written
//! ```
//!
//! What becomes of a packet at the port that it is for, that port says: see `arrivals`.
//!
//! The polling thread never waits: chunks that are not written yet are missing, and then packets are counted and not copied. A chunk that is
//! not full waits until all before it have been written, as Nagle's algorithm has it: however late that thread gets a CPU, no packet is
//! missed before the chunks are full. What a capture costs is bounded by its rate, and is time of whoever sends. While there is none, there
//! is no look at it: packets go the short way.

use std::sync::Arc;
#[allow(clippy::disallowed_types, reason = "shared by threads of the daemon")]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
/// A chunk that is not full is handed over after so many microseconds, if all others have been written, or before the worker sleeps.
const DELAY: u64 = 50;

/// Captured packets on their way to the thread that writes.
#[derive(Debug)]
pub struct Chunk {
    /// Room for a header, and packets: up to [`CHUNK`] bytes behind that.
    pub bytes: Vec<u8>,
    /// The place of the polling core among those that capture: there it goes back to.
    pub core: usize,
}

impl Chunk {
    /// Writes its header.
    pub fn seal(&mut self, missed: u64) {
        let header = chunk_header(self.bytes.len() - CHUNK_HEADER, missed);
        self.bytes.get_mut(..CHUNK_HEADER).into_iter().for_each(|start| start.copy_from_slice(&header));
    }
}

/// How many packets a capture has missed so far, on one polling core, which stores it: so the thread that writes knows it also when there
/// is no chunk for long, or that core sleeps.
#[allow(clippy::disallowed_types, reason = "shared by threads of the daemon")]
pub type Missed = Arc<AtomicU64>;

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
    missed: Missed,
    /// Chunks that have been written.
    spare: Vec<Chunk>,
    /// Chunks that have been handed over and have not come back.
    away: usize,
    empty: Receiver<Chunk>,
    full: SyncSender<Chunk>,
}

impl Capture {
    /// Packets go to `full`; what has been written comes back by `empty`. `missed` is where the others are counted.
    pub fn new(
        id: u64,
        request: &CaptureRequest,
        empty: Receiver<Chunk>,
        full: SyncSender<Chunk>,
        missed: Missed,
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
            missed,
            spare: Vec::with_capacity(CHUNKS),
            away: 0,
            empty,
            full,
        }
    }

    fn wants(&self, seen: &Sighting) -> bool {
        let here = match seen.direction {
            Direction::In => self.port.is_none_or(|port| port == seen.port),
            Direction::Out => self.sees_arrivals(seen.port, seen.dropped.is_some()),
        };
        here && (self.drops || seen.dropped.is_none())
    }

    /// True when packets to a port are seen there: all of the one port, and of all ports what is dropped there.
    fn sees_arrivals(&self, port: ClientId, dropped: bool) -> bool {
        self.port.map_or(dropped && self.drops, |own| own == port)
    }

    /// Copies a packet, or counts it.
    fn take(&mut self, now: u64, seen: &Sighting, mem: &NativeMemory, packet: &[Desc]) {
        let len: u32 = packet.iter().map(|desc| u32::from(desc.len())).sum();
        let captured = len.min(self.snap);
        if !self.limiter.admits(now) || !self.has_room(now, packet_bytes(captured as usize)) {
            self.missed.store(self.missed.load(Relaxed) + 1, Relaxed); // nobody else stores it
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
            self.take_back();
            self.chunk = self.spare.pop();
            self.since = now;
        }
        self.chunk.is_some()
    }

    fn take_back(&mut self) {
        let before = self.spare.len();
        self.spare.extend(self.empty.try_iter().take(CHUNKS - before));
        self.away = self.away.saturating_sub(self.spare.len() - before);
    }

    /// Hands over what has waited for so many ticks, if nothing else is on its way.
    fn settle(&mut self, now: u64, delay: u64) {
        if self.chunk.is_some() && now.saturating_sub(self.since) > delay {
            self.take_back();
            if self.away == 0 {
                self.hand_over();
            }
        }
    }

    /// Gives what was captured to the thread that writes, which has room for all chunks there are.
    fn hand_over(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.away += 1;
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

    pub(super) fn len(&self) -> usize {
        self.0.len()
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

    /// From time to time: hands over what has waited.
    pub(super) fn settle(&mut self, now: u64, second: u64) {
        let delay = second / 1_000_000 * DELAY;
        self.0.iter_mut().for_each(|capture| capture.settle(now, delay));
    }

    /// Hands over all there is: the worker is about to sleep.
    pub(super) fn hand_over(&mut self) {
        self.0.iter_mut().for_each(Capture::hand_over);
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
        dropped: impl Iterator<Item = Option<Reason>>,
    ) {
        self.see(now, (port, Direction::In), mem, packets, dropped);
    }

    /// True when somebody captures packets to a port: those that it drops, or the others.
    pub(super) fn see_arrivals(&self, port: ClientId, dropped: bool) -> bool {
        self.0.iter().any(|capture| capture.sees_arrivals(port, dropped))
    }

    /// Packets that go to a port, and why each of them is dropped there, if it is.
    #[cold]
    #[inline(never)]
    pub(super) fn went(
        &mut self,
        now: u64,
        port: ClientId,
        mem: &NativeMemory,
        packets: &[Desc],
        dropped: impl Iterator<Item = Option<Reason>>,
    ) {
        if self.see_arrivals(port, true) {
            self.see(now, (port, Direction::Out), mem, packets, dropped);
        }
    }

    fn see(
        &mut self,
        now: u64,
        (port, direction): (ClientId, Direction),
        mem: &NativeMemory,
        packets: &[Desc],
        mut dropped: impl Iterator<Item = Option<Reason>>,
    ) {
        let time = wall_clock();
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            let seen = Sighting { time, port, direction, dropped: dropped.next().flatten() };
            let all = self.0.iter_mut().filter(|capture| capture.wants(&seen));
            all.for_each(|capture| capture.take(now, &seen, mem, packet));
        }
    }
}

/// Nanoseconds since 1970.
fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use crate::memory::RegionMemory;
    use std::sync::mpsc::sync_channel;

    use ccnic_control::capture::CaptureReader;
    use ccnic_shm::{Pages, Region};

    use super::*;

    /// Ticks of the invented clock in a second.
    const SECOND: u64 = 1_000_000;

    /// A capture of some memory's packets, and the ends of its channels: what it gives, and how it gets chunks.
    struct Rig {
        region: Region,
        captures: Captures,
        full: Receiver<Chunk>,
        give: SyncSender<Chunk>,
        /// Chunks that have been handed over.
        away: Vec<Chunk>,
        missed: Missed,
    }

    impl Rig {
        fn new(chunks: usize, rate: u32, snap: u32, drops: bool) -> Rig {
            let region = Region::create(64 << 10, Pages::Small).unwrap();
            (0..4096).for_each(|at| region.memory().write(at, &[at as u8]));
            let ((full_in, full), (give, empty)) = (sync_channel(CHUNKS), sync_channel(CHUNKS));
            let request = CaptureRequest { port: None, snap, drops, rate };
            let (mut captures, missed) = (Captures::default(), Missed::default());
            captures.add(Box::new(Capture::new(7, &request, empty, full_in, Missed::clone(&missed))), SECOND);
            (0..chunks).for_each(|_| give.send(Chunk { bytes: vec![0; CHUNK_HEADER], core: 0 }).unwrap());
            Rig { region, captures, full, give, away: Vec::new(), missed }
        }

        /// So many packets of `len` bytes in two segments come at that time.
        fn come(&mut self, now: u64, packets: usize, len: u16, dropped: Option<Reason>) {
            let parts =
                [Desc::new(0, len / 2, 0).with_more(true), Desc::new(u32::from(len / 2), len - len / 2, 0)];
            self.captures.came(
                now,
                5,
                &self.region.memory(),
                &parts.repeat(packets),
                std::iter::repeat(dropped),
            );
        }

        /// What has been handed over: the lengths of packets as captured; and how many were not, so far.
        fn handed_over(&mut self) -> (Vec<u32>, u64) {
            let mut chunks: Vec<Chunk> = self.full.try_iter().collect();
            chunks.iter_mut().for_each(|chunk| chunk.seal(0));
            let stream: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes.clone()).collect();
            self.away.extend(chunks);
            let (mut reader, mut lengths) = (CaptureReader::new(&stream[..]), Vec::new());
            while let Some((about, bytes)) = reader.next_packet().unwrap() {
                assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8), "other bytes");
                assert_eq!((about.port, about.captured as usize), (5, bytes.len()));
                lengths.push(about.captured);
            }
            (lengths, self.missed.load(Relaxed))
        }

        /// They have been written.
        fn give_back(&mut self) {
            for mut chunk in self.away.drain(..) {
                chunk.bytes.truncate(CHUNK_HEADER);
                self.give.send(chunk).unwrap();
            }
        }
    }

    #[test]
    fn a_chunk_is_handed_over_when_it_has_waited_and_packets_are_cut() {
        let mut rig = Rig::new(1, 0, 100, false);
        rig.come(0, 2, 60, None);
        rig.come(10, 1, 1000, None);
        rig.come(10, 1, 60, Some(Reason::Spoofed)); // not asked for
        rig.captures.settle(DELAY, SECOND);
        assert_eq!(rig.handed_over(), (vec![], 0));
        rig.captures.settle(DELAY + 1, SECOND);
        assert_eq!(rig.handed_over(), (vec![60, 60, 100], 0));
        assert!(
            rig.captures.remove(8).is_none() && rig.captures.remove(7).is_some() && rig.captures.is_empty()
        );
    }

    #[test]
    fn without_chunks_packets_are_counted() {
        let mut rig = Rig::new(2, 0, 4000, true);
        let fit = CHUNK / packet_bytes(4000);
        for _ in 0..4 {
            rig.come(0, fit, 4000, Some(Reason::Storm));
        }
        assert_eq!(rig.handed_over().0.len(), 2 * fit);
        rig.give_back();
        rig.come(0, 1, 4000, None);
        rig.captures.settle(SECOND, SECOND);
        assert_eq!(rig.handed_over(), (vec![4000], 2 * fit as u64));
    }

    /// A thread that writes gets no CPU for long: nothing is missed while there is room.
    #[test]
    fn what_comes_while_nothing_is_written_is_gathered() {
        let mut rig = Rig::new(3, 0, 100, false);
        for now in 0..600 {
            rig.come(now * (DELAY + 1), 2, 60, None);
            rig.captures.settle((now + 1) * (DELAY + 1), SECOND);
        }
        assert_eq!(rig.handed_over(), (vec![60; 2], 0), "the first at once");
        rig.captures.settle(SECOND, SECOND);
        assert_eq!(rig.handed_over(), (vec![], 0), "that is not written yet");
        rig.give_back();
        rig.captures.settle(SECOND, SECOND);
        let (lengths, missed) = rig.handed_over();
        assert_eq!((lengths.len(), missed), (1198, 0));
        rig.come(SECOND, 1, 60, None);
        rig.captures.hand_over();
        assert_eq!(rig.handed_over(), (vec![60], 0), "before it sleeps");
    }

    #[test]
    fn no_more_than_the_rate_is_captured() {
        const RATE: u64 = 1000;
        let (mut rig, mut captured) = (Rig::new(CHUNKS, RATE as u32, 64, false), 0);
        for now in (0..SECOND).step_by(100) {
            rig.come(now, 3, 64, None);
            rig.captures.settle(now + 2 * DELAY, SECOND);
            let (lengths, _) = rig.handed_over();
            captured += lengths.len() as u64;
            rig.give_back();
        }
        assert!((RATE - 2..=RATE + RATE / 100 + 2).contains(&captured), "{captured}");
    }
}
