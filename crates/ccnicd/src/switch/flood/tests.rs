//! The part of a flood that one poll does, counted in copies, segments and bytes; who gets it, and how often.

use ccnic::ring::GroupedEpoch;
use ccnic::{Config, SharedMemory};
use ccnic_frame::{Checksum, Segmentation, Takes};

use super::super::policy::{Mirror, Policy};
use super::super::policy_tests::net::{Net, access, frame, none, tagged, trunk};
use super::super::test_workers::on;
use super::super::tests::rig::Rig;
use super::*;

/// A broadcast of TCP over IPv4, with so much payload.
fn super_packet(payload: usize) -> Vec<u8> {
    let mut frame = [[0xff; 6], [2; 6]].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((40 + payload as u16).to_be_bytes());
    frame.extend([0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x19, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|i| (i * 7) as u8));
    frame
}

fn cut(size: u16) -> Meta {
    Meta::default().with_ip_checksum(Checksum::Requested).with_segmentation(Segmentation::tcp_ipv4(size))
}

/// Packets of each port of a rig so far: packets that they got or dropped, and their bytes.
fn given(rig: &Rig) -> (u64, u64) {
    (1..rig.programs.len()).map(|at| rig.counters(at)).fold((0, 0), |(packets, bytes), it| {
        (packets + it.rx_packets + it.drop_ring_full + it.drop_no_buffer, bytes + it.rx_bytes)
    })
}

/// A sender and so many receivers, which take what `takes` says.
fn rig(receivers: usize, takes: impl Fn(usize) -> Takes) -> Rig {
    let mut rig = Rig::new(TableLimits::default());
    let config = Config { ring: 256, buffers: 96, ..Config::default() };
    (0..=receivers).for_each(|at| _ = rig.join_taking::<GroupedEpoch>(&config, Some(takes(at))));
    rig
}

/// The longest packet, the smallest segments, the most receivers: each poll does what one packet for one receiver may cost, and no more.
#[test]
fn a_poll_does_as_much_whatever_is_flooded_to_however_many() {
    let (longest, most) = (usize::from(Config::MAX_MTU), u64::from(SEGMENTS));
    for (payload, meta) in [(10, Meta::default()), (1446, Meta::default()), (longest - 54, Meta::default())]
        .into_iter()
        .chain([150, 1448, 5000].map(|size| (longest - 54, cut(size))))
        .chain([(200, cut(8)), (1446, Meta::default().with_l4_checksum(Checksum::Requested))])
    {
        for full in [false, true] {
            let mut rig = rig(MAX_PORTS - 1, |_| Takes::NONE);
            let frame = super_packet(payload);
            if full {
                let other = super_packet(0);
                for _ in 0..256 {
                    rig.programs[0].host.send(0, &other);
                    rig.settle();
                }
            }
            let before = given(&rig);
            assert!(rig.programs[0].host.send_saying(0, &frame, meta.word()));
            let (mut last, mut polls) = (before, 0);
            let work = |rig: &Rig| rig.switch.switches[0].completer.work;
            let (begun, mut done) = (work(&rig), work(&rig));
            while rig.switch.spin(rig.programs[0].at, 1) > 0 {
                let (now, worked) = (given(&rig), work(&rig));
                let (copies, bytes) = (now.0 - last.0, now.1 - last.1);
                assert!(copies < COPIES as u64 + most, "{copies} copies of {payload} bytes, {meta:?}");
                let limit = COPIES as u64 * u64::from(BYTES) + longest as u64 + most * 54;
                assert!(bytes <= limit, "{bytes} bytes of {payload}, {meta:?}");
                assert!((worked.cut - done.cut) as u64 <= most && worked.completed - done.completed <= 1);
                (last, done, polls) = (now, worked, polls + 1);
            }
            let requests = usize::from(!meta.is_complete());
            assert_eq!(done.completed - begun.completed, if full { 0 } else { requests }, "once for all");
            assert!(polls >= MAX_PORTS / COPIES, "{polls} polls");
            let status = rig.counters(0);
            assert_eq!(status.extra_copies, status.flooded * (MAX_PORTS as u64 - 2));
            let segments = meta.segmentation().map_or(1, |cut| payload.div_ceil(cut.size.into()) as u64);
            let each = if full { 1 } else { segments };
            assert_eq!(last.0 - before.0, each * (MAX_PORTS as u64 - 1), "{payload} bytes, {meta:?}, {full}");
        }
    }
}

#[test]
fn what_receivers_need_is_done_once_for_each_set_of_offloads() {
    let sets = [Takes::NONE, Takes::ALL, Takes::NONE.with_l4_checksum(), Takes::NONE.with_tcp_segments()];
    let mut rig = rig(60, |at| sets[at % sets.len()]);
    let frame = super_packet(9000);
    assert!(rig.programs[0].host.send_saying(0, &frame, cut(1000).word()));
    rig.settle();
    let work = rig.switch.switches[0].completer.work;
    // Cut for those that take no segments, whatever else they take; with the header's checksum for those that take segments only.
    assert_eq!((work.completed, work.cut), (2, 9));
    for at in 1..=60 {
        let got = rig.programs[at].host.receive_told(0);
        let whole =
            sets[at % sets.len()].covers(Meta::default().with_segmentation(Segmentation::tcp_ipv4(1000)));
        assert_eq!(got.len(), if whole { 1 } else { 9 });
        let payload: Vec<u8> = got.iter().flat_map(|(bytes, _)| bytes[54..].to_vec()).collect();
        assert_eq!(payload, frame[54..]);
        assert!(got.iter().all(|(_, told)| sets[at % sets.len()].covers(Meta::from_word(*told))));
    }
}

