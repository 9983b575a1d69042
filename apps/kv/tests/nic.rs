//! The program on a ccnic NIC: TCP, text and binary datagrams from another program on the same switch.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../../tcp/tests/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ccnic_control::Connection;
use ccnic_kv::rpc::{self, Operation};
use ccnic_tcp::{Conn, Datagrams, Reply, Stack};
use ccnic_testing::in_namespace;
use common::{Nic, PATIENCE, alone, options, until};

const RPC: u16 = 9000;

struct Program(Child);

impl Program {
    fn start(nic: &Nic, options: &[&str]) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic-kv"));
        command.arg("--ccnic").arg(&nic.socket).args(["--address", "10.9.0.1/24", "-v", "-U", "11211"]);
        let mut process = command.args(options).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let program = Program(process);
        let mut said = Vec::new();
        let ready = lines
            .by_ref()
            .map(Result::unwrap)
            .inspect(|line| said.push(line.clone()))
            .any(|line| line == "ccnic-kv: ready");
        assert!(ready, "it ended: {said:?}");
        std::thread::spawn(move || lines.for_each(drop));
        program
    }

    fn end(mut self) -> bool {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
        self.0.wait().unwrap().success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(port: u16) -> SocketAddr {
    SocketAddr::new("10.9.0.1".parse().unwrap(), port)
}

fn connect(client: &mut Stack) -> Conn {
    let conn = client.connect(server(11211)).unwrap();
    until("a connection", || {
        client.poll();
        client.room(conn) > 0
    });
    conn
}

/// What is answered over TCP up to this end.
fn ask(client: &mut Stack, conn: Conn, mut request: &[u8], end: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut bytes = vec![0; 1 << 16];
    until("an answer", || {
        if let Ok(count) = client.write(conn, request) {
            request = &request[count..];
        }
        client.poll();
        while client.next_event().is_some() {}
        match client.read(conn, &mut bytes) {
            Ok(count) => answer.extend_from_slice(&bytes[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        request.is_empty() && answer.ends_with(end)
    });
    answer
}

/// Datagrams as they come.
#[derive(Default)]
struct Inbox(Vec<(u16, Vec<u8>)>);

impl Datagrams for Inbox {
    fn datagram(&mut self, from: SocketAddr, _: SocketAddr, payload: &[u8], _: &mut Reply<'_>) {
        self.0.push((from.port(), payload.to_vec()));
    }
}

/// Sends a datagram until enough have come back: UDP may lose some. A second passes in between: what comes late would be taken for an answer
/// to the next request.
fn datagrams(client: &mut Stack, port: u16, request: &[u8], count: usize) -> Vec<Vec<u8>> {
    let mut inbox = Inbox::default();
    let mut asked = None;
    until("datagrams", || {
        if asked.is_none_or(|at: Instant| at.elapsed() > Duration::from_secs(1))
            && let Some(peer) = client.peer(server(port)).unwrap()
        {
            inbox.0.clear();
            assert!(client.send_to(5000, &peer, &[request]));
            asked = Some(Instant::now());
        }
        client.poll_datagrams(&mut inbox);
        inbox.0.retain(|(from, _)| *from == port);
        inbox.0.len() >= count
    });
    inbox.0.into_iter().map(|(_, payload)| payload).collect()
}

fn set(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

#[test]
fn every_protocol_sees_one_store() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let program = Program::start(&nic, &["-t", "2", "--rpc-port", "9000"]);
    let mut options = options("10.9.0.2/24", "fd09::2/64");
    options.mtu = 9586;
    let mut client = Stack::open(&nic.socket, &options).unwrap();
    client.bind(5000).unwrap();
    let conn = connect(&mut client);
    let large = vec![b'v'; 1_000_000];
    assert_eq!(ask(&mut client, conn, &set("large", &large), b"\r\n"), b"STORED\r\n");
    let answer = ask(&mut client, conn, b"get large\r\n", b"END\r\n");
    assert_eq!(answer, [b"VALUE large 0 1000000\r\n", &large[..], b"\r\nEND\r\n"].concat());
    // A datagram has no room for it: that is told, and so is a set that says more than it brings.
    let head = rpc::request(Operation::Get, 5, 0, 1);
    let answer = datagrams(&mut client, RPC, &[&head[..], b"large"].concat(), 1).remove(0);
    assert_eq!((answer.len(), answer[1]), (rpc::HEADER, rpc::Status::TooLarge as u8));
    let head = rpc::request(Operation::Set, 5, 10_000, 2);
    let answer = datagrams(&mut client, RPC, &[&head[..], b"large", &[b'w'; 9000]].concat(), 1).remove(0);
    assert_eq!((answer.len(), answer[1]), (rpc::HEADER, rpc::Status::Malformed as u8));
    assert_eq!(ask(&mut client, conn, b"mg large s\r\n", b"\r\n"), b"HD s1000000\r\n", "as it was");
    // Each key over the port of its shard, then over the other one.
    for number in 0..20u64 {
        let key = format!("key{number}");
        let value = vec![number as u8; 400 * number as usize];
        let head = rpc::request(Operation::Set, key.len(), value.len(), number);
        let port = RPC + (ccnic_kv::store::shard_hash(key.as_bytes()) % 2) as u16;
        let answer = datagrams(&mut client, port, &[&head[..], key.as_bytes(), &value].concat(), 1).remove(0);
        assert_eq!((answer.len(), answer[1]), (rpc::HEADER, rpc::Status::Done as u8));
        let head = rpc::request(Operation::Get, key.len(), 0, 77);
        for port in [RPC, RPC + 1] {
            let answer = datagrams(&mut client, port, &[&head[..], key.as_bytes()].concat(), 1).remove(0);
            assert_eq!((answer[1], answer[8], &answer[rpc::HEADER..]), (0, 77, &value[..]));
        }
    }
    assert_eq!(ask(&mut client, conn, b"get key1\r\n", b"END\r\n").len(), 425);
    let parts = datagrams(&mut client, 11211, b"\x12\x34\0\0\0\x01\0\0get key10\r\n", 3);
    let text: Vec<u8> = parts.iter().flat_map(|part| part[8..].to_vec()).collect();
    assert_eq!(text, [b"VALUE key10 0 4000\r\n", &[10; 4000][..], b"\r\nEND\r\n"].concat());
    assert!(program.end());
}

/// A value that one thread keeps where its NIC reads it is everybody's: another thread, text commands, and what changes it.
#[test]
fn a_kept_value_is_seen_and_changed_by_others() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let args = ["-t", "2", "--rpc-port", "9000", "--kept-memory", "2", "--kept-from", "300"];
    let program = Program::start(&nic, &args);
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    client.bind(5000).unwrap();
    // Its thread is one of the two, whichever.
    let conn = connect(&mut client);
    for number in 0..20u16 {
        let key = format!("key{number}");
        let own = RPC + (ccnic_kv::store::shard_hash(key.as_bytes()) % 2) as u16;
        let other = RPC + u16::from(own == RPC);
        let mut value = vec![number as u8; 1300];
        assert_eq!(ask(&mut client, conn, &set(&key, &value), b"\r\n"), b"STORED\r\n");
        let get = [&rpc::request(Operation::Get, key.len(), 0, 1)[..], key.as_bytes()].concat();
        let check = |client: &mut Stack, value: &[u8]| {
            for port in [own, own, own, other, own] {
                let answer = datagrams(client, port, &get, 1).remove(0);
                assert!(answer[rpc::HEADER..] == *value, "{key} at port {port}");
            }
            let text =
                [format!("VALUE {key} 0 {}\r\n", value.len()).as_bytes(), value, b"\r\nEND\r\n"].concat();
            assert!(ask(client, conn, format!("get {key}\r\n").as_bytes(), b"END\r\n") == text);
            let meta = ask(client, conn, format!("mg {key} s\r\n").as_bytes(), b"\r\n");
            assert_eq!(meta, format!("HD s{}\r\n", value.len()).as_bytes());
            let datagram = [b"\0\x01\0\0\0\x01\0\0get ", key.as_bytes(), b"\r\n"].concat();
            let parts = datagrams(client, 11211, &datagram, text.len().div_ceil(1392));
            assert!(parts.iter().flat_map(|part| part[8..].to_vec()).collect::<Vec<u8>>() == text);
        };
        check(&mut client, &value);
        match number % 4 {
            0 => {
                let append = format!("append {key} 0 0 3\r\nabc\r\n");
                assert_eq!(ask(&mut client, conn, append.as_bytes(), b"\r\n"), b"STORED\r\n");
                value.extend_from_slice(b"abc");
            }
            1 => {
                let head = rpc::request(Operation::Set, key.len(), 500, 1);
                value = vec![77; 500];
                datagrams(&mut client, other, &[&head[..], key.as_bytes(), &value].concat(), 1);
            }
            2 => {
                let delete = format!("delete {key}\r\n");
                assert_eq!(ask(&mut client, conn, delete.as_bytes(), b"\r\n"), b"DELETED\r\n");
                let answer = datagrams(&mut client, own, &get, 1).remove(0);
                assert_eq!(answer[1], rpc::Status::NotFound as u8);
                continue;
            }
            _ => {
                let touch = format!("touch {key} 1000\r\n");
                assert_eq!(ask(&mut client, conn, touch.as_bytes(), b"\r\n"), b"TOUCHED\r\n");
            }
        }
        check(&mut client, &value);
    }
    let stats = String::from_utf8(ask(&mut client, conn, b"stats\r\n", b"END\r\n")).unwrap();
    let uncopied = stats.lines().find_map(|line| line.strip_prefix("STAT nic_uncopied ")).unwrap();
    assert!(uncopied.parse::<u32>().unwrap() >= 20, "{stats}");
    assert!(program.end());
}

#[test]
fn a_region_of_another_design_serves_the_same_and_where_time_goes_is_told() {
    let _alone = alone();
    for design in ["paper", "e810"] {
        let nic = Nic::start(&[]);
        let program = Program::start(&nic, &["-t", "1", "--rpc-port", "9000", "--design", design]);
        let status = Connection::open(&nic.socket).unwrap().status().unwrap();
        assert!(status.programs.iter().any(|program| program.design == design), "{status:?}");
        let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
        client.bind(5000).unwrap();
        let conn = connect(&mut client);
        let value = [7; 200];
        let head = rpc::request(Operation::Set, 3, value.len(), 1);
        datagrams(&mut client, RPC, &[&head[..], b"key", &value].concat(), 1);
        let head = rpc::request(Operation::Get, 3, 0, 2);
        for _ in 0..99 {
            let answer = datagrams(&mut client, RPC, &[&head[..], b"key"].concat(), 1).remove(0);
            assert_eq!(answer[rpc::HEADER..], value, "{design}");
        }
        until("what the requests took", || {
            datagrams(&mut client, RPC, &[&head[..], b"key"].concat(), 1); // one poll in 16 is sampled
            let stats = ask(&mut client, conn, b"stats\r\n", b"END\r\n");
            let stats = String::from_utf8(stats).unwrap();
            let read = |name: &str| {
                let line = stats.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name));
                line.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
            };
            let (requests, sampled) = (read("nic_requests "), read("nic_sampled "));
            // A request may be sent twice.
            assert!(
                sampled <= requests && read("nic_sampled_store_ns ") < read("nic_busy_ns ").max(1),
                "{stats}"
            );
            requests >= 100 && sampled > 0 && read("nic_sampled_store_ns ") > 0
        });
        assert!(program.end());
    }
}

/// Values that are longer than a frame come and go in fragments, whatever thread gets them.
#[test]
fn values_are_longer_than_a_frame() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let program = Program::start(&nic, &["-t", "2", "--rpc-port", "9000", "--kept-memory", "2"]);
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    client.bind(5000).unwrap();
    for (number, len) in (0..).zip([1452, 1500, 3000, 9000, 30_000, 65_000]) {
        let key = format!("key{number}");
        let value: Vec<u8> = (0..len).map(|at| common::byte(number, at)).collect();
        let own = RPC + (ccnic_kv::store::shard_hash(key.as_bytes()) % 2) as u16;
        let head = rpc::request(Operation::Set, key.len(), len, 1);
        let answer = datagrams(&mut client, own, &[&head[..], key.as_bytes(), &value].concat(), 1).remove(0);
        assert_eq!((answer.len(), answer[1]), (rpc::HEADER, rpc::Status::Done as u8));
        let head = rpc::request(Operation::Get, key.len(), 0, 2);
        // From the second one on it is kept where the NIC reads values.
        for port in [own, own, own, RPC + u16::from(own == RPC)] {
            let answer = datagrams(&mut client, port, &[&head[..], key.as_bytes()].concat(), 1).remove(0);
            assert!(answer[1] == 0 && answer[rpc::HEADER..] == value, "{len} bytes from port {port}");
        }
    }
    assert!(program.end());
}

