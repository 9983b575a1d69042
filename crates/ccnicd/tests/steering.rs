//! Flow rules across processes: over the loopback, with one polling thread and with two, and over the switch; rules of the
//! operator; a daemon that dies and its successor; limits.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;

use ccnic::rss::Rss;
use ccnic::{Burst, Config, Design};
use ccnic_client::{Error, FlowMatch, FlowRule, FlowTarget, Nic, Pages, QueuePair};
use ccnic_control::Connection;
use ccnic_control::flow::{FIRST_OF_CONFIGURATION, FIRST_OF_OPERATOR, FlowReply, FlowRequest, UDP};
use ccnic_control::messages::{Hello, QueueStatus, Reply, Request};
use ccnic_frame::Meta;
use common::{Daemon, alone, config, two_cores, until};
use rustix::process::{Signal, kill_process};

const QUEUES: u16 = 4;
const TO_TWO: u16 = 1002;
const DROPPED: u16 = 1003;
const MARKED: u16 = 1004;
const PLAIN: u16 = 1005;
/// Bytes of a frame.
const LEN: usize = 64;

/// A datagram to `port`, with a number. Its destination is the broadcast address, so that a switch delivers it to everybody.
fn frame(from: u8, port: u16, number: u32) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, from]);
    bytes[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes[26..34].copy_from_slice(&[10, 0, 0, from, 10, 0, 0, 9]);
    bytes[34..36].copy_from_slice(&7u16.to_be_bytes());
    bytes[36..38].copy_from_slice(&port.to_be_bytes());
    bytes[39] = 30;
    bytes[42..46].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// A packet that has come: its port, its number, its queue, its mark.
type Came = (u16, u32, u16, Option<u16>);

/// An attached program.
struct Program {
    nic: Nic,
    pairs: Vec<QueuePair>,
    n: u8,
    sent: u32,
}

impl Program {
    #[track_caller]
    fn open(socket: &Path, n: u8, design: Design) -> Program {
        let config = Config { queues: QUEUES, buffers: 1024, ..config(design) };
        let options = Nic::options().name(format!("program {n}")).config(&config).pages(Pages::Small);
        let mut nic = options.open(socket).unwrap();
        let pairs = (0..QUEUES).map(|queue| nic.queue_pair(queue).unwrap()).collect();
        let mut this = Program { nic, pairs, n, sent: 0 };
        assert_eq!(this.receive(), [], "posts buffers");
        this
    }

    /// Sends a packet to each of `ports` on a queue; its metadata claim a mark.
    #[track_caller]
    fn send(&mut self, queue: u16, ports: &[u16]) {
        let pair = &mut self.pairs[usize::from(queue)];
        for port in ports {
            let mut burst = Burst::new();
            assert_eq!(pair.alloc(LEN as u16, 1, &mut burst), 1);
            let buf = burst.iter_mut().next().unwrap();
            pair.write(buf, 0, &frame(self.n, *port, self.sent));
            buf.set_meta(Meta::default().with_mark(0xffff).word());
            until("room in the ring", || pair.tx_burst(&mut burst) == 1);
            self.sent += 1;
        }
    }

    fn receive(&mut self) -> Vec<Came> {
        let mut came = Vec::new();
        for (queue, pair) in (0..).zip(&mut self.pairs) {
            let mut burst = Burst::new();
            pair.rx_burst(&mut burst, 32);
            for buf in burst.as_slice() {
                let (port, number) = pair.with(buf, |bytes| {
                    let port = u16::from_be_bytes(bytes[36..38].try_into().unwrap());
                    let number = u32::from_be_bytes(bytes[42..46].try_into().unwrap());
                    assert_eq!(bytes, frame(bytes[11], port, number));
                    (port, number)
                });
                came.push((port, number, queue, Meta::from_word(buf.meta()).mark()));
            }
            pair.free(&mut burst);
        }
        came
    }

    #[track_caller]
    fn expect(&mut self, mut expected: Vec<Came>) {
        let mut came = Vec::new();
        until("packets", || {
            came.extend(self.receive());
            came.len() >= expected.len()
        });
        came.sort_unstable();
        expected.sort_unstable();
        assert_eq!(came, expected);
    }
}

fn udp_to(port: u16) -> FlowMatch {
    FlowMatch { protocol: Some(UDP), dst_port: Some(port), ..FlowMatch::default() }
}

fn rules() -> [FlowRule; 3] {
    let rule = |port, to, mark| FlowRule { priority: 1, matches: udp_to(port), to, mark };
    [
        rule(TO_TWO, FlowTarget::Queue(2), Some(0xabcd)),
        rule(DROPPED, FlowTarget::Drop, None),
        rule(MARKED, FlowTarget::Rss, Some(7)),
    ]
}

const ALL: [u16; 4] = [TO_TWO, DROPPED, MARKED, PLAIN];

/// What comes of a packet to each of [`ALL`], numbered from `first`, with the rules in force; the others are at home on a queue.
fn by_rules(first: u32, home: u16) -> Vec<Came> {
    vec![(TO_TWO, first, 2, Some(0xabcd)), (MARKED, first + 2, home, Some(7)), (PLAIN, first + 3, home, None)]
}

fn dropped_by_rule(daemon: &mut Daemon, name: &str) -> Vec<u64> {
    let queues = daemon.program(name).unwrap().queues;
    let others = |q: &QueueStatus| q.dropped() - q.drop_flow_rule;
    assert_eq!(queues.iter().map(others).sum::<u64>(), 0, "{queues:?}");
    queues.iter().map(|queue| queue.drop_flow_rule).collect()
}

/// The program's rules over the loopback: from each queue, with and without RSS; until they are destroyed.
fn over_the_loopback(args: &[&str], design: Design) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start_with(&socket, args);
    let mut program = Program::open(&socket, 1, design);
    let ids = rules().map(|rule| program.nic.flow_create(&rule).unwrap());
    assert_eq!(ids, [0, 1, 2]);
    for queue in 0..QUEUES {
        let first = program.sent;
        program.send(queue, &ALL);
        program.expect(by_rules(first, queue));
    }
    let one = Rss { table: [3; 128], ..Rss::new(1) };
    program.nic.set_rss(Some(&one)).unwrap();
    let first = program.sent;
    program.send(0, &ALL);
    program.expect(by_rules(first, 3));
    program.nic.set_rss(None).unwrap();
    assert_eq!(
        dropped_by_rule(&mut daemon, "program 1"),
        [2, 1, 1, 1],
        "at the queues that they were sent on"
    );
    let counted = ids.map(|id| program.nic.flow_query(id).unwrap());
    assert_eq!(counted.map(|entry| (entry.packets, entry.bytes)), [(5, 5 * LEN as u64); 3]);
    assert_eq!(counted.map(|entry| entry.rule), rules());
    // A rule that is destroyed is followed no longer, and the last one leaves the plain loopback.
    program.nic.flow_destroy(ids[1]).unwrap();
    let first = program.sent;
    program.send(1, &[DROPPED]);
    program.expect(vec![(DROPPED, first, 1, None)]);
    program.nic.flow_flush().unwrap();
    let first = program.sent;
    program.send(1, &[TO_TWO]);
    program.expect(vec![(TO_TWO, first, 1, Some(0xffff))]); // nobody looks at metadata then
    assert!(matches!(program.nic.flow_query(0), Err(Error::Refused { .. })));
    assert!(program.pairs.iter().all(|pair| pair.drops().rx_dropped == 0));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn a_program_steers_what_comes_back_to_it() {
    let _alone = alone();
    let cores = two_cores();
    for args in [&[][..], &["--reflect"], &["--cores", &cores]] {
        for design in [Design::GroupedEpoch, Design::Doorbell] {
            over_the_loopback(args, design);
        }
    }
}

#[test]
fn a_receiver_steers_what_others_send_it() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let file = directory.path().join("nic.toml");
    std::fs::write(&file, "wire = 'switch'\n").unwrap();
    let mut daemon = Daemon::start_with(&socket, &["--config", file.to_str().unwrap(), "--log", "info"]);
    let mut sender = Program::open(&socket, 1, Design::GroupedEpoch);
    let mut receiver = Program::open(&socket, 2, Design::GroupedEpoch);
    let mut other = Program::open(&socket, 3, Design::GroupedEpoch);
    rules().iter().for_each(|rule| _ = receiver.nic.flow_create(rule).unwrap());
    sender.send(1, &ALL);
    receiver.expect(by_rules(0, 0));
    // Rules are about the packets of their program only.
    other.expect((0..).zip(ALL).map(|(number, port)| (port, number, 0, None)).collect());
    assert_eq!(dropped_by_rule(&mut daemon, "program 2"), [1, 0, 0, 0]);
    assert_eq!(dropped_by_rule(&mut daemon, "program 3"), [0; 4]);
    assert_eq!(receiver.nic.flow_query(1).unwrap().packets, 1);
    // A configuration that is read again changes policies, not rules: they go on, and so do their counters.
    std::fs::write(&file, "wire = 'switch'\n[[program]]\nname = 'program 3'\npolicy = { vlan = 10 }\n")
        .unwrap();
    kill_process(daemon.pid(), Signal::HUP).unwrap();
    until("the file to be applied", || daemon.log().contains("has been applied"));
    sender.send(1, &ALL);
    receiver.expect(by_rules(4, 0));
    assert_eq!(receiver.nic.flow_query(1).unwrap().packets, 2);
    assert_eq!((dropped_by_rule(&mut daemon, "program 2"), other.receive()), (vec![2, 0, 0, 0], vec![]));
}

