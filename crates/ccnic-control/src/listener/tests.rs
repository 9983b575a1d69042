//! A listener with a NIC that takes notes, polled on the test's thread.

use super::*;
use crate::account::MemoryLease;
use crate::capture::CaptureRequest;
use crate::connection::Waited;
use crate::flow::{FIRST_OF_OPERATOR, FlowAbility, FlowMatch, FlowRule, FlowTarget};
use crate::limits::UserLimits;
use crate::messages::{CONFIG_MAX, ConfigPart, NAME_MAX, PortAdd, PortDel, PortSet, Request};
use crate::rss::RssMessage;
use ccnic::{Config, host::format};
use ccnic_shm::Pages;
use ccnic_testing::RegionMemory;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Longer than any machine needs; only a hang gets here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A NIC that takes note of what it is asked for.
#[derive(Default)]
struct Recorder {
    rss: bool,
    flow: Option<FlowAbility>,
    refuses: bool,
    config: String,
    /// Leases 4 GiB more for each program.
    more: bool,
    attached: Vec<(ClientId, String, u16, Option<Rss>)>,
    kept: Vec<(AttachRequest, Option<MemoryLease>)>,
    calls: Vec<String>,
}

impl Handler for Recorder {
    fn hello(&self) -> Hello {
        Hello { version: "test".into(), rss: self.rss, flow: self.flow, ..Hello::default() }
    }
    fn status(&self, from: Cursor) -> Status {
        let (version, wire) = ("test".into(), "none".into());
        let next = (from.program < 3).then_some(Cursor { program: from.program + 1, queue: 0 });
        Status {
            version,
            pid: 1,
            uptime_s: 0.0,
            wire,
            cores: vec![],
            busy_ns: vec![],
            next,
            ..Status::default()
        }
    }
    fn config(&self) -> Result<String, String> {
        Ok(self.config.clone())
    }
    fn change(&mut self, change: &Change) -> Result<Applied, String> {
        match change {
            Change::File { text, .. } if text.is_empty() => return Err("it says nothing".into()),
            Change::File { name, text, check } => {
                self.calls.push(format!("file {name} {check}"));
                self.config = text.clone();
            }
            other => self.calls.push(format!("change {}", other.is_check())),
        }
        Ok(Applied::default())
    }
    fn attach(&mut self, request: AttachRequest) -> Result<(), String> {
        if self.refuses {
            return Err("not today".into());
        }
        let queues = request.layout.config().queues;
        self.attached.push((request.id, request.name.clone(), queues, request.rss.clone()));
        let more = self.more.then(|| request.memory.lease(1 << 32)).transpose()?;
        self.kept.push((request, more));
        Ok(())
    }
    fn set_rss(&mut self, id: ClientId, rss: Option<Rss>) -> Result<(), String> {
        self.calls.push(format!("rss {id} {}", rss.is_some()));
        Ok(())
    }
    fn flow(&mut self, of: ClientId, request: FlowRequest) -> Result<FlowReply, String> {
        self.calls.push(format!("flow {of} {}", request.program().is_some()));
        Ok(FlowReply::Done)
    }
    fn notify(&mut self, id: ClientId, queue: u16, mut notifier: Notifier) -> Result<(), String> {
        notifier.confirm();
        self.calls.push(format!("notify {id} {queue}"));
        Ok(())
    }
    fn detach(&mut self, id: ClientId) {
        self.calls.push(format!("detach {id}"));
        self.kept.retain(|(request, _)| request.id != id);
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

    /// Handles what is asked until `ready`.
    #[track_caller]
    fn poll_until(&mut self, what: &str, mut ready: impl FnMut(&Recorder) -> bool) {
        let start = Instant::now();
        while !ready(&self.nic) {
            assert!(start.elapsed() < PATIENCE, "timed out waiting for {what}");
            assert!(!self.listener.poll(&mut self.nic, None, Some(Duration::from_millis(1))));
        }
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.directory.path().join("nic.sock")).unwrap()
    }

    /// The reply to a request.
    #[track_caller]
    fn ask(&mut self, to: &Connection, request: &Request, fd: Option<BorrowedFd<'_>>) -> Reply {
        to.send(request, fd).unwrap();
        self.poll_until("a reply", |_| {
            to.wait(PollFlags::IN, Some(Duration::ZERO)).unwrap() == Waited::Ready
        });
        to.receive().unwrap().unwrap().0
    }

