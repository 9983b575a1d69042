//! The examples of the library against a daemon: two programs meet, and what runs goes on when the NIC is killed.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(dead_code, reason = "the examples have a main of their own")]

mod common;
#[path = "../../ccnic-client/examples/echo.rs"]
mod echo;
#[path = "../../ccnic-client/examples/pair.rs"]
mod pair;

use common::station::{BROADCAST, Station, mac};
use common::{Daemon, alone, config, until};
use rustix::process::Signal;

fn on_a_switch(socket: &std::path::Path) -> Daemon {
    Daemon::start_with(socket, &["--wire", "switch"])
}

#[test]
fn a_pair_of_programs_meets() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let _nic = on_a_switch(&socket);
    let there = socket.clone();
    let first = std::thread::spawn(move || pair::meet(&there, 1));
    assert_eq!(pair::meet(&socket, 2).unwrap(), "hello, I am 1");
    assert_eq!(first.join().unwrap().unwrap(), "hello, I am 2");
}

#[test]
fn a_pair_meets_although_its_nic_is_killed() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut nic = on_a_switch(&socket);
    let there = socket.clone();
    let first = std::thread::spawn(move || pair::meet(&there, 1));
    until("the first greeting", || {
        nic.status().programs.iter().flat_map(|program| &program.queues).any(|queue| queue.tx_packets > 0)
    });
    nic.signal(Signal::KILL);
    let mut nic = on_a_switch(&socket);
    until("the first program to be back", || !nic.status().programs.is_empty());
    assert_eq!(pair::meet(&socket, 2).unwrap(), "hello, I am 1");
    assert_eq!(first.join().unwrap().unwrap(), "hello, I am 2");
}

#[test]
fn echo_goes_on_with_the_next_nic() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut nic = on_a_switch(&socket);
    let there = socket.clone();
    let echo = std::thread::spawn(move || echo::echo(&there, 2));
    for _ in 0..2 {
        until("the echo to be there", || nic.program("echo").is_some());
        let mut station = Station::open(&socket, 0, &config(ccnic::Design::GroupedEpoch));
        assert!(station.send(BROADCAST, 100));
        until("what comes back", || station.receive().iter().any(|came| came.to == mac(0)));
        drop(station);
        nic.signal(Signal::KILL);
        nic = on_a_switch(&socket);
    }
    echo.join().unwrap().unwrap();
}
