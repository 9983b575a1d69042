//! Programs that wait and are notified: by the NIC they know, by its successor, by none; and what the daemon does about those that
//! abuse it.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ccnic::ring::GroupedEpoch;
use ccnic::{Burst, Design, Layout, SharedMemory, host};
use ccnic_client::{Error, Nic, QueuePair, Waiter};
use ccnic_control::Connection;
use ccnic_control::messages::{Reply, Request};
use ccnic_shm::{Pages, Region};
use ccnic_testing::RegionMemory;
use common::flow::Flow;
use common::{Daemon, PATIENCE, alone, config, until};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Signal, kill_process};
use rustix::thread::gettid;

/// Sends a packet of one byte.
fn send(pair: &mut QueuePair, byte: u8) {
    let mut burst = Burst::new();
    assert_eq!(pair.alloc(1, 1, &mut burst), 1);
    burst.iter_mut().for_each(|buf| assert_eq!(pair.write(buf, 0, &[byte]), 1));
    assert_eq!(pair.tx_burst(&mut burst), 1);
}

/// Receives the packet that is there.
fn receive(pair: &mut QueuePair) -> u8 {
    let mut burst = Burst::new();
    assert_eq!(pair.rx_burst(&mut burst, 1), 1, "notified of nothing");
    let mut byte = [0];
    burst.as_slice().iter().for_each(|buf| assert_eq!(pair.read(buf, 0, &mut byte), 1));
    pair.free(&mut burst);
    byte[0]
}

/// True when the notifier of a queue pair becomes readable within `timeout`.
fn readable(waiter: &Waiter, timeout: Duration) -> bool {
    let fd = waiter.fd().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::try_from(timeout).unwrap())).unwrap() > 0
}

/// Waits until the NIC has confirmed that it notifies this program.
fn answered(waiter: &Waiter) {
    assert!(readable(waiter, PATIENCE), "the NIC does not confirm that it notifies the program");
}

/// What the kernel says of a thread of this process: a field of its status.
fn thread_status(thread: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().to_owned()
}

fn this_thread() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

/// How often this thread has given its processor away by itself.
fn sleeps() -> u64 {
    thread_status(this_thread(), "voluntary_ctxt_switches:").parse().unwrap()
}

/// Packets that come before, while and after the program begins to wait: it is notified of each.
fn every_packet_notifies(socket: &Path, design: Design) {
    let mut program =
        Nic::options().name("sleeper").config(&config(design)).pages(Pages::Small).open(socket).unwrap();
    let mut pair = program.queue_pair(0).unwrap();
    answered(pair.waiter());
    // More than the ring has units, so that positions wrap.
    for i in 0..2000u32 {
        send(&mut pair, i as u8);
        (0..i % 97).for_each(|_| std::hint::spin_loop());
        assert!(pair.wait(Some(PATIENCE)).is_ok(), "{design:?}, packet {i}");
        assert_eq!(receive(&mut pair), i as u8, "{design:?}");
    }
}

#[test]
fn a_program_is_notified_of_every_packet_in_every_design() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    for design in Design::ALL {
        every_packet_notifies(&socket, design);
    }
    until("the end of all programs", || daemon.status().programs.is_empty());
}

#[test]
fn a_program_that_sleeps_does_nothing_until_a_packet_comes() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start(&socket);
    let config = config(Design::GroupedEpoch);
    let mut program =
        Nic::options().name("sleeper").config(&config).pages(Pages::Small).open(&socket).unwrap();
    let mut pair = program.queue_pair(0).unwrap();
    answered(pair.waiter());
    // Naps would be some three hundred.
    let before = sleeps();
    assert!(matches!(pair.wait(Some(Duration::from_millis(300))), Err(Error::TimedOut)));
    let slept = sleeps() - before;
    assert!(slept < 30, "{slept} times asleep in one wait");
    for i in 0..20 {
        // The NIC stands still until the program sleeps.
        kill_process(daemon.pid(), Signal::STOP).unwrap();
        send(&mut pair, i);
        let (sleeper, nic) = (this_thread(), daemon.pid());
        let alarm = std::thread::spawn(move || {
            until("a program that sleeps", || thread_status(sleeper, "State:").starts_with('S'));
            kill_process(nic, Signal::CONT).unwrap();
        });
        assert!(pair.wait(Some(PATIENCE)).is_ok());
        assert_eq!(receive(&mut pair), i);
        alarm.join().unwrap();
    }
}

