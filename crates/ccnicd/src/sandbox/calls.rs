//! seccomp: the system calls that the process may make. All others fail with EPERM.
//!
//! They fail and do not kill: a call that this list forgets, by another libc, say, is then an error of whoever makes it, while a kill
//! would take the NIC from all programs. Whoever has taken over the process gains nothing by being alive: the call is not made.
//!
//! Calls on the way of a packet (readv, writev, ppoll, sendto) are allowed whatever their arguments: the kernel (since 5.11) finds that in a
//! bitmap and runs no filter.

use std::collections::BTreeMap;

use anyhow::Context;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

use super::InForce;

/// What is allowed besides what any daemon does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Calls {
    /// To make and configure TAP interfaces.
    pub(super) tap: bool,
    /// To do so in other network namespaces.
    pub(super) netns: bool,
    /// To bind sockets of AF_XDP to interfaces.
    pub(super) xdp: bool,
}

/// A system call that is allowed.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) number: i64,
    /// If only with some values of an argument: which argument, and which values.
    pub(super) only: Option<(u8, Only)>,
}

/// Values of an argument.
#[derive(Debug, Clone)]
pub(super) enum Only {
    /// The lower 32 bits are one of these.
    OneOf(Vec<u64>),
    /// None of these bits is set.
    Without(u64),
}

/// `SYS_read` and so on, as calls.
macro_rules! calls {
    ($($call:ident)*) => { [$((stringify!($call).split_at(4).1, libc::$call)),*] };
}

/// Calls that are allowed whatever their arguments, by what they are for. docs/security.md has the same table.
pub(super) const ANYHOW: &[(&str, &[(&str, i64)])] = &[
    (
        "memory",
        &calls![SYS_brk SYS_munmap SYS_mremap SYS_madvise SYS_mbind SYS_mlock2 SYS_membarrier SYS_memfd_create SYS_ftruncate SYS_fallocate],
    ),
    (
        "descriptors",
        &calls![SYS_read SYS_readv SYS_pread64 SYS_write SYS_writev SYS_pwrite64 SYS_close SYS_dup SYS_dup3 SYS_fcntl SYS_lseek SYS_fstat SYS_fstatfs
            SYS_ppoll SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_eventfd2 SYS_pipe2 SYS_splice],
    ),
    (
        "files (which ones, Landlock decides)",
        &calls![SYS_openat SYS_newfstatat SYS_statx SYS_readlinkat SYS_getdents64 SYS_unlinkat SYS_faccessat SYS_faccessat2 SYS_getcwd],
    ),
    (
        "sockets that there are",
        &calls![SYS_accept4 SYS_recvfrom SYS_recvmsg SYS_sendto SYS_sendmsg SYS_shutdown SYS_getsockopt SYS_setsockopt SYS_getsockname
            SYS_getpeername],
    ),
    (
        "threads",
        &calls![SYS_futex SYS_rseq SYS_set_robust_list SYS_get_robust_list SYS_set_tid_address SYS_exit SYS_exit_group SYS_sched_yield
            SYS_sched_getaffinity SYS_sched_setaffinity SYS_gettid SYS_getcpu],
    ),
    (
        "signals",
        &calls![SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sigaltstack SYS_restart_syscall],
    ),
    (
        "time and identity",
        &calls![SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday SYS_getrandom SYS_getpid SYS_getppid
            SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_sysinfo SYS_uname],
    ),
];

/// The same, of calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
pub(super) const OLD: &[(&str, i64)] =
    &calls![SYS_poll SYS_epoll_wait SYS_open SYS_stat SYS_lstat SYS_readlink SYS_unlink SYS_access];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD: &[(&str, i64)] = &[];

/// Flags of clone(2) that make namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS;

/// Of an interface's offloads and queues (linux/sockios.h).
const SIOCETHTOOL: u64 = 0x8946;

