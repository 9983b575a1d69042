//! The hand-off between two workers: every interleaving of a few batches through a queue of two slots.
//!
//! The packet's bytes, which an item names, are a loom cell here: loom reports a race when one side accesses them while the other owns
//! them.
//!
//! And of the call that follows it: a worker that sleeps as soon as it finds nothing, with no limit of time, is woken by what is handed over.

use std::rc::Rc;

use ccnic::Desc;
use ccnic_handoff::{HandoffConsumer, HandoffProducer, Item, Notifier, Wake, Word, handoff};
use loom::cell::Cell;
use loom::sync::Notify;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;

use super::{join, model};

/// loom's word; each model must fail with one that lacks the order or the barrier that it is about.
struct LoomWord<const RELEASE: bool, const LIGHT: bool, const HEAVY: bool>(AtomicU64);

type Modelled = LoomWord<true, true, true>;
type NoRelease = LoomWord<false, true, true>;
type NoLightBarrier = LoomWord<true, false, true>;
type NoHeavyBarrier = LoomWord<true, true, false>;

impl<const RELEASE: bool, const LIGHT: bool, const HEAVY: bool> Word for LoomWord<RELEASE, LIGHT, HEAVY> {
    fn zero() -> Self {
        LoomWord(AtomicU64::new(0))
    }
    fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }
    fn store(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
    fn load_acquire(&self) -> u64 {
        self.0.load(Acquire)
    }
    fn store_release(&self, value: u64) {
        self.0.store(value, if RELEASE { Release } else { Relaxed });
    }
    fn light_barrier() {
        if LIGHT {
            fence(SeqCst);
        }
    }
    fn heavy_barrier() {
        if HEAVY {
            fence(SeqCst);
        }
    }
}

const SLOTS: u64 = 2;

fn item(n: u64) -> Item {
    Item { desc: Desc::new(n as u32, 1, 0).with_meta(n), from: n as u16, to: 7, mark: !n as u32 }
}

/// The bytes of packets: packet `n` uses cell `n % SLOTS`, which the producer owns again once packet `n` has been completed.
type Bytes = Rc<Vec<Cell<u64>>>;

fn bytes() -> Bytes {
    Rc::new((0..SLOTS).map(|_| Cell::new(0)).collect())
}

fn of(bytes: &Bytes, n: u64) -> &Cell<u64> {
    &bytes[(n % SLOTS) as usize]
}

/// Sends `packets` packets, as many at once as there is room for, and checks the completion of each.
fn produce<W: Word>(
    mut producer: HandoffProducer<W>,
    bytes: &Bytes,
    packets: u64,
    completions: bool,
) -> HandoffProducer<W> {
    let (mut next, mut done) = (0, 0);
    while next < packets {
        let room = (producer.room() as u64).min(packets - next);
        if room == 0 {
            if completions {
                producer.completed(|i| {
                    assert_eq!(i, item(done), "completed in order, once");
                    assert_eq!(of(bytes, done).get(), done + 1, "the producer owns its bytes again");
                    done += 1;
                });
            } else {
                producer.release();
            }
            thread::yield_now();
            continue;
        }
        (next..next + room).for_each(|n| of(bytes, n).set(n + 1));
        assert_eq!(producer.push((next..next + room).map(item)) as u64, room);
        producer.publish();
        next += room;
    }
    producer
}

/// Takes packets, one or two at once, until the queue is finished; returns their number.
fn consume<W: Word>(mut consumer: HandoffConsumer<W>, bytes: &Bytes) -> u64 {
    let mut expected = 0;
    while !consumer.is_finished() {
        let mut out = [Item::default(); 2];
        let n = consumer.peek(&mut out);
        for got in &out[..n] {
            assert_eq!(*got, item(expected), "order");
            assert_eq!(of(bytes, expected).get(), expected + 1, "bytes of {expected}");
            expected += 1;
        }
        if n > 0 {
            consumer.advance(n);
        } else {
            thread::yield_now();
        }
    }
    expected
}

