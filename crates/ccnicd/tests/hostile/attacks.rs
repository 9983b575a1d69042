//! A good program beside each attack of `ccnic-hostile`: all of its packets come back, strangers are answered, the memory limit holds,
//! the log stays short, and whatever the attack held is released when its process is killed. How fast all that is shows
//! `ccnic bench hostile`; nothing here depends on time.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ccnic::Design;
use ccnic_client::{Nic, Pages};
use ccnic_control::{Connection, Error, UserLimits};
use ccnic_hostile::Report;
use rustix::process::{Signal, geteuid};

use crate::common::flow::Flow;
use crate::common::{Daemon, Forked, PATIENCE, alone, config, seed, until};

/// What all regions together may take, in MiB.
const MEMORY_MAX: u64 = 256;
/// What the daemon may log of an attack, in bytes.
const LOG_MOST: usize = 256 << 10;
/// Packets of the good program beside each attack, at least, and questions of a stranger meanwhile.
const PACKETS: u64 = 4000;
const ASKED: u64 = 4;

/// Run by the tests below, in a process of its own.
#[test]
#[ignore = "a child of other tests"]
fn attack_child() {
    let (Ok(name), Ok(socket)) = (std::env::var("CCNIC_ATTACK"), std::env::var("CCNIC_SOCKET")) else {
        return;
    };
    let seed = std::env::var("CCNIC_SEED").unwrap().parse().unwrap();
    ccnic_hostile::run(&name, Path::new(&socket), seed, 2 * PATIENCE).unwrap();
}

/// What the daemon holds: descriptors, mapped regions, threads.
fn holdings(daemon: &Daemon) -> (usize, usize, u64) {
    let (fds, regions) = daemon.holdings();
    (fds, regions, daemon.figure("Threads"))
}

/// A daemon and a good program.
struct Scene {
    directory: tempfile::TempDir,
    daemon: Daemon,
    program: Nic,
    flow: Flow,
    /// Resident memory of the daemon before the first program came, in KiB.
    resident: u64,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let daemon = Daemon::start_with(&socket, &["--memory-max", &MEMORY_MAX.to_string()]);
        // The attacks run as another user where the tests run as root.
        for (path, mode) in [(directory.path(), 0o755), (&socket, 0o666)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        let resident = daemon.figure("VmRSS");
        let config = config(Design::GroupedEpoch);
        let mut program =
            Nic::options().name("good").config(&config).pages(Pages::Small).open(&socket).unwrap();
        let flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500, 9000], 64);
        Scene { directory, daemon, program, flow, resident }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("nic.sock")
    }

    fn start(&self, attack: &str) -> Attack {
        let log = self.directory.path().join("attack.log");
        let seed = seed().to_string();
        let socket = self.socket();
        let env =
            [("CCNIC_ATTACK", attack), ("CCNIC_SOCKET", socket.to_str().unwrap()), ("CCNIC_SEED", &seed)];
        Attack { process: Forked::start("attacks::attack_child", &env, &log), log }
    }

    /// What must hold at every moment: packets come back, and the memory limit holds.
    #[track_caller]
    fn check(&mut self) {
        self.flow.exchange(500);
        let used = self.daemon.figure("VmHWM").saturating_sub(self.resident) / 1024;
        assert!(used <= MEMORY_MAX, "{used} MiB are resident, the limit is {MEMORY_MAX} MiB");
    }

    /// A stranger asks for the status, while packets go round.
    #[track_caller]
    fn ask(&mut self) {
        match Connection::open(&self.socket()).and_then(|connection| connection.status()) {
            Ok(status) => assert!(status.programs.iter().any(|p| p.name == "good"), "{:?}", status.programs),
            // The attack may have used up what this user may have.
            Err(Error::Refused { .. }) if !geteuid().is_root() => {}
            Err(e) => panic!("a stranger is not told the status: {e}; {}", self.daemon.log()),
        }
    }

    /// Lets an attack go on until `enough`, kills it, and waits until nothing of it is left.
    fn suffer(&mut self, attack: &str, enough: impl Fn(&Report) -> bool) -> Report {
        self.check();
        let before = self.settled();
        let start = self.flow.received;
        let mut running = self.start(attack);
        let begun = Instant::now();
        let mut asked = 0;
        loop {
            self.check();
            running.is_alive();
            let (report, packets) = (running.report().unwrap_or_default(), self.flow.received - start);
            if report.has_begun() && packets >= PACKETS / ASKED * asked {
                self.ask();
                asked += 1;
            }
            if enough(&report) && asked > ASKED {
                break;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{attack} gets no further: {report:?} beside {packets} packets"
            );
        }
        let report = running.end();
        println!("{attack}: {report:?}");
        until("the end of all that the attack held", || {
            self.flow.exchange(20);
            holdings(&self.daemon) == before
        });
        report
    }

    /// What the daemon holds once it has noticed that connections have ended.
    fn settled(&mut self) -> (usize, usize, u64) {
        self.daemon.settled();
        holdings(&self.daemon)
    }

    /// All is well: nothing was lost, a newcomer is served, and the daemon ends when it is told to.
    fn end(mut self) {
        self.flow.drain();
        let good = self.daemon.program("good").unwrap().queues[0];
        assert_eq!((good.tx_packets, good.rx_packets), (self.flow.received, self.flow.received));
        assert!(self.program.alive());
        let config = config(Design::Packed);
        let options = Nic::options().name("newcomer").config(&config).pages(Pages::Small);
        let mut newcomer = options.open(self.socket()).unwrap();
        Flow::new(newcomer.queue_pair(0).unwrap(), &[64], 16).exchange(100);
        assert!(self.daemon.signal(Signal::TERM).success());
        let log = self.daemon.log();
        assert!(!log.contains("panicked"), "{log}");
        assert!(log.len() < LOG_MOST, "{} bytes in the log, such as {:?}", log.len(), log.lines().last());
        assert!(!log.contains('\u{1b}'), "a name reaches the terminal");
    }
}

