//! The account of what programs have taken of a NIC, for all of them together, for each user, and for each name of a user.
//!
//! A user is one that the machine knows: a uid out of somebody's range of subordinate uids counts as that user's (`subordinates.rs`).
//! Connections and memory, which all users share, are shared out by [`room`]: whoever has something cannot keep out whoever has nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{Limits, Quota};
use crate::messages::{MemoryStatus, Share};
use crate::subordinates::Subordinates;
use crate::text::printable;

/// Connections of all users together: fewer than the mappings that can be watched for holes (`ccnic_shm::survive_holes`).
const CONNECTIONS: usize = 3072;
/// Descriptors that are left for new connections, so that they can be refused with a reason.
pub(crate) const SPARE_FILES: u64 = 16;
/// Descriptors that a NIC has without any connection, roughly.
const OWN_FILES: u64 = 16;
/// Descriptors of a program: its connection, its region, the pipe that holds its pages, a notifier.
const FILES_EACH: u64 = 4;
/// Memory of a connection, in bytes: its thread, in the kernel and here (measured: 50 KiB). A quarter of the memory may be connections'.
const MEMORY_EACH: u64 = 64 << 10;
/// The part of what all users share that is kept for users who have less than their minimum: an eighth.
const RESERVE: u64 = 8;
/// The minimum of a user: a 128th of the whole, or an eighth of what is free, if that is less.
const MINIMUM: u64 = 128;
/// A user may hold so many times what it leaves for others, beside the reserve.
const SHARE: u64 = 7;

/// The amount that a user that `has` so much may still take, where all users together have taken `all` of `most`.
///
/// Up to its minimum a user takes whatever is free. Beyond it, a user may hold seven times what is left then beside the reserve, as packets
/// of a port do of a switch's shared memory (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998):
/// alone three quarters of the whole, of n users who want all 7/(7n + 1) of what is no reserve, and a part is always left.
pub(crate) fn room(most: u64, all: u64, has: u64) -> u64 {
    let free = most.saturating_sub(all);
    let minimum = (most / MINIMUM).min(free / RESERVE).max(1).saturating_sub(has).min(free);
    let spare = free.saturating_sub(most / RESERVE);
    // The largest x with has + x <= SHARE * (spare - x).
    let share = (u128::from(spare) * u128::from(SHARE)).saturating_sub(has.into()) / u128::from(SHARE + 1);
    minimum.max(u64::try_from(share).unwrap_or(spare)) // no more than is spare
}

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
    users: HashMap<u32, User>,
    /// What names may take now.
    quotas: Vec<Quota>,
    /// Whose uids count as another user's.
    subordinates: Subordinates,
}

/// What a user has taken.
#[derive(Debug, Default)]
struct User {
    all: Amounts,
    /// By uid, which may be a subordinate's, and name: bytes that its programs have taken, of names that have taken any.
    names: HashMap<(u32, Arc<str>), u64>,
}

/// A user that takes something.
#[derive(Debug, Clone)]
struct Taker {
    /// As the kernel says.
    uid: u32,
    /// Whose it counts as.
    user: u32,
    /// Of the program, if it is for one.
    name: Option<Arc<str>>,
}

impl Used {
    fn user(&self, user: u32) -> Amounts {
        self.users.get(&user).map(|user| user.all).unwrap_or_default()
    }

    /// The quota of a program, by its place.
    fn quota(&self, name: &str, uid: u32) -> Option<usize> {
        self.quotas.iter().position(|quota| quota.fits(name, uid))
    }

    /// What programs of a user have taken that have the quota at this place, and how much that is; `None` where it says nothing of memory.
    fn share(&self, at: usize, user: u32) -> Option<Share> {
        let most = self.quotas.get(at)?.memory?;
        let names = self.users.get(&user).into_iter().flat_map(|user| &user.names);
        let same = names.filter(|((uid, name), _)| self.quota(name, *uid) == Some(at));
        Some(Share {
            used: same.map(|(_, bytes)| bytes).fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            most,
        })
    }

    fn add(&mut self, Taker { uid, user, name }: &Taker, more: Amounts) {
        self.all.add(more);
        let user = self.users.entry(*user).or_default();
        user.all.add(more);
        if let Some(name) = name.as_ref().filter(|_| more.memory > 0) {
            let bytes = user.names.entry((*uid, Arc::clone(name))).or_default();
            *bytes = bytes.saturating_add(more.memory);
        }
    }

