//! Values that are sent without a copy: they arrive as they were written, whatever is freed meanwhile, and outlive NICs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;
#[allow(dead_code, reason = "other tests use the rest")]
mod test_nic {
    include!("../../../crates/ccnic-client/src/test_nic.rs");
}

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;

use ccnic_tcp::{Datagrams, Kept, KeptMemory, Peer, Reply, Stack};
use common::transfer::{at, connection};
use common::{Nic, alone, byte, options, peer, until};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use test_nic::TestNic;

const SERVER: &str = "10.9.0.1";
const MEMORY: usize = 256 << 10;

/// A value of this number: its bytes say which it is.
fn value(number: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| byte(number, i)).collect()
}

/// A NIC, a server with port 11 and kept memory, a client with port 12.
fn two() -> (Nic, Stack, Stack) {
    let nic = Nic::start(&[]);
    let open = |v4, v6, kept| {
        let mut options = options(v4, v6);
        (options.mtu, options.kept) = (9000, kept);
        Stack::open(&nic.socket, &options).unwrap()
    };
    let (mut server, mut client) =
        (open("10.9.0.1/24", "fd09::1/64", MEMORY), open("10.9.0.2/24", "fd09::2/64", 0));
    server.bind(11).unwrap();
    client.bind(12).unwrap();
    (nic, server, client)
}

fn filled(memory: &mut KeptMemory, number: u8, len: usize) -> Option<Kept> {
    let mut kept = memory.alloc(len)?;
    assert!(memory.write(&mut kept, 0, &value(number, len)));
    Some(kept)
}

/// What a request asks for: its bytes, one after another.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Store a value of this many bytes in place of what the slot has.
    Set(u8, u16),
    /// Answer with the slot's value from this byte on, between so many other bytes before and behind it.
    Get(u8, u16, u8, u8),
    /// Free the value.
    Delete(u8),
}

const SLOTS: u8 = 8;

fn step() -> impl Strategy<Value = Step> {
    let slot = 0..SLOTS;
    prop_oneof![
        2 => (slot.clone(), prop_oneof![0u16..600, 0u16..8500]).prop_map(|(slot, len)| Step::Set(slot, len)),
        4 => (slot.clone(), any::<u16>(), 0u8..200, 0u8..200).prop_map(|(slot, from, before, behind)| Step::Get(slot, from, before, behind)),
        1 => slot.prop_map(Step::Delete),
    ]
}

/// A store of a few values, each of which has a number of its own.
#[derive(Default)]
struct Store {
    slots: [Option<(u8, Kept)>; SLOTS as usize],
    sets: u8,
}

impl Store {
    fn set(&mut self, memory: &mut KeptMemory, slot: u8, len: u16) {
        self.sets = self.sets.wrapping_add(1);
        let new = filled(memory, self.sets, len.into()).map(|kept| (self.sets, kept));
        if let Some((_, old)) = std::mem::replace(&mut self.slots[usize::from(slot)], new) {
            memory.free(old); // perhaps in many datagrams
        }
    }

    /// Puts an answer into `reply`; returns it.
    fn get(&self, reply: &mut Reply<'_>, step: Step) -> Option<Vec<u8>> {
        let Step::Get(slot, from, before, behind) = step else { return None };
        let (number, kept) = self.slots[usize::from(slot)].as_ref()?;
        let range = usize::from(from) % (kept.len() + 1)..kept.len();
        let before = value(201, before.into());
        let whole =
            [&before[..], &value(*number, kept.len())[range.clone()], &value(202, behind.into())].concat();
        let put = reply.put(&before)
            && reply.put_kept(kept, range)
            // What is behind comes in two pieces.
            && value(202, behind.into()).chunks(100).all(|piece| reply.put(piece));
        put.then_some(whole)
    }
}

/// A client that keeps what has come.
#[derive(Default)]
struct Inbox(Vec<Vec<u8>>);

impl Datagrams for Inbox {
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, payload: &[u8], _: &mut Reply<'_>) {
        self.0.push(payload.to_vec());
    }
}

