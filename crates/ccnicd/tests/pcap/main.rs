//! Ports of files, across processes: a program gets what is replayed, what it sends is recorded; files that end early, disks that are full.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../network/mod.rs"]
mod network;

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use common::{Daemon, alone, refused_port, until};
use network::net::{self, Nic};
use network::stack::Port;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use rustix::process::Signal;

const PROGRAM: [u8; 6] = [2, 0, 0, 0, 3, 1];
const FROM_FILE: [u8; 6] = [2, 0, 0, 0, 3, 2];

/// A frame whose bytes tell its number.
fn frame(to: [u8; 6], from: [u8; 6], number: usize) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x88, 0xb5], &(number as u32).to_be_bytes()].concat();
    frame.extend((0..40 + number * 13 % 1400).map(|at| net::byte(number as u8, at)));
    frame
}

/// Frames for the program.
fn frames(n: usize) -> Vec<Vec<u8>> {
    (0..n).map(|number| frame(PROGRAM, FROM_FILE, number)).collect()
}

/// A file of the classic format with these frames, a microsecond after each other.
fn classic(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32.to_le_bytes(), [2, 0, 4, 0]].concat();
    file.extend([0, 0, 65_535, 1].map(u32::to_le_bytes).concat());
    for (number, frame) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        file.extend([7, number as u32, len, len].map(u32::to_le_bytes).concat());
        file.extend_from_slice(frame);
    }
    file
}

/// The packets of a file that was recorded: their times in nanoseconds, which ascend, and bytes.
#[track_caller]
fn recorded(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = create_reader(1 << 20, File::open(path).unwrap()).unwrap();
    let (mut packets, mut last) = (Vec::new(), 0);
    loop {
        match reader.next() {
            Ok((size, block)) => {
                match block {
                    PcapBlockOwned::NG(Block::InterfaceDescription(of)) => {
                        assert_eq!(of.ts_resolution(), Some(1_000_000_000))
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                        assert!(time >= last && time > 1_600_000_000_000_000_000);
                        last = time;
                        packets.push(packet.packet_data().to_vec());
                    }
                    _ => {}
                }
                reader.consume(size);
            }
            Err(PcapError::Eof) => return packets,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(e) => panic!("after {} packets: {e:?}", packets.len()),
        }
    }
}

fn send(program: &mut Port, frame: &[u8]) {
    until("room to send", || program.send(frame, 0));
}

/// Receives frames and compares them with the next ones that are to come.
#[track_caller]
fn receive(program: &mut Port, expected: &[Vec<u8>]) {
    for (number, expected) in expected.iter().enumerate() {
        let mut got = None;
        until(&format!("frame {number} of the file"), || {
            got = program.next();
            got.is_some()
        });
        assert!(got.as_ref() == Some(expected), "frame {number}");
    }
}

#[test]
fn what_is_replayed_arrives_and_what_is_sent_is_recorded() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let [source, target] = ["in.pcap", "out.pcapng"].map(|name| directory.path().join(name));
    let expected = frames(400); // fewer than the program has room for, should it get no CPU meanwhile
    std::fs::write(&source, classic(&expected)).unwrap();
    let port = format!("pcap:{},start=packet,rate=asap,record={}", source.display(), target.display());
    let mut nic = Nic::start(&[&port]);
    let mut program = Port::open(&nic.socket, "program", 1500, false);
    assert!(program.next().is_none(), "nothing comes before a packet was sent");

    let sent: Vec<_> = (0..300).map(|number| frame(FROM_FILE, PROGRAM, number)).collect();
    send(&mut program, &sent[0]);
    receive(&mut program, &expected);
    nic.daemon.falls_asleep(); // all has been played, and what was recorded is with the thread that writes
    sent[1..].iter().for_each(|frame| send(&mut program, frame));
    let name = format!("pcap:{}", source.display());
    until("all to be recorded", || nic.counters(&name).rx_packets == 300);
    let port = nic.port(&name);
    assert_eq!((port.design.as_str(), port.queues.len()), ("pcap", 1));
    assert_eq!(port.queues[0].tx_packets, 400);
    nic.accounts_for_all();
    assert!(nic.daemon.signal(Signal::TERM).success());
    assert!(recorded(&target) == sent);
    assert_eq!(std::fs::metadata(&target).unwrap().mode() & 0o7777, 0o600, "packets are nobody else's");

    // What was recorded is replayed: the file is pcapng now.
    let nic = Nic::start(&[&format!("pcap:{},start=packet", target.display())]);
    let mut program = Port::open(&nic.socket, "program", 1500, false);
    send(&mut program, &frame(FROM_FILE, [2, 0, 0, 0, 3, 9], 0));
    receive(&mut program, &sent);
}