/// More packets than slots: the queue is full, and its slots are reused.
fn passes<W: Word>(completions: bool) {
    model(3, move || {
        let (producer, consumer) = handoff::<W>(SLOTS as usize);
        let ours = bytes();
        let shared = Rc::clone(&ours);
        let thread = thread::spawn(move || drop(produce(producer, &shared, 4, completions)));
        assert_eq!(consume(consumer, &ours), 4);
        join(thread);
    });
}

#[test]
fn packets_and_their_bytes_pass_in_order() {
    passes::<Modelled>(false);
}

#[test]
fn completions_return_the_packets_in_order() {
    passes::<Modelled>(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_missing_release_is_detected() {
    passes::<NoRelease>(false);
}

/// The consumer takes some packets and is dropped at any point: each packet was either taken or is taken back.
#[test]
fn packets_that_a_dead_worker_has_not_taken_are_taken_back() {
    model(3, || {
        let (mut producer, mut consumer) = handoff::<Modelled>(SLOTS as usize);
        let ours = bytes();
        let theirs = Rc::clone(&ours);
        let thread = thread::spawn(move || {
            let mut out = [Item::default(); 1];
            let n = consumer.peek(&mut out);
            assert!(n == 0 || theirs[0].get() == 1);
            consumer.advance(n);
            n as u64
        });
        for n in 0..SLOTS {
            of(&ours, n).set(n + 1);
            producer.push(std::iter::once(item(n)));
            producer.publish();
        }
        let (mut done, mut back) = (0, Vec::new());
        while !producer.is_settled() {
            done += producer.completed(|_| {}) as u64;
            producer.take_back(|i| back.push(i));
            thread::yield_now();
        }
        assert_eq!(join(thread), done, "what was taken is completed");
        assert_eq!(back, (done..SLOTS).map(item).collect::<Vec<_>>());
        // The producer owns all bytes again.
        ours.iter().for_each(|cell| cell.set(0));
    });
}

/// loom's notifier. It keeps a notification until it is received, as an eventfd does.
struct LoomNotifier(Notify);

impl Notifier for LoomNotifier {
    fn notify(&self) {
        self.0.notify();
    }
}

/// Each of some workers hands so many packets over to one that sleeps whenever it finds nothing, calls it with each, and ends. That one
/// takes all of them. A call that is lost leaves it asleep, which loom reports as a deadlock.
fn wakes<W: Word>(workers: usize, packets: u64) {
    model(3, move || {
        let wake = Rc::new(Wake::<W, LoomNotifier>::new(LoomNotifier(Notify::new())));
        let (mut queues, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (mut producer, consumer) = handoff::<W>(SLOTS as usize);
            queues.push(consumer);
            let wake = Rc::clone(&wake);
            threads.push(thread::spawn(move || {
                for n in 0..packets {
                    assert_eq!(producer.push(std::iter::once(item(n))), 1, "there is room for all of them");
                    assert!(producer.publish());
                    wake.call();
                }
            }));
        }
        let mut taken = 0;
        while taken < packets * workers as u64 {
            let mut found = 0;
            for queue in &mut queues {
                let n = queue.peek(&mut [Item::default(); SLOTS as usize]);
                queue.advance(n);
                found += n as u64;
            }
            taken += found;
            if found == 0 {
                wake.announce_sleep();
                wake.before_last_look();
                if !queues.iter().any(HandoffConsumer::waits) {
                    wake.notifier().0.wait();
                }
                wake.announce_awake();
            }
        }
        threads.into_iter().for_each(join);
    });
}

#[test]
fn a_worker_that_sleeps_is_woken() {
    wakes::<Modelled>(1, 2);
}

/// One of them finds that the other one calls, and need not: it relies on a notification that is yet to come.
#[test]
fn one_call_of_two_workers_is_enough() {
    wakes::<Modelled>(2, 1);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_caller_without_its_half_of_the_barrier_is_detected() {
    wakes::<NoLightBarrier>(1, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleeper_without_its_half_of_the_barrier_is_detected() {
    wakes::<NoHeavyBarrier>(1, 2);
}