/// Does the steps, many answers at a time under way, and compares all that comes.
fn run(server: &mut Stack, client: &mut Stack, to: &Peer, steps: &[Step]) {
    let (mut store, mut inbox, mut expected) = (Store::default(), Inbox::default(), Vec::new());
    let all = server.kept().available();
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Set(slot, len) => store.set(server.kept(), slot, len),
            Step::Delete(slot) => {
                if let Some((_, old)) = store.slots[usize::from(slot)].take() {
                    server.kept().free(old);
                }
            }
            Step::Get(..) => {
                let mut reply = server.compose(11, to).unwrap();
                let answer = store.get(&mut reply, *step);
                assert_eq!(reply.send(), answer.is_some());
                expected.extend(answer);
            }
        }
        if i % 7 == 6 {
            server.flush();
        }
    }
    // Freed with everything under way: nothing that is stored afterwards may be in what arrives.
    for slot in &mut store.slots {
        slot.take().into_iter().for_each(|(_, old)| server.kept().free(old));
    }
    let mut others = Vec::new();
    until("the answers", || {
        others.extend(std::iter::from_fn(|| filled(server.kept(), 200, 3000)));
        server.poll();
        client.poll_datagrams(&mut inbox);
        inbox.0.len() >= expected.len()
    });
    assert!(inbox.0 == expected, "{} answers", expected.len());
    others.into_iter().for_each(|other| server.kept().free(other));
    until("all memory", || {
        server.poll();
        server.kept().available() == all && server.kept().leaving() == 0
    });
}

#[test]
fn values_arrive_as_they_were_whatever_is_freed() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let to = peer(&mut client, &mut server, at("10.9.0.2", 12));
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec(step(), 1..120);
    let hosts = RefCell::new((server, client));
    let done = runner.run(&steps, |steps| {
        let (server, client) = &mut *hosts.borrow_mut();
        run(server, client, &to, &steps);
        Ok(())
    });
    done.unwrap();
}

/// Answers with a value, which it frees and stores anew at once.
struct Fresh(u8);

impl Datagrams for Fresh {
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, _: &[u8], reply: &mut Reply<'_>) {
        self.0 += 1;
        let kept = filled(reply.kept(), self.0, 5000).unwrap();
        assert!(reply.put_kept(&kept, 0..1000) && reply.put(b"-") && reply.put_kept(&kept, 1000..5000));
        reply.kept().free(kept);
    }
}

#[test]
fn a_handler_answers_with_values() {
    const REQUESTS: u8 = 30;
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let to = peer(&mut server, &mut client, at(SERVER, 11));
    (0..REQUESTS).for_each(|_| assert!(client.send_to(12, &to, &[b"get"])));
    let (mut answers, mut inbox) = (Fresh(0), Inbox::default());
    until("the answers", || {
        client.poll_datagrams(&mut inbox);
        server.poll_datagrams(&mut answers);
        inbox.0.len() == usize::from(REQUESTS)
    });
    for (number, answer) in (1..).zip(&inbox.0) {
        let whole = value(number, 5000);
        assert!(*answer == [&whole[..1000], b"-", &whole[1000..]].concat(), "answer {number}");
    }
    assert_eq!(server.counters().refused, 0);
}

#[test]
fn what_cannot_be_is_refused() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let to = peer(&mut client, &mut server, at("10.9.0.2", 12));
    let mut kept = filled(server.kept(), 1, 1000).unwrap();
    let (inside, outside) = (999..1000, 999..1001);
    for (range, fits) in [(inside.clone(), true), (outside.clone(), false)] {
        let mut datagram = server.compose(11, &to).unwrap();
        assert_eq!(datagram.put_kept(&kept, range), fits);
        assert_eq!(datagram.send(), fits);
        let mut lent = 0;
        server
            .kept()
            .read(&kept, if fits { inside.clone() } else { outside.clone() }, |bytes| lent += bytes.len());
        assert_eq!(lent, usize::from(fits));
    }
    // It is under way now, or has been: written no more.
    assert!(!server.kept().write(&mut kept, 0, b"x"));
    // Another stack's value, and one that is too long.
    let mut other = common::options("10.9.0.3/24", "fd09::3/64");
    other.kept = MEMORY;
    let mut other = Stack::open(&_nic.socket, &other).unwrap();
    let mut theirs = filled(other.kept(), 2, 1000).unwrap();
    let mut datagram = server.compose(11, &to).unwrap();
    assert!(!datagram.put_kept(&theirs, 0..1000) && !datagram.send());
    assert!(!server.kept().write(&mut theirs, 0, b"x"));
    let long = filled(server.kept(), 3, 65_508).unwrap();
    let mut datagram = server.compose(11, &to).unwrap();
    assert!(!datagram.put_kept(&long, 0..65_508), "it is longer than any packet");
    assert!(!datagram.send());
    assert!(server.kept().alloc(MEMORY).is_none());
    server.kept().free(theirs); // no effect
    for kept in [kept, long] {
        server.kept().free(kept);
    }
    until("all memory", || {
        server.poll();
        server.kept().available() == MEMORY
    });
    assert_eq!(other.kept().available(), MEMORY - 1024);
}

