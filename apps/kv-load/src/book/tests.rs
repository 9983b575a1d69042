//! Which answers are right.

use super::*;
use crate::workload::{Sizes, Workload};

const GET: Draw = Draw { object: 0, set: false };
const SET: Draw = Draw { object: 0, set: true };
const RUN: u32 = 9;

fn plan() -> Plan {
    Plan::draw(&Workload { objects: 2, ..Workload::of_the_paper(Sizes::Fixed(20)) }).unwrap()
}

fn send(book: &mut Book<'_>, draw: Draw) -> Number {
    let (number, _) = book.next(draw);
    book.sent(draw, 100, 100, false);
    number
}

fn answer(book: &mut Book<'_>, number: Number, reply: Reply<'_>) {
    assert!(book.answered(number, reply, 150, |ticks| ticks).is_some());
}

fn value(run: u32, write: u32) -> [u8; 20] {
    let mut data = [0; 20];
    value::fill(0, Version { run, write }, &mut data);
    data
}

/// What a get counts as when the store answers with a version.
fn got(book: &mut Book<'_>, run: u32, write: u32) -> (u64, u64, u64) {
    let before = (book.tally.hits, book.tally.stale, book.tally.corrupt);
    let number = send(book, GET);
    answer(book, number, Reply::Value { key: None, data: &value(run, write) });
    let after = &book.tally;
    (after.hits - before.0, after.stale - before.1, after.corrupt - before.2)
}

const HIT: (u64, u64, u64) = (1, 0, 0);
const STALE: (u64, u64, u64) = (0, 1, 0);
const CORRUPT: (u64, u64, u64) = (0, 0, 1);

#[test]
fn what_was_overwritten_is_stale() {
    let plan = plan();
    let mut book = Book::new(&plan, RUN).unwrap();
    book.measure(0, 1000);
    assert_eq!(got(&mut book, 1, 5), HIT, "another run's");
    book.loaded().unwrap();
    assert_eq!(got(&mut book, 1, 5), STALE, "all was written since");
    assert_eq!(got(&mut book, RUN, 0), HIT);
    let set = send(&mut book, SET);
    assert_eq!(got(&mut book, RUN, 0), HIT, "the set is in flight");
    assert_eq!(got(&mut book, RUN, 1), HIT, "the set is in flight");
    assert_eq!(got(&mut book, RUN, 2), CORRUPT, "was never written");
    let early = send(&mut book, GET);
    answer(&mut book, set, Reply::Stored);
    answer(&mut book, early, Reply::Value { key: None, data: &value(RUN, 0) });
    assert_eq!(book.tally.stale, 1, "asked for before it was overwritten");
    assert_eq!(got(&mut book, RUN, 0), STALE);
    assert_eq!(got(&mut book, RUN, 1), HIT);
    assert_eq!((book.tally.gets, book.tally.sets), (5, 1));
    assert_eq!(book.tally.latencies.max(), 50);
}

#[test]
fn sets_that_overlap_may_be_done_in_any_order() {
    let plan = plan();
    let mut book = Book::new(&plan, RUN).unwrap();
    book.measure(0, 1000);
    let [first, second] = [SET, SET].map(|draw| send(&mut book, draw));
    answer(&mut book, second, Reply::Stored);
    answer(&mut book, first, Reply::Stored);
    assert_eq!([got(&mut book, RUN, 1), got(&mut book, RUN, 2)], [HIT, HIT]);
    let third = send(&mut book, SET);
    answer(&mut book, third, Reply::Stored);
    assert_eq!([got(&mut book, RUN, 2), got(&mut book, RUN, 3)], [STALE, HIT]);
}

#[test]
fn answers_that_do_not_fit_are_corrupt() {
    let plan = plan();
    let mut book = Book::new(&plan, RUN).unwrap();
    let data = value(RUN, 0);
    let wrong = [
        Reply::Stored,
        Reply::Value { key: None, data: &data[..19] },
        Reply::Value { key: Some(b"another"), data: &data },
    ];
    for reply in wrong {
        let number = send(&mut book, GET);
        answer(&mut book, number, reply);
    }
    assert_eq!((book.tally.corrupt, book.tally.is_right()), (3, false));
    let number = send(&mut book, SET);
    answer(&mut book, number, Reply::Refused(b"SERVER_ERROR \x1b"));
    assert_eq!((book.tally.refused, book.tally.corrupt), (1, 3));
    assert_eq!(book.answered(number, Reply::Stored, 1, |ticks| ticks), None, "answered twice");
}

#[test]
fn what_is_late_is_lost() {
    let plan = plan();
    let mut book = Book::new(&plan, RUN).unwrap();
    let numbers = [GET, SET, GET].map(|draw| send(&mut book, draw));
    answer(&mut book, numbers[0], Reply::Miss);
    let mut lost = Vec::new();
    book.expire(100, |_| true, |draw| lost.push(draw));
    assert!(lost.is_empty(), "not before its time");
    book.expire(101, |number| number == numbers[1], |draw| lost.push(draw));
    assert_eq!((lost.as_slice(), book.inflight(), book.tally.lost), (&[SET][..], 1, 1));
    assert_eq!(book.answered(numbers[1], Reply::Stored, 1, |ticks| ticks), None);
    book.close();
    assert_eq!(book.tally.lost, 2);
}

#[test]
fn a_place_is_not_used_twice() {
    let plan = plan();
    let mut book = Book::new(&plan, RUN).unwrap();
    let waits = send(&mut book, GET);
    for _ in 1..PLACES {
        let number = send(&mut book, GET);
        answer(&mut book, number, Reply::Miss);
    }
    assert_eq!(send(&mut book, GET), waits + PLACES as u64 + 1);
    answer(&mut book, waits, Reply::Miss);
    assert_eq!(book.inflight(), 1);
}
