//! Kills at random moments, by the hundred: of the NIC with its switch, of the store, of programs that exchange frames, of both ends of TCP
//! streams, of the store's clients. Each process verifies all that it sees, so that a frame, a byte or a value that is not what it must be
//! ends it; this one kills, starts again at once as a supervisor does, and watches that
//!
//! - everybody goes on within a bound after each kill, or it says where every thread stands;
//! - frames are lost only where a death accounts for them, values only where the store's documentation says so;
//! - at every rest all that was written is there, and nobody holds more descriptors, regions or threads than at the rest before;
//! - memory, also the machine's shared memory, is what it was, and no file is left over.
//!
//! `make long` kills 600 times; `CCNIC_KILLS=` says another number, `CCNIC_SEED=` repeats a choice of victims and moments. The kernel's
//! TCP takes part where a network namespace can be made.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod clients;
mod journal;
mod life;
mod look;
mod packets;
mod party;
mod snapshots;
mod streams;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use ccnic_hostile::Random;
use ccnic_testing::{alone, try_in_namespace};
use journal::{Journal, Note};
use life::{Board, DAEMON, Folder, NAMES, PAIR, STORE, STREAM_SERVER, Says};
use look::{First, shared_memory, stacks};
use party::{BOUND, Party};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};

/// KiB that a process may have grown since its first rest, and for each kill since. Connections in TIME-WAIT take 8 MiB.
const GROWTH: u64 = 24 << 10;
const GROWTH_PER_KILL: u64 = 48;
/// MiB of the machine's shared memory that may be gone at the end: what a leak of a region a kill comes to is more.
const SHARED: u64 = 256;

/// Everything that runs, and what was done to it.
struct Trial {
    folder: Folder,
    board: Board,
    parties: Vec<Party>,
    random: Random,
    /// By victim and signal.
    kills: BTreeMap<(&'static str, &'static str), u64>,
    count: u64,
    worst: (Duration, String),
    /// The snapshot file when it was last asked for, and whether it is still to come.
    snapshot: (u64, bool),
    _directory: tempfile::TempDir,
}

impl Trial {
    fn new(seed: u64, kernel: bool) -> Trial {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder(directory.path().to_owned());
        // A process that aborts leaves no file.
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
        let board = Board::create(&folder);
        let mut parties: Vec<Party> = Vec::new();
        for who in 0..NAMES.len() - usize::from(!kernel) {
            parties.push(Party::new(who, &folder, arguments(who, &folder, kernel)));
            parties[who].start();
        }
        Trial {
            folder,
            board,
            parties,
            random: Random::new(seed),
            kills: BTreeMap::new(),
            count: 0,
            worst: (Duration::ZERO, String::new()),
            snapshot: (0, false),
            _directory: directory,
        }
    }

    /// Whoever has ended by itself has found something wrong, but for a store that was started while there was no NIC.
    #[track_caller]
    fn watch(&mut self) {
        for at in 0..self.parties.len() {
            let Some(status) = self.parties[at].ended() else { continue };
            let party = &mut self.parties[at];
            let says = party.says();
            let lonely =
                at == STORE && status.code().is_some_and(|code| code != 0) && says.contains("--ccnic");
            assert!(lonely, "{} ended by itself, {status}: {says}", party.name());
            party.early += 1;
            self.board.kill_begins(at, false);
            self.note(Note::Killed);
            self.board.has_died(at);
            self.parties[at].start();
        }
    }

