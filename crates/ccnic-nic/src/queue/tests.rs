//! The NIC's side of a queue against a program of the same process.

use std::time::Duration;

use ccnic_client::{Burst, Config, Design, QueuePair};

use super::*;
use crate::{Nic, Part, Program};

/// Both ends of an attachment: one queue pair with rings of 64 descriptors, 64 large buffers, an MTU of 9000 bytes.
struct Attachment {
    host: ccnic_client::Nic,
    pair: QueuePair,
    queue: Queue,
    program: Program,
    nic: Nic,
    _directory: tempfile::TempDir,
}

impl Attachment {
    fn new(design: Design) -> Attachment {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let nic = Nic::options().listen(&socket).unwrap();
        let shared_pool = design != Design::Doorbell;
        let config = Config { design, shared_pool, ring: 64, buffers: 64, mtu: 9000, ..Config::default() };
        let (host, pair) = std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                let mut host = ccnic_client::Nic::options().config(&config).name("program").open(&socket)?;
                let pair = host.queue_pair(0)?;
                Ok::<_, ccnic_client::Error>((host, pair))
            });
            while !host.is_finished() {
                nic.poll(Some(Duration::from_millis(1))).unwrap();
            }
            host.join().unwrap().unwrap()
        });
        let program = nic.accept().unwrap();
        let queue = program.queue(0).unwrap();
        Attachment { host, pair, queue, program, nic, _directory: directory }
    }

    /// Sends packets of these lengths, whose bytes are their number; returns how many went.
    fn send(&mut self, lens: &[u16]) -> usize {
        let mut sent = 0;
        for (number, len) in (0..).zip(lens) {
            let mut burst = Burst::new();
            let segments = usize::from(*len).div_ceil(LARGE_BUF as usize);
            assert_eq!(self.pair.alloc(*len, segments, &mut burst), segments);
            for buf in burst.iter_mut() {
                self.pair.with_mut(buf, |bytes| bytes.fill(number));
            }
            sent += self.pair.tx_burst(&mut burst);
            assert!(burst.is_empty());
        }
        sent
    }

    /// The packets that the program receives, and their metadata.
    fn received(&mut self) -> Vec<(Vec<u8>, u64)> {
        let mut burst = Burst::new();
        let (mut packets, mut packet) = (Vec::new(), Vec::new());
        self.pair.rx_burst(&mut burst, 32);
        for buf in burst.as_slice() {
            self.pair.with(buf, |bytes| packet.extend_from_slice(bytes));
            if !buf.more() {
                packets.push((std::mem::take(&mut packet), buf.meta()));
            }
        }
        self.pair.free(&mut burst);
        packets
    }
}

#[test]
fn copies_of_every_length_arrive_in_every_design() {
    for design in Design::ALL {
        let mut all = Attachment::new(design);
        assert!(all.received().is_empty()); // posts receive buffers, in the E810 design
        let long = vec![7; 9000];
        let part = |bytes, more| Part { bytes, meta: 9, more };
        let parts =
            [part(&b"head"[..], true), part(b"tail", false), part(b"packet", false), part(&long, false)];
        assert_eq!(all.queue.tx_copy(&parts), Ok(4), "{design:?}");
        let expected = [&b"headtail"[..], b"packet", &long].map(|bytes| (bytes.to_vec(), 9));
        assert_eq!(all.received(), expected, "{design:?}");
        assert_eq!(all.queue.tx_copy(&[&b"x"[..], b"y"]), Ok(2));
        assert_eq!(all.received(), [(b"x".to_vec(), 0), (b"y".to_vec(), 0)]);
    }
}

#[test]
fn what_can_never_be_sent_ends_a_burst_or_is_an_error() {
    let mut all = Attachment::new(Design::GroupedEpoch);
    let queue = &mut all.queue;
    let part = |more| Part { bytes: b"x", meta: 0, more };
    assert_eq!(queue.tx_copy(&[&b""[..]]), Err(BurstError::Empty));
    assert_eq!(queue.tx_copy(&[&[0; 9001][..]]), Err(BurstError::TooLong));
    assert_eq!(queue.tx_copy(&[part(true)]), Err(BurstError::NoEnd));
    assert_eq!(queue.tx_copy(&[part(true); SEGMENTS + 1]), Err(BurstError::TooLong));
    assert_eq!(queue.tx_copy(&[&b"x"[..], b""]), Ok(1));
    assert_eq!(queue.tx_burst(&[Desc::new(64, 64, 0)]), Err(BurstError::BadBuffer));
    assert_eq!(queue.free(&[Desc::new(64, 64, 0)]), Err(BurstError::BadBuffer));
    let stats = queue.stats();
    assert_eq!(
        (stats.tx_packets, stats.tx_bad_packet, stats.tx_bad_buffer, stats.free_bad_buffer),
        (1, 4, 1, 1)
    );
}

