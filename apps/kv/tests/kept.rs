//! Values that are sent without a copy: what arrives is what was stored when the get was answered, whatever has become of the item since,
//! and whatever becomes of the NIC. The test is the NIC, which leaves replies in the ring while items are overwritten, deleted, evicted.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod wire;

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use ccnic_kv::rpc::Status;
use ccnic_kv::store::{Limits, Store, snapshot};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wire::{Answer, Server, Wire, until};

/// Little memory: two mebibytes for items, one for kept values, which are all from 300 bytes on.
const OPTIONS: [&str; 8] = ["-m", "2", "-I", "64k", "--kept-memory", "1", "--kept-from", "300"];
const KEYS: u8 = 8;

#[derive(Debug, Clone, Copy)]
enum Step {
    Set(u8, u16),
    /// So many gets.
    Get(u8, u8),
    Delete(u8),
    Append(u8),
    /// Two mebibytes of other items, so that some are evicted.
    Others,
    /// Takes what has come.
    Receive,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS;
    let len = prop_oneof![0u16..600, 1000u16..9000];
    prop_oneof![
        6 => (key.clone(), len).prop_map(|(key, len)| Step::Set(key, len)),
        12 => (key.clone(), 1u8..5).prop_map(|(key, times)| Step::Get(key, times)),
        2 => key.clone().prop_map(Step::Delete),
        1 => key.prop_map(Step::Append),
        1 => Just(Step::Others),
        2 => Just(Step::Receive),
    ]
}

/// A value that no other one resembles.
fn value(version: u64, len: usize) -> Vec<u8> {
    let seed = version.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..len as u64).map(|i| (seed.wrapping_add(i.wrapping_mul(0x2545_f491_4f6c_dd1d)) >> 56) as u8).collect()
}

/// What must be answered to a get.
#[derive(Debug)]
struct Expected {
    value: Option<Vec<u8>>,
    /// It may have been evicted.
    or_nothing: bool,
}

/// The store as it should be, and the answers that are still to come.
struct Model {
    wire: Wire,
    items: HashMap<u8, (Vec<u8>, bool)>,
    expected: HashMap<u64, Expected>,
    number: u64,
}

impl Model {
    fn new(wire: Wire) -> Model {
        Model { wire, items: HashMap::new(), expected: HashMap::new(), number: 0 }
    }

    /// Sends a request. When the ring is full something has to be received.
    fn send(&mut self, mut request: impl FnMut(&mut Wire, u64) -> bool) {
        self.number += 1;
        let number = self.number;
        until("room for a request", || {
            let sent = request(&mut self.wire, number);
            if !sent {
                self.receive();
            }
            sent
        });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Set(key, len) => {
                let new = value(self.number + 1, len.into());
                self.send(|wire, number| wire.set(&name(key), &new, number));
                self.items.insert(key, (new, false));
            }
            Step::Get(key, times) => {
                for _ in 0..times {
                    self.send(|wire, number| wire.get(&name(key), number));
                    let (value, or_nothing) = self.items.get(&key).cloned().unzip();
                    let or_nothing = or_nothing.unwrap_or(true);
                    self.expected.insert(self.number, Expected { value, or_nothing });
                }
            }
            Step::Delete(key) => {
                self.send(|wire, number| wire.text(&format!("delete key{key}"), number as u16));
                self.items.remove(&key);
            }
            Step::Append(key) => {
                self.send(|wire, number| wire.text(&format!("append key{key} 0 0 3\r\nabc"), number as u16));
                self.items.entry(key).and_modify(|(value, _)| value.extend_from_slice(b"abc"));
            }
            Step::Others => {
                for other in 0..250 {
                    self.send(|wire, number| {
                        wire.set(format!("other{other}").as_bytes(), &[9; 8000], number)
                    });
                }
                self.items.values_mut().for_each(|(_, or_nothing)| *or_nothing = true);
            }
            Step::Receive => self.receive(),
        }
    }

    /// Compares what has come.
    fn receive(&mut self) {
        for answer in self.wire.receive() {
            let Answer::Rpc { number, status, value } = answer else { continue };
            match self.expected.remove(&number) {
                // A set, or a get of the beginning.
                None => assert!(status == Status::Done as u8 || number == u64::MAX, "{number}: {status}"),
                Some(expected) if status == Status::Done as u8 => {
                    assert!(expected.value.as_ref() == Some(&value), "get {number}: other bytes");
                }
                Some(expected) => {
                    assert!(
                        expected.or_nothing && status == Status::NotFound as u8,
                        "get {number}: {status}"
                    );
                }
            }
        }
    }

    fn receive_all(&mut self) {
        until("all answers", || {
            self.receive();
            self.expected.is_empty()
        });
    }
}

fn name(key: u8) -> Vec<u8> {
    format!("key{key}").into_bytes()
}

