//! What programs, and users, may take of a daemon: memory, connections, descriptors, time, lines of its log. Whoever is at a limit is told
//! which one; others have theirs.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ccnic::rss::Rss;
use ccnic::{Config, Layout, SharedMemory, host};
use ccnic_client::{Error, Nic, NicOptions};
use ccnic_control::Connection;
use ccnic_control::messages::{Reply, Request, Share};
use ccnic_control::rss::RssMessage;
use ccnic_shm::{Pages, Region};
use ccnic_testing::RegionMemory;
use ccnicd::control::placement;
use common::{Daemon, alone, file, two_cores, until};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, prlimit};
use rustix::thread::{Uid, set_thread_res_uid};

struct Rig {
    daemon: Daemon,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

fn rig_by(command: &[&str], args: &[&str]) -> Rig {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start_by(command, &socket, args);
    Rig { daemon, socket, _directory: directory }
}

fn rig(args: &[&str]) -> Rig {
    rig_by(&[env!("CARGO_BIN_EXE_ccnicd")], args)
}

impl Rig {
    fn connect(&self) -> Connection {
        Connection::open(&self.socket).unwrap()
    }

    /// Waits until all connections have ended: there is one thread that waits for the next.
    #[track_caller]
    fn nobody(&self) {
        let threads = || self.daemon.threads().iter().filter(|(name, _)| name == "ccnic-client").count();
        until("the end of all connections", || threads() == 1);
    }
}

fn small(queues: u16) -> Config {
    Config { queues, ring: 64, buffers: 16, ..Config::default() }
}

fn open(socket: &Path, config: &Config) -> Result<Nic, Error> {
    NicOptions::new().name("small").config(config).pages(Pages::Small).open(socket)
}

/// A region of so many bytes, which has room for more than its layout needs.
fn region(config: &Config, size: u32) -> Region {
    let layout = Layout::new(config).unwrap();
    let region = Region::create(size.max(layout.size()), Pages::Small).unwrap();
    host::format(&region.memory(), &layout);
    region
}

fn attach(rss: Option<RssMessage>) -> Request {
    Request::Attach { name: "greedy".into(), mac: None, rss }
}

#[track_caller]
fn refused(answer: Result<Reply, ccnic_control::Error>) -> String {
    match answer {
        Err(ccnic_control::Error::Refused { reason }) => reason,
        other => panic!("not a refusal: {other:?}"),
    }
}

#[track_caller]
fn says(message: &str, expected: &str) {
    assert!(message.contains(expected), "\"{message}\" does not say \"{expected}\"");
}

/// Bytes of regions that the daemon has mapped.
fn mapped(daemon: &Daemon) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", daemon.pid().as_raw_nonzero())).unwrap();
    let size = |line: &str| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(to, 16).ok()? - u64::from_str_radix(from, 16).ok()?)
    };
    maps.lines().filter(|line| line.contains("memfd:")).filter_map(size).sum()
}

#[test]
fn no_more_memory_than_the_limit_is_ever_mapped() {
    let _alone = alone();
    const MIB: u32 = 1 << 20;
    let mut rig = rig(&["--memory-max", "48", "--user-memory", "48", "--region-max", "16"]);
    let config = small(1);
    let mut over = false;
    let (daemon, socket) = (&rig.daemon, &rig.socket);
    let attached = || {
        let connection = Connection::open(socket).unwrap();
        let answer = connection.ask(&attach(None), Some(region(&config, 16 * MIB).as_fd()));
        (connection, answer)
    };
    let ask = || {
        for _ in 0..10 {
            says(&refused(attached().1), "4980736 are left to it of the 16777216 that are free");
            let bad = region(&config, 16 * MIB);
            bad.memory().store(0, 0);
            let connection = Connection::open(socket).unwrap();
            says(&refused(connection.ask(&attach(None), Some(bad.as_fd()))), "magic word");
            let large = region(&config, 17 * MIB);
            says(&refused(connection.ask(&attach(None), Some(large.as_fd()))), "--region-max");
        }
    };
    // Two fit. Then four threads ask again and again for what does not: good regions, and bad ones, large and too large.
    let (one, first) = attached();
    let (two, second) = attached();
    assert!(matches!((first, second), (Ok(Reply::Attached), Ok(Reply::Attached))));
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        while !asking.iter().all(|thread| thread.is_finished()) {
            over |= mapped(daemon) > u64::from(48 * MIB);
        }
    });
    assert_eq!(mapped(daemon), u64::from(32 * MIB));
    assert!(!over, "more was mapped than the limit allows");
    drop((one, two));
    until("the end of the two", || rig.daemon.status().programs.is_empty());
    until("their memory to be unmapped", || mapped(&rig.daemon) == 0);
    assert!(open(&rig.socket, &config).is_ok());
}

