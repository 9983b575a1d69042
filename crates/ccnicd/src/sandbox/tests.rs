//! What is kept for which configuration; the filter, run here on calls that are never made; and the tables of docs/security.md.

use proptest::prelude::*;
use rustix::thread::CapabilitySet;
use seccompiler::{BpfProgram, TargetArch};

use super::calls::{self, ANYHOW, Call, Calls, OLD, Only};
use super::needs::{OF_LATER_NETNS, OF_LATER_TAP, OF_XDP};
use super::paths::Access;
use super::*;

const SECURITY: &str = include_str!("../../../../docs/security.md");
/// What the filters return (linux/seccomp.h).
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;

fn port(text: &str) -> PortOptions {
    text.parse().unwrap()
}

fn needs(ports: &[&str]) -> Needs {
    let ports = ports.iter().map(|text| port(text)).collect();
    Needs { ports, ..Needs::default() }
}

fn sandbox(needs: &Needs) -> Sandbox {
    Sandbox { status: SandboxStatus::default(), grants: Some(needs.grants()) }
}

#[test]
fn ports_have_what_is_kept_for_them() {
    let none = CapabilitySet::empty();
    for (ports, capabilities, calls) in [
        (&[][..], none, Calls::default()),
        (&["tap:t0", "pcap:/tmp/a"], none, Calls::default()),
        (&["tap:t0", "xdp:e0"], OF_XDP, Calls { xdp: true, ..Calls::default() }),
    ] {
        let grants = needs(ports).grants();
        assert_eq!((grants.capabilities, grants.calls), (capabilities, calls), "{ports:?}");
    }
    let later = Needs { later_ports: vec![LaterPort::Tap], ..needs(&[]) }.grants();
    assert_eq!((later.capabilities, later.calls), (OF_LATER_TAP, Calls { tap: true, ..Calls::default() }));
    assert!(later.paths.iter().any(|grant| grant.access == Access::Device));
    let netns = Needs { later_ports: vec![LaterPort::Netns], ..needs(&[]) }.grants();
    let calls = Calls { tap: true, netns: true, xdp: false };
    assert_eq!((netns.capabilities, netns.calls), (OF_LATER_NETNS, calls));
    let all = Needs { later_ports: vec![LaterPort::Tap, LaterPort::Xdp], ..needs(&[]) }.grants();
    assert_eq!((all.capabilities, all.calls), (OF_XDP, Calls { tap: true, xdp: true, netns: false }));
}

#[test]
fn a_port_that_comes_later_is_refused_with_the_option_that_keeps_what_it_takes() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let tight = sandbox(&needs(&["tap:t0"]));
    let why = |sandbox: &Sandbox, text: &str| sandbox.check(&port(text)).unwrap_err().to_string();
    assert!(why(&tight, "tap:t0").contains("start it with --later-ports tap"));
    assert!(why(&tight, "tap:t0,netns=/run/netns/a").contains("start it with --later-ports netns"));
    assert!(why(&tight, "xdp:e0").contains("start it with --later-ports xdp"));
    let netns = sandbox(&Needs { later_ports: vec![LaterPort::Netns], ..needs(&[]) });
    for text in ["tap:t0", "tap:t0,netns=/run/netns/a"] {
        netns.check(&port(text)).unwrap();
    }
    for text in ["tap:t0,netns=/var/a", "tap:t0,netns=/proc/1/ns/net"] {
        assert!(why(&netns, text).contains("below a directory of --later-paths"));
    }
    let file = format!("pcap:{}", at("a.pcap"));
    let option = format!("start it with --later-paths {}", directory.path().display());
    assert!(why(&tight, &file).contains(&option), "{}", why(&tight, &file));
    let wide = Needs {
        later_ports: vec![LaterPort::Tap],
        later_paths: vec![directory.path().to_owned()],
        ..needs(&["xdp:e0"])
    };
    let wide = sandbox(&wide);
    for text in ["tap:t1", "xdp:e1", &file, &format!("pcap:record={}", at("b"))] {
        wide.check(&port(text)).unwrap();
    }
    assert!(why(&wide, &format!("pcap:{}", at("../other/a"))).contains("given away"), "through ..");
    // What is replayed may be replayed again, and no more than that.
    let again = sandbox(&needs(&[&file]));
    again.check(&port(&file)).unwrap();
    assert!(again.check(&port(&format!("{file},record={}", at("b")))).is_err());
    assert!(Sandbox { grants: None, ..tight }.check(&port("tap:t0")).is_ok(), "where nothing is confined");
}

