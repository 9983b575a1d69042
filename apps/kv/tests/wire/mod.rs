//! A server whose NIC is the test: it takes what the server sends when it likes, and ends when it likes.

#![allow(dead_code, reason = "no test uses everything")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic_kv::rpc::{self, Operation};
use ccnic_nic::{Desc, Nic, Part, Program, Queue, Takes};
use ccnic_tcp::udp::Template;
use ccnic_testing::PATIENCE;
pub use ccnic_testing::until;

const RPC: u16 = 9000;
const TEXT: u16 = 11211;

/// A server with one queue pair, which is killed when it is dropped.
pub struct Server {
    process: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts it with these options, attached to the first NIC.
    pub fn start(options: &[&str]) -> (Server, Wire) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nic");
        let control = Control::start(&socket);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic-kv"));
        command.arg("--ccnic").arg(&socket).args(["--address", "10.9.0.1/24", "-t", "1"]);
        if !options.contains(&"--mtu") {
            command.args(["--mtu", "9586"]);
        }
        command.args(["--rpc-port", "9000", "-U", "11211"]).args(options);
        let process = command.stderr(Stdio::null()).spawn().unwrap();
        (Server { process, socket, _folder: folder }, Wire::new(control))
    }

    /// The next NIC at the same socket, once the server has attached.
    pub fn next_nic(&self) -> Wire {
        Wire::new(Control::start(&self.socket))
    }

    pub fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// The most memory that it has had, in bytes.
    pub fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    /// Ends it by SIGTERM, and waits.
    pub fn end(&mut self) -> bool {
        self.signal("TERM");
        self.process.wait().unwrap().success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The thread that serves the control socket.
struct Control {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    programs: mpsc::Receiver<Program>,
}

impl Control {
    fn start(socket: &Path) -> Control {
        let takes = Takes::NONE.with_ip_checksum().with_l4_checksum();
        let nic = Nic::options().takes(takes).sleeps(true).listen(socket).unwrap();
        let (over, (sender, programs)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                nic.poll(Some(Duration::from_millis(10))).unwrap();
                nic.accept().into_iter().for_each(|program| _ = sender.send(program));
            }
        });
        Control { over, thread: Some(thread), programs }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The queue of the server, and the headers of requests to it. When it is dropped the NIC has ended, with all that it holds.
pub struct Wire {
    pub queue: Queue,
    templates: [Template; 2],
    /// A frame that has come in part.
    chain: Vec<u8>,
    _program: Program,
    _control: Control,
}

/// An answer: its number (of text: of its frame header) and the payload behind the header.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Rpc { number: u64, status: u8, value: Vec<u8> },
    Text { number: u16, text: Vec<u8> },
}

impl Wire {
    fn new(control: Control) -> Wire {
        let program = control.programs.recv_timeout(PATIENCE).unwrap();
        let macs = [[2, 0, 0, 0, 0, 9], program.mac().unwrap()];
        let to = |port| {
            Template::new(macs, "10.9.0.2:5000".parse().unwrap(), ([10, 9, 0, 1], port).into()).unwrap()
        };
        let queue = program.queue(0).unwrap();
        let mut wire = Wire {
            queue,
            templates: [to(RPC), to(TEXT)],
            chain: Vec::new(),
            _program: program,
            _control: control,
        };
        // The server may not have bound its ports yet: until then it says nothing.
        until("an answer to a get", || {
            wire.get(b"nothing", u64::MAX);
            std::thread::sleep(Duration::from_millis(1));
            !wire.receive().is_empty()
        });
        wire
    }

    fn send(&mut self, to: usize, payload: &[u8]) -> bool {
        let template = &mut self.templates[to];
        let meta = template.requests().word();
        let frame = [template.headers(payload.len()), payload].concat();
        self.queue.tx_copy(&[Part { bytes: &frame, meta, more: false }]).unwrap() == 1
    }

    /// Sends a get; false when the ring is full.
    pub fn get(&mut self, key: &[u8], number: u64) -> bool {
        self.send(0, &[&rpc::request(Operation::Get, key.len(), 0, number), key].concat())
    }

    /// Sends a set; false when the ring is full.
    pub fn set(&mut self, key: &[u8], value: &[u8], number: u64) -> bool {
        self.send(0, &[&rpc::request(Operation::Set, key.len(), value.len(), number), key, value].concat())
    }

    /// Sends a text command; false when the ring is full.
    pub fn text(&mut self, command: &str, number: u16) -> bool {
        let [a, b] = number.to_be_bytes();
        self.send(1, &[&[a, b, 0, 0, 0, 1, 0, 0], command.as_bytes(), b"\r\n"].concat())
    }

    /// What the server has counted under a name; all other answers are thrown away.
    pub fn stat(&mut self, name: &str) -> u64 {
        let (mut all, mut asked) = (String::new(), 0);
        until("what was counted", || {
            if asked % 1000 == 0 {
                all.clear();
                self.text("stats", 9999);
                std::thread::sleep(Duration::from_millis(1));
            }
            asked += 1;
            for answer in self.receive() {
                if let Answer::Text { number: 9999, text } = answer {
                    all += &String::from_utf8(text).unwrap();
                }
            }
            all.ends_with("END\r\n")
        });
        let line =
            all.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or("0").parse().unwrap()
    }

    /// The answers that have come.
    pub fn receive(&mut self) -> Vec<Answer> {
        let mut descs = [Desc::default(); 32];
        let n = self.queue.rx_burst(&mut descs);
        let mut answers = Vec::new();
        for desc in &descs[..n] {
            let at = self.chain.len();
            self.chain.resize(at + usize::from(desc.len()), 0);
            self.queue.read(*desc, 0, &mut self.chain[at..]).unwrap();
            if !desc.more() {
                answers.extend(answer(&std::mem::take(&mut self.chain)));
            }
        }
        self.queue.free(&descs[..n]).unwrap();
        answers
    }
}

/// The answer in a frame, unless it is one of ARP.
fn answer(frame: &[u8]) -> Option<Answer> {
    let payload = frame.get(42..).filter(|_| frame[12..14] == [8, 0] && frame[23] == 17)?;
    if frame[34..36] == TEXT.to_be_bytes() {
        let number = u16::from_be_bytes([payload[0], payload[1]]);
        return Some(Answer::Text { number, text: payload[8..].to_vec() });
    }
    let number = u64::from_le_bytes(payload[8..16].try_into().unwrap());
    Some(Answer::Rpc { number, status: payload[1], value: payload[rpc::HEADER..].to_vec() })
}
