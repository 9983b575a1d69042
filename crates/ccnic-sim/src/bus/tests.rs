//! Random programs on a snooping bus, and the times of single accesses.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::SharedMemory;
use proptest::prelude::*;

use super::machine::Machine;
use super::*;
use crate::platform::BusPlatform;
use crate::protocols::snooping::State;

fn sim(processors: usize) -> Sim {
    let platform = BusPlatform::named("cni-1996").unwrap().overridden("machine.nodes", 1.0);
    Sim::new(&platform.unwrap(), processors, 1 << 20, |_| None)
}

/// At most one owner of each block, and a writer is alone.
fn check(sim: &Sim, processors: usize, at: u32) {
    let node = sim.node(0);
    let states: Vec<State> = (0..processors).map(|cache| node.state(cache, at)).collect();
    let count = |f: fn(State) -> bool| states.iter().filter(|s| f(**s)).count();
    assert!(count(State::owns) <= 1, "{states:?}");
    assert!(count(State::writable) == 0 || count(State::readable) == 1, "{states:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Four processors add to words of a few blocks, some of which replace each other; no addition is lost, and nobody ever sees a
    /// word go back.
    #[test]
    fn no_write_is_lost(steps in prop::collection::vec(prop::collection::vec((0..6u32, 0..3u32, 0..40u64), 1..60), 4)) {
        const PROCESSORS: usize = 4;
        let address = |n: u32| (n % 3) * 64 + (n / 3) * (256 << 10) + 8;
        let mut sim = sim(PROCESSORS);
        let added = Rc::new(RefCell::new([0u64; 6]));
        for (processor, steps) in steps.into_iter().enumerate() {
            let added = Rc::clone(&added);
            sim.spawn(0, processor, move |agent| {
                let mut last = [0; 6];
                for (word, what, work) in steps {
                    let (at, n) = (address(word), word as usize);
                    agent.work(work);
                    let mut value = agent.load(at);
                    assert!(value >= last[n], "a word went back");
                    if what > 0 {
                        while let Err(now) = agent.compare_exchange(at, value, value + 1) {
                            value = now;
                        }
                        added.borrow_mut()[n] += 1;
                        value += 1;
                    }
                    last[n] = value;
                    agent.with_machine(|m| assert_coherent(m, at));
                }
            }).unwrap();
        }
        prop_assert_eq!(sim.run(), End::Done);
        for word in 0..6 {
            check(&sim, PROCESSORS, address(word));
            prop_assert_eq!(sim.node(0).ram.word(address(word)), added.borrow()[word as usize]);
        }
    }
}

fn assert_coherent(machine: &Machine, at: u32) {
    let states: Vec<State> = (0..4).map(|cache| machine.nodes[0].state(cache, at)).collect();
    let count = |f: fn(State) -> bool| states.iter().filter(|s| f(**s)).count();
    assert!(count(State::owns) <= 1, "{states:?}");
    assert!(count(State::writable) == 0 || count(State::readable) == 1, "{states:?}");
}

/// CNI section 5.1.2: a block comes from another cache in 230 ns, 46 cycles.
#[test]
fn a_cache_to_cache_transfer_takes_46_cycles() {
    let mut sim = sim(2);
    let times = Rc::new(RefCell::new(Vec::new()));
    sim.spawn(0, 0, |agent| agent.store(64, 5)).unwrap();
    let found = Rc::clone(&times);
    sim.spawn(0, 1, move |agent| {
        agent.work(1000);
        for _ in 0..2 {
            let before = agent.now();
            assert_eq!(agent.load(64), 5);
            found.borrow_mut().push(agent.now() - before);
        }
    })
    .unwrap();
    assert_eq!(sim.run(), End::Done);
    assert_eq!(*times.borrow(), [47, 1], "a load is a cycle");
    assert_eq!((sim.node(0).state(0, 64), sim.node(0).state(1, 64)), (State::Owned, State::Shared));
    assert_eq!(sim.node(0).counts().memory_bus, 84);
}

/// A program that polls a block costs the bus nothing, and sees the change at a poll of its own.
#[test]
fn polling_a_cached_word_costs_no_bus() {
    let mut sim = sim(2);
    sim.spawn(0, 0, |agent| {
        while agent.load(0) == 0 {
            agent.poll_words(&[0]);
        }
        assert!((10_000..10_200).contains(&agent.now()), "{}", agent.now());
    })
    .unwrap();
    sim.spawn(0, 1, |agent| {
        agent.work(10_000);
        agent.store(0, 1);
    })
    .unwrap();
    assert_eq!(sim.run(), End::Done);
    // Two blocks to read, one of them twice: read, read to write, read again.
    assert_eq!(sim.node(0).counts().memory_bus, 3 * 42);
}

#[test]
fn a_program_that_waits_for_nothing_is_found() {
    let mut sim = sim(1);
    sim.spawn(0, 0, |agent| {
        agent.load(0);
        agent.poll_words(&[0]);
    })
    .unwrap();
    assert_eq!(sim.run(), End::Stuck);
}
