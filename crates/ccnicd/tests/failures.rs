//! Programs that come and go without end, that are stopped, and a switch that is killed and started again as it was configured.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ccnic::Design;
use ccnic_control::Connection;
use ccnic_control::messages::QueueStatus;
use common::flow::IN_HAND;
use common::station::{BROADCAST, Station, mac};
use common::{Daemon, Forked, Random, alone, config, file, seed, state_of, until};
use rustix::fs::{CWD, FileType, FlockOperation, OFlags, flock, mknodat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Programs that attach and detach; `CCNIC_CYCLES=10000` for the long run (docs/security.md).
const CYCLES: usize = 250;
/// After so many the daemon has what it keeps for later programs: threads' stacks, tables, the allocator's arenas.
const WARM: usize = 50;
/// KiB that the daemon may have grown by all the cycles after that. A leak of a page a cycle would be 4 MiB in a thousand.
const GROWTH: u64 = 1536;

/// A daemon with this file.
fn start(text: &str) -> (TempDir, std::path::PathBuf, Daemon) {
    let (directory, file, socket) = file(text);
    let daemon = restart(&file, &socket);
    (directory, socket, daemon)
}

fn restart(file: &Path, socket: &Path) -> Daemon {
    Daemon::start_configured(file, socket, &[])
}

fn station(socket: &Path, n: u8) -> Station {
    Station::open(socket, n, &config(Design::GroupedEpoch))
}

/// Frames go both ways between two stations.
#[track_caller]
fn exchange(stations: &mut [Station; 2], frames: usize) {
    for (from, to) in [(0, 1), (1, 0)].repeat(frames) {
        let address = |n: usize| mac(n as u8);
        until("room for a frame", || stations[from].send(address(to), 200));
        until("the frame", || stations[to].receive().iter().any(|came| came.from == address(from)));
    }
}

/// Attaches a program, has its address learned and a frame under way to it, and lets it go.
fn come_and_go(socket: &Path, stations: &mut [Station; 2]) {
    let mut program = station(socket, 9);
    assert!(program.send(stations[0].mac, 100) && program.send(BROADCAST, 1500));
    for (station, frames) in stations.iter_mut().zip([2, 1]) {
        let mut came = 0;
        until("its frames", || {
            came += station.receive().iter().filter(|came| came.from == mac(9)).count();
            came == frames
        });
    }
    assert!(stations[1].send(mac(9), 100));
    drop(program);
    for station in stations {
        station.receive();
        station.forget(mac(9));
    }
}

#[test]
fn programs_attach_and_detach_and_leave_nothing() {
    let _alone = alone();
    let cycles = std::env::var("CCNIC_CYCLES").map_or(CYCLES, |cycles| cycles.parse().unwrap());
    // The two that stay may say nothing for as long as it takes.
    let (_directory, socket, mut daemon) = start("wire = 'switch'\nmac-ageing = 100_000\n");
    let mut stations = [station(&socket, 0), station(&socket, 1)];
    exchange(&mut stations, 1);
    let mut rest = |stations: &mut [Station; 2]| {
        until("all others to have gone", || {
            stations.iter_mut().for_each(|station| drop(station.receive()));
            daemon.status().programs.len() == 2
        });
        stations.iter_mut().for_each(|station| station.forget(mac(9)));
        (daemon.settled(), daemon.figure("Threads"), daemon.figure("VmRSS"))
    };
    (0..WARM).for_each(|_| come_and_go(&socket, &mut stations));
    let before = rest(&mut stations);
    (0..cycles).for_each(|_| come_and_go(&socket, &mut stations));
    let after = rest(&mut stations);
    println!("{cycles} cycles: (descriptors, regions), threads, KiB: {before:?} -> {after:?}");
    assert_eq!((after.0, after.1), (before.0, before.1), "descriptors and regions, threads");
    assert!(after.2 <= before.2 + GROWTH, "{} KiB after {} KiB", after.2, before.2);
    let table = Connection::open(&socket).unwrap().mac_table().unwrap();
    let known: Vec<_> = table.iter().map(|known| known.mac).collect();
    assert_eq!(known, [mac(0), mac(1)], "the addresses of the others have gone with them");
    exchange(&mut stations, 10);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// Run by `a_stopped_program_stalls_only_itself`, in a process of its own: says that it is there, and answers each frame.
#[test]
#[ignore = "a child of another test"]
fn answering_child() {
    let socket = std::env::var("CCNIC_SOCKET").unwrap();
    let mut station = station(Path::new(&socket), 9);
    assert!(station.send(BROADCAST, 100));
    while station.nic.alive() {
        for came in station.receive() {
            station.send(came.from, 100);
        }
    }
}

#[test]
fn a_stopped_program_stalls_only_itself() {
    let _alone = alone();
    let (directory, socket, mut daemon) = start("wire = 'switch'\n");
    let mut stations = [station(&socket, 0), station(&socket, 1)];
    exchange(&mut stations, 1);
    let holdings = daemon.settled();
    let env = [("CCNIC_SOCKET", socket.to_str().unwrap())];
    let mut child = Forked::start("answering_child", &env, &directory.path().join("child.log"));
    let answers = |station: &mut Station| station.receive().iter().filter(|came| came.from == mac(9)).count();
    // One frame that it answers: of many, all answered when it first runs, more could come back at once than a ring takes.
    until("the program to say that it is there", || answers(&mut stations[0]) > 0);
    assert!(stations[0].send(mac(9), 100));
    until("an answer", || answers(&mut stations[0]) > 0);
    answers(&mut stations[1]);
    kill_process(child.pid(), Signal::STOP).unwrap();
    until("the program to stand still", || child.state() == 'T');
    // Its ring fills, what comes then is dropped at its port; the others lose nothing.
    let counters = |daemon: &mut Daemon| -> QueueStatus { daemon.program("station 9").unwrap().queues[0] };
    until("its ring to be full", || {
        stations[0].send(mac(9), 100);
        stations.iter_mut().for_each(|station| drop(station.receive()));
        let counters = counters(&mut daemon);
        counters.drop_ring_full + counters.drop_no_buffer > 100
    });
    let before = counters(&mut daemon).rx_packets;
    exchange(&mut stations, 500);
    assert_eq!(counters(&mut daemon).rx_packets, before, "it has received nothing meanwhile");
    for name in ["station 0", "station 1"] {
        assert_eq!(daemon.program(name).unwrap().queues[0].dropped(), 0, "{:?}", daemon.status());
    }
    kill_process(child.pid(), Signal::CONT).unwrap();
    until("an answer", || {
        stations[1].send(mac(9), 100);
        answers(&mut stations[0]);
        answers(&mut stations[1]) > 0
    });
    // One that is killed while it stands still gives up its port.
    kill_process(child.pid(), Signal::STOP).unwrap();
    assert!(child.kill());
    until("its port to go", || {
        stations.iter_mut().for_each(|station| drop(station.receive()));
        daemon.program("station 9").is_none() && daemon.holdings() == holdings
    });
    stations.iter_mut().for_each(|station| station.forget(mac(9)));
    exchange(&mut stations, 10);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// Deaths of the daemon.
const DEATHS: usize = 8;
/// Frames under way: fewer than there is room for in a ring that nobody reads.
const WINDOW: u64 = 48;

/// Frames from station 0 to station 1, numbered, until `enough` of them have come; they may be lost where the daemon dies.
fn flow(stations: &mut [Station; 2], lost: u64, enough: impl Fn(&Station) -> bool) {
    let [from, to] = stations;
    until("frames", || {
        if from.sent < to.received + lost + WINDOW {
            from.send(to.mac, 200);
        }
        to.receive();
        enough(to) || !from.nic.alive() || !to.nic.alive()
    });
}

#[test]
fn a_killed_switch_comes_back_as_it_was_configured_and_loses_what_it_had_in_hand() {
    let _alone = alone();
    let mut random = Random::new(seed());
    let (directory, socket, mut daemon) = start(
        "wire = 'switch'\n[[program]]\nname = 'station 2'\npolicy = { vlan = 20 }\n[[program]]\npolicy = { vlan = 10 }\n",
    );
    let file = directory.path().join("nic.toml");
    let mut stations = [station(&socket, 0), station(&socket, 1)];
    let mut other = station(&socket, 2);
    // Each says once where it is, and is heard in its VLAN only.
    let learned = |stations: &mut [Station; 2], socket: &Path| {
        assert!(stations[1].send(BROADCAST, 60));
        until("the address to be learned", || {
            stations.iter_mut().for_each(|station| drop(station.receive()));
            let table = Connection::open(socket).unwrap().mac_table().unwrap();
            table.iter().any(|known| known.mac == mac(1) && known.vlan == 10)
        });
    };
    learned(&mut stations, &socket);
    let mut lost = 0;
    for _ in 0..DEATHS {
        let goal = stations[1].received + 200 + random.below(2000);
        flow(&mut stations, lost, |to| to.received >= goal);
        let (pid, moment) = (daemon.pid(), Duration::from_micros(random.below(2000)));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(moment); // any moment will do
            kill_process(pid, Signal::KILL)
        });
        flow(&mut stations, lost, |_| false);
        killer.join().unwrap().unwrap();
        daemon.wait();
        until("all to see it", || {
            [&stations[0], &stations[1], &other].iter().all(|station| !station.nic.alive())
        });
        daemon = restart(&file, &socket);
        // Who receives comes first: nobody is there for what is sent to one that is not.
        let [from, to] = &mut stations;
        for station in [to, &mut other, from] {
            station.nic.reconnect(&mut station.pairs, []).unwrap();
        }
        learned(&mut stations, &socket);
        // What was sent before comes, but for what the daemon had in hand; then a frame that says that nothing else comes.
        let last = stations[0].sent;
        until("room for a frame", || stations[0].send(mac(1), 200));
        until("the last frame", || stations[1].receive().iter().any(|came| came.number == last));
        let missing = stations[0].sent - stations[1].received;
        assert!(missing - lost <= IN_HAND, "{} frames are missing after this death", missing - lost);
        lost = missing;
        assert_eq!(other.receive(), [], "it is in a VLAN of its own");
        let dropped = |daemon: &mut Daemon| -> u64 {
            daemon
                .status()
                .programs
                .iter()
                .flat_map(|program| &program.queues)
                .map(QueueStatus::dropped)
                .sum()
        };
        assert_eq!(dropped(&mut daemon), 0);
    }
    println!("{} frames, {lost} lost in {DEATHS} deaths", stations[0].sent);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// Standard error is a pipe that is full from the start, and whose reader never reads.
#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (pipe, socket) = (directory.path().join("pipe"), directory.path().join("nic.sock"));
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut held = File::options().read(true).write(true).custom_flags(flags).open(&pipe).unwrap();
    while held.write(&[b'x'; 4096]).is_ok() {}
    let script = "exec \"$0\" \"$@\" 2>\"$PIPE\"";
    let at = format!("PIPE={}", pipe.display());
    let command = ["env", &at, "sh", "-c", script, env!("CARGO_BIN_EXE_ccnicd")];
    let mut daemon = Daemon::start_by(&command, &socket, &["--wire", "switch", "--log", "trace"]);
    let mut stations = [station(&socket, 0), station(&socket, 1)];
    exchange(&mut stations, 10);
    drop(stations);
    until("both to have gone", || daemon.status().programs.is_empty());
    assert!(daemon.signal(Signal::TERM).success());
}

/// Obstacles to a start that belong to somebody who never answers: a socket whose backlog is full, pipes in the place of
/// files, a lock of the directory. Each is an error that names it, and the daemon ends.
#[test]
fn a_start_waits_for_nobody() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (pipe, socket) = (at("pipe"), at("nic.sock"));
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
    let refused = |socket: &str, args: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_ccnicd"))
            .args(["--socket", socket, "--tuning", "default"])
            .args(args)
            .output();
        let output = command.unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let (replayed, recorded) = (format!("pcap:{pipe}"), format!("pcap:record={pipe}"));
    for (args, expected) in [
        (&["--config", &pipe][..], "no regular file"),
        (&["--config", &pipe, "--check-config"], "no regular file"),
        (&["--wire", "switch", "--port", &replayed], "no regular file"),
        (&["--wire", "switch", "--port", &recorded], "nobody reads"),
    ] {
        let said = refused(&socket, args);
        assert!(said.contains(expected) && said.contains(&pipe), "{args:?}: {said}");
    }
    // A pipe that is read is refused as well: its reader could keep the daemon from ending.
    let _reader = File::options().read(true).write(true).open(&pipe).unwrap();
    let said = refused(&socket, &["--wire", "switch", "--port", &recorded]);
    assert!(said.contains("no regular file"), "{said}");

    let silent = at("silent.sock");
    let address = SocketAddrUnix::new(silent.as_str()).unwrap();
    let new =
        || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
    let stranger = new();
    bind(&stranger, &address).unwrap();
    listen(&stranger, 1).unwrap();
    let waiting: Vec<_> = std::iter::from_fn(|| {
        let fd = new();
        connect(&fd, &address).ok().map(|()| fd)
    })
    .collect();
    assert!(refused(&silent, &[]).contains("already running"), "{} wait", waiting.len());

    let locked = File::open(directory.path()).unwrap();
    flock(&locked, FlockOperation::LockExclusive).unwrap();
    let mut daemon = Daemon::start(Path::new(&socket));
    assert!(daemon.signal(Signal::TERM).success());
}

