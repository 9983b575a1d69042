//! How much memory programs may have mapped in a NIC: limits, and the account of what is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cgroup;

/// What programs may take of a NIC's memory: the pages of their regions count as the NIC's.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest region, in bytes.
    pub region_max: u32,
    /// All regions together, in bytes.
    pub memory_max: u64,
}

impl Limits {
    /// The default of [`memory_max`](Limits::memory_max), in bytes: half of the machine's memory, or of what control groups leave to
    /// this process, if that is less.
    pub fn half_the_memory() -> u64 {
        let info = rustix::system::sysinfo();
        let machine = info.totalram * u64::from(info.mem_unit);
        cgroup::memory_limit().map_or(machine, |limit| limit.min(machine)) / 2
    }
}

/// The bytes that all regions take together.
#[derive(Debug)]
pub(crate) struct MemoryAccount {
    most: u64,
    used: Arc<AtomicUsize>,
}

impl MemoryAccount {
    pub(crate) fn new(most: u64) -> MemoryAccount {
        MemoryAccount { most, used: Arc::default() }
    }

    /// Bytes that further regions may take.
    pub(crate) fn free(&self) -> u32 {
        let used = self.used.load(Ordering::Relaxed) as u64;
        u32::try_from(self.most.saturating_sub(used)).unwrap_or(u32::MAX)
    }

    /// Counts `bytes` as used until the lease is dropped.
    pub(crate) fn lease(&self, bytes: u32) -> MemoryLease {
        let bytes = bytes as usize;
        self.used.fetch_add(bytes, Ordering::Relaxed);
        MemoryLease { bytes, used: Arc::clone(&self.used) }
    }
}

/// Bytes that count against [`Limits::memory_max`] as long as this lives. May be dropped on any thread.
#[derive(Debug)]
pub struct MemoryLease {
    bytes: usize,
    used: Arc<AtomicUsize>,
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_count_until_they_are_dropped() {
        let account = MemoryAccount::new(1000);
        let (one, two) = (account.lease(600), account.lease(300));
        assert_eq!(account.free(), 100);
        let more = account.lease(500); // mapped before it was known to be too much
        assert_eq!(account.free(), 0);
        drop((one, more));
        assert_eq!(account.free(), 700);
        drop(account);
        drop(two); // a lease may outlive its listener
    }

    #[test]
    fn more_than_a_region_can_have_is_free() {
        assert_eq!(MemoryAccount::new(u64::MAX).free(), u32::MAX);
        assert!(Limits::half_the_memory() > 1 << 20);
    }
}
