//! How much of a NIC programs may take: limits for all of them together, and for those of one user.

use crate::cgroup;

/// What programs may take of a NIC: the pages of their regions count as the NIC's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest region, in bytes.
    pub region_max: u32,
    /// All regions together, in bytes.
    pub memory_max: u64,
    /// What the programs of one user may take.
    pub user: UserLimits,
    /// Users (uids) that are trusted not to punch holes into their regions, which are not sealed against that
    /// (`ccnic_shm::Sealing`).
    pub trusted_users: Vec<u32>,
    /// Users (uids) that may read and change the NIC's configuration.
    pub operators: Vec<u32>,
    /// What programs of a user and a name may take: the first that fits a program counts.
    pub quotas: Vec<Quota>,
}

/// Programs that are alike, by the name that they give themselves, by their user, or by both; and what those of one user may take together.
/// A name is what a program says of itself, so each user has its own share of what a name may take, and nobody can use up another's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quota {
    /// Programs of this name; `None`: of any.
    pub name: Option<String>,
    /// Programs of this user; `None`: of any.
    pub uid: Option<u32>,
    /// Bytes, beside [`UserLimits::memory`]; `None`: nothing else is said.
    pub memory: Option<u64>,
}

impl Quota {
    /// True for a program of this name and user.
    pub fn fits(&self, name: &str, uid: u32) -> bool {
        self.name.as_deref().is_none_or(|own| own == name) && self.uid.is_none_or(|own| own == uid)
    }
}

/// What all programs of one user may take together. A user is a uid as the kernel tells it of the other end of a connection; programs
/// in containers without user namespaces share the uids of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserLimits {
    /// Connections.
    pub connections: u32,
    /// Attached programs.
    pub programs: u32,
    /// Queue pairs.
    pub queues: u32,
    /// Bytes of regions.
    pub memory: u64,
}

impl UserLimits {
    /// Connections by default.
    pub const CONNECTIONS: u32 = 512;
    /// Attached programs by default: as many as a Kubernetes node runs pods.
    pub const PROGRAMS: u32 = 256;
    /// Queue pairs by default.
    pub const QUEUES: u32 = 1024;

    /// The defaults, beside a limit for all users together: one user may take three quarters of the memory.
    pub fn within(memory_max: u64) -> UserLimits {
        UserLimits {
            connections: UserLimits::CONNECTIONS,
            programs: UserLimits::PROGRAMS,
            queues: UserLimits::QUEUES,
            memory: memory_max - memory_max / 4,
        }
    }
}

impl Limits {
    /// Limits in bytes, with the defaults for users.
    pub fn new(region_max: u32, memory_max: u64) -> Limits {
        let user = UserLimits::within(memory_max);
        Limits {
            region_max,
            memory_max,
            user,
            trusted_users: Vec::new(),
            operators: Limits::default_operators(),
            quotas: Vec::new(),
        }
    }

    /// Who may send a signal to this process: root, and the user that it runs as.
    pub fn default_operators() -> Vec<u32> {
        let mut users = vec![0, rustix::process::geteuid().as_raw()];
        users.dedup();
        users
    }

    /// The memory of the machine, in bytes.
    pub fn machine_memory() -> u64 {
        let info = rustix::system::sysinfo();
        info.totalram * u64::from(info.mem_unit)
    }

    /// The default of [`memory_max`](Limits::memory_max), in bytes: half of the machine's memory, or of what control groups leave to
    /// this process, if that is less.
    pub fn half_the_memory() -> u64 {
        Limits::memory() / 2
    }

    /// The memory of the machine, or what control groups leave to this process, in bytes.
    pub(crate) fn memory() -> u64 {
        let machine = Limits::machine_memory();
        cgroup::memory_limit().map_or(machine, |limit| limit.min(machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_memory() {
        assert!(Limits::half_the_memory() > 1 << 20);
        let limits = Limits::new(1, 1000);
        assert_eq!((limits.memory_max, limits.user.memory), (1000, 750));
    }
}