#[test]
fn files_are_replayed_several_times_and_at_a_rate() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("in.pcap");
    std::fs::write(&source, classic(&frames(50))).unwrap();
    for (options, packets) in [("loop=3", 150), ("loop=3,rate=asap", 150), ("loop=2,rate=1000000", 100)] {
        let mut nic = Nic::start(&[&format!("pcap:{},{options}", source.display())]);
        let name = format!("pcap:{}", source.display());
        until("all packets", || nic.counters(&name).tx_packets >= packets);
        let now = nic.counters(&name);
        assert_eq!((now.tx_packets, now.drop_no_destination), (packets, packets), "there is no other port");
        nic.accounts_for_all();
    }
}

#[test]
fn a_file_that_ends_early_is_said_and_what_came_before_is_replayed() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("in.pcap");
    let whole = classic(&frames(2000)); // more than is read before the daemon answers
    std::fs::write(&source, &whole[..whole.len() - 5]).unwrap();
    let mut nic = Nic::start(&[&format!("pcap:{},rate=asap", source.display())]);
    let name = format!("pcap:{}", source.display());
    until("the packets before", || nic.counters(&name).tx_packets == 1999);
    until("the error", || {
        let log = nic.daemon.log();
        log.contains("the replay ends early: packet 2000, at byte ")
            && log.contains("the file ends in the middle of it")
    });
    nic.accounts_for_all();
}

/// The daemon says what is wrong with a port, and ends.
#[track_caller]
fn refused(port: &str, expected: &str) {
    let said = refused_port(port);
    assert!(said.contains("--port pcap:") && said.contains(expected), "{said}");
}

#[test]
fn files_that_cannot_be_used() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("in.pcap");
    let port = format!("pcap:{}", source.display());
    refused(&port, "could not open it: No such file");
    let whole = classic(&frames(20));
    for (bytes, expected) in [
        (&b"GIF89a, which is something else entirely"[..], "it is no pcap or pcapng file"),
        (&b"\x1f\x8b\x08\0"[..], "it is compressed by gzip"),
        (&whole[..50], "packet 1, at byte 24: the file ends in the middle of it"),
        (&whole[..24], "it has no packets"),
    ] {
        std::fs::write(&source, bytes).unwrap();
        refused(&port, expected);
    }
    refused("pcap:record=/dev/full", "record=/dev/full: could not write to it: No space left");
    refused("pcap:record=/no/such/directory/file", "could not make it: No such file");
}

/// In whatever order ports are named, at the start and later: who is there when a replay begins gets all of it.
#[test]
fn a_replay_begins_when_all_ports_have_joined() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let expected = frames(50);
    std::fs::write(path("in.pcap"), classic(&expected)).unwrap();
    let replay = format!("pcap:{},rate=asap", path("in.pcap").display());
    let record = |name: &str| format!("pcap:record={}", path(name).display());
    for ports in [[&replay, &record("a")], [&record("a"), &replay]] {
        let mut nic = Nic::start(&ports.map(String::as_str));
        until("all to be recorded", || nic.counters(&record("a")).rx_packets >= 50);
        nic.accounts_for_all();
        assert!(nic.daemon.signal(Signal::TERM).success());
        assert!(recorded(&path("a")) == expected);
    }
    // Applied, with a mirror that comes last.
    let socket = path("nic.sock");
    let later = directory.path().to_str().unwrap();
    let mut daemon = Daemon::start_with(&socket, &["--wire", "switch", "--later-paths", later]);
    let port = |name: &str, rest: &str| format!("[[port]]\nkind = 'pcap'\nname = '{name}'\n{rest}\n");
    let [first, last] = ["b", "c"].map(|name| record(name)[5..].to_owned());
    let options = format!("options = {{ rate = 'asap' }}\npolicy = {{ mirror = {{ to = 'pcap:{last}' }} }}");
    let ports = [port(path("in.pcap").to_str().unwrap(), &options), port(&first, ""), port(&last, "")];
    let text = format!("wire = 'switch'\n{}", ports.concat());
    ccnic_control::Connection::open(&socket).unwrap().apply("nic.toml", &text, false).unwrap();
    for name in ["b", "c"] {
        until("all to be recorded", || daemon.program(&record(name)).unwrap().queues[0].rx_packets >= 50);
    }
    assert!(daemon.signal(Signal::TERM).success());
    assert!(recorded(&path("b")) == expected && recorded(&path("c")) == expected);
}

