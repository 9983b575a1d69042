//! No reply is lost for want of room: the test is the server's NIC, which takes none until it has sent all requests.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ccnic_kv::rpc::{self, Operation, Status};
use ccnic_nic::{Desc, Nic, Part, Program, Queue, Takes};
use ccnic_tcp::udp::Template;

/// More than the server's rings have room for: 1024 descriptors each, of which it keeps 256 more itself.
const REQUESTS: u64 = 1500;
const VALUE: [u8; 500] = [7; 500];
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is ended when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The queue of the server, and the headers of requests to it.
struct Wire {
    queue: Queue,
    template: Template,
    frames: Vec<Vec<u8>>,
}

impl Wire {
    /// Sends a request; false when the ring is full.
    fn send(&mut self, operation: Operation, value: &[u8], number: u64) -> bool {
        let header = rpc::request(operation, 3, value.len(), number);
        let payload = [&header[..], b"key", value].concat();
        let meta = self.template.requests().word();
        let frame = [self.template.headers(payload.len()), &payload].concat();
        self.queue.tx_copy(&[Part { bytes: &frame, meta, more: false }]).unwrap() == 1
    }

    /// Status, number and value of each answer that has come.
    fn receive(&mut self) -> Vec<(u8, u64, Vec<u8>)> {
        let mut descs = [Desc::default(); 32];
        let n = self.queue.rx_burst(&mut descs);
        for desc in &descs[..n] {
            let mut frame = vec![0; desc.len().into()];
            self.queue.read(*desc, 0, &mut frame).unwrap();
            self.frames.push(frame);
        }
        self.queue.free(&descs[..n]).unwrap();
        let answers =
            self.frames.drain(..).filter(|frame| frame.len() >= 42 + rpc::HEADER && frame[23] == 17);
        answers
            .map(|frame| {
                let payload = &frame[42..];
                let number = u64::from_le_bytes(payload[8..16].try_into().unwrap());
                (payload[1], number, payload[rpc::HEADER..].to_vec())
            })
            .collect()
    }
}

/// Ends the thread that serves the control socket, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

fn exchange(design: &str) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nic");
    let takes = Takes::NONE.with_ip_checksum().with_l4_checksum();
    let nic = Nic::options().takes(takes).sleeps(true).listen(&socket).unwrap();
    let (over, (sender, arrived)) = (AtomicBool::new(false), mpsc::channel::<Program>());
    std::thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                nic.poll(Some(Duration::from_millis(10))).unwrap();
                if let Some(program) = nic.accept() {
                    sender.send(program).unwrap();
                }
            }
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic-kv"));
        command.arg("--ccnic").arg(&socket).args(["--address", "10.9.0.1/24", "-t", "1", "--design", design]);
        let _server = Server(command.args(["--rpc-port", "9000"]).stderr(Stdio::null()).spawn().unwrap());
        let program = arrived.recv_timeout(PATIENCE).unwrap();
        let macs = [[2, 0, 0, 0, 0, 9], program.mac().unwrap()];
        let template =
            Template::new(macs, "10.9.0.2:5000".parse().unwrap(), "10.9.0.1:9000".parse().unwrap());
        let mut wire =
            Wire { queue: program.queue(0).unwrap(), template: template.unwrap(), frames: Vec::new() };
        // The server may not have bound its port yet: until then it says nothing.
        let mut stored = Vec::new();
        until("an answer to a set", || {
            wire.send(Operation::Set, &VALUE, REQUESTS);
            std::thread::sleep(Duration::from_millis(1));
            stored = wire.receive();
            !stored.is_empty()
        });
        assert_eq!(stored[0].0, Status::Done as u8);
        for number in 0..REQUESTS {
            until("room for a request", || wire.send(Operation::Get, &[], number));
        }
        let mut answered = vec![0; REQUESTS as usize];
        until("every answer", || {
            for (status, number, value) in wire.receive().into_iter().filter(|answer| answer.1 < REQUESTS) {
                assert_eq!((status, &value[..]), (Status::Done as u8, &VALUE[..]));
                answered[number as usize] += 1;
            }
            answered.iter().all(|count| *count == 1)
        });
    });
}

#[test]
fn replies_wait_for_room() {
    for design in ["ccnic", "paper", "e810"] {
        exchange(design);
    }
}