#[test]
fn a_client_behind_a_port_with_a_small_mtu() {
    in_namespace("a_client_behind_a_port_with_a_small_mtu_inside");
}

/// The kernel's, which has 1500 bytes: the defaults of the server reach it.
#[test]
#[ignore = "for a_client_behind_a_port_with_a_small_mtu"]
fn a_client_behind_a_port_with_a_small_mtu_inside() {
    let nic = Nic::start(&["tap:tap0,address=10.9.0.9/24"]);
    let program = Program::start(&nic, &["-t", "2", "--rpc-port", "9000"]);
    let socket = UdpSocket::bind("10.9.0.9:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let ask = |request: &[u8]| {
        let mut answer = vec![0; 1 << 16];
        let mut len = 0;
        until("an answer", || {
            socket.send_to(request, server(RPC)).unwrap();
            socket.recv(&mut answer).is_ok_and(|n| {
                len = n;
                true
            })
        });
        answer.truncate(len);
        answer
    };
    for (number, len) in (0..).zip([1400, 1500, 3000, 9000, 60_000]) {
        let (key, value) = ([b'k', number], vec![number + 1; len]);
        let set = rpc::request(Operation::Set, 2, len, number.into());
        assert_eq!(ask(&[&set[..], &key, &value].concat())[1], rpc::Status::Done as u8);
        let get = rpc::request(Operation::Get, 2, 0, number.into());
        let answer = ask(&[&get[..], &key].concat());
        assert!(answer[1] == 0 && answer[rpc::HEADER..] == value, "{len} bytes");
    }
    assert!(program.end());
}