#[test]
fn nothing_can_be_removed_or_made_but_recordings() {
    use landlock::AccessFs;
    let mut all = needs(&["pcap:/tmp/a,record=/tmp/b", "tap:t0", "xdp:e0"]);
    all.config = Some("/etc/ccnic/nic.toml".into());
    all.later_ports = vec![LaterPort::Tap, LaterPort::Xdp];
    all.later_paths = vec!["/tmp".into()];
    let changes = AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::MakeSym
        | AccessFs::MakeDir
        | AccessFs::MakeSock
        | AccessFs::Refer
        | AccessFs::Execute;
    for grant in all.grants().paths {
        assert!(!grant.access.rights().intersects(changes), "{grant:?}");
    }
}

/// Runs a filter on a call, as the kernel does: the instructions that seccompiler emits.
fn run(program: &BpfProgram, number: i64, args: [u64; 6]) -> u32 {
    let mut data = [0; 64];
    data[..4].copy_from_slice(&(number as u32).to_ne_bytes());
    let arch: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
    data[4..8].copy_from_slice(&arch.to_ne_bytes());
    args.iter().zip(data[16..].chunks_mut(8)).for_each(|(arg, to)| to.copy_from_slice(&arg.to_ne_bytes()));
    let (mut at, mut a) = (0, 0u32);
    loop {
        let i = &program[at];
        let jump = |yes: bool| usize::from(if yes { i.jt } else { i.jf });
        at += 1;
        match i.code {
            0x20 => a = u32::from_ne_bytes(data[i.k as usize..][..4].try_into().unwrap()),
            0x54 => a &= i.k,
            0x05 => at += i.k as usize,
            0x15 => at += jump(a == i.k),
            0x25 => at += jump(a > i.k),
            0x35 => at += jump(a >= i.k),
            0x06 => return i.k,
            other => panic!("an instruction that this test does not know: {other:#x}"),
        }
    }
}

/// What the filters say together: the one that is stricter counts.
fn verdict(calls: Calls, number: i64, args: [u64; 6]) -> u32 {
    let programs = calls::programs(calls, TargetArch::try_from(std::env::consts::ARCH).unwrap()).unwrap();
    let verdicts = programs.map(|program| run(&program, number, args));
    let rank = |verdict: u32| match verdict {
        KILL => 0,
        ALLOW => 2,
        _ => 1,
    };
    verdicts.into_iter().min_by_key(|verdict| rank(*verdict)).unwrap()
}

/// The same, from the list.
fn expected(calls: Calls, number: i64, args: [u64; 6]) -> u32 {
    if number == libc::SYS_clone3 {
        return ERRNO | libc::ENOSYS as u32;
    }
    let fits = |call: &Call| match &call.only {
        None => true,
        Some((argument, values)) => {
            let value = args[usize::from(*argument)] & 0xffff_ffff;
            match values {
                Only::OneOf(values) => values.contains(&value),
                Only::Without(bits) => value & bits == 0,
            }
        }
    };
    let may = calls::allowed(calls).iter().any(|call| call.number == number && fits(call));
    if may { ALLOW } else { ERRNO | libc::EPERM as u32 }
}

proptest! {
    #[test]
    fn the_filter_allows_what_is_listed_and_nothing_else(
        number in prop_oneof![0i64..500, any::<u32>().prop_map(i64::from)],
        args in prop::array::uniform6(prop_oneof![
            0u64..50, (0u32..64).prop_map(|bit| 1 << bit), any::<u64>(), Just(u64::from(std::process::id()))
        ]),
        tap: bool, xdp: bool, netns: bool,
    ) {
        let calls = Calls { tap, xdp, netns };
        prop_assert_eq!(verdict(calls, number, args), expected(calls, number, args));
    }
}