/// A program whose NIC stands still before it has confirmed that it notifies the program. Which of the two comes first is a race, so this
/// takes some tries.
fn unconfirmed(daemon: &Daemon, socket: &Path) -> (Nic, QueuePair) {
    let mut found = None;
    until("a NIC that stops before it confirms", || {
        let config = config(Design::GroupedEpoch);
        let mut program =
            Nic::options().name("napper").config(&config).pages(Pages::Small).open(socket).unwrap();
        let pair = program.queue_pair(0).unwrap();
        kill_process(daemon.pid(), Signal::STOP).unwrap();
        until("a daemon that stands still", || daemon.stands_still());
        if readable(pair.waiter(), Duration::ZERO) {
            kill_process(daemon.pid(), Signal::CONT).unwrap();
        } else {
            found = Some((program, pair));
        }
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_program_that_has_no_answer_naps() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start(&socket);
    let (_program, mut pair) = unconfirmed(&daemon, &socket);
    // A program on a busy CPU may not nap often enough in one wait.
    let naps_often = (0..20).any(|_| {
        let before = sleeps();
        assert!(matches!(pair.wait(Some(Duration::from_millis(300))), Err(Error::TimedOut)));
        sleeps() - before > 10
    });
    assert!(naps_often, "it relies on a NIC that has promised nothing");
    send(&mut pair, 1);
    kill_process(daemon.pid(), Signal::CONT).unwrap();
    assert!(pair.wait(Some(PATIENCE)).is_ok());
    assert_eq!(receive(&mut pair), 1);
}

#[test]
fn a_program_that_waits_learns_of_the_nics_end_and_is_notified_by_its_successor() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let config = config(Design::GroupedEpoch);
    let mut program =
        Nic::options().name("sleeper").config(&config).pages(Pages::Small).open(&socket).unwrap();
    let mut pair = program.queue_pair(0).unwrap();
    answered(pair.waiter());
    for i in 0..5 {
        // Of the end of one that stood still until the program slept.
        kill_process(daemon.pid(), Signal::STOP).unwrap();
        let (sleeper, nic) = (this_thread(), daemon.pid());
        let killer = std::thread::spawn(move || {
            until("a program that sleeps", || thread_status(sleeper, "State:").starts_with('S'));
            kill_process(nic, Signal::KILL).unwrap();
        });
        assert!(matches!(pair.wait(None), Err(Error::Gone)));
        killer.join().unwrap();
        daemon.wait();
        // Sent while there is no NIC, and asleep on the descriptor alone when its successor comes.
        send(&mut pair, i);
        assert!(pair.arm().unwrap(), "nothing is there");
        assert!(!readable(pair.waiter(), Duration::ZERO));
        daemon = Daemon::start(&socket);
        program.reconnect([&mut pair], []).unwrap();
        until("a packet by way of the successor", || {
            assert!(readable(pair.waiter(), PATIENCE), "no notification came");
            // The first byte may be the answer: then the program goes on waiting.
            !pair.arm().unwrap()
        });
        pair.disarm();
        assert_eq!(receive(&mut pair), i);
        assert!(matches!(pair.wait(Some(Duration::ZERO)), Err(Error::TimedOut)));
    }
}

#[test]
fn many_queues_wait_on_threads_of_their_own() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let config = ccnic::Config { queues: 8, ..config(Design::GroupedEpoch) };
    let mut program =
        Nic::options().name("sleepers").config(&config).pages(Pages::Small).open(&socket).unwrap();
    std::thread::scope(|scope| {
        for queue in 0..8 {
            let mut pair = program.queue_pair(queue).unwrap();
            scope.spawn(move || {
                for i in 0..500u32 {
                    send(&mut pair, i as u8);
                    assert!(pair.wait(Some(PATIENCE)).is_ok(), "{queue}: {i}");
                    assert_eq!(receive(&mut pair), i as u8);
                }
            });
        }
    });
    let queues = daemon.program("sleepers").unwrap().queues;
    assert!(queues.iter().all(|queue| queue.rx_packets == 500));
}

/// A region in the hands of somebody who does as he likes.
struct Stranger {
    region: Region,
    layout: Layout,
    connection: Connection,
}

impl Stranger {
    fn attach(socket: &Path, queues: u16) -> Stranger {
        // Each side of each queue keeps some at hand.
        let buffers = 128 * u32::from(queues);
        let config = ccnic::Config { queues, ring: 64, buffers, ..ccnic::Config::default() };
        let layout = Layout::new(&config).unwrap();
        let region = Region::create(layout.size(), Pages::Small).unwrap();
        host::format(&region.memory(), &layout);
        let connection = Connection::open(socket).unwrap();
        let request = Request::Attach { name: "stranger".into(), mac: None, rss: None };
        assert!(matches!(connection.ask(&request, Some(region.as_fd())), Ok(Reply::Attached)));
        Stranger { region, layout, connection }
    }

    fn notify(&self, queue: u16, fd: Option<&dyn AsFd>) {
        let request = Request::Notify { queue, wakes: false };
        self.connection.send(&request, fd.map(|fd| fd.as_fd())).unwrap();
    }
}

