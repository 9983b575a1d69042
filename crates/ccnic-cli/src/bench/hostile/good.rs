//! The good programs: packets round and round, with two clocks.
//!
//! On a machine with few CPUs the attacks share one with these programs, and the scheduler takes time away from them. That is not the
//! NIC's doing. So packets are counted per second of the thread's own CPU time, and a round trip is measured with a clock that stands
//! still while the thread has no CPU (`own_clock.rs`). All programs are regions of one thread: they take no CPU from each other, either.
//!
//! The loopback returns the packets to the program that has sent them. A switch never does: there each program sends to the next, and
//! the last to the first; one alone has a second port that only receives.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ccnic::{Burst, Config};
use ccnic_client::{Nic, Pages, QueuePair};
use ccnic_load::payload::{self, Header};
use clap::ValueEnum;
use rustix::process::setpriority_process;
use serde::Serialize;

use super::account::Account;
use super::flow::Flow;
use super::own_clock::OwnClock;
use crate::cpus::{CpuTime, pin};

/// What the programs call themselves.
pub const NAME: &str = "good";
/// What a port calls itself that no good program's packets go to.
pub const SENDING: &str = "good, sending";
/// Bytes of a packet.
pub const SIZE: u16 = 64;
/// Packets in a burst.
const BURST: usize = 32;
/// How long the last packets may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// When nothing has come for so long at the end, another packet is sent: if it arrives, those before it were lost.
const ANOTHER: Duration = Duration::from_millis(20);

/// What goes on around the programs: what they count belongs to a phase.
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

/// What the programs saw in a phase.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Seen {
    /// Packets that arrived.
    pub packets: u64,
    /// Million packets per second of the thread's own CPU time.
    pub mpps: f64,
    /// Of each program, the same.
    pub each_mpps: Vec<f64>,
    /// The longest round trip, in nanoseconds in which the thread had its CPU.
    pub worst_ns: u64,
    /// Round trips of more than a millisecond.
    pub stalls: u64,
    /// The share of the time that the thread had its CPU.
    pub cpu_share: f64,
}

/// What the programs saw in all.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Experience {
    pub alone: Seen,
    pub beside: Seen,
    /// Packets that arrived, also between the phases.
    pub received: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Packets that arrived damaged, twice or out of order.
    pub corrupt: u64,
    /// What came besides: frames of others, which a switch floods.
    pub foreign: u64,
    /// What the NIC has counted at the programs' ports in the end; none where it did not answer.
    pub account: Option<Account>,
}

impl Experience {
    /// Lost packets that the NIC has not counted as dropped at the programs' ports, and frames that it has counted as delivered there
    /// and that did not come, or the other way round.
    pub fn unaccounted(&self) -> u64 {
        let Some(Account { delivered, dropped }) = self.account else { return self.lost };
        self.lost.saturating_sub(dropped) + delivered.abs_diff(self.received + self.corrupt + self.foreign)
    }
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

/// The address of a program at a switch.
const fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8 + 1]
}

/// What a program's packets are at a switch.
struct Frames {
    header: Header<2>,
    /// The bytes that they begin with.
    start: [u8; 14],
}

impl Frames {
    fn new(from: usize, to: usize) -> Frames {
        let mut start = [0; 14];
        let bytes = mac(to).into_iter().chain(mac(from)).chain([0x88, 0xb5]);
        start.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        Frames { header: payload::ethernet(mac(to), mac(from)), start }
    }
}

/// One good program: where it sends, where its packets arrive, and what has become of them.
struct Program {
    from: usize,
    to: usize,
    /// At a switch.
    frames: Option<Frames>,
    flow: Flow,
    /// Packets that had arrived when the phase began.
    begun: u64,
}

/// The good programs, attached.
pub struct Good {
    nics: Vec<Nic>,
    pairs: Vec<QueuePair>,
    programs: Vec<Program>,
    /// Frames that have come and are none of theirs.
    foreign: u64,
}

