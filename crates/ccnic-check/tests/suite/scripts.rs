//! Random scripts: proptest writes lists of operations, the oracle checks every one, a failure shrinks to a
//! short script.

use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic_check::HeapMemory;
use ccnic_check::rig::{Op, Rig, Wire};
use ccnic_check::suite::{configs, wires};
use proptest::prelude::*;

/// Scripts per ring; each is run on one configuration and one wire.
const SCRIPTS: u32 = 400;

fn len() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 1u16..300, 2 => 300u16..4097, 1 => 4097u16..9600]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (len(), 0usize..40).prop_map(|(len, packets)| Op::Alloc { len, packets }),
        3 => prop::collection::vec(1u16..1200, 1..=8).prop_map(Op::Chain),
        1 => Just(Op::Drop),
        6 => Just(Op::Transmit),
        4 => (1u16..140, 0usize..70).prop_map(|(len, packets)| Op::SendSmall { len, packets }),
        4 => (0usize..=64).prop_map(Op::ReceiveSmall),
        6 => (0usize..5).prop_map(Op::Poll),
        6 => (0usize..=64).prop_map(Op::Receive),
        4 => (0usize..80).prop_map(Op::Free),
        2 => (0usize..10).prop_map(Op::Echo),
        1 => Just(Op::Handover),
        1 => Just(Op::Crash),
    ]
}

fn scripts<R: Ring>() {
    let configs = configs::<R>();
    let config = ProptestConfig { cases: SCRIPTS, failure_persistence: None, ..ProptestConfig::default() };
    let script = (0..configs.len(), 0usize..6, any::<bool>(), prop::collection::vec(op(), 1..120));
    let ran =
        proptest::test_runner::TestRunner::new(config).run(&script, |(config, wire, small, mut ops)| {
            let mut config = configs[config];
            let wires = wires(&config);
            let wire = wires[wire % wires.len()];
            if small {
                config.buffers = 40; // the pool becomes empty
            }
            // A successor does not find receive buffers that its predecessor had taken.
            ops.retain(|op| config.shared_pool || *op != Op::Handover);
            // What the sink drops cannot be told from what a crash lost.
            ops.retain(|op| wire != Wire::Sink || *op != Op::Crash);
            let mut rig = Rig::<HeapMemory, R>::new(&config, wire);
            rig.run(&ops);
            rig.finish(small);
            Ok(())
        });
    if let Err(e) = ran {
        panic!("{e}");
    }
}

#[test]
fn grouped_epoch() {
    scripts::<GroupedEpoch>();
}

#[test]
fn grouped_clear() {
    scripts::<GroupedClear>();
}

#[test]
fn packed() {
    scripts::<Packed>();
}

#[test]
fn padded() {
    scripts::<Padded>();
}

#[test]
fn doorbell() {
    scripts::<Doorbell>();
}

/// Found by `doorbell`: packets that the host had taken from the ring when the NIC died were subtracted twice from the buffers posted, so
/// that more were posted than the ring has places, over packets that nobody had received.
#[test]
fn what_was_taken_before_a_crash_is_replaced_once() {
    use Op::{Alloc, Crash, Drop, Poll, Receive, ReceiveSmall, SendSmall, Transmit};
    let small = |packets| SendSmall { len: 1, packets };
    let alloc = |packets| Alloc { len: 1, packets };
    let ops = [
        &[small(32), alloc(33), Transmit, Poll(2), Transmit, Crash, Drop, small(40), Receive(0), Poll(2)][..],
        &[Receive(32), small(4), alloc(24), ReceiveSmall(16), Transmit, Receive(32), Poll(1), small(27)],
        &[ReceiveSmall(9), Crash, Poll(1)],
    ];
    for config in configs::<Doorbell>() {
        for wire in wires(&config).iter().filter(|wire| **wire != Wire::Sink) {
            let mut rig = Rig::<HeapMemory, Doorbell>::new(&config, *wire);
            rig.run(&ops.concat());
            rig.finish(false);
        }
    }
}
