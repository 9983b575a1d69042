//! Policies of ports: who gets what, with which tag, how much of it; what is dropped, and where it is counted.

pub(super) mod net;

use std::time::Duration;

use ccnic_frame::{Meta, Tci};
use proptest::prelude::*;

use super::policy::{Mirror, Policy, Prefix, Rate, Rules};
use super::test_workers::on;
use super::*;
use net::{Net, SECOND, Sent, access, frame, mac, none, tagged, trunk};

#[test]
pub(super) fn vlans_are_apart_and_tags_come_and_go() {
    let mut net =
        Net::new([access(10), access(10), access(20), trunk(&[10, 20], 0), trunk(&[10, 20], 20), none()]);
    let hello = frame(255, 1, 64);
    let in_10 = tagged(&hello, 10);
    assert_eq!(net.cast(0, &hello), [(1, hello.clone()), (3, in_10.clone()), (4, in_10.clone())]);
    let in_20 = tagged(&hello, 20);
    assert_eq!(
        net.cast(4, &hello),
        [(2, hello.clone()), (3, in_20.clone())],
        "the same address, in the native VLAN"
    );
    assert_eq!(net.cast(5, &in_10), [], "a port without VLANs is alone");
    let (to, from) = (frame(1, 7, 60), 3);
    assert_eq!(net.cast(from, &tagged(&to, 10)), [(0, to.clone())], "each VLAN knows its own");
    assert_eq!(net.cast(from, &tagged(&to, 20)), [(4, to.clone())]);
    let urgent = tagged(&frame(9, 7, 60), 5 << 13 | 10);
    assert_eq!(
        net.cast(4, &urgent),
        [(0, frame(9, 7, 60)), (1, frame(9, 7, 60)), (3, urgent)],
        "with its priority"
    );
    assert_eq!(net.cast(1, &tagged(&to, 7 << 13)), [(0, to)], "a priority is no VLAN");
    assert_eq!(net.count(5).drop_no_destination, 1);
    net.check_conservation();
}

#[test]
pub(super) fn frames_of_other_vlans_do_not_enter() {
    let mut net = Net::new([access(10), trunk(&[10, 20], 0), trunk(&[10, 30], 30), access(20)]);
    let hello = frame(255, 1, 64);
    assert_eq!(net.cast(0, &tagged(&hello, 10)), []);
    assert_eq!(net.cast(0, &tagged(&hello, 20)), []);
    assert_eq!(net.cast(1, &hello), [], "there is no native VLAN");
    assert_eq!(net.cast(1, &tagged(&hello, 30)), []);
    assert_eq!(net.cast(1, &tagged(&hello, 4095)), []);
    let request = |vlan| (hello.clone(), Meta::default().with_vlan(Tci::new(vlan)).word());
    assert!(net.burst(0, vec![request(20)]).concat().is_empty(), "nor where the metadata ask for the tag");
    assert_eq!((net.count(0).drop_vlan, net.count(1).drop_vlan), (3, 3));
    assert!(net.switch.table().is_empty());
    assert_eq!(net.cast(0, &tagged(&hello, 10)[..17]), []);
    assert_eq!(net.cast(1, &tagged(&hello, 10)[..17]), [], "shorter than its header");
    assert_eq!(net.cast(1, &hello[..13]), []);
    assert_eq!(net.count(1).drop_too_short, 2);
    // A request within the VLANs of its port becomes a tag, or none.
    let got = net.burst(1, vec![request(20), request(10)]);
    assert_eq!(
        (got[3].as_slice(), got[0].as_slice()),
        (&[(hello.clone(), 0)][..], &[(hello.clone(), 0)][..])
    );
    assert_eq!(got[2], [(tagged(&hello, 10), 0)]);
    net.check_conservation();
}

