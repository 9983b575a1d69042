//! A program of a trusted user, whose region is not sealed, takes a huge page away that the system cannot replace: the NIC's next access
//! raises SIGBUS. The NIC lives on, and ends that program's connection.

use std::os::fd::AsFd;

use ccnic::{Config, Design, Layout, host};
use ccnic_client::{Nic, Pages};
use ccnic_control::Connection;
use ccnic_control::messages::Request;
use ccnic_shm::{HUGE_PAGE, Region};
use ccnic_testing::RegionMemory;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::geteuid;

use crate::common::flow::Flow;
use crate::common::{Daemon, alone, config, until};

/// Takes all huge pages that are free.
fn hoard(pages: &mut Vec<Region>) {
    pages.extend(std::iter::from_fn(|| Region::create(HUGE_PAGE, Pages::Huge).ok()));
}

#[test]
fn a_trusted_program_whose_region_is_lost_is_detached_by_name() {
    let _alone = alone();
    let layout = Layout::new(&Config { page: HUGE_PAGE, ..config(Design::GroupedEpoch) }).unwrap();
    let region = match Region::create(layout.size(), Pages::Huge) {
        Ok(region) => region,
        Err(e) => return println!("not tested: {e}"),
    };
    host::format(&region.memory(), &layout);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let user = geteuid().as_raw().to_string();
    let mut daemon = Daemon::start_with(&socket, &["--trusted-users", &user]);
    let options = config(Design::GroupedEpoch);
    let mut program = Nic::options().name("good").config(&options).pages(Pages::Small).open(&socket).unwrap();
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500], 64);

    let connection = Connection::open(&socket).unwrap();
    let request = Request::Attach { name: "puncher".into(), mac: None, rss: None };
    connection.ask(&request, Some(region.as_fd())).unwrap();
    assert!(daemon.program("puncher").is_some());
    let mut hoarded = Vec::new();
    hoard(&mut hoarded);
    // From here on nobody in this process accesses the region. The NIC, which polls it, may get a page again before it is hoarded.
    let all = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    until("the end of the connection", || {
        fallocate(&region, all, 0, region.size().into()).unwrap();
        hoard(&mut hoarded);
        flow.exchange(20);
        connection.has_ended() && daemon.program("puncher").is_none()
    });
    drop(hoarded);
    let log = daemon.log();
    let said: Vec<_> = log.lines().filter(|line| line.contains("all of it is lost")).collect();
    assert!(said.len() == 1 && said[0].contains("puncher"), "{log}");
    flow.exchange(100);
    flow.drain();
    assert_eq!((flow.lost, program.alive()), (0, true));
}
