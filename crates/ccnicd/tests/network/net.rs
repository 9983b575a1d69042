//! Network namespaces, and what tests ask of the kernel in them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic_control::messages::{ProgramStatus, QueueStatus};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

#[allow(unused_imports, reason = "each test uses its part")]
pub use ccnic_testing::in_namespace;

use crate::common::{Daemon, PATIENCE, until};

/// Runs `ip` with these words.
#[track_caller]
pub fn ip(words: &str) -> String {
    said(Command::new("ip").args(words.split(' ')))
}

#[track_caller]
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Packets that the kernel has sent to a TAP interface: a super-packet is one.
#[track_caller]
pub fn packets_of_kernel(interface: &str) -> u64 {
    of_kernel(interface, 9)
}

/// Packets that it has dropped on their way there.
#[track_caller]
pub fn dropped_by_kernel(interface: &str) -> u64 {
    of_kernel(interface, 11)
}

/// A counter of an interface in this thread's namespace.
#[track_caller]
fn of_kernel(interface: &str, column: usize) -> u64 {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = devices
        .lines()
        .find_map(|line| line.trim().strip_prefix(&format!("{interface}:")).map(str::to_owned));
    line.unwrap().split_whitespace().nth(column).unwrap().parse().unwrap()
}

/// A daemon with a switch and these ports, and where it is.
pub struct Nic {
    pub daemon: Daemon,
    pub socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Nic {
    #[track_caller]
    pub fn start(ports: &[&str]) -> Nic {
        Nic::start_with(ports, &[])
    }

    /// With more arguments.
    #[track_caller]
    pub fn start_with(ports: &[&str], more: &[&str]) -> Nic {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let mut args = [&["--wire", "switch"], more].concat();
        ports.iter().for_each(|port| args.extend(["--port", port]));
        let mut daemon = Daemon::start_with(&socket, &args);
        daemon.status(); // it answers when the ports are open
        Nic { daemon, socket, _directory: directory }
    }

    /// With a configuration file of this text; returns where it is, too.
    #[track_caller]
    pub fn start_with_file(text: &str) -> (Nic, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (socket, file) = (directory.path().join("nic.sock"), directory.path().join("nic.toml"));
        std::fs::write(&file, text).unwrap();
        let args = ["--config", file.to_str().unwrap(), "--log", "info"];
        let mut daemon = Daemon::start_with(&socket, &args);
        daemon.status();
        (Nic { daemon, socket, _directory: directory }, file)
    }

    /// The port or program of that name.
    #[track_caller]
    pub fn port(&mut self, name: &str) -> ProgramStatus {
        self.daemon.program(name).unwrap()
    }

    /// The counters of all its queues together.
    #[track_caller]
    pub fn counters(&mut self, name: &str) -> QueueStatus {
        self.port(name).queues.into_iter().reduce(sum).unwrap()
    }

    /// Over all ports, packets that came are those that went and those that were dropped.
    #[track_caller]
    pub fn accounts_for_all(&mut self) {
        until("all packets to be somewhere", || {
            let programs = self.daemon.status().programs;
            let all = programs.into_iter().flat_map(|program| program.queues).reduce(sum).unwrap();
            all.tx_packets + all.extra_copies == all.rx_packets + drops(&all)
        });
    }
}

pub fn drops(q: &QueueStatus) -> u64 {
    q.dropped()
}

fn sum(a: QueueStatus, b: QueueStatus) -> QueueStatus {
    let mut values = a.values();
    values.iter_mut().zip(b.values()).for_each(|(value, more)| *value += more);
    QueueStatus::with_values(a.queue, a.core, values)
}

/// Another network namespace, for as long as this lives.
pub struct Namespace(Child);

impl Namespace {
    /// A new one.
    pub fn new() -> Namespace {
        let child =
            Command::new("unshare").args(["--net", "sleep", "600"]).stdin(Stdio::null()).spawn().unwrap();
        let this = Namespace(child);
        let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
        until("a namespace", || std::fs::read_link(this.path()).is_ok_and(|theirs| theirs != ours));
        this
    }

    /// A process that is there.
    pub fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// What it is called by who enters it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    /// Moves an interface from there to this namespace.
    pub fn give(&self, interface: &str) {
        self.ip(&format!("link set {interface} netns {}", std::process::id()));
    }