    /// Does `ready` until it is true; says where everybody stands if that takes too long.
    #[track_caller]
    fn until(&mut self, what: &str, mut ready: impl FnMut(&mut Trial) -> bool) -> Duration {
        let start = Instant::now();
        while !ready(self) {
            self.watch();
            if start.elapsed() > BOUND {
                let pulses = [Says::Progress, Says::Rest, Says::Reconnects];
                let where_it_stands = |party: &Party| {
                    let pulse = pulses.map(|what| party.pulse.said(what));
                    format!("{}{pulse:?}\n{}", party.says(), stacks(party.pid()))
                };
                let all: String = self.parties.iter().map(where_it_stands).collect();
                panic!("{what}: not within {BOUND:?}\n{all}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }

    fn note(&self, note: Note) {
        for client in self.parties.iter().filter(|party| party.name().starts_with("client")) {
            Journal::note(&self.folder.journal(client.name()), note);
        }
    }

    fn snapshot_file(&self) -> u64 {
        std::fs::metadata(self.folder.snapshot()).map_or(0, |file| file.ino() ^ file.mtime_nsec() as u64)
    }

    /// Asks the store for a snapshot, unless one is being written.
    fn ask_for_snapshot(&mut self) {
        self.see_snapshot();
        if !self.snapshot.1 {
            self.snapshot = (self.snapshot_file(), true);
            self.note(Note::Asked);
            self.handled(STORE, Signal::USR1);
            self.parties[STORE].signal(Signal::USR1);
        }
    }

    /// Waits until a program that was started a moment ago acts on a signal, by which it would die before.
    fn handled(&mut self, who: usize, signal: Signal) {
        let what = format!("the {} to handle {signal:?}", NAMES[who]);
        self.until(&what, |trial| trial.parties[who].handles(signal));
    }

    /// Notes that the snapshot that was asked for is there.
    fn see_snapshot(&mut self) {
        if self.snapshot.1 && self.snapshot_file() != self.snapshot.0 {
            self.snapshot.1 = false;
            self.note(Note::Saved);
        }
    }

    /// Kills one, or stops it for a while, and starts it again.
    fn strike(&mut self, victim: usize, signal: Signal) {
        self.watch();
        self.count += 1;
        let name = match signal {
            Signal::KILL => "SIGKILL",
            Signal::TERM => "SIGTERM",
            Signal::ABORT => "SIGABRT",
            _ => "SIGSTOP",
        };
        *self.kills.entry((NAMES[victim], name)).or_default() += 1;
        if signal == Signal::STOP {
            self.parties[victim].signal(signal);
            std::thread::sleep(Duration::from_millis(self.random.below(1500)));
            return self.parties[victim].signal(Signal::CONT);
        }
        if signal == Signal::TERM && matches!(victim, DAEMON | STORE) {
            self.handled(victim, signal);
        }
        self.board.kill_begins(victim, signal == Signal::TERM);
        self.parties[victim].signal(signal);
        self.parties[victim].bury(signal);
        if victim == STORE {
            self.see_snapshot();
            self.snapshot.1 = false;
            self.note(if signal == Signal::TERM { Note::Ended } else { Note::Killed });
        }
        self.board.has_died(victim);
        self.parties[victim].start();
    }

    /// Waits until everybody who can say so has gone on.
    #[track_caller]
    fn recover(&mut self, after: &str) {
        let before: Vec<u64> = self.parties.iter().map(|party| party.pulse.said(Says::Progress)).collect();
        let took = self.until(&format!("everybody to go on after {after}, beyond {before:?}"), |trial| {
            trial
                .parties
                .iter()
                .zip(&before)
                .all(|(party, before)| !party.speaks() || party.pulse.said(Says::Progress) > *before)
        });
        if took > self.worst.0 {
            self.worst = (took, after.to_owned());
        }
    }

    /// Kills so many times, of these, and rests now and then.
    fn campaign(&mut self, kills: u64, victims: &[usize]) {
        self.recover("the start");
        let rest_every = (kills / 12).max(4);
        for number in 0..kills {
            std::thread::sleep(Duration::from_micros(self.random.below(120_000)));
            let victim = self.random.pick(victims);
            let signal = match self.random.below(10) {
                0 => Signal::TERM,
                1 => Signal::ABORT,
                2 => Signal::STOP,
                _ => Signal::KILL,
            };
            // In every second case before the store dies a snapshot is asked for, which it may not live to write.
            if victim == STORE && self.random.below(2) == 0 || self.random.below(6) == 0 {
                self.ask_for_snapshot();
                std::thread::sleep(Duration::from_micros(self.random.below(4000)));
            }
            self.strike(victim, signal);
            // One in three dies while others are still on their way back.
            if self.random.below(3) > 0 {
                self.recover(&format!("kill {} ({signal:?} of the {})", self.count, NAMES[victim]));
                self.see_snapshot();
            }
            if number % rest_every == rest_every - 1 {
                self.rest();
            }
        }
        self.rest();
    }

    /// Everybody stops sending, settles and verifies what is his. Then nothing may be left of those who died.
    fn rest(&mut self) {
        let rest = self.board.next_rest();
        // The rest of the work may take long on a busy machine: as long as it goes on nobody hangs.
        let restless = |trial: &Trial| {
            let parties = trial.parties.iter().filter(|party| party.speaks());
            let restless = parties.filter(|party| party.pulse.said(Says::Rest) != rest);
            restless.map(|party| party.pulse.said(Says::Progress) + 1).sum::<u64>()
        };
        loop {
            let before = restless(self);
            if before == 0 {
                break;
            }
            self.until("everybody to rest, or to go on", |trial| restless(trial) != before);
        }
        for (at, name) in NAMES.iter().enumerate().take(self.parties.len()) {
            let Some(first) = self.parties[at].first else {
                let (held, resident) = (self.parties[at].holdings(), self.parties[at].resident());
                self.parties[at].first = Some(First { held, resident, kills: self.count });
                continue;
            };
            let mut held = self.parties[at].holdings();
            self.until(&format!("the {} to hold what it held: {first:?}", name), |trial| {
                held = trial.parties[at].holdings();
                held == first.held
            });
            let allowed = first.resident + GROWTH + GROWTH_PER_KILL * (self.count - first.kills);
            let resident = self.parties[at].resident();
            assert!(resident <= allowed, "{}: {resident} KiB, {} at first", name, first.resident);
        }
        // A NIC that dies while nothing is under way loses nothing, and all buffers are there for the next one.
        let lost: u64 = self.parties.iter().map(|party| party.total(1)).sum();
        let gone_on =
            |trial: &Trial| trial.parties[PAIR..STREAM_SERVER].iter().map(|p| p.total(2)).collect::<Vec<_>>();
        let before = gone_on(self);
        self.board.count_buffers(rest);
        self.strike(DAEMON, Signal::KILL);
        self.until("programs with frames to go on", |trial| {
            gone_on(trial).iter().zip(&before).all(|(now, before)| now > before)
        });
        self.board.next_rest();
        self.recover("a rest");
        assert_eq!(
            self.parties.iter().map(|party| party.total(1)).sum::<u64>(),
            lost,
            "lost while all rested"
        );
    }

    /// Ends everybody in order and sees what is left.
    fn end(mut self) {
        let allowed = |name: &str| {
            let kept = ["board", "kv.snap", "nic.sock", "nic.sock.lock"].contains(&name);
            kept || [".log", ".pulse", ".journal"].iter().any(|end| name.ends_with(end))
        };
        for party in self.parties.iter_mut().rev() {
            party.signal(Signal::TERM);
            party.bury(Signal::TERM);
        }
        let left: Vec<_> =
            std::fs::read_dir(&self.folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let left: Vec<_> = left.iter().filter(|name| !allowed(name.to_str().unwrap())).collect();
        assert!(left.is_empty(), "left over: {left:?}");
        for party in &self.parties {
            let log = std::fs::read_to_string(self.folder.log(party.name())).unwrap();
            assert!(!log.contains("panicked"), "{}", party.says());
            let all: Vec<u64> = (0..4).map(|at| party.total(at)).collect();
            println!(
                "{}: verified {}, lost {}, reconnected {}, broken {}",
                party.name(),
                all[0],
                all[1],
                all[2],
                all[3]
            );
        }
        println!("{} kills: {:?}", self.count, self.kills);
        println!("starts of the store that found no NIC: {}", self.parties[STORE].early);
        println!("slowest to go on: {:?} after {}", self.worst.0, self.worst.1);
    }
}

fn arguments(who: usize, folder: &Folder, kernel: bool) -> Vec<String> {
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    match who {
        DAEMON => {
            let mut all = words(
                "--wire switch --tuning default --memory-max 2048 --log warn,ccnicd::placement=off --socket",
            );
            all.push(path(folder.nic()));
            if kernel {
                all.extend(words("--port tap:tap0,address=10.9.0.9/24"));
            }
            all
        }
        STORE => {
            let mut all = words(&format!("--address {}/24 -t 2 -a 700 --ccnic", life::STORE_ADDRESS));
            all.extend([path(folder.nic()), "-s".to_owned(), path(folder.store())]);
            all.extend(["--snapshot".to_owned(), path(folder.snapshot())]);
            all
        }
        _ => Vec::new(),
    }
}

/// In three parts, so that leaks show in whoever outlives hundreds of others: the NIC alone is killed, then all but the NIC, then all.
fn trial(kills: u64, kernel: bool) {
    let _alone = alone();
    let seed = seed();
    println!("kernel sockets: {kernel}");
    let (before, start) = (shared_memory(), Instant::now());
    let mut trial = Trial::new(seed, kernel);
    let all: Vec<usize> = (0..trial.parties.len()).collect();
    trial.campaign(kills / 3, &[DAEMON]);
    trial.campaign(kills / 3, &all[1..]);
    trial.campaign(kills - kills / 3 * 2, &all);
    trial.end();
    while shared_memory() > before + SHARED {
        assert!(start.elapsed() < BOUND * 20, "{} MiB of shared memory, {before} before", shared_memory());
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("shared memory of the machine: {before} -> {} MiB; {:?}", shared_memory(), start.elapsed());
}

/// A seed that differs from run to run, or the one in `CCNIC_SEED`.
fn seed() -> u64 {
    let given = std::env::var("CCNIC_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = given.unwrap_or_else(|| u64::from(now.subsec_nanos()));
    println!("seed: CCNIC_SEED={seed}");
    seed
}

fn asked(default: u64) -> u64 {
    std::env::var("CCNIC_KILLS").map_or(default, |kills| kills.parse().unwrap())
}

/// A few, in every run of the tests.
#[test]
fn nothing_that_was_promised_is_lost() {
    if !try_in_namespace("a_few_kills_in_a_namespace") {
        trial(asked(12), false);
    }
}

#[test]
#[ignore = "the same, in a namespace of its own"]
fn a_few_kills_in_a_namespace() {
    trial(asked(12), true);
}

/// `make long`.
#[test]
#[ignore = "takes half an hour: make long"]
fn hundreds_of_kills() {
    if !try_in_namespace("hundreds_of_kills_in_a_namespace") {
        trial(asked(600), false);
    }
}

#[test]
#[ignore = "the same, in a namespace of its own"]
fn hundreds_of_kills_in_a_namespace() {
    trial(asked(600), true);
}
