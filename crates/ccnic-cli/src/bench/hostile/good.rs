//! The good program: packets round and round, with two clocks.
//!
//! On a machine with few CPUs the attacks share one with this program, and the scheduler takes time away from it. That is not the
//! NIC's doing. So packets are counted per second of the thread's own CPU time, and a round trip is measured with a clock that stands
//! still while the thread has no CPU: the time-stamp counter without its jumps between two looks.
//!
//! The loopback returns the packets to the queue that they were sent on. A switch never does: there they are frames to another port of the
//! same thread, which receives them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ccnic::{Burst, Config};
use ccnic_client::{Nic, Pages, QueuePair};
use ccnic_load::payload;
use clap::ValueEnum;
use rustix::process::setpriority_process;
use serde::Serialize;

use crate::cpus::{CpuTime, pin};

/// What the program calls itself.
pub const NAME: &str = "good";
/// Bytes of a packet.
pub const SIZE: u16 = 64;
/// Packets in flight.
pub const WINDOW: usize = 64;
/// The addresses at a switch, of who sends and of who receives.
const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// What a frame from the one to the other begins with ([`payload::ethernet`]).
const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
/// Packets in a burst.
const BURST: usize = 32;
/// A turn of the loop that takes longer was interrupted: another thread had the CPU.
const INTERRUPTED: Duration = Duration::from_micros(20);
/// A round trip that takes longer is a stall.
const STALL: Duration = Duration::from_millis(1);
/// How long the last packets may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What goes on around the program: what it counts belongs to a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is counted.
    Change = 0,
    /// No other program is there.
    Alone = 1,
    /// An attack is under way.
    Beside = 2,
}

/// The phase, set by the thread that starts and ends the attack.
#[derive(Debug, Default)]
pub struct Scene {
    phase: AtomicUsize,
    over: AtomicBool,
}

impl Scene {
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as usize, Relaxed);
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            1 => Phase::Alone,
            2 => Phase::Beside,
            _ => Phase::Change,
        }
    }

    /// Ends what goes on.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
}

/// What the program saw in a phase.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Seen {
    /// Packets that came back.
    pub packets: u64,
    /// Million packets per second of the thread's own CPU time.
    pub mpps: f64,
    /// The longest round trip, in nanoseconds in which the thread had its CPU.
    pub worst_ns: u64,
    /// Round trips of more than a millisecond.
    pub stalls: u64,
    /// The share of the time that the thread had its CPU.
    pub cpu_share: f64,
}

/// What the program saw in all.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Experience {
    pub alone: Seen,
    pub beside: Seen,
    /// Packets that did not come back within ten seconds.
    pub lost: u64,
    /// Packets that came back damaged, twice or out of order.
    pub corrupt: u64,
}

/// What the NIC does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Wire {
    /// Returns them to who has sent them
    #[default]
    Loopback,
    /// Passes them on to whoever has their address
    Switch,
}

/// The good program, attached.
pub struct Good {
    nic: Nic,
    pair: QueuePair,
    /// Of a switch: the port that packets go to.
    to: Option<(Nic, QueuePair)>,
}

impl Good {
    /// Attaches to the NIC at `socket`.
    pub fn open(socket: &Path, wire: Wire) -> anyhow::Result<Good> {
        let config = Config { ring: 256, buffers: 1024, ..Config::default() };
        let open = |name| -> anyhow::Result<(Nic, QueuePair)> {
            let mut nic = Nic::options().name(name).config(&config).pages(Pages::Small).open(socket)?;
            let pair = nic.queue_pair(0)?;
            Ok((nic, pair))
        };
        let (nic, pair) = open(NAME)?;
        let to = (wire == Wire::Switch).then(|| open("good, receiving")).transpose()?;
        let mut good = Good { nic, pair, to };
        good.greet()?;
        Ok(good)
    }