    /// Waits until nothing counts as taken.
    #[track_caller]
    fn nothing_taken(&self) {
        let start = Instant::now();
        while self.taken() != (0, 0, 0, 0) {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.taken());
            std::thread::yield_now();
        }
    }

    /// Connections, programs, queues and bytes that count as taken.
    fn taken(&self) -> (usize, usize, usize, u64) {
        let all = self.listener.shared.account.all();
        (all.connections, all.programs, all.queues, all.memory)
    }

    #[track_caller]
    fn refused(&mut self, to: &Connection, request: &Request, fd: Option<BorrowedFd<'_>>) -> String {
        match self.ask(to, request, fd) {
            Reply::Refused { reason } => reason,
            other => panic!("not a refusal: {other:?}"),
        }
    }
}

fn limits(memory_max: u64) -> Limits {
    Limits {
        user: UserLimits { memory: u64::MAX, ..UserLimits::within(0) },
        ..Limits::new(64 << 20, memory_max)
    }
}

fn attach(rss: Option<&Rss>) -> Request {
    Request::Attach { name: "one".into(), mac: None, rss: rss.map(RssMessage::from) }
}

fn region(queues: u16) -> Region {
    let layout = Layout::new(&Config { queues, ring: 64, buffers: 64, ..Config::default() }).unwrap();
    let region = Region::create(layout.size(), Pages::Small).unwrap();
    format(&region.memory(), &layout);
    region
}

/// What the other end does on a thread of its own, while requests are handled here.
#[track_caller]
fn beside<T: Send + 'static>(rig: &mut Rig, work: impl FnOnce(Connection) -> T + Send + 'static) -> T {
    let connection = rig.connect();
    let thread = std::thread::spawn(move || work(connection));
    rig.poll_until("the other end", |_| thread.is_finished());
    thread.join().unwrap()
}

#[test]
fn an_operator_reads_and_changes_the_configuration_in_parts() {
    let mut rig = Rig::new(limits(64 << 20), true);
    let text = "# \u{1b}\u{fc}\n".repeat(50_000);
    let long = text.clone();
    let (applied, read) = beside(&mut rig, move |nic| (nic.apply("nic.toml", &long, false), nic.config()));
    assert!(applied.unwrap().is_empty() && read.unwrap() == text);
    let del = PortDel { name: "a".into(), check: true };
    beside(&mut rig, move |nic| nic.change(&Request::PortDel(del))).unwrap();
    assert_eq!(rig.nic.calls, ["file nic.toml false", "change true"]);
    let nothing = beside(&mut rig, |nic| nic.apply("a", "", true)).unwrap_err();
    assert!(nothing.to_string().contains("it says nothing"));
    let much = "#".repeat(CONFIG_MAX + 1);
    let (why, after) = beside(&mut rig, move |nic| (nic.apply("a", &much, false), nic.apply("b", "#", true)));
    assert!(why.unwrap_err().to_string().contains("more than 1048576 bytes"));
    after.unwrap();
    assert_eq!((rig.nic.config.as_str(), rig.nic.calls.last().unwrap().as_str()), ("#", "file b true"));
}

#[test]
fn who_is_no_operator_neither_reads_nor_changes_it() {
    let mut rig = Rig::new(Limits { operators: vec![4_000_000_000], ..limits(64 << 20) }, true);
    let stranger = rig.connect();
    let part = ConfigPart { more: true, ..ConfigPart::default() };
    for request in [
        Request::Apply(part),
        Request::Apply(ConfigPart::default()),
        Request::Config(0),
        Request::Config(7),
        Request::PortAdd(PortAdd::default()),
        Request::PortDel(PortDel::default()),
        Request::PortSet(PortSet::default()),
        Request::Capture(CaptureRequest { port: None, snap: 1, drops: false, rate: 0 }),
    ] {
        let why = rig.refused(&stranger, &request, None);
        assert!(why.contains("--operators") && why.contains("4000000000"), "{request:?}: {why}");
    }
    assert!(rig.nic.calls.is_empty());
    assert!(
        matches!(rig.ask(&stranger, &Request::Status, None), Reply::Status(_)),
        "which anybody may ask for"
    );
}

