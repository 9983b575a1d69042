//! The switch, polled by hand on one thread: against a model of who receives what, with every design of ring and pool on either side,
//! receivers that do not read, bursts of floods.

pub(super) mod rig;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::memory::RegionMemory;
use ccnic::host::format;
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded};
use ccnic::rss::{Rss, Spreader};
use ccnic::{Config, Layout};
use ccnic_frame::{Checksum, Meta, Segmentation, Takes, Tci};
use ccnic_shm::{Pages, Region};
use proptest::prelude::*;

use super::policy::{Policy, Rules};
use super::program::SwitchedProgram;
use super::test_workers::on;
use super::*;
use crate::ports::program::ProgramPort;
use rig::*;

#[test]
pub(super) fn frames_go_where_addresses_were_learned_and_are_flooded_otherwise() {
    let mut rig = Rig::new(TableLimits::default());
    (0..4).for_each(|_| _ = rig.add());
    assert_eq!(rig.cast(0, &frame(mac(2), mac(0), 64, 1)), [1, 2, 3], "unknown");
    assert_eq!(rig.cast(2, &frame(mac(0), mac(2), 64, 1)), [0]);
    assert_eq!(rig.cast(0, &frame(mac(2), mac(0), 64, 1)), [2]);
    assert_eq!(rig.cast(2, &frame(BROADCAST, mac(2), 64, 1)), [0, 1, 3]);
    assert_eq!(rig.cast(0, &frame([1, 0, 0x5e, 0, 0, 5], mac(0), 64, 1)), [1, 2, 3]);
    assert_eq!(rig.cast(3, &frame([0x33, 0x33, 0, 0, 0, 5], mac(3), 64, 1)), [0, 1, 2], "no snooping");
    assert_eq!(rig.cast(2, &frame(mac(2), mac(9), 64, 1)), NOBODY, "to an address at its own port");
    assert_eq!(rig.cast(1, &frame(mac(9), mac(1), 64, 1)), [2], "a second address of that port");
    let counters = rig.counters(2);
    assert_eq!((counters.drop_no_destination, counters.flooded, counters.extra_copies), (1, 1, 2));
    rig.check_conservation();
}

#[test]
pub(super) fn bad_sources_and_stubs_are_dropped_and_teach_nothing() {
    let mut rig = Rig::new(TableLimits::default());
    (0..2).for_each(|_| _ = rig.add());
    for source in [[1, 0, 0, 0, 0, 7], BROADCAST, [0; 6]] {
        assert_eq!(rig.cast(0, &frame(mac(1), source, 64, 1)), NOBODY);
    }
    assert_eq!(rig.cast(0, &[0; 64]), NOBODY, "all zeros");
    assert_eq!(rig.cast(0, &frame(mac(1), mac(0), 14, 1)[..13]), NOBODY, "13 bytes");
    assert_eq!(rig.cast(0, &[0; 1]), NOBODY);
    assert!(rig.switch.table().is_empty());
    assert_eq!(rig.cast(0, &frame(mac(1), mac(0), 14, 1)), [1], "14 bytes do");
    let counters = rig.counters(0);
    assert_eq!((counters.drop_bad_source, counters.drop_too_short), (4, 2));
    rig.check_conservation();
}

#[test]
pub(super) fn a_port_alone_has_nobody_to_send_to() {
    let mut rig = Rig::new(TableLimits::default());
    rig.add();
    assert_eq!(rig.cast(0, &frame(BROADCAST, mac(0), 64, 1)), NOBODY);
    let counters = rig.counters(0);
    assert_eq!((counters.drop_no_destination, counters.flooded, counters.tx_packets), (1, 0, 1));
}

