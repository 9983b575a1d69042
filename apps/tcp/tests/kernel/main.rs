//! The stack and Linux's TCP, across a TAP port: transfers, also over a bad link, storms of connections, resets, windows that are closed,
//! NICs that are killed, iperf3, curl, wrk.
//!
//! Each test runs in a network namespace of its own: see [`in_namespace`].

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod fragments;
mod host;
mod iperf;
mod ipv6;
mod relay;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ccnic_testing::in_namespace;
use common::{Nic, byte, until};
use host::{Manner, Server, behind_a_router, connect, echo, nic, receive, runs};
use relay::{Faults, Relay};

const HOSTS: [&str; 2] = ["10.9.0.1", "fd09::1"];

fn at(host: &str) -> SocketAddr {
    SocketAddr::new(host.parse().unwrap(), 7)
}

#[test]
fn transfers() {
    in_namespace("transfers_inside");
}

#[test]
#[ignore = "for transfers"]
fn transfers_inside() {
    let nic = nic();
    let server = Server::start(nic.host("10.9.0.1/24", "fd09::1/64"), Manner::Echo);
    for host in HOSTS {
        echo(connect(at(host)), 8 << 20);
    }
    // A server that reads nothing closes its window, which the kernel probes.
    for host in HOSTS {
        server.pause.store(true, Ordering::Relaxed);
        let stream = connect(at(host));
        let other = stream.try_clone().unwrap();
        let client = std::thread::spawn(move || echo(other, 2 << 20));
        std::thread::sleep(Duration::from_millis(700)); // probes of the window have been sent
        server.pause.store(false, Ordering::Relaxed);
        client.join().unwrap();
    }
    until("the end of all connections", || server.connections.load(Ordering::Relaxed) == 0);
    let counters = server.end().counters();
    assert_eq!((counters.bad_checksum, counters.malformed), (0, 0), "{counters:?}");
}

#[test]
fn a_closed_window() {
    in_namespace("a_closed_window_inside");
}

/// What this namespace has counted under a name of `TcpExt`; 0 where the kernel has no such name.
fn counted(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/netstat").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|other| other == name);
    at.map_or(0, |at| values.split(' ').nth(at).unwrap().parse().unwrap())
}

/// Probes of a closed window, which the kernel counts in one place or, from 6.17 on, in another.
fn probes() -> u64 {
    counted("TCPZeroWindowDrop") + counted("BeyondWindow")
}

/// The kernel's program reads nothing: the kernel closes its window, drops the stack's probes of it, and opens it again when the program
/// reads. Then once more, with the news of that lost: only a probe finds out.
#[test]
#[ignore = "for a_closed_window"]
fn a_closed_window_inside() {
    let nic = nic();
    let server = Server::start(nic.host("10.9.0.1/24", "fd09::1/64"), Manner::Echo);
    // The last time so little that the client sends nothing more, which would tell the news, too.
    for (host, len, news_lost) in
        [(HOSTS[0], 4 << 20, false), (HOSTS[1], 4 << 20, false), (HOSTS[0], 192 << 10, true)]
    {
        let (closes, opens) = ("TCPToZeroWindowAdv", "TCPFromZeroWindowAdv");
        let (closed, probed, opened) = (counted(closes), probes(), counted(opens));
        let mut stream = connect(at(host));
        let mut writer = stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let bytes: Vec<u8> = (0..len).map(|at| byte(5, at)).collect();
            writer.write_all(&bytes).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        until("three probes of a closed window", || {
            std::thread::sleep(Duration::from_millis(10));
            counted(closes) > closed && probes() >= probed + 3
        });
        assert_eq!(counted(opens), opened, "it has stayed closed");
        let (mut got, mut bytes) = (0, vec![0; 64 << 10]);
        if news_lost {
            // Frames go astray while the program reads all that has come.
            let known = "ip neigh replace 10.9.0.1 dev tap0 nud permanent lladdr ";
            let mac = [server.mac, [2, 0, 0, 0, 0, 99]].map(|mac| mac.map(|b| format!("{b:02x}")).join(":"));
            assert!(runs(&format!("{known}{}", mac[1])));
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            while let Ok(n) = stream.read(&mut bytes) {
                assert!((0..n).all(|i| bytes[i] == byte(5, got + i)), "after {got} bytes");
                got += n;
            }
            stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
            until("the news of an open window", || counted(opens) > opened);
            assert!(runs(&format!("{known}{}", mac[0])));
        }
        assert_eq!(receive(stream, got), len);
        assert!(counted(opens) > opened);
        sender.join().unwrap();
    }
    until("the end of all connections", || server.connections.load(Ordering::Relaxed) == 0);
    server.end();
}

