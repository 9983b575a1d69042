//! Memory that every process of the trial shares with the one that kills: a board of numbers, and a pulse of each.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ccnic_testing::PATIENCE;
use rustix::process::{Signal, set_parent_process_death_signal};

/// The folder of a trial, in the environment of its processes.
const FOLDER: &str = "CCNIC_KILLS_FOLDER";
/// The name of this process, there too.
const NAME: &str = "CCNIC_KILLS_NAME";
/// The board's place of the kills that have begun, behind those that are over.
const BEGUN: usize = 16;
/// Of these, those that came without a warning.
const CRASHES: usize = 32;
/// The board's place of the number of rests.
const REST: usize = 48;
/// The rest in which buffers are to be counted.
const COUNT: usize = 49;

/// Everybody who may be killed, by place on the board.
pub const NAMES: [&str; 10] = [
    "daemon",
    "store",
    "pair",
    "station-0",
    "station-1",
    "stream-server",
    "stream-client",
    "client-nic",
    "client-unix",
    "client-kernel",
];
pub const DAEMON: usize = 0;
pub const STORE: usize = 1;
pub const PAIR: usize = 2;
pub const STATION_0: usize = 3;
pub const STATION_1: usize = 4;
pub const STREAM_SERVER: usize = 5;
pub const STREAM_CLIENT: usize = 6;
pub const CLIENT_NIC: usize = 7;
pub const CLIENT_UNIX: usize = 8;
pub const CLIENT_KERNEL: usize = 9;

/// The store's address on the switch.
pub const STORE_ADDRESS: &str = "10.9.0.2";

/// Numbers in a file, written by one process and read by others at any time. They survive whoever writes them.
#[derive(Debug)]
pub struct Numbers(File);

impl Numbers {
    pub fn create(path: &Path) -> Numbers {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.set_len(512).unwrap();
        Numbers(file)
    }

    pub fn open(path: &Path) -> Numbers {
        Numbers(OpenOptions::new().read(true).write(true).open(path).unwrap())
    }

    pub fn get(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, at as u64 * 8).unwrap();
        u64::from_le_bytes(word)
    }

    pub fn set(&self, at: usize, value: u64) {
        self.0.write_all_at(&value.to_le_bytes(), at as u64 * 8).unwrap();
    }

    pub fn add(&self, at: usize, more: u64) -> u64 {
        let value = self.get(at) + more;
        self.set(at, value);
        value
    }
}

/// Paths in the folder of a trial.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn nic(&self) -> PathBuf {
        self.0.join("nic.sock")
    }
    pub fn store(&self) -> PathBuf {
        self.0.join("kv.sock")
    }
    pub fn snapshot(&self) -> PathBuf {
        self.0.join("kv.snap")
    }
    pub fn board(&self) -> PathBuf {
        self.0.join("board")
    }
    pub fn log(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.log"))
    }
    pub fn journal(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.journal"))
    }
    pub fn pulse(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.pulse"))
    }
}

/// Kills of everybody, and rests; the killer writes it.
#[derive(Debug)]
pub struct Board(Numbers);

impl Board {
    pub fn create(folder: &Folder) -> Board {
        Board(Numbers::create(&folder.board()))
    }

    /// Deaths of this process that are over: to be read when something with it begins.
    pub fn died(&self, who: usize) -> u64 {
        self.0.get(who)
    }

    /// True when it has been killed since it had died so many times, or is being killed.
    pub fn killed_since(&self, who: usize, died: u64) -> bool {
        self.0.get(BEGUN + who) > died
    }

    /// Before the signal. `orderly`: it is told to end.
    pub fn kill_begins(&self, who: usize, orderly: bool) {
        self.0.add(BEGUN + who, 1);
        self.0.add(CRASHES + who, u64::from(!orderly));
    }

    /// Number of times that it was killed without being told to end.
    pub fn crashes(&self, who: usize) -> u64 {
        self.0.get(CRASHES + who)
    }

    /// After the death, before the next life.
    pub fn has_died(&self, who: usize) {
        self.0.add(who, 1);
    }

    /// Number of times that work has begun or stopped: while it is odd all are to rest.
    pub fn rests(&self) -> u64 {
        self.0.get(REST)
    }

    /// All rest: the NIC dies next, and whoever has no packets under way is to count his buffers then.
    pub fn count_buffers(&self, rest: u64) {
        self.0.set(COUNT, rest);
    }

    pub fn counts_buffers(&self, rest: u64) -> bool {
        self.0.get(COUNT) == rest
    }

    pub fn next_rest(&self) -> u64 {
        self.0.add(REST, 1)
    }
}

/// A process's account of itself.
#[derive(Debug, Clone, Copy)]
pub enum Says {
    /// It moves as long as something of use is done.
    Progress,
    /// The rest that it is in: everything of its own is settled and verified.
    Rest,
    /// Frames, transfers or commands that were verified.
    Done,
    /// Frames that deaths account for.
    Lost,
    /// NICs that it has gone on with.
    Reconnects,
    /// Connections that ended with an error, as they may when the other end was killed.
    Broken,
}

/// A process of a trial.
#[derive(Debug)]
pub struct Life {
    pub folder: Folder,
    pub board: Board,
    pulse: Numbers,
    /// When the board was read last for a rest, and what it said.
    looked: (Instant, u64),
}

impl Life {
    /// The one that this process is to live, if it is a process of a trial.
    pub fn begin() -> Option<Life> {
        let (folder, name) = (std::env::var_os(FOLDER)?, std::env::var(NAME).ok()?);
        set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
        let folder = Folder(folder.into());
        let board = Board(Numbers::open(&folder.board()));
        let pulse = Numbers::open(&folder.pulse(&name));
        let rests = board.rests();
        Some(Life { folder, board, pulse, looked: (Instant::now(), rests) })
    }

    /// The environment of such a process.
    pub fn give(command: &mut Command, folder: &Folder, name: &str) {
        command.env(FOLDER, &folder.0).env(NAME, name);
    }

    pub fn say(&self, what: Says, value: u64) {
        self.pulse.set(what as usize, value);
    }

    pub fn add(&self, what: Says, more: u64) {
        self.pulse.add(what as usize, more);
    }

    /// The rest that all are asked for, if one is. Read every few milliseconds.
    pub fn rest(&mut self) -> Option<u64> {
        if self.looked.0.elapsed() > Duration::from_millis(5) {
            self.looked = (Instant::now(), self.board.rests());
        }
        Some(self.looked.1).filter(|rests| !rests.is_multiple_of(2))
    }

    /// Tries again and again, since there may be no NIC at the moment.
    #[track_caller]
    pub fn persist<T, E: std::fmt::Display>(&self, what: &str, mut step: impl FnMut() -> Result<T, E>) -> T {
        let start = Instant::now();
        loop {
            match step() {
                Ok(done) => return done,
                Err(e) => assert!(start.elapsed() < PATIENCE, "{what}: {e}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Another process's account of itself.
#[derive(Debug)]
pub struct Pulse(Numbers);

impl Pulse {
    /// From now on, before that process is started.
    pub fn create(folder: &Folder, name: &str) -> Pulse {
        Pulse(Numbers::create(&folder.pulse(name)))
    }

    pub fn said(&self, what: Says) -> u64 {
        self.0.get(what as usize)
    }
}
