//! What the daemon refuses, and in which words: regions that are none, regions whose header cannot be, messages that are
//! not understood. After every refusal it holds nothing more than before, and goes on.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ccnic::rss::Rss;
use ccnic::{Config, Design, Layout, SharedMemory, host};
use ccnic_client::{Error, NicOptions};
use ccnic_control::Connection;
use ccnic_control::messages::{Reply, Request};
use ccnic_control::rss::RssMessage;
use ccnic_shm::{Pages, Region};
use ccnic_testing::RegionMemory;
use common::{Daemon, alone, until};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// A daemon, and how it stood before anybody came.
struct Nic {
    daemon: Daemon,
    socket: std::path::PathBuf,
    holdings: (usize, usize),
    _directory: tempfile::TempDir,
}

fn nic(args: &[&str]) -> Nic {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start_with(&socket, args);
    daemon.status();
    let holdings = daemon.settled();
    Nic { daemon, socket, holdings, _directory: directory }
}

impl Nic {
    /// The daemon goes on, and has let go of what it refused.
    #[track_caller]
    fn unmoved(&mut self) {
        let Nic { daemon, holdings, .. } = self;
        assert!(daemon.status().programs.is_empty());
        until("what was held for a refused program", || daemon.holdings() == *holdings);
        assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    }

    /// Why `fd` cannot be attached. The connection survives the refusal.
    #[track_caller]
    fn why(&self, fd: Option<BorrowedFd<'_>>) -> String {
        let connection = Connection::open(&self.socket).unwrap();
        let reason = refused(connection.ask(&attach(), fd));
        assert!(matches!(connection.ask(&Request::Hello, None), Ok(Reply::Hello(_))), "after: {reason}");
        reason
    }
}

fn attach() -> Request {
    Request::Attach { name: "bad".into(), mac: None, rss: None }
}

#[track_caller]
fn refused(answer: Result<Reply, impl Into<Error>>) -> String {
    match answer.map_err(Into::into) {
        Err(Error::Refused { reason }) => reason,
        other => panic!("not a refusal: {other:?}"),
    }
}

#[track_caller]
fn says(message: &str, expected: &str) {
    assert!(message.contains(expected), "\"{message}\" does not say \"{expected}\"");
}

fn small() -> Config {
    Config { ring: 64, buffers: 16, ..Config::default() }
}

/// A region that could be attached.
fn region(config: &Config) -> (Region, Layout) {
    let layout = Layout::new(config).unwrap();
    let region = Region::create(layout.size(), Pages::Small).unwrap();
    host::format(&region.memory(), &layout);
    (region, layout)
}

fn memfd(size: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("refusals", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, size).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// With all its pages there.
fn written(size: usize, seals: SealFlags) -> OwnedFd {
    let fd = memfd(size as u64, SealFlags::empty());
    File::from(fd.try_clone().unwrap()).write_all(&vec![0; size]).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

#[test]
fn descriptors_that_are_no_region() {
    let _alone = alone();
    let mut nic = nic(&[]);
    says(&nic.why(None), "no descriptor came with the request");
    let (reader, _writer) = std::io::pipe().unwrap();
    says(&nic.why(Some(reader.as_fd())), "not a memfd");
    let connection = Connection::open(&nic.socket).unwrap();
    says(&nic.why(Some(connection.as_fd())), "not a memfd");
    drop(connection);
    says(&nic.why(Some(File::open("/dev/null").unwrap().as_fd())), "not a memfd");
    // A file in a tmpfs answers like a memfd, one that could shrink.
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![0; 1 << 20]).unwrap();
    says(&nic.why(Some(file.as_fd())), "is not a ccnic region: it is not");
    let never_sealed = memfd_create("refusals", MemfdFlags::CLOEXEC).unwrap();
    says(&nic.why(Some(never_sealed.as_fd())), "F_SEAL_SHRINK");
    says(&nic.why(Some(memfd(1 << 20, SealFlags::empty()).as_fd())), "F_SEAL_SHRINK");
    says(&nic.why(Some(memfd(1 << 20, SealFlags::GROW | SealFlags::SEAL).as_fd())), "F_SEAL_SHRINK");
    says(&nic.why(Some(memfd(1 << 20, SealFlags::SHRINK).as_fd())), "F_SEAL_GROW");
    let fixed = SealFlags::SHRINK | SealFlags::GROW;
    says(&nic.why(Some(memfd(1 << 20, fixed | SealFlags::WRITE).as_fd())), "against writing");
    says(&nic.why(Some(memfd(1 << 20, fixed | SealFlags::FUTURE_WRITE).as_fd())), "writing");
    says(&nic.why(Some(memfd(0, fixed).as_fd())), "empty");
    says(&nic.why(Some(memfd(1 << 20, fixed).as_fd())), "pages of it are missing");
    says(&nic.why(Some(memfd(5 << 30, fixed).as_fd())), "4 GiB");
    says(&nic.why(Some(written(1, fixed).as_fd())), "ends within its header");
    says(&nic.why(Some(written(64, fixed).as_fd())), "magic word");
    says(&nic.why(Some(written(4095, fixed).as_fd())), "magic word");
    says(&nic.why(Some(written(1 << 20, fixed).as_fd())), "magic word");
    let (region, _) = region(&small());
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&region.as_fd()));
    says(&nic.why(Some(File::open(path).unwrap().as_fd())), "could not map the region");
    nic.unmoved();
}