/// Frames to one port and to all, short and long, of ports some of which come and go.
fn frames_come_once_and_in_order() {
    let mut net = Net::new((0..40).map(|_| none()));
    net.cast(7, &frame(255, 7, 60));
    let burst: Vec<_> = (0..12)
        .map(|n| {
            let to = if n % 3 == 0 { 7 } else { 255 };
            let mut frame = frame(to, 1, if n % 2 == 0 { 60 } else { 9000 });
            frame[20] = n;
            (frame, 0)
        })
        .collect();
    let got = net.burst(0, burst.clone());
    for (port, got) in got.iter().enumerate().skip(1) {
        let floods: Vec<_> = got.iter().filter(|(frame, _)| frame[0] == 255).collect();
        assert!(floods.iter().copied().eq(burst.iter().filter(|(frame, _)| frame[0] == 255)), "port {port}");
        let single = got.iter().filter(|(frame, _)| frame[0] != 255);
        assert_eq!(single.count(), if port == 7 { 4 } else { 0 });
    }
    assert!(got[0].is_empty());
    net.check_conservation();
}

#[test]
fn a_flood_reaches_each_port_once_and_in_order() {
    for workers in [1, 2, 3] {
        on(workers, frames_come_once_and_in_order);
    }
}

#[test]
fn ports_that_come_and_go_meanwhile_do_not_stop_a_flood() {
    let mut net = Net::new((0..40).map(|_| none()));
    net.cables[0].out.lock().unwrap().push(vec![(frame(255, 1, 9000), 0), (frame(255, 1, 60), 0)]);
    assert_eq!(net.switch.spin(0, 1), 1);
    assert!(net.switch.switches[0].is_flooding(0));
    let had = net.take().concat().len();
    assert!((1..10).contains(&had), "{had} have it");
    for at in 30..39 {
        assert!(net.switch.leave(at).is_some());
    }
    while net.switch.spin(0, 1) > 0 {}
    assert!(!net.switch.switches[0].is_flooding(0));
    let long = net.take().concat().iter().filter(|(frame, _)| frame.len() == 9000).count();
    assert_eq!(long + had, 39 - 9);
    let status = net.count(0);
    assert_eq!((status.flooded, status.extra_copies), (2, 2 * 30 - 2), "of those that are there");
}

/// Each copy in a VLAN, for a mirror or for a port with a rate counts as the others do.
fn policies_bound_it_too() {
    let tagged_port =
        Policy { mirror: Some(Mirror { to: 61, sent: true, received: true }), ..trunk(&[5], 0) };
    let policies = (0..61).map(|at| if at % 2 == 0 { access(5) } else { tagged_port.clone() });
    let mut net = Net::new(policies.chain([none()]));
    let workers = net.switch.switches.len();
    let sent = frame(255, 1, 9000);
    net.cables[0].out.lock().unwrap().push(vec![(sent.clone(), 0)]);
    let (mut publications, mut polls) = (0, 0);
    while net.switch.spin(0, 1) > 0 {
        let now: usize = net.cables.iter().map(|cable| cable.publications.lock().unwrap().len()).sum();
        assert!(workers > 1 || now - publications <= 4, "{} copies of 9000 bytes", now - publications);
        (publications, polls) = (now, polls + 1);
    }
    assert!(polls > 20 / workers, "{polls}");
    let got = net.take();
    for (port, got) in got.iter().enumerate().take(61).skip(1) {
        let expected = if port % 2 == 0 { sent.clone() } else { tagged(&sent, 5) };
        assert_eq!(got.iter().map(|(frame, _)| frame).collect::<Vec<_>>(), [&expected], "port {port}");
    }
    assert_eq!(got[61].len(), 30, "a copy of what each mirrored port received");
    net.check_conservation();
}

#[test]
fn copies_for_mirrors_and_vlans_count() {
    for workers in [1, 2, 3] {
        on(workers, policies_bound_it_too);
    }
}

/// Policies judge a packet again in each poll.
#[test]
fn a_packet_that_is_changed_while_it_is_flooded_goes_to_nobody_else() {
    let allowed = Policy { macs: vec![Mac::new([2, 0, 0, 0, 0, 1])], ..none() };
    let mut net = Net::new([allowed].into_iter().chain((0..40).map(|_| none())));
    net.cables[0].out.lock().unwrap().push(vec![(frame(255, 1, 9000), 0), (frame(255, 1, 60), 0)]);
    assert_eq!(net.switch.spin(0, 1), 1);
    let had = net.take().concat().len();
    net.memories[0].write(6, &[2, 0, 0, 0, 0, 9]);
    while net.switch.spin(0, 1) > 0 {}
    let (short, long): (Vec<_>, Vec<_>) =
        net.take().concat().into_iter().partition(|(frame, _)| frame.len() == 60);
    assert_eq!((short.len(), long.len()), (40, 0), "{had} had it before");
    net.check_conservation();
}
