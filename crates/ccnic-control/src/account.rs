//! The account of what programs have taken of a NIC, for all of them together and for each user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::Limits;

/// Connections of all users together: fewer than the mappings that can be watched for holes (`ccnic_shm::survive_holes`).
const CONNECTIONS: usize = 3072;
/// Descriptors that are left for new connections, so that they can be refused with a reason.
pub(crate) const SPARE_FILES: u64 = 16;
/// Descriptors that a NIC has without any connection, roughly.
const OWN_FILES: u64 = 16;
/// Descriptors of a program: its connection, its region, a notifier.
const FILES_EACH: u64 = 3;

/// Something that programs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amounts {
    pub(crate) connections: usize,
    pub(crate) programs: usize,
    pub(crate) queues: usize,
    /// Bytes.
    pub(crate) memory: u64,
}

impl Amounts {
    fn add(&mut self, more: Amounts) {
        self.connections += more.connections;
        self.programs += more.programs;
        self.queues += more.queues;
        self.memory = self.memory.saturating_add(more.memory);
    }

    fn subtract(&mut self, less: Amounts) {
        self.connections = self.connections.saturating_sub(less.connections);
        self.programs = self.programs.saturating_sub(less.programs);
        self.queues = self.queues.saturating_sub(less.queues);
        self.memory = self.memory.saturating_sub(less.memory);
    }
}

#[derive(Debug, Default)]
struct Used {
    all: Amounts,
    /// By uid: those that have taken something.
    users: HashMap<u32, Amounts>,
}

/// The account. Shared by the threads of connections.
#[derive(Debug)]
pub(crate) struct Account {
    limits: Limits,
    /// All users together.
    connections: usize,
    used: Mutex<Used>,
}

impl Account {
    /// For a process that may have so many files open.
    pub(crate) fn new(limits: Limits, files: u64) -> Arc<Account> {
        let by_files = files.saturating_sub(SPARE_FILES + OWN_FILES) / FILES_EACH;
        let connections = usize::try_from(by_files).unwrap_or(CONNECTIONS).clamp(1, CONNECTIONS);
        Arc::new(Account { limits, connections, used: Mutex::default() })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all users have taken.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Amounts {
        self.used().all
    }

    /// Counts `more` as taken by a user until the lease is dropped.
    ///
    /// # Errors
    /// Which limit is in the way, and what to do about it.
    pub(crate) fn take(self: &Arc<Self>, uid: u32, more: Amounts) -> Result<Lease, String> {
        let mut used = self.used();
        let (all, user) = (used.all, used.users.get(&uid).copied().unwrap_or_default());
        self.check_all(all, more)?;
        self.check_user(uid, user, more)?;
        used.all.add(more);
        used.users.entry(uid).or_default().add(more);
        Ok(Lease { account: Arc::clone(self), uid, what: more })
    }

    fn check_all(&self, all: Amounts, more: Amounts) -> Result<(), String> {
        let most = self.connections;
        if more.connections > 0 && all.connections + more.connections > most {
            return Err(format!(
                "this NIC has {most} connections, the most there can be: at most {CONNECTIONS}, or fewer by its limit of open files \
                 (RLIMIT_NOFILE; LimitNOFILE= of its systemd unit); try again when a program has gone"
            ));
        }
        let free = self.limits.memory_max.saturating_sub(all.memory);
        if more.memory > free {
            return Err(format!(
                "the region has {} bytes, {free} are left for this NIC's programs; lower the buffers, detach another program, or raise \
                 ccnicd --memory-max",
                more.memory
            ));
        }
        Ok(())
    }

    fn check_user(&self, uid: u32, user: Amounts, more: Amounts) -> Result<(), String> {
        let limits = &self.limits.user;
        let refused = |what: &str, has: u64, more: u64, most: u64, flag: &str| {
            let free = most.saturating_sub(has);
            format!(
                "user {uid} has {has} of {most} {what} and asks for {more} more; {free} are left: end another program of this user, or \
                 raise ccnicd {flag}"
            )
        };
        let counted = [
            ("connections", user.connections, more.connections, limits.connections, "--user-connections"),
            ("attached programs", user.programs, more.programs, limits.programs, "--user-programs"),
            ("queue pairs", user.queues, more.queues, limits.queues, "--user-queues"),
        ];
        for (what, has, more, most, flag) in counted {
            if more > 0 && has + more > most as usize {
                return Err(refused(what, has as u64, more as u64, most.into(), flag));
            }
        }
        if more.memory > limits.memory.saturating_sub(user.memory) {
            return Err(refused(
                "bytes of regions",
                user.memory,
                more.memory,
                limits.memory,
                "--user-memory",
            ));
        }
        Ok(())
    }
}

/// Counts as taken as long as this lives. May be dropped on any thread.
#[derive(Debug)]
pub(crate) struct Lease {
    account: Arc<Account>,
    uid: u32,
    what: Amounts,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut used = self.account.used();
        used.all.subtract(self.what);
        if let Some(user) = used.users.get_mut(&self.uid) {
            user.subtract(self.what);
            if *user == Amounts::default() {
                used.users.remove(&self.uid);
            }
        }
    }
}