impl Good {
    /// Attaches so many programs to the NIC at `socket`.
    pub fn open(socket: &Path, wire: Wire, programs: usize) -> anyhow::Result<Good> {
        let config = Config { ring: 256, buffers: 1024, ..Config::default() };
        let ports = if wire == Wire::Switch { programs.max(2) } else { programs };
        let (mut nics, mut pairs) = (Vec::new(), Vec::new());
        for at in 0..ports {
            let name = if wire == Wire::Switch && programs == 1 && at == 0 { SENDING } else { NAME };
            let mut nic = Nic::options().name(name).config(&config).pages(Pages::Small).open(socket)?;
            pairs.push(nic.queue_pair(0)?);
            nics.push(nic);
        }
        let program = |from: usize| {
            let to = if wire == Wire::Switch { (from + 1) % ports } else { from };
            let frames = (wire == Wire::Switch).then(|| Frames::new(from, to));
            Program { from, to, frames, flow: Flow::default(), begun: 0 }
        };
        let mut good = Good { nics, pairs, programs: (0..programs).map(program).collect(), foreign: 0 };
        if wire == Wire::Switch {
            good.greet()?;
        }
        Ok(good)
    }

    /// Has a switch learn where each port is: what it does not know goes to all ports. Each sends a frame to the one before it.
    fn greet(&mut self) -> anyhow::Result<()> {
        let (mut burst, start, ports) = (Burst::new(), Instant::now(), self.pairs.len());
        for from in 0..ports {
            let to = (from + ports - 1) % ports;
            let header = payload::ethernet(mac(to), mac(from));
            let Some(pair) = self.pairs.get_mut(from) else { break };
            pair.alloc(SIZE, 1, &mut burst);
            for buf in burst.iter_mut() {
                pair.with_mut(buf, |bytes| payload::fill_after(&header, bytes, 0, 0, 0));
            }
            pair.tx_burst(&mut burst);
            let Some(pair) = self.pairs.get_mut(to) else { break };
            let mut greeted = false;
            while !greeted {
                anyhow::ensure!(start.elapsed() < PATIENCE, "the switch passes nothing on");
                self.foreign += pair.rx_burst(&mut burst, 1) as u64;
                for buf in burst.as_slice() {
                    greeted |= pair.with(buf, |bytes| bytes.get(6..12) == Some(&mac(from)));
                }
                pair.free(&mut burst);
                pair.relax();
            }
        }
        Ok(())
    }

    /// Sends and receives until the scene is over and it is known of all packets whether they have arrived.
    pub fn run(self, socket: &Path, cpu: usize, nice: i32, scene: &Scene) -> anyhow::Result<Experience> {
        pin(cpu)?;
        let _ = setpriority_process(None, nice); // the table says whether that is permitted
        let Good { nics, pairs, programs, foreign } = self;
        let mut loops = Loop::new(pairs, programs, foreign);
        while !scene.is_over() {
            loops.enter(scene.phase());
            loops.turn();
        }
        loops.enter(Phase::Change);
        let account = loops.finish(&nics, socket);
        let Loop { seen: [_, alone, beside], programs, foreign, .. } = loops;
        let sum = |of: fn(&Flow) -> u64| programs.iter().map(|program| of(&program.flow)).sum::<u64>();
        let (received, corrupt) = (sum(|flow| flow.received), sum(|flow| flow.corrupt));
        let lost = sum(|flow| flow.sent) - received;
        Ok(Experience { alone, beside, received, lost, corrupt, foreign, account })
    }
}

/// The loop of the good programs.
struct Loop {
    pairs: Vec<QueuePair>,
    programs: Vec<Program>,
    foreign: u64,
    burst: Burst,
    clock: OwnClock,
    phase: Phase,
    /// The thread's clocks when the phase began.
    begun: CpuTime,
    /// The longest round trip of this phase, in ticks, and how many were stalls.
    worst: u64,
    stalls: u64,
    /// By phase.
    seen: [Seen; 3],
}

