//! What a message through the cachable queues costs in instructions, for `run/cni/across.rs`: program and NIC by turns in one thread.
//!
//! `cargo bench -p ccnic-sim --bench queue -- LAPS` under callgrind, twice: the difference of two runs, divided by that of their
//! messages (32 a lap), is what a message costs on both sides, 64 bytes of payload written, copied twice and checked.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use ccnic_shm::{Pages, Region};
use ccnic_sim::cni::pair::{QueueHost, QueueNic, Queues};
use ccnic_testing::RegionMemory;

fn main() {
    let laps = std::env::args().skip(1).find_map(|arg| arg.parse::<u32>().ok()).unwrap_or(1000);
    let queues = Queues::new(512);
    let region = Region::create(queues.bytes(), Pages::Auto).unwrap();
    let mut program = QueueHost::new(region.memory(), &queues, 64);
    let mut nic = QueueNic::new(region.memory(), &queues);
    for _ in 0..laps {
        (0..32).for_each(|_| assert!(program.send()));
        while nic.poll() {}
        while program.receive() {}
    }
    assert_eq!((program.in_flight(), program.wrong), (0, 0));
    println!("messages {}", 32 * laps);
}
