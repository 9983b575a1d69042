//! What a protocol does where something goes wrong, or is left out; figures/pio has what the paper measures.

use std::cell::RefCell;
use std::rc::Rc;

use super::call::{self, Caller, MESSAGE, Protocol};
use super::dataflow::{self, Carrier, Lines};
use super::protocol::Initiator;
use super::{PioError, nic};
use crate::eci::{End, Sim};
use crate::kernel::time::Ps;
use crate::platform::PioPlatform;

fn enzian() -> PioPlatform {
    PioPlatform::named("enzian").unwrap()
}

fn all() -> [Protocol; 4] {
    let with = |initiator, cpu_homed| Protocol { initiator, cpu_homed, ..Protocol::PAPER };
    [(Initiator::Cpu, false), (Initiator::Device, false), (Initiator::Cpu, true), (Initiator::Device, true)]
        .map(|(initiator, cpu_homed)| with(initiator, cpu_homed))
}

/// A machine whose device adds one to each byte and takes `compute` for it.
fn adder(platform: &PioPlatform, protocol: Protocol, compute: Ps) -> Sim {
    let function = move |message: &mut [u8]| {
        message.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        compute
    };
    call::build(platform, protocol, Box::new(function), 0, &Rc::default()).unwrap()
}

/// Runs two calls; returns how it ended, when the answers were there, and how often each call was told NOT_READY.
fn two_calls(platform: &PioPlatform, protocol: Protocol, compute: Ps) -> (End, Vec<Ps>, Vec<u32>) {
    let mut sim = adder(platform, protocol, compute);
    let found = Rc::new(RefCell::new((Vec::new(), Vec::new())));
    let log = Rc::clone(&found);
    sim.spawn(0, move |cpu| {
        let mut caller = Caller::new(cpu, 0);
        for n in [5, 9] {
            let mut answer = [0; MESSAGE];
            let late = caller.call(&[n; MESSAGE], &mut answer);
            assert_eq!(answer, [n + 1; MESSAGE]);
            log.borrow_mut().0.push(cpu.now());
            log.borrow_mut().1.push(late);
        }
    })
    .unwrap();
    let end = sim.run();
    let (times, late) = found.take();
    (end, times, late)
}

/// Four messages cross the link one after the other, and nothing else does (section 4.3: "2 round trips").
#[test]
fn an_exclusive_call_is_two_round_trips_in_every_protocol() {
    let near = enzian();
    let far = near.overridden("link.one_way", 1150.0).unwrap();
    for protocol in all() {
        let median = |platform: &PioPlatform| {
            let mut times = call::times(platform, protocol, MESSAGE, 21).unwrap();
            times.sort_by(f64::total_cmp);
            times[10]
        };
        let more = median(&far) - median(&near);
        assert!((more - 4000.0).abs() < 8.0, "{protocol:?}: {more}");
    }
}

/// An answer in state Shared costs a further round trip for the ownership (section 5.1), and one for the barrier behind that.
#[test]
fn a_shared_answer_costs_round_trips() {
    let shared = Protocol { exclusive: false, ..Protocol::PAPER };
    let without = enzian().overridden("link.gsync", 0.0).unwrap();
    let crossings = |platform: &PioPlatform| {
        let far = platform.overridden("link.one_way", 1150.0).unwrap();
        let time = |p: &PioPlatform| call::times(p, shared, MESSAGE, 11).unwrap()[10];
        ((time(&far) - time(platform)) / 1000.0).round()
    };
    assert_eq!((crossings(&without), crossings(&enzian())), (6.0, 8.0));
}

/// Section 4.4: "not ready yet" before the timeout, a load of the other line, and so on "effectively indefinitely".
#[test]
fn a_long_computation_is_answered_by_not_ready_until_it_is_done() {
    for protocol in all().into_iter().filter(|p| p.initiator == Initiator::Cpu) {
        for exclusive in [true, false] {
            let (end, times, late) = two_calls(&enzian(), Protocol { exclusive, ..protocol }, 3_500_000_000);
            assert_eq!((end, late), (End::Done, vec![3, 3]), "{protocol:?}");
            assert!((3_500_000_000..3_510_000_000).contains(&times[0]), "{times:?}");
        }
    }
}

