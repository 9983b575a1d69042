//! Tests of kept buffers: both sides on one thread.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::config::Config;
use crate::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded};
use crate::testing::{Sides, config, rounds};

/// A kept buffer of `len` bytes, all `byte`.
fn kept<R: Ring>(sides: &mut Sides<R>, len: u16, byte: u8) -> KeptBuf {
    let mut burst = Burst::new();
    assert_eq!(sides.host.alloc(len, 1, &mut burst), 1);
    let mut kept = sides.host.keep(burst.pop().unwrap());
    sides.host.with_kept_mut(&mut kept, |bytes| bytes.fill(byte)).unwrap();
    kept
}

fn headers<R: Ring>(sides: &mut Sides<R>, len: u16, n: usize) -> Burst {
    let mut burst = Burst::new();
    assert_eq!(sides.host.alloc(len, n, &mut burst), n);
    burst.iter_mut().for_each(|buf| sides.host.with_mut(buf, |bytes| bytes.fill(1)));
    burst
}

/// Receives everything; returns of each packet its length and its last byte.
fn received<R: Ring>(sides: &mut Sides<R>) -> Vec<(u32, u8)> {
    let (mut burst, mut got, mut len) = (Burst::new(), Vec::new(), 0);
    while sides.host.rx_burst(&mut burst, 32) > 0 {
        for buf in burst.as_slice() {
            assert!(!buf.desc().borrowed());
            len += u32::from(buf.len());
            if !buf.more() {
                got.push((len, sides.host.with(buf, |bytes| *bytes.last().unwrap())));
                len = 0;
            }
        }
        sides.host.free(&mut burst);
    }
    got
}

fn poll<R: Ring>(sides: &mut Sides<R>, reflect: bool) {
    let (mut idle, mem) = (0, sides.mem.clone());
    while idle < 2 {
        let n = crate::nic::loopback(&mut sides.nic, &mut sides.pipeline, &mem, reflect);
        idle = if n == 0 { idle + 1 } else { 0 };
    }
}

fn each_design(test: impl Fn(&dyn Fn(Config) -> Config, usize)) {
    let mut n = 0;
    for shared in [true, false] {
        for inline in [true, false] {
            test(&|config| Config { shared_pool: shared && config.shared_pool, inline, ..config }, n);
            n += 1;
        }
    }
}

/// Values of many lengths, each sent several times at once, arrive as they were; the values stay the program's.
fn values_arrive<R: Ring>(change: &dyn Fn(Config) -> Config, reflect: bool) {
    let config = change(Config { mtu: 9600, buffers: 128, ..config::<R>() });
    let reflect = reflect && config.shared_pool;
    let mut sides = Sides::<R>::new(&config);
    let lens = [1, 40, 64, 128, 129, 500, 1500, 4096];
    let values: Vec<_> = (10u8..).zip(lens).map(|(byte, len)| kept(&mut sides, len, byte)).collect();
    for round in 0..rounds(40, 2) {
        let value = |i: usize| &values[(i + round) % values.len()];
        let mut burst = headers(&mut sides, 54, 6);
        let parts = (0..6).map(|i| if i == 4 { Vec::new() } else { std::vec![value(i).whole(); 1 + i % 2] });
        assert_eq!(sides.host.tx_kept(&mut burst, parts), 6, "{:?}", R::DESIGN);
        assert!(burst.is_empty() && !sides.host.is_released(value(0)));
        poll(&mut sides, reflect);
        let expected = |i: usize| match i {
            4 => (54, 1),
            i => (54 + (1 + i as u32 % 2) * u32::from(value(i).len()), 10 + ((i + round) % lens.len()) as u8),
        };
        let got = received(&mut sides);
        let expected: Vec<_> = (0..6).map(expected).collect();
        assert_eq!(got, expected, "{:?}, round {round}", R::DESIGN);
        assert!(values.iter().all(|value| sides.host.is_released(value)), "{:?}: at once", R::DESIGN);
    }
    assert_eq!(sides.nic.counters().bad_descriptor, 0);
    for value in values {
        assert!(sides.host.free_kept(value).is_ok());
    }
    assert!(sides.host.leaving.is_empty());
    // Every buffer can be had again, by one side or the other.
    sides.nic.retire();
    let all = sides.layout.config().buffers as usize;
    let (mut burst, mut held) = (Burst::new(), Vec::new());
    while sides.host.alloc(4096, 64, &mut burst) > 0 {
        held.extend(burst.disown());
    }
    assert!(held.len() >= all / 4, "{}", held.len());
    let mut offsets: Vec<_> = held.iter().map(|desc| desc.offset() / 4096).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), held.len(), "none twice");
    for chunk in held.chunks(64) {
        sides.host.free_descs(chunk.iter().copied(), &mut burst);
    }
}

#[test]
fn values_are_sent_and_stay_the_programs() {
    each_design(|change, _| {
        for reflect in [false, true] {
            values_arrive::<GroupedEpoch>(change, reflect);
            values_arrive::<GroupedClear>(change, reflect);
            values_arrive::<Packed>(change, reflect);
            values_arrive::<Padded>(change, reflect);
            values_arrive::<Doorbell>(change, reflect);
        }
    });
}
