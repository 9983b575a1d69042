//! The daemon and the kernel's out-of-memory killer.
//!
//! The pages of all programs' regions count as the daemon's, so the killer would find it the largest process of the machine and end it
//! first, for memory that programs have taken. The daemon's score is lowered by what that memory may weigh: it is judged by its own.

use std::io;
use std::path::Path;

use ccnic_control::Limits;

/// The weight of `/proc/PID/oom_score_adj`: all memory of the machine.
const WHOLE: u64 = 1000;
/// The lowest value that does not exempt a process altogether.
const LOWEST: i64 = -999;

/// The adjustment that makes up for `memory_max` bytes of regions on a machine with `total` bytes.
fn adjustment(memory_max: u64, total: u64) -> i64 {
    let share = u128::from(memory_max) * u128::from(WHOLE) / u128::from(total.max(1));
    i64::try_from(share).map_or(LOWEST, |share| (-share).max(LOWEST))
}

/// Lowers this process's score for regions of so many bytes together. What the operator has set lower stays.
///
/// # Errors
/// When the process may not (it needs CAP_SYS_RESOURCE).
pub fn lower_score(memory_max: u64) -> io::Result<()> {
    let adjustment = adjustment(memory_max, Limits::machine_memory());
    lower(Path::new("/proc/self/oom_score_adj"), adjustment)
}

fn lower(file: &Path, to: i64) -> io::Result<()> {
    let now = std::fs::read_to_string(file)?.trim().parse::<i64>().map_err(io::Error::other)?;
    if now <= to { Ok(()) } else { std::fs::write(file, to.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_makes_up_for_the_regions() {
        assert_eq!(adjustment(8 << 30, 16 << 30), -500);
        assert_eq!(adjustment(0, 16 << 30), 0);
        assert_eq!((adjustment(u64::MAX, 1 << 30), adjustment(1 << 40, 0)), (-999, -999));
    }

    #[test]
    fn the_score_is_only_lowered() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("oom_score_adj");
        for (before, to, after) in [("0\n", -500, "-500"), ("-900\n", -500, "-900\n"), ("300\n", -1, "-1")] {
            std::fs::write(&file, before).unwrap();
            lower(&file, to).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), after);
        }
        assert!(lower(&directory.path().join("missing"), 0).is_err());
    }
}
