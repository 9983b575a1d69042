//! How many instructions the interface, the NIC's loopback and the load generator execute: counted on the real code, by ring design, and
//! the same on every platform. `platforms/instructions.toml` is written by `crates/ccnic-load/benches/counts.py`.

use std::str::FromStr;
use std::sync::OnceLock;

use ccnic::desc::DESC;
use ccnic::memory::LINE;
use ccnic::{Config, Design};
use serde::Deserialize;

use super::tables::Software;
use super::units::{Multiple, On};

const FILE: &str = include_str!("../../../../platforms/instructions.toml");

/// What a program executes between its accesses to memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Code {
    /// Instructions of each line of payload that is written or read, the accesses included.
    pub line: u64,
    /// Of an empty poll.
    pub poll: u64,
    /// Between two lines of a ring that is read.
    pub ring_line: u64,
    /// How far apart the reorder buffer meets two such lines, where that is more.
    pub apart: u64,
    /// Its software prefetches take effect.
    pub prefetch: bool,
    /// Before it reads, writes and publishes packets of the rings that [`Agent::set_rings`](crate::machine::agent::Agent::set_rings) names.
    pub stages: Stages,
}

impl Code {
    /// A loop of a microbenchmark: an access of a line, two instructions for its address, a branch; as many twice for a poll.
    pub const PROBE: Code =
        Code { line: 4, poll: 8, ring_line: 8, apart: 8, prefetch: true, stages: Stages::NONE };
}

/// Instructions before a program goes on to another packet in a stage of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Before the first packet of a burst.
    pub burst: f64,
    /// Instead of `burst`, where the side is idle.
    pub idle: f64,
    /// Also before the first, for each packet that the stage before has dealt with: descriptors taken (read), packets written (publish).
    pub packet: f64,
    /// Before each further packet.
    pub each: f64,
}

/// Where in a burst a program's instructions lie.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stages {
    /// Payload is read.
    pub read: Stage,
    /// Payload is written.
    pub write: Stage,
    /// Descriptors are published.
    pub publish: Stage,
}

impl Stages {
    const NOTHING: Stage = Stage { burst: 0.0, idle: 0.0, packet: 0.0, each: 0.0 };
    /// After its accesses.
    pub const NONE: Stages =
        Stages { read: Stages::NOTHING, write: Stages::NOTHING, publish: Stages::NOTHING };

    /// Those of software that needs `packet` times as many for a packet, and `call` times as many for a call.
    fn scaled(&self, packet: f64, call: f64) -> Stages {
        let scaled = |s: Stage| Stage {
            burst: s.burst * call,
            idle: s.idle * call,
            packet: s.packet * packet,
            each: s.each * packet,
        };
        Stages { read: scaled(self.read), write: scaled(self.write), publish: scaled(self.publish) }
    }
}

/// Of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BothStages {
    host: Stages,
    nic: Stages,
}

/// Instructions of one side.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Of a packet of 64 bytes in both directions.
    pub packet: f64,
    /// Of a burst: in one direction (host) or both (NIC).
    pub burst: f64,
    /// Instead of `burst`, where the side is idle: it has polled often in vain, and finds few packets. (Of applications it is not counted.)
    pub idle: Option<f64>,
    /// Of a poll that finds nothing.
    pub poll: f64,
    /// Of a line of payload that is written or read.
    pub line: f64,
}

impl Counts {
    /// Those of software that needs `packet` times as many for a packet, and `call` times as many for a call.
    #[must_use]
    pub fn scaled(&self, packet: f64, call: f64) -> Counts {
        // A packet's two lines of payload stay: what is done with the bytes is the load's, not the interface's.
        let lines = 2.0 * self.line;
        Counts {
            packet: self.packet + (self.packet - lines) * (packet - 1.0),
            burst: self.burst * call,
            idle: self.idle.map(|idle| idle * call),
            poll: (self.poll * call).max(1.0),
            line: self.line,
        }
    }

    /// What a program of a case executes between its accesses.
    fn code(&self, case: &Instructions, stages: Stages) -> Code {
        let packets = (self.packet * f64::from(case.between_lines)).round() as u64;
        Code {
            line: self.line.round() as u64,
            poll: self.poll.round() as u64,
            ring_line: case.ring_line,
            apart: case.ring_line.max(packets),
            prefetch: case.prefetch,
            stages,
        }
    }

    /// Instructions of a burst of so many packets in so many directions, without those of the lines of payload.
    pub fn of_burst(&self, packets: usize, directions: f64, idle: bool) -> u64 {
        let packet = (self.packet / 2.0 - self.line) * directions;
        let burst = self.idle.filter(|_| idle).unwrap_or(self.burst);
        (burst + packet * packets as f64).round() as u64
    }
}