/// Receivers get a sender's requests. A good checksum, a hash and a mark are for a NIC to tell, and none has looked.
#[test]
pub(super) fn receivers_are_told_of_a_senders_metadata_what_it_requests() {
    let requested = Checksum::Requested;
    let none = Meta::default();
    let requests = [
        none,
        none.with_ip_checksum(requested),
        none.with_l4_checksum(requested),
        none.with_segmentation(Segmentation::tcp_ipv4(150)),
        none.with_segmentation(Segmentation::tcp_ipv6(1448)),
        none.with_segmentation(Segmentation::udp(8)),
        none.with_vlan(Tci::new(0xe005)),
    ];
    let claims = [
        none,
        none.with_ip_checksum(Checksum::Good),
        none.with_l4_checksum(Checksum::Good),
        none.with_hash(0xdead_beef),
        none.with_mark(0xbeef),
        Meta::from_word(u64::MAX).with_mark(7),
    ];
    let mut rig = Rig::new(TableLimits::default());
    let receivers = [None, Some(Takes::NONE), Some(Takes::ALL), Some(Takes::ALL)];
    receivers.iter().for_each(|takes| _ = rig.join_taking::<GroupedEpoch>(&small(), *takes));
    assert_eq!(rig.cast(3, &frame(BROADCAST, mac(3), 60, 1)), [0, 1, 2]);
    for (request, claim) in requests.iter().flat_map(|request| claims.map(|claim| (*request, claim))) {
        // Bits that contradict each other, or have no meaning, too.
        for word in [request.word() | claim.word(), request.word() | claim.word() | 0x7f << 41] {
            for to in [mac(3), BROADCAST] {
                let said = Meta::from_word(word & Meta::REQUESTS);
                assert!(rig.programs[1].host.send_saying(0, &frame(to, mac(1), 60, 1), word));
                rig.settle();
                for at in [0, 2, 3] {
                    for (_, told) in rig.programs[at].host.receive_told(0) {
                        assert_eq!(told & !Meta::REQUESTS, 0, "{word:x} became {told:x}");
                        assert_eq!(Meta::from_word(told), said, "{request:?} and {claim:?}");
                    }
                }
            }
        }
    }
}

/// A switch with so many ports, which forgets addresses after 10 seconds, after its first second; and what its clock shows.
fn forgetful(ports: usize) -> (Rig, u64) {
    let mut rig = Rig::new(TableLimits { ageing: 10, ..TableLimits::default() });
    (0..ports).for_each(|_| _ = rig.add());
    let mut now = 0;
    rig.pass(1, &mut now);
    (rig, now)
}

#[test]
pub(super) fn an_address_moves_ages_and_goes_with_its_port() {
    let (mut rig, mut now) = forgetful(4);
    let (hello, to) = (frame(BROADCAST, mac(7), 60, 1), frame(mac(7), mac(0), 60, 2));
    assert_eq!(rig.cast(1, &hello), [0, 2, 3]);
    assert_eq!(rig.cast(0, &to), [1]);
    assert_eq!(rig.cast(2, &hello), [0, 1, 3]);
    assert_eq!(rig.cast(0, &to), [2], "it has moved");
    rig.pass(9, &mut now);
    assert_eq!(rig.cast(2, &hello), [0, 1, 3], "seen again");
    rig.pass(9, &mut now);
    assert_eq!(rig.cast(0, &to), [2]);
    rig.pass(1, &mut now);
    assert_eq!(rig.cast(0, &to), [1, 2, 3], "too old");
    assert_eq!(rig.cast(3, &hello), [0, 1, 2]);
    let gone = rig.programs.remove(3);
    assert_eq!(rig.switch.client(gone.at), Some(103));
    let mut port = rig.switch.leave(gone.at).unwrap();
    assert!(port.retire() && !port.retire());
    assert!(rig.switch.leave(gone.at).is_none() && rig.switch.client(gone.at).is_none());
    assert_eq!(rig.cast(0, &to), [1, 2], "forgotten, and there is no port");
    assert_eq!(rig.switch.spin(gone.at, 1), 0);
    assert_eq!(rig.add(), 3);
    assert_eq!(rig.programs[3].at, gone.at, "its place is used again");
    assert_eq!(rig.cast(0, &to), [1, 2, 3]);
}

/// A frame without addresses says nothing of where anybody is: the address that its port spoke from last ages as ever. Also where a port
/// has rules.
#[test]
pub(super) fn a_stub_keeps_no_address_alive() {
    for policy in [Policy::default(), Policy { isolated: true, ..Policy::default() }] {
        let (mut rig, mut now) = forgetful(3);
        rig.switch.set_rules(2, Rules::new(&policy).unwrap());
        let to = frame(mac(7), mac(0), 60, 2);
        assert_eq!(rig.cast(0, &to), [1, 2]);
        assert_eq!(rig.cast(1, &frame(BROADCAST, mac(7), 60, 1)), [0, 2]);
        rig.pass(9, &mut now);
        assert_eq!(rig.cast(1, &frame(mac(0), mac(7), 14, 1)[..13]), NOBODY);
        rig.pass(1, &mut now);
        assert_eq!(rig.cast(0, &to), [1, 2], "too old");
    }
}