#[test]
fn sockets_that_cannot_be_notifiers() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start(&socket);
    let nobody = daemon.settled();
    let stranger = Stranger::attach(&socket, 2);
    let holdings = daemon.settled();
    let (reader, writer) = std::io::pipe().unwrap();
    let full = eventfd(u32::MAX, EventfdFlags::CLOEXEC).unwrap();
    let (datagram, _other) = UnixDatagram::pair().unwrap();
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let internet = std::net::TcpStream::connect(listening.local_addr().unwrap()).unwrap();
    let unconnected: OwnedFd =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    let region = stranger.region.as_fd();
    let bad: [Option<&dyn AsFd>; 9] = [
        None,
        Some(&reader),
        Some(&writer),
        Some(&full),
        Some(&datagram),
        Some(&internet),
        Some(&listening),
        Some(&unconnected),
        Some(&region),
    ];
    for fd in bad {
        stranger.notify(0, fd);
    }
    let (_ours, good) = UnixStream::pair().unwrap();
    stranger.notify(2, Some(&good));
    stranger.notify(u16::MAX, Some(&good));
    let early = Connection::open(&socket).unwrap();
    early.send(&Request::Notify { queue: 0, wakes: false }, Some(good.as_fd())).unwrap();
    // The connection goes on, and nothing is kept of what was refused.
    assert!(matches!(stranger.connection.ask(&Request::Hello, None), Ok(Reply::Hello(_))));
    assert!(matches!(early.ask(&Request::Hello, None), Ok(Reply::Hello(_))));
    drop(early);
    until("the end of what was refused", || daemon.holdings() == holdings);
    let said = daemon.log().matches("will not be notified").count();
    assert_eq!(said, bad.len() + 3, "{}", daemon.log());
    // One for each queue, and no more.
    let (ours, theirs) = UnixStream::pair().unwrap();
    for _ in 0..100 {
        stranger.notify(1, Some(&theirs));
    }
    let mut fds = [PollFd::new(&ours, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })), Ok(1), "no answer");
    assert!(matches!(stranger.connection.ask(&Request::Hello, None), Ok(Reply::Hello(_))));
    until("one socket more", || daemon.holdings() == (holdings.0 + 1, holdings.1));
    drop(stranger);
    until("the end of the stranger's", || daemon.holdings() == nobody);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// However a test ends, its threads end too.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Arms all its queues, again and again, reads nothing of what comes, and has a crowd of threads wait for it; and a good
/// program beside it.
#[test]
fn a_program_that_always_waits_delays_no_other() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let config = config(Design::GroupedEpoch);
    let mut program = Nic::options().name("good").config(&config).pages(Pages::Small).open(&socket).unwrap();
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500], 64);
    flow.exchange(100);
    let queues = 64;
    let stranger = Stranger::attach(&socket, queues);
    let sockets: Vec<_> = (0..queues).map(|_| UnixStream::pair().unwrap()).collect();
    for (queue, (_, theirs)) in (0..).zip(&sockets) {
        stranger.notify(queue, Some(theirs));
    }
    let mem = stranger.region.memory();
    // Packets on each queue, so that there is something to be notified of.
    for queue in 0..queues {
        let mut pair = host::QueuePair::<_, GroupedEpoch>::new(mem.clone(), &stranger.layout, queue).unwrap();
        for i in 0..4 {
            let mut burst = Burst::new();
            assert_eq!((pair.alloc(1, 1, &mut burst), pair.tx_burst(&mut burst)), (1, 1));
            until("the packet", || {
                flow.turn();
                pair.rx_ready() > i
            });
        }
        std::mem::forget(pair); // its end would return buffers
    }
    let events: Vec<u32> = (0..queues).map(|q| stranger.layout.queue(q).unwrap().rx_event).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (ours, _) in sockets.iter().take(16) {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    // For something that does not come: it looks again at each byte that does.
                    let mut fds = [PollFd::new(ours, PollFlags::PRI)];
                    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 })).unwrap();
                }
            });
        }
        let (mem, stopped) = (stranger.region.memory(), &stop);
        scope.spawn(move || {
            for word in (0..3).cycle().take_while(|_| !stopped.load(Relaxed)) {
                // Never the same twice in a row, and behind what the NIC has published.
                events.iter().for_each(|at| mem.store_release(*at, word));
            }
        });
        let _stop = Stop(&stop);
        flow.exchange(20_000);
    });
    flow.drain();
    let good = daemon.program("good").unwrap().queues[0];
    assert_eq!((good.rx_packets, flow.lost), (flow.received, 0));
    drop(stranger);
    until("the end of the stranger", || daemon.program("stranger").is_none());
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}