/// Bytes that count against [`Limits::memory_max`] and against the limit of their user as long as this lives. May be dropped on any
/// thread.
#[derive(Debug)]
pub struct MemoryLease {
    _lease: Lease,
}

/// Leases memory on behalf of a program's user, beside its region.
#[derive(Debug, Clone)]
pub struct UserMemory {
    account: Arc<Account>,
    uid: u32,
}

impl UserMemory {
    pub(crate) fn new(account: &Arc<Account>, uid: u32) -> UserMemory {
        UserMemory { account: Arc::clone(account), uid }
    }

    /// The user, as the kernel says of the program that has connected.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Leases so many bytes that a NIC needs for a program.
    ///
    /// # Errors
    /// Which limit is in the way, and what to do about it.
    pub fn lease(&self, bytes: usize) -> Result<MemoryLease, String> {
        let memory = bytes as u64;
        let lease = self.account.take(self.uid, Amounts { memory, ..Amounts::default() })?;
        Ok(MemoryLease { _lease: lease })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::UserLimits;

    fn account() -> Arc<Account> {
        let user = UserLimits { connections: 3, programs: 2, queues: 10, memory: 700 };
        Account::new(
            Limits { region_max: 1000, memory_max: 1000, user, trusted_users: vec![], operators: vec![] },
            1 << 20,
        )
    }

    fn memory(memory: u64) -> Amounts {
        Amounts { memory, ..Amounts::default() }
    }

    #[track_caller]
    fn why(account: &Arc<Account>, uid: u32, what: Amounts) -> String {
        account.take(uid, what).unwrap_err()
    }

    #[test]
    fn leases_count_until_they_are_dropped() {
        let account = account();
        let (one, two) = (account.take(1, memory(600)).unwrap(), account.take(2, memory(300)).unwrap());
        let all = why(&account, 3, memory(101));
        assert!(all.contains("100 are left for") && all.contains("--memory-max"), "{all}");
        drop(two);
        let user = why(&account, 1, memory(101));
        assert!(user.contains("100 are left") && user.contains("--user-memory"), "{user}");
        assert_eq!(account.used().all, memory(600), "what was refused does not count");
        drop(one);
        assert!(account.used().users.is_empty() && account.used().all == Amounts::default());
        let more = UserMemory::new(&account, 1).lease(700).unwrap();
        assert!(UserMemory::new(&account, 1).lease(1).is_err());
        drop((account, more)); // a lease may outlive its listener
    }

    #[test]
    fn each_limit_of_a_user_is_named() {
        let account = account();
        let one = |connections, programs, queues| Amounts { connections, programs, queues, memory: 0 };
        let _first = account.take(7, one(3, 2, 9)).unwrap();
        assert!(why(&account, 7, one(1, 0, 0)).contains("user 7 has 3 of 3 connections"));
        assert!(why(&account, 7, one(1, 0, 0)).contains("--user-connections"));
        assert!(why(&account, 7, one(0, 1, 0)).contains("--user-programs"));
        assert!(why(&account, 7, one(0, 0, 2)).contains("1 are left"));
        assert!(why(&account, 7, one(0, 0, 2)).contains("--user-queues"));
        assert!(account.take(7, one(0, 0, 1)).is_ok());
        assert!(account.take(8, one(3, 2, 10)).is_ok(), "another user has limits of its own");
    }

    #[test]
    fn connections_of_all_users_are_limited_by_descriptors_and_by_a_constant() {
        let many = UserLimits { connections: 10_000, ..UserLimits::within(0) };
        let limits = Limits { user: many, ..Limits::new(0, 0) };
        let most = |files| {
            let account = Account::new(limits.clone(), files);
            let one = Amounts { connections: 1, ..Amounts::default() };
            let leases: Vec<_> = (0..10_000).map_while(|uid| account.take(uid, one).ok()).collect();
            assert!(why(&account, 1, one).contains("RLIMIT_NOFILE"));
            leases.len()
        };
        assert_eq!((most(0), most(62), most(1 << 30)), (1, 10, CONNECTIONS));
    }
}
