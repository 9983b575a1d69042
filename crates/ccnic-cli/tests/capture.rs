//! `ccnic capture` of a switch in a thread of the test: what is in the file, as pcap-parser reads it, and tshark where it is installed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::fmt::Debug;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ccnic::Config;
use ccnic_client::{Burst, Nic, Pages, QueuePair};
use ccnic_control::capture::{About, CaptureReader, CaptureRequest, Direction};
use ccnicd::dataplane::DataplaneKind;
use ccnicd::switch::TableLimits;
use common::TestNic;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, OptionCode, parse_block_le};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

/// Longer than any machine needs; only a hang gets here.
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    _nic: TestNic,
    socket: PathBuf,
    directory: tempfile::TempDir,
}

/// A program, and its only queue.
struct Program(QueuePair, Nic);

impl Rig {
    fn new() -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let nic = TestNic::start(&socket, DataplaneKind::Switch(TableLimits::default()));
        Rig { _nic: nic, socket, directory }
    }

    fn program(&self, name: &str) -> Program {
        let config = Config { ring: 256, buffers: 512, ..Config::default() };
        let mut nic =
            Nic::options().name(name).config(&config).pages(Pages::Small).open(&self.socket).unwrap();
        Program(nic.queue_pair(0).unwrap(), nic)
    }

    /// Starts a capture; when it returns, it runs.
    fn capture(&self, args: &[&str]) -> (Child, PathBuf) {
        let file = self.directory.path().join("all.pcapng");
        let _ = std::fs::remove_file(&file);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic"));
        command.args(["capture", "--socket"]).arg(&self.socket).arg("-w").arg(&file).args(args);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        until("the capture to run", || std::fs::metadata(&file).is_ok_and(|meta| meta.len() > 0));
        (child, file)
    }
}

#[track_caller]
fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn frame(to: [u8; 6], from: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x88, 0xb5]].concat();
    frame.extend((frame.len()..len).map(|at| at as u8));
    frame
}

impl Program {
    fn send(&mut self, frame: &[u8]) {
        let mut burst = Burst::new();
        until("a buffer", || self.0.alloc(frame.len() as u16, 1, &mut burst) == 1);
        burst.iter_mut().for_each(|buf| assert_eq!(self.0.write(buf, 0, frame), frame.len()));
        until("room", || self.0.tx_burst(&mut burst) == 1);
    }
}

/// What is in a file: interfaces, and packets as interface, direction, comment, length, bytes.
type Seen = (Vec<String>, Vec<(usize, u8, String, u32, Vec<u8>)>);

fn read(file: &Path) -> Seen {
    let bytes = std::fs::read(file).unwrap();
    let (mut rest, mut seen) = (&bytes[..], (Vec::new(), Vec::new()));
    while !rest.is_empty() {
        let (after, block) = parse_block_le(rest).unwrap();
        rest = after;
        let text = |options: &[pcap_parser::PcapNGOption<'_>], code| {
            let found = options.iter().find(|o| o.code == OptionCode(code));
            found.map(|o| o.value[..o.len.into()].to_vec())
        };
        match block {
            Block::InterfaceDescription(port) => {
                seen.0.push(String::from_utf8(text(&port.options, 2).unwrap()).unwrap());
            }
            Block::EnhancedPacket(packet) => {
                let comment = String::from_utf8(text(&packet.options, 1).unwrap_or_default()).unwrap();
                let direction = text(&packet.options, 2).unwrap()[0];
                seen.1.push((
                    packet.if_id as usize,
                    direction,
                    comment,
                    packet.origlen,
                    packet.packet_data().to_vec(),
                ));
            }
            _ => {}
        }
    }
    seen
}

fn done(child: Child) -> String {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{said}");
    said
}

