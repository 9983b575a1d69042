//! Models of the hand-off between two workers: every interleaving of a few batches through a queue of two slots, under loom.
//!
//! The packet's bytes, which an item names, are a loom cell here: loom reports a race when one side accesses them while the other owns
//! them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::rc::Rc;

use ccnic::Desc;
use ccnicd::poll::handoff::{HandoffConsumer, HandoffProducer, Item, Word, handoff};
use loom::cell::Cell;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;

/// loom's word.
struct Modelled(AtomicU64);

impl Word for Modelled {
    fn zero() -> Modelled {
        Modelled(AtomicU64::new(0))
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
        self.0.store(value, Release);
    }
}

/// A word without release ordering: the model must fail with it.
struct Weak(Modelled);

impl Word for Weak {
    fn zero() -> Weak {
        Weak(Modelled::zero())
    }
    fn load(&self) -> u64 {
        self.0.load()
    }
    fn store(&self, value: u64) {
        self.0.store(value);
    }
    fn load_acquire(&self) -> u64 {
        self.0.load_acquire()
    }
    fn store_release(&self, value: u64) {
        self.0.store(value);
    }
}

const SLOTS: u64 = 2;

fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(f);
}

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
    model(move || {
        let (producer, consumer) = handoff::<W>(SLOTS as usize);
        let ours = bytes();
        let shared = Rc::clone(&ours);
        let thread = thread::spawn(move || drop(produce(producer, &shared, 4, completions)));
        assert_eq!(consume(consumer, &ours), 4);
        thread.join().unwrap();
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
    passes::<Weak>(false);
}

/// The consumer takes some packets and is dropped at any point: each packet was either taken or is taken back.
#[test]
fn packets_that_a_dead_worker_has_not_taken_are_taken_back() {
    model(|| {
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
        assert_eq!(thread.join().unwrap(), done, "what was taken is completed");
        assert_eq!(back, (done..SLOTS).map(item).collect::<Vec<_>>());
        // The producer owns all bytes again.
        ours.iter().for_each(|cell| cell.set(0));
    });
}