#[test]
fn a_bad_link() {
    in_namespace("a_bad_link_inside");
}

/// Frames are lost, come twice, late, and in another order, both ways.
#[test]
#[ignore = "for a_bad_link"]
fn a_bad_link_inside() {
    let (near, far) = (nic(), Nic::start(&[]));
    let server = Server::start(far.host("10.9.0.1/24", "fd09::1/64"), Manner::Echo);
    let (none, ms) = (Faults::default(), Duration::from_millis);
    let links = [
        Faults { lost: 10, ..none },
        Faults { doubled: 50, ..none },
        Faults { delay: ms(2), ..none },
        Faults { late: (20, ms(3)), ..none },
        Faults { lost: 10, doubled: 10, delay: ms(1), late: (10, ms(2)) },
    ];
    for faults in links {
        let relay = Relay::start([&near.socket, &far.socket], faults);
        for host in HOSTS {
            echo(connect(at(host)), 256 << 10);
        }
        let [passed, lost, doubled, late] = relay.end();
        println!("{faults:?}: {passed} frames passed on, {lost} lost, {doubled} doubled, {late} late");
        let happened = [(faults.lost, lost), (faults.doubled, doubled), (faults.late.0, late)];
        assert!(happened.iter().all(|(wanted, was)| (*wanted > 0) == (*was > 0)), "{happened:?}");
    }
    server.end();
}

#[test]
fn storm() {
    in_namespace("storm_inside");
}

/// Resident memory of this process in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// So many short connections, from eight threads at once.
fn short_connections(n: usize) {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..n / 8 {
                    let mut stream = connect(at(HOSTS[0]));
                    stream.set_nodelay(true).unwrap();
                    stream.write_all(b"hello").unwrap();
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                    let mut answer = Vec::new();
                    stream.read_to_end(&mut answer).unwrap();
                    assert_eq!(answer, b"hello");
                }
            });
        }
    });
}

fn storms(n: usize) {
    // A port of the kernel is free again soon, and the stack takes it while it is in TIME-WAIT itself.
    assert!(
        runs("sysctl -w net.ipv4.tcp_tw_reuse=1")
            && runs("sysctl -w net.ipv4.ip_local_port_range=1024\t65000")
            || n <= 20_000
    );
    let nic = nic();
    for manner in [Manner::Echo, Manner::Once] {
        let mut options = common::options("10.9.0.1/24", "fd09::1/64");
        options.mac = Some([2, 0, 0, 0, 0, 7]); // the kernel knows it from the first of them
        (options.time_wait, options.receive_buffer, options.send_buffer) = (100, 16 << 10, 16 << 10);
        let stack = ccnic_tcp::Stack::open(&nic.socket, &options).unwrap();
        let server = Server::start(stack, manner);
        short_connections(n / 10);
        let before = resident();
        short_connections(n);
        assert_eq!(server.accepted.load(Ordering::Relaxed), n / 10 / 8 * 8 + n / 8 * 8);
        // Those in TIME-WAIT are bounded; where the client closes first there are none.
        let left = if manner == Manner::Echo { 0 } else { 100 };
        until("the connections to end", || server.connections.load(Ordering::Relaxed) <= left);
        let after = resident();
        println!("{n} connections ({manner:?}): {before} KiB resident before, {after} after");
        assert!(after.saturating_sub(before) < 16 << 10, "{before} KiB resident, then {after}");
        let mut stack = server.end();
        until("the timers of past connections", || {
            stack.poll();
            stack.timers() <= 2 * left + 10
        });
    }
}

#[test]
#[ignore = "for storm"]
fn storm_inside() {
    storms(10_000);
}

#[test]
#[ignore = "takes minutes: make tcp-storm"]
fn million() {
    in_namespace("million_inside");
}

#[test]
#[ignore = "for million"]
fn million_inside() {
    storms(1_000_000);
}

#[test]
fn af_xdp() {
    match ccnic_shm::xdp::Redirect::load(1, true) {
        Ok(_) => in_namespace("af_xdp_inside"),
        Err(e) => println!("skipped: no XDP program can be loaded: {e}"),
    }
}

