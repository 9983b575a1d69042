//! A hostile program with as many queues as there can be, all of them always full, beside a good one with one queue: the good
//! one's packets come round, and the daemon goes on answering.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ccnic::desc::SIGNAL_SHIFT;
use ccnic::{Config, Design, Layout, SharedMemory, host};
use ccnic_client::Nic;
use ccnic_control::Connection;
use ccnic_control::messages::{ProgramStatus, Request, Status};
use ccnic_shm::{NativeMemory, Pages, Region};
use ccnic_testing::RegionMemory;
use common::flow::Flow;
use common::{Daemon, alone, config, until};

/// Descriptors in a unit, bytes of a unit.
const PER: u32 = 4;
const UNIT: u32 = 64;

/// Keeps every transmit ring full and every receive ring empty until told to stop.
fn keep_full(mem: &NativeMemory, layout: &Layout, stop: &AtomicBool) {
    let word = u64::from(layout.pool().buffers) | 4096 << 32;
    let mut written = vec![0; layout.config().queues.into()];
    while !stop.load(Relaxed) {
        for (queue, next) in (0..).zip(&mut written) {
            let queue_layout = layout.queue(queue).unwrap();
            let (tx, count) = (queue_layout.tx, u64::from(queue_layout.tx.count));
            mem.store(queue_layout.rx.head, mem.load(queue_layout.rx.tail));
            let end = (mem.load(tx.taken) >> 3) + count;
            while *next < end {
                let at = tx.units + UNIT * (*next % count) as u32;
                let parity = if (*next / count).is_multiple_of(2) { 0x80 } else { 0 };
                (1..PER).for_each(|i| mem.store(at + 16 * i, word));
                mem.store_release(at, word | (parity | u64::from(PER)) << SIGNAL_SHIFT);
                *next += 1;
            }
        }
    }
}

/// The daemon's state, asked for while the flow goes on.
fn status_beside(socket: &Path, flow: &mut Flow) -> Status {
    let socket = socket.to_owned();
    let asked = std::thread::spawn(move || Connection::open(&socket).unwrap().status().unwrap());
    until("the daemon's answer beside a crowd", || {
        flow.turn();
        asked.is_finished()
    });
    asked.join().unwrap()
}

fn crowd(status: Status) -> ProgramStatus {
    status.programs.into_iter().find(|p| p.name == "crowd").unwrap()
}

#[test]
fn full_queues_beside_one() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let good = config(Design::GroupedEpoch);
    let mut program = Nic::options().name("good").config(&good).pages(Pages::Small).open(&socket).unwrap();
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500], 16);
    flow.exchange(100);

    let config = Config { queues: Config::MAX_QUEUES, ring: 256, ..Config::default() };
    let layout = Layout::new(&config).unwrap();
    let region = Region::create(layout.size(), Pages::Small).unwrap();
    host::format(&region.memory(), &layout);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mem = region.memory();
        scope.spawn(|| keep_full(&{ mem }, &layout, &stop));
        // Stops the writer when this fails, too, or the scope would wait for it for ever.
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let connection = Connection::open(&socket).unwrap();
            let request = Request::Attach { name: "crowd".into(), mac: None, rss: None };
            connection.ask(&request, Some(region.as_fd())).unwrap();
            let now = crowd(status_beside(&socket, &mut flow));
            assert_eq!(now.queues.len(), usize::from(Config::MAX_QUEUES));
            flow.exchange(300);
            until("packets from every queue", || {
                crowd(status_beside(&socket, &mut flow)).queues.iter().all(|q| q.tx_packets > 0)
            });
            drop(connection); // and leaves with all its rings full, still being filled
            flow.exchange(300);
            until("the end of the crowd", || status_beside(&socket, &mut flow).programs.len() == 1);
        }));
        stop.store(true, Relaxed);
        told.unwrap();
    });
    flow.exchange(300);
    flow.drain();
    daemon.status();
    assert!(flow.lost == 0 && !daemon.log().contains("panicked"), "{}", daemon.log());
}
