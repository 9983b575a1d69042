//! A process of the trial, as its supervisor sees it: started, killed, started again.

use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ccnic_control::Connection;
use ccnic_hostile::figure;
use rustix::process::{Pid, Signal, kill_process};

use super::life::{self, Folder, Life, NAMES, Pulse, Says};
use super::look::{First, Holdings, stacks};

/// A process of the trial, through all its lives.
pub struct Party {
    pub who: usize,
    folder: Folder,
    arguments: Vec<String>,
    child: Option<Child>,
    pub pulse: Pulse,
    /// Sums over lives that have ended: frames or commands verified, frames lost, NICs gone on with, connections broken.
    past: [u64; 4],
    /// Holdings of this life when it first was at rest.
    pub first: Option<First>,
    /// Starts that found no NIC.
    pub early: u64,
}

const TOTALS: [Says; 4] = [Says::Done, Says::Lost, Says::Reconnects, Says::Broken];

/// A step that takes longer hangs.
pub const BOUND: Duration = Duration::from_secs(120);

impl Party {
    /// Of this place on the board. `arguments` are those of the daemon and the store; all others are this binary again.
    pub fn new(who: usize, folder: &Folder, arguments: Vec<String>) -> Party {
        let pulse = Pulse::create(folder, NAMES[who]);
        Party {
            who,
            folder: folder.clone(),
            arguments,
            child: None,
            pulse,
            past: [0; 4],
            first: None,
            early: 0,
        }
    }

    pub fn name(&self) -> &'static str {
        NAMES[self.who]
    }

    fn command(&self) -> Command {
        let program = match self.who {
            life::DAEMON => Path::new(env!("CARGO_BIN_EXE_ccnic-kv")).with_file_name("ccnicd"),
            life::STORE => env!("CARGO_BIN_EXE_ccnic-kv").into(),
            _ => std::env::current_exe().unwrap(),
        };
        assert!(program.exists(), "{}: build it: cargo build -p ccnicd --bin ccnicd", program.display());
        let mut command = Command::new(program);
        let test = match self.who {
            life::DAEMON | life::STORE => None,
            life::PAIR => Some("packets::pair"),
            life::STATION_0 => Some("packets::station_0"),
            life::STATION_1 => Some("packets::station_1"),
            life::STREAM_SERVER => Some("streams::stream_server"),
            life::STREAM_CLIENT => Some("streams::stream_client"),
            life::CLIENT_NIC => Some("clients::over_a_nic"),
            life::CLIENT_UNIX => Some("clients::over_a_unix_socket"),
            _ => Some("clients::over_the_kernel"),
        };
        if let Some(test) = test {
            command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads", "1"]);
        }
        command.args(&self.arguments);
        command
    }

    /// Starts it; a daemon answers when this returns.
    pub fn start(&mut self) {
        let path = self.folder.log(self.name());
        let log = || -> File { OpenOptions::new().create(true).append(true).open(&path).unwrap() };
        TOTALS.iter().zip(&mut self.past).for_each(|(what, sum)| *sum += self.pulse.said(*what));
        self.pulse = Pulse::create(&self.folder, self.name());
        self.first = None;
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(log()).stderr(log());
        Life::give(&mut command, &self.folder, self.name());
        self.child = Some(command.spawn().unwrap());
        let start = Instant::now();
        while self.who == life::DAEMON && Connection::open(&self.folder.nic()).is_err() {
            assert!(self.ended().is_none(), "{}", self.says());
            assert!(start.elapsed() < BOUND, "the daemon does not answer: {}", stacks(self.pid()));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Its exit status if it has ended by itself, which nobody may.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().unwrap())
    }

    /// Whether it has a handler for a signal, or dies by it.
    pub fn handles(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        caught >> (signal.as_raw() - 1) & 1 == 1
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid() as i32).unwrap(), signal).unwrap();
    }

    /// Waits for its end, and sees that it is the one that the signal brings.
    pub fn bury(&mut self, signal: Signal) {
        let start = Instant::now();
        let status = loop {
            match self.ended() {
                Some(status) => break status,
                None => assert!(
                    start.elapsed() < BOUND,
                    "{} does not end by {signal:?}: {}",
                    self.name(),
                    stacks(self.pid())
                ),
            }
            std::thread::sleep(Duration::from_micros(200));
        };
        // The daemon and the store end in order when they are told to.
        let orderly = signal == Signal::TERM && matches!(self.who, life::DAEMON | life::STORE);
        let expected = if orderly { status.success() } else { status.signal() == Some(signal.as_raw()) };
        assert!(expected, "{} had ended already or otherwise: {status}: {}", self.name(), self.says());
    }

    /// The end of its log.
    pub fn says(&self) -> String {
        let log = std::fs::read(self.folder.log(self.name())).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[log.len().saturating_sub(3000)..]).into_owned();
        format!("{} said:\n{log}", self.name())
    }

    /// A number over all lives.
    pub fn total(&self, at: usize) -> u64 {
        self.past[at] + self.pulse.said(TOTALS[at])
    }

    /// True for a process that says what it does.
    pub fn speaks(&self) -> bool {
        !matches!(self.who, life::DAEMON | life::STORE)
    }

    pub fn holdings(&self) -> Holdings {
        Holdings::of(self.pid())
    }

    /// KiB of memory of its own: regions, of which there are so many as before, are not in it.
    pub fn resident(&self) -> u64 {
        figure(self.pid(), "RssAnon").unwrap_or(0)
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill(); // it may have ended already
            let _ = child.wait();
        }
    }
}
