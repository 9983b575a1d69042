//! Stacks that sleep: nothing that comes is missed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ccnic_tcp::{Datagrams, Peer, Reply, Stack};
use common::{Nic, PATIENCE, alone, options, peer, until};

fn at(host: &str, port: u16) -> SocketAddr {
    SocketAddr::new(host.parse().unwrap(), port)
}

/// Answers with what it gets, and counts.
struct Echo(bool, u64);

impl Datagrams for Echo {
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, payload: &[u8], reply: &mut Reply<'_>) {
        self.1 += 1;
        assert!(!self.0 || reply.put(payload));
    }
}

/// Sleeps before each poll until as many datagrams have come, `first` sent for each if there is one. There is no timer that would hide a lost
/// wake-up.
fn sleep_and_answer(mut stack: Stack, rounds: u64, to: Option<Peer>) -> Stack {
    let mut echo = Echo(to.is_none(), 0);
    for round in 0..rounds {
        if let Some(peer) = &to {
            assert!(stack.send_to(12, peer, &[b"ping"]));
        }
        while echo.1 == round {
            let start = Instant::now();
            stack.wait(2 * PATIENCE).unwrap();
            assert!(start.elapsed() < 2 * PATIENCE, "round {round}: nobody has woken it");
            stack.poll_datagrams(&mut echo);
        }
    }
    stack.flush();
    stack
}

#[test]
fn sleepers_are_woken_by_each_datagram() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let mut server = nic.host("10.9.0.1/24", "fd09::1/64");
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    server.bind(11).unwrap();
    client.bind(12).unwrap();
    let peer = Some(peer(&mut server, &mut client, at("10.9.0.1", 11)));
    let server = std::thread::spawn(move || sleep_and_answer(server, 5000, None));
    sleep_and_answer(client, 5000, peer);
    server.join().unwrap();
}

#[test]
fn a_stack_that_sleeps_is_woken_for_what_another_queue_has_got() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let many = Stack::open_many(&nic.socket, &options("10.9.0.1/24", "fd09::1/64"), 2).unwrap();
    let mut other = nic.host("10.9.0.2/24", "fd09::2/64");
    // Each asks once, and the answers come to one queue, whose stack tells the other.
    let waits = many.into_iter().map(|mut stack| {
        std::thread::spawn(move || {
            while stack.peer(at("10.9.0.2", 7)).unwrap().is_none() {
                let start = Instant::now();
                stack.wait(2 * PATIENCE).unwrap();
                assert!(start.elapsed() < 2 * PATIENCE, "nobody has woken it");
                stack.poll();
            }
            stack // it stays attached until the other one has its answer
        })
    });
    let waits: Vec<_> = waits.collect();
    until("both", || {
        other.poll();
        waits.iter().all(std::thread::JoinHandle::is_finished)
    });
    waits.into_iter().for_each(|wait| drop(wait.join().unwrap()));
}

#[test]
fn an_idle_stack_waits_and_one_that_never_may_does_not() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let mut single = options("10.9.0.1/24", "fd09::1/64");
    single.reconnect = false;
    let mut server = Stack::open(&nic.socket, &single).unwrap();
    until("an idle stack to wait", || {
        server.poll();
        server.wait_when_idle(Duration::from_millis(1)).unwrap()
    });
    let mut never = options("10.9.0.3/24", "fd09::3/64");
    never.sleep_after = Duration::ZERO;
    let mut never = Stack::open(&nic.socket, &never).unwrap();
    never.poll();
    assert!(!never.wait_when_idle(None).unwrap());
    drop(nic);
    let mut gone = false;
    until("the end of the NIC to be told", || {
        gone = gone || server.wait(Duration::from_secs(1)).is_err();
        gone
    });
}