#[test]
fn a_program_attaches_and_goes() {
    let mut rig = Rig::new(limits(64 << 20), true);
    let (program, region) = (rig.connect(), region(3));
    assert!(matches!(rig.ask(&program, &Request::Hello, None), Reply::Hello(Hello { rss: true, .. })));
    assert!(matches!(rig.ask(&program, &Request::Status, None), Reply::Status(_)));
    let rss = Rss::new(3);
    assert_eq!(rig.ask(&program, &attach(Some(&rss)), Some(region.as_fd())), Reply::Attached);
    assert_eq!(rig.nic.attached, [(1, "one".to_owned(), 3, Some(rss))]);
    assert_eq!(rig.taken(), (1, 1, 3, region.size().into()));
    let again = rig.refused(&program, &attach(None), Some(region.as_fd()));
    assert!(again.contains("has a region already"), "{again}");
    assert_eq!(rig.ask(&program, &Request::Rss(None), None), Reply::Done);
    drop(program);
    rig.poll_until("its end", |nic| nic.calls == ["rss 1 false", "detach 1"]);
    rig.nothing_taken();
    drop(rig.connect()); // never attached: no detaching
    rig.nothing_taken();
    assert_eq!(rig.nic.calls.len(), 2);
}

#[test]
fn memory_is_leased_within_the_limit() {
    let size = u64::from(region(1).size());
    let mut rig = Rig::new(limits(3 * size), false);
    let programs: Vec<_> = (0..3).map(|_| (rig.connect(), region(1))).collect();
    for (program, region) in programs.iter().take(2) {
        assert_eq!(rig.ask(program, &attach(None), Some(region.as_fd())), Reply::Attached);
    }
    let (program, third) = &programs[2];
    let why = rig.refused(program, &attach(None), Some(third.as_fd()));
    assert!(why.contains("kept for users who have less") && why.contains("--memory-max"), "{why}");
    let mut programs = programs.into_iter();
    drop(programs.next());
    let _second = programs.next();
    rig.poll_until("the end of the first", |nic| nic.calls == ["detach 1"]);
    let Some((program, third)) = programs.next() else { panic!() };
    while rig.taken().3 > size {
        std::thread::yield_now();
    }
    rig.nic.refuses = true;
    assert_eq!(rig.refused(&program, &attach(None), Some(third.as_fd())), "not today");
    rig.nic.refuses = false;
    assert_eq!(rig.taken().3, size, "what the NIC refused does not count");
    rig.nic.more = true;
    // What has been mapped once is sealed.
    let why = rig.refused(&program, &attach(None), Some(region(1).as_fd()));
    assert!(
        why.contains("asks for 4294967296 more") || why.contains("has 4294967296 bytes"),
        "what the NIC needs for it counts: {why}"
    );
    rig.nic.more = false;
}

#[test]
fn what_counts_is_unmapped_first() {
    let mut rig = Rig::new(limits(64 << 20), false);
    let (program, region) = (rig.connect(), region(1));
    assert_eq!(rig.ask(&program, &attach(None), Some(region.as_fd())), Reply::Attached);
    let (request, _) = rig.nic.kept.pop().unwrap();
    let AttachRequest { region: mapped, teardown, .. } = request;
    let (release, released) = std::sync::mpsc::channel::<()>();
    teardown.at_end(move || drop((released.recv(), mapped)));
    drop((program, teardown));
    rig.poll_until("its end", |nic| nic.calls == ["detach 1"]);
    assert_eq!(rig.taken(), (1, 1, 1, region.size().into()), "a part of it is still mapped");
    drop(release);
    rig.nothing_taken();
}

#[test]
fn a_user_has_limits() {
    let user = UserLimits { connections: 3, programs: 2, queues: 3, memory: 64 << 20 };
    let mut rig = Rig::new(Limits { user, ..limits(64 << 20) }, false);
    let programs: Vec<_> = (0..3).map(|_| rig.connect()).collect();
    let ask = |rig: &mut Rig, at: usize, queues| {
        rig.ask(&programs[at], &attach(None), Some(region(queues).as_fd()))
    };
    assert!(matches!(ask(&mut rig, 0, 4), Reply::Refused { reason } if reason.contains("--user-queues")));
    assert_eq!(ask(&mut rig, 0, 1), Reply::Attached);
    assert_eq!(ask(&mut rig, 1, 1), Reply::Attached);
    assert!(matches!(ask(&mut rig, 2, 1), Reply::Refused { reason } if reason.contains("--user-programs")));
    let why = rig.connect().ask(&Request::Hello, None).unwrap_err().to_string();
    assert!(why.contains("3 of 3 connections") && why.contains("--user-connections"), "{why}");
    drop(programs);
    rig.poll_until("their end", |nic| nic.calls.len() == 2);
    rig.nothing_taken();
}

