//! Tests of the load generator.

use super::*;
use ccnic::heap::HeapMemory;
use ccnic::ring::GroupedEpoch;
use ccnic::testing::{Sides, config};
use ccnic::{Config, nic};
use std::cell::{Cell, RefCell};

/// A clock with ticks of one nanosecond. It advances when it is read, and in steps that double while the
/// generator waits. Each step polls the NIC, which runs on this thread, too.
struct TestClock {
    now: Cell<u64>,
    step: Cell<u64>,
    nic: RefCell<(nic::NicQueue<HeapMemory, GroupedEpoch>, nic::Pipeline)>,
    /// Damages or drops packets in flight.
    fault: fn(&mut nic::Fetched),
}

impl Clock for TestClock {
    fn now(&self) -> u64 {
        self.now.set(self.now.get() + 500);
        self.poll();
        self.now.get()
    }

    fn settle(&self) {}

    fn nanoseconds(&self, ticks: u64) -> u64 {
        ticks
    }

    fn give_way(&self) -> bool {
        self.now.set(self.now.get() + self.step.get());
        self.step.set((2 * self.step.get()).min(10_000_000));
        self.poll();
        true
    }

    fn spend(&self, _: usize) {
        self.step.set(100);
    }
}

impl TestClock {
    fn poll(&self) {
        let (nic, _) = &mut *self.nic.borrow_mut();
        let mut fetched = nic::Fetched::default();
        nic.fetch(&mut fetched);
        (self.fault)(&mut fetched);
        let mem = nic.memory().clone();
        nic.send_back(&mem, fetched.rest(), &[]);
        nic.flush();
    }
}

fn run_with(load: Load, fault: fn(&mut nic::Fetched)) -> Result<Outcome, LoadError> {
    let config = Config { ring: 256, buffers: 512, ..config::<GroupedEpoch>() };
    let Sides { mut host, nic, pipeline, .. } = Sides::<GroupedEpoch>::new(&config);
    let clock =
        TestClock { now: Cell::new(0), step: Cell::new(100), nic: RefCell::new((nic, pipeline)), fault };
    run(&mut host, load, &clock, || (), || ())
}

fn load(size: u16) -> Load {
    Load {
        size,
        burst: 8,
        rx_burst: 32,
        inflight: 16,
        rate: None,
        whole_bursts: false,
        phase: 0.0,
        seconds: 1e-3,
        warmup: 2e-5,
        packets: None,
    }
}

#[test]
fn whole_packets_come_back_and_are_counted() {
    for size in [64, 1500, 9000] {
        let outcome = run_with(Load { packets: Some(200), ..load(size) }, |_| ()).unwrap();
        assert!((200..240).contains(&outcome.packets), "{size}: {}", outcome.packets);
        assert_eq!((outcome.lost, outcome.corrupt, outcome.rtt.len()), (0, 0, outcome.packets));
    }
}

/// The whole window comes back in one burst, and the next is sent before its round trips are recorded.
#[test]
fn every_packet_has_a_round_trip_whatever_is_in_flight() {
    for (inflight, burst) in [(1, 1), (16, 16), (17, 17), (32, 32), (40, 8)] {
        let outcome = run_with(Load { inflight, burst, packets: Some(300), ..load(64) }, |_| ()).unwrap();
        assert_eq!((outcome.lost, outcome.corrupt, outcome.rtt.len()), (0, 0, outcome.packets));
        assert!(outcome.packets >= 300, "{inflight}: {}", outcome.packets);
    }
}

#[test]
fn packets_are_sent_at_the_rate() {
    let outcome = run_with(Load { rate: Some(1e6), ..load(64) }, |_| ()).unwrap();
    let expected = 1e6 * outcome.seconds;
    assert!((outcome.packets as f64 - expected).abs() < 0.05 * expected, "{}", outcome.packets);
}

#[test]
fn lost_packets_are_counted() {
    let fault = |fetched: &mut nic::Fetched| {
        let first = fetched.rest().first();
        if first.is_some_and(|desc| desc.meta == 0 && desc.offset() % 7 == 3) {
            fetched.advance(1);
        }
    };
    let outcome = run_with(load(64), fault).unwrap();
    assert_eq!((outcome.lost, outcome.corrupt), (0, 0), "offsets are multiples of 128");
    let fault = |fetched: &mut nic::Fetched| {
        if fetched.rest().len() > 4 {
            fetched.advance(1);
        }
    };
    let outcome = run_with(Load { packets: Some(200), ..load(64) }, fault).unwrap();
    assert!(outcome.lost > 10 && outcome.corrupt == 0, "{}", outcome.lost);
}

#[test]
fn a_nic_that_returns_nothing_is_an_error() {
    let drop_all = |fetched: &mut nic::Fetched| fetched.advance(32);
    assert!(matches!(run_with(load(64), drop_all), Err(LoadError::NoPacket)));
}
