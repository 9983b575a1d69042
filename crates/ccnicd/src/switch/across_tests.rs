//! The switch on several workers: whatever holds on one holds on two and on three; and what is not to be seen on one.

use std::sync::Arc;

use ccnic::SharedMemory;

use super::lanes::{Guest, lanes};
use super::policy::{Mirror, Policy};
use super::policy_tests::net::{Net, SECOND, access, frame, mac, none, tagged, trunk};
use super::test_workers::on;
use super::*;
use super::{policy_tests, tests};
use crate::poll::Closing;
use crate::poll::sleep::Caller;

#[test]
fn a_switch_on_several_workers_is_one_switch() {
    for workers in [2, 3] {
        on(workers, || {
            tests::frames_go_where_addresses_were_learned_and_are_flooded_otherwise();
            tests::bad_sources_and_stubs_are_dropped_and_teach_nothing();
            tests::a_port_alone_has_nobody_to_send_to();
            tests::receivers_are_told_of_a_senders_metadata_what_it_requests();
            tests::a_remembered_verdict_ends_with_any_change_of_the_table();
            tests::a_port_with_too_many_addresses_floods_and_others_do_not_notice();
            tests::every_design_sends_to_every_other();
            tests::a_receiver_that_does_not_read_holds_up_nobody();
            tests::a_program_with_rss_receives_each_flow_on_its_queue_and_one_without_on_the_first();
            tests::what_is_too_long_for_one_receiver_reaches_the_others();
        });
    }
}

#[test]
fn policies_hold_on_several_workers() {
    for workers in [2, 3] {
        on(workers, || {
            policy_tests::vlans_are_apart_and_tags_come_and_go();
            policy_tests::frames_of_other_vlans_do_not_enter();
            policy_tests::a_port_that_takes_offloads_inserts_tags_itself();
            policy_tests::frames_for_the_next_bridge_go_no_further_and_teach_nothing();
            policy_tests::tags_of_long_frames_and_chains();
            policy_tests::a_port_speaks_from_its_own_addresses_only();
            policy_tests::isolated_ports_talk_with_the_others_only();
            policy_tests::a_storm_is_limited_and_known_addresses_are_not();
            policy_tests::what_a_port_may_send_is_what_was_set();
            policy_tests::what_is_sent_to_a_port_beyond_its_rate_is_dropped_there();
            policy_tests::static_entries_stay_and_nobody_takes_them();
            policy_tests::a_mirror_of_one_direction();
        });
    }
}

fn net(workers: usize, policies: impl IntoIterator<Item = Policy>) -> Net {
    on(workers, || Net::new(policies))
}

/// Where worker `worker` believes an address to be.
fn believes(net: &Net, worker: usize, station: u8) -> Option<PortId> {
    net.switch.switches[worker].table().port_of(Station::new(Mac::new(mac(station)), 0))
}

/// Ticks of all workers until their tables have been looked through a few times.
fn look_through(net: &mut Net) {
    (0..10_000).for_each(|_| net.pass(0));
}

#[test]
fn what_one_worker_has_seen_all_know_for_as_long_as_it_is_seen() {
    let mut net = net(2, [none(), none()]);
    net.cast(0, &frame(255, 7, 60));
    assert_eq!((believes(&net, 0, 7), believes(&net, 1, 7)), (Some(0), Some(0)));
    // Only its own worker sees it again. The others are told.
    for _ in 0..10 {
        net.pass(60 * SECOND);
        net.cast(0, &frame(7, 7, 60));
        look_through(&mut net);
    }
    assert_eq!((believes(&net, 0, 7), believes(&net, 1, 7)), (Some(0), Some(0)));
    net.pass(299 * SECOND);
    look_through(&mut net);
    assert_eq!((believes(&net, 0, 7), believes(&net, 1, 7)), (Some(0), Some(0)));
    net.pass(SECOND);
    look_through(&mut net);
    assert_eq!(believes(&net, 0, 7), None);
    net.pass(77 * SECOND);
    look_through(&mut net);
    assert_eq!(believes(&net, 1, 7), None, "a quarter of the ageing time later at most");
}

#[test]
fn more_addresses_than_there_is_room_for_on_the_way_are_told_later() {
    let mut net = net(3, [none(), none(), none()]);
    for n in 0..250 {
        net.cast(0, &frame(0, n, 60)); // to its own port: nothing is handed over
    }
    look_through(&mut net);
    for worker in 0..3 {
        assert!((0..250).all(|n| believes(&net, worker, n) == Some(0)), "worker {worker}");
    }
}

#[test]
fn an_address_that_two_ports_claim_is_where_it_spoke_last() {
    let mut net = net(2, [none(), none(), none()]);
    for round in 0..20 {
        net.cast(round % 2, &frame(255, 7, 60));
        let at = Some((round % 2) as PortId);
        assert_eq!((believes(&net, 0, 7), believes(&net, 1, 7)), (at, at), "{round}");
    }
}

/// Hands a frame over, from port 0 to other workers, which have not delivered it yet. Returns how many ports have it.
fn under_way(net: &mut Net, frame: &[u8]) -> usize {
    net.cables[0].out.lock().unwrap().insert(0, vec![(frame.to_vec(), 0)]);
    assert_eq!(net.switch.switches[0].spin(0, 1), 1);
    net.take().concat().len()
}