/// The kernel is at the other end of a veth that the switch has as an AF_XDP port: transfers and short connections.
#[test]
#[ignore = "for af_xdp"]
fn af_xdp_inside() {
    for words in [
        "link add near numtxqueues 2 numrxqueues 2 type veth peer name far numtxqueues 2 numrxqueues 2",
        "link set near addrgenmode none",
        "addr add 10.9.0.9/24 dev far",
        "addr add fd09::9/64 dev far nodad",
        "link set far up",
    ] {
        assert!(runs(&format!("ip {words}")), "ip {words}");
    }
    let nic = Nic::start(&["xdp:near"]);
    let server = Server::start(nic.host("10.9.0.1/24", "fd09::1/64"), Manner::Echo);
    for host in HOSTS {
        echo(connect(at(host)), 4 << 20);
    }
    short_connections(400);
    until("the end of all connections", || server.connections.load(Ordering::Relaxed) == 0);
    let counters = server.end().counters();
    assert_eq!((counters.bad_checksum, counters.malformed), (0, 0), "{counters:?}");
}

#[test]
fn a_closed_udp_port() {
    in_namespace("a_closed_udp_port_inside");
}

/// The kernel knows that the port is closed, not the protocol, and tells its program.
#[test]
#[ignore = "for a_closed_udp_port"]
fn a_closed_udp_port_inside() {
    let nic = nic();
    let _server = Server::start(nic.host("10.9.0.1/24", "fd09::1/64"), Manner::Echo);
    for (host, from, len) in
        [(HOSTS[0], "10.9.0.9:0", 1400), (HOSTS[1], "[fd09::9]:0", 1400), (HOSTS[1], "[fd09::9]:0", 0)]
    {
        let socket = std::net::UdpSocket::bind(from).unwrap();
        socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
        socket.connect(at(host)).unwrap();
        socket.send(&vec![7; len]).unwrap();
        assert_eq!(socket.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionRefused, "{host}");
    }
}

#[test]
fn a_path_with_a_smaller_mtu() {
    in_namespace("a_path_with_a_smaller_mtu_inside");
}

/// A router between the stack and its client, with a link of 1400 bytes to a client that announces segments for 1500: what is too long the
/// router drops, and says so.
#[test]
#[ignore = "for a_path_with_a_smaller_mtu"]
fn a_path_with_a_smaller_mtu_inside() {
    let nic = nic();
    let far = behind_a_router();
    let pid = far.0.id();
    for (host, gateway) in [("10.9.0.1", "10.9.0.9"), ("fd09::1", "fd09::9")] {
        let mut options = common::options("10.9.0.1/24", "fd09::1/64");
        options.set_gateways([gateway.parse().unwrap()]).unwrap();
        let server = Server::start(ccnic_tcp::Stack::open(&nic.socket, &options).unwrap(), Manner::Echo);
        let client = format!(
            "exec 3<>/dev/tcp/{host}/7; head --bytes 300000 /dev/zero >&3 & head --bytes 300000 <&3 | wc --bytes"
        );
        let mut command = Command::new("nsenter");
        let got = command
            .args([&format!("--target={pid}"), "--net", "timeout", "60", "bash", "-c", &client])
            .output();
        assert_eq!(String::from_utf8_lossy(&got.unwrap().stdout).trim(), "300000", "over {host}");
        let counters = server.end().counters();
        assert!(counters.paths_lowered > 0, "{counters:?}");
    }
}

#[test]
fn refusals_and_resets() {
    in_namespace("refusals_and_resets_inside");
}

