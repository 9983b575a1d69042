//! Programs that share a polling core with one that always has packets: those that hardly use theirs are found, those that misuse it
//! hold up nobody, and what is asked of the daemon meanwhile is done. Shares of time are computed in `src/poll/schedule/tests.rs`.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use ccnic::ring::{GroupedEpoch, Producer, Ring};
use ccnic::rss::Rss;
use ccnic::{Burst, Config, Desc, Design, Layout, host};
use ccnic_client::{Nic, QueuePair};
use ccnic_control::Connection;
use ccnic_control::messages::{Reply, Request};
use ccnic_shm::{Pages, Region};
use ccnic_testing::RegionMemory;
use common::flow::Flow;
use common::{Daemon, alone, config, until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Of a program that uses one of them, or none.
const QUEUES: u16 = 32;

fn many_queues() -> Config {
    Config { queues: QUEUES, ring: 64, buffers: 1024, ..config(Design::GroupedEpoch) }
}

fn open(socket: &Path, name: &str, config: &Config) -> Nic {
    Nic::options().name(name).config(config).pages(Pages::Small).open(socket).unwrap()
}

/// A program that always has packets under way.
fn good(socket: &Path) -> (Nic, Flow) {
    let mut program = open(socket, "good", &config(Design::GroupedEpoch));
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500], 64);
    flow.exchange(100);
    (program, flow)
}

/// What the good program has received is what the daemon has counted, and nothing was lost.
fn assert_served(daemon: &mut Daemon, flow: &mut Flow) {
    flow.drain();
    let queue = daemon.program("good").unwrap().queues[0];
    assert_eq!((queue.tx_packets, queue.rx_packets, flow.lost), (flow.received, flow.received, 0));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// Sends a packet and receives it, while the good program goes on.
fn there_and_back(pair: &mut QueuePair, flow: &mut Flow) {
    let mut burst = Burst::new();
    assert_eq!((pair.alloc(9, 1, &mut burst), pair.tx_burst(&mut burst)), (1, 1));
    until("a packet of a program that hardly sends any", || {
        flow.turn();
        pair.rx_burst(&mut burst, 1) == 1
    });
    pair.free(&mut burst);
}

#[test]
fn programs_with_many_idle_queues_are_found_when_they_send() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let (_good, mut flow) = good(&socket);
    let mut idle: Vec<_> = (0..5).map(|_| open(&socket, "idle", &many_queues())).collect();
    flow.exchange(1000);
    for (n, program) in idle.iter_mut().enumerate() {
        for queue in [QUEUES - 1, n as u16, QUEUES / 2] {
            let mut pair = program.queue_pair(queue).unwrap();
            (0..5).for_each(|_| there_and_back(&mut pair, &mut flow));
        }
    }
    let programs = daemon.status().programs;
    let idle: Vec<_> = programs.iter().filter(|program| program.name == "idle").collect();
    assert_eq!(idle.len(), 5);
    assert!(idle.iter().all(|p| p.queues.iter().map(|q| q.rx_packets).sum::<u64>() == 15));
    assert!(idle.iter().all(|p| p.queues.len() == usize::from(QUEUES)), "the status names all queues");
    assert_served(&mut daemon, &mut flow);
}

/// A region in the hands of somebody who does as he likes.
fn stranger(socket: &Path) -> (Region, Layout, Connection) {
    let layout = Layout::new(&many_queues()).unwrap();
    let region = Region::create(layout.size(), Pages::Small).unwrap();
    host::format(&region.memory(), &layout);
    let connection = Connection::open(socket).unwrap();
    let request = Request::Attach { name: "stranger".into(), mac: None, rss: None };
    assert!(matches!(connection.ask(&request, Some(region.as_fd())), Ok(Reply::Attached)));
    (region, layout, connection)
}

/// Descriptors that name no buffer, on all queues, as many as fit, again and again.
#[test]
fn bad_descriptors_are_dropped_in_turn() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let (_good, mut flow) = good(&socket);
    let (region, layout, _connection) = stranger(&socket);
    let mem = region.memory();
    let producer = |queue| <GroupedEpoch as Ring>::Producer::resume(&mem, &layout.queue(queue).unwrap().tx);
    let mut rings: Vec<_> = (0..QUEUES).map(producer).collect();
    let (mut pushed, goal) = (0, flow.received + 2000);
    until("laps of bad descriptors, and packets of the good program", || {
        for ring in &mut rings {
            let room = ring.room(&mem, 32).min(32);
            pushed += ring.push(&mem, &[Desc::new(3, 64, 0); 32][..room]) as u64;
        }
        flow.turn();
        flow.received >= goal && pushed >= 10 * 64 * u64::from(QUEUES)
    });
    until("the count of all of them", || {
        flow.turn();
        let queues = daemon.program("stranger").unwrap().queues;
        queues.iter().map(|queue| queue.drop_bad_descriptor).sum::<u64>() == pushed
    });
    // A turn takes a microsecond as long as there is something to do, so the good program has waited for so long at least.
    let queue = daemon.program("good").unwrap().queues[0];
    assert!(
        queue.longest_wait_us > 0 && (queue.late_turns == 0 || queue.longest_wait_us >= 1000),
        "{queue:?}"
    );
    assert_served(&mut daemon, &mut flow);
}

/// Thousands of requests for notifications, of which each is a command to the polling thread and wants an answer.
#[test]
fn a_storm_of_requests_holds_up_no_other() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let (mut program, mut flow) = good(&socket);
    let (_region, _layout, connection) = stranger(&socket);
    let sockets: Vec<_> = (0..QUEUES).map(|_| UnixStream::pair().unwrap()).collect();
    for _ in 0..20 {
        for (queue, (_, theirs)) in (0..).zip(&sockets) {
            connection.send(&Request::Notify { queue, wakes: false }, Some(theirs.as_fd())).unwrap();
            flow.turn();
        }
        // Others ask meanwhile, and are answered.
        program.set_rss(Some(&Rss::new(1))).unwrap();
        assert_eq!(daemon.program("stranger").unwrap().queues.len(), usize::from(QUEUES));
        flow.exchange(100);
    }
    for (ours, _) in &sockets {
        until("the confirmation, as the budget allows", || {
            flow.turn();
            let mut fds = [PollFd::new(ours, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
        });
    }
    program.set_rss(None).unwrap();
    assert_served(&mut daemon, &mut flow);
}
