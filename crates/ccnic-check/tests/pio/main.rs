//! The four message protocols of coherent programmed I/O (Ruzhanskaia et al. 2024, section 4.3, figure 4), checked exhaustively: every
//! order of messages, evictions and timeouts, over calls enough for each line to have had each role twice.
//!
//! Both sides of the protocol are the simulator's own code (`ccnic-sim/src/systems/pio/protocol.rs`), which its programs and devices run.
//! The file imports nothing, so it is taken in as it is: the simulator and what it depends on are not built for this.
//!
//! `device_homed.rs` has figures 4a and 4b, `cpu_homed.rs` 4c and 4d: with the cache, the network and the directory
//! around it. Properties, in every state that can be reached:
//!
//! * *one owner*: no line is owned at both sides;
//! * *exactly once*: requests and answers arrive in order, each once, at its parity, with the data that were written;
//! * *owned before answered*: the device answers only when it has the request's line;
//! * *no deadlock*: something can happen until all calls are done.
//!
//! A model that could not fail would prove nothing: each rule of the protocol is taken away in turn, and the checker must find what goes
//! wrong.

mod cpu_homed;
mod device_homed;
#[path = "../../../ccnic-sim/src/systems/pio/protocol.rs"]
mod protocol;
mod shared;

use stateright::{Checker, Model};

use cpu_homed::CpuHomed;
use device_homed::DeviceHomed;
use shared::{Initiator, Rules};

/// Explores a model in full and returns what the checker has found: the names of violated properties, and of those that begin with
/// "reached", which say what occurs.
fn found<M>(model: M) -> Vec<&'static str>
where
    M: Model + Send + Sync + 'static,
    M::State: Send + Sync + std::hash::Hash + std::fmt::Debug + Clone + PartialEq,
    M::Action: Send + Sync + std::fmt::Debug + Clone + PartialEq,
{
    let checker = model.checker().spawn_bfs().join();
    println!("{} states, {} of them distinct", checker.state_count(), checker.unique_state_count());
    assert!(checker.is_done() && checker.unique_state_count() > 5, "something happens");
    let mut names: Vec<_> = checker.discoveries().into_keys().collect();
    names.sort_unstable();
    names
}

fn violated<M>(model: M) -> Vec<&'static str>
where
    M: Model + Send + Sync + 'static,
    M::State: Send + Sync + std::hash::Hash + std::fmt::Debug + Clone + PartialEq,
    M::Action: Send + Sync + std::fmt::Debug + Clone + PartialEq,
{
    found(model).into_iter().filter(|name| !name.starts_with("reached")).collect()
}

/// What is found in both protocols of this initiator, and with the answer's line exclusive and shared where there is a choice.
fn violations(initiator: Initiator, rules: Rules) -> [Vec<&'static str>; 3] {
    let device = |exclusive| violated(DeviceHomed { initiator, exclusive, rules });
    [device(true), device(false), violated(CpuHomed { initiator, rules })]
}

const BOTH: [Initiator; 2] = [Initiator::Cpu, Initiator::Device];

#[test]
fn the_four_protocols_hold() {
    for initiator in BOTH {
        assert_eq!(
            violations(initiator, Rules::default()),
            [const { Vec::<&str>::new() }; 3],
            "{initiator:?}"
        );
    }
}

/// Section 4.4: "which might deadlock if both A and B were mapped to the same unit". It does, in all four.
#[test]
fn lines_that_share_a_transaction_unit_deadlock() {
    for initiator in BOTH {
        let found = violations(initiator, Rules { units_apart: false, ..Rules::default() });
        assert!(found.iter().all(|names| *names == ["no deadlock"]), "{initiator:?}: {found:?}");
    }
}

/// Section 4.5: the write buffer must be drained before the load that signals. Without the barrier the device takes what lay in the line
/// before.
#[test]
fn a_load_that_overtakes_the_store_is_found() {
    for initiator in BOTH {
        for names in violations(initiator, Rules { barrier: false, ..Rules::default() }) {
            assert!(names.contains(&"exactly once"), "{initiator:?}: {names:?}");
        }
    }
}

/// Steps 3 and 4 of section 4.3 in the wrong order.
#[test]
fn an_answer_before_the_requests_line_is_found() {
    for names in violations(Initiator::Cpu, Rules { waits_for_request: false, ..Rules::default() }) {
        assert!(names.contains(&"owned before answered"), "{names:?}");
    }
}

/// The paper leaves open what becomes of the line with "not ready yet". It has to be taken back before the answer, though nothing is
/// written in it: the CPU would find it in its cache when it waits for the next answer there.
#[test]
fn a_line_with_not_ready_that_is_not_taken_back_is_found() {
    for names in violations(Initiator::Cpu, Rules { takes_back_not_ready: false, ..Rules::default() }) {
        assert!(names.contains(&"exactly once"), "{names:?}");
    }
}

/// A line can be evicted after its data have come and before the load has used them: the load is repeated. A device that is home of the
/// line must answer it again with the same data; one that does not waits for ever, or takes it for a signal.
#[test]
fn a_device_that_cannot_repeat_its_answer_is_found() {
    for initiator in BOTH {
        for exclusive in [true, false] {
            let rules = Rules { repeats: false, ..Rules::default() };
            let names = violated(DeviceHomed { initiator, exclusive, rules });
            assert!(!names.is_empty(), "{initiator:?}");
        }
    }
}

/// What the rules are for occurs in the runs: otherwise it would be no wonder that nothing goes wrong.
#[test]
fn evictions_repeated_loads_and_requests_to_write_occur() {
    for initiator in BOTH {
        let rules = Rules::default();
        let exclusive = found(DeviceHomed { initiator, exclusive: true, rules });
        let [own, repeated, evicted, upgrade] = device_homed::REACHED;
        assert_eq!(
            exclusive,
            [own, repeated, evicted],
            "{initiator:?}: no upgrade where lines are exclusive"
        );
        let shared = found(DeviceHomed { initiator, exclusive: false, rules });
        assert_eq!(shared, [own, repeated, evicted, upgrade], "{initiator:?}");
        // Section 4.3: lines homed at the CPU "might incur an access to main memory on the CPU node".
        assert_eq!(found(CpuHomed { initiator, rules }), [cpu_homed::FROM_MEMORY], "{initiator:?}");
    }
}
