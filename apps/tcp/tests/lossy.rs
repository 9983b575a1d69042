//! Two engines with a lossy wire between them, in virtual time: whatever is lost, everything arrives once the wire is good again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::collections::BTreeMap;
use std::time::Duration;

use ccnic_frame::Meta;
use ccnic_tcp::Options;
use ccnic_tcp::engine::{Engine, Host, Micros, NEVER, Output, Phase};
use ccnic_tcp::smoltcp::{Smoltcp, Tcp};
use proptest::prelude::*;

const CLIENT: u8 = 1;
const PORT: u16 = 7;
const FROM: u16 = 4000;
const MS: Micros = 1000;
/// The wire is bad for so long.
const BAD: Micros = 20_000 * MS;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// The frames that an engine sends in one call, for which there may be no room.
struct Sent(Vec<Vec<u8>>, usize);

impl Output for Sent {
    fn room(&self) -> bool {
        self.0.len() < self.1
    }

    fn frame<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> (Meta, R)) -> R {
        let mut frame = vec![0; len];
        let (_, result) = fill(&mut frame);
        if self.room() {
            self.0.push(frame);
        }
        result
    }
}

struct End {
    engine: Smoltcp,
    tcp: Option<Tcp>,
    written: usize,
    read: usize,
    shut: bool,
    ended: bool,
}

/// What happens at a time.
enum Happens {
    Arrives(usize, Vec<u8>),
    Looks(usize),
    Reads(usize),
    Moves(usize),
}

struct World {
    ends: [End; 2],
    events: BTreeMap<(Micros, u64), Happens>,
    /// The deadline of each end for which an event is queued.
    looks: [Micros; 2],
    reading: [bool; 2],
    now: Micros,
    order: u64,
    dice: Dice,
    loss: u64,
    pause: Micros,
    len: usize,
}

fn host(last: u8, buffers: usize, segmentation: Option<usize>) -> Host {
    let mut options = Options::new(format!("10.9.0.{last}/24").parse().unwrap());
    (options.receive_buffer, options.send_buffer) = (buffers, buffers);
    options.timeout = Duration::from_secs(1 << 40); // what stands still is not given up
    Host { mac: [2, 0, 0, 0, 0, last], options, segmentation, seed: 5 }
}

impl World {
    fn new(
        seed: u64,
        loss: u64,
        buffers: usize,
        pause: Micros,
        segmentation: Option<usize>,
        len: usize,
    ) -> World {
        let end = |last| {
            let engine = Smoltcp::new(&host(last, buffers, segmentation));
            End { engine, tcp: None, written: 0, read: 0, shut: false, ended: false }
        };
        let mut ends = [end(CLIENT), end(2)];
        let [from, to] =
            [format!("10.9.0.1:{FROM}"), format!("10.9.0.2:{PORT}")].map(|end| end.parse().unwrap());
        ends[0].tcp = Some(ends[0].engine.connecting(from, to, 1000, None).unwrap());
        ends[1].tcp = Some(ends[1].engine.listening(PORT, 0xffff_f000, None));
        let mut world = World {
            ends,
            events: BTreeMap::new(),
            looks: [NEVER; 2],
            reading: [false; 2],
            now: 1,
            order: 0,
            dice: Dice(seed),
            loss,
            pause,
            len,
        };
        for end in [0, 1] {
            for _ in 0..world.dice.below(4) {
                let at = world.dice.below(BAD);
                world.at(at, Happens::Moves(end));
            }
        }
        world.look(0);
        world
    }

    fn at(&mut self, at: Micros, what: Happens) {
        self.order += 1;
        self.events.insert((at.max(self.now), self.order), what);
    }

    fn bad(&self) -> bool {
        self.now < BAD
    }

    /// Puts frames on the wire.
    fn send(&mut self, from: usize, frames: Vec<Vec<u8>>) {
        for frame in frames {
            for _ in 0..1 + u64::from(self.bad() && self.dice.below(50) == 0) {
                if !self.bad() || self.dice.below(100) >= self.loss {
                    let delay = if self.bad() { self.dice.below(30 * MS) } else { MS };
                    self.at(self.now + delay, Happens::Arrives(1 - from, frame.clone()));
                }
            }
        }
    }

