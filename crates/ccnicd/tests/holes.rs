//! Programs that punch holes into their regions, beside one that loses no packet by it.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use ccnic::{Burst, Config, Design};
use ccnic_client::{Nic, Pages};
use ccnic_control::Connection;
use ccnic_control::messages::Request;
use ccnic_shm::{HUGE_PAGE, Region};
use common::flow::Flow;
use common::{Daemon, alone, config, until};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

fn punch(fd: impl AsFd, len: u32) -> rustix::io::Result<()> {
    fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, len.into())
}

/// A program of 16 MiB that sends packets and tries to punch all of its region, again and again.
fn punch_attached(socket: &Path, pages: Pages, tries: &AtomicUsize, stop: &AtomicBool) {
    let config = Config { buffers: 4096, ..config(Design::GroupedEpoch) };
    let mut nic = Nic::options().name("puncher").config(&config).pages(pages).open(socket).unwrap();
    let (mut pair, mut burst) = (nic.queue_pair(0).unwrap(), Burst::new());
    while !stop.load(Relaxed) {
        pair.alloc(1500, 32, &mut burst);
        pair.tx_burst(&mut burst);
        pair.free(&mut burst);
        assert_eq!(punch(nic.region(), nic.region().size()), Err(Errno::PERM));
        tries.fetch_add(1, Relaxed);
        pair.rx_burst(&mut burst, 32);
        pair.free(&mut burst);
    }
}

/// A program whose regions get holes while they are attached: each is refused, or whole.
fn punch_attaching(socket: &Path, attached: &AtomicUsize, refused: &AtomicUsize, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let (region, _) = ccnic_hostile::region(&config(Design::GroupedEpoch)).unwrap();
        let fd: OwnedFd = region.as_fd().try_clone_to_owned().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            // Until the NIC has sealed it, or has refused it.
            threads.spawn(|| {
                while !done.load(Relaxed) && punch(&fd, region.size()).is_ok() {
                    std::hint::spin_loop();
                }
            });
            let connection = Connection::open(socket).unwrap();
            let request = Request::Attach { name: "holes".into(), mac: None, rss: None };
            match connection.ask(&request, Some(region.as_fd())) {
                Ok(_) => attached.fetch_add(1, Relaxed),
                Err(_) => refused.fetch_add(1, Relaxed),
            };
            done.store(true, Relaxed);
        });
    }
}

/// Exchanges packets until `enough`; all of them come back.
fn good_beside(bad: impl Fn(&Path, &AtomicBool) + Sync, enough: impl Fn() -> bool) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let config = config(Design::GroupedEpoch);
    let mut program = Nic::options().name("good").config(&config).pages(Pages::Small).open(&socket).unwrap();
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500, 9000], 64);
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let bad = threads.spawn(|| bad(&socket, &stop));
        until("holes that were tried", || {
            flow.exchange(100);
            (enough() && flow.received > 10_000) || bad.is_finished()
        });
        stop.store(true, Relaxed);
        bad.join().unwrap();
    });
    flow.drain();
    let good = daemon.program("good").unwrap().queues[0];
    assert_eq!((good.tx_packets, good.rx_packets), (flow.received, flow.received));
    assert_eq!((flow.lost, program.alive()), (0, true));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

fn attached_beside(pages: Pages) {
    let tries = AtomicUsize::new(0);
    good_beside(|socket, stop| punch_attached(socket, pages, &tries, stop), || tries.load(Relaxed) > 1000);
}

#[test]
fn a_program_that_punches_its_attached_region() {
    let _alone = alone();
    attached_beside(Pages::Small);
}

#[test]
fn a_program_that_punches_huge_pages() {
    let _alone = alone();
    match Region::create(12 * HUGE_PAGE, Pages::Huge) {
        Ok(_) => attached_beside(Pages::Huge),
        Err(e) => println!("not tested: {e}"),
    }
}

#[test]
fn a_program_that_punches_while_it_attaches() {
    let _alone = alone();
    let (attached, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    good_beside(
        |socket, stop| punch_attaching(socket, &attached, &refused, stop),
        || attached.load(Relaxed) + refused.load(Relaxed) > 100,
    );
    println!("{attached:?} attached whole, {refused:?} refused");
    assert!(refused.into_inner() > 0);
}