    /// Has a switch learn where the packets are to go: what it does not know goes to all ports.
    fn greet(&mut self) -> anyhow::Result<()> {
        let Some((_, to)) = &mut self.to else { return Ok(()) };
        let (mut burst, start) = (Burst::new(), Instant::now());
        to.alloc(SIZE, 1, &mut burst);
        for buf in burst.iter_mut() {
            to.with_mut(buf, |bytes| payload::fill_after(&payload::ethernet(A, B), bytes, 0, 0, 0));
        }
        to.tx_burst(&mut burst);
        while self.pair.rx_burst(&mut burst, 1) == 0 {
            anyhow::ensure!(start.elapsed() < PATIENCE, "the switch passes nothing on");
            self.pair.relax();
        }
        self.pair.free(&mut burst);
        Ok(())
    }

    /// Sends and receives until the scene is over and all packets are back.
    pub fn run(self, cpu: usize, nice: i32, scene: &Scene) -> anyhow::Result<Experience> {
        pin(cpu)?;
        let _ = setpriority_process(None, nice); // the table says whether that is permitted
        let (to_nic, to) = self.to.unzip();
        let mut loops = Loop::new(self.pair, to);
        while !scene.is_over() {
            loops.enter(scene.phase());
            loops.send();
            loops.receive();
        }
        loops.enter(Phase::Change);
        loops.finish(&self.nic);
        drop(to_nic); // attached until now
        let Loop { seen: [_, alone, beside], sent, received, corrupt, .. } = loops;
        Ok(Experience { alone, beside, lost: sent - received, corrupt })
    }
}

/// The loop of the good program.
struct Loop {
    pair: QueuePair,
    /// Where packets are received, if not there.
    to: Option<QueuePair>,
    burst: Burst,
    clock: OwnClock,
    phase: Phase,
    /// What this phase is measured from: packets received, and the thread's clocks.
    begun: (u64, CpuTime),
    /// The longest round trip of this phase, in ticks, and how many were stalls.
    worst: u64,
    stalls: u64,
    /// By phase.
    seen: [Seen; 3],
    /// By packet under way: when it was sent, in ticks.
    sent_at: [u64; WINDOW],
    sent: u64,
    received: u64,
    corrupt: u64,
}

impl Loop {
    fn new(pair: QueuePair, to: Option<QueuePair>) -> Loop {
        Loop {
            pair,
            to,
            burst: Burst::new(),
            clock: OwnClock::new(),
            phase: Phase::Change,
            begun: (0, CpuTime::now()),
            worst: 0,
            stalls: 0,
            seen: [Seen::default(); 3],
            sent_at: [0; WINDOW],
            sent: 0,
            received: 0,
            corrupt: 0,
        }
    }

    /// Counts for `phase` from now on.
    fn enter(&mut self, phase: Phase) {
        if phase == self.phase {
            return;
        }
        if self.received < self.sent {
            self.arrived_after(self.age(self.received)); // what has not come yet is late already
        }
        let (packets, begun) = (self.received - self.begun.0, self.begun.1);
        let now = CpuTime::now();
        let seconds = now.own_since(begun);
        self.seen[self.phase as usize] = Seen {
            packets,
            mpps: if seconds > 0.0 { packets as f64 / seconds / 1e6 } else { 0.0 },
            worst_ns: self.clock.nanoseconds(self.worst),
            stalls: self.stalls,
            cpu_share: now.share_since(begun),
        };
        (self.phase, self.begun, self.worst, self.stalls) = (phase, (self.received, now), 0, 0);
    }

    /// How long ago, in ticks, a packet was sent that is under way.
    fn age(&self, seq: u64) -> u64 {
        self.clock.now.saturating_sub(self.sent_at[seq as usize % WINDOW])
    }

    fn arrived_after(&mut self, ticks: u64) {
        self.worst = self.worst.max(ticks);
        self.stalls += u64::from(ticks > self.clock.stall);
    }

    fn send(&mut self) {
        self.clock.look();
        let room = (WINDOW as u64 - (self.sent - self.received)).min(BURST as u64) as usize;
        if room == 0 {
            return;
        }
        let framed = self.to.is_some();
        self.pair.alloc(SIZE, room, &mut self.burst);
        for (seq, buf) in (self.sent..).zip(self.burst.iter_mut()) {
            buf.set_meta(seq);
            self.pair.with_mut(buf, |bytes| match framed {
                true => payload::fill_after(&payload::ethernet(B, A), bytes, 0, seq, 0),
                false => payload::fill(bytes, 0, seq, 0),
            });
            self.sent_at[seq as usize % WINDOW] = self.clock.now;
        }
        self.sent += self.pair.tx_burst(&mut self.burst) as u64;
        self.pair.free(&mut self.burst);
    }

