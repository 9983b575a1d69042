//! Tests of units with areas: inline payload, honest and forged.

extern crate std;

use super::*;
use crate::desc::{FLAG_INLINE, FLAG_MORE};
use crate::heap::HeapMemory;
use crate::layout::{AREA, RingLayout};
use crate::ring::{Consumer, IDLE_POLLS, Producer};
use std::vec::Vec;

/// 16 units, their areas, each position in a line of its own.
const RING: RingLayout = RingLayout { units: 4096, areas: 8192, count: 16, tail: 0, head: 64, taken: 128 };

type Writer = <GroupedEpoch as Ring>::Producer;
type Reader = <GroupedEpoch as Ring>::Consumer;

fn ends() -> (HeapMemory, Writer, Reader) {
    let mem = HeapMemory::new(16384);
    (mem.clone(), Writer::resume(&mem, &RING), Reader::resume(&mem, &RING))
}

/// Adds `n` packets of a line with the numbers from `first` on, which are their bytes and metadata.
fn lines_from(mem: &HeapMemory, producer: &mut Writer, first: u64, n: usize) -> usize {
    producer.push_lines(mem, n, |i, at| {
        let number = first + i as u64;
        mem.write(at, &[number as u8; 64]);
        (64, number)
    })
}

/// Adds one packet of `len` bytes.
fn one(mem: &HeapMemory, producer: &mut Writer, number: u64, len: u16) -> bool {
    let Some(at) = producer.place(mem, len.into()) else { return false };
    mem.write(at, &[number as u8; 448][..usize::from(len)]);
    producer.add(mem, at, len, number);
    true
}

/// What one pop brings: the numbers of the packets. The bytes of inline ones must be those that were written.
fn pop(mem: &HeapMemory, consumer: &mut Reader) -> Vec<u64> {
    let mut out = [Desc::default(); 64];
    let n = consumer.pop(mem, &mut out);
    let bytes =
        |desc: &Desc| mem.with(desc.offset(), desc.len().into(), |b| b.iter().all(|b| *b == desc.meta as u8));
    assert!(out[..n].iter().all(|desc| !desc.inline() || bytes(desc)), "{:?}", &out[..n]);
    out[..n].iter().map(|desc| desc.meta).collect()
}

fn pop_all(mem: &HeapMemory, consumer: &mut Reader) -> Vec<u64> {
    let mut all = Vec::new();
    while consumer.ready(mem) {
        all.extend(pop(mem, consumer));
    }
    all
}

/// Descriptors in each of the first units.
fn counts<const N: usize>(mem: &HeapMemory) -> [u64; N] {
    core::array::from_fn(|unit| mem.load(RING.units + unit as u32 * LINE) >> SIGNAL_SHIFT & 7)
}

#[test]
fn lines_wrap_in_order_with_their_bytes() {
    let (mem, mut producer, mut consumer) = ends();
    let (mut next, mut seen_before) = (0, 0);
    for n in (1..=13).cycle().take(300) {
        assert_eq!(lines_from(&mem, &mut producer, next, n), n);
        if n % 3 > 0 {
            producer.close(&mem); // otherwise the next burst fills the open unit
        }
        next += n as u64;
        let seen = pop_all(&mem, &mut consumer);
        consumer.release(&mem);
        let end = seen_before + seen.len() as u64;
        assert!(seen.into_iter().eq(seen_before..end), "in order");
        assert!(
            end == next || n % 3 == 0 && next - end < 4,
            "{end} of {next}: only an open unit is not seen"
        );
        seen_before = end;
    }
    assert!(producer.position() > 16 * 10, "the ring has wrapped");
}

#[test]
fn units_fill_by_lines() {
    let filled = |lens: &[u16]| {
        let (mem, mut producer, mut consumer) = ends();
        lens.iter().zip(0..).for_each(|(len, i)| assert!(one(&mem, &mut producer, i, *len)));
        producer.close(&mem);
        assert!(pop_all(&mem, &mut consumer).into_iter().eq(0..lens.len() as u64));
        counts::<4>(&mem)
    };
    assert_eq!(filled(&[448; 4]), [1, 1, 1, 1]);
    assert_eq!(filled(&[100; 4]), [3, 1, 0, 0], "two lines each, of seven");
    assert_eq!(filled(&[1; 5]), [4, 1, 0, 0], "four descriptors");
    assert_eq!(filled(&[256, 192, 1, 448]), [2, 1, 1, 0], "four and three lines");
    assert_eq!(filled(&[385, 1, 64, 65]), [1, 3, 0, 0], "seven lines");
}

