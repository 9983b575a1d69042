//! Deaths in the middle of a conversation: of the daemon while programs attach, reconnect and change its configuration; of programs while
//! they attach and reconnect; and daemons that race for one socket.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ccnic::Design;
use ccnic_client::{Nic, Pages};
use ccnic_control::Connection;
use common::station::{Station, mac};
use common::{Daemon, Forked, Random, alone, config, file, seed, until};
use rustix::process::{Pid, Signal, kill_process};

/// Deaths of each test; `CCNIC_CYCLES=` for more.
fn cycles(few: u64) -> u64 {
    std::env::var("CCNIC_CYCLES").map_or(few, |cycles| cycles.parse().unwrap())
}

const FILE: &str = "wire = 'switch'\n";
const OTHER: &str = "wire = 'switch'\nmac-ageing = 77\n";

/// An operation that is repeated: how often it was done, and how often it was cut short.
#[derive(Default)]
struct Deeds {
    done: AtomicUsize,
    cut: AtomicUsize,
}

impl Deeds {
    fn count<T, E>(&self, deed: Result<T, E>) {
        let one = if deed.is_ok() { &self.done } else { &self.cut };
        one.fetch_add(1, Ordering::Relaxed);
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}

#[test]
fn a_daemon_dies_while_programs_attach_reconnect_and_configure() {
    let _alone = alone();
    let mut random = Random::new(seed());
    let (_directory, file, socket) = file(FILE);
    let start = || Daemon::start_configured(&file, &socket, &[]);
    let mut daemon = start();
    let mut stations = [0, 1].map(|n| Station::open(&socket, n, &config(Design::GroupedEpoch)));
    let (stop, [attaching, configuring, asking]) =
        (AtomicBool::new(false), [(); 3].map(|()| Deeds::default()));
    let going = || !stop.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while going() {
                let small = config(Design::GroupedEpoch);
                attaching
                    .count(Nic::options().name("comes").config(&small).pages(Pages::Small).open(&socket));
            }
        });
        scope.spawn(|| {
            for text in [OTHER, FILE].into_iter().cycle().take_while(|_| going()) {
                configuring.count(
                    Connection::open(&socket)
                        .and_then(|connection| connection.apply("nic.toml", text, false)),
                );
            }
        });
        scope.spawn(|| {
            while going() {
                asking.count(Connection::open(&socket).and_then(|connection| connection.status()));
            }
        });
        let deeds = [&attaching, &configuring, &asking];
        for _ in 0..cycles(30) {
            let moment = Duration::from_micros(random.below(20_000));
            std::thread::sleep(moment);
            kill_process(daemon.pid(), Signal::KILL).unwrap();
            daemon.wait();
            // Both go on from the first moment on, while the next one starts, and is perhaps killed again.
            if random.below(3) == 0 {
                let mut next = start();
                std::thread::sleep(Duration::from_micros(random.below(5_000)));
                let _ = stations[0].nic.reconnect(&mut stations[0].pairs, []); // cut short, or not
                kill_process(next.pid(), Signal::KILL).unwrap();
                next.wait();
            }
            daemon = start();
            for station in stations.iter_mut().rev() {
                until("the end of the dead daemon's connection", || !station.nic.alive());
                station.nic.reconnect(&mut station.pairs, []).unwrap();
            }
            let before = deeds.map(Deeds::done);
            until("everybody to go on", || {
                stations[0].send(mac(1), 100);
                let came = stations[1].receive().len();
                stations[0].receive();
                came > 0 && deeds.iter().zip(before).all(|(deed, before)| deed.done() > before)
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    for (what, deeds) in [("attached", &attaching), ("configured", &configuring), ("asked", &asking)] {
        println!("{what} {} times, cut short {} times", deeds.done(), deeds.cut.load(Ordering::Relaxed));
    }
    drop(stations);
    until("all to have gone", || daemon.status().programs.is_empty());
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// Run by `programs_die_while_they_attach_and_reconnect`, in a process of its own, until it is killed.
#[test]
#[ignore = "a child of another test"]
fn reconnecting_child() {
    let Some(socket) = std::env::var_os("CCNIC_SOCKET") else { return };
    let mut station = loop {
        let small = config(Design::GroupedEpoch);
        if Nic::options().config(&small).pages(Pages::Small).open(&socket).is_ok() {
            break Station::open(Path::new(&socket), 9, &small);
        }
    };
    loop {
        station.send(mac(0), 100);
        station.receive();
        if !station.nic.alive() {
            let _ = station.nic.reconnect(&mut station.pairs, []); // until there is one
        }
    }
}

#[test]
fn programs_die_while_they_attach_and_reconnect() {
    let _alone = alone();
    let mut random = Random::new(seed());
    let (directory, file, socket) = file(FILE);
    let start = || Daemon::start_configured(&file, &socket, &[]);
    let mut daemon = start();
    let env = [("CCNIC_SOCKET", socket.to_str().unwrap())];
    let empty = daemon.settled();
    for round in 0..cycles(30) {
        let mut child = Forked::start("reconnecting_child", &env, &directory.path().join("child.log"));
        // One in two is killed on its way to the first NIC, the other on its way to the second.
        if round % 2 == 1 {
            until("the program", || daemon.program("station 9").is_some());
            assert!(daemon.signal(Signal::KILL).code().is_none());
            daemon = start();
        }
        std::thread::sleep(Duration::from_micros(random.below(if round % 2 == 1 { 12_000 } else { 60_000 })));
        assert!(child.kill(), "it did not wait to be killed");
        until("all that was held for it to be given back", || {
            daemon.status().programs.is_empty() && daemon.holdings() == empty
        });
    }
    let log = std::fs::read_to_string(directory.path().join("child.log")).unwrap();
    assert!(!log.contains("panicked") && !daemon.log().contains("panicked"), "{log} {}", daemon.log());
}

/// Daemons in a race.
const RACERS: usize = 3;

fn racer(socket: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccnicd"));
    command.args(["--tuning", "default", "--log", "error", "--socket"]).arg(socket);
    command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn of_daemons_that_race_for_a_socket_one_serves() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    for round in 0..cycles(25) {
        let mut racers: Vec<Child> = (0..RACERS).map(|_| racer(&socket)).collect();
        let mut codes = Vec::new();
        until("all but one to be refused", || {
            racers.retain_mut(|racer| match racer.try_wait().unwrap() {
                Some(status) => {
                    codes.push(status.code());
                    false
                }
                None => true,
            });
            racers.len() <= 1
        });
        assert_eq!((racers.len(), &codes[..]), (1, &[Some(2); RACERS - 1][..]), "round {round}");
        let mut winner = racers.pop().unwrap();
        until("an answer of the winner", || {
            assert!(winner.try_wait().unwrap().is_none(), "round {round}: the last one has ended");
            Connection::open(&socket)
                .and_then(|nic| nic.status())
                .is_ok_and(|status| status.pid == winner.id())
        });
        // The next ones find the socket of a dead one, or none.
        let signal = if round % 2 == 0 { Signal::KILL } else { Signal::TERM };
        kill_process(Pid::from_child(&winner), signal).unwrap();
        winner.wait().unwrap();
    }
}