/// Whatever the list says: with these calls a process could leave the sandbox, or do what a NIC has no reason to.
#[test]
fn what_could_do_harm_is_not_in_the_list() {
    let all = Calls { tap: true, xdp: true, netns: true };
    let eperm = ERRNO | libc::EPERM as u32;
    let sys = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_writev,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_chroot,
        libc::SYS_kill,
        libc::SYS_capset,
        libc::SYS_setresuid,
        libc::SYS_connect,
        libc::SYS_listen,
        libc::SYS_keyctl,
        libc::SYS_io_uring_setup,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_init_module,
        libc::SYS_seccomp,
        libc::SYS_renameat2,
        libc::SYS_mkdirat,
        libc::SYS_pidfd_getfd,
    ];
    for number in sys {
        assert_eq!(verdict(all, number, [0; 6]), eperm, "{number}");
    }
    let on = |number, argument: usize, value: i32| {
        let mut args = [0; 6];
        args[argument] = value as u64;
        verdict(all, number, args)
    };
    let enter = libc::SYS_setns;
    assert_eq!((on(enter, 1, libc::CLONE_NEWNET), on(enter, 1, libc::CLONE_NEWNS)), (ALLOW, eperm));
    let write = libc::PROT_READ | libc::PROT_WRITE;
    for map in [libc::SYS_mmap, libc::SYS_mprotect] {
        assert_eq!((on(map, 2, write), on(map, 2, libc::PROT_READ | libc::PROT_EXEC)), (ALLOW, eperm));
    }
    let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
    assert_eq!((on(libc::SYS_clone, 0, thread), on(libc::SYS_clone, 0, libc::CLONE_NEWUSER)), (ALLOW, eperm));
    assert_eq!(on(libc::SYS_clone3, 0, 0), ERRNO | libc::ENOSYS as u32);
    for family in [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX, libc::AF_ALG, libc::AF_VSOCK] {
        assert_eq!(on(libc::SYS_socket, 0, family), eperm);
    }
    assert_eq!(on(libc::SYS_tgkill, 0, 1), eperm);
    let netlink = [libc::AF_NETLINK as u64, 0, 0, 0, 0, 0];
    assert_eq!(
        (verdict(all, libc::SYS_socket, netlink), verdict(Calls::default(), libc::SYS_socket, netlink)),
        (ALLOW, eperm)
    );
    for (calls, may) in [(all, ALLOW), (Calls { tap: true, ..Calls::default() }, eperm)] {
        assert_eq!(verdict(calls, libc::SYS_bpf, [0; 6]), may);
    }
}

/// Each call, capability and path of the daemon is in the tables, in the row of its group.
#[test]
fn the_tables_of_the_documentation_are_complete() {
    let rows: Vec<&str> = SECURITY.lines().filter(|line| line.starts_with('|')).collect();
    let row = |begins: &str| {
        let found = rows.iter().find(|row| row.starts_with(&format!("| {begins} |")));
        *found.unwrap_or_else(|| panic!("docs/security.md has no row {begins:?}"))
    };
    for (group, calls) in ANYHOW {
        for (name, _) in *calls {
            assert!(row(group).contains(&format!("`{name}`")), "{group}: {name}");
        }
    }
    for (name, _) in OLD {
        assert!(row("on x86-64 also").contains(&format!("`{name}`")), "{name}");
    }
    let all = Calls { tap: true, xdp: true, netns: true };
    for Call { name, only, .. } in calls::allowed(all) {
        if only.is_some() {
            assert!(row(&format!("`{name}`")).len() > name.len() + 10, "{name}");
        }
    }
    for (kind, kept) in [
        ("`xdp`", OF_XDP),
        ("`tap`, with `--later-ports tap`", OF_LATER_TAP),
        ("`tap`, with `--later-ports netns`", OF_LATER_NETNS),
    ] {
        for name in capabilities::names(kept) {
            assert!(row(kind).contains(&name.to_uppercase()), "{kind}: {name}");
        }
    }
    for grant in needs(&[]).grants().paths.iter().filter(|grant| grant.access == Access::Read) {
        let path = grant.path.display().to_string();
        assert!(rows.iter().any(|row| row.contains(&format!("`{path}`"))), "{path}");
    }
}