#[test]
fn what_arrives_is_what_was_stored_when_it_was_answered() {
    let (_server, wire) = Server::start(&OPTIONS);
    let model = RefCell::new(Model::new(wire));
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let done = runner.run(&prop::collection::vec(step(), 1..150), |steps| {
        let model = &mut *model.borrow_mut();
        steps.iter().for_each(|step| model.step(*step));
        model.receive_all();
        Ok(())
    });
    done.unwrap();
    let uncopied = model.borrow_mut().wire.stat("nic_uncopied");
    assert!(uncopied > 500, "{uncopied} values were sent without a copy");
}

/// As many values as the memory has room for, each of which takes 32 units of 256 bytes.
const ALL: u8 = 128;
const LEN: usize = 8192;

/// Sets and asks for all keys, until all of them are sent without a copy.
fn keep_all(model: &mut Model) {
    for key in 0..ALL {
        model.step(Step::Set(key, LEN as u16));
        model.receive();
    }
    until("kept values", || {
        let before = model.wire.stat("nic_uncopied");
        for key in 0..ALL {
            model.step(Step::Get(key, 1));
            model.receive();
        }
        model.receive_all();
        model.wire.stat("nic_uncopied") - before == u64::from(ALL)
    });
}

/// The NIC ends with replies in its hands: their memory is nobody else's before the next one has taken over, and then is used again.
#[test]
fn values_outlive_a_nic_that_holds_them() {
    let (server, wire) = Server::start(&["--kept-memory", "1", "--kept-from", "300"]);
    let mut model = Model::new(wire);
    for _ in 0..3 {
        keep_all(&mut model);
        for key in 0..ALL {
            model.step(Step::Get(key, 1)); // nobody takes the answers
        }
        let (items, number) = (model.items, model.number);
        drop(model.wire);
        model = Model { items, number, ..Model::new(server.next_nic()) };
        for key in 0..ALL {
            model.step(Step::Get(key, 2));
            if key % 2 == 0 {
                model.step(Step::Set(key, 3000));
                model.step(Step::Get(key, 3));
            }
            model.receive();
        }
        model.receive_all();
    }
    keep_all(&mut model);
}

/// A client that takes nothing: the server stops reading, and its memory stays within what was asked for.
#[test]
fn replies_that_nobody_takes_cost_no_memory() {
    let (server, wire) = Server::start(&["-m", "8", "--kept-memory", "2", "--kept-from", "300"]);
    // With the region, all of which is there from the start.
    let empty = server.memory();
    let mut model = Model::new(wire);
    for round in 0..4u16 {
        let (mut number, mut sent, mut full) = (0u64, 0, 0);
        // The server has stopped reading when the ring is full for a while; before so many requests, it only came late.
        while full < 100 || sent <= 400 {
            assert!(full < 20_000, "round {round}: the server reads nothing after {sent} requests");
            number += 1;
            let key = format!("key{}", number % 3000);
            let value = value(number, 2000 + usize::from(round) * 2000);
            let done = match number % 3 {
                0 => model.wire.set(key.as_bytes(), &value, u64::MAX),
                _ => model.wire.get(b"key0", u64::MAX) && model.wire.get(key.as_bytes(), u64::MAX),
            };
            if done {
                (sent, full) = (sent + 1, 0);
            } else {
                full += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // One more request is answered after all that waits: what has been empty once may be filled again.
        let (last, mut asked) = (u64::from(round), false);
        until("the end of what it holds", || {
            asked = asked || model.wire.get(b"key0", last);
            let is_last = |answer: &Answer| matches!(answer, Answer::Rpc { number, .. } if *number == last);
            model.wire.receive().iter().any(is_last)
        });
    }
    // The items, and requests and replies that wait: 1 MiB and 4096 datagrams at most.
    let bound = empty + (8 << 20) + (1 << 20) + 4096 * 1500 + (2 << 20);
    let used = server.memory();
    assert!(used <= bound, "{used} of {bound}, {empty} at the start");
}

/// Kept values are in snapshots: in one that is written meanwhile, and in that of the end, when their memory goes.
#[test]
fn snapshots_have_kept_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    let options = ["--kept-memory", "1", "--kept-from", "300", "--snapshot", path.to_str().unwrap()];
    let (mut server, wire) = Server::start(&options);
    let mut model = Model::new(wire);
    keep_all(&mut model);
    server.signal("USR1");
    until("a snapshot", || path.exists());
    let check = |items: &HashMap<u8, (Vec<u8>, bool)>| {
        let store = Store::new(1, &Limits::default(), 100);
        let mut session = store.session(200);
        assert_eq!(snapshot::load(&mut session, &path, &|| false).unwrap(), Some(items.len() as u64));
        for (key, (value, _)) in items {
            assert!(session.get(&name(*key)).unwrap().bytes() == [&value[..], b"\r\n"].concat());
        }
    };
    check(&model.items);
    for key in 0..10 {
        model.step(Step::Delete(key));
        model.step(Step::Set(key + 20, 5000));
    }
    model.step(Step::Get(100, 1));
    model.receive_all();
    assert!(server.end());
    check(&model.items);
}