/// An attack in its process.
struct Attack {
    process: Forked,
    log: PathBuf,
}

impl Attack {
    fn report(&self) -> Option<Report> {
        Report::last(&std::fs::read_to_string(&self.log).unwrap())
    }

    #[track_caller]
    fn is_alive(&mut self) {
        let ended = self.process.ended();
        assert!(ended.is_none(), "the attack has ended: {}", std::fs::read_to_string(&self.log).unwrap());
    }

    fn end(mut self) -> Report {
        assert!(self.process.kill());
        self.report().unwrap()
    }
}

/// A good program beside an attack that has done, or tried, so much.
fn beside(attack: &str, much: usize) -> Report {
    beside_until(attack, |report| report.done + report.refused >= much)
}

/// As `beside`, until the NIC has refused something; the reason has `words` in it.
fn refused(attack: &str, words: &str) -> Report {
    let report = beside_until(attack, |report| report.refused > 0);
    assert!(report.reason.contains(words), "{attack}: {}", report.reason);
    report
}

fn beside_until(attack: &str, enough: impl Fn(&Report) -> bool) -> Report {
    let _alone = alone();
    let mut scene = Scene::new();
    let report = scene.suffer(attack, enough);
    scene.end();
    report
}

#[test]
fn a_greedy_neighbour() {
    beside("greedy", 1000);
}

#[test]
fn a_neighbour_that_sends_without_end() {
    beside("broadcast", 10_000);
}

#[test]
fn holes_in_an_attached_region() {
    refused("punch", "punching holes");
}

#[test]
fn holes_in_a_region_that_is_being_attached() {
    beside("punch-attach", 10);
}

#[test]
fn extents_of_an_attached_region_are_not_collapsed() {
    refused("collapse", "collapsing an extent");
    refused("collapse-small", "collapsing an extent");
    refused("collapse-other", "collapsing an extent");
}

#[test]
fn extents_that_are_being_collapsed_when_a_region_is_attached() {
    beside("collapse-attach", 10);
}