/// Of a burst that begins with the addresses of the last one and goes on with others, all have been seen.
#[test]
pub(super) fn every_address_of_a_burst_is_seen() {
    for policy in [Policy::default(), Policy { isolated: true, ..Policy::default() }] {
        let (mut rig, mut now) = forgetful(3);
        rig.switch.set_rules(2, Rules::new(&policy).unwrap());
        let from = |n| frame(BROADCAST, mac(n), 60, 1);
        assert_eq!(rig.cast(1, &from(7)), [0, 2]);
        rig.pass(9, &mut now);
        let host = &mut rig.programs[1].host;
        assert!(host.send(0, &from(7)) && host.send(0, &from(8)));
        rig.settle();
        rig.programs.iter_mut().for_each(|program| _ = program.host.receive(0));
        rig.pass(9, &mut now);
        assert_eq!(rig.cast(0, &frame(mac(7), mac(0), 60, 2)), [1], "it was seen 9 seconds ago");
    }
}

/// A sender's verdict on its last addresses must not outlive what it was made of.
#[test]
pub(super) fn a_remembered_verdict_ends_with_any_change_of_the_table() {
    let mut rig = Rig::new(TableLimits::default());
    (0..3).for_each(|_| _ = rig.add());
    let to = frame(mac(5), mac(0), 64, 1);
    assert_eq!(rig.cast(0, &to), [1, 2]);
    assert_eq!(rig.cast(1, &frame(BROADCAST, mac(5), 64, 1)), [0, 2]);
    assert_eq!(rig.cast(0, &to), [1], "learned between two packets of the same addresses");
    assert_eq!(rig.cast(2, &frame(BROADCAST, mac(0), 64, 1)), [0, 1], "another port takes the source");
    assert_eq!(rig.cast(1, &frame(mac(0), mac(5), 64, 1)), [2]);
    assert_eq!(rig.cast(0, &to), [1], "and it is taken back");
    assert_eq!(rig.cast(1, &frame(mac(0), mac(5), 64, 1)), [0]);
}

#[test]
pub(super) fn a_port_with_too_many_addresses_floods_and_others_do_not_notice() {
    let mut rig = Rig::new(TableLimits { per_port: 4, addresses: 100, ageing: 300 });
    (0..3).for_each(|_| _ = rig.add());
    for n in 10..40 {
        assert_eq!(rig.cast(0, &frame(BROADCAST, mac(n), 64, 1)), [1, 2]);
    }
    assert_eq!((rig.counters(0).not_learned, rig.switch.table().len()), (26, 4));
    assert_eq!(rig.cast(1, &frame(mac(39), mac(1), 64, 1)), [0, 2], "not learned");
    assert_eq!(rig.cast(1, &frame(mac(10), mac(1), 64, 1)), [0], "learned");
    assert_eq!(rig.cast(2, &frame(mac(1), mac(2), 64, 1)), [1]);
    rig.check_conservation();
}

/// Bursts between all designs and pools, of one flow and of mixed ones, short, long, in chains; many laps of every ring.
#[test]
pub(super) fn every_design_sends_to_every_other() {
    let mut rig = Rig::new(TableLimits::default());
    let managed = Config { shared_pool: false, ..small() };
    let plain = Config { inline: false, ..small() };
    rig.join::<GroupedEpoch>(&small());
    rig.join::<GroupedEpoch>(&managed);
    rig.join::<GroupedEpoch>(&plain);
    rig.join::<GroupedClear>(&small());
    rig.join::<Doorbell>(&small());
    rig.join::<Packed>(&managed);
    rig.join::<Padded>(&small());
    let ports = rig.programs.len();
    for n in 0..ports {
        assert_eq!(rig.cast(n, &frame(BROADCAST, mac(n as u8), 60, 0)).len(), ports - 1);
    }
    let lens = [60, 64, 65, 200, 448, 449, 1500, 4096, 4097, 9000];
    for round in 0..40 {
        for from in 0..ports {
            let mut expected = vec![Vec::new(); ports];
            for i in 0..8 {
                // Every other round all go to one; in the others each to the next.
                let to = (from + 1 + if round % 2 == 0 { round / 2 } else { i } % (ports - 1)) % ports;
                let to = if to == from { (to + 1) % ports } else { to };
                let len = lens[(round + i) % if i < 6 { 7 } else { lens.len() }];
                let frame = frame(mac(to as u8), mac(from as u8), len, (round * 8 + i) as u8);
                let host = &mut rig.programs[from].host;
                let sent =
                    if (round + i) % 3 == 0 { host.send_kept(0, &frame) } else { host.send(0, &frame) };
                assert!(sent, "{from} in round {round}");
                expected[to].push(frame);
            }
            rig.settle();
            for (to, expected) in expected.iter().enumerate() {
                let got = rig.programs[to].host.receive(0);
                assert!(
                    got == *expected,
                    "{from} to {to}, round {round}: {} of {}",
                    got.len(),
                    expected.len()
                );
            }
        }
    }
    assert!((0..ports).all(|n| rig.counters(n).drop_no_buffer == 0));
    rig.check_conservation();
}

