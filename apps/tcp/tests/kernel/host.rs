//! A network namespace with a TAP port of the switch, and a stack on the switch that returns what it gets.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic_tcp::{Conn, Event, Stack};

use crate::common::{Nic, PATIENCE, byte, until};

/// The port: `ip` in this namespace calls it tap0.
pub const TAP: &str = "tap:tap0,address=10.9.0.9/24,address=fd09::9/64";

/// Runs a command; true when it succeeded.
pub fn runs(words: &str) -> bool {
    let mut words = words.split(' ');
    let done = Command::new(words.next().unwrap()).args(words).output();
    done.is_ok_and(|done| done.status.success())
}

/// A NIC with the TAP port, whose addresses can be used.
#[track_caller]
pub fn nic() -> Nic {
    let nic = Nic::start(&[TAP]);
    addresses_can_be_used();
    nic
}

/// Waits until the kernel uses all addresses of the port: until then it sends from others.
#[track_caller]
pub fn addresses_can_be_used() {
    until("the end of duplicate address detection", || {
        let shown = Command::new("ip").args(["-6", "addr", "show", "dev", "tap0"]).output().unwrap();
        std::thread::sleep(Duration::from_millis(10));
        shown.status.success() && !String::from_utf8_lossy(&shown.stdout).contains("tentative")
    });
}

/// A namespace with the addresses 10.8.0.2 and fd08::2, behind this one, whose link there carries 1400 bytes from here.
#[track_caller]
pub fn behind_a_router() -> Killed {
    let far = Command::new("unshare").args(["--net", "sleep", "1000"]).spawn().unwrap();
    let far = Killed(far);
    let pid = far.0.id();
    let inside = format!("nsenter --target {pid} --net");
    // It has its own namespace once the veth can be moved there and is gone here.
    until("the client's namespace", || {
        let (own, other) =
            (std::fs::read_link("/proc/self/ns/net"), std::fs::read_link(format!("/proc/{pid}/ns/net")));
        own.unwrap() != other.unwrap()
    });
    for command in [
        "sysctl -w net.ipv4.ip_forward=1".to_owned(),
        "sysctl -w net.ipv6.conf.all.forwarding=1".to_owned(),
        format!("ip link add near type veth peer name far netns {pid}"),
        "ip address add 10.8.0.1/24 dev near".to_owned(),
        "ip address add fd08::1/64 dev near nodad".to_owned(),
        "ip link set near mtu 1400 up".to_owned(),
        format!("{inside} ip address add 10.8.0.2/24 dev far"),
        format!("{inside} ip address add fd08::2/64 dev far nodad"),
        format!("{inside} ip link set far up"),
        format!("{inside} ip route add default via 10.8.0.1"),
        format!("{inside} ip -6 route add default via fd08::1"),
    ] {
        assert!(runs(&command), "{command}");
    }
    far
}

/// A process that ends with the test.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended already
        let _ = self.0.wait();
    }
}

/// What the server does with its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Returns what it gets, until the client closes.
    Echo,
    /// Returns the first bytes, and closes.
    Once,
}

/// A stack that serves in a thread.
pub struct Server {
    stop: Arc<AtomicBool>,
    pub mac: [u8; 6],
    /// Reads nothing while this is set.
    pub pause: Arc<AtomicBool>,
    /// Connections in the table.
    pub connections: Arc<AtomicUsize>,
    pub accepted: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Stack>>,
}

impl Server {
    /// Serves port 7.
    pub fn start(mut stack: Stack, manner: Manner) -> Server {
        let (stop, mac) = (Arc::new(AtomicBool::new(false)), stack.mac());
        let (pause, connections, accepted): (Arc<AtomicBool>, Arc<AtomicUsize>, Arc<AtomicUsize>) =
            Default::default();
        let watched = [Arc::clone(&connections), Arc::clone(&accepted)];
        let (stopped, paused) = (Arc::clone(&stop), Arc::clone(&pause));
        let thread = std::thread::spawn(move || {
            let listener = stack.listen(7, 512).unwrap();
            let mut conns: Vec<(Option<Conn>, Vec<u8>)> = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                if stack.poll() == 0 {
                    stack.wait(Duration::from_millis(5)).unwrap();
                }
                while let Some(event) = stack.next_event() {
                    if event == Event::Accept(listener) {
                        while let Some(conn) = stack.accept(listener) {
                            conns.resize(conns.len().max(conn.index() + 1), (None, Vec::new()));
                            conns[conn.index()] = (Some(conn), Vec::new());
                            watched[1].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                // All of them: with a pause an event may be long past.
                for (slot, unsent) in &mut conns {
                    if let Some(conn) = *slot
                        && !paused.load(Ordering::Relaxed)
                        && !serve(&mut stack, conn, unsent, manner)
                    {
                        stack.close(conn);
                        *slot = None;
                    }
                }
                watched[0].store(stack.connections(), Ordering::Relaxed);
            }
            stack
        });
        Server { stop, mac, pause, connections, accepted, thread: Some(thread) }
    }

    /// Ends it; returns the stack.
    pub fn end(mut self) -> Stack {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn serve(stack: &mut Stack, conn: Conn, unsent: &mut Vec<u8>, manner: Manner) -> bool {
    loop {
        while !unsent.is_empty() {
            match stack.write(conn, unsent) {
                Ok(n) => drop(unsent.drain(..n)),
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        let mut bytes = [0; 32 << 10];
        match stack.read(conn, &mut bytes) {
            Ok(0) => return false,
            Ok(n) => unsent.extend_from_slice(&bytes[..n]),
            Err(e) => return e.kind() == ErrorKind::WouldBlock,
        }
        if manner == Manner::Once {
            let _ = stack.write(conn, unsent); // a few bytes
            return false;
        }
    }
}

/// Connects from the kernel.
#[track_caller]
pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends so many bytes to a server that returns them, and compares.
#[track_caller]
pub fn echo(stream: TcpStream, len: usize) {
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let bytes: Vec<u8> = (0..len).map(|at| byte(5, at)).collect();
        writer.write_all(&bytes).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    assert_eq!(receive(stream, 0), len);
    sender.join().unwrap();
}

/// Reads to the end, where each byte behind the first `got` must be the one that [`echo`] sends there; returns how many there are in all.
pub fn receive(mut stream: impl Read, mut got: usize) -> usize {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let n = stream.read(&mut bytes).unwrap();
        if n == 0 {
            return got;
        }
        assert!((0..n).all(|i| bytes[i] == byte(5, got + i)), "after {got} bytes");
        got += n;
    }
}
