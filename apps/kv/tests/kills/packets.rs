//! Programs that exchange numbered frames over the switch: a pair of ports in one process, which knows exactly what may be lost, and two
//! stations that live and die by themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ccnic::{Burst, Config, Layout};
use ccnic_check::oracle::{self, Held};
use ccnic_client::{Nic, Pages, QueuePair};
use ccnic_hostile::Random;
use ccnic_testing::PATIENCE;

use super::life::{self, Life, Says};

/// Descriptors that a NIC may have in its hands when it dies: docs/architecture/overview.md, "Life and death".
const IN_HAND: u64 = 64;
/// Frames under way: far fewer than a ring has room for, so that none is dropped for want of it.
const WINDOW: u64 = 48;
/// Two addresses and a type.
const ETHERNET: usize = 14;
/// Then the kind of frame, the sender's life, the number, the last number received of the peer's life, that life.
const HEADER: usize = ETHERNET + 5 * 8;
const LONGEST: u64 = 1500;
/// Slots of buffers that a new NIC may hold: of those that it has taken for small frames that others have flooded since.
const FEW: usize = 128;

type Mac = [u8; 6];

fn mac(port: u8) -> Mac {
    [2, 0xcc, 0, 0, 0, port]
}

/// A frame without its addresses and filling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Frame {
    /// 1 data, 2 greeting.
    kind: u64,
    /// Of the sender.
    life: u64,
    /// Of data: this one's number. Of a greeting: how many were sent.
    number: u64,
    /// Up to which the receiver's frames have come, and in which of its lives they were sent.
    came: u64,
    of: u64,
}

const DATA: u64 = 1;
const GREETING: u64 = 2;

/// A port of the switch.
struct Port {
    nic: Nic,
    pair: QueuePair,
    mac: Mac,
    /// Slots of all buffers that can be allocated when nothing is under way.
    all: usize,
    bytes: Vec<u8>,
}

impl Port {
    fn open(life: &Life, number: u8) -> Port {
        let config = Config { ring: 1024, buffers: 1024, ..Config::default() };
        let mut nic = life.persist("a NIC", || {
            let name = format!("port {number}");
            Nic::options().name(&name).config(&config).pages(Pages::Small).open(life.folder.nic())
        });
        let pair = nic.queue_pair(0).unwrap();
        // One buffer's place is the area of inline packets.
        let all = (config.buffers - u32::from(config.has_areas())) as usize * 32;
        Port { nic, pair, mac: mac(number), all, bytes: Vec::new() }
    }

    /// False when there is no room.
    fn send(&mut self, to: Mac, frame: Frame, len: usize) -> bool {
        let len = len.max(HEADER);
        self.bytes.resize(len, 0);
        oracle::fill(frame.life ^ frame.number, 0, &mut self.bytes);
        let Frame { kind, life, number, came, of } = frame;
        let words = [kind, life, number, came, of].map(u64::to_le_bytes).concat();
        self.bytes[..HEADER].copy_from_slice(&[&to[..], &self.mac, &[0x88, 0xb5], &words].concat());
        let mut burst = Burst::new();
        if self.pair.alloc(len as u16, 1, &mut burst) == 0 {
            return false;
        }
        for buf in burst.iter_mut() {
            assert_eq!(self.pair.write(buf, 0, &self.bytes), len);
        }
        let sent = self.pair.tx_burst(&mut burst) == 1;
        self.pair.free(&mut burst);
        sent
    }

    /// The frames of `from` that are for this port, each as it was sent.
    fn receive(&mut self, from: Mac) -> Vec<Frame> {
        let (mut burst, mut frames, mut bytes) = (Burst::new(), Vec::new(), Vec::new());
        self.pair.rx_burst(&mut burst, 32);
        for buf in burst.as_slice() {
            self.pair.with(buf, |part| bytes.extend_from_slice(part));
            if !buf.more() {
                frames.extend(self.check(&bytes, from));
                bytes.clear();
            }
        }
        assert!(bytes.is_empty(), "a frame without its end");
        self.pair.free(&mut burst);
        frames
    }