#[test]
pub(super) fn a_port_that_takes_offloads_inserts_tags_itself() {
    let mut net = Net::new([access(10), trunk(&[10], 0)]);
    net.join(&trunk(&[10], 0), true);
    net.join(&access(10), true);
    let hello = frame(255, 1, 64);
    let requested = Meta::default().with_vlan(Tci::new(10)).word();
    let got = net.burst(0, vec![(hello.clone(), 0)]);
    assert_eq!(
        got[1..],
        [vec![(tagged(&hello, 10), 0)], vec![(hello.clone(), requested)], vec![(hello.clone(), 0)]]
    );
    let checksum = Meta::default().with_l4_checksum(ccnic_frame::Checksum::Requested);
    let got = net.burst(2, vec![(tagged(&hello, 10), checksum.word())]);
    assert_eq!(got[3], [(hello.clone(), checksum.word())], "other requests stay");
    assert!(!net.switch.takes_offloads(2, &tagged(&hello, 10)), "to all of them");
    net.burst(3, vec![(frame(255, 3, 64), 0)]);
    net.burst(2, vec![(tagged(&frame(255, 2, 64), 10), 0)]);
    assert!(net.switch.takes_offloads(2, &tagged(&frame(3, 2, 64), 10)));
    assert!(
        net.switch.takes_offloads(3, &frame(2, 3, 64)) && !net.switch.takes_offloads(2, &frame(3, 2, 64))
    );
}

/// By any way into the switch: ports without rules, with VLANs, isolated, held to addresses; tags in the frame and in the metadata.
#[test]
pub(super) fn frames_for_the_next_bridge_go_no_further_and_teach_nothing() {
    let macs = vec![Mac::new(mac(1))];
    let ruled = || {
        [
            access(10),
            trunk(&[10], 0),
            Policy { macs: macs.clone(), ..none() },
            Policy { isolated: true, ..none() },
            none(),
            none(),
        ]
    };
    let to = |last: [u8; 2]| {
        let mut frame = frame(255, 1, 64);
        frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, last[0], last[1]]);
        frame
    };
    for mut net in [Net::new([none(), none(), none()]), Net::new(ruled())] {
        for from in 0..net.cables.len() {
            for last in 0..16 {
                let request = Meta::default().with_vlan(Tci::new(10)).word();
                let hello = to([0, last]);
                assert_eq!(
                    net.burst(from, vec![(hello.clone(), 0), (tagged(&hello, 10), 0), (hello, request)])
                        .concat(),
                    []
                );
            }
            let counted = net.count(from);
            assert_eq!(counted.drop_reserved + counted.drop_vlan, 48, "{counted:?}");
            assert!(counted.drop_reserved >= 16);
        }
        assert!(net.switch.table().is_empty());
        net.check_conservation();
    }
    let mut net = Net::new([none(), none()]);
    for last in [[0, 16], [0, 32], [1, 0], [0xff, 0xff]] {
        assert_eq!(net.cast(0, &to(last)).len(), 1, "{last:?}");
    }
    for mut net in [Net::new([none(), none(), none()]), Net::new(ruled())] {
        net.switch.switches.iter_mut().for_each(|switch| switch.forwards_reserved = true);
        let (from, others) =
            (net.cables.len() - 1, net.cables.len() - 1 - 2 * usize::from(net.cables.len() > 3));
        assert_eq!(net.cast(from, &to([0, 14])).len(), others);
        assert!(!net.switch.table().is_empty());
    }
}

/// Every length around segments and lines, in bursts, flooded to ports with and without tags.
#[test]
pub(super) fn tags_of_long_frames_and_chains() {
    let mut net = Net::new([trunk(&[10], 0), access(10), trunk(&[10], 0), trunk(&[10], 10), access(10)]);
    let lens =
        [14, 18, 60, 61, 64, 124, 125, 1500, 4091, 4092, 4093, 4095, 4096, 4097, 8188, 8192, 8193, 12_000];
    for len in lens {
        let whole = frame(255, 1, len);
        let got = net.burst(0, vec![(tagged(&whole, 10), 0); 3]);
        for (to, expected) in [(1, &whole), (2, &tagged(&whole, 10)), (3, &whole), (4, &whole)] {
            assert!(got[to].iter().all(|(frame, meta)| frame == expected && *meta == 0), "{len} to {to}");
            assert_eq!(got[to].len(), 3);
        }
        let got = net.burst(1, vec![(whole.clone(), 0); 3]);
        assert!(got[0] == vec![(tagged(&whole, 10), 0); 3] && got[4] == vec![(whole, 0); 3], "{len}");
    }
    net.check_conservation();
}