#[test]
#[ignore = "for refusals_and_resets"]
fn refusals_and_resets_inside() {
    let nic = nic();
    let server = Server::start(nic.host("10.9.0.1/24", "fd09::1/64"), Manner::Echo);
    for host in HOSTS {
        echo(connect(at(host)), 1000);
        let nobody = SocketAddr::new(host.parse().unwrap(), 8);
        assert_eq!(TcpStream::connect(nobody).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // Closed with bytes that were not read: Linux resets.
        let mut stream = connect(at(host));
        stream.write_all(&[7; 1000]).unwrap();
        stream.peek(&mut [0]).unwrap();
        drop(stream);
        until("the end of the reset connection", || server.connections.load(Ordering::Relaxed) == 0);
    }
    // The server goes away with a connection open, and comes back: what is sent then is answered by a reset.
    let mut stream = connect(at(HOSTS[0]));
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
    let mut options = common::options("10.9.0.1/24", "fd09::1/64");
    options.mac = Some(server.end().mac());
    let again = Server::start(ccnic_tcp::Stack::open(&nic.socket, &options).unwrap(), Manner::Echo);
    stream.write_all(b"hello").unwrap();
    assert_eq!(stream.read(&mut [0; 5]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    echo(connect(at(HOSTS[0])), 1000);
    again.end();
}

#[test]
fn recovery() {
    in_namespace("recovery_inside");
}

/// The NIC is killed, and the kernel's interface with it, while bytes are under way.
#[test]
#[ignore = "for recovery"]
fn recovery_inside() {
    let mut nic = nic();
    let server = Server::start(nic.host("10.9.0.1/24", "fd09::1/64"), Manner::Echo);
    for host in HOSTS {
        server.pause.store(true, Ordering::Relaxed); // so that it does not end before
        let stream = connect(at(host));
        let client = std::thread::spawn(move || echo(stream, 4 << 20));
        std::thread::sleep(Duration::from_millis(100));
        nic.kill();
        nic.start_again(&[host::TAP]);
        host::addresses_can_be_used();
        server.pause.store(false, Ordering::Relaxed);
        client.join().unwrap();
    }
    assert_eq!(server.end().counters().reconnects, 2);
}

#[test]
fn iperf3() {
    in_namespace("iperf3_inside");
}

#[test]
#[ignore = "for iperf3"]
fn iperf3_inside() {
    if !runs("iperf3 --version") {
        println!("skipped: there is no iperf3");
        return;
    }
    let nic = nic();
    let mut stack = nic.host("10.9.0.1/24", "fd09::1/64");
    for words in [&["-n", "8M"][..], &["-n", "8M", "-P", "4"], &["-n", "8M", "-P", "4", "-R"]] {
        stack = iperf::run(stack, words);
    }
    assert_eq!((stack.counters().bad_checksum, stack.counters().malformed), (0, 0));
}

#[test]
fn curl() {
    in_namespace("curl_inside");
}

/// Ends the program when the test does.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended already
        let _ = self.0.wait();
    }
}

/// `ccnic-hello` at port 80, once it answers.
#[track_caller]
fn hello(nic: &Nic) -> Program {
    let mut hello = Command::new(env!("CARGO_BIN_EXE_ccnic-hello"));
    hello.arg("--socket").arg(&nic.socket);
    hello.args(["--address", "10.9.0.1/24", "--ipv6", "fd09::1/64", "--port", "80"]);
    let mut program = Program(hello.spawn().unwrap());
    until("the server", || {
        assert!(program.0.try_wait().unwrap().is_none(), "the server has ended");
        TcpStream::connect_timeout(&"10.9.0.1:80".parse().unwrap(), Duration::from_secs(1)).is_ok()
    });
    program
}

#[test]
#[ignore = "for curl"]
fn curl_inside() {
    if !runs("curl --version") {
        println!("skipped: there is no curl");
        return;
    }
    let nic = nic();
    let _hello = hello(&nic);
    let get = |words: &[&str]| {
        Command::new("curl").args(["-s", "-S", "--max-time", "20"]).args(words).output().unwrap()
    };
    for url in ["http://10.9.0.1/", "http://[fd09::1]/"] {
        let done = get(&[url, url, url]); // over one connection
        assert_eq!(String::from_utf8_lossy(&done.stdout), "Hello from ccnic!\n".repeat(3), "{done:?}");
    }
    let status = get(&["-o", "/dev/null", "-w", "%{http_code}", "http://10.9.0.1/nothing"]);
    assert_eq!(String::from_utf8_lossy(&status.stdout), "404");
}

#[test]
fn wrk() {
    in_namespace("wrk_inside");
}

/// 200 connections that ask for one page after another, the requests pipelined or not.
#[test]
#[ignore = "for wrk"]
fn wrk_inside() {
    if Command::new("wrk").arg("--version").output().is_err() {
        println!("skipped: there is no wrk");
        return;
    }
    let nic = nic();
    let _hello = hello(&nic);
    let folder = tempfile::tempdir().unwrap();
    let pipeline = folder.path().join("pipeline.lua");
    let script = "init = function(args) local r = {} for i = 1, 16 do r[i] = wrk.format() end all = table.concat(r) end\n\
                  request = function() return all end\n";
    std::fs::write(&pipeline, script).unwrap();
    for script in [&[][..], &["--script", pipeline.to_str().unwrap()]] {
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", "2", "--connections", "200", "--duration", "1s", "--timeout", "60s"]);
        let done = wrk.args(script).arg("http://10.9.0.1/").output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        println!("{said}");
        let answered = said.lines().find_map(|line| line.trim().split_once(" requests in "));
        assert!(
            done.status.success() && answered.is_some_and(|(n, _)| n.parse::<u64>().unwrap() > 0),
            "{done:?}"
        );
        assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
    }
}
