//! What programs can send that takes long to close: sockets that linger, and sockets with such sockets in their queues. Each holds up
//! its own connection only; the daemon goes on attaching, answering, unmapping, and ends when it is told to.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccnic::{Design, Layout, host};
use ccnic_client::{Nic, NicOptions};
use ccnic_control::messages::{Reply, Request};
use ccnic_control::{Connection, Listener};
use ccnic_shm::{Pages, Region};
use ccnic_testing::RegionMemory;
use common::flow::Flow;
use common::{Daemon, alone, config, until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Signal, kill_process};

/// Far beyond the patience of any test.
const HOUR: Duration = Duration::from_secs(3600);

/// A socket whose last close takes an hour: it has sent what its peer, which comes with it, never reads.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    one.set_nonblocking(true).unwrap();
    while one.write(&[0; 65536]).is_ok() {}
    one.set_nonblocking(false).unwrap();
    set_socket_linger(&one, Some(HOUR)).unwrap();
    (one, peer)
}

/// Sends bytes that are not JSON with a descriptor beside them.
fn send_beside(to: &UnixStream, fd: BorrowedFd<'_>) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(to, &[std::io::IoSlice::new(b"x")], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// A daemon in a directory of its own.
struct Rig {
    daemon: Daemon,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Rig {
    fn new(args: &[&str]) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let daemon = Daemon::start_with(&socket, args);
        Rig { daemon, socket, _directory: directory }
    }

    /// Has the daemon stand still.
    fn pause(&self) {
        kill_process(self.daemon.pid(), Signal::STOP).unwrap();
        until("all its threads to stop", || self.daemon.stands_still());
    }

    /// Programs that greet the daemon with such a socket beside the message. They come while it stands still, so that it closes last;
    /// and so that their messages are there when it looks at them.
    fn linger(&self, programs: usize) -> Vec<(Connection, TcpStream)> {
        self.pause();
        let greet = |_| {
            let connection = Connection::open(&self.socket).unwrap();
            let (evil, peer) = lingering();
            connection.send(&Request::Hello, Some(evil.as_fd())).unwrap();
            (connection, peer)
        };
        let programs = (0..programs).map(greet).collect();
        kill_process(self.daemon.pid(), Signal::CONT).unwrap();
        programs
    }

    /// Threads of the daemon that belong to connections, apart from the one that waits for the next.
    fn busy(&self) -> usize {
        let threads = self.daemon.threads();
        threads.iter().filter(|(name, _)| name == "ccnic-client").count().saturating_sub(1) // it may be starting
    }

    /// Others attach, send, receive, ask and go.
    fn serves_others(&mut self) {
        for _ in 0..3 {
            let mut nic = open(&self.socket, "good");
            let mut flow = Flow::new(nic.queue_pair(0).unwrap(), &[64, 1500], 16);
            flow.exchange(100);
            assert!(self.daemon.program("good").is_some());
            drop((flow, nic));
            until("the end of the good program", || self.daemon.program("good").is_none());
        }
    }

    /// Ends when told to, although it would have to close what lingers.
    fn ends(mut self) {
        kill_process(self.daemon.pid(), Signal::TERM).unwrap();
        until("the daemon's end", || self.daemon.ended().is_some());
        assert_eq!(self.daemon.ended().unwrap().code(), Some(0), "{}", self.daemon.log());
        assert!(!Listener::is_taken(&self.socket));
    }
}

/// True when there is something to be read, or nobody is there any more.
fn can_be_read(connection: &Connection) -> bool {
    let mut fds = [PollFd::new(connection, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

fn open(socket: &Path, name: &str) -> Nic {
    let options = NicOptions::new().name(name).config(&config(Design::GroupedEpoch)).pages(Pages::Small);
    options.open(socket).unwrap()
}

#[test]
fn a_socket_that_lingers_beside_a_message() {
    let _alone = alone();
    let mut rig = Rig::new(&[]);
    let mut kept = rig.linger(20);
    until("twenty threads that close", || rig.busy() >= 20);
    rig.serves_others();
    // Who is not answered yet is still being waited for. (Threads do not say it as well: the one for the next connection may be starting.)
    assert!(kept.iter().all(|(connection, _)| !can_be_read(connection)), "twenty threads close still");
    // Their peers end, and with them the wait: those connections go on, and are answered.
    for (connection, peer) in kept.drain(..10) {
        drop(peer);
        assert!(matches!(connection.receive::<Reply>().unwrap().unwrap().0, Reply::Hello(_)));
    }
    rig.ends();
}

#[test]
fn a_notifier_whose_queue_holds_a_socket_that_lingers() {
    let _alone = alone();
    let (layout, mut kept) = (Layout::new(&config(Design::GroupedEpoch)).unwrap(), Vec::new());
    let mib = ((3 * layout.size()) >> 20) + 1; // room for three regions
    let mut rig = Rig::new(&["--memory-max", &mib.to_string(), "--user-memory", &mib.to_string()]);
    let (_, mapped) = rig.daemon.settled();
    for _ in 0..5 {
        let region = Region::create(layout.size(), Pages::Small).unwrap();
        host::format(&region.memory(), &layout);
        let connection = Connection::open(&rig.socket).unwrap();
        let attach = Request::Attach { name: "lingers".into(), mac: None, rss: None };
        assert!(matches!(connection.ask(&attach, Some(region.as_fd())), Ok(Reply::Attached)));
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (evil, peer) = lingering();
        send_beside(&ours, evil.as_fd());
        connection.send(&Request::Notify { queue: 0, wakes: false }, Some(theirs.as_fd())).unwrap();
        let mut confirmed = [0];
        ours.read_exact(&mut confirmed).unwrap();
        drop((evil, ours, theirs, region, connection));
        kept.push(peer);
        until("its region to be unmapped", || rig.daemon.holdings().1 == mapped);
        assert!(rig.daemon.program("lingers").is_none());
        // Memory is accounted for until it is unmapped, and no longer: the next one has room.
    }
    until("five threads that close", || rig.busy() >= 5);
    rig.serves_others();
    rig.ends();
}

#[test]
fn connections_that_are_refused_with_such_a_socket_in_their_queue() {
    let _alone = alone();
    let mut rig = Rig::new(&["--user-connections", "4"]);
    let mut held = Vec::new();
    // The connection that saw the daemon begin may count for a moment yet.
    until("four connections", || {
        let connection = Connection::open(&rig.socket).unwrap();
        held.extend(connection.ask(&Request::Hello, None).is_ok().then_some(connection));
        held.len() == 4
    });
    let kept = rig.linger(10);
    for (connection, _) in &kept {
        let (reply, _) = connection.receive::<Reply>().unwrap().unwrap();
        assert!(
            matches!(&reply, Reply::Refused { reason } if reason.contains("--user-connections")),
            "{reply:?}"
        );
    }
    let closing = || rig.daemon.threads().iter().filter(|(name, _)| name == "ccnic-close").count();
    until("the one thread that closes for this user", || closing() == 1);
    let late = Connection::open(&rig.socket).unwrap().ask(&Request::Hello, None).unwrap_err();
    assert!(late.to_string().contains("--user-connections"), "{late}");
    drop(held);
    until("room for others", || Connection::open(&rig.socket).unwrap().ask(&Request::Hello, None).is_ok());
    rig.serves_others();
    rig.ends();
}

#[test]
fn sockets_that_nobody_has_accepted_do_not_hold_up_the_end() {
    let _alone = alone();
    let rig = Rig::new(&[]);
    rig.pause();
    let connection = Connection::open(&rig.socket).unwrap();
    let (evil, _peer) = lingering();
    connection.send(&Request::Hello, Some(evil.as_fd())).unwrap();
    drop((evil, connection));
    kill_process(rig.daemon.pid(), Signal::TERM).unwrap();
    kill_process(rig.daemon.pid(), Signal::CONT).unwrap();
    rig.ends();
}