#[test]
fn the_operators_rules_come_first_and_are_the_operators() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let mut program = Program::open(&socket, 1, Design::GroupedEpoch);
    rules().iter().for_each(|rule| _ = program.nic.flow_create(rule).unwrap());
    let id = daemon.program("program 1").unwrap().id;
    let operator = Connection::open(&socket).unwrap();
    let ask = |request| match operator.ask(&Request::Flow(request), None) {
        Ok(Reply::Flow(reply)) => Ok(reply),
        Ok(other) => panic!("{other:?}"),
        Err(e) => Err(e.to_string()),
    };
    let rule = FlowRule { priority: 99, matches: udp_to(TO_TWO), to: FlowTarget::Queue(3), mark: None };
    let add = |rule, program| FlowRequest::Create { program: Some(program), id: None, rule };
    assert_eq!(ask(add(rule, id)), Ok(FlowReply::Created(FIRST_OF_OPERATOR)));
    program.send(0, &[TO_TWO]);
    program.expect(vec![(TO_TWO, 0, 3, None)]);
    // The program sees it, and has to live with it.
    assert_eq!(program.nic.flow_query(FIRST_OF_OPERATOR).unwrap().packets, 1);
    assert!(matches!(program.nic.flow_destroy(FIRST_OF_OPERATOR), Err(Error::Flow { .. })));
    program.nic.flow_flush().unwrap();
    let Ok(FlowReply::Rules(page)) = ask(FlowRequest::List { program: Some(id), from: 0 }) else { panic!() };
    assert_eq!((page.rules.len(), page.rules[0].rule, page.next), (1, rule, None));
    let far = FlowRule { to: FlowTarget::Queue(4), ..rule };
    let why = ask(add(far, id)).unwrap_err();
    assert!(why.contains("to is queue 4; the program has queues 0 to 3"), "{why}");
    let why = ask(add(rule, 12345)).unwrap_err();
    assert!(why.contains("there is no program 12345; `ccnic status`"), "{why}");
    assert_eq!(ask(FlowRequest::Flush { program: Some(id) }), Ok(FlowReply::Done));
    program.send(0, &[TO_TWO]);
    program.expect(vec![(TO_TWO, 1, 0, Some(0xffff))]);
}

