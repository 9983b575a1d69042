//! Homes of memory: on which NUMA node the parts of a region are placed (CC-NIC sections 3.2 and 3.3).
//!
//! On a machine with one node nothing is done.

use std::ops::Range;
use std::ptr::NonNull;

use rustix::io::{Errno, Result};

/// `MPOL_PREFERRED` of linux/mempolicy.h: pages on the node as long as it has free memory, then on others.
const MPOL_PREFERRED: usize = 1;

/// Number of NUMA nodes of the machine.
pub fn nodes() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    count_ranges(online.trim()).max(1)
}

/// The numbers in a kernel list such as `0-1,4`.
fn count_ranges(list: &str) -> usize {
    list.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(last.parse::<usize>().ok()?.saturating_sub(first.parse().ok()?) + 1)
        })
        .sum()
}

/// The node of the CPU that this thread runs on.
pub fn current_node() -> u32 {
    // By libc: rustix looks for the vDSO itself, and valgrind hides it.
    // SAFETY: returns a number; no memory is accessed.
    let cpu = unsafe { libc::sched_getcpu() };
    node_of(usize::try_from(cpu).unwrap_or(0))
}

/// The node that a CPU belongs to.
pub fn node_of(cpu: usize) -> u32 {
    let Ok(entries) = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")) else { return 0 };
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.strip_prefix("node")?.parse().ok())
        .next()
        .unwrap_or(0)
}

/// Homes the bytes `range` of a mapping at `node`, before they are first touched.
pub(crate) fn home(base: NonNull<u8>, range: &Range<u32>, node: u32) -> Result<()> {
    if nodes() < 2 || range.is_empty() {
        return Ok(());
    }
    let mask: u64 = 1u64.checked_shl(node).ok_or(Errno::INVAL)?;
    // SAFETY: mbind changes the placement of pages, not their contents; the range lies in the mapping at
    // `base`, and the mask outlives the call.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            base.as_ptr().add(range.start as usize),
            range.len(),
            MPOL_PREFERRED,
            &raw const mask,
            u64::BITS as usize,
            0usize,
        )
    };
    if failed == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_counted() {
        assert_eq!((count_ranges("0"), count_ranges("0-1,4"), count_ranges("")), (1, 3, 0));
    }

    #[test]
    fn this_cpu_has_a_node() {
        assert!((current_node() as usize) < 1024);
        assert!(nodes() >= 1);
    }
}
