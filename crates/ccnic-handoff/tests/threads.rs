//! The hand-off between two threads. `make tsan` runs this under ThreadSanitizer.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::thread;

use ccnic::Desc;
use ccnic_handoff::{Item, NativeWord, handoff};

fn item(n: u64) -> Item {
    Item {
        desc: Desc::new(n as u32, n as u16, 0).with_meta(n),
        from: (n % 5) as u16,
        to: (n % 3) as u16,
        mark: !n as u32,
    }
}

/// Enough items for thousands of laps.
const ITEMS: u64 = 200_000;

#[test]
fn items_pass_between_two_threads_in_order() {
    for completions in [false, true] {
        let (mut producer, mut consumer) = handoff::<NativeWord>(64);
        let taker = thread::spawn(move || {
            let mut next = 0;
            while !consumer.is_finished() {
                let mut out = [Item::default(); 32];
                let n = consumer.peek(&mut out);
                for got in &out[..n] {
                    assert_eq!(*got, item(next));
                    next += 1;
                }
                if n > 0 { consumer.advance(n) } else { thread::yield_now() }
            }
            (next, consumer)
        });
        let (mut sent, mut done) = (0, 0);
        while done < ITEMS {
            let batch = (1 + sent % 31).min(ITEMS - sent) as usize;
            sent += producer.push((sent..).take(batch).map(item)) as u64;
            producer.publish();
            if completions {
                let more = producer.completed(|i| {
                    assert_eq!(i, item(done));
                    done += 1;
                });
                if more == 0 {
                    thread::yield_now();
                }
            } else {
                producer.release();
                done = sent;
                if producer.room() == 0 {
                    thread::yield_now();
                }
            }
        }
        producer.close();
        // Both ends are dropped on this thread: ThreadSanitizer does not see the fence with which the last owner of an Arc frees it.
        let (taken, _consumer) = taker.join().unwrap();
        assert_eq!(taken, ITEMS);
    }
}

/// The consumer's thread panics: the producer takes back what was not taken, and continues.
#[test]
fn the_producer_takes_back_the_items_of_a_thread_that_panicked() {
    let (mut producer, mut consumer) = handoff::<NativeWord>(64);
    let taker = thread::spawn(move || {
        let mut taken = 0;
        loop {
            let mut out = [Item::default(); 8];
            let n = consumer.peek(&mut out);
            consumer.advance(n);
            taken += n;
            assert!(taken < 100, "on purpose");
            thread::yield_now();
        }
    });
    let (mut sent, mut done, mut back) = (0u64, 0u64, 0u64);
    while !producer.consumer_gone() {
        sent += producer.push((sent..).take(5).map(item)) as u64;
        producer.publish();
        done += producer.completed(|_| {}) as u64;
        thread::yield_now();
    }
    back += producer.take_back(|_| {}) as u64;
    assert!(taker.join().is_err());
    assert!(done >= 100 && producer.is_settled());
    assert_eq!(sent, done + back);
}