#[test]
fn a_long_reply_reaches_a_client_that_the_server_has_not_met() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let _program = Program::start(&nic, &["-t", "1", "--mtu", "1280"]);
    let mut known = nic.host("10.9.0.2/24", "fd09::2/64");
    let conn = connect(&mut known);
    let value = [7; 20_000];
    assert_eq!(ask(&mut known, conn, &set("k", &value), b"\r\n"), b"STORED\r\n");
    // It asks for the server's Ethernet address; the server has not asked for its.
    let mut fresh = nic.host("10.9.0.3/24", "fd09::3/64");
    fresh.bind(5000).unwrap();
    let peer = fresh.peer_blocking(server(11211), PATIENCE).unwrap();
    assert!(fresh.send_to(5000, &peer, &[b"\0\x01\0\0\0\x01\0\0get k\r\n"]));
    let mut inbox = Inbox::default();
    until("every datagram of one reply", || {
        fresh.poll_datagrams(&mut inbox);
        let text: usize = inbox.0.iter().map(|(_, datagram)| datagram.len() - 8).sum();
        text == b"VALUE k 0 20000\r\n\r\nEND\r\n".len() + value.len()
    });
    for (number, (_, datagram)) in inbox.0.iter().enumerate() {
        assert!(datagram.len() <= 1280 - 48, "longer than the link takes");
        assert_eq!(datagram[..8], [0, 1, 0, number as u8, 0, inbox.0.len() as u8, 0, 0]);
    }
    // A message for each command, numbered by itself.
    let mut inbox = Inbox::default();
    assert!(fresh.send_to(5000, &peer, &[b"\0\x02\0\0\0\x01\0\0mn\r\nmn\r\nset k 0 0 9\r\nother"]));
    until("three messages", || {
        fresh.poll_datagrams(&mut inbox);
        inbox.0.len() == 3
    });
    let texts = ["MN\r\n", "MN\r\n", "CLIENT_ERROR bad data chunk\r\n"];
    for ((_, datagram), expected) in inbox.0.iter().zip(texts) {
        assert_eq!(datagram[..], [b"\0\x02\0\0\0\x01\0\0", expected.as_bytes()].concat());
    }
    let stats = ask(&mut known, conn, b"stats\r\n", b"END\r\n");
    assert!(String::from_utf8_lossy(&stats).contains("STAT udp_replies_dropped 0\r\n"));
}