#[test]
fn what_cannot_be_is_refused_and_the_connection_goes_on() {
    let mut rig = Rig::new(Limits { region_max: region(2).size(), ..limits(64 << 20) }, false);
    let (program, larger, region) = (rig.connect(), region(40), region(2));
    let why = rig.refused(&program, &attach(None), None);
    assert!(why.contains("no descriptor"), "{why}");
    let why = rig.refused(&program, &attach(None), Some(larger.as_fd()));
    assert!(why.contains("--region-max"), "{why}");
    let why = rig.refused(&program, &Request::Rss(None), None);
    assert!(why.contains("attach a region before"), "{why}");
    let long = Request::Attach { name: "n".repeat(NAME_MAX + 1), mac: None, rss: None };
    let why = rig.refused(&program, &long, Some(region.as_fd()));
    assert!(why.contains("name has 256 bytes; choose one of at most 255"), "{why}");
    let why = rig.refused(&program, &attach(Some(&Rss::new(2))), Some(region.as_fd()));
    assert!(why.contains("no RSS"), "{why}");
    assert_eq!(rig.taken(), (1, 0, 0, 0));
    rig.nic.rss = true;
    let another = rig.connect();
    let why = rig.refused(&another, &attach(Some(&Rss::new(9))), Some(region.as_fd()));
    assert!(why.contains("queues 0 to 1"), "{why}");
    assert_eq!(rig.ask(&another, &attach(None), Some(region.as_fd())), Reply::Attached);
    assert_eq!(rig.nic.calls, [""; 0]);
}

#[test]
fn each_queue_is_notified_by_one_socket() {
    let mut rig = Rig::new(limits(64 << 20), false);
    let (program, region) = (rig.connect(), region(2));
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let notify = |rig: &mut Rig, queue| {
        program.send(&Request::Notify { queue, wakes: false }, Some(theirs.as_fd())).unwrap();
        rig.ask(&program, &Request::Hello, None); // after it
    };
    notify(&mut rig, 0); // not attached yet
    assert_eq!(rig.ask(&program, &attach(None), Some(region.as_fd())), Reply::Attached);
    for queue in [0, 0, 1, 2, 1] {
        notify(&mut rig, queue);
    }
    assert_eq!(rig.nic.calls, ["notify 1 0", "notify 1 1"]);
}

#[test]
fn captures_need_a_stream_socket_and_a_length() {
    let mut rig = Rig::new(limits(0), false);
    let program = rig.connect();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let file = tempfile::tempfile().unwrap();
    let request = |snap| Request::Capture(CaptureRequest { port: None, snap, drops: false, rate: 0 });
    for (snap, fd, expected) in [
        (0, Some(theirs.as_fd()), "choose 1 to 65535"),
        (65_536, Some(theirs.as_fd()), "choose 1 to 65535"),
        (1, None, "no socket came"),
        (1, Some(file.as_fd()), "no stream socket"),
        (1, Some(theirs.as_fd()), "it is no switch"), // the handler's own answer
    ] {
        let reply = rig.ask(&program, &request(snap), fd);
        assert!(matches!(&reply, Reply::Refused { reason } if reason.contains(expected)), "{reply:?}");
    }
    drop(ours);
}

#[test]
fn the_status_is_asked_for_page_by_page() {
    let mut rig = Rig::new(limits(0), false);
    let program = rig.connect();
    let asking = std::thread::spawn(move || program.status().unwrap());
    rig.poll_until("the whole status", |_| asking.is_finished());
    assert_eq!(asking.join().unwrap().next, None);
}

#[test]
fn stop_is_seen_before_anything_is_handled() {
    let mut rig = Rig::new(limits(0), false);
    let (stop, end) = UnixStream::pair().unwrap();
    let program = rig.connect();
    program.send(&Request::Hello, None).unwrap();
    drop(end);
    assert!(rig.listener.poll(&mut rig.nic, Some(stop.as_fd()), None));
    assert!(matches!(rig.ask(&program, &Request::Hello, None), Reply::Hello(_)), "and handled later");
}

#[test]
fn the_end_of_a_listener_is_the_end_of_its_connections() {
    let mut rig = Rig::new(limits(64 << 20), false);
    let (program, waiting, region) = (rig.connect(), rig.connect(), region(1));
    assert_eq!(rig.ask(&program, &attach(None), Some(region.as_fd())), Reply::Attached);
    waiting.send(&Request::Hello, None).unwrap(); // nobody polls
    let Rig { listener, nic, directory } = rig;
    listener.stop_accepting();
    assert!(!directory.path().join("nic.sock").exists() && !program.has_ended());
    let account = Arc::clone(&listener.shared.account);
    drop(listener);
    assert!(program.has_ended() && waiting.has_ended());
    assert_eq!(account.all().programs, 1, "the NIC still has its region");
    drop(nic);
    let start = Instant::now();
    while account.all() != Default::default() {
        assert!(start.elapsed() < PATIENCE, "{:?}", account.all());
        std::thread::yield_now();
    }
}