#[test]
fn regions_without_pages_are_refused_and_nothing_is_allocated_for_them() {
    let report = beside_until("sparse", |report| report.refused >= 12);
    assert!(report.filled <= 1 << 20, "{report:?}");
}

#[test]
fn wide_programs_that_are_idle() {
    beside("idle-wide", 8);
}

#[test]
fn many_programs_that_are_idle() {
    refused("idle-many", "--user-");
}

#[test]
fn rings_that_are_full() {
    beside("full-rings", 256 * 16);
}

#[test]
fn rings_of_bad_descriptors() {
    beside("bad-descriptors", 256 * 256);
}

#[test]
fn floods_of_large_packets() {
    beside("flood-4k", 256 * 256);
    beside("flood-9000", 256 * 256);
}

#[test]
fn free_lists_that_change_all_the_time() {
    beside("free-lists", 1000);
}

#[test]
fn lives_of_a_scribbler() {
    beside("scribble", 10);
}

#[test]
fn programs_that_come_with_full_rings_and_leave() {
    beside("attach-loop", 25);
}

#[test]
fn sockets_that_block_when_they_are_closed_beside_messages() {
    beside("linger-message", 20);
}

#[test]
fn sockets_that_block_when_they_are_closed_as_regions() {
    beside("linger-region", 20);
}

#[test]
fn sockets_that_block_when_they_are_closed_in_notifiers() {
    beside("linger-notifier", 20);
}

#[test]
fn more_descriptors_than_a_message_needs() {
    beside("descriptors", 40);
}

#[test]
fn requests_for_notifications() {
    beside("notify-requests", 600);
}

#[test]
fn notifications_of_every_packet() {
    beside("notify-again", 10_000);
}

#[test]
fn attachments_up_to_the_quota() {
    refused("slots", "--user-");
}

#[test]
fn connections_up_to_the_quota() {
    refused("connections", "--user-connections");
}

/// The attacks run as nobody where the tests run as root: two users, each with a quota of its own.
#[test]
fn connections_of_one_user_are_not_taken_from_another() {
    if !geteuid().is_root() {
        return println!("not tested: only root can run programs of two users");
    }
    let _alone = alone();
    let mut scene = Scene::new();
    let mut nobody = scene.start("connections");
    until("nobody's quota to be used up", || nobody.report().is_some_and(|report| report.refused > 0));
    // The good program has a connection too, and those that ask for the status end at once.
    let open = |_| {
        let connection = Connection::open(&scene.socket()).unwrap();
        assert!(connection.status().is_ok()); // at once: the NIC waits 10 s for the first question
        connection
    };
    let ours: Vec<_> = (0..UserLimits::CONNECTIONS - 8).map(open).collect();
    scene.check();
    nobody.is_alive();
    let report = nobody.end();
    assert!(report.reason.contains("--user-connections"), "{report:?}");
    drop(ours);
    scene.end();
}

#[test]
fn questions_without_end() {
    beside("status-flood", 2000);
}

#[test]
fn long_messages_and_messages_that_are_none() {
    beside("messages", 1000);
}

#[test]
fn answers_that_nobody_reads() {
    beside("unread", 2000);
}

#[test]
fn names_that_a_terminal_would_obey() {
    beside("names", 40);
}

#[test]
fn refusals_that_are_logged() {
    beside("log-flood", 5000);
}

#[test]
fn long_packets_to_240_others() {
    beside("broadcast-long", 100);
}

#[test]
fn super_packets_to_240_others_whose_rings_are_full() {
    beside("tso-full", 100);
}

#[test]
fn super_packets_to_240_others_who_take_them() {
    beside("tso-drained", 100);
}

#[test]
fn flow_rules_and_rss_that_change_without_end() {
    beside("steer-churn", 100);
}

/// What the kernel takes from the polling thread only slows the good program down.
#[test]
fn spinners_on_the_polling_cpu() {
    beside("spinners", 100);
}

#[test]
fn every_attack_has_a_test() {
    let text = include_str!("attacks.rs");
    for attack in ccnic_hostile::ATTACKS {
        assert!(text.contains(&format!("(\"{}\"", attack.name)), "{} has no test", attack.name);
    }
}