    fn subtract(&mut self, Taker { uid, user: of, name }: &Taker, less: Amounts) {
        self.all.subtract(less);
        let Some(user) = self.users.get_mut(of) else { return };
        user.all.subtract(less);
        let key = name.as_ref().map(|name| (*uid, Arc::clone(name)));
        if let Some((key, bytes)) = key.and_then(|key| user.names.get_mut(&key).map(|bytes| (key, bytes))) {
            *bytes = bytes.saturating_sub(less.memory);
            if *bytes == 0 {
                user.names.remove(&key);
            }
        }
        if user.all == Amounts::default() {
            self.users.remove(of);
        }
    }
}

/// Bounds on connections beside [`CONNECTIONS`].
const FEWER: &str = "by the limit of open files (RLIMIT_NOFILE; LimitNOFILE= of its systemd unit), 3 each, or by a quarter of the memory of \
                     the control group (MemoryMax=), 64 KiB each";

/// The account. Shared by the threads of connections.
#[derive(Debug)]
pub(crate) struct Account {
    limits: Limits,
    /// All users together.
    connections: usize,
    used: Mutex<Used>,
}

impl Account {
    /// For a process that may have so many files open and so many bytes of memory.
    pub(crate) fn new(limits: Limits, files: u64, memory: u64) -> Arc<Account> {
        let by_files = files.saturating_sub(SPARE_FILES + OWN_FILES) / FILES_EACH;
        let by_memory = memory / 4 / MEMORY_EACH;
        let connections = usize::try_from(by_files.min(by_memory)).unwrap_or(CONNECTIONS);
        let connections = connections.clamp(1, CONNECTIONS);
        let used = Used { quotas: limits.quotas.clone(), ..Used::default() };
        Arc::new(Account { limits, connections, used: Mutex::new(used) })
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
        self.take_as(uid, None, more)
    }

    /// The same, on behalf of a program that has this name.
    ///
    /// # Errors
    /// As [`take`](Account::take); or that the quota of its name is in the way.
    pub(crate) fn take_for(
        self: &Arc<Self>,
        uid: u32,
        name: &Arc<str>,
        more: Amounts,
    ) -> Result<Lease, String> {
        self.take_as(uid, Some(Arc::clone(name)), more)
    }

    fn take_as(self: &Arc<Self>, uid: u32, name: Option<Arc<str>>, more: Amounts) -> Result<Lease, String> {
        let mut used = self.used();
        let taker = Taker { uid, user: used.subordinates.user_of(uid), name };
        let user = used.user(taker.user);
        self.check_all(used.all, more)?;
        self.check_user(&taker, user, more)?;
        self.check_share(&taker, used.all, user, more)?;
        if let Some(name) = taker.name.as_deref().filter(|_| more.memory > 0) {
            check_quota(&used, &taker, name, more.memory)?;
        }
        used.add(&taker, more);
        Ok(Lease { account: Arc::clone(self), taker, what: more })
    }

    /// The user that a uid counts as.
    pub(crate) fn user_of(&self, uid: u32) -> u32 {
        self.used().subordinates.user_of(uid)
    }

    /// From now on these uids count as others'. What has been taken counts as it did.
    pub(crate) fn set_subordinates(&self, subordinates: Subordinates) {
        self.used().subordinates = subordinates;
    }

    /// From now on names may take so much. What has been taken stays.
    pub(crate) fn set_quotas(&self, quotas: Vec<Quota>) {
        self.used().quotas = quotas;
    }