#[test]
fn an_observer_reads_all_pages_from_another_thread() {
    let directory = tempfile::tempdir().unwrap();
    let mut listener =
        Listener::new(&directory.path().join("nic.sock"), Limits::new(1 << 20, 1 << 20)).unwrap();
    let observer = listener.observer();
    let reader = std::thread::spawn(move || (observer.status(), observer));
    let mut nic = Recorder::default();
    while !reader.is_finished() {
        listener.poll(&mut nic, None, Some(Duration::from_millis(10)));
    }
    let (status, observer) = reader.join().unwrap();
    assert_eq!(status.map(|status| (status.version, status.next)), Some(("test".into(), None)));
    drop(listener);
    assert_eq!(observer.status(), None, "the NIC has ended");
}

#[test]
fn flow_rules_are_checked_and_those_of_a_program_come_with_it() {
    let mut rig = Rig::new(limits(64 << 20), true);
    let (program, region) = (rig.connect(), region(2));
    let to = |queue| FlowRule { to: FlowTarget::Queue(queue), ..FlowRule::default() };
    let create = |id, rule| Request::Flow(FlowRequest::Create { program: None, id, rule });
    assert!(rig.refused(&program, &create(None, to(0)), None).starts_with("this NIC has no flow rules"));
    rig.nic.flow = Some(FlowAbility { version: 1, rules: 3, field_sets: 8 });
    let program = rig.connect(); // what a NIC can do is asked once
    for (request, reply) in [
        (create(None, to(0)), FlowReply::Created(0)),
        (create(Some(7), to(1)), FlowReply::Created(7)),
        (create(None, to(2)), FlowReply::Created(8)),
        (Request::Flow(FlowRequest::Destroy { program: None, id: 0 }), FlowReply::Done),
    ] {
        assert_eq!(rig.ask(&program, &request, None), Reply::Flow(reply));
    }
    for (request, why) in [
        (create(Some(7), to(1)), "id is 7, which another flow rule has"),
        (create(Some(FIRST_OF_OPERATOR), to(1)), "those above are the operator's"),
        (
            create(
                None,
                FlowRule { matches: FlowMatch { vlan: Some(9999), ..FlowMatch::default() }, ..to(0) },
            ),
            "vlan is 9999",
        ),
        (Request::Flow(FlowRequest::Destroy { program: None, id: 0 }), "there is no flow rule 0"),
        (Request::Flow(FlowRequest::List { program: None, from: 0 }), "no flow rule is in force yet"),
    ] {
        let said = rig.refused(&program, &request, None);
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(rig.ask(&program, &create(None, to(0)), None), Reply::Flow(FlowReply::Created(9)));
    assert!(rig.refused(&program, &create(None, to(0)), None).starts_with("a program may have 3 flow rules"));
    let far = rig.refused(&program, &attach(None), Some(region.as_fd()));
    assert_eq!(far, "flow rule 8: to is queue 2; the program has queues 0 to 1");
    let flush = Request::Flow(FlowRequest::Flush { program: None });
    rig.ask(&program, &flush, None);
    rig.ask(&program, &create(Some(5), to(1)), None);
    assert_eq!(rig.ask(&program, &attach(None), Some(region.as_fd())), Reply::Attached);
    assert_eq!(rig.nic.kept[0].0.flows, [(5, to(1))]);
    // From now on the NIC does it.
    let id = rig.nic.attached[0].0;
    assert!(rig.refused(&program, &create(None, to(2)), None).contains("queues 0 to 1"));
    rig.ask(&program, &flush, None);
    // The tests' user runs the NIC, and is the operator.
    let operator = rig.connect();
    let other = |id| Request::Flow(FlowRequest::Create { program: Some(77), id, rule: to(2) });
    assert!(rig.refused(&operator, &other(Some(1)), None).starts_with("id is 1; leave it out"));
    rig.ask(&operator, &other(None), None);
    assert_eq!(rig.nic.calls[..2], [format!("flow {id} false"), "flow 77 true".to_owned()]);
}