    /// Moves an interface there.
    pub fn take(&self, interface: &str) {
        ip(&format!("link set {interface} netns {}", self.0.id()));
    }

    /// As [`ip`], there.
    #[track_caller]
    pub fn ip(&self, words: &str) -> String {
        said(self.command("ip").args(words.split(' ')))
    }

    /// A command that is to run there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.0.id().to_string(), "--net", program]);
        command
    }

    /// Runs `f` on a thread that is there.
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let there = File::open(self.path()).unwrap();
        std::thread::spawn(move || {
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&there), Some(LinkNameSpaceType::Network))
                .unwrap();
            f()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended already
        let _ = self.0.wait();
    }
}

/// The byte at a place of what is sent in a direction.
pub fn byte(direction: u8, at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ direction
}

/// Sends `len` bytes of one direction over TCP while it receives as many of the other one, and compares every byte.
pub fn exchange(stream: TcpStream, [sends, receives]: [u8; 2], len: usize) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let mut bytes = vec![0; 256 << 10];
        for at in (0..len).step_by(bytes.len()) {
            let part = bytes.len().min(len - at);
            bytes[..part].iter_mut().enumerate().for_each(|(i, to)| *to = byte(sends, at + i));
            writer.write_all(&bytes[..part]).unwrap();
        }
    });
    let (mut reader, mut got) = (stream, 0);
    let mut bytes = vec![0; 256 << 10];
    while got < len {
        let n = match reader.read(&mut bytes) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            outcome => outcome.unwrap(),
        };
        assert!(n > 0, "the connection ended after {got} of {len} bytes");
        assert!(
            bytes[..n].iter().enumerate().all(|(i, b)| *b == byte(receives, got + i)),
            "after {got} bytes"
        );
        got += n;
    }
    sender.join().unwrap();
}

/// Connects, for as long as it takes: an IPv6 address is not usable for a second after it was given.
pub fn connect(to: SocketAddr) -> TcpStream {
    let mut stream = None;
    until("a connection", || {
        stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).ok();
        stream.is_some()
    });
    stream.unwrap()
}

/// Waits for one connection.
pub fn accept(at: SocketAddr) -> TcpListener {
    let mut listener = None;
    until("a listening socket", || {
        listener = TcpListener::bind(at).ok();
        listener.is_some()
    });
    listener.unwrap()
}

/// The kernel's side of ping.
pub struct Pinger {
    socket: std::os::fd::OwnedFd,
    to: IpAddr,
    sequence: u16,
}

impl Pinger {
    pub fn new(to: IpAddr) -> Pinger {
        let (family, protocol) = match to {
            IpAddr::V4(_) => (AddressFamily::INET, rustix::net::ipproto::ICMP),
            IpAddr::V6(_) => (AddressFamily::INET6, rustix::net::ipproto::ICMPV6),
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::RAW, flags, Some(protocol)).unwrap();
        Pinger { socket, to, sequence: 0 }
    }

    /// Sends one echo request with so many bytes of data.
    pub fn send(&mut self, len: usize) {
        self.sequence += 1;
        let kind = if self.to.is_ipv4() { 8 } else { 128 };
        let mut message = vec![kind, 0, 0, 0, 0x12, 0x34];
        message.extend(self.sequence.to_be_bytes());
        message.extend((0..len).map(|at| byte(9, at)));
        if self.to.is_ipv4() {
            let checksum = ccnic_frame::Sum::of(&message).checksum().to_be_bytes(); // of ICMPv6 the kernel does it
            message[2..4].copy_from_slice(&checksum);
        }
        let _ = rustix::net::sendto(&self.socket, &message, SendFlags::empty(), &SocketAddr::new(self.to, 0));
    }

    /// True when the answer to the last request has come, with its data.
    pub fn answered(&mut self) -> bool {
        let mut bytes = vec![0; 64 << 10];
        while let Ok((n, _)) = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
            let message = if self.to.is_ipv4() { &bytes[20..n] } else { &bytes[..n] };
            let kind = if self.to.is_ipv4() { 0 } else { 129 };
            let header = [0x12, 0x34, (self.sequence >> 8) as u8, self.sequence as u8];
            if message[0] == kind && message[4..8] == header {
                assert!(message[8..].iter().enumerate().all(|(at, b)| *b == byte(9, at)), "other data");
                return true;
            }
        }
        false
    }
}