#[test]
fn a_daemon_that_was_stopped_goes_on() {
    let _alone = alone();
    let (_directory, socket, mut daemon) = start("wire = 'switch'\n");
    let mut stations = [station(&socket, 0), station(&socket, 1)];
    exchange(&mut stations, 10);
    for _ in 0..3 {
        kill_process(daemon.pid(), Signal::STOP).unwrap();
        until("the daemon to stand still", || state_of(daemon.pid()) == 'T');
        // Rings fill, and nobody waits for ever.
        while stations[0].send(mac(1), 200) {}
        assert!(stations.iter().all(|station| station.nic.alive()));
        kill_process(daemon.pid(), Signal::CONT).unwrap();
        until("what was sent", || {
            stations[0].receive();
            !stations[1].receive().is_empty()
        });
        exchange(&mut stations, 50);
    }
    daemon.status();
}

/// A helper that takes connections and never answers.
#[test]
fn a_daemon_that_waits_for_its_helper_can_be_ended() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let address = SocketAddrUnix::new(at("helper.sock")).unwrap();
    let helper = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&helper, &address).unwrap();
    listen(&helper, 1).unwrap();
    let port = format!("xdp:nowhere,helper={}", at("helper.sock").display());
    let log = File::create(at("log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccnicd"));
    command.args(["--wire", "switch", "--tuning", "default", "--log", "info", "--port", &port, "--socket"]);
    let mut daemon = command.arg(at("nic.sock")).stderr(log).spawn().unwrap();
    until("the daemon to be confined", || {
        std::fs::read_to_string(at("log")).unwrap().contains("sandbox uid")
    });
    kill_process(Pid::from_child(&daemon), Signal::TERM).unwrap();
    let ended = daemon.wait().unwrap();
    assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()), "{ended:?}: it did not wait for its helper");
}