/// The words of the header, each with what it may not hold and what the refusal says.
const HEADERS: &[(u32, u64, &str)] = &[
    (0, 0, "magic word is missing"),
    (0, 0x0043_494e_4343, "magic word is missing"),
    (8, 0, "layout version 0"),
    (8, 3, "layout version 3, this build knows 4"),
    (8, 5, "layout version 5, this build knows 4"),
    (8, u64::MAX, "layout version 18446744073709551615"),
    (16, 9600 << 16, "queues is 0; choose 1 to 256"),
    (16, 9600 << 16 | 257, "queues is 257; choose 1 to 256"),
    (16, 9600 << 16 | 65535, "queues is 65535; choose 1 to 256"),
    (16, 63 << 16 | 1, "mtu is 63; choose 64 to 9600"),
    (16, 9601 << 16 | 1, "mtu is 9601; choose 64 to 9600"),
    (16, 65536 << 16 | 1, "mtu is 65536"),
    (16, u64::MAX, "mtu is"),
    (24, 0, "ring is 0; choose 64 to 32768"),
    (24, 32, "ring is 32; choose 64 to 32768"),
    (24, 65536, "ring is 65536; choose 64 to 32768"),
    (24, 1000, "ring is 1000; choose a power of two"),
    (24, 1 << 32 | 64, "ring is 4294967360"),
    (24, u64::MAX, "ring is 18446744073709551615"),
    (32, 0, "buffers is 0; choose 16 to 262144"),
    (32, 15, "buffers is 15; choose 16 to 262144"),
    (32, 262_145, "buffers is 262145; choose 16 to 262144"),
    (32, 1 << 32 | 16, "buffers is 4294967312"),
    (40, 5, "design is 5; choose 0 to 4"),
    (40, 255, "design is 255; choose 0 to 4"),
    (40, 3 << 8, "demote is 3; choose 0 to 2"),
    (40, !0xff, "demote is"),
    (40, 4, "shared-pool is 1"),
    (48, 64, "flags is 64; choose 0 to 63"),
    (48, u64::MAX, "flags is"),
    (48, 43, "mempool is 1; choose 0"),
    (56, 0, "page is 0"),
    (56, 8192, "page is 8192"),
    (56, 1 << 32 | 4096, "page is 4294971392"),
    // Legal by themselves, but the region is smaller.
    (16, 9600 << 16 | 256, "its geometry needs"),
    (24, 32768, "its geometry needs"),
    (32, 17, "its geometry needs"),
    (32, 262_144, "its geometry needs"),
    (48, 7, "its geometry needs"),  // a ring of posted receive buffers
    (48, 27, "its geometry needs"), // areas beside the rings
    (56, 2 << 20, "its geometry needs"),
];