#[test]
fn not_ready_is_in_time_and_a_platform_where_it_is_not_is_refused() {
    let slow = enzian().overridden("link.timeout", 2000.0).unwrap();
    // NOT_READY comes in time: one of 1000 us is due before.
    assert_eq!(two_calls(&slow, Protocol::PAPER, 5_000_000_000).0, End::Done);
    let error = enzian().overridden("device.not_ready", 200_000.0).unwrap_err();
    assert!(error.to_string().contains("machine check"), "{error}");
}

/// Section 4.4: "which might deadlock if both A and B were mapped to the same unit". All four do, and the machine says so.
#[test]
fn lines_in_one_unit_with_one_place_deadlock() {
    let units =
        |count| enzian().overridden("cache.units", count).unwrap().overridden("cache.slots", 1.0).unwrap();
    for protocol in all() {
        let run = |platform: &PioPlatform| call::times(platform, protocol, MESSAGE, 3);
        assert!(run(&units(2.0)).is_ok(), "{protocol:?}: neighbouring lines are in different units");
        let error = run(&units(1.0)).unwrap_err();
        assert!(matches!(error, PioError::MachineCheck(at) if at >= 200_000.0), "{protocol:?}: {error}");
    }
}

/// A line that is evicted after its data have come is loaded again, and brings the same (SystemVerilog of the paper's NIC does so too).
#[test]
fn a_repeated_load_gets_the_same_answer() {
    let mut sim = adder(&enzian(), Protocol::PAPER, 0);
    sim.spawn(0, move |cpu| {
        let mut caller = Caller::new(cpu, 0);
        for n in 0..6 {
            let (mut answer, mut again) = ([0; MESSAGE], [0; MESSAGE]);
            caller.call(&[n; MESSAGE], &mut answer);
            if n % 2 == 0 {
                let before = cpu.now();
                caller.repeat(&mut again);
                assert_eq!(again, answer);
                assert!(cpu.now() - before > 300_000, "the line has come over the link again");
            }
        }
    })
    .unwrap();
    assert_eq!(sim.run(), End::Done);
}

#[test]
fn packets_of_all_lengths_arrive_as_they_were_sent() {
    for len in [0, 1, 63, 64, 65, 191, 192, 193, 1500, nic::LARGEST] {
        assert_eq!(nic::transmit_times(&enzian(), len, 5).unwrap().len(), 5);
        // A length of nought says that there is no packet.
        assert_eq!(nic::receive_times(&enzian(), len.max(1), 5).unwrap().len(), 5);
    }
}

#[test]
fn every_carrier_computes_what_the_processor_computes() {
    let half = Lines { data: MESSAGE / 2, one_way: true };
    let carriers =
        [Carrier::Cpu, Carrier::Eci(Lines::FULL), Carrier::Eci(half), Carrier::Pcie(8), Carrier::Dma];
    // `batch_us` compares the results.
    let times = carriers.map(|carrier| dataflow::batch_us(&enzian(), carrier, 1000).unwrap());
    assert!(times[0] < times[1] && times[1] < times[2], "{times:?}");
}

#[test]
fn a_line_through_points() {
    let (offset, slope, r2) = dataflow::fit(&[(0.0, 204.0), (1000.0, 212.7), (2000.0, 221.4)]);
    assert!((offset - 204.0).abs() < 1e-9 && (slope - 8.7).abs() < 1e-9 && r2 > 0.999_999);
}

#[test]
fn a_platform_without_the_part_is_refused_by_name() {
    let pc = PioPlatform::named("pio-pc").unwrap();
    let error = call::times(&pc, Protocol::PAPER, 8, 1).unwrap_err();
    assert_eq!(error.to_string(), "pio-pc has no [device]");
    assert!(nic::receive_times(&pc, 64, 1).is_err() && super::fastforward::times(&pc, 1).is_err());
}