/// The instructions of a design.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// The design's name.
    design: String,
    /// What is switched off or exchanged, by the options of `ccnic bench loopback`.
    off: Vec<String>,
    /// Between two lines of a ring that is read.
    #[serde(rename = "loop")]
    ring_line: u64,
    /// Packets that are dealt with there: ours takes the descriptors of a burst first.
    #[serde(skip)]
    between_lines: u32,
    #[serde(skip, default = "ours")]
    prefetch: bool,
    /// The interface's host side and the load generator.
    pub host: Counts,
    /// The NIC.
    pub nic: Counts,
    stages: BothStages,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: String,
    case: Vec<Instructions>,
    store: Store,
    application: Vec<Application>,
}

/// The store of `ccnic-kv`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    /// The look-up of a get.
    get: f64,
}

/// The instructions of an application, over a design.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Application {
    name: String,
    design: String,
    /// Of a packet: a request and its answer (the overlay: a packet in each direction), without its lines of payload. Of a burst: of a poll
    /// that finds some.
    counts: Counts,
}

/// Instructions of an application over a design, on a platform: of a packet in both directions without its lines, of a poll with packets,
/// of one without, and of a line. `None` if they have not been counted.
pub fn of_application(name: &str, design: Design, software: &Software) -> Option<Counts> {
    let found = file().application.iter().find(|a| a.name == name && a.design == design.name())?;
    let times = |given: &Option<Multiple>| given.as_ref().map_or(1.0, Multiple::get);
    let (packet, call) = (times(&software.packet), times(&software.call));
    let counts = found.counts;
    Some(Counts {
        packet: counts.packet * packet,
        burst: counts.burst * call,
        poll: (counts.poll * call).max(1.0),
        ..counts
    })
}

/// Instructions of the look-up of a get in the store of `ccnic-kv`.
pub fn of_look_up() -> f64 {
    file().store.get
}

/// The file; empty if it is damaged, which a test excludes.
fn file() -> &'static File {
    static READ: OnceLock<File> = OnceLock::new();
    READ.get_or_init(|| {
        toml::from_str(FILE).unwrap_or_else(|_| File {
            source: String::new(),
            case: Vec::new(),
            store: Store::default(),
            application: Vec::new(),
        })
    })
}

/// Our software prefetches.
fn ours() -> bool {
    true
}