#[test]
fn a_successor_follows_the_rules_from_the_first_packet_on() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let cores = two_cores();
    for args in [&[][..], &["--cores", &cores]] {
        let mut daemon = Daemon::start_with(&socket, args);
        let mut program = Program::open(&socket, 1, Design::GroupedEpoch);
        rules().iter().for_each(|rule| _ = program.nic.flow_create(rule).unwrap());
        program.nic.flow_destroy(1).unwrap();
        program.nic.flow_create(&rules()[1]).unwrap();
        for round in 0..3 {
            daemon.signal(Signal::KILL);
            until("the end of the connection", || !program.nic.alive());
            // These stand in the ring when the successor looks for the first time.
            program.send(round, &ALL);
            assert!(matches!(program.nic.flow_create(&FlowRule::default()), Err(Error::Gone)));
            daemon = Daemon::start_with(&socket, args);
            program.nic.reconnect(&mut program.pairs, []).unwrap();
            program.expect(by_rules(u32::from(round) * 4, round));
            let packets: Vec<_> = (0..3).map(|id| program.nic.flow_query(id).unwrap().packets).collect();
            assert_eq!(packets, [1, 1, 1], "they count anew");
        }
        // What is removed meanwhile stays away.
        daemon.signal(Signal::KILL);
        until("the end of the connection", || !program.nic.alive());
        program.nic.flow_destroy(0).unwrap();
        daemon = Daemon::start_with(&socket, args);
        program.nic.reconnect(&mut program.pairs, []).unwrap();
        assert_eq!(program.nic.flows().map(|(id, _)| id).collect::<Vec<_>>(), [1, 2]);
        let first = program.sent;
        program.send(0, &[TO_TWO, MARKED]);
        program.expect(vec![(TO_TWO, first, 0, None), (MARKED, first + 1, 0, Some(7))]);
        assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    }
}