#[test]
fn headers_that_cannot_be() {
    let _alone = alone();
    let mut nic = nic(&[]);
    for &(at, value, expected) in HEADERS {
        let (region, layout) = region(&Config { inline: false, ..small() });
        let good = region.memory().load(at);
        region.memory().store(at, value);
        let why = nic.why(Some(region.as_fd()));
        assert!(why.contains(expected), "word {at} = {value:#x}: \"{why}\" does not say \"{expected}\"");
        if expected.contains("needs") {
            says(&why, &format!("the region has {} bytes", layout.size()));
        }
        // The same region is welcome with the word as it was.
        region.memory().store(at, good);
        let connection = Connection::open(&nic.socket).unwrap();
        assert!(matches!(connection.ask(&attach(), Some(region.as_fd())), Ok(Reply::Attached)));
    }
    until("the last program's end", || nic.daemon.status().programs.is_empty());
    nic.unmoved();
}

#[test]
fn regions_that_are_too_large() {
    let _alone = alone();
    let mut nic = nic(&["--region-max", "2", "--memory-max", "5"]);
    let fits = Config { buffers: 400, ..small() };
    let connect = |socket: &Path, config| {
        NicOptions::new().name("big").config(&config).pages(Pages::Small).open(socket)
    };
    let why = connect(&nic.socket, Config { buffers: 600, ..fits }).unwrap_err().to_string();
    says(&why, "--region-max");
    let first = connect(&nic.socket, fits).unwrap();
    let second = connect(&nic.socket, fits).unwrap();
    let why = connect(&nic.socket, fits).unwrap_err().to_string();
    says(&why, "--memory-max");
    assert_eq!(nic.daemon.status().programs.len(), 2);
    drop(first);
    // Its memory counts until it is unmapped.
    let mut third = None;
    until("room for another program", || {
        third = connect(&nic.socket, fits).ok();
        third.is_some()
    });
    drop((second, third));
    until("the end of all programs", || nic.daemon.status().programs.is_empty());
    nic.unmoved();
}

#[test]
fn a_second_region_on_one_connection() {
    let _alone = alone();
    let mut nic = nic(&[]);
    let (one, _) = region(&small());
    let (other, _) = region(&Config { design: Design::Packed, ..small() });
    let connection = Connection::open(&nic.socket).unwrap();
    assert!(matches!(connection.ask(&attach(), Some(one.as_fd())), Ok(Reply::Attached)));
    for fd in [Some(one.as_fd()), Some(other.as_fd()), None] {
        says(&refused(connection.ask(&attach(), fd)), "has a region already");
    }
    assert_eq!(nic.daemon.status().programs.len(), 1, "the first region is still served");
    drop(connection);
    until("the program's end", || nic.daemon.status().programs.is_empty());
    nic.unmoved();
}

