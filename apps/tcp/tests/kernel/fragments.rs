//! Pings and datagrams of any length between the kernel and the stack, also across a router with a smaller MTU.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic_tcp::{Counters, Datagrams, Reply, Stack};
use ccnic_testing::in_namespace;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};

use crate::HOSTS;
use crate::common::{self, Nic, byte};
use crate::host::{behind_a_router, nic, runs};

/// The port that returns datagrams.
const PORT: u16 = 11;
/// Where the client is told what to send.
const TO: &str = "CCNIC_TCP_TEST_LONG_TO";
/// How long an answer may take until it is asked for again: by then it is lost.
const AGAIN: Duration = Duration::from_millis(500);

struct Echo;

impl Datagrams for Echo {
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, payload: &[u8], reply: &mut Reply<'_>) {
        assert!(reply.put(payload));
    }
}

/// A stack that returns datagrams, in a thread.
struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Counters>>,
}

impl Server {
    fn start(nic: &Nic, gateway: Option<IpAddr>) -> Server {
        let mut options = common::options("10.9.0.1/24", "fd09::1/64");
        options.set_gateways(gateway).unwrap();
        let mut stack = Stack::open(&nic.socket, &options).unwrap();
        stack.bind(PORT).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if stack.poll_datagrams(&mut Echo) == 0 {
                    stack.wait(Duration::from_millis(5)).unwrap();
                }
            }
            stack.counters()
        });
        Server { stop, thread: Some(thread) }
    }

    fn end(mut self) -> Counters {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|at| byte(5, at)).collect()
}

/// Sends a datagram until it comes back; the first ones may get lost while the path is not known.
fn echo_datagram(to: SocketAddr, len: usize) {
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
    socket.set_read_timeout(Some(AGAIN)).unwrap();
    socket.connect(to).unwrap();
    let (bytes, mut answer) = (noise(len), vec![0; 1 << 16]);
    common::until("an answer of that length", || {
        let _ = socket.send(&bytes); // the kernel learns the path, too
        socket.recv(&mut answer).is_ok_and(|n| {
            assert!(answer[..n] == bytes, "{len} bytes to {to}");
            true
        })
    });
}

/// A socket for pings, as those of the command: the kernel chooses the identifier and computes checksums.
fn ping_socket(to: IpAddr) -> OwnedFd {
    let (family, protocol) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let socket = rustix::net::socket(family, SocketType::DGRAM, Some(protocol)).unwrap();
    rustix::net::connect(&socket, &SocketAddr::new(to, 0)).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(AGAIN)).unwrap();
    socket
}

/// `ping -s LEN`, until it is answered.
fn ping(to: IpAddr, len: usize) {
    let socket = ping_socket(to);
    let (kind, answer_kind) = if to.is_ipv4() { (8, 0) } else { (128, 129) };
    let mut message = [&[kind, 0, 0, 0, 0, 0, 0, 1][..], &noise(len)].concat();
    let mut answer = vec![0; 1 << 17];
    common::until("the answer to a ping", || {
        message[7] = message[7].wrapping_add(1);
        let _ = rustix::net::send(&socket, &message, SendFlags::empty());
        match rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()) {
            Ok((n, _)) if answer[7] == message[7] => {
                assert!(
                    n == message.len() && answer[0] == answer_kind && answer[8..n] == message[8..],
                    "{len} bytes to {to}"
                );
                true
            }
            _ => false, // of one before, or none
        }
    });
}

/// Sends everything to a host.
fn all_lengths(to: IpAddr) {
    for len in [56, 1472, 1473, 3000, 60_000] {
        ping(to, len);
    }
    let longest = if to.is_ipv4() { 65_507 } else { 65_527 };
    for len in [10, 1400, 1473, 3000, 9000, longest] {
        echo_datagram(SocketAddr::new(to, PORT), len);
    }
}

/// Lets root of this namespace, or of another one, send pings from sockets.
fn permit_pings(inside: &str) {
    assert!(runs(&format!("{inside}sysctl -w net.ipv4.ping_group_range=0\t0")));
}

#[test]
fn long_pings_and_datagrams() {
    in_namespace("fragments::long_pings_and_datagrams_inside");
}

#[test]
#[ignore = "for long_pings_and_datagrams"]
fn long_pings_and_datagrams_inside() {
    let nic = nic();
    permit_pings("");
    let server = Server::start(&nic, None);
    for host in HOSTS {
        all_lengths(host.parse().unwrap());
    }
    let counters = server.end();
    assert!(counters.reassembled >= 12 && counters.fragmented >= 12, "{counters:?}");
    let wrong = [counters.bad_checksum, counters.malformed, counters.refused, counters.fragments_dropped];
    assert_eq!(wrong, [0; 4], "{counters:?}");
}

#[test]
fn long_ones_across_a_router() {
    in_namespace("fragments::long_ones_across_a_router_inside");
}

/// What is too long for the link behind the router is cut there, or, over IPv6, here, once the router has said so.
#[test]
#[ignore = "for long_ones_across_a_router"]
fn long_ones_across_a_router_inside() {
    let nic = nic();
    let far = behind_a_router();
    let inside = format!("nsenter --target {} --net ", far.0.id());
    permit_pings(&inside);
    assert!(runs(&format!("{inside}ip link set far mtu 1400"))); // what is longer a veth drops without a word
    for (host, gateway) in [(HOSTS[0], "10.9.0.9"), (HOSTS[1], "fd09::9")] {
        let server = Server::start(&nic, Some(gateway.parse().unwrap()));
        let mut client = Command::new("nsenter");
        client.args([&format!("--target={}", far.0.id()), "--net"]).arg(std::env::current_exe().unwrap());
        client.args(["--exact", "fragments::client", "--ignored", "--nocapture"]).env(TO, host);
        let done = client.output().unwrap();
        assert!(done.status.success(), "{host}: {}", String::from_utf8_lossy(&done.stderr));
        let counters = server.end();
        assert!(counters.paths_lowered > 0 && counters.fragmented > 0, "{counters:?}");
        assert_eq!((counters.bad_checksum, counters.malformed), (0, 0), "{counters:?}");
    }
}

#[test]
#[ignore = "for long_ones_across_a_router"]
fn client() {
    if let Ok(host) = std::env::var(TO) {
        all_lengths(host.parse().unwrap());
    }
}