#[test]
pub(super) fn a_receiver_that_does_not_read_holds_up_nobody() {
    let mut rig = Rig::new(TableLimits::default());
    (0..3).for_each(|_| _ = rig.add());
    for n in 0..3 {
        rig.cast(n, &frame(BROADCAST, mac(n as u8), 60, 0));
    }
    let mut got = 0;
    for n in 0..1000u64 {
        for to in 1..3 {
            assert!(rig.programs[0].host.send(0, &frame(mac(to), mac(0), 300, n as u8)));
        }
        rig.settle();
        got += rig.programs[2].host.receive(0).len();
    }
    assert_eq!(got, 1000);
    let deaf = rig.counters(1);
    assert!(deaf.drop_ring_full + deaf.drop_no_buffer > 800, "{deaf:?}");
    assert_eq!(rig.counters(2).drop_ring_full + rig.counters(2).drop_no_buffer, 0);
    rig.check_conservation();
}

/// A flooded burst among many ports is dealt with in polls of bounded work.
#[test]
pub(super) fn a_poll_makes_a_bounded_number_of_copies() {
    let mut rig = Rig::new(TableLimits::default());
    let config = Config { ring: 64, buffers: 64, ..Config::default() };
    (0..40).for_each(|_| _ = rig.join::<GroupedEpoch>(&config));
    let at = rig.programs[0].at;
    for n in 0..16 {
        assert!(rig.programs[0].host.send(0, &frame(BROADCAST, mac(0), 64, n)));
    }
    assert_eq!(
        (0..33).map(|_| rig.switch.spin(at, 1)).collect::<Vec<_>>()[..32],
        [1; 32],
        "32 copies, then 7"
    );
    assert_eq!(rig.switch.spin(at, 1), 0);
    let all: Vec<_> = (0..16).map(|n| frame(BROADCAST, mac(0), 64, n)).collect();
    for program in &mut rig.programs[1..] {
        assert_eq!(program.host.receive(0), all);
    }
    rig.check_conservation();
}

#[test]
pub(super) fn a_program_with_rss_receives_each_flow_on_its_queue_and_one_without_on_the_first() {
    let mut rig = Rig::new(TableLimits::default());
    let several = Config { queues: 3, ..small() };
    rig.join::<GroupedEpoch>(&several);
    rig.join::<GroupedEpoch>(&several);
    let flow = |n: u8| {
        let mut frame = frame(BROADCAST, mac(0), 80, n);
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 66, 0, 0, 0, 0, 64, 17]);
        frame
    };
    let spreader = Arc::new(Spreader::new(Rss::new(3)));
    for (rss, queues) in [(None, 1), (Some(Arc::clone(&spreader)), 3), (None, 1)] {
        let at = rig.programs[1].at;
        rig.switch.port_mut(at).unwrap().set_rss(rss.clone());
        let mut expected: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for n in 0..15 {
            let to = rss.as_ref().map_or(0, |by| by.queue(by.hash(&flow(n))));
            assert!(rig.programs[0].host.send(usize::from(n % 3), &flow(n)));
            rig.settle();
            expected.entry(to.into()).or_default().push(flow(n));
        }
        assert_eq!(expected.len(), queues);
        for queue in 0..3 {
            let got = rig.programs[1].host.receive(queue);
            assert!(&got == expected.get(&queue).unwrap_or(&Vec::new()), "queue {queue}: {}", got.len());
        }
    }
    rig.check_conservation();
}