    /// Lets an end write and send.
    fn look(&mut self, end: usize) {
        let room = if self.bad() { self.dice.below(8) as usize } else { usize::MAX };
        let End { engine, tcp: Some(tcp), written, shut, .. } = &mut self.ends[end] else { return };
        while *written < self.len && Smoltcp::writable(tcp).is_some_and(|room| room > 0) {
            let (at, len) = (*written, self.len);
            *written += Smoltcp::write(tcp, |room| {
                let n = room.len().min(len - at);
                (0..n).for_each(|i| room[i] = byte(end, at + i));
                (n, n)
            })
            .unwrap();
        }
        if *written == self.len && !*shut {
            *shut = true;
            Smoltcp::shutdown(tcp);
        }
        let mut sent = Sent(Vec::new(), room);
        let next = engine.output(self.now, tcp, &mut sent).at;
        let lasting = next > NEVER / 1000; // without the time after which it is given up
        let waits = Smoltcp::unacknowledged(tcp) > 0 || Smoltcp::phase(tcp) == Phase::Opening;
        assert!(!(lasting && waits), "end {end} waits for nothing at {} us", self.now);
        let readable = Smoltcp::readable(tcp) > 0 || Smoltcp::finished(tcp);
        if next <= self.now {
            self.looks[end] = self.now + MS;
            self.at(self.now + MS, Happens::Looks(end));
        } else if !lasting && next != self.looks[end] {
            self.looks[end] = next;
            self.at(next, Happens::Looks(end));
        }
        if readable && !self.ends[end].ended && !self.reading[end] {
            self.reading[end] = true;
            let at = self.now + self.dice.below(self.pause);
            self.at(at, Happens::Reads(end));
        }
        self.send(end, sent.0);
    }

    fn happens(&mut self, what: Happens) {
        match what {
            Happens::Arrives(to, frame) => {
                let End { engine, tcp, .. } = &mut self.ends[to];
                let is_tcp = frame[12..14] == [8, 0];
                let mut sent = Sent(Vec::new(), usize::MAX);
                engine.input(self.now, &frame, tcp.as_mut().filter(|_| is_tcp), &mut sent);
                self.send(to, sent.0);
                self.look(to);
            }
            Happens::Looks(end) => {
                self.looks[end] = if self.looks[end] <= self.now { NEVER } else { self.looks[end] };
                self.look(end);
            }
            Happens::Reads(end) => {
                self.reading[end] = false;
                let most = 1 + self.dice.below(20_000) as usize;
                let End { tcp: Some(tcp), read, ended, .. } = &mut self.ends[end] else { return };
                let n = Smoltcp::read(tcp, |bytes| {
                    let n = bytes.len().min(most);
                    assert!((0..n).all(|i| bytes[i] == byte(1 - end, *read + i)), "after {read} bytes");
                    (n, n)
                });
                *read += n.unwrap_or(0);
                *ended |= Smoltcp::finished(tcp);
                self.look(end);
            }
            Happens::Moves(end) => {
                self.events.retain(|_, event| !matches!(event, Happens::Arrives(..)));
                let seed = self.dice.below(u64::MAX);
                self.ends[end].engine.moved(self.now, [None, Some(9600)][seed as usize % 2], seed);
                self.look(end);
            }
        }
    }

    /// Until both have read all that the other one has written, and its end.
    fn run(mut self) {
        for _ in 0..200_000 {
            if self.ends.iter().all(|end| end.ended) {
                assert!(self.ends.iter().all(|end| end.read == self.len));
                return;
            }
            let Some(((at, _), what)) = self.events.pop_first() else { break };
            self.now = at;
            self.happens(what);
        }
        let ends = self.ends.each_ref().map(|end| {
            let tcp = end.tcp.as_ref().unwrap();
            (end.written, end.read, end.ended, Smoltcp::phase(tcp), Smoltcp::unacknowledged(tcp))
        });
        panic!("written, read, ended at {} us: {ends:?}", self.now);
    }
}

fn byte(end: usize, at: usize) -> u8 {
    (at % 251) as u8 ^ end as u8
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// With anything unacknowledged a timer runs, and after the last loss all arrives: RFC 9293 section 3.8.6.1, RFC 6298 section 5.
    #[test]
    fn a_connection_never_stands_still(
        seed in any::<u64>(),
        loss in 0u64..60,
        buffers in prop::sample::select(vec![4096usize, 6000, 65536, 200_000]),
        pause in prop::sample::select(vec![1u64, 100 * MS, 3000 * MS]),
        cut in any::<bool>(),
        len in 1usize..300_000,
    ) {
        World::new(seed, loss, buffers, pause, cut.then_some(9600), len).run();
    }
}