/// What tshark makes of the file, a line for each packet; none where it is not installed.
fn tshark(file: &Path) -> Option<String> {
    let fields = ["frame.interface_name", "frame.comment", "frame.len", "eth.src"];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-T", "fields"]).args(fields.iter().flat_map(|field| ["-e", field]));
    let Ok(output) = command.output() else {
        println!("not read by tshark: it is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn packets_are_captured_with_port_direction_and_reason() {
    let rig = Rig::new();
    let (mut a, mut b) = (rig.program("alpha"), rig.program("beta"));
    // Everybody is known.
    b.send(&frame([0xff; 6], B, 60));
    until("b to be learned", || b.1.status().unwrap().programs.iter().any(|p| p.queues[0].tx_packets == 1));
    let (child, file) = rig.capture(&["--drops", "-c", "3"]);
    a.send(&frame(B, A, 100));
    a.send(&frame(B, [1, 0, 0, 0, 0, 1], 70));
    a.send(&frame([0xff; 6], A, 300));
    let said = done(child);
    assert!(said.contains("3 packets captured, 0 not captured"), "{said}");
    let (ports, packets) = read(&file);
    assert_eq!(ports, ["alpha"]);
    let dropped = "dropped: drop_bad_source".to_owned();
    assert_eq!(
        packets,
        [
            (0, 1, String::new(), 100, frame(B, A, 100)),
            (0, 1, dropped, 70, frame(B, [1, 0, 0, 0, 0, 1], 70)),
            (0, 1, String::new(), 300, frame([0xff; 6], A, 300)),
        ]
    );
    if let Some(lines) = tshark(&file) {
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(lines[0], "alpha\t\t100\t02:00:00:00:00:0a");
        assert_eq!((lines[1], lines.len()), ("alpha\tdropped: drop_bad_source\t70\t01:00:00:00:00:01", 3));
    }
}

/// The next packet of a capture; none where packets were missed. The test ends where nothing comes, and says what it has waited for.
#[track_caller]
fn next<'a>(reader: &'a mut CaptureReader<UnixStream>, what: &dyn Debug) -> Option<(About, &'a [u8])> {
    if !reader.has_more() {
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let mut fds = [PollFd::new(reader.get_ref(), PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "timed out waiting for {what:?}");
        assert!(reader.advance().unwrap(), "the capture has ended, waiting for {what:?}");
    }
    if reader.has_more() { reader.next_packet().unwrap() } else { None }
}

/// A program that does not read: what it has no room for is seen there, with the reason, and as often as its counters say.
#[test]
fn what_a_receiver_drops_is_captured_with_its_reason() {
    const PACKETS: u64 = 600;
    let rig = Rig::new();
    let (mut a, mut b) = (rig.program("alpha"), rig.program("beta"));
    b.send(&frame([0xff; 6], B, 60));
    until("b to be learned", || b.1.status().unwrap().programs.iter().any(|p| p.queues[0].tx_packets == 1));
    let connection = ccnic_control::Connection::open(&rig.socket).unwrap();
    let request = CaptureRequest { port: None, snap: 64, drops: true, rate: 0 };
    let mut reader = connection.capture(request.clone()).unwrap();
    (0..PACKETS).for_each(|_| a.send(&frame(B, A, 60)));
    let status = || a.1.status().unwrap().programs;
    until("all packets to be dealt with", || {
        status().iter().any(|p| p.name == "alpha" && p.queues[0].tx_packets == PACKETS)
    });
    let beta = status().into_iter().find(|p| p.name == "beta").unwrap();
    let counted = beta.queues[0];
    let lost = counted.drop_ring_full + counted.drop_no_buffer;
    assert!(lost > 0 && lost == counted.dropped() && counted.rx_packets + lost == PACKETS, "{counted:?}");
    let (mut came, mut seen) = (0, std::collections::BTreeMap::new());
    while came + seen.values().sum::<u64>() + reader.missed() < PACKETS + lost {
        let what = (came, reader.missed(), &counted);
        let Some((about, bytes)) = next(&mut reader, &what) else { continue };
        assert_eq!(bytes, frame(B, A, 60));
        match (about.direction, about.dropped) {
            (Direction::In, None) => came += 1,
            (Direction::Out, Some(why)) if about.port == beta.id => *seen.entry(why).or_insert(0) += 1,
            other => panic!("{other:?} at {}", about.port),
        }
    }
    let expected = [("drop_ring_full", counted.drop_ring_full), ("drop_no_buffer", counted.drop_no_buffer)];
    let expected = expected.into_iter().filter(|(_, packets)| *packets > 0).collect();
    assert_eq!((came, seen, reader.missed()), (PACKETS, expected, 0));

    // At the port itself: only what it gets, unless drops are asked for.
    let of_beta = CaptureRequest { port: Some(beta.id), drops: false, ..request };
    let mut reader = connection.capture(of_beta).unwrap();
    (0..5).for_each(|_| a.send(&frame(B, A, 61)));
    let all = PACKETS + 5;
    until("them to be dealt with", || {
        a.1.status().unwrap().programs.iter().any(|p| p.name == "alpha" && p.queues[0].tx_packets == all)
    });
    let mut burst = Burst::new();
    until("room", || {
        b.0.rx_burst(&mut burst, 32);
        let got = burst.len();
        b.0.free(&mut burst);
        got == 0
    });
    a.send(&frame(B, A, 62));
    let (about, bytes) = next(&mut reader, &"one that the port takes").expect("nothing was missed");
    assert_eq!((about.direction, about.dropped, bytes), (Direction::Out, None, &frame(B, A, 62)[..]));
}

#[test]
fn of_one_port_both_directions_within_filter_and_length() {
    let rig = Rig::new();
    let (mut a, mut b, mut c) = (rig.program("alpha"), rig.program("beta"), rig.program("gamma"));
    let (child, file) = rig.capture(&[
        "-p",
        "beta",
        "-s",
        "32",
        "-c",
        "3",
        "less",
        "200",
        "and",
        "not",
        "ether",
        "src",
        "2:0:0:0:0:c",
    ]);
    a.send(&frame([0xff; 6], A, 64)); // to beta
    c.send(&frame([0xff; 6], [2, 0, 0, 0, 0, 0xc], 64));
    a.send(&frame([0xff; 6], A, 201));
    b.send(&frame([0xff; 6], [3; 6], 65)); // from a group: dropped, and not asked for
    b.send(&frame(A, B, 66));
    until("beta's packet to be dealt with", || {
        let status = b.1.status().unwrap();
        status.programs.iter().any(|p| p.name == "beta" && p.queues[0].tx_packets == 2)
    });
    a.send(&frame(B, A, 67));
    done(child);
    let (ports, packets) = read(&file);
    let short: Vec<_> = packets
        .iter()
        .map(|(port, way, comment, len, bytes)| (*port, *way, comment.as_str(), *len, bytes.len()))
        .collect();
    assert_eq!(ports, ["beta"]);
    // Packets of different senders may overtake each other.
    let mut sorted = short.clone();
    sorted.sort_unstable_by_key(|packet| packet.3);
    assert_eq!(sorted, [(0, 2, "", 64, 32), (0, 1, "", 66, 32), (0, 2, "", 67, 32)]);
    assert!(tshark(&file).is_none_or(|lines| lines.lines().all(|line| line.starts_with("beta\t"))));
}

/// A reader that does not read: packets go on, and what was not captured is counted.
#[test]
fn nobody_waits_for_a_reader() {
    let rig = Rig::new();
    let mut a = rig.program("alpha");
    let request = CaptureRequest { port: None, snap: 4096, drops: true, rate: 0 };
    let connection = ccnic_control::Connection::open(&rig.socket).unwrap();
    let mut reader = connection.capture(request.clone()).unwrap();
    // More than chunks and socket hold.
    const PACKETS: u64 = 2000;
    (0..PACKETS).for_each(|_| a.send(&frame(B, A, 2000)));
    until("all packets to be dealt with", || {
        a.1.status().unwrap().programs[0].queues[0].tx_packets == PACKETS
    });
    let mut got = 0;
    while got + reader.missed() < PACKETS {
        let what = (got, reader.missed());
        let Some((about, bytes)) = next(&mut reader, &what) else { continue };
        assert_eq!((about.dropped, about.len), (Some("drop_no_destination"), 2000));
        assert!(bytes == frame(B, A, 2000), "other bytes");
        got += 1;
    }
    assert!(got > 100, "{got}");
    let limited = connection.capture(CaptureRequest { rate: 1, ..request.clone() }).unwrap();
    drop((reader, limited));
    for _ in 0..10 {
        // They end by themselves: there is always room for another one.
        until("room for a capture", || connection.capture(request.clone()).is_ok());
    }
}

/// The file of another user would show packets that are not its own.
#[test]
fn other_users_may_not_capture() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: that takes root");
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let socket = directory.path().join("nic.sock");
    let mut options = common::options(&socket, vec![0], DataplaneKind::Switch(TableLimits::default()));
    options.access.mode = Some(0o777);
    options.cores = ccnicd::control::placement::allowed_cpus().unwrap().into_iter().take(1).collect();
    let _nic = TestNic::start_with(options);
    let other = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=4242", "--regid=4242", "--clear-groups", env!("CARGO_BIN_EXE_ccnic")])
            .args(args);
        command.output()
    };
    if !other(&["--version"]).is_ok_and(|output| output.status.success()) {
        return println!("skipped: another user cannot execute the command, or there is no setpriv");
    }
    let file = directory.path().join("file").display().to_string();
    let output = other(&["capture", "-w", &file, "--socket", socket.to_str().unwrap()]).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("user 4242 may not capture"), "{said}");
}

#[test]
fn what_cannot_be_captured_is_said() {
    let rig = Rig::new();
    let ccnic = |socket: &Path, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic"));
        let file = rig.directory.path().join("none.pcapng");
        let output = command
            .args(["capture", "--socket"])
            .arg(socket)
            .arg("-w")
            .arg(file)
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(ccnic(&rig.socket, &["-p", "nobody"]).contains("no port is called nobody"));
    assert!(ccnic(&rig.socket, &["tpc"]).contains("known are"));
    assert!(ccnic(&rig.socket, &["-s", "0"]).contains("1..=65535"));
    let loopback = rig.directory.path().join("loop.sock");
    let _nic = TestNic::start(&loopback, DataplaneKind::Loopback);
    assert!(ccnic(&loopback, &[]).contains("--wire switch"));
}