#[test]
fn hand_off_queues_count_as_memory_of_their_program() {
    let _alone = alone();
    let cores = two_cores();
    if !cores.contains(',') {
        println!("SKIPPED: it takes two CPUs");
        return;
    }
    let rig = rig(&["--cores", &cores, "--user-memory", "1"]);
    let (two, rss) = (small(2), RssMessage::from(&Rss::new(2)));
    let all = region(&two, 1 << 20);
    let connection = rig.connect();
    says(&refused(connection.ask(&attach(Some(rss.clone())), Some(all.as_fd()))), "--user-memory");
    let all = region(&two, 1 << 20); // that one has been sealed
    assert!(matches!(connection.ask(&attach(None), Some(all.as_fd())), Ok(Reply::Attached)));
    says(&refused(connection.ask(&Request::Rss(Some(rss.clone())), None)), "--user-memory");
    drop(connection);
    rig.nobody();
    let connection = rig.connect();
    let less = region(&two, (1 << 20) - (64 << 10));
    let answer = connection.ask(&attach(Some(rss)), Some(less.as_fd()));
    assert!(matches!(answer, Ok(Reply::Attached)), "{answer:?}");
    assert!(matches!(connection.ask(&Request::Rss(None), None), Ok(Reply::Done)));
}

#[test]
fn each_limit_of_a_user_is_named_and_given_back() {
    let _alone = alone();
    let rig = rig(&["--user-connections", "8", "--user-programs", "3", "--user-queues", "10"]);
    let open = |queues| open(&rig.socket, &small(queues));
    let says_why = |queues, flag| match open(queues) {
        Err(Error::Refused { reason }) => says(&reason, flag),
        other => panic!("not a refusal: {other:?}"),
    };
    for _ in 0..3 {
        says_why(11, "--user-queues");
        let programs: Vec<_> = (0..3).map(|_| open(3).unwrap()).collect();
        says_why(1, "--user-programs");
        let idle: Vec<_> = (0..5).map(|_| rig.connect()).collect();
        // The daemon accepts them one after the other, and this one after them.
        until("the ninth connection to be refused", || {
            rig.connect()
                .ask(&Request::Hello, None)
                .is_err_and(|e| e.to_string().contains("--user-connections"))
        });
        assert!(programs.iter().all(Nic::alive));
        drop((programs, idle));
        rig.nobody();
    }
}