#[test]
pub(super) fn a_port_speaks_from_its_own_addresses_only() {
    let macs = vec![Mac::new(mac(1)), Mac::new(mac(2))];
    let addresses = vec![Prefix::new("10.0.0.5".parse().unwrap(), 32).unwrap()];
    let mut net = Net::new([Policy { macs, ..none() }, Policy { addresses, ..none() }, none()]);
    for (from, reaches) in [(1, 2), (2, 2), (3, 0), (1, 2)] {
        assert_eq!(net.cast(0, &frame(255, from, 64)).len(), reaches, "{from}");
    }
    let ip = |source: u8| {
        let mut frame = frame(255, 9, 64);
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
        frame[26..30].copy_from_slice(&[10, 0, 0, source]);
        frame[38..40].copy_from_slice(&[0, 30]);
        frame
    };
    assert_eq!((net.cast(1, &ip(5)).len(), net.cast(1, &ip(6)).len()), (2, 0));
    assert_eq!(net.cast(2, &ip(6)).len(), 2, "nothing was decided for this port");
    assert_eq!((net.count(0).drop_spoofed, net.count(1).drop_spoofed), (1, 1));
    assert_eq!(net.switch.table().port_of(Station::new(Mac::new(mac(3)), 0)), None, "nothing was learned");
    net.check_conservation();
}

/// A program changes its frame while it is switched: receivers get what was checked.
#[test]
pub(super) fn what_was_checked_is_what_arrives() {
    let macs = vec![Mac::new(mac(1))];
    for (policy, safe) in [(Policy { macs, ..none() }, true), (Policy { isolated: true, ..none() }, false)] {
        let mut net = Net::new([policy, none(), none()]);
        let forged = (net.memories[0].clone(), frame(255, 66, 64));
        *net.cables[1].scribble.lock().unwrap() = Some(forged);
        let got = net.cast(0, &frame(255, 1, 64));
        let expected = if safe { frame(255, 1, 64) } else { frame(255, 66, 64) };
        assert_eq!(got[1], (2, expected), "the second receiver of a flood");
    }
}

#[test]
pub(super) fn isolated_ports_talk_with_the_others_only() {
    let isolated = || Policy { isolated: true, ..none() };
    let mut net = Net::new([isolated(), isolated(), none(), none()]);
    let reach = |got: Vec<(usize, Vec<u8>)>| got.into_iter().map(|(to, _)| to).collect::<Vec<_>>();
    assert_eq!(reach(net.cast(0, &frame(255, 1, 64))), [2, 3]);
    assert_eq!(reach(net.cast(2, &frame(255, 3, 64))), [0, 1, 3]);
    assert_eq!(reach(net.cast(1, &frame(1, 2, 64))), [0; 0], "known, and isolated");
    assert_eq!(reach(net.cast(1, &frame(3, 2, 64))), [2]);
    assert_eq!(reach(net.cast(2, &frame(2, 3, 64))), [1]);
    assert_eq!((net.count(1).drop_isolated, net.count(0).extra_copies), (1, 1));
    net.check_conservation();
    // Decided anew while it runs: what was remembered is forgotten.
    net.switch.set_rules(0, None);
    net.cast(0, &frame(255, 1, 64));
    assert_eq!(reach(net.cast(1, &frame(1, 2, 64))), [0]);
    net.switch.set_rules(0, Rules::new(&isolated()).unwrap());
    net.cast(0, &frame(255, 1, 64));
    assert_eq!(reach(net.cast(1, &frame(1, 2, 64))), [0; 0]);
}

/// On the way of ports without rules, which is enough where nothing else is limited, and on that of ports with rules. Long frames, which come
/// in segments, count as others.
#[test]
pub(super) fn a_storm_is_limited_and_known_addresses_are_not() {
    for (third, ruled) in [(none(), false), (Policy { isolated: true, ..none() }, true)] {
        let mut net = Net::new([Policy { storm: Some(1000), ..none() }, none(), third]);
        assert!(net.switch.switches.iter().all(|switch| switch.ruled == ruled));
        net.cast(1, &frame(255, 2, 64));
        let mut flooded = 0;
        for round in 0..200 {
            let len = if round % 2 == 0 { 64 } else { 9000 };
            let got = net.burst(0, vec![(frame(255, 1, len), 0); 10]);
            flooded += got[2].len();
            assert_eq!(net.burst(0, vec![(frame(2, 1, len), 0); 10])[1].len(), 10);
            net.pass(SECOND / 200);
        }
        assert_eq!(flooded, 995 + 10, "995 ms, and what had come in before");
        assert_eq!(net.count(0).drop_storm, 2000 - flooded as u64);
        net.check_conservation();
    }
}

