//! Time that the daemon's polling thread sleeps where nothing wakes it: in a page fault, or for a lock of the kernel's (state D).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{getpriority_process, setpriority_process};
use serde::Serialize;

/// Between two looks at the thread.
const EVERY: Duration = Duration::from_micros(500);

/// Sleeps that kept a thread from running, as far as they were seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// The longest uninterruptible sleep, in microseconds: between the first and the last look that found it.
    pub longest_us: u64,
    /// The function of the kernel in which that was; empty when there was none, or the kernel does not say.
    pub place: String,
    /// Page faults of the thread.
    pub faults: u64,
}

/// Looks at the thread of a folder in `/proc` for so long, at this priority. None where the kernel does not tell of it.
pub fn watch(thread: Option<&Path>, how_long: Duration, nice: i32) -> Option<Blocked> {
    let (before, end) = (getpriority_process(None).unwrap_or(0), Instant::now() + how_long);
    let raised = setpriority_process(None, nice).is_ok();
    let mut seen = thread.and_then(Watch::new);
    while Instant::now() < end {
        if let Some(watch) = &mut seen {
            watch.look();
        }
        std::thread::sleep(EVERY);
    }
    if raised {
        let _ = setpriority_process(None, before); // as permitted as the change was
    }
    Some(seen?.blocked)
}

/// A thread that is looked at.
struct Watch {
    stat: File,
    schedstat: File,
    wchan: File,
    /// Faults before.
    faults: u64,
    /// The sleep that the last look found: since when, and how often the thread had run by then.
    asleep: Option<(Instant, u64)>,
    blocked: Blocked,
}

impl Watch {
    fn new(thread: &Path) -> Option<Watch> {
        let open = |name| File::open(thread.join(name)).ok();
        let [stat, schedstat, wchan] = [open("stat")?, open("schedstat")?, open("wchan")?];
        let faults = Stat::of(&read(&stat)?)?.faults;
        Some(Watch { stat, schedstat, wchan, faults, asleep: None, blocked: Blocked::default() })
    }

    fn look(&mut self) {
        let now = Instant::now();
        let Some(stat) = read(&self.stat).and_then(|text| Stat::of(&text)) else { return };
        self.blocked.faults = stat.faults.saturating_sub(self.faults);
        if stat.state != 'D' {
            self.asleep = None;
            return;
        }
        let runs = read(&self.schedstat).and_then(|text| text.split_whitespace().nth(2)?.parse().ok());
        let runs = runs.unwrap_or(0);
        let (since, _) = *self.asleep.insert(match self.asleep {
            Some(same) if same.1 == runs => same,
            _ => (now, runs),
        });
        let us = (now - since).as_micros() as u64;
        if us >= self.blocked.longest_us {
            let place = read(&self.wchan).unwrap_or_default();
            self.blocked.longest_us = us;
            self.blocked.place = if place == "0" { String::new() } else { place };
        }
    }
}

/// The file of `/proc` as it is now.
fn read(file: &File) -> Option<String> {
    let mut bytes = [0; 1024];
    let len = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..len)?).trim().to_owned())
}

/// A line of `/proc/PID/stat`.
struct Stat {
    state: char,
    /// Minor and major.
    faults: u64,
}

impl Stat {
    fn of(text: &str) -> Option<Stat> {
        // The name, in brackets, may contain anything.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let faults = [fields.nth(6)?, fields.nth(1)?]; // the tenth and the twelfth of all
        Some(Stat { state, faults: faults.iter().filter_map(|n| n.parse::<u64>().ok()).sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat() {
        let text = "17 (poll-1 :) x) D 1 17 17 0 -1 4194368 100 2 30 4 5 6";
        let stat = Stat::of(text).unwrap();
        assert_eq!((stat.state, stat.faults), ('D', 130));
        assert!(Stat::of("17 (poll-1").is_none());
    }

    #[test]
    fn this_thread_is_not_asleep_and_has_its_faults() {
        let thread = Path::new("/proc/thread-self");
        let mut watch = Watch::new(thread).unwrap();
        let pages = std::hint::black_box(vec![1u8; 64 << 20]);
        watch.look();
        assert!(watch.blocked.faults > 0 && watch.blocked.longest_us == 0, "{:?}", watch.blocked);
        drop(pages);
    }

    /// A file of each kind, written as the kernel would.
    #[test]
    fn looks_that_find_the_same_sleep_are_one() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let state = |state: char, runs: u64| {
            write("stat", &format!("17 (poll-1) {state} 1 17 17 0 -1 4194368 100 2 30 4"));
            write("schedstat", &format!("5 6 {runs}"));
        };
        write("wchan", "__folio_lock");
        state('R', 1);
        let mut watch = Watch::new(folder.path()).unwrap();
        watch.look();
        assert_eq!(watch.asleep, None);
        state('D', 1);
        watch.look();
        let first = watch.asleep.unwrap();
        watch.look();
        assert_eq!((watch.asleep, watch.blocked.place.as_str()), (Some(first), "__folio_lock"));
        state('D', 2);
        watch.look();
        let second = watch.asleep.unwrap();
        assert!(second.0 > first.0 && second.1 == 2, "it has run in between: another sleep");
        state('S', 2);
        watch.look();
        assert_eq!((watch.asleep, watch.blocked.faults), (None, 0));
    }
}