#[test]
fn a_pipeline_is_answered_whole_and_a_bad_client_is_let_go() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let _program = Program::start(&nic, &["-t", "1", "--mtu", "1500"]);
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    let (good, bad) = (connect(&mut client), connect(&mut client));
    assert_eq!(ask(&mut client, good, &set("k", &[b'x'; 20_000]), b"\r\n"), b"STORED\r\n");
    let answer = ask(&mut client, good, &[&b"get k\r\n".repeat(200)[..], b"mn\r\n"].concat(), b"MN\r\n");
    assert_eq!(answer.len(), 200 * (b"VALUE k 0 20000\r\n\r\nEND\r\n".len() + 20_000) + 4);
    let answer = ask(&mut client, bad, &[b'z'; 3000], b"\r\n");
    assert_eq!(answer, b"CLIENT_ERROR line too long\r\n");
    until("the end of a bad client", || {
        client.poll();
        client
            .read(bad, &mut [0; 10])
            .map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |count| count == 0)
    });
    assert_eq!(ask(&mut client, good, b"mn\r\n", b"MN\r\n"), b"MN\r\n");
}

#[test]
fn a_server_goes_on_with_the_next_nic() {
    let _alone = alone();
    let mut nic = Nic::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot");
    let program = Program::start(&nic, &["-t", "2", "--snapshot", snapshot.to_str().unwrap()]);
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    let conn = connect(&mut client);
    let value = vec![b'v'; 100_000];
    assert_eq!(ask(&mut client, conn, &set("k", &value), b"\r\n"), b"STORED\r\n");
    let whole = [b"VALUE k 0 100000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    for _ in 0..2 {
        nic.kill();
        nic.start_again(&[]);
        assert_eq!(ask(&mut client, conn, b"get k\r\n", b"END\r\n"), whole);
        let other = connect(&mut client);
        assert_eq!(ask(&mut client, other, b"mn\r\n", b"MN\r\n"), b"MN\r\n");
    }
    // Without a NIC it ends when it is told to, and saves.
    nic.kill();
    assert!(program.end());
    assert!(snapshot.exists());
}