#[test]
fn limits_are_said_by_the_nic_and_kept() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let _daemon = Daemon::start(&socket);
    let mut program = Program::open(&socket, 1, Design::GroupedEpoch);
    let hello = Connection::open(&socket).unwrap().ask(&Request::Hello, None).unwrap();
    let Reply::Hello(Hello { flow: Some(ability), .. }) = hello else { panic!("{hello:?}") };
    let most = ability.rules as u16;
    for port in 0..most {
        let rule =
            FlowRule { matches: udp_to(port), to: FlowTarget::Queue(port % QUEUES), ..FlowRule::default() };
        assert_eq!(program.nic.flow_create(&rule).unwrap(), u32::from(port));
    }
    let one_more = FlowRule { matches: udp_to(most), ..FlowRule::default() };
    let why = program.nic.flow_create(&one_more).unwrap_err().to_string();
    assert!(why.contains("a program may have 256 flow rules; destroy another one first"), "{why}");
    assert_eq!(program.nic.flows().count(), usize::from(most));
    let wrong = FlowRule { to: FlowTarget::Queue(QUEUES), ..FlowRule::default() };
    let why = program.nic.flow_create(&wrong).unwrap_err().to_string();
    assert_eq!(why, "flow rule: to is queue 4; the program has queues 0 to 3");
    program.send(0, &[5, 6, 7]);
    program.expect(vec![(5, 0, 1, None), (6, 1, 2, None), (7, 2, 3, None)]);
}