#[test]
fn a_switch_that_is_told_to_end_loses_nothing() {
    let _alone = alone();
    let mut random = Random::new(seed());
    let (directory, socket, mut daemon) = start("wire = 'switch'\n");
    let file = directory.path().join("nic.toml");
    // The receiver is the first to be served, and sends nothing: it must not be the first to leave.
    let to = station(&socket, 1);
    let mut stations = [station(&socket, 0), to];
    for _ in 0..DEATHS {
        let goal = stations[1].received + 100 + random.below(500);
        flow(&mut stations, 0, |to| to.received >= goal);
        let (pid, moment) = (daemon.pid(), Duration::from_micros(random.below(2000)));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(moment); // any moment will do
            kill_process(pid, Signal::TERM)
        });
        flow(&mut stations, 0, |_| false);
        killer.join().unwrap().unwrap();
        assert!(daemon.wait().success(), "{}", daemon.log());
        until("all to see it", || stations.iter().all(|station| !station.nic.alive()));
        daemon = restart(&file, &socket);
        for station in stations.iter_mut().rev() {
            station.nic.reconnect(&mut station.pairs, []).unwrap();
        }
        let last = stations[0].sent;
        until("room for a frame", || stations[0].send(mac(1), 200));
        until("the last frame", || stations[1].receive().iter().any(|came| came.number == last));
        assert_eq!(stations[1].received, stations[0].sent, "frames are missing after a planned end");
    }
}