impl Instructions {
    /// Those of a configuration: counted with all, or as many as have been counted, of what it switches off.
    pub fn of(config: &Config) -> Option<&'static Instructions> {
        let own = config.design == Design::Doorbell;
        let off = [
            ("no-recycle", !config.recycle),
            ("no-small", !config.small && !own),
            ("host-managed", !config.shared_pool && !own),
            ("no-inline", !config.inline),
            ("mempool", config.mempool),
        ];
        let is_off = |name: &String| off.iter().any(|(known, off)| known == name && *off);
        let same = |case: &&Instructions| {
            Design::from_str(&case.design) == Ok(config.design) && case.off.iter().all(is_off)
        };
        file().case.iter().filter(same).max_by_key(|case| case.off.len())
    }

    /// How they were counted.
    pub fn source() -> &'static str {
        &file().source
    }

    /// Those of a platform's software, where it is not ours.
    #[must_use]
    pub fn on(&self, software: &Software) -> Instructions {
        let times = |given: &Option<Multiple>| given.as_ref().map_or(1.0, Multiple::get);
        let (packet, call) = (times(&software.packet), times(&software.call));
        let at_a_time = software.packet_at_a_time.as_ref().is_some_and(On::get);
        Instructions {
            ring_line: (self.ring_line as f64 * packet).round() as u64,
            between_lines: if at_a_time { self.packets_of_line() } else { 0 },
            prefetch: software.prefetch.as_ref().is_none_or(On::get),
            host: self.host.scaled(packet, call),
            nic: self.nic.scaled(packet, call),
            stages: BothStages {
                host: self.stages.host.scaled(packet, call),
                nic: self.stages.nic.scaled(packet, call),
            },
            ..self.clone()
        }
    }

    /// Packets whose descriptors share a line.
    fn packets_of_line(&self) -> u32 {
        if self.design == Design::Padded.name() { 1 } else { LINE / DESC }
    }

    /// What the host executes between accesses.
    pub fn host_code(&self) -> Code {
        self.host.code(self, self.stages.host)
    }

    /// What the NIC does.
    pub fn nic_code(&self) -> Code {
        self.nic.code(self, self.stages.nic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the stages charge is part of what is executed; a little more is left for the next burst.
    #[test]
    fn stages_do_not_exceed_what_is_executed() {
        for case in &file().case {
            for (n, idle) in [(1, true), (1, false), (8, false), (32, false)] {
                let of = |s: &Stage| {
                    let burst = if idle { s.idle } else { s.burst };
                    burst + s.packet * n as f64 + s.each * (n - 1) as f64
                };
                let within = |stages: f64, counts: &Counts, directions: f64| {
                    let executed = counts.of_burst(n, directions, idle) as f64;
                    assert!(stages < 1.02 * executed, "{case:?}, {n}: {stages} of {executed}");
                };
                let (host, nic) = (&case.stages.host, &case.stages.nic);
                within(of(&host.read), &case.host, 1.0);
                within(of(&host.write) + of(&host.publish), &case.host, 1.0);
                within(of(&nic.read) + of(&nic.write) + of(&nic.publish), &case.nic, 2.0);
            }
        }
    }

    fn of(config: Config) -> &'static Instructions {
        Instructions::of(&config).unwrap()
    }

    #[test]
    fn every_design_has_counts() {
        assert!(Instructions::source().contains("callgrind"));
        for design in Design::ALL {
            let shared_pool = design != Design::Doorbell;
            let case = of(Config { design, shared_pool, small: shared_pool, ..Config::default() });
            assert_eq!(case.design, design.name());
            assert!(case.off.is_empty(), "{case:?}");
            for side in [case.host, case.nic] {
                assert!(
                    side.packet / 2.0 > side.line && side.line >= 1.0 && side.poll > 1.0 && side.burst > 1.0
                );
            }
        }
    }

    #[test]
    fn applications_have_counts_over_the_designs_that_figures_use() {
        let software = crate::platform::Platform::named("icx-cx6").unwrap().software;
        for name in ["kv", "echo", "overlay"] {
            for design in [Design::GroupedEpoch, Design::GroupedClear, Design::Doorbell] {
                let counts = of_application(name, design, &software).unwrap();
                assert!(counts.packet > 50.0 && counts.burst > 50.0 && counts.poll > 10.0, "{name} {design}");
            }
        }
        assert!(of_look_up() > 50.0 && of_application("kv", Design::Padded, &software).is_none());
    }

    #[test]
    fn other_software_than_ours_is_a_multiple() {
        let counted = of(Config { design: Design::GroupedClear, ..Config::default() });
        let icx = crate::platform::Platform::named("icx").unwrap();
        assert_eq!(counted.on(&icx.software), *counted);
        let set = |key, times| icx.overridden(key, times).map(|p| counted.on(&p.software)).unwrap();
        let calls = set("software.call", 0.1);
        assert!(
            (calls.host.of_burst(0, 1.0, false) as f64 / counted.host.of_burst(0, 1.0, false) as f64 - 0.1)
                .abs()
                < 0.01
        );
        assert_eq!((calls.host.packet, calls.host.line), (counted.host.packet, counted.host.line));
        let packets = set("software.packet", 2.0);
        let own = |c: &Counts| c.packet - 2.0 * c.line;
        assert!((own(&packets.nic) / own(&counted.nic) - 2.0).abs() < 1e-9);
        assert_eq!((packets.nic.burst, packets.nic.line), (counted.nic.burst, counted.nic.line));
        let (at_a_time, code) = (set("software.packet_at_a_time", 1.0), counted.nic_code());
        assert_eq!(code.apart, code.ring_line);
        let apart = (4.0 * counted.nic.packet).round() as u64;
        assert_eq!(at_a_time.nic_code(), Code { apart, ..code });
        assert_eq!(set("software.prefetch", 0.0).nic_code(), Code { prefetch: false, ..code });
        assert_eq!((at_a_time.host.packet, at_a_time.nic.packet), (counted.host.packet, counted.nic.packet));
        assert!(icx.overridden("software.call", 1e3).is_err());
    }

    #[test]
    fn what_is_switched_off_has_counts_of_its_own() {
        let paper = Config { design: Design::GroupedClear, ..Config::default() };
        let all = of(Config { recycle: false, small: false, shared_pool: false, ..paper });
        assert_eq!(all.off, ["no-recycle", "no-small", "host-managed"]);
        assert!(all.host.packet > of(paper).host.packet, "private bookkeeping costs instructions");
        // Not counted by itself: the nearest.
        assert!(of(Config { small: false, ..paper }).off.is_empty());
    }
}
