//! NICs that are killed under load: stacks go on with the next one, and no byte is lost.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ccnic_tcp::{Conn, Stack};
use common::transfer::{Transfer, at, connection};
use common::{Nic, alone, until};

const SERVER: &str = "10.9.0.1";

#[test]
fn every_byte_arrives_though_nics_are_killed() {
    const LEN: usize = 3_000_000;
    let _alone = alone();
    let mut nic = Nic::start(&[]);
    let mut server = nic.host("10.9.0.1/24", "fd09::1/64");
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    let (accepted, conn) = connection(&mut server, &mut client, SERVER);
    let mut ends = [Transfer::new(accepted, [1, 2], LEN), Transfer::new(conn, [2, 1], LEN)];
    let mut deaths = 0;
    until("all bytes", || {
        // In the middle of it: both ends have frames under way.
        if ends[1].received > (deaths + 1) * LEN / 4 && deaths < 3 {
            deaths += 1;
            nic.kill();
            for _ in 0..100 {
                assert!(!ends[0].step(&mut server) & !ends[1].step(&mut client), "without a NIC");
            }
            nic.start_again(&[]);
        }
        let done = [ends[0].step(&mut server), ends[1].step(&mut client)];
        done == [true; 2]
    });
    assert_eq!((deaths, ends.map(|end| end.received)), (3, [LEN; 2]));
    let again = [server.counters().reconnects, client.counters().reconnects];
    assert_eq!(again, [3; 2]);
    // The listener is still there, and neighbours are found.
    let other = client.connect(at(SERVER, 7)).unwrap();
    until("another connection", || {
        server.poll();
        client.poll();
        client.room(other) > 0
    });
}

/// Polls, sleeps, and returns what comes.
fn echo(mut stack: Stack, stop: &AtomicBool, accepted: &AtomicUsize) -> Stack {
    let listener = stack.listen(7, 16).unwrap();
    let mut conns: Vec<Conn> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        stack.poll();
        while let Some(conn) = stack.accept(listener) {
            conns.push(conn);
            accepted.fetch_add(1, Ordering::Relaxed);
        }
        while stack.next_event().is_some() {}
        let mut bytes = [0; 1000];
        for conn in &conns {
            if let Ok(n) = stack.read(*conn, &mut bytes) {
                assert_eq!(stack.write(*conn, &bytes[..n]).unwrap(), n);
            }
        }
        stack.wait(std::time::Duration::from_millis(50)).unwrap();
    }
    stack
}

#[test]
fn threads_that_sleep_on_queues_of_one_attachment_go_on_together() {
    const CONNS: usize = 8;
    let _alone = alone();
    let mut nic = Nic::start(&[]);
    let options = common::options("10.9.0.1/24", "fd09::1/64");
    let mut servers = Stack::open_many(&nic.socket, &options, 3).unwrap();
    // One leaves, and does not keep the others from going on.
    let gone = servers.pop().unwrap();
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    let (stop, accepted) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            servers.into_iter().map(|server| scope.spawn(|| echo(server, &stop, &accepted))).collect();
        let mut conns = Vec::new();
        while accepted.load(Ordering::Relaxed) < CONNS {
            // Those that are for the third queue are not answered.
            conns.push(client.connect(at(SERVER, 7)).unwrap());
            let end = std::time::Instant::now() + std::time::Duration::from_millis(200);
            let last = conns[conns.len() - 1];
            while client.room(last) == 0 && std::time::Instant::now() < end {
                client.poll();
            }
        }
        conns.retain(|conn| client.room(*conn) > 0);
        drop(gone);
        for round in 0..3u8 {
            nic.kill();
            nic.start_again(&[]);
            for conn in &conns {
                assert_eq!(client.write(*conn, &[round; 100]).unwrap(), 100);
            }
            let mut left: Vec<(Conn, usize)> = conns.iter().map(|conn| (*conn, 100)).collect();
            until("all answers", || {
                client.poll();
                for (conn, missing) in &mut left {
                    let mut bytes = [0; 100];
                    if let Ok(n) = client.read(*conn, &mut bytes) {
                        assert!(bytes[..n].iter().all(|byte| *byte == round));
                        *missing -= n;
                    }
                }
                left.iter().all(|(_, missing)| *missing == 0)
            });
        }
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            assert_eq!(thread.join().unwrap().counters().reconnects, 3);
        }
    });
}