    /// A switch floods frames to addresses that it has not heard of: those are none of ours.
    fn check(&mut self, frame: &[u8], from: Mac) -> Option<Frame> {
        if frame[..6] != self.mac {
            return None;
        }
        assert!(
            frame[6..12] == from && frame[12..14] == [0x88, 0xb5],
            "from a stranger: {:x?}",
            &frame[..14]
        );
        let word = |at: usize| {
            u64::from_le_bytes(frame[ETHERNET + at * 8..ETHERNET + at * 8 + 8].try_into().unwrap())
        };
        let came = Frame { kind: word(0), life: word(1), number: word(2), came: word(3), of: word(4) };
        self.bytes.resize(frame.len(), 0);
        oracle::fill(came.life ^ came.number, 0, &mut self.bytes);
        assert!(self.bytes[HEADER..] == frame[HEADER..], "{came:?}, {} bytes: damaged", frame.len());
        Some(came)
    }

    /// Once nothing is under way every buffer can be had, once; a loss at each death would add up.
    fn count_buffers(&mut self) {
        let now = allocatable(&mut self.pair, self.nic.layout());
        assert!(now <= self.all && now + FEW >= self.all, "{now} slots of buffers, {} at first", self.all);
    }
}

/// Slots of 128 bytes in all buffers that can be allocated; none is handed out twice.
fn allocatable(pair: &mut QueuePair, layout: &Layout) -> usize {
    let (mut held, mut bursts) = (Held::new(layout), Vec::new());
    for size in [4096, 64] {
        loop {
            let mut burst = Burst::new();
            if pair.alloc(size, 32, &mut burst) == 0 {
                break;
            }
            burst.as_slice().iter().for_each(|buf| held.take(buf.desc()));
            bursts.push(burst);
        }
    }
    bursts.iter_mut().for_each(|burst| pair.free(burst));
    held.count
}

/// A number that no other life has.
fn new_life() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_nanos() as u64
}

/// Frames from one port to the other, in one thread. When the NIC dies the receiver goes on first, so that what waits in the sender's ring
/// arrives: only what the NIC had in its hands may be missing.
struct Pair {
    ports: [Port; 2],
    life: u64,
    sent: u64,
    next: u64,
    /// Frames before this one may be missing, so many of them.
    doomed: u64,
    may_lose: u64,
    /// Of the NIC, that have been accounted for.
    crashes: u64,
    /// The rest that it is in.
    rests: u64,
    spoke: Instant,
    random: Random,
}

impl Pair {
    fn turn(&mut self, world: &Life, send: bool) {
        let [from, to] = &mut self.ports;
        let recovered = self.next > self.doomed || self.may_lose == 0;
        let window = if recovered { WINDOW } else { WINDOW + self.may_lose };
        if (send || !recovered) && self.sent - self.next < window {
            let frame = Frame { kind: DATA, life: self.life, number: self.sent, ..Frame::default() };
            self.sent += u64::from(from.send(to.mac, frame, self.random.below(LONGEST) as usize));
        }
        // The switch hears where the receiver is: frames to an address that never speaks go to everybody.
        if self.spoke.elapsed() > Duration::from_millis(5) {
            to.send(from.mac, Frame { kind: GREETING, life: self.life, ..Frame::default() }, 0);
            self.spoke = Instant::now();
        }
        from.receive(to.mac);
        let came = to.receive(from.mac);
        for frame in &came {
            // Packets that were under way when a life before this one ended may come late.
            if frame.life != self.life {
                assert!(frame.life < self.life, "{frame:?} in life {}", self.life);
                continue;
            }
            assert!(frame.number >= self.next && frame.number < self.sent, "{frame:?}: twice, or never sent");
            let missing = frame.number - self.next;
            let explained = missing == 0 || frame.number <= self.doomed && missing <= self.may_lose;
            assert!(explained, "{missing} frames before {frame:?} are missing, {} may be", self.may_lose);
            self.may_lose -= missing;
            world.add(Says::Lost, missing);
            self.next = frame.number + 1;
        }
        if !came.is_empty() {
            world.add(Says::Progress, 1);
            world.add(Says::Done, came.len() as u64);
        }
    }