/// By its name, its user and both, on the loopback and on a switch; and the daemon is told otherwise while it runs.
#[test]
fn programs_of_a_name_and_user_have_quotas_of_memory() {
    let _alone = alone();
    const MIB: u64 = 1 << 20;
    let own = rustix::process::getuid().as_raw();
    for wire in ["loopback", "switch"] {
        let web = |mib: u64| {
            format!(
                "wire = '{wire}'\n[[program]]\nname = 'web'\nuser = '{own}'\nmemory = {mib}\n\
                 [[program]]\nname = 'web'\n[[program]]\nuser = '{own}'\nmemory = 40\n"
            )
        };
        let (_directory, file, socket) = file(&web(20));
        let mut daemon = Daemon::start_configured(&file, &socket, &[]);
        let open = |name: &str, mib: u64| {
            let connection = Connection::open(&socket).unwrap();
            let region = region(&small(1), (mib * MIB) as u32);
            let request = Request::Attach { name: name.into(), mac: None, rss: None };
            connection.ask(&request, Some(region.as_fd())).map(|_| connection)
        };
        let why = |name: &str, mib: u64| refused(open(name, mib).map(|_| Reply::Done));
        let first = open("web", 12).unwrap();
        let said = why("web", 12);
        for part in
            ["memory of [[program]] entry 1", "web of user", "raise memory of that entry", "of 20971520"]
        {
            says(&said, part);
        }
        let others = [open("db", 20).unwrap(), open("mail", 16).unwrap()];
        says(&why("cron", 8), "entry 3, which fits cron");
        let status = daemon.program("web").unwrap().memory.unwrap();
        assert!(status.bytes >= 12 * MIB && status.uid == own, "{status:?}");
        assert_eq!(status.named, Some(Share { used: status.bytes, most: 20 * MIB }));
        let db = daemon.program("db").unwrap().memory.unwrap();
        assert!(db.named.is_some_and(|share| share.used >= 36 * MIB && share.most == 40 * MIB), "{db:?}");
        assert_eq!(db.user, status.user, "all of the user");
        assert!(db.user.used >= 48 * MIB);

        let apply = |text: &str| Connection::open(&socket).unwrap().apply("nic.toml", text, false).unwrap();
        assert_eq!(apply(&web(32)).changes.len(), 1);
        let second = open("web", 12).unwrap();
        apply(&web(1));
        says(&why("web", 1), "of 1048576 bytes");
        assert!(!first.has_ended() && !second.has_ended(), "what has been taken stays");
        drop((first, second));
        until("the end of both", || daemon.program("web").is_none());
        apply(&web(20));
        until("their memory", || open("web", 12).is_ok());
        drop(others);
    }
}

#[test]
fn at_the_limit_of_descriptors_a_newcomer_is_told() {
    let _alone = alone();
    let limited = "ulimit -n 64; exec \"$0\" \"$@\"";
    let mut rig = rig_by(&["sh", "-c", limited, env!("CARGO_BIN_EXE_ccnicd")], &[]);
    rig.daemon.status();
    let before = rig.daemon.settled();
    // Notifiers take all descriptors that they can get.
    let queues = region(&small(128), 0);
    let greedy = rig.connect();
    assert!(matches!(greedy.ask(&attach(None), Some(queues.as_fd())), Ok(Reply::Attached)));
    let (_ours, theirs) = UnixStream::pair().unwrap();
    for queue in 0..128 {
        greedy.send(&Request::Notify { queue, wakes: false }, Some(theirs.as_fd())).unwrap();
    }
    assert!(matches!(greedy.ask(&Request::Hello, None), Ok(Reply::Hello(_))));
    let (descriptors, _) = rig.daemon.holdings();
    assert!((40..=52).contains(&descriptors), "{descriptors} of 64");
    for _ in 0..100 {
        says(&refused(rig.connect().ask(&Request::Hello, None)), "RLIMIT_NOFILE");
    }
    assert!(matches!(greedy.ask(&Request::Status, None), Ok(Reply::Status(_))), "who is there is served");
    drop(greedy);
    until("its descriptors", || rig.connect().ask(&Request::Hello, None).is_ok());
    until("all descriptors", || rig.daemon.holdings() == before);
    // Connections are limited before descriptors are.
    let many: Vec<_> = (0..20).map(|_| rig.connect()).collect();
    let answers = many.iter().map(|c| c.ask(&Request::Hello, None)).collect::<Vec<_>>();
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 6, "of 8: some are kept for others");
    answers.into_iter().filter(Result::is_err).for_each(|answer| says(&refused(answer), "RLIMIT_NOFILE"));
}