#[test]
fn a_packet_goes_back_in_its_own_buffers() {
    for design in [Design::GroupedEpoch, Design::GroupedClear] {
        let mut all = Attachment::new(design);
        assert_eq!(all.send(&[60, 9000]), 4);
        let mut descs = [Desc::default(); 8];
        assert_eq!(all.queue.rx_burst(&mut descs), 4, "{design:?}");
        let mut bytes = [0; 60];
        all.queue.read(descs[0], 0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 60]);
        all.queue.write(descs[3], 4, b"new").unwrap();
        assert_eq!(all.queue.write(descs[0], 58, b"new"), Err(BurstError::BadBuffer), "beyond its data");
        assert_eq!(
            all.queue.read(Desc::new(0, 64, 0), 0, &mut bytes),
            Err(BurstError::BadBuffer),
            "no buffer"
        );
        assert_eq!(all.queue.tx_burst(&descs[..4]), Ok(4));
        let packets = all.received();
        assert_eq!(packets[0].0, [0; 60], "{design:?}");
        assert_eq!((packets[1].0.len(), &packets[1].0[8192 + 3..8192 + 8]), (9000, &b"\x01new\x01"[..]));
    }
}

#[test]
fn a_chain_is_received_as_descriptors_only() {
    let mut all = Attachment::new(Design::GroupedEpoch);
    all.send(&[60, 9000, 100]);
    let mut rooms = [[0; 128]; 4];
    let mut receive = |queue: &mut Queue| {
        let mut rooms = rooms.iter_mut();
        queue.rx_copy(4, 128, |_, desc| &mut rooms.next().unwrap()[..desc.len().into()])
    };
    assert_eq!(receive(&mut all.queue), Ok(1));
    assert_eq!(receive(&mut all.queue), Err(BurstError::NotOneRoom));
    let mut descs = [Desc::default(); 3];
    assert_eq!(all.queue.rx_burst(&mut descs), 3);
    assert_eq!(descs.map(|desc| desc.more()), [true, true, false]);
    all.queue.free(&descs).unwrap();
    assert_eq!(receive(&mut all.queue), Ok(1));
    assert_eq!((rooms[0][0], all.queue.stats().rx_packets), (2, 3));
}

#[test]
fn what_was_fetched_and_not_received_is_dropped_when_a_queue_is_retired() {
    let mut all = Attachment::new(Design::GroupedEpoch);
    all.send(&[60; 3]);
    assert_eq!(all.queue.rx_burst(&mut [Desc::default(); 1]), 1);
    all.queue.retire();
    assert_eq!((all.queue.stats().rx_packets, all.queue.stats().rx_dropped_close), (3, 2));
    all.send(&[60]);
    assert_eq!(all.queue.rx_burst(&mut [Desc::default(); 1]), 1, "it can be used again");
}

#[test]
fn buffers_are_allocated_whole_packets_at_a_time() {
    let mut all = Attachment::new(Design::GroupedEpoch);
    let mut descs = [Desc::default(); 64];
    assert_eq!(all.queue.alloc(9001, &mut descs), Err(BurstError::TooLong));
    assert_eq!(all.queue.alloc(9000, &mut descs[..2]), Err(BurstError::TooFewEntries));
    assert_eq!(all.queue.alloc(9000, &mut descs[..8]), Ok(6));
    assert_eq!(descs[..6].iter().map(|desc| u32::from(desc.len())).sum::<u32>(), 18_000);
    all.queue.free(&descs[..6]).unwrap();
    let got = all.queue.alloc(4096, &mut descs).unwrap();
    assert_eq!(all.queue.stats().alloc_failed as usize, 64 - got);
    let mut doorbell = Attachment::new(Design::Doorbell);
    assert_eq!(doorbell.queue.alloc(64, &mut descs), Err(BurstError::NotShared));
    assert_eq!(doorbell.queue.tx_burst::<Desc>(&[]), Err(BurstError::NotShared));
    assert_eq!(doorbell.queue.rx_burst(&mut []), 0);
}

#[test]
fn a_queue_is_opened_once() {
    let all = Attachment::new(Design::GroupedEpoch);
    assert!(matches!(all.program.queue(0), Err(Error::QueueTaken { queue: 0 })));
    assert!(matches!(all.program.queue(1), Err(Error::NoQueue { queue: 1, queues: 1 })));
    assert_eq!((all.program.name(), all.program.pid()), ("program", std::process::id() as i32));
}

#[test]
fn a_program_sees_its_nic_go_when_the_last_of_it_is_dropped() {
    let Attachment { host, pair, queue, program, nic, _directory } = Attachment::new(Design::GroupedEpoch);
    assert!(host.alive() && nic.has_programs());
    drop(program);
    assert!(host.alive() && nic.has_programs(), "its queue is there");
    drop(queue);
    assert!(!nic.has_programs());
    assert!(!host.alive());
    drop(pair);
}

#[test]
fn a_program_that_was_not_told_to_wakes_nobody() {
    let mut all = Attachment::new(Design::GroupedEpoch);
    assert!(matches!(all.queue.arm(), Err(Error::Silent)));
    all.send(&[60]);
    assert!(matches!(all.queue.arm(), Ok(false)), "it is seen by who looks");
}