/// A limit that is set and taken away while the switch runs, and one beside a capture's or another port's rules, is the same bucket.
#[test]
fn a_storm_limit_outlives_other_rules() {
    let mut net = Net::new([Policy { storm: Some(1000), ..none() }, none()]);
    let flood = |net: &mut Net| net.burst(0, vec![(frame(255, 1, 64), 0); 30])[1].len();
    assert_eq!(flood(&mut net), 10, "a burst of 10 ms");
    net.switch.set_rules(1, Rules::new(&Policy { isolated: true, ..none() }).unwrap());
    assert_eq!(flood(&mut net), 0, "nothing is forgiven");
    net.pass(SECOND / 200);
    assert_eq!(flood(&mut net), 5);
    net.switch.set_rules(1, None);
    assert_eq!(flood(&mut net), 0);
    net.switch.set_rules(0, None);
    assert_eq!(flood(&mut net), 30);
    net.check_conservation();
}

/// What a port sends beyond its rate waits, in order, and nothing is lost; its clock is read every 50 microseconds.
#[test]
pub(super) fn what_a_port_may_send_is_what_was_set() {
    let limits = [
        (Rate { packets: Some(20_000), ..Rate::NONE }, 64, 20_000),
        (Rate { bits: Some(10_000_000), ..Rate::NONE }, 1250, 1000),
        (Rate { packets: Some(500), bits: Some(1_000_000_000), burst: Duration::from_millis(2) }, 1000, 500),
    ];
    for (sends, len, expected) in limits {
        let mut net = Net::new([Policy { sends, ..none() }, none()]);
        net.cast(1, &frame(255, 2, 64));
        net.pass(SECOND);
        let burst: Vec<Sent> = (0..32).map(|_| (frame(2, 1, len), 0)).collect();
        let mut got = 0;
        for _ in 0..20_000 {
            net.cables[0].out.lock().unwrap().resize(2, burst.clone());
            while net.switch.spin(0, 1) > 0 {}
            got += net.take()[1].len();
            net.pass(50);
        }
        let exact = expected as f64 * (1.0 + sends.burst.as_secs_f64());
        assert!((got as f64 - exact).abs() <= exact / 1000.0 + 1.0, "{sends:?}: {got} of {exact}");
        let count = net.count(0);
        assert!(count.wait_rate > 100 && count.tx_packets == got as u64, "{count:?}");
        assert_eq!(count.drop_rate + net.count(1).drop_rate, 0);
        net.check_conservation();
    }
}

#[test]
pub(super) fn what_is_sent_to_a_port_beyond_its_rate_is_dropped_there() {
    let receives = Rate { bits: Some(8_000_000), ..Rate::NONE };
    let mut net = Net::new([none(), Policy { receives, ..none() }, none()]);
    net.cast(1, &frame(255, 2, 64));
    net.pass(SECOND);
    let mut got = [0; 3];
    for _ in 0..1000 {
        let burst = net.burst(0, vec![(frame(255, 1, 1000), 0); 4]);
        burst.iter().zip(&mut got).for_each(|(frames, got)| *got += frames.len());
        net.pass(SECOND / 1000);
    }
    assert_eq!(
        got,
        [0, 999 + 10, 4000],
        "999 ms and what had come in before; the other receiver gets all of it"
    );
    assert_eq!((net.count(1).drop_rate, net.count(0).drop_rate, net.count(0).wait_rate), (4000 - 1009, 0, 0));
    net.check_conservation();
}