    fn check_all(&self, all: Amounts, more: Amounts) -> Result<(), String> {
        let most = self.connections;
        if more.connections > 0 && all.connections + more.connections > most {
            return Err(format!(
                "this NIC has {most} connections, the most there can be: at most {CONNECTIONS}, or fewer {FEWER}; try again when a program \
                 has gone"
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

    /// Leaves room for other users.
    fn check_share(&self, taker: &Taker, all: Amounts, user: Amounts, more: Amounts) -> Result<(), String> {
        let most = self.connections as u64;
        let (connections, memory) = (more.connections as u64, self.limits.memory_max);
        let shared = [
            ("connections", most, all.connections as u64, user.connections as u64, connections, FEWER),
            ("bytes of regions", memory, all.memory, user.memory, more.memory, "ccnicd --memory-max"),
        ];
        for (what, most, all, has, more, remedy) in shared {
            let room = room(most, all, has);
            if more > 0 && more > room {
                let free = most.saturating_sub(all);
                return Err(format!(
                    "{taker} has {has} {what} and asks for {more} more; {room} are left to it of the {free} that are free of {most}, the others \
                     are kept for users who have less: end another program of this user, or raise what bounds them: {remedy}"
                ));
            }
        }
        Ok(())
    }

    fn check_user(&self, taker: &Taker, user: Amounts, more: Amounts) -> Result<(), String> {
        let limits = &self.limits.user;
        let refused = |what: &str, has: u64, more: u64, most: u64, flag: &str| {
            let free = most.saturating_sub(has);
            format!(
                "{taker} has {has} of {most} {what} and asks for {more} more; {free} are left: end another program of this user, or \
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

/// Whether a program of this user and name may take `more` bytes, as far as its name goes.
fn check_quota(used: &Used, taker: &Taker, name: &str, more: u64) -> Result<(), String> {
    let Some(at) = used.quota(name, taker.uid) else { return Ok(()) };
    let Some(Share { used: has, most }) = used.share(at, taker.user) else { return Ok(()) };
    let free = most.saturating_sub(has);
    if more <= free {
        return Ok(());
    }
    Err(format!(
        "memory of [[program]] entry {}, which fits {} of {taker}: its programs of this user have {has} of {most} bytes of regions and ask for \
         {more} more; {free} are left: lower the buffers, end another of these programs, or raise memory of that entry (ccnic apply)",
        at + 1,
        printable(name)
    ))
}

impl std::fmt::Display for Taker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.uid, self.user) {
            (uid, user) if uid == user => write!(f, "user {user}"),
            (uid, user) => write!(f, "user {user} (whose subordinate is {uid})"),
        }
    }
}

/// Counts as taken as long as this lives. May be dropped on any thread.
#[derive(Debug)]
pub(crate) struct Lease {
    account: Arc<Account>,
    taker: Taker,
    what: Amounts,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.account.used().subtract(&self.taker, self.what);
    }
}

/// Bytes that count against [`Limits::memory_max`] and against the limit of their user as long as this lives. May be dropped on any
/// thread.
#[derive(Debug)]
pub struct MemoryLease {
    lease: Lease,
}

impl MemoryLease {
    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.lease.what.memory
    }
}

/// Leases memory on behalf of a program's user, beside its region.
#[derive(Debug, Clone)]
pub struct UserMemory {
    account: Arc<Account>,
    uid: u32,
    name: Arc<str>,
}

impl UserMemory {
    pub(crate) fn new(account: &Arc<Account>, uid: u32, name: Arc<str>) -> UserMemory {
        UserMemory { account: Arc::clone(account), uid, name }
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
        let lease = self.account.take_for(self.uid, &self.name, Amounts { memory, ..Amounts::default() })?;
        Ok(MemoryLease { lease })
    }

    /// What is known of a program that has taken so many bytes, beside what it and others may take.
    pub fn status(&self, bytes: u64) -> MemoryStatus {
        let used = self.account.used();
        let of = used.subordinates.user_of(self.uid);
        let user = Share { used: used.user(of).memory, most: self.account.limits.user.memory };
        let named = used.quota(&self.name, self.uid).and_then(|at| used.share(at, of));
        MemoryStatus { bytes, uid: self.uid, user, named }
    }
}

/// Changes what names may take.
#[derive(Debug, Clone)]
pub struct Quotas(pub(crate) Arc<Account>);

impl Quotas {
    /// These count from now on, for whatever is taken next. What has been taken stays.
    pub fn set(&self, quotas: Vec<Quota>) {
        self.0.set_quotas(quotas);
    }

    /// Reads `/etc/subuid` again: its ranges count from now on. What has been taken counts as it did.
    ///
    /// # Errors
    /// Why it cannot be read; then the ranges stay as they were.
    pub fn read_subordinates(&self) -> std::io::Result<()> {
        self.0.set_subordinates(Subordinates::of_system()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::UserLimits;

    fn account() -> Arc<Account> {
        let user = UserLimits { connections: 3, programs: 2, queues: 10, memory: 700 };
        Account::new(
            Limits {
                region_max: 1000,
                memory_max: 1000,
                user,
                trusted_users: vec![],
                operators: vec![],
                quotas: vec![],
            },
            1 << 20,
            u64::MAX,
        )
    }

    fn quota(name: Option<&str>, uid: Option<u32>, memory: Option<u64>) -> Quota {
        Quota { name: name.map(str::to_owned), uid, memory }
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
        let (one, two) = (account.take(1, memory(600)).unwrap(), account.take(2, memory(240)).unwrap());
        let all = why(&account, 3, memory(161));
        assert!(all.contains("160 are left for") && all.contains("--memory-max"), "{all}");
        drop(two);
        let user = why(&account, 1, memory(101));
        assert!(user.contains("100 are left") && user.contains("--user-memory"), "{user}");
        assert_eq!(account.used().all, memory(600), "what was refused does not count");
        drop(one);
        assert!(account.used().users.is_empty() && account.used().all == Amounts::default());
        let one = UserMemory::new(&account, 1, "a".into());
        let more = one.lease(700).unwrap();
        assert!(one.lease(1).is_err());
        drop((account, more)); // a lease may outlive its listener
    }

    #[test]
    fn names_have_quotas_for_each_user_and_the_first_that_fits_counts() {
        let account = account();
        let quotas = vec![
            quota(Some("web"), Some(1), Some(300)),
            quota(Some("web"), None, Some(100)),
            quota(Some("free"), None, None),
            quota(None, Some(2), Some(50)),
        ];
        account.set_quotas(quotas);
        let taken = |uid, name: &str, bytes| UserMemory::new(&account, uid, name.into()).lease(bytes);
        let _web = taken(1, "web", 300).unwrap();
        let why = taken(1, "web", 1).unwrap_err();
        assert!(why.contains("memory of [[program]] entry 1") && why.contains("300 of 300"), "{why}");
        assert!(why.contains("0 are left") && why.contains("raise memory of that entry"), "{why}");
        let other = taken(2, "web", 100).unwrap();
        assert!(taken(2, "web", 1).unwrap_err().contains("entry 2"), "each user has its own share");
        assert!(taken(3, "web", 101).is_err() && taken(3, "web", 100).is_ok());
        let (_x, _y) = (taken(2, "x", 30).unwrap(), taken(2, "y", 20).unwrap());
        assert!(
            taken(2, "z", 1).unwrap_err().contains("50 of 50"),
            "all names of the user that the entry fits"
        );
        assert!(taken(2, "free", 300).is_ok() && taken(1, "z", 300).is_ok(), "nothing is said of these");
        drop(other);
        assert!(taken(2, "web", 100).is_ok());
    }

    #[test]
    fn other_quotas_count_for_what_is_taken_next() {
        let account = account();
        let program = UserMemory::new(&account, 1, "web".into());
        let first = program.lease(200).unwrap();
        assert_eq!((first.bytes(), program.status(200).named), (200, None));
        Quotas(Arc::clone(&account)).set(vec![quota(Some("web"), None, Some(100))]);
        let status = program.status(200);
        assert_eq!(status.named, Some(Share { used: 200, most: 100 }), "it stays");
        assert_eq!((status.uid, status.user), (1, Share { used: 200, most: 700 }));
        assert!(program.lease(1).unwrap_err().contains("200 of 100"));
        drop(first);
        assert!(program.lease(100).is_ok());
        assert!(account.used().users.is_empty());
    }

    #[test]
    fn a_name_in_a_refusal_is_fit_to_print() {
        let account = account();
        account.set_quotas(vec![quota(None, None, Some(1))]);
        let why = UserMemory::new(&account, 1, "a\u{1b}[2J".into()).lease(2).unwrap_err();
        assert!(why.contains("a\\u{1b}[2J of user 1"), "{why}");
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

    /// Whatever users have taken and given back, in any order and in any portions: one with nothing gets its minimum beside seven, and
    /// something beside thirty.
    #[test]
    fn a_newcomer_always_finds_room() {
        const MOST: u64 = 1 << 30;
        let mut state = 1_u64;
        let mut chance = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for _ in 0..200 {
            let user = UserLimits { connections: u32::MAX, memory: u64::MAX, ..UserLimits::within(0) };
            let account = Account::new(Limits { user, ..Limits::new(0, MOST) }, 1 << 30, u64::MAX);
            let (users, part) = match chance(2) {
                0 => (1 + chance(7) as u32, MINIMUM),
                _ => (1 + chance(30) as u32, MINIMUM * 32),
            };
            let mut leases = Vec::new();
            for _ in 0..400 {
                let uid = chance(users.into()) as u32;
                let most = 1 << chance(31);
                let more = match chance(2) {
                    0 => memory(1 + chance(most)),
                    _ => Amounts { connections: 1 + chance(most.min(4096)) as usize, ..Amounts::default() },
                };
                leases.extend(account.take(uid, more));
                if chance(4) == 0 && !leases.is_empty() {
                    leases.swap_remove(chance(leases.len() as u64) as usize);
                }
            }
            let least = Amounts {
                connections: (CONNECTIONS / part as usize).max(1),
                memory: MOST / part,
                ..Amounts::default()
            };
            leases.push(account.take(1000, least).unwrap());
            let sum = |of: fn(&Amounts) -> u64| leases.iter().map(|lease| of(&lease.what)).sum::<u64>();
            let all = account.all();
            assert_eq!(
                (all.memory, all.connections as u64),
                (sum(|a| a.memory), sum(|a| a.connections as u64))
            );
            assert!(all.memory <= MOST && all.connections <= CONNECTIONS);
            drop(leases);
            assert!(account.used().users.is_empty() && account.all() == Amounts::default());
        }
    }

    #[test]
    fn what_a_user_may_hold_depends_on_what_it_leaves() {
        let alone = room(1024, 0, 0);
        assert_eq!(alone, 784, "three quarters, and a little more");
        assert_eq!(room(1024, alone, alone), 0);
        let second = room(1024, alone, 0);
        assert_eq!((second, room(1024, alone + second, second)), (98, 0));
        assert_eq!(room(1024, 1024 - 128, 0), 8, "of the reserve a minimum");
        assert_eq!((room(1024, 1024 - 3, 0), room(1024, 1024, 0), room(1024, 2000, 0)), (1, 0, 0));
        assert_eq!((room(1, 0, 0), room(0, 0, 0), room(u64::MAX, 0, 0) > u64::MAX / 4), (1, 0, true));
        let why = |has| {
            let account = Account::new(
                Limits { user: UserLimits { memory: 5000, ..UserLimits::within(0) }, ..Limits::new(0, 1024) },
                0,
                0,
            );
            let _has = account.take(7, memory(has)).unwrap();
            account.take(7, memory(100)).unwrap_err()
        };
        assert!(
            why(700).contains(
                "user 7 has 700 bytes of regions and asks for 100 more; 84 are left to it of the 324"
            ),
            "{}",
            why(700)
        );
        assert!(why(700).contains("kept for users who have less") && why(700).contains("--memory-max"));
    }

    #[test]
    fn subordinate_uids_take_what_is_their_owners() {
        let account = account();
        account.set_subordinates(Subordinates::parse("7:100000:65536\n", ""));
        let one = Amounts { connections: 1, ..Amounts::default() };
        let leases: Vec<_> = (0..3).map(|n| account.take(100_000 + n, one).unwrap()).collect();
        let why = why(&account, 100_003, one);
        assert!(why.contains("user 7 (whose subordinate is 100003) has 3 of 3 connections"), "{why}");
        assert!(account.take(7, one).is_err() && account.take(8, one).is_ok());
        // Names are those of the uid that says them, and the share is its owner's.
        account.set_quotas(vec![quota(Some("web"), Some(100_001), Some(50))]);
        let inside = UserMemory::new(&account, 100_001, "web".into());
        let web = inside.lease(50).unwrap();
        assert!(inside.lease(1).unwrap_err().contains("50 of 50"));
        assert!(UserMemory::new(&account, 100_002, "web".into()).lease(50).is_ok());
        assert_eq!((inside.status(50).uid, inside.status(50).user.used), (100_001, 50));
        // The account from which it was taken gets it back, whoever owns the uids by then.
        account.set_subordinates(Subordinates::default());
        drop((leases, web));
        assert!(account.used().users.is_empty() && account.all() == Amounts::default());
    }

    #[test]
    fn connections_of_all_users_are_limited_by_descriptors_and_by_a_constant() {
        let many = UserLimits { connections: 10_000, ..UserLimits::within(0) };
        let limits = Limits { user: many, ..Limits::new(0, 0) };
        let most = |files, memory| {
            let account = Account::new(limits.clone(), files, memory);
            let one = Amounts { connections: 1, ..Amounts::default() };
            let leases: Vec<_> = (0..10_000).map_while(|uid| account.take(uid, one).ok()).collect();
            assert!(why(&account, 1, one).contains("RLIMIT_NOFILE"));
            leases.len()
        };
        const ALL: u64 = u64::MAX;
        assert_eq!((most(0, ALL), most(72, ALL), most(ALL, ALL)), (1, 10, CONNECTIONS));
        assert_eq!((most(ALL, 0), most(ALL, 24 << 20), most(72, 24 << 20)), (1, 96, 10));
    }
}