/// A control group of so many bytes, of either version, where this user may make one. It goes with this.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Group> {
        let name = format!("ccnicd-test-{}", std::process::id());
        let made = [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];
        made.into_iter().find_map(|(root, limit)| {
            let directory = Path::new(root).join(&name);
            std::fs::create_dir(&directory).ok()?;
            let group = Group(directory);
            // A file that the kernel has put there: a directory need not be a group.
            let file = std::fs::File::options().write(true).open(group.0.join(limit));
            file.and_then(|mut file| file.write_all(bytes.to_string().as_bytes())).ok().map(|()| group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Connections and programs without end are refused; the kernel does not kill the daemon for want of memory.
#[test]
fn a_daemon_of_little_memory_refuses_and_is_not_killed() {
    let _alone = alone();
    let Some(group) = Group::new(24 << 20) else {
        return println!("SKIPPED: this user may not make a control group with a limit of memory");
    };
    let inside = "echo $$ >\"$GROUP/cgroup.procs\" && exec \"$0\" \"$@\"";
    let (at, program) = (format!("GROUP={}", group.0.display()), env!("CARGO_BIN_EXE_ccnicd"));
    let mut rig = rig_by(&["env", &at, "sh", "-c", inside, program], &["--user-connections", "3072"]);
    for _ in 0..3 {
        let mut connections = Vec::new();
        let why = loop {
            let connection = rig.connect();
            match connection.ask(&Request::Hello, None) {
                Ok(_) => connections.push(connection),
                refusal => break refused(refusal),
            }
        };
        says(&why, "memory of the control group");
        assert!((60..=96).contains(&connections.len()), "{}", connections.len());
        drop(connections);
        rig.nobody();
        let mut programs = Vec::new();
        let why = loop {
            match open(&rig.socket, &small(4)) {
                Ok(program) => programs.push(program),
                Err(why) => break why.to_string(),
            }
        };
        assert!(programs.len() > 20 && why.contains("another program"), "{} programs: {why}", programs.len());
        rig.daemon.status();
        drop(programs);
        rig.nobody();
    }
    assert!(rig.daemon.signal(rustix::process::Signal::TERM).success());
}

/// As another user, in a thread of its own.
fn as_user<T: Send>(uid: u32, does: impl FnOnce() -> T + Send) -> T {
    let thread = || {
        let uid = Uid::from_raw(uid);
        set_thread_res_uid(uid, uid, uid).unwrap();
        does()
    };
    std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
}

/// Seven users, each of which takes all that it can get.
#[test]
fn users_leave_room_for_others() {
    if !geteuid().is_root() {
        return println!("SKIPPED: that takes root");
    }
    let _alone = alone();
    let limited = "ulimit -n 256; exec \"$0\" \"$@\"";
    let rig = rig_by(&["sh", "-c", limited, env!("CARGO_BIN_EXE_ccnicd")], &["--socket-mode", "0666"]);
    let directory = rig.socket.parent().unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut held = Vec::new();
    for uid in 100_000..100_007 {
        let why = as_user(uid, || {
            loop {
                let connection = rig.connect();
                match connection.ask(&Request::Hello, None) {
                    Ok(_) => held.push(connection),
                    refusal => break refused(refusal),
                }
            }
        });
        says(&why, &format!("user {uid} has"));
        says(&why, "kept for users who have less");
    }
    assert!((45..56).contains(&held.len()), "{} of 56", held.len());
    let newcomer = as_user(4242, || {
        let connection = rig.connect();
        connection.ask(&Request::Hello, None).map(|_| connection)
    });
    drop((newcomer.unwrap(), held));
    rig.nobody();
}

#[test]
fn who_says_nothing_is_closed_and_who_is_attached_is_not() {
    let _alone = alone();
    let rig = rig(&[]);
    let program = open(&rig.socket, &small(1)).unwrap();
    let silent = rig.connect();
    until("the silent connection's end", || silent.has_ended());
    says(&refused(silent.ask(&Request::Hello, None)), "no request for 10 s");
    assert!(program.alive());
}

#[test]
fn a_status_of_any_size_is_given() {
    let _alone = alone();
    let rig = rig(&["--user-queues", "4096"]);
    let config = small(Config::MAX_QUEUES);
    let programs: Vec<_> = (0..6).map(|_| open(&rig.socket, &config).unwrap()).collect();
    let _one = open(&rig.socket, &small(1)).unwrap();
    let connection = rig.connect();
    let Ok(Reply::Status(first)) = connection.ask(&Request::Status, None) else { panic!("no status") };
    assert!(first.next.is_some() && !first.programs.is_empty(), "a client of an earlier release gets a part");
    let status = connection.status().unwrap();
    assert_eq!(status.programs.len(), programs.len() + 1);
    for program in &status.programs[..6] {
        let queues: Vec<u16> = program.queues.iter().map(|queue| queue.queue).collect();
        assert_eq!(queues, (0..Config::MAX_QUEUES).collect::<Vec<_>>());
    }
    assert_eq!((status.next, status.programs[6].queues.len()), (None, 1));
}

#[test]
fn a_flood_of_refusals_leaves_few_lines_with_their_number() {
    let _alone = alone();
    let rig = rig(&[]);
    let lines = || rig.daemon.log().lines().count();
    let connection = rig.connect();
    let flood = || {
        for _ in 0..2000 {
            connection.send(&Request::Notify { queue: 9, wakes: false }, None).unwrap(); // not attached, and no socket
        }
        connection.ask(&Request::Hello, None).unwrap();
    };
    flood();
    let most = |seconds: std::time::Duration| 100 + 10 * seconds.as_secs() as usize;
    let start = std::time::Instant::now();
    assert!(lines() <= most(start.elapsed()), "{} lines of one connection", lines());
    until("a line that counts those left out", || {
        connection.send(&Request::Notify { queue: 9, wakes: false }, None).unwrap();
        rig.daemon.log().contains("left_out=")
    });
    for _ in 0..500 {
        assert!(rig.connect().ask(&attach(None), None).is_err());
    }
    assert!(lines() <= most(start.elapsed()), "{} lines of many connections", lines());
}

#[test]
fn names_are_capped_and_cannot_reach_the_terminal_by_the_log() {
    let _alone = alone();
    let mut rig = rig(&["--log", "info"]);
    let bad = "\u{1b}]0;gotcha\u{7}\u{202e}\nWARN: forged";
    let named =
        |name: &str| NicOptions::new().name(name).config(&small(1)).pages(Pages::Small).open(&rig.socket);
    let long = named(&"n".repeat(256)).unwrap_err().to_string();
    says(&long, "name has 256 bytes; choose one of at most 255");
    let program = named(bad).unwrap();
    assert!(named(&"\u{e9}".repeat(127)).is_ok());
    until("the line in the log", || rig.daemon.log().contains("gotcha"));
    let log = rig.daemon.log();
    assert!(log.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{log:?}");
    assert!(log.lines().all(|line| !line.starts_with("WARN")), "{log}");
    let status = rig.daemon.status();
    assert!(status.programs.iter().any(|program| program.name == bad), "as it is: who prints it escapes it");
    drop(program);
}

#[test]
fn a_program_of_another_pid_namespace_is_served() {
    let _alone = alone();
    let unshare = ["unshare", "--pid", "--fork", "--kill-child"];
    let may = std::process::Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: this user may not make a PID namespace (unshare --pid)");
        return;
    }
    let command = [&unshare[..], &[env!("CARGO_BIN_EXE_ccnicd")]].concat();
    let rig = rig_by(&command, &["--log", "info"]);
    let program = open(&rig.socket, &small(1)).unwrap();
    let status = rig.connect().status().unwrap();
    assert_eq!((status.pid, status.programs[0].pid), (1, 0), "the daemon is the first of its namespace");
    until("the line in the log", || rig.daemon.log().contains("attached"));
    assert!(program.alive() && rig.daemon.log().contains("pid=0"), "{}", rig.daemon.log());
}

#[test]
fn only_polling_threads_run_on_polling_cpus() {
    let _alone = alone();
    let cores = two_cores();
    let Some((polling, _)) = cores.split_once(',') else {
        println!("SKIPPED: it takes two CPUs");
        return;
    };
    let rig = rig(&["--cores", polling, "--log", "warn"]);
    let _program = open(&rig.socket, &small(1)).unwrap();
    // What it cannot see to, it says at its start.
    let log = rig.daemon.log();
    for warning in placement::warnings(&placement::Kernel::this(), &[polling.parse().unwrap()]) {
        assert!(log.contains(&warning), "{warning}: {log}");
    }
    let on_polling_cpu = |cpus: &str| {
        let ranges = cpus.split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
        let cpu: usize = polling.parse().unwrap();
        ranges.into_iter().any(|(a, b)| (a.parse().unwrap()..=b.parse().unwrap()).contains(&cpu))
    };
    let threads = rig.daemon.threads();
    for (name, cpus) in &threads {
        assert_eq!(on_polling_cpu(cpus), name.starts_with("poll-"), "{name} may run on {cpus}");
    }
    let names: Vec<&str> = threads.iter().map(|(name, _)| name.as_str()).collect();
    assert!(["ccnicd", "ccnic-accept", "ccnic-client"].iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn without_a_thread_nothing_is_accepted_until_there_is_one() {
    let _alone = alone();
    let rig = rig(&[]);
    let spare = rig.connect();
    assert!(spare.ask(&Request::Hello, None).is_ok());
    // Less address space than another thread's stack takes.
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", rig.daemon.pid().as_raw_nonzero())).unwrap();
    let size =
        status.lines().find_map(|line| line.strip_prefix("VmSize:")?.split_whitespace().next()).unwrap();
    let limit = size.parse::<u64>().unwrap() * 1024 + (512 << 10);
    let before = Rlimit { current: Some(limit), ..getrlimit(Resource::As) };
    let before = prlimit(Some(rig.daemon.pid()), Resource::As, before).unwrap();
    // The threads of connections that have ended leave stacks for others.
    let mut held = Vec::new();
    until("the daemon to be without a thread", || {
        held.push(rig.connect());
        std::thread::sleep(std::time::Duration::from_millis(20));
        rig.daemon.log().contains("no thread for further programs")
    });
    let descriptors = rig.daemon.holdings().0;
    let further: Vec<_> = (0..5).map(|_| rig.connect()).collect();
    further.iter().for_each(|one| one.send(&Request::Hello, None).unwrap());
    assert!(spare.ask(&Request::Hello, None).is_ok(), "who is there is served");
    assert_eq!(rig.daemon.holdings().0, descriptors, "nothing has been accepted");
    prlimit(Some(rig.daemon.pid()), Resource::As, before).unwrap();
    for one in &further {
        assert!(matches!(one.receive::<Reply>(), Ok(Some((Reply::Hello(_), _)))));
    }
}

/// poll(2) fails for want of memory, say. Here it refuses two descriptors where a process may have one, which the daemon cannot tell from that.
#[test]
fn a_daemon_whose_waits_fail_serves_on_when_they_no_longer_do() {
    let _alone = alone();
    let rig = rig(&[]);
    let there = rig.connect();
    assert!(there.ask(&Request::Hello, None).is_ok());
    let before = getrlimit(Resource::Nofile);
    let one = Rlimit { current: Some(1), ..before };
    let before = prlimit(Some(rig.daemon.pid()), Resource::Nofile, one).unwrap();
    until("a wait that fails", || {
        there.send(&Request::Hello, None).unwrap(); // wakes the control thread, which waits again
        std::thread::sleep(std::time::Duration::from_millis(20));
        rig.daemon.log().contains("could not wait for programs")
    });
    prlimit(Some(rig.daemon.pid()), Resource::Nofile, before).unwrap();
    assert!(matches!(there.receive::<Reply>(), Ok(Some((Reply::Hello(_), _)))), "who is there is served");
    assert!(rig.connect().ask(&Request::Hello, None).is_ok(), "and so is who comes");
}