/// TCP copies a value into the connection's buffer.
#[test]
fn a_value_is_written_to_a_connection() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let (accepted, conn) = connection(&mut server, &mut client, SERVER);
    let kept = filled(server.kept(), 7, 100_000).unwrap();
    let (mut sent, mut got) = (0, Vec::new());
    until("the value", || {
        if sent < kept.len() {
            match server.write_kept(accepted, &kept, sent..kept.len()) {
                Ok(n) => sent += n,
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
        }
        server.poll();
        client.poll();
        let mut bytes = [0; 9000];
        if let Ok(n) = client.read(conn, &mut bytes) {
            got.extend_from_slice(&bytes[..n]);
        }
        got.len() >= kept.len()
    });
    assert!(got == value(7, kept.len()));
    let error = server.write_kept(accepted, &kept, 1..100_001).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// One NIC after another: values are sent where they lie, to one that does not know that as a copy that the queue pair makes, and to one
/// that computes no checksums as a copy that the stack makes. All of it comes back: the NICs are loopbacks.
#[test]
fn nics_that_know_less_get_copies() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nic.sock");
    let mut nic = TestNic::start_taking(&socket, true);
    let mut options = options("10.9.0.1/24", "fd09::1/64");
    (options.mtu, options.kept) = (9000, MEMORY);
    let mut stack = Stack::open(&socket, &options).unwrap();
    stack.bind(11).unwrap();
    let mut to = None;
    until("its own address", || {
        stack.poll();
        to = stack.peer(at(SERVER, 11)).unwrap();
        to.is_some()
    });
    let stays = filled(stack.kept(), 1, 5000).unwrap();
    for (round, known) in [true, false, true, true].into_iter().enumerate() {
        assert_eq!(stack.queue_pair().unwrap().knows_kept(), known);
        for _ in 0..40 {
            let mut inbox = Inbox::default();
            let goes = filled(stack.kept(), 2, 3000).unwrap();
            let mut datagram = stack.compose(11, &to.unwrap()).unwrap();
            assert!(
                datagram.put_kept(&stays, 0..5000)
                    && datagram.put(b"and")
                    && datagram.put_kept(&goes, 0..3000)
            );
            assert!(datagram.send());
            stack.kept().free(goes);
            until("it and its memory", || {
                stack.poll_datagrams(&mut inbox);
                !inbox.0.is_empty() && stack.kept().available() == MEMORY - 5120
            });
            assert!(inbox.0 == [[&value(1, 5000)[..], b"and", &value(2, 3000)].concat()]);
        }
        drop(nic);
        nic = match round {
            0 => TestNic::start_taking(&socket, false),
            1 => TestNic::start(&socket, false),
            _ => TestNic::start_taking(&socket, true),
        };
        until("the next NIC", || {
            stack.poll();
            stack.counters().reconnects == round as u64 + 1
        });
    }
    stack.kept().free(stays);
    assert_eq!(stack.counters().refused, 0);
}

/// The NIC ends with values in its hands: their memory is not given away before the next one has taken over.
#[test]
fn a_killed_nic_keeps_what_it_holds_until_the_next_one() {
    let _alone = alone();
    let (mut nic, mut server, mut client) = two();
    let to = peer(&mut client, &mut server, at("10.9.0.2", 12));
    let stays = filled(server.kept(), 1, 5000).unwrap();
    for round in 1..=3 {
        let goes = filled(server.kept(), 2, 5000).unwrap();
        nic.kill();
        for kept in [&goes, &stays, &goes] {
            let mut datagram = server.compose(11, &to).unwrap();
            assert!(datagram.put_kept(kept, 0..5000) && datagram.send());
        }
        server.flush();
        server.kept().free(goes);
        let size = 5120;
        assert_eq!(server.kept().leaving(), size);
        let rest: Vec<Kept> = std::iter::from_fn(|| filled(server.kept(), 3, 256)).collect();
        assert_eq!(rest.len() * 256, MEMORY - 2 * size);
        for _ in 0..1000 {
            server.poll();
            assert!(server.kept().alloc(1).is_none());
        }
        rest.into_iter().for_each(|kept| server.kept().free(kept));
        assert_eq!((server.kept().available(), server.kept().leaving()), (MEMORY - 2 * size, size));
        nic.start_again(&[]);
        until("the memory", || {
            server.poll();
            client.poll();
            server.kept().leaving() == 0
        });
        let mut inbox = Inbox::default();
        until("the value that has stayed", || {
            // What is sent while the client still has no NIC is lost.
            let mut datagram = server.compose(11, &to).unwrap();
            datagram.put_kept(&stays, 0..5000);
            datagram.send();
            server.poll();
            client.poll_datagrams(&mut inbox);
            !inbox.0.is_empty()
        });
        assert!(inbox.0.iter().all(|got| *got == value(1, 5000) || *got == value(2, 5000)));
        assert_eq!(server.counters().reconnects, round);
        let mut inbox = Inbox::default();
        until("all of it", || {
            server.poll();
            client.poll_datagrams(&mut inbox) == 0 && server.kept().leaving() == 0
        });
    }
}