#[test]
fn what_its_home_has_checked_is_checked_again_by_the_worker_that_delivers_it() {
    for (forged, spoofed, vlan) in
        [(tagged(&frame(1, 66, 64), 10), 1, 0), (tagged(&frame(1, 2, 64), 20), 0, 1)]
    {
        let own = Policy { macs: vec![Mac::new(mac(2))], ..trunk(&[10, 20], 0) };
        let mut net = net(2, [own, access(10)]);
        net.cast(1, &frame(255, 1, 64));
        let good = tagged(&frame(1, 2, 64), 10);
        assert_eq!(net.cast(0, &good), [(1, frame(1, 2, 64))]);
        assert_eq!(under_way(&mut net, &good), 0);
        net.memories[0].write(0, &forged);
        assert_eq!(net.switch.switches[1].spin(0, 1), 1);
        assert!(net.take().concat().is_empty());
        assert_eq!((net.count(0).drop_spoofed, net.count(0).drop_vlan), (spoofed, vlan));
        net.check_conservation();
    }
}

#[test]
fn a_frame_under_way_does_not_reach_whoever_comes_in_its_receivers_place() {
    for policy in [none(), access(10)] {
        let mut net = net(2, [policy.clone(), policy.clone()]);
        net.cast(1, &frame(255, 1, 64));
        assert_eq!(under_way(&mut net, &frame(1, 2, 64)), 0);
        net.switch.leave(1).unwrap();
        net.cables.pop();
        net.join_as(9, &policy, false);
        assert_eq!(net.switch.switches[1].spin(0, 1), 1);
        assert!(net.take().concat().is_empty());
        assert_eq!(net.count(0).drop_no_destination, 1);
        assert_eq!(net.cast(0, &frame(1, 2, 64)).len(), 1, "it is flooded to: it has no address yet");
    }
}

#[test]
fn a_port_that_goes_waits_for_what_is_under_way() {
    let mut net = net(3, [none(), none(), none()]);
    assert_eq!(under_way(&mut net, &frame(255, 2, 64)), 0);
    assert_eq!(net.switch.switches[0].close(0), Closing::Waiting);
    assert!(net.switch.leave(0).is_some(), "each worker makes its steps");
    let got = net.take();
    assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 1]);
    assert!(net.switch.switches.iter().all(|switch| switch.client(0).is_none()));
}

/// A worker that stops, by a defect, takes what it had been handed with it. It is counted, and its sender goes on.
#[test]
fn what_was_with_a_worker_that_stopped_is_dropped_and_counted() {
    let mut net = net(2, [none(), none(), none()]);
    assert_eq!(under_way(&mut net, &frame(255, 2, 64)), 1, "the one here");
    drop(net.switch.switches[1].leave(0));
    net.burst(0, Vec::new());
    assert_eq!(net.count(0).drop_handoff_full, 1);
    assert_eq!(net.cast(0, &frame(255, 2, 64)).len(), 1, "to the port here");
    assert_eq!(net.count(0).drop_handoff_full, 2);
    net.check_conservation();
}

/// Everybody everywhere: a mirror and the port that it mirrors on one worker and on two, and the other side of each flow on either.
#[test]
fn mirrors_of_other_workers_get_their_copies() {
    for workers in 1..4 {
        for (sent, received) in [(true, false), (false, true), (true, true)] {
            for mirror in 1..4 {
                let watched = Policy { mirror: Some(Mirror { to: mirror, sent, received }), ..none() };
                let mut policies = vec![none(); 4];
                policies[0] = watched;
                let mut net = net(workers, policies);
                let others: Vec<_> = (1..4).filter(|at| *at != mirror as usize).collect();
                let from_it = net.cast(0, &frame(255, 1, 64));
                let mut expected: Vec<_> = others.iter().map(|at| (*at, frame(255, 1, 64))).collect();
                expected.extend(sent.then(|| (mirror as usize, frame(255, 1, 64))));
                expected.sort();
                assert_eq!(from_it, expected, "{workers} workers, mirror {mirror}");
                for at in &others {
                    let to_it = net.cast(*at, &frame(1, 9, 64));
                    let mut expected = vec![(0, frame(1, 9, 64))];
                    expected.extend(received.then(|| (mirror as usize, frame(1, 9, 64))));
                    assert_eq!(to_it, expected, "{workers} workers, mirror {mirror}, from {at}");
                    let to_all = net.cast(*at, &frame(255, 9, 64));
                    assert_eq!(
                        to_all.len(),
                        2 + usize::from(received),
                        "{workers} workers, mirror {mirror}, from {at}"
                    );
                }
                net.check_conservation();
            }
        }
    }
}

#[test]
fn a_guest_is_no_way_into_a_place_that_is_taken() {
    let callers: Vec<_> = (0..2).map(|_| Caller::new().unwrap()).collect();
    let mut net = net(2, [none(), none()]);
    let (_, mut ends) = lanes(0, &callers);
    let guest = Guest::new(0, net.switch.port_mut(0).unwrap(), ends.remove(0).1, Arc::default());
    assert!(net.switch.switches[1].join(7, 0, Member::Guest(Box::new(guest))).is_err());
}
