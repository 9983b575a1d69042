//! Two processors on the link: who has a line, what it takes, and that values are right.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::SharedMemory;

use super::*;
use crate::kernel::events::Event as _;
use crate::platform::PioPlatform;

fn enzian() -> PioPlatform {
    PioPlatform::named("enzian").unwrap()
}

/// Times of a program's steps on node 0, in nanoseconds, while node 1 does nothing.
fn alone(home: usize, steps: impl Fn(&Agent<'_>, &mut dyn FnMut()) + 'static) -> Vec<f64> {
    let mut sim = Sim::new(&enzian(), 8 * LINE, move |_| home, None);
    let times = Rc::new(RefCell::new(Vec::new()));
    let found = Rc::clone(&times);
    sim.spawn(0, move |cpu| {
        let mut last = cpu.now();
        let mut step = || {
            found.borrow_mut().push(crate::kernel::time::ns(cpu.now() - last));
            last = cpu.now();
        };
        steps(&cpu, &mut step);
    })
    .unwrap();
    assert_eq!(sim.run(), End::Done);
    times.take()
}

#[test]
fn loads_take_what_the_platform_says() {
    let loads = |home| {
        alone(home, |cpu, step| {
            for _ in 0..2 {
                cpu.load(0);
                step();
            }
        })
    };
    // AnandTech's 103 ns of memory, and a hit in the first level.
    assert_eq!(loads(0), [103.0, 1.5]);
    // Across the link and back, with the messages' time on the wire, and the other node's lookup and memory.
    let remote = loads(1);
    let expected = 20.0 + 300.0 + 10.0 + (103.0 - 20.0) + (16.0 + 144.0) / 30.0;
    assert!((remote[0] - expected).abs() < 0.01 && remote[1] == 1.5, "{remote:?} {expected}");
}

#[test]
fn a_store_to_a_line_that_is_owned_costs_nothing_more_and_one_that_is_shared_a_round_trip() {
    let times = alone(1, |cpu, step| {
        cpu.load(0); // to read
        step();
        cpu.store(0, 1);
        step();
        cpu.store(8, 2);
        step();
        cpu.barrier();
        step();
        cpu.barrier();
        step();
    });
    assert!(times[1] > 300.0 && times[2] < 2.0, "{times:?}");
    assert!(
        times[3] > 300.0 && times[4] == 10.0,
        "one barrier waits for the other node, the next has no reason to: {times:?}"
    );
}

/// Both processors add to counters under a lock that each takes by a compare-and-exchange, on lines of both homes.
#[test]
fn nothing_is_lost_between_two_processors() {
    let mut sim = Sim::new(&enzian(), 4 * LINE, |line| line as usize % 2, None);
    let last = Rc::new(RefCell::new([0; 2]));
    for node in [0, 1] {
        let last = Rc::clone(&last);
        sim.spawn(node, move |cpu| {
            for round in 0..200u64 {
                while cpu.compare_exchange(0, 0, 1).is_err() {
                    cpu.relax();
                }
                for counter in [LINE, 2 * LINE] {
                    cpu.store(counter, cpu.load(counter) + 1);
                }
                if round % 13 == node as u64 {
                    cpu.evict(LINE);
                }
                last.borrow_mut()[node] = cpu.load(LINE) + cpu.load(2 * LINE);
                cpu.store_release(0, 0);
                cpu.work(round as u32 % 40);
            }
        })
        .unwrap();
    }
    assert_eq!(sim.run(), End::Done);
    assert_eq!(last.borrow().iter().max(), Some(&800));
}

/// What a cache may do with a line: never can both nodes write, nor one while the other reads.
#[test]
fn one_writer_or_readers() {
    let mut sim = Sim::new(&enzian(), 4 * LINE, |line| line as usize / 2, None);
    for node in [0, 1] {
        sim.spawn(node, move |cpu| {
            let mut x = 7 + node as u32;
            for _ in 0..2000 {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (x >> 24) % 4 * LINE;
                match x >> 28 {
                    0..=6 => drop(cpu.load(at)),
                    7..=13 => cpu.store(at, x.into()),
                    14 => cpu.evict(at),
                    _ => cpu.barrier(),
                }
                cpu.check_lines();
            }
        })
        .unwrap();
    }
    assert_eq!(sim.run(), End::Done);
}

#[test]
fn a_node_has_one_program() {
    let mut sim = Sim::new(&enzian(), LINE, |_| 0, None);
    sim.spawn(0, |_| {}).unwrap();
    assert!(sim.spawn(0, |_| {}).is_err());
}

#[test]
fn events_fit_into_a_word() {
    use super::link::{Event, Message};
    let lines = [0, 7, u32::MAX];
    let events = lines.into_iter().flat_map(|n| {
        [
            Event::Message(1, Message::Synced, n),
            Event::Message(0, Message::Load, n),
            Event::Resume(n as usize),
            Event::Timer(n),
            Event::Give(n, true),
            Event::Give(n, false),
            Event::Wanted(n),
            Event::Got(n),
        ]
    });
    for event in events {
        assert_eq!(Event::unpack(event.pack()), event);
    }
}