/// What stands in the file comes before the program's own rules; the difference of two files is applied; a successor has them from the first
/// packet on.
fn by_the_file(args: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let (socket, file) = (directory.path().join("nic.sock"), directory.path().join("nic.toml"));
    let to_three = format!(
        "[[flow]]\nprogram = 'program 1'\nprotocol = 'udp'\ndst-port = {TO_TWO}\nqueue = 3\nmark = 5\n"
    );
    let plain = format!("[[flow]]\nprotocol = 17\ndst-port = {PLAIN}\nqueue = 1\n");
    let nowhere = format!("[[flow]]\nprotocol = 'udp'\ndst-port = {MARKED}\nqueue = 9\n");
    std::fs::write(&file, format!("{to_three}{nowhere}")).unwrap();
    let args = &[&["--config", file.to_str().unwrap(), "--log", "info"], args].concat();
    let mut daemon = Daemon::start_with(&socket, args);
    let mut program = Program::open(&socket, 1, Design::GroupedEpoch);
    rules().iter().for_each(|rule| _ = program.nic.flow_create(rule).unwrap());
    let first = |program: &mut Program, plain: u16| {
        let at = program.sent;
        program.send(0, &ALL);
        program.expect(vec![
            (TO_TWO, at, 3, Some(5)),
            (MARKED, at + 2, 0, Some(7)),
            (PLAIN, at + 3, plain, None),
        ]);
    };
    first(&mut program, 0);
    assert!(daemon.log().contains("is not for this program: to is queue 9; the program has queues 0 to 3"));
    let hits =
        |program: &mut Program, id: u32| program.nic.flow_query(FIRST_OF_CONFIGURATION + id).unwrap().packets;
    assert_eq!(hits(&mut program, 0), 1);

    // Another rule, before the one that was there: that one counts on.
    let both = format!("{plain}{to_three}");
    let operator = Connection::open(&socket).unwrap();
    let checked = operator.apply("nic.toml", &both, true).unwrap();
    first(&mut program, 0);
    let applied = operator.apply("nic.toml", &both, false).unwrap();
    assert_eq!(
        (&applied, applied.steered.len(), applied.steered[0].name.as_str()),
        (&checked, 1, "program 1")
    );
    assert!(
        applied.changes.iter().any(|change| change.key.contains("dst-port=1005") && change.after.is_some())
    );
    first(&mut program, 1);
    assert_eq!((hits(&mut program, 0), hits(&mut program, 1)), (1, 3));
    assert!(operator.apply("nic.toml", &both, false).unwrap().is_empty(), "nothing has changed");

    // What is wrong changes nothing; neither does what the operator's other rules do not let in.
    let id = daemon.program("program 1").unwrap().id;
    let rule = FlowRule { priority: 0, matches: udp_to(DROPPED), to: FlowTarget::Queue(2), mark: None };
    let add = FlowRequest::Create { program: Some(id), id: None, rule };
    operator.ask(&Request::Flow(add), None).unwrap();
    let same = format!("{both}[[flow]]\nprotocol = 'udp'\ndst-port = {DROPPED}\ndrop = true\n");
    for (wrong, expected) in [
        (format!("{both}[[flow]]\ndst-port = 1\ndrop = true\n"), "dst-port is 1 without a protocol"),
        (same, "(program 1): flow rule 2147483648 has the same match and priority; take it out first"),
    ] {
        let why = operator.apply("nic.toml", &wrong, false).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
    let at = program.sent;
    program.send(0, &ALL);
    let came = [
        (TO_TWO, at, 3, Some(5)),
        (DROPPED, at + 1, 2, None),
        (MARKED, at + 2, 0, Some(7)),
        (PLAIN, at + 3, 1, None),
    ];
    program.expect(came.into());

    std::fs::write(&file, &both).unwrap();
    daemon.signal(Signal::KILL);
    until("the end of the connection", || !program.nic.alive());
    let at = program.sent;
    program.send(0, &ALL);
    daemon = Daemon::start_with(&socket, args);
    program.nic.reconnect(&mut program.pairs, []).unwrap();
    program.expect(vec![(TO_TWO, at, 3, Some(5)), (MARKED, at + 2, 0, Some(7)), (PLAIN, at + 3, 1, None)]);
    assert_eq!((hits(&mut program, 0), hits(&mut program, 1)), (1, 1));

    // Without them the program's own are followed.
    let applied = Connection::open(&socket).unwrap().apply("nic.toml", "", false).unwrap();
    assert_eq!(applied.steered.len(), 1);
    let at = program.sent;
    program.send(0, &ALL);
    program.expect(by_rules(at, 0));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn rules_of_the_file() {
    let _alone = alone();
    by_the_file(&[]);
    by_the_file(&["--cores", &two_cores()]);
}
