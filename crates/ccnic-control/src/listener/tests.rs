//! A listener with a NIC that takes notes, polled on the test's thread.

use super::*;
use ccnic::{Config, host::format};
use ccnic_shm::Pages;
use std::os::unix::net::UnixStream;

/// A NIC that takes note of what it is asked for.
#[derive(Default)]
struct Recorder {
    rss: bool,
    refuses: bool,
    attached: Vec<(ClientId, String, u16, Option<Rss>)>,
    leases: Vec<MemoryLease>,
    calls: Vec<String>,
}

impl Handler for Recorder {
    fn hello(&self) -> Hello {
        Hello { version: "test".into(), node: 0, rss: self.rss }
    }
    fn status(&self) -> Status {
        let (version, wire) = ("test".into(), "none".into());
        Status { version, pid: 1, uptime_s: 0.0, wire, cores: vec![], programs: vec![] }
    }
    fn attach(&mut self, request: AttachRequest) -> Result<(), String> {
        if self.refuses {
            return Err("not today".into());
        }
        let queues = request.layout.config().queues;
        self.attached.push((request.id, request.name, queues, request.rss));
        self.leases.push(request.memory);
        Ok(())
    }
    fn set_rss(&mut self, id: ClientId, rss: Option<Rss>) -> Result<(), String> {
        self.calls.push(format!("rss {id} {}", rss.is_some()));
        Ok(())
    }
    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String> {
        notifier.confirm();
        self.calls.push(format!("notify {id} {queue}"));
        Ok(())
    }
    fn detach(&mut self, id: ClientId) {
        self.calls.push(format!("detach {id}"));
    }
}

/// A listener that is polled on this thread, and its programs.
struct Rig {
    listener: Listener,
    nic: Recorder,
    directory: tempfile::TempDir,
}

impl Rig {
    fn new(limits: Limits, rss: bool) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let listener = Listener::new(&directory.path().join("nic.sock"), limits).unwrap();
        Rig { listener, nic: Recorder { rss, ..Recorder::default() }, directory }
    }

    /// Handles all that has been asked.
    fn poll(&mut self) {
        for _ in 0..4 {
            let stopped = self.listener.poll(&mut self.nic, None, Some(Duration::ZERO)).unwrap();
            assert!(!stopped);
        }
    }

    fn connect(&mut self) -> Connection {
        let connection = Connection::open(&self.directory.path().join("nic.sock")).unwrap();
        self.poll();
        connection
    }

    /// The reply to a request.
    fn ask(&mut self, to: &Connection, request: &Request, fd: Option<BorrowedFd<'_>>) -> Reply {
        to.send(request, fd).unwrap();
        self.poll();
        to.receive().unwrap().unwrap().0
    }

    #[track_caller]
    fn refused(&mut self, to: &Connection, request: &Request, fd: Option<BorrowedFd<'_>>) -> String {
        match self.ask(to, request, fd) {
            Reply::Refused { reason } => reason,
            other => panic!("not a refusal: {other:?}"),
        }
    }
}

const LIMITS: Limits = Limits { region_max: 64 << 20, memory_max: 64 << 20 };

fn attach(rss: Option<&Rss>) -> Request {
    Request::Attach { name: "one".into(), mac: None, rss: rss.map(RssMessage::from) }
}

fn region(queues: u16) -> Region {
    let layout = Layout::new(&Config { queues, ring: 64, buffers: 64, ..Config::default() }).unwrap();
    let region = Region::create(layout.size(), Pages::Small).unwrap();
    format(&region.memory(), &layout);
    region
}