#[test]
fn packets_that_cannot_be_sent_are_counted_and_the_rest_is_replayed() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("in.pcap");
    let mut sent = frames(5);
    sent.insert(2, vec![1; 100_000]);
    sent.insert(4, Vec::new());
    std::fs::write(&source, classic(&sent)).unwrap();
    let mut nic = Nic::start(&[&format!("pcap:{},rate=asap,loop=2", source.display())]);
    let name = format!("pcap:{}", source.display());
    until("the packets", || nic.counters(&name).tx_packets == 10);
    assert_eq!(nic.counters(&name).missed, 4);
    let log = nic.daemon.log();
    assert!(log.contains("skipped packet 3: it has 100000 bytes; the longest frame has 65558"), "{log}");
    assert_eq!(log.matches("skipped packet").count(), 1, "{log}");
}

#[test]
fn a_recording_goes_to_a_file_of_its_own_and_through_no_link() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let [precious, link] = ["precious", "link"].map(|name| directory.path().join(name));
    std::fs::write(&precious, classic(&frames(20))).unwrap();
    let before = std::fs::read(&precious).unwrap();
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    refused(&format!("pcap:record={}", link.display()), "symbolic link");
    refused(
        &format!("pcap:{},record={}", link.display(), precious.display()),
        "replayed and recorded at once",
    );
    std::fs::set_permissions(&precious, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&format!("pcap:record={}", precious.display()), "others may read it");
    assert_eq!(std::fs::read(&precious).unwrap(), before);
}

/// A file system of one MiB, in a mount namespace of the daemon.
#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {}", disk.display());
    let works = Command::new("unshare").args(["--mount", "sh", "-c", &mount]).output();
    if !works.is_ok_and(|done| done.status.success()) {
        println!("skipped: no file system can be mounted here: that takes root");
        return;
    }
    let target = disk.join("out.pcapng");
    let (socket, port) = (directory.path().join("nic.sock"), format!("pcap:record={}", target.display()));
    let start = format!("{mount} && exec \"$0\" \"$@\"");
    let command = ["unshare", "--mount", "sh", "-c", &start, env!("CARGO_BIN_EXE_ccnicd")];
    let mut daemon = Daemon::start_by(&command, &socket, &["--wire", "switch", "--port", &port]);
    let [mut left, mut right] = ["left", "right"].map(|name| Port::open(&socket, name, 1500, false));

    let nobody = [2, 0, 0, 0, 3, 7];
    let mut number = 0;
    until("recording to end", || {
        for _ in 0..32 {
            send(&mut left, &frame(nobody, PROGRAM, number)); // which goes to all ports
            number += 1;
        }
        while right.next().is_some() {}
        daemon.program(&port).unwrap().queues[0].drop_port_down > 0
    });
    assert!(daemon.log().contains("recording ends"), "{}", daemon.log());
    assert!(daemon.log().contains("No space left"), "{}", daemon.log());
    let file = format!("/proc/{}/root{}", daemon.pid().as_raw_nonzero(), target.display());
    let packets = recorded(Path::new(&file));
    assert!(packets.len() > 100, "{} packets", packets.len());
    let mut last = None;
    for packet in &packets {
        let number = u32::from_be_bytes(packet[14..18].try_into().unwrap()) as usize;
        assert!(*packet == frame(nobody, PROGRAM, number) && last < Some(number));
        last = Some(number);
    }
    let sent = frame(FROM_FILE, PROGRAM, 1);
    until("the other program's packet", || {
        send(&mut left, &sent);
        right.next().is_some_and(|got| got == sent)
    });
    assert!(daemon.signal(Signal::TERM).success());
}
