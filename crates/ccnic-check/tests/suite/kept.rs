//! Kept buffers against a model: a buffer that is part of packets under way is neither changed nor given to anybody else, whatever is sent,
//! replaced and freed around it.
//!
//! The NIC copies a packet some time after it was sent. So a packet that arrives with the bytes that its values had when it was sent says
//! that none of their buffers was written meanwhile; all writers write other bytes.

use std::collections::VecDeque;

use ccnic::host::KeptBuf;
use ccnic::nic::loopback;
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic::testing::{Sides, config};
use ccnic::{Burst, Config};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

#[derive(Debug, Clone, Copy)]
enum Op {
    /// Packets of a header and up to three parts, from this value on.
    Answer {
        packets: usize,
        value: usize,
        parts: usize,
    },
    /// Writes a value in place, if the NIC has released it.
    Write(usize),
    /// Frees a value, and puts another one of this length in its place.
    Replace(usize, u16),
    /// Ordinary packets, whose buffers are reused by both sides.
    Send(u16, usize),
    Poll,
    Receive(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1usize..40, 0usize..VALUES, 0usize..4)
            .prop_map(|(packets, value, parts)| Op::Answer { packets, value, parts }),
        3 => (0usize..VALUES).prop_map(Op::Write),
        3 => (0usize..VALUES, prop_oneof![1u16..200, 200u16..3000]).prop_map(|(i, len)| Op::Replace(i, len)),
        2 => (1u16..3000, 1usize..20).prop_map(|(len, n)| Op::Send(len, n)),
        5 => Just(Op::Poll),
        4 => (1usize..64).prop_map(Op::Receive),
    ]
}

const VALUES: usize = 6;

struct Store<R: Ring> {
    sides: Sides<R>,
    reflect: bool,
    values: Vec<Option<KeptBuf>>,
    /// Changes with each write.
    fill: u8,
    /// The bytes of packets under way.
    expected: VecDeque<Vec<u8>>,
    /// Of the packet that is being received.
    part: Vec<u8>,
}

impl<R: Ring> Store<R> {
    fn new(config: &Config, reflect: bool, knows: bool) -> Store<R> {
        let mut sides = Sides::new(config);
        sides.host.set_knows_kept(knows);
        let values = (0..VALUES).map(|_| None).collect();
        let mut store =
            Store { sides, reflect, values, fill: 0, expected: VecDeque::new(), part: Vec::new() };
        (0..VALUES).for_each(|i| store.put(i, 40 * i as u16 + 1));
        store
    }

    /// Other bytes than those of any write before that could still be under way.
    fn next_fill(&mut self) -> u8 {
        self.fill = self.fill.wrapping_add(1);
        self.fill
    }

    fn put(&mut self, i: usize, len: u16) {
        let (mut burst, fill) = (Burst::new(), self.next_fill());
        self.sides.host.alloc(len, 1, &mut burst);
        self.values[i] = burst.pop().map(|buf| {
            let mut kept = self.sides.host.keep(buf);
            assert_eq!(self.sides.host.with_kept_mut(&mut kept, |bytes| bytes.fill(fill)), Some(()));
            kept
        });
    }

