//! The litmus tests of x86-TSO: outcomes that it forbids never occur; the outcome that distinguishes it from sequential consistency
//! does.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{Named, Random, seed};
use ccnic::SharedMemory;
use ccnic_sim::platform::Platform;
use ccnic_sim::time::{Ps, ps};
use ccnic_sim::{Agent, End, Machine, Sim};

/// Seeds for each test, and times that each runs it.
const SEEDS: u64 = 12;
const ROUNDS: u32 = 250;
/// A round takes less than this.
const ROUND_NS: f64 = 6000.0;
/// Each round has its own two words, in regions that are homed in either socket.
const REGION: u32 = ROUNDS * 128;

/// The values that a thread loaded in a round, and the final values of the words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Outcome {
    saw: [[u64; 2]; 4],
    last: [u64; 2],
}

/// A thread's program, which gets the agent, its number, and the addresses of x and y.
type Part = fn(&Agent<'_>, usize, u32, u32, &mut Random) -> [u64; 2];

/// The layout of a round's words: two lines homed in one socket or in two, or one line.
fn places(round: u32) -> (u32, u32) {
    let (here, there) = (round * 128, REGION + round * 128);
    match round % 5 {
        0 => (here, there),
        1 => (there, here),
        2 => (here, here + 64),
        3 => (there + 64, there),
        _ => (here, here + 8),
    }
}

/// All outcomes over many seeds of random delays and platforms, with the words in the caches or not.
fn outcomes(threads: usize, part: Part) -> Vec<Outcome> {
    let first = seed();
    (first..first + SEEDS).flat_map(|seed| rounds(seed, threads, part)).collect()
}

fn rounds(seed: u64, threads: usize, part: Part) -> Vec<Outcome> {
    let _named = Named(seed);
    let mut random = Random::new(seed);
    let name = random.pick(&["spr", "icx", "spr-one-socket"]);
    let cores: Vec<(u8, usize)> = (0..threads).map(|t| ((t % 2) as u8, t % 2)).collect();
    let mut machine = Machine::new(&Platform::named(name).unwrap(), 2 * REGION, &cores).unwrap();
    machine.set_home(REGION, REGION, 1);
    let mut sim = Sim::new(machine);
    let results = Rc::new(RefCell::new(vec![Outcome::default(); ROUNDS as usize]));
    for thread in 0..threads {
        let (mut random, results) = (Random::new(random.next()), Rc::clone(&results));
        sim.spawn(thread as u8, move |agent| {
            for round in 0..ROUNDS {
                let (x, y) = places(round);
                prepare(&agent, f64::from(round) * ROUND_NS, x, y, &mut random);
                results.borrow_mut()[round as usize].saw[thread] = part(&agent, thread, x, y, &mut random);
                assert!(agent.now_ns() < f64::from(round + 1) * ROUND_NS, "a round takes too long");
            }
        })
        .unwrap();
    }
    assert_eq!(sim.run(Ps::MAX), End::Quiet);
    let mut results = results.borrow().clone();
    for (round, outcome) in results.iter_mut().enumerate() {
        let (x, y) = places(round as u32);
        outcome.last = [sim.machine().word(x), sim.machine().word(y)];
    }
    results
}

/// Waits until the round begins, loads the words into the caches or not, and waits for a short random time.
fn prepare(agent: &Agent<'_>, start: f64, x: u32, y: u32, random: &mut Random) {
    until(agent, start + 1000.0 * random.below(3) as f64);
    for at in [x, y] {
        match random.below(5) {
            0 => agent.prefetch_read(at),
            1 => agent.prefetch_own(at),
            2 => drop(agent.load_acquire(at)),
            _ => {}
        }
    }
    agent.fence();
    until(agent, start + 4000.0 + random.pick(&[0, 10, 100, 300]) as f64);
    let most = random.pick(&[1, 20, 200]);
    agent.work(random.below(most) as f64);
}

fn until(agent: &Agent<'_>, ns: f64) {
    while agent.now_ns() < ns {
        agent.work((ns - agent.now_ns()).clamp(0.001, 100.0));
    }
    assert!(agent.now() >= ps(ns));
}

/// A load of either kind.
fn load(agent: &Agent<'_>, at: u32, random: &mut Random) -> u64 {
    if random.one_in(3) { agent.load(at) } else { agent.load_acquire(at) }
}

fn never(outcomes: &[Outcome], forbidden: impl Fn(&Outcome) -> bool) {
    assert_eq!(outcomes.iter().find(|o| forbidden(o)), None, "x86-TSO forbids this");
    // The threads must have run concurrently: with one outcome only, nothing was tested.
    let mut kinds: Vec<_> = outcomes.iter().map(|o| (o.saw, o.last)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert!(kinds.len() >= 3, "the threads never ran concurrently: {kinds:?}");
}

#[test]
fn stores_may_pass_later_loads() {
    let seen = outcomes(2, |agent, thread, x, y, random| {
        let (mine, other) = if thread == 0 { (x, y) } else { (y, x) };
        agent.store_release(mine, 1);
        [load(agent, other, random), 0]
    });
    let weak = seen.iter().filter(|o| o.saw[0][0] == 0 && o.saw[1][0] == 0).count();
    assert!(weak > 20, "the outcome that x86 shows came {weak} times of {}", seen.len());
}

#[test]
fn a_fence_keeps_loads_behind_stores() {
    let seen = outcomes(2, |agent, thread, x, y, random| {
        let (mine, other) = if thread == 0 { (x, y) } else { (y, x) };
        agent.store_release(mine, 1);
        agent.fence();
        [load(agent, other, random), 0]
    });
    never(&seen, |o| o.saw[0][0] == 0 && o.saw[1][0] == 0);
}

#[test]
fn an_exchange_is_a_fence() {
    let seen = outcomes(2, |agent, thread, x, y, random| {
        let (mine, other) = if thread == 0 { (x, y) } else { (y, x) };
        assert_eq!(agent.compare_exchange(mine, 0, 1), Ok(0));
        [load(agent, other, random), 0]
    });
    never(&seen, |o| o.saw[0][0] == 0 && o.saw[1][0] == 0);
}

#[test]
fn an_exchange_that_fails_is_a_fence_too() {
    let seen = outcomes(2, |agent, thread, x, y, random| {
        let (mine, other) = if thread == 0 { (x, y) } else { (y, x) };
        agent.store_release(mine, 1);
        assert_eq!(agent.compare_exchange(mine, 7, 8), Err(1));
        [load(agent, other, random), 0]
    });
    never(&seen, |o| o.saw[0][0] == 0 && o.saw[1][0] == 0);
}

#[test]
fn message_passing_is_ordered() {
    let seen = outcomes(2, |agent, thread, x, y, random| {
        if thread == 0 {
            agent.store(x, 1);
            agent.store_release(y, 1);
            return [0; 2];
        }
        let flag = load(agent, y, random);
        [flag, load(agent, x, random)]
    });
    never(&seen, |o| o.saw[1] == [1, 0]);
}

#[test]
fn message_passing_to_a_poller_is_ordered() {
    // The poller has loaded the data before: its next load of them must not return a value older than the message.
    let seen = outcomes(2, |agent, thread, x, y, random| {
        if thread == 0 {
            for value in 1..=4 {
                agent.store(x, value);
                agent.work(random.pick(&[0.0, 5.0, 100.0]));
            }
            agent.store_release(y, 1);
            return [0; 2];
        }
        for _ in 0..random.below(4) {
            agent.load_acquire(x);
            agent.work(random.pick(&[0.0, 30.0, 200.0]));
        }
        let flag = load(agent, y, random);
        [flag, agent.load_acquire(x)]
    });
    never(&seen, |o| o.saw[1][0] == 1 && o.saw[1][1] < 4);
}

#[test]
fn loads_come_before_later_stores() {
    let seen = outcomes(2, |agent, thread, x, y, random| {
        let (from, to) = if thread == 0 { (x, y) } else { (y, x) };
        let value = load(agent, from, random);
        agent.store_release(to, 1);
        [value, 0]
    });
    never(&seen, |o| o.saw[0][0] == 1 && o.saw[1][0] == 1);
}

#[test]
fn all_see_independent_writes_in_one_order() {
    let seen = outcomes(4, |agent, thread, x, y, random| match thread {
        0 | 1 => {
            agent.store_release([x, y][thread], 1);
            [0; 2]
        }
        2 => [load(agent, x, random), load(agent, y, random)],
        _ => [load(agent, y, random), load(agent, x, random)],
    });
    never(&seen, |o| o.saw[2] == [1, 0] && o.saw[3] == [1, 0]);
}

#[test]
fn stores_are_performed_in_order() {
    let seen = outcomes(2, |agent, thread, x, y, random| {
        let (first, second) = if thread == 0 { (x, y) } else { (y, x) };
        agent.store(first, 1 + 10 * thread as u64);
        agent.work(random.pick(&[0.0, 0.0, 40.0]));
        agent.store(second, 2 + 10 * thread as u64);
        [0; 2]
    });
    // Both first stores would be last: each after the other's second.
    never(&seen, |o| o.last == [1, 11]);
}

#[test]
fn a_store_that_follows_a_load_is_ordered_after_the_loaded_store() {
    let seen = outcomes(2, |agent, thread, x, y, random| {
        if thread == 0 {
            agent.store(x, 2);
            agent.store_release(y, 1);
            return [0; 2];
        }
        let flag = load(agent, y, random);
        agent.store_release(x, 1);
        [flag, 0]
    });
    never(&seen, |o| o.saw[1][0] == 1 && o.last[0] == 2);
}

#[test]
fn loads_of_one_word_never_go_back_in_time() {
    let seen = outcomes(2, |agent, thread, x, _, random| {
        if thread == 0 {
            for value in 1..=3 {
                agent.store_release(x, value);
                agent.work(random.pick(&[0.0, 10.0, 100.0]));
            }
            return [0; 2];
        }
        let first = load(agent, x, random);
        [first, load(agent, x, random)]
    });
    never(&seen, |o| o.saw[1][1] < o.saw[1][0]);
}