    fn receive(&mut self) {
        let framed = self.to.is_some();
        let pair = self.to.as_mut().unwrap_or(&mut self.pair);
        if pair.rx_burst(&mut self.burst, BURST) == 0 {
            return pair.relax();
        }
        let mut ours = 0;
        for buf in self.burst.as_slice() {
            let seq = self.received + ours;
            let (whole, stranger) = pair.with(buf, |bytes| {
                let at = if framed { payload::stamps_after::<2>(bytes) } else { payload::header(bytes) };
                let number = at.map(|(_, number)| number) == Some(seq) && bytes.len() == usize::from(SIZE);
                let whole = match framed {
                    true => payload::check_after(&payload::ethernet(B, A), bytes, 0, seq),
                    false => payload::check(bytes, 0, seq),
                };
                // A switch floods what others send to addresses that it does not know.
                (number && whole, framed && bytes.get(..14) != Some(&HEADER))
            });
            if !stranger {
                self.corrupt += u64::from(!whole || buf.meta() != seq);
                ours += 1;
            }
        }
        pair.free(&mut self.burst);
        if ours > 0 {
            // The first of a burst has waited longest.
            self.arrived_after(self.age(self.received));
            self.received += ours;
        }
    }

    /// Receives what is under way, as long as something comes and the NIC lives.
    fn finish(&mut self, nic: &Nic) {
        let (mut last, mut received) = (Instant::now(), self.received);
        while self.received < self.sent && last.elapsed() < PATIENCE {
            let alive = nic.alive();
            self.receive();
            if self.received > received {
                (last, received) = (Instant::now(), self.received);
            } else if !alive {
                break;
            }
        }
    }
}

/// A clock that runs while the thread has a CPU.
struct OwnClock {
    clock: quanta::Clock,
    /// The time-stamp counter when it was last looked at.
    last: u64,
    /// Ticks in which the thread had its CPU.
    now: u64,
    /// Ticks of [`INTERRUPTED`] and of [`STALL`].
    interrupted: u64,
    stall: u64,
}

impl OwnClock {
    fn new() -> OwnClock {
        let clock = quanta::Clock::new();
        let ticks = |time: Duration| {
            let second = 1_000_000_000; // ticks, not far from the nanoseconds that they are
            let ratio = second as f64 / clock.delta_as_nanos(0, second).max(1) as f64;
            (time.as_nanos() as f64 * ratio) as u64
        };
        OwnClock { last: clock.raw(), now: 0, interrupted: ticks(INTERRUPTED), stall: ticks(STALL), clock }
    }

    /// Once in a turn of the loop: a turn that took long was interrupted, and does not count.
    #[inline(always)]
    fn look(&mut self) {
        let now = self.clock.raw();
        let passed = now.wrapping_sub(self.last);
        self.last = now;
        if passed < self.interrupted {
            self.now += passed;
        }
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        self.clock.delta_as_nanos(0, ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_while_the_thread_sleeps() {
        let mut clock = OwnClock::new();
        clock.look();
        let before = clock.now;
        std::thread::sleep(Duration::from_millis(5));
        clock.look();
        assert_eq!(clock.now, before);
        assert!((19_000..=21_000).contains(&clock.nanoseconds(clock.interrupted)));
        assert!((990_000..=1_010_000).contains(&clock.nanoseconds(clock.stall)));
    }

    #[test]
    fn a_scene_has_phases_and_an_end() {
        let scene = Scene::default();
        assert_eq!((scene.phase(), scene.is_over()), (Phase::Change, false));
        for phase in [Phase::Alone, Phase::Beside, Phase::Change] {
            scene.set(phase);
            assert_eq!(scene.phase(), phase);
        }
        scene.end();
        assert!(scene.is_over());
    }
}
