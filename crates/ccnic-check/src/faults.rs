//! Faults that the interface must survive: a NIC that dies at any write, a depot that cannot be changed, stores that are seen late.
//!
//! Over one memory only: a [`FaultyMemory`] copies by itself, so the memory below it makes no difference but to the time that compiling
//! and running take. Mapped memory is the fastest.

use ccnic::nic::FETCH;
use ccnic::ring::Ring;
use ccnic::{Burst, Config};

#[cfg(miri)]
use crate::HeapMemory as Below;
#[cfg(not(miri))]
use crate::MappedMemory as Below;
use crate::faulty::FaultyMemory;
use crate::rig::{Op, Rig, Wire};
use crate::suite::{configs, few, wires};

/// Instantiates the tests: a module for each ring.
#[macro_export]
macro_rules! survives_faults {
    ($($module:ident: $ring:ident),+) => {
        $(mod $module {
            use $crate::faults::*;
            type Ring = ccnic::ring::$ring;
            #[test] fn a_nic_may_die_at_any_write() { die_at_any_write::<Ring>(); }
            #[test] fn a_contended_depot_loses_nothing() { contend_for_the_depot::<Ring>(); }
            #[test] fn a_host_that_sees_stores_late_frees_only_completed_buffers() { see_stores_late::<Ring>(); }
        })+
    };
}

/// A rig whose memory has faults.
type FaultyRig<R> = Rig<FaultyMemory<Below>, R>;

/// Does a NIC that dies at any write lose at most one burst, deliver nothing twice, and leave every buffer?
pub fn die_at_any_write<R: Ring>() {
    for config in few::<R>() {
        for &wire in wires(&config).iter().filter(|&&w| w != Wire::Sink) {
            let mut writes = 0;
            while !dies_at::<R>(&config, wire, writes) {
                writes += 1;
            }
            assert!(writes > 20, "{config:?}: only {writes} points of death: the NIC did nothing");
        }
    }
}

/// True when the NIC completed its work before the write at which it was to die.
fn dies_at<R: Ring>(config: &Config, wire: Wire, writes: u64) -> bool {
    // Small, since a new region is made for every write at which the NIC dies.
    let config = Config { buffers: 256, ..*config };
    let mut rig = FaultyRig::<R>::new(&config, wire);
    let mix = |rig: &mut Rig<_, R>| {
        rig.alloc(70, 6);
        rig.chain(&[3000, 10, 500, 20, 4096, 60]);
        rig.alloc(1500, 3);
    };
    // The ring is in its second lap when the NIC dies.
    for _ in 0..12 {
        mix(&mut rig);
        rig.settle(false);
    }
    mix(&mut rig);
    rig.transmit();
    rig.poll();
    mix(&mut rig);
    rig.transmit();
    let mortal = rig.memory.nic.mortal.clone();
    let survived = mortal.run(writes, || rig.poll() + rig.poll()).is_some();
    rig.oracle.may_lose(if survived { 0 } else { FETCH as u64 });
    rig.crash();
    // First one packet at a time, so that leftovers behind the next unit are detected; then all kinds.
    for _ in 0..if writes.is_multiple_of(2) { 9 } else { 0 } {
        rig.alloc(64, 1);
        rig.run(&[Op::Transmit, Op::Poll(1), Op::Receive(9), Op::Receive(9), Op::Free(9)]);
    }
    for _ in 0..12 {
        mix(&mut rig);
        rig.transmit();
        rig.poll();
        rig.receive(9);
        rig.free(usize::MAX);
    }
    rig.settle(false);
    rig.finish(false);
    survived
}

/// When the depot cannot be changed for a while, is every buffer still held once?
pub fn contend_for_the_depot<R: Ring>() {
    for config in configs::<R>().into_iter().filter(|c| c.shared_pool) {
        let mut rig = FaultyRig::<R>::new(&config, Wire::Loopback);
        for round in 0..30 {
            rig.memory.nic.contended.0.set(round % 3 == 1);
            rig.alloc(1000, 20);
            rig.alloc(100, 20);
            rig.transmit();
            rig.run(&[Op::Poll(4)]);
            rig.receive(Burst::CAPACITY);
            rig.free(usize::MAX);
        }
        rig.memory.nic.contended.0.set(false);
        rig.finish(false);
    }
}

/// The NIC completes packets while the host transmits, after the host looked for room and before it looks
/// again: does the host free only what has been completed?
pub fn see_stores_late<R: Ring>() {
    for config in few::<R>().into_iter().filter(|c| !c.shared_pool) {
        let mut rig = FaultyRig::<R>::new(&config, Wire::Loopback);
        rig.memory.host.late.watch();
        for round in 0..600u32 {
            rig.alloc(100, Burst::CAPACITY);
            rig.memory.host.late.loads.set(round % 3);
            rig.transmit();
            rig.memory.host.late.loads.set(0);
            rig.receive(Burst::CAPACITY);
            rig.free(usize::MAX);
            rig.poll();
            if round % 5 == 0 {
                rig.poll();
            }
        }
        rig.finish(false);
    }
}