#[test]
pub(super) fn static_entries_stay_and_nobody_takes_them() {
    let fixed = vec![Station::new(Mac::new(mac(9)), 0)];
    let mut net = Net::new([none(), Policy { fixed, ..none() }, none()]);
    let to_9 = frame(9, 1, 64);
    assert_eq!(net.cast(0, &to_9), [(1, to_9.clone())], "before it has ever spoken");
    net.cast(2, &frame(255, 9, 64));
    assert_eq!((net.cast(0, &to_9), net.count(2).not_learned), (vec![(1, to_9.clone())], 1));
    for _ in 0..5000 {
        net.pass(SECOND);
    }
    assert_eq!(net.cast(0, &to_9).len(), 1, "it does not age");
    let known: Vec<_> =
        net.switch.table().page(0, u32::MAX).0.into_iter().filter(|known| known.fixed).collect();
    assert!(matches!(known[..], [Known { port: 1, age: 0, .. }]), "{known:?}");
    net.switch.leave(1);
    assert_eq!(net.cast(0, &to_9).len(), 1, "flooded: it went with its port");
}

#[test]
pub(super) fn a_mirror_gets_copies_of_both_directions_as_they_were() {
    let mirror = |sent, received| Some(Mirror { to: 3, sent, received });
    let watched = Policy { mirror: mirror(true, true), ..access(10) };
    let mut net = Net::new([watched, trunk(&[10], 0), access(10), none(), none()]);
    let hello = frame(255, 1, 64);
    let got = net.cast(0, &hello);
    assert_eq!(got, [(1, tagged(&hello, 10)), (2, hello.clone()), (3, hello.clone())]);
    let answer = frame(1, 2, 64);
    assert_eq!(
        net.cast(1, &tagged(&answer, 10)),
        [(0, answer.clone()), (3, answer.clone())],
        "as it arrives"
    );
    assert_eq!(net.cast(0, &tagged(&hello, 20)), [(3, tagged(&hello, 20))], "also what is dropped");
    assert_eq!(net.cast(4, &frame(255, 5, 64)), [], "a mirror gets nothing else");
    assert_eq!(net.cast(3, &frame(255, 6, 64)), [], "nor is anything taken from it");
    let count = net.count(0);
    assert_eq!((count.flooded, count.extra_copies, count.drop_vlan), (1, 3, 1));
    net.check_conservation();
    net.switch.leave(3);
    assert_eq!(net.cast(0, &hello).len(), 2, "without its mirror a port goes on");
}

#[test]
pub(super) fn a_mirror_of_one_direction() {
    for (sent, received) in [(true, false), (false, true)] {
        let watched = Policy { mirror: Some(Mirror { to: 2, sent, received }), ..none() };
        let mut net = Net::new([watched, none(), none()]);
        let copies = |got: Vec<(usize, Vec<u8>)>| got.iter().filter(|(to, _)| *to == 2).count();
        assert_eq!(copies(net.cast(0, &frame(255, 1, 64))), usize::from(sent));
        assert_eq!(copies(net.cast(1, &frame(1, 2, 64))), usize::from(received));
        net.check_conservation();
    }
}

#[test]
pub(super) fn static_entries_of_a_mirror_count_when_it_is_one_no_more() {
    let host = Policy { fixed: vec![Station::new(Mac::new(mac(9)), 0)], ..none() };
    let mut net = Net::new([none(), host.clone(), none(), none()]);
    let to_host = frame(9, 1, 64);
    let receivers = |net: &mut Net| net.cast(0, &to_host).into_iter().map(|(to, _)| to).collect::<Vec<_>>();
    assert_eq!(receivers(&mut net), [1]);
    let mirror = Mirror { to: 1, sent: true, received: true };
    net.switch.set_rules(2, Rules::new(&Policy { mirror: Some(mirror), ..none() }).unwrap());
    assert_eq!(receivers(&mut net), [1, 2, 3], "a flood, and its copy");
    net.switch.set_rules(1, Rules::new(&host).unwrap());
    assert_eq!(receivers(&mut net), [1, 2, 3], "whatever is said of the mirror meanwhile");
    net.cast(2, &frame(255, 9, 64));
    assert_eq!(receivers(&mut net), [1, 2], "it has spoken elsewhere");
    net.switch.set_rules(1, Rules::new(&host).unwrap());
    assert_eq!(receivers(&mut net), [1, 2], "and is there, whatever is said of the mirror");
    net.switch.set_rules(2, None);
    assert_eq!(receivers(&mut net), [1]);
    net.check_conservation();
}