    fn settled(&self) -> bool {
        self.sent == self.next && (self.next > self.doomed || self.may_lose == 0)
    }

    /// Goes on with the next NIC if this one has died.
    fn go_on(&mut self, world: &Life) {
        if self.ports.iter().all(|port| port.nic.alive()) {
            return;
        }
        let start = Instant::now();
        let resting = self.settled() && world.board.counts_buffers(self.rests);
        let [from, to] = &mut self.ports;
        let mut why = String::new();
        while !from.nic.alive() || !to.nic.alive() {
            let alive = [from.nic.alive(), to.nic.alive()];
            assert!(start.elapsed() < PATIENCE, "no NIC that stays: {alive:?} {why}");
            // There may be no NIC yet, or it is killed again.
            let done = match alive {
                [false, true] => from.nic.reconnect([&mut from.pair], []),
                [false, false] => to.nic.reconnect([&mut to.pair], []),
                // Both ends of a dead NIC's connections are seen at once: the sender is with the next one already, and what is in its
                // ring finds nobody.
                [true, false] if start.elapsed() > Duration::from_millis(200) => {
                    to.nic.reconnect([&mut to.pair], []).inspect(|_| self.may_lose += WINDOW)
                }
                [true, _] => Ok(0),
            };
            if let Err(e) = done {
                why = e.to_string();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // A NIC that is told to end loses nothing.
        let crashes = world.board.crashes(life::DAEMON);
        self.may_lose += IN_HAND * (crashes - self.crashes);
        (self.crashes, self.doomed) = (crashes, self.sent);
        if resting {
            // Nothing is under way but greetings, and what others broadcast.
            let [from, to] = &mut self.ports;
            while !from.receive(to.mac).is_empty() {}
            while !to.receive(from.mac).is_empty() {}
            from.count_buffers();
            to.count_buffers();
            (self.doomed, self.may_lose) = (0, 0);
        }
        world.add(Says::Reconnects, 1);
    }
}

#[test]
#[ignore = "a process of a trial"]
fn pair() {
    let Some(mut world) = Life::begin() else { return };
    let crashes = world.board.crashes(life::DAEMON);
    let mut pair = Pair {
        ports: [Port::open(&world, 0), Port::open(&world, 1)],
        life: new_life(),
        sent: 0,
        next: 0,
        doomed: 0,
        may_lose: 0,
        crashes,
        rests: 0,
        spoke: Instant::now(),
        random: Random::new(new_life()),
    };
    let mut turns = 0u64;
    loop {
        turns += 1;
        if turns.is_multiple_of(16) {
            pair.go_on(&world);
        }
        let rest = world.rest();
        pair.turn(&world, rest.is_none());
        if let Some(rest) = rest.filter(|_| pair.settled()) {
            pair.rests = rest;
            world.say(Says::Rest, rest);
            world.add(Says::Progress, 1);
            std::thread::sleep(Duration::from_millis(1));
        }
        if turns.is_multiple_of(64) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// One of two stations. Frames arrive in order, so whoever greets tells what must have come before.
struct Station {
    port: Port,
    peer: Mac,
    life: u64,
    sent: u64,
    /// Of these the peer knows, in its present life.
    known: u64,
    peer_life: u64,
    /// By the peer's life: the next number that may come.
    next: BTreeMap<u64, u64>,
    /// Deaths that may have cost a window of frames each.
    deaths: u64,
    greeted: Instant,
    random: Random,
}

impl Station {
    fn greet(&mut self) {
        let frame = Frame {
            kind: GREETING,
            life: self.life,
            number: self.sent,
            came: self.next.get(&self.peer_life).copied().unwrap_or(0),
            of: self.peer_life,
        };
        self.port.send(self.peer, frame, 60);
        self.greeted = Instant::now();
    }

    fn came(&mut self, world: &Life, frame: Frame) {
        if frame.life > self.peer_life {
            self.deaths += u64::from(self.peer_life != 0);
            (self.peer_life, self.known) = (frame.life, self.sent);
        }
        // The first that is heard of a life may be any, when this station is younger, or when it is what a life before left in its ring.
        let young = self.next.is_empty() || frame.life < self.peer_life;
        let next = self.next.entry(frame.life).or_insert(if young { frame.number } else { 0 });
        let least = if frame.kind == DATA { *next } else { 0 };
        assert!(frame.number >= least, "{frame:?} after {next}: twice, or out of order");
        let missing = frame.number.saturating_sub(*next);
        if missing > 0 {
            assert!(
                self.deaths > 0 && missing <= WINDOW,
                "{missing} before {frame:?} are missing: no death explains it"
            );
            self.deaths -= 1;
            world.add(Says::Lost, missing);
        }
        *next = (*next).max(frame.number + u64::from(frame.kind == DATA));
        if frame.of == self.life && frame.life == self.peer_life {
            assert!(frame.came <= self.sent, "{frame:?} of {}", self.sent);
            self.known = self.known.max(frame.came);
        }
        world.add(Says::Done, u64::from(frame.kind == DATA));
        world.add(Says::Progress, u64::from(frame.kind == DATA));
    }

    fn turn(&mut self, world: &Life, send: bool) {
        self.port.receive(self.peer).into_iter().for_each(|frame| self.came(world, frame));
        if send && self.peer_life != 0 && self.sent - self.known < WINDOW {
            let came = self.next.get(&self.peer_life).copied().unwrap_or(0);
            let frame = Frame { kind: DATA, life: self.life, number: self.sent, came, of: self.peer_life };
            self.sent += u64::from(self.port.send(self.peer, frame, self.random.below(LONGEST) as usize));
        }
        if self.greeted.elapsed() > Duration::from_millis(5) {
            self.greet();
        }
    }
}

fn station(number: u8) {
    let Some(mut world) = Life::begin() else { return };
    let mut station = Station {
        port: Port::open(&world, 2 + number),
        peer: mac(3 - number),
        life: new_life(),
        sent: 0,
        known: 0,
        peer_life: 0,
        next: BTreeMap::new(),
        // Frames that the life before had sent are still forwarded after this one has begun to hear: their address is learned at the dead
        // port again, and the peer's frames go there until this life speaks.
        deaths: u64::from(world.board.died(life::STATION_0 + usize::from(number)) > 0),
        greeted: Instant::now(),
        random: Random::new(new_life()),
    };
    let mut turns = 0u64;
    loop {
        turns += 1;
        if turns.is_multiple_of(16) && !station.port.nic.alive() {
            let port = &mut station.port;
            world.persist("the next NIC", || port.nic.reconnect([&mut port.pair], []));
            station.deaths += 1;
            world.add(Says::Reconnects, 1);
        }
        let rest = world.rest();
        station.turn(&world, rest.is_none());
        if let Some(rest) = rest.filter(|_| station.sent == station.known) {
            world.say(Says::Rest, rest);
        }
        if turns.is_multiple_of(8) {
            std::thread::sleep(Duration::from_micros(if rest.is_some() { 1000 } else { 50 }));
        }
    }
}

#[test]
#[ignore = "a process of a trial"]
fn station_0() {
    station((life::STATION_0 - life::STATION_0) as u8);
}

#[test]
#[ignore = "a process of a trial"]
fn station_1() {
    station((life::STATION_1 - life::STATION_0) as u8);
}