#[test]
fn every_length_keeps_its_bytes() {
    let (mem, mut producer, mut consumer) = ends();
    for len in 1..=448 {
        assert!(
            one(&mem, &mut producer, len.into(), len)
                && one(&mem, &mut producer, u64::from(len) + 1, 449 - len)
        );
        producer.close(&mem);
        assert_eq!(pop_all(&mem, &mut consumer), [len.into(), u64::from(len) + 1]);
        consumer.release(&mem);
    }
}

#[test]
fn pool_packets_and_inline_ones_share_units_in_order() {
    let (mem, mut producer, mut consumer) = ends();
    let pool = |i: u64| Desc::new(0, 64, 0).with_meta(i);
    assert_eq!(lines_from(&mem, &mut producer, 0, 2), 2);
    assert_eq!(producer.append(&mem, &[pool(2)], true), 1);
    assert_eq!(lines_from(&mem, &mut producer, 3, 2), 2);
    assert_eq!(
        producer.append(&mem, &[pool(5), pool(6), pool(7), pool(8)], true),
        4,
        "an open unit is filled"
    );
    assert!(one(&mem, &mut producer, 9, 300));
    assert_eq!(lines_from(&mem, &mut producer, 10, 3), 3, "five lines are used: a unit of their own");
    let chain = [pool(13).with_more(true), pool(14)];
    assert_eq!(producer.append(&mem, &chain, false), 2, "it closes the open unit");
    assert!(one(&mem, &mut producer, 15, 1));
    producer.close(&mem);
    assert!(pop_all(&mem, &mut consumer).into_iter().eq(0..16));
}

#[test]
fn a_unit_that_is_not_handed_back_is_not_written() {
    let (mem, mut producer, mut consumer) = ends();
    assert_eq!(lines_from(&mem, &mut producer, 0, 99), 64, "all of the ring");
    let mut out = [Desc::default(); 32];
    assert_eq!(consumer.pop(&mem, &mut out), 32);
    for position in [0, 3] {
        consumer.release_to(&mem, position);
        assert_eq!((lines_from(&mem, &mut producer, 64, 1), one(&mem, &mut producer, 64, 1)), (0, false));
    }
    consumer.release_to(&mem, 5);
    assert_eq!(lines_from(&mem, &mut producer, 64, 99), 20, "five units");
    for desc in &out[20..] {
        mem.with(desc.offset(), 64, |bytes| assert_eq!(bytes, [desc.meta as u8; 64], "still the reader's"));
    }
    assert!(pop_all(&mem, &mut consumer).into_iter().eq(32..84));
}

#[test]
fn inline_descriptors_outside_of_their_area_lose_their_data() {
    let area = RING.areas + AREA; // that of the second unit
    let read = |at: u32, len: u16, more: u8| {
        let (mem, mut producer, mut consumer) = ends();
        let first = Desc::new(RING.areas, 64, FLAG_INLINE);
        assert_eq!((producer.push(&mem, &[first]), producer.position()), (1, 1));
        let end = Desc::new(area, 1, FLAG_INLINE);
        let descs = [Desc::new(at, len, FLAG_INLINE | more).with_meta(7), end];
        assert_eq!(producer.push(&mem, &descs), 2);
        let mut out = [Desc::default(); 8];
        assert_eq!(consumer.pop(&mem, &mut out), 3);
        assert_eq!((out[0], out[1].meta, out[1].more(), out[2]), (first, 7, more != 0, end));
        (out[1].len(), consumer.all_inline(), consumer.all_short())
    };
    for more in [0, FLAG_MORE] {
        for (at, len) in [
            (area - 64, 64),  // the last line of the area before
            (area - 1, 2),    // from there into this one
            (area + AREA, 1), // behind, which is the neighbour's
            (area + 2 * AREA, 64),
            (area + AREA - 1, 2), // over the end
            (area, 449),
            (area, u16::MAX),
            (area, 0),
            (0, 64),
            (u32::MAX, 1),
            (u32::MAX - 63, 64),
        ] {
            let (len_read, inline, _) = read(at, len, more);
            assert_eq!((len_read, inline), (0, false), "{len} bytes at {at}");
        }
    }
    // All inside are read in place; longer ones are no packets for readers of small ones.
    for (at, len, small) in [(area, 128, true), (area + 447, 1, true), (area, 129, false), (area, 448, false)]
    {
        assert_eq!(read(at, len, 0), (len, true, small), "{len} bytes at {at}");
    }
}