/// All that is allowed.
pub(super) fn allowed(calls: Calls) -> Vec<Call> {
    let anyhow = ANYHOW.iter().flat_map(|(_, group)| *group).chain(OLD);
    let mut all: Vec<_> = anyhow.map(|&(name, number)| Call { name, number, only: None }).collect();
    let mut add = |[(name, number)]: [(&'static str, i64); 1], argument, values| {
        all.push(Call { name, number, only: Some((argument, values)) });
    };
    let executable = || Only::Without(libc::PROT_EXEC as u64);
    add(calls![SYS_mmap], 2, executable());
    add(calls![SYS_mprotect], 2, executable());
    add(calls![SYS_clone], 0, Only::Without(NAMESPACES as u64));
    add(calls![SYS_tgkill], 0, Only::OneOf(vec![std::process::id().into()])); // abort
    add(calls![SYS_prlimit64], 0, Only::OneOf(vec![0]));
    add(calls![SYS_prctl], 0, Only::OneOf(vec![libc::PR_SET_NAME as u64, libc::PR_SET_VMA as u64]));
    add(calls![SYS_socketpair], 0, Only::OneOf(vec![libc::AF_UNIX as u64]));
    add(calls![SYS_ioctl], 1, Only::OneOf(ioctls(calls)));
    if calls.netns {
        add(calls![SYS_setns], 1, Only::OneOf(vec![libc::CLONE_NEWNET as u64]));
    }
    let families = families(calls);
    if !families.is_empty() {
        add(calls![SYS_socket], 0, Only::OneOf(families));
        all.extend(calls![SYS_bind].map(|(name, number)| Call { name, number, only: None }));
    }
    if calls.xdp {
        all.extend(calls![SYS_bpf].map(|(name, number)| Call { name, number, only: None }));
    }
    all
}

fn ioctls(calls: Calls) -> Vec<u64> {
    let mut all = vec![libc::FIONBIO];
    if calls.tap {
        all.extend([libc::TUNSETIFF, libc::TUNSETVNETHDRSZ, libc::TUNSETVNETLE, libc::TUNSETOFFLOAD]);
    }
    if calls.xdp {
        all.extend([SIOCETHTOOL, libc::SIOCGIFINDEX, libc::SIOCGIFNAME]);
    }
    all
}

/// Families of sockets that are made.
fn families(calls: Calls) -> Vec<u64> {
    let mut all = Vec::new();
    if calls.tap || calls.xdp {
        all.push(libc::AF_NETLINK as u64);
    }
    if calls.xdp {
        all.extend([libc::AF_XDP as u64, libc::AF_PACKET as u64]);
    }
    all
}

/// The filters, in the order in which they are applied; the one that forbids decides.
pub(super) fn programs(calls: Calls, arch: TargetArch) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let deny = |errno: i32| SeccompAction::Errno(errno as u32);
    // Its flags are behind a pointer, where no filter sees them. libc goes on with clone(2).
    let clone3 = (libc::SYS_clone3, Vec::new());
    let first = SeccompFilter::new([clone3.clone()].into(), SeccompAction::Allow, deny(libc::ENOSYS), arch)?;
    let mut rules = BTreeMap::from([clone3]);
    for call in allowed(calls) {
        rules.insert(call.number, call.rules()?);
    }
    let second = SeccompFilter::new(rules, deny(libc::EPERM), SeccompAction::Allow, arch)?;
    Ok([first.try_into()?, second.try_into()?])
}

impl Call {
    /// Any of these; an empty list stands for whatever arguments.
    fn rules(&self) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        let rule = |argument, operator, value| {
            let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
            SeccompRule::new(vec![condition])
        };
        match &self.only {
            None => Ok(Vec::new()),
            Some((argument, Only::OneOf(values))) => {
                values.iter().map(|value| rule(*argument, SeccompCmpOp::Eq, *value)).collect()
            }
            Some((argument, Only::Without(bits))) => {
                Ok(vec![rule(*argument, SeccompCmpOp::MaskedEq(*bits), 0)?])
            }
        }
    }
}

/// Lets all threads of this process make these calls only.
///
/// # Errors
/// Of a kernel that has seccomp, but refuses this.
pub(super) fn restrict(calls: Calls) -> anyhow::Result<InForce> {
    let names: Vec<_> = allowed(calls).iter().map(|call| call.name).collect();
    tracing::debug!(calls = names.join(" "), "system calls that are allowed");
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(InForce::Nothing) };
    for program in programs(calls, arch).context("the filter of system calls is wrong")? {
        match apply_filter_all_threads(&program) {
            Ok(()) => {}
            Err(Error::Seccomp(e)) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {
                return Ok(InForce::Nothing);
            }
            Err(e) => {
                return Err(e).context(
                    "the kernel refuses the filter of system calls; --sandbox on,seccomp=off does without",
                );
            }
        }
    }
    Ok(InForce::Fully)
}
