//! What an attack is given: the socket, the time, and a tally that is printed while it runs.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Random;

/// Between two lines of the tally.
const EVERY: Duration = Duration::from_millis(20);

/// How far an attack has got: a line of its standard output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What it has done so often: attachments, messages, holes, packets, whatever it is made of.
    pub done: usize,
    /// What the NIC, or the kernel on behalf of the NIC, has refused.
    pub refused: usize,
    /// The reason of the last refusal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Bytes of memory that the NIC has had allocated for regions that it then refused, and that are still allocated.
    #[serde(default)]
    pub filled: usize,
}

impl Report {
    /// The last report in the output of an attack; `None` when it has not begun.
    pub fn last(output: &str) -> Option<Report> {
        output.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }

    /// True when it has done something, or tried to.
    pub fn has_begun(&self) -> bool {
        self.done + self.refused > 0
    }
}

/// Where an attack takes place. Shared by its threads.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The NIC's control socket.
    pub socket: &'a Path,
    seed: u64,
    end: Instant,
    done: AtomicUsize,
    refused: AtomicUsize,
    filled: AtomicUsize,
    reason: Mutex<String>,
    over: AtomicBool,
}

impl<'a> Stage<'a> {
    /// For an attack that begins now.
    pub(crate) fn new(socket: &'a Path, seed: u64, duration: Duration) -> Stage<'a> {
        Stage {
            socket,
            seed,
            end: Instant::now() + duration,
            done: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            filled: AtomicUsize::new(0),
            reason: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    /// Runs an attack and prints its tally beside it.
    pub(crate) fn play(&self, attack: impl FnOnce(&Stage<'a>) -> anyhow::Result<()>) -> anyhow::Result<()> {
        std::thread::scope(|scope| {
            scope.spawn(|| self.print());
            let _over = Over(&self.over); // also when the attack panics: its process must end then
            attack(self)
        })
    }

    /// False when the time is over.
    pub fn goes_on(&self) -> bool {
        !self.over.load(Relaxed) && Instant::now() < self.end
    }

    /// Does nothing until the time is over.
    pub(crate) fn linger(&self) {
        while self.goes_on() {
            std::thread::sleep(EVERY);
        }
    }

    /// Random numbers of this attack; another `stream`, other numbers.
    pub fn random(&self, stream: u64) -> Random {
        Random::new(self.seed.wrapping_add(stream.wrapping_mul(0x9e37_79b9)))
    }

    /// Something has been done so many times.
    pub fn did(&self, n: usize) {
        self.done.fetch_add(n, Relaxed);
    }

    /// The NIC has refused something.
    pub fn refused(&self, why: impl Display) {
        self.refused.fetch_add(1, Relaxed);
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = why.to_string();
    }

    /// So many bytes are allocated for regions that were refused.
    pub(crate) fn filled(&self, bytes: u64) {
        self.filled.store(bytes as usize, Relaxed);
    }

    /// The outcome of something that was tried; the value if the NIC granted it.
    pub(crate) fn tried<T, E: Display>(&self, outcome: Result<T, E>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.did(1);
                Some(value)
            }
            Err(e) => {
                self.refused(e);
                None
            }
        }
    }

    fn report(&self) -> Report {
        Report {
            done: self.done.load(Relaxed),
            refused: self.refused.load(Relaxed),
            reason: self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            filled: self.filled.load(Relaxed),
        }
    }

    fn print(&self) {
        let mut last = Report::default();
        while !self.over.load(Relaxed) {
            let now = self.report();
            if now != last
                && let Ok(line) = serde_json::to_string(&now)
            {
                // Nobody may listen any more.
                let _ = writeln!(std::io::stdout().lock(), "{line}");
                last = now;
            }
            std::thread::sleep(EVERY);
        }
    }
}

/// Sets a flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_is_a_report_counts() {
        assert_eq!(Report::last("running 1 test\n"), None);
        let text =
            "{\"done\":1,\"refused\":0}\n{\"done\":2,\"refused\":3,\"reason\":\"full\"}\n{\"done\":4,\"ref";
        let report = Report::last(text).unwrap();
        assert_eq!((report.done, report.refused, report.reason.as_str(), report.filled), (2, 3, "full", 0));
        assert!(report.has_begun() && !Report::default().has_begun());
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn an_attack_that_panics_ends() {
        let stage = Stage::new(Path::new("/"), 1, Duration::from_secs(3600));
        let _ = stage.play(|stage| {
            std::thread::scope(|scope| drop(scope.spawn(|| panic!("on purpose"))));
            stage.linger();
            Ok(())
        });
    }

    #[test]
    fn a_stage_ends_with_its_time() {
        let stage = Stage::new(Path::new("/"), 1, Duration::ZERO);
        assert!(!stage.goes_on());
        stage.linger();
        assert_eq!(stage.tried::<_, &str>(Ok(7)), Some(7));
        assert_eq!(stage.tried::<(), _>(Err("no")), None);
        assert_eq!((stage.report().done, stage.report().refused, stage.report().reason), (1, 1, "no".into()));
        assert_ne!(stage.random(0).word(), stage.random(1).word());
    }
}
