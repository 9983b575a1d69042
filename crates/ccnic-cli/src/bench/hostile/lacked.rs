//! CPU time that the polling thread lacked: time that the machine took, not an attack by way of the NIC.
//!
//! A turn of a program is measured in time that the polling thread had its CPU, as far as the kernel tells it. What a hypervisor takes it
//! does not tell; it is seen in the accounts of the CPU only.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

/// A tick of the kernel's accounts of CPUs, in nanoseconds (USER_HZ).
const TICK_NS: u64 = 10_000_000;

/// A look at the accounts of a thread and of its CPU. None of them goes back.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    at: Instant,
    /// Nanoseconds in which it had a CPU, and in which it waited for one.
    ran_ns: u64,
    waited_ns: u64,
    /// Times that it lost its CPU.
    preempted: u64,
    /// Ticks that a hypervisor took from the CPU.
    stolen: u64,
}

/// CPU time that it lacked between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Lacked {
    /// The share of the time that it had its CPU.
    pub share: f64,
    /// Nanoseconds in which it waited for its CPU, because another thread had it.
    pub waited_ns: u64,
    /// Times that it lost its CPU to another thread.
    pub preempted: u64,
    /// Nanoseconds that a hypervisor took from the CPU, in steps of ten milliseconds.
    pub stolen_ns: u64,
}

impl Look {
    /// At the thread with this folder below `/proc`, on CPU `cpu`. `None` where the kernel does not say.
    pub fn at(task: &Path, cpu: usize) -> Option<Look> {
        let at = Instant::now();
        let read = |file: &str| std::fs::read_to_string(task.join(file)).ok();
        let (schedstat, status) = (read("schedstat")?, read("status")?);
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let mut times = schedstat.split_whitespace().map_while(|word| word.parse().ok());
        let preempted = field(&status, "nonvoluntary_ctxt_switches:", 0)?;
        let stolen = field(&stat, &format!("cpu{cpu}"), 7)?;
        Some(Look { at, ran_ns: times.next()?, waited_ns: times.next()?, preempted, stolen })
    }

    /// CPU time that it has lacked since an earlier look.
    pub fn since(&self, before: &Look) -> Lacked {
        let passed = self.at.duration_since(before.at).as_nanos().max(1) as f64;
        Lacked {
            share: (self.ran_ns.saturating_sub(before.ran_ns) as f64 / passed).min(1.0),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            preempted: self.preempted.saturating_sub(before.preempted),
            stolen_ns: self.stolen.saturating_sub(before.stolen) * TICK_NS,
        }
    }
}

/// The number in this column of the line that begins with `name`.
fn field(text: &str, name: &str, column: usize) -> Option<u64> {
    let words = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then_some(words)
    });
    words?.nth(column)?.parse().ok()
}

impl Lacked {
    /// Says it, where it is enough to be taken for the doing of an attack: a millisecond, or a twentieth of the time.
    pub fn noise(&self) -> Option<String> {
        let ms = |ns: u64| ns / 1_000_000;
        (ms(self.waited_ns) > 0 || self.stolen_ns > 0 || self.share < 0.95).then(|| {
            format!(
                "the polling thread had its CPU for {:.0} % of the time: it lost it {} times to other threads and waited {} ms for it; a \
                 hypervisor took {} ms",
                self.share * 100.0,
                self.preempted,
                ms(self.waited_ns),
                ms(self.stolen_ns)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_and_subtracted() {
        let text = "cpu  1 2\ncpu0 10 1 2 3 4 5 6 7 8 9\ncpu1 1 1 1 1 1 1 1 9 0 0\n";
        assert_eq!(
            (field(text, "cpu0", 7), field(text, "cpu1", 7), field(text, "cpu2", 7)),
            (Some(7), Some(9), None)
        );
        let before = Look { at: Instant::now(), ran_ns: 5, waited_ns: 7, preempted: 2, stolen: 1 };
        let at = before.at + std::time::Duration::from_millis(100);
        let after = Look { at, ran_ns: 60_000_005, waited_ns: 30_000_007, preempted: 5, stolen: 2 };
        let lacked = after.since(&before);
        let expected = Lacked { share: 0.6, waited_ns: 30_000_000, preempted: 3, stolen_ns: TICK_NS };
        assert_eq!(lacked, expected);
        let said = lacked.noise().unwrap();
        for part in ["60 % of the time", "3 times", "waited 30 ms", "took 10 ms"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(Lacked { share: 0.99, ..Lacked::default() }.noise(), None);
    }

    #[test]
    fn this_thread_has_accounts() {
        let look = || Look::at(Path::new("/proc/thread-self"), 0);
        let Some(before) = look() else { return }; // a kernel without them
        while look().is_some_and(|now| now.ran_ns == before.ran_ns) {}
        assert!(look().unwrap().since(&before).share > 0.0);
    }
}