#[test]
pub(super) fn what_is_too_long_for_one_receiver_reaches_the_others() {
    let mut rig = Rig::new(TableLimits::default());
    rig.add();
    rig.join::<GroupedEpoch>(&Config { mtu: 1500, ..small() });
    rig.add();
    assert_eq!(rig.cast(0, &frame(BROADCAST, mac(0), 1501, 1)), [2]);
    assert_eq!(rig.cast(0, &frame(BROADCAST, mac(0), 1500, 1)), [1, 2]);
    assert_eq!((rig.counters(1).drop_over_mtu, rig.counters(2).drop_over_mtu), (1, 0));
    rig.check_conservation();
}

#[test]
pub(super) fn there_are_so_many_ports_and_none_for_a_worker_without_a_switch() {
    let mut rig = Rig::new(TableLimits::default());
    let tiny = Config { ring: 64, buffers: 16, ..Config::default() };
    let (layout, port) = {
        rig.join::<GroupedEpoch>(&tiny);
        let layout = Layout::new(&tiny).unwrap();
        let region = Region::create(layout.size(), Pages::Small).unwrap();
        format(&region.memory(), &layout);
        let port = ProgramPort::<GroupedEpoch>::new(&region, &layout, vec![0]).unwrap();
        (layout, Box::new(SwitchedProgram::new(port, 1, None, Arc::default())))
    };
    assert_eq!(layout.config().queues, 1);
    assert!(Switch::none().join(1, 0, Member::Home(port, None)).is_err());
    for _ in 1..MAX_PORTS {
        rig.join::<GroupedEpoch>(&tiny);
    }
    let last = rig.programs.pop().unwrap();
    let port = rig.switch.leave(last.at).unwrap();
    let at = rig.switch.join(7, port).ok().unwrap();
    assert_eq!(usize::from(at), MAX_PORTS - 1);
}

/// What one program sends in a burst: by the station that it is from and the one that it is to, and its length.
type Sent = Vec<(u8, u8, usize)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Random frames between random stations against a model: who receives what, in which order. Stations 0 to 7 may speak from any
    /// port; 8 is broadcast, 9 a multicast group, 10 nobody (all zeros).
    #[test]
    fn a_switch_is_its_model(
        workers in 1..4usize,
        bursts in prop::collection::vec((0..4usize, prop::collection::vec((0..11u8, 0..11u8, 10..600usize), 1..12)), 1..40),
    ) {
        let address = |station: u8| match station {
            8 => BROADCAST,
            9 => [1, 0, 0x5e, 0, 0, 1],
            10 => [0; 6],
            n => mac(n),
        };
        let mut rig = on(workers, || Rig::new(TableLimits::default()));
        (0..4).for_each(|_| _ = rig.add());
        let mut table: BTreeMap<u8, usize> = BTreeMap::new();
        for (from, burst) in bursts {
            let burst: Sent = burst;
            // By receiver, then by where it was meant to go: order holds within one destination.
            let mut expected: Vec<BTreeMap<[u8; 6], VecDeque<Vec<u8>>>> = vec![BTreeMap::new(); 4];
            for (n, (source, destination, len)) in burst.iter().enumerate() {
                let whole = frame(address(*destination), address(*source), (*len).max(14), n as u8);
                let frame = &whole[..(*len).min(whole.len())];
                prop_assert!(rig.programs[from].host.send(0, frame));
                if *len < 14 || *source >= 8 {
                    continue;
                }
                table.insert(*source, from);
                let known = table.get(destination).filter(|_| *destination < 8);
                for to in (0..4).filter(|to| *to != from && known.is_none_or(|at| at == to)) {
                    expected[to].entry(address(*destination)).or_default().push_back(frame.to_vec());
                }
            }
            rig.settle();
            for (to, mut expected) in expected.into_iter().enumerate() {
                for got in rig.programs[to].host.receive(0) {
                    let queue = expected.get_mut(&got[..6]);
                    prop_assert_eq!(queue.and_then(VecDeque::pop_front), Some(got), "at {}", to);
                }
                prop_assert!(expected.values().all(VecDeque::is_empty), "all of it came to {}", to);
            }
        }
        rig.check_conservation();
    }
}