#[test]
fn what_a_dead_producer_had_not_signalled_is_not_seen() {
    let (mem, mut producer, mut consumer) = ends();
    assert_eq!(lines_from(&mem, &mut producer, 0, 7), 7, "three of them in an open unit");
    let mut successor = Writer::resume(&mem, &RING);
    assert_eq!(successor.position(), 1);
    assert_eq!(lines_from(&mem, &mut successor, 4, 2), 2);
    successor.close(&mem);
    assert_eq!(pop_all(&mem, &mut consumer), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_successor_hands_back_what_a_dead_consumer_was_reading_and_a_look_does_not() {
    let (mem, mut producer, mut consumer) = ends();
    assert_eq!(lines_from(&mem, &mut producer, 0, 64), 64);
    let mut out = [Desc::default(); 32];
    assert_eq!(consumer.pop(&mem, &mut out), 32);
    let mut waiting = 0;
    Reader::look(&mem, &RING).peek(&mem, |_| waiting += 1);
    assert_eq!((waiting, producer.room(&mem, 64)), (32, 0));
    let mut consumer = Reader::resume(&mem, &RING);
    assert_eq!(lines_from(&mem, &mut producer, 64, 64), 32);
    assert!(pop_all(&mem, &mut consumer).into_iter().eq(32..96));
}

#[test]
fn after_the_producer_died_its_successor_spares_what_is_being_read() {
    let (mem, mut producer, mut consumer) = ends();
    assert_eq!(lines_from(&mem, &mut producer, 0, 15), 15, "three of them in an open unit");
    let mut out = [Desc::default(); 8];
    assert_eq!(consumer.pop(&mem, &mut out), 8);
    let mut waiting = 0;
    consumer.repair(&mem, &RING, 0, |descs| {
        waiting = descs.len();
        true
    });
    assert_eq!(waiting, 4);
    let mut successor = Writer::resume(&mem, &RING);
    assert_eq!(
        lines_from(&mem, &mut successor, 12, 99),
        13 * 4,
        "all but the two that are being read, and one that waits"
    );
    for desc in &out {
        mem.with(desc.offset(), 64, |bytes| assert_eq!(bytes, [desc.meta as u8; 64]));
    }
    assert!(pop_all(&mem, &mut consumer).into_iter().eq(8..64));
}

/// A reader that has waited takes a lone descriptor by a path of its own: it must find what a busy reader finds.
#[test]
fn a_reader_that_waited_takes_a_lone_descriptor_as_a_busy_one_does() {
    let area = RING.areas;
    let inline = |offset, len| Desc::new(offset, len, FLAG_INLINE);
    let alone = [
        inline(area, 64),
        inline(area, 448),
        inline(area, 449),      // longer than the area
        inline(area + AREA, 8), // in the next unit's
        inline(area, 0),
        Desc::new(area, 64, FLAG_INLINE | FLAG_MORE), // a chain without an end
        Desc::new(0, 64, 0),
    ];
    for desc in alone.map(|desc| desc.with_meta(7)) {
        let take = |polls: u32| {
            let (mem, _, mut consumer) = ends();
            let mut out = [Desc::default(); 64];
            (0..polls).for_each(|_| assert_eq!(consumer.pop(&mem, &mut out), 0));
            mem.store(RING.units + 8, desc.meta);
            mem.store(RING.units, desc.word() | u64::from(Epoch::encode(1, 0)) << SIGNAL_SHIFT);
            let n = consumer.pop(&mem, &mut out);
            (
                out[..n].to_vec(),
                consumer.all_inline(),
                consumer.all_short(),
                consumer.position(),
                consumer.discarded(),
            )
        };
        assert_eq!(take(IDLE_POLLS), take(0), "{desc:?}");
    }
}