#[test]
fn rss_that_cannot_be() {
    let _alone = alone();
    let mut nic = nic(&[]);
    let two = Config { queues: 2, ..small() };
    let good = RssMessage::from(&Rss::new(2));
    let (region, _) = region(&two);
    let connection = Connection::open(&nic.socket).unwrap();
    let ask = |rss: &RssMessage| connection.ask(&Request::Rss(Some(rss.clone())), None);
    says(&refused(ask(&good)), "attach a region before");
    says(&refused(connection.ask(&Request::Rss(None), None)), "attach a region before");

    let mut far = good.table.clone();
    far[77] = 2;
    let unknown = |name: &str| RssMessage { types: vec!["ipv4".into(), name.into()], ..good.clone() };
    let bad = [
        (RssMessage { key: vec![1; 39], ..good.clone() }, "key has 39 bytes; give 40"),
        (RssMessage { key: vec![1; 41], ..good.clone() }, "key has 41 bytes; give 40"),
        (RssMessage { key: Vec::new(), ..good.clone() }, "key has 0 bytes; give 40"),
        (RssMessage { table: vec![0; 64], ..good.clone() }, "table has 64 entries; give 128"),
        (RssMessage { table: vec![0; 129], ..good.clone() }, "table has 129 entries; give 128"),
        (RssMessage { table: far, ..good.clone() }, "table[77] is queue 2; the program has queues 0 to 1"),
        (RssMessage { table: vec![u16::MAX; 128], ..good.clone() }, "table[0] is queue 65535"),
        (unknown("ipv4-tpc"), "types names \"ipv4-tpc\"; choose among ipv4, ipv4-tcp, ipv4-udp"),
        (unknown(&"x".repeat(10_000)), "types names \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"; choose"),
    ];
    // With the region, which is then not served, and afterwards, when it goes on being served as before.
    for (rss, expected) in &bad {
        let request = Request::Attach { name: "bad".into(), mac: None, rss: Some(rss.clone()) };
        says(&refused(connection.ask(&request, Some(region.as_fd()))), expected);
        assert!(nic.daemon.status().programs.is_empty());
    }
    assert!(matches!(connection.ask(&attach(), Some(region.as_fd())), Ok(Reply::Attached)));
    assert!(matches!(ask(&good), Ok(Reply::Done)));
    for (rss, expected) in &bad {
        says(&refused(ask(rss)), expected);
    }
    for message in
        ["{\"rss\":{}}", "{\"rss\":7}", "\"rss\"", "{\"rss\":{\"key\":[256],\"types\":[],\"table\":[]}}"]
    {
        send_raw(&connection, message.as_bytes(), &[region.as_fd()]);
        let (reply, _) = connection.receive::<Reply>().unwrap().unwrap();
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?} to {message}");
    }
    let program = nic.daemon.program("bad").unwrap();
    assert_eq!((program.rss, program.queues.len()), (Some(good), 2));
    for _ in 0..2 {
        assert!(matches!(connection.ask(&Request::Rss(None), None), Ok(Reply::Done)));
        assert_eq!(nic.daemon.program("bad").unwrap().rss, None);
    }
    drop(connection);
    until("the program's end", || nic.daemon.status().programs.is_empty());
    nic.unmoved();
}

/// Sends bytes and descriptors that no honest program would.
fn send_raw(connection: &Connection, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(connection, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

#[test]
fn messages_that_are_not_understood() {
    let _alone = alone();
    let mut nic = nic(&[]);
    let (region, _) = region(&small());
    let long = format!("{{\"attach\":{{\"name\":\"{}\"}}}}", "x".repeat(70_000));
    let nested = "[".repeat(60_000);
    let messages: &[&[u8]] = &[
        b"hello",
        b"{}",
        b"[]",
        b"null",
        b"\"goodbye\"",
        b"\"attach\"",
        b"{\"attach\":{}}",
        b"{\"attach\":{\"name\":7}}",
        b"{\"attach\":{\"name\":\"x\"}} and more",
        b"{\"Attach\":{\"name\":\"x\"}}",
        b"\"hello\"\"hello\"",
        b"\0",
        b"\xff\xfe\xfd",
        long.as_bytes(),
        nested.as_bytes(),
    ];
    let connection = Connection::open(&nic.socket).unwrap();
    for fds in [&[][..], &[region.as_fd()], &[region.as_fd(); 4], &[region.as_fd(); 16]] {
        for message in messages {
            send_raw(&connection, message, fds);
            let (reply, _) = connection.receive::<Reply>().unwrap().unwrap();
            let Reply::Refused { reason } = reply else { panic!("{reply:?} to {message:?}") };
            says(&reason, "is not understood");
        }
    }
    assert!(matches!(connection.ask(&Request::Hello, None), Ok(Reply::Hello(_))));
    // A message of no bytes is how the end looks.
    send_raw(&connection, b"", &[region.as_fd(); 4]);
    assert!(matches!(connection.receive::<Reply>(), Ok(None)));
    drop(connection);
    nic.unmoved();
}

#[test]
fn a_program_that_does_not_listen() {
    let _alone = alone();
    let mut nic = nic(&[]);
    let deaf = Connection::open(&nic.socket).unwrap();
    rustix::io::ioctl_fionbio(&deaf, true).unwrap();
    let hello = b"\"status\"";
    // Asks and never takes an answer, until the daemon has hung up.
    until("the daemon's patience with a deaf program to end", || {
        sendmsg(&deaf, &[IoSlice::new(hello)], &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
            == Err(rustix::io::Errno::PIPE)
    });
    drop(deaf);
    nic.unmoved();
}