    fn answer(&mut self, packets: usize, value: usize, parts: usize) {
        let (mut headers, fill) = (Burst::new(), self.next_fill());
        let host = &mut self.sides.host;
        let n = host.alloc(20, packets, &mut headers);
        headers.iter_mut().for_each(|buf| host.with_mut(buf, |bytes| bytes.fill(fill)));
        let of = |i: usize| {
            let chosen = (0..parts).map(move |part| (value + i * (part + 1)) % VALUES);
            chosen.filter_map(|i| self.values[i].as_ref()).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..n).map(of).collect();
        let parts = all.iter().map(|values| values.iter().map(|value| value.whole()));
        let sent = host.tx_kept(&mut headers, parts);
        assert_eq!(headers.len(), n - sent);
        host.free(&mut headers);
        for values in &all[..sent] {
            let mut bytes = vec![fill; 20];
            for value in values {
                host.with_kept(value, |part| bytes.extend(part));
                assert!(!host.knows_kept() || !host.is_released(value), "it has just been sent");
            }
            self.expected.push_back(bytes);
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Answer { packets, value, parts } => self.answer(packets, value, parts),
            Op::Write(i) => {
                let fill = self.next_fill();
                if let Some(kept) = &mut self.values[i] {
                    let released = self.sides.host.is_released(kept);
                    let wrote = self.sides.host.with_kept_mut(kept, |bytes| bytes.fill(fill));
                    assert_eq!(wrote.is_some(), released);
                }
            }
            Op::Replace(i, len) => {
                if let Some(kept) = self.values[i].take() {
                    assert!(self.sides.host.free_kept(kept).is_ok());
                }
                self.put(i, len);
            }
            Op::Send(len, packets) => {
                let (fill, mut burst, host) = (self.next_fill(), Burst::new(), &mut self.sides.host);
                host.alloc(len, packets, &mut burst);
                burst.iter_mut().for_each(|buf| host.with_mut(buf, |bytes| bytes.fill(fill)));
                let sent = host.tx_burst(&mut burst);
                host.free(&mut burst);
                self.expected.extend((0..sent).map(|_| vec![fill; len.into()]));
            }
            Op::Poll => {
                let mem = self.sides.mem.clone();
                loopback(&mut self.sides.nic, &mut self.sides.pipeline, &mem, self.reflect);
            }
            Op::Receive(max) => self.receive(max),
        }
    }

    fn receive(&mut self, max: usize) {
        let (mut burst, host) = (Burst::new(), &mut self.sides.host);
        host.rx_burst(&mut burst, max);
        for buf in burst.as_slice() {
            host.with(buf, |bytes| self.part.extend(bytes));
            if !buf.more() {
                // A NIC that has no buffer for a copy drops packets with kept segments.
                let mut dropped = self.sides.nic.counters().dropped_no_buffer;
                while self.expected.pop_front().as_ref() != Some(&self.part) {
                    assert!(dropped > 0, "{} bytes that nobody sent so", self.part.len());
                    dropped -= 1;
                }
                self.part.clear();
            }
        }
        host.free(&mut burst);
    }

    /// All packets arrive, all values are released.
    fn end(mut self) {
        for _ in 0..200 {
            self.run(Op::Poll);
            self.run(Op::Receive(32));
        }
        let counters = self.sides.nic.counters();
        assert!(self.expected.len() as u64 <= counters.dropped_no_buffer);
        assert_eq!((counters.bad_descriptor, counters.bad_chain, counters.too_long), (0, 0, 0));
        for kept in self.values.into_iter().flatten() {
            assert!(self.sides.host.is_released(&kept));
            assert!(self.sides.host.take_back(kept).is_ok_and(|buf| {
                self.sides.host.free_one(buf);
                true
            }));
        }
    }
}

fn scripts<R: Ring>() {
    let settings = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    let script = (any::<[bool; 4]>(), 32u32..100, prop::collection::vec(op(), 1..80));
    let ran = TestRunner::new(settings).run(&script, |([shared, inline, reflect, knows], buffers, ops)| {
        let config = config::<R>();
        let shared_pool = shared && config.shared_pool;
        // With the host-managed pool the NIC waits for posted buffers. Whoever has all of them in the transmit ring can post none.
        let buffers = if shared_pool { buffers } else { buffers + 2 * config.ring };
        let config = Config { shared_pool, inline, buffers, ..config };
        let mut store = Store::<R>::new(&config, reflect && shared_pool, knows);
        ops.into_iter().for_each(|op| store.run(op));
        store.end();
        Ok(())
    });
    ran.unwrap_or_else(|e| panic!("{:?}: {e}", R::DESIGN));
}

#[test]
fn a_kept_buffer_is_nobody_elses_while_it_is_under_way() {
    scripts::<GroupedEpoch>();
    scripts::<GroupedClear>();
    scripts::<Packed>();
    scripts::<Padded>();
    scripts::<Doorbell>();
}