#[test]
fn a_program_attaches_and_goes() {
    let mut rig = Rig::new(LIMITS, true);
    let (program, region) = (rig.connect(), region(3));
    assert!(matches!(rig.ask(&program, &Request::Hello, None), Reply::Hello(Hello { rss: true, .. })));
    assert!(matches!(rig.ask(&program, &Request::Status, None), Reply::Status(_)));
    let rss = Rss::new(3);
    assert_eq!(rig.ask(&program, &attach(Some(&rss)), Some(region.as_fd())), Reply::Attached);
    assert_eq!(rig.nic.attached, [(1, "one".to_owned(), 3, Some(rss))]);
    let again = rig.refused(&program, &attach(None), Some(region.as_fd()));
    assert!(again.contains("has a region already"), "{again}");
    assert_eq!(rig.ask(&program, &Request::Rss(None), None), Reply::Done);
    drop(program);
    rig.poll();
    assert_eq!(rig.nic.calls, ["rss 1 false", "detach 1"]);
    drop(rig.connect()); // never attached: no detaching
    rig.poll();
    assert_eq!(rig.nic.calls.len(), 2);
}

#[test]
fn memory_is_leased_within_the_limit() {
    let size = region(1).size();
    let mut rig = Rig::new(Limits { memory_max: u64::from(size) * 2, ..LIMITS }, false);
    let programs: Vec<_> = (0..3).map(|_| (rig.connect(), region(1))).collect();
    for (program, region) in programs.iter().take(2) {
        assert_eq!(rig.ask(program, &attach(None), Some(region.as_fd())), Reply::Attached);
    }
    let (program, region) = &programs[2];
    let why = rig.refused(program, &attach(None), Some(region.as_fd()));
    assert!(why.contains("0 are left") && why.contains("--memory-max"), "{why}");
    rig.nic.leases.pop();
    rig.nic.refuses = true;
    assert_eq!(rig.refused(program, &attach(None), Some(region.as_fd())), "not today");
    rig.nic.refuses = false;
    // What the NIC refused does not count. (It had sealed that region.)
    assert_eq!(rig.ask(program, &attach(None), Some(self::region(1).as_fd())), Reply::Attached);
}

#[test]
fn what_cannot_be_is_refused_and_the_connection_goes_on() {
    let mut rig = Rig::new(Limits { region_max: 4096, ..LIMITS }, false);
    let (program, region) = (rig.connect(), region(2));
    let why = rig.refused(&program, &attach(None), None);
    assert!(why.contains("no descriptor"), "{why}");
    let why = rig.refused(&program, &attach(None), Some(region.as_fd()));
    assert!(why.contains("--region-max"), "{why}");
    let why = rig.refused(&program, &Request::Rss(None), None);
    assert!(why.contains("attach a region before"), "{why}");
    rig.listener.limits = LIMITS;
    let why = rig.refused(&program, &attach(Some(&Rss::new(2))), Some(region.as_fd()));
    assert!(why.contains("no RSS"), "{why}");
    rig.nic.rss = true;
    let why = rig.refused(&program, &attach(Some(&Rss::new(9))), Some(self::region(2).as_fd()));
    assert!(why.contains("queues 0 to 1"), "{why}");
    assert_eq!(rig.ask(&program, &attach(None), Some(self::region(2).as_fd())), Reply::Attached);
    assert_eq!(rig.nic.calls, [""; 0]);
}

#[test]
fn each_queue_is_notified_by_one_socket() {
    let mut rig = Rig::new(LIMITS, false);
    let (program, region) = (rig.connect(), region(2));
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let notify = |rig: &mut Rig, queue| {
        program.send(&Request::Notify { queue }, Some(theirs.as_fd())).unwrap();
        rig.poll();
    };
    notify(&mut rig, 0); // not attached yet
    assert_eq!(rig.ask(&program, &attach(None), Some(region.as_fd())), Reply::Attached);
    for queue in [0, 0, 1, 2, 1] {
        notify(&mut rig, queue);
    }
    assert_eq!(rig.nic.calls, ["notify 1 0", "notify 1 1"]);
}

#[test]
fn stop_is_seen_before_anything_is_handled() {
    let mut rig = Rig::new(LIMITS, false);
    let (stop, end) = UnixStream::pair().unwrap();
    let program = rig.connect();
    program.send(&Request::Hello, None).unwrap();
    drop(end);
    assert!(rig.listener.poll(&mut rig.nic, Some(stop.as_fd()), None).unwrap());
    rig.poll();
    assert!(program.receive::<Reply>().unwrap().is_some(), "and handled later");
}