impl Loop {
    fn new(pairs: Vec<QueuePair>, programs: Vec<Program>, foreign: u64) -> Loop {
        let (burst, clock, begun) = (Burst::new(), OwnClock::new(), CpuTime::now());
        let seen = Default::default();
        Loop {
            pairs,
            programs,
            foreign,
            burst,
            clock,
            phase: Phase::Change,
            begun,
            worst: 0,
            stalls: 0,
            seen,
        }
    }

    /// Counts for `phase` from now on.
    fn enter(&mut self, phase: Phase) {
        if phase == self.phase {
            return;
        }
        for at in 0..self.programs.len() {
            let flow = self.programs.get(at).map(|program| &program.flow);
            // What has not come yet is late already.
            let age = flow.and_then(|flow| Some(flow.age(flow.awaited()?, self.clock.now)));
            age.into_iter().for_each(|age| self.arrived_after(age));
        }
        let now = CpuTime::now();
        let seconds = now.own_since(self.begun);
        let mpps = |packets: u64| if seconds > 0.0 { packets as f64 / seconds / 1e6 } else { 0.0 };
        let each: Vec<u64> =
            self.programs.iter().map(|program| program.flow.received - program.begun).collect();
        let packets = each.iter().sum();
        let seen = Seen {
            packets,
            mpps: mpps(packets),
            each_mpps: each.into_iter().map(mpps).collect(),
            worst_ns: self.clock.nanoseconds(self.worst),
            stalls: self.stalls,
            cpu_share: now.share_since(self.begun),
        };
        self.seen.get_mut(self.phase as usize).into_iter().for_each(|slot| *slot = seen.clone());
        self.programs.iter_mut().for_each(|program| program.begun = program.flow.received);
        (self.phase, self.begun, self.worst, self.stalls) = (phase, now, 0, 0);
    }

    fn arrived_after(&mut self, ticks: u64) {
        self.worst = self.worst.max(ticks);
        self.stalls += u64::from(ticks > self.clock.stall);
    }

    /// Each program sends and receives once.
    fn turn(&mut self) {
        let mut came = false;
        for at in 0..self.programs.len() {
            self.clock.look();
            let room = self.programs.get_mut(at).map_or(0, |program| program.flow.room(&self.clock));
            self.send(at, room.min(BURST));
            came |= self.receive(at);
        }
        if !came {
            self.pairs.iter().take(1).for_each(QueuePair::relax);
        }
    }

    fn send(&mut self, at: usize, room: usize) {
        let Some(Program { from, frames, flow, .. }) = self.programs.get_mut(at) else { return };
        let Some(pair) = self.pairs.get_mut(*from).filter(|_| room > 0) else { return };
        pair.alloc(SIZE, room, &mut self.burst);
        for (seq, buf) in (flow.sent..).zip(self.burst.iter_mut()) {
            match frames {
                Some(frames) => {
                    pair.with_mut(buf, |bytes| payload::fill_after(&frames.header, bytes, 0, seq, 0));
                }
                None => {
                    buf.set_meta(seq);
                    pair.with_mut(buf, |bytes| payload::fill(bytes, 0, seq, 0));
                }
            }
            flow.stamp(seq, self.clock.now);
        }
        flow.sent += pair.tx_burst(&mut self.burst) as u64;
        pair.free(&mut self.burst);
    }

    /// True when something came.
    fn receive(&mut self, at: usize) -> bool {
        let Some(Program { to, frames, flow, .. }) = self.programs.get_mut(at) else { return false };
        let Some(pair) = self.pairs.get_mut(*to) else { return false };
        if pair.rx_burst(&mut self.burst, BURST) == 0 {
            return false;
        }
        let mut first = None;
        for buf in self.burst.as_slice() {
            let looked = pair.with(buf, |bytes| look(bytes, frames.as_ref()));
            let Some(number) = looked else {
                self.foreign += u64::from(!buf.more()); // long ones come in segments
                continue;
            };
            // A loopback returns the metadata, too. Of a packet from others a switch tells nothing that they have said.
            let told = if frames.is_some() { Some(0) } else { number };
            let number = number.filter(|_| told == Some(buf.meta()));
            if flow.arrive(number) {
                first = first.or(number);
            }
        }
        pair.free(&mut self.burst);
        // The first of a burst has waited longest.
        let age = first.map(|number| flow.age(number, self.clock.now));
        age.into_iter().for_each(|age| self.arrived_after(age));
        true
    }