/// A burst of floods with a mirror is dealt with in polls of bounded work.
#[test]
pub(super) fn a_poll_makes_a_bounded_number_of_copies() {
    let watched = Policy { mirror: Some(Mirror { to: 8, sent: true, received: false }), ..access(10) };
    let mut net = Net::new([watched].into_iter().chain((1..8).map(|_| access(10))).chain([none()]));
    net.cables[0].out.lock().unwrap().push(vec![(frame(255, 1, 64), 0); 32]);
    let polls: Vec<_> = std::iter::repeat_with(|| net.switch.spin(0, 1)).take_while(|n| *n > 0).collect();
    assert_eq!(polls, [4; 8], "nine copies, and the ports that are not in the VLAN count, too");
    assert!(net.take().iter().skip(1).all(|got| got.len() == 32));
    net.check_conservation();
}

/// Policies that a generated switch has.
fn some_policy(kind: u8) -> Policy {
    match kind {
        0 => access(10),
        1 => access(20),
        2 => trunk(&[10, 20], 0),
        3 => Policy { isolated: true, ..trunk(&[10, 20, 30], 10) },
        4 => Policy { isolated: true, ..access(10) },
        5 => Policy { macs: (0..3).map(|n| Mac::new(mac(n))).collect(), ..access(20) },
        6 => Policy { isolated: true, ..none() },
        _ => none(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Generated policies and frames against a model: who gets what, with which tag, in which order. Stations 0 to 5; 255 is broadcast.
    #[test]
    fn a_switch_with_policies_is_its_model(
        workers in 1..4usize,
        kinds in prop::collection::vec(0..8u8, 5),
        bursts in prop::collection::vec((0..5usize, prop::collection::vec((0..6u8, 0..7u8, 0..4usize), 1..9)), 1..30),
    ) {
        let policies: Vec<_> = kinds.iter().map(|kind| some_policy(*kind)).collect();
        let mut net = on(workers, || Net::new(policies.clone()));
        let mut table = std::collections::BTreeMap::new();
        for (from, burst) in bursts {
            let mut frames = Vec::new();
            let mut expected = vec![Vec::new(); 5];
            // By number, which is its last byte: order holds within one destination of one VLAN.
            let mut flows = Vec::new();
            for (n, (source, destination, tag)) in burst.into_iter().enumerate() {
                let to = if destination == 6 { 255 } else { destination };
                let mut plain = frame(to, source, 60 + n);
                *plain.last_mut().unwrap() = n as u8;
                let tci = [None, Some(10), Some(20), Some(3 << 13 | 30)][tag];
                frames.push((tci.map_or(plain.clone(), |tci| tagged(&plain, tci)), 0));
                let sender = &policies[from];
                let vlan = sender.vlans.enters(tci.map(Tci::new));
                flows.push((to, vlan));
                let Some(vlan) = vlan else { continue };
                if !sender.macs.is_empty() && source >= 3 {
                    continue;
                }
                table.insert((source, vlan), from);
                let known = table.get(&(to, vlan)).copied();
                for receiver in (0..5).filter(|at| *at != from && known.is_none_or(|known| known == *at)) {
                    let policy = &policies[receiver];
                    if !policy.vlans.carries(vlan) || sender.isolated && policy.isolated {
                        continue;
                    }
                    let tci = tci.unwrap_or(0) & !0xfff | vlan;
                    let as_sent = frames[n].0.clone();
                    let out = match (vlan, policy.vlans.tags(vlan)) {
                        (0, _) => as_sent,
                        (_, true) => tagged(&plain, tci),
                        (_, false) => plain.clone(),
                    };
                    expected[receiver].push(out);
                }
            }
            let got = net.burst(from, frames);
            for (receiver, expected) in expected.into_iter().enumerate() {
                let flow = |frame: &Vec<u8>| flows[usize::from(*frame.last().unwrap())];
                let mut want = expected;
                let mut got: Vec<_> = got[receiver].iter().map(|(frame, _)| frame.clone()).collect();
                want.sort_by_key(flow);
                got.sort_by_key(flow);
                prop_assert_eq!(got, want, "{:?} to {}", kinds, receiver);
            }
        }
        net.check_conservation();
    }
}