    /// Receives what is under way, as long as the NIC lives; then all that it says it has delivered, and gives what it says.
    fn finish(&mut self, nics: &[Nic], socket: &Path) -> Option<Account> {
        let mut start = Instant::now();
        let mut last = start;
        let awaited = |program: &Program| program.flow.awaited().is_some();
        while self.programs.iter().any(awaited) && start.elapsed() < PATIENCE {
            let alive = nics.iter().all(Nic::alive);
            let mut came = false;
            for at in 0..self.programs.len() {
                self.clock.look();
                came |= self.receive(at);
            }
            if came {
                last = Instant::now();
            } else if !alive {
                return None;
            } else if last.elapsed() > ANOTHER {
                (0..self.programs.len()).for_each(|at| self.send(at, 1));
                last = Instant::now();
            }
        }
        start = Instant::now();
        loop {
            // What the attack has left in its rings is still served, so there may be more the next time.
            let account = Account::read(socket)?;
            if self.frames() == account.delivered || start.elapsed() > PATIENCE {
                return Some(account);
            }
            (0..self.programs.len()).for_each(|at| while self.receive(at) {});
            self.drain();
        }
    }

    /// Frames that came, of whatever kind.
    fn frames(&self) -> u64 {
        self.foreign
            + self.programs.iter().map(|program| program.flow.received + program.flow.corrupt).sum::<u64>()
    }

    /// What lies in the ring of a port that no program receives at is foreign.
    fn drain(&mut self) {
        for (at, pair) in self.pairs.iter_mut().enumerate() {
            if !self.programs.iter().any(|program| program.to == at) {
                while pair.rx_burst(&mut self.burst, BURST) > 0 {
                    self.foreign += self.burst.as_slice().iter().filter(|buf| !buf.more()).count() as u64;
                    pair.free(&mut self.burst);
                }
            }
        }
    }
}

/// What a packet is: with its number, if it is whole; `None`: somebody else's.
#[inline(always)]
fn look(bytes: &[u8], frames: Option<&Frames>) -> Option<Option<u64>> {
    let whole = bytes.len() == usize::from(SIZE);
    match frames {
        Some(frames) if bytes.get(..14) != Some(&frames.start) => None,
        Some(frames) => {
            let number = payload::stamps_after::<2>(bytes).map(|(_, number)| number);
            Some(number.filter(|number| whole && payload::check_after(&frames.header, bytes, 0, *number)))
        }
        None => {
            let number = payload::header(bytes).map(|(_, number)| number);
            Some(number.filter(|number| whole && payload::check(bytes, 0, *number)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_packet_is_whole_or_somebody_elses() {
        let frames = Frames::new(0, 1);
        let mut bytes = [0; SIZE as usize];
        payload::fill_after(&frames.header, &mut bytes, 0, 7, 0);
        assert_eq!(look(&bytes, Some(&frames)), Some(Some(7)));
        assert_eq!(look(&bytes, Some(&Frames::new(1, 0))), None);
        bytes[50] ^= 1;
        assert_eq!(look(&bytes, Some(&frames)), Some(None));
        payload::fill(&mut bytes, 0, 9, 0);
        assert_eq!((look(&bytes, None), look(&bytes[..40], None)), (Some(Some(9)), Some(None)));
    }

    #[test]
    fn what_was_dropped_and_counted_is_accounted_for() {
        let seen = Experience { received: 90, lost: 10, foreign: 5, ..Experience::default() };
        let account =
            |delivered, dropped| Experience { account: Some(Account { delivered, dropped }), ..seen.clone() };
        assert_eq!([account(95, 10), account(95, 12)].map(|it| it.unaccounted()), [0, 0]);
        assert_eq!(
            (account(95, 4).unaccounted(), account(97, 10).unaccounted(), seen.unaccounted()),
            (6, 2, 10)
        );
    }
}
