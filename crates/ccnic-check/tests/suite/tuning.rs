//! A tuning changes which hints a side gives, never what arrives: counted on a memory that counts hints.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::Cell;
use std::rc::Rc;

use ccnic::host::{self, QueuePair};
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::{GroupedClear, GroupedEpoch, Ring};
use ccnic::{Burst, Config, Demote, Layout, SharedMemory, Tuning};
use ccnic_check::HeapMemory;

/// The hints that one side has given.
#[derive(Debug, Default)]
struct Hints {
    reads: Cell<u32>,
    owns: Cell<u32>,
    demotes: Cell<u32>,
    pauses: Cell<u32>,
}

fn count(hint: &Cell<u32>) {
    hint.set(hint.get() + 1);
}

/// A memory that counts the hints of one side.
#[derive(Debug, Clone)]
struct Counting(HeapMemory, Rc<Hints>);

impl SharedMemory for Counting {
    type Adopt = ();

    fn load(&self, at: u32) -> u64 {
        self.0.load(at)
    }
    fn store(&self, at: u32, value: u64) {
        self.0.store(at, value);
    }
    fn load_acquire(&self, at: u32) -> u64 {
        self.0.load_acquire(at)
    }
    fn store_release(&self, at: u32, value: u64) {
        self.0.store_release(at, value);
    }
    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange(at, current, new)
    }
    fn read(&self, at: u32, to: &mut [u8]) {
        self.0.read(at, to);
    }
    fn write(&self, at: u32, from: &[u8]) {
        self.0.write(at, from);
    }
    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        self.0.with(at, len, f)
    }
    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.0.with_mut(at, len, f)
    }
    fn prefetch_read(&self, _: u32) {
        count(&self.1.reads);
    }
    fn prefetch_own(&self, _: u32) {
        count(&self.1.owns);
    }
    fn demote(&self, _: u32) {
        count(&self.1.demotes);
    }
    fn relax(&self) {
        count(&self.1.pauses);
    }
}

/// Sends 100 bursts of packets of `len` bytes through a loopback with this tuning on both sides, in a region of this
/// configuration, and checks them; returns the hints of the host and of the NIC.
fn run<R: Ring>(config: Config, tuning: &str, len: u16) -> [Rc<Hints>; 2] {
    let layout = Layout::new(&Config { design: R::DESIGN, ring: 64, buffers: 128, ..config }).unwrap();
    let mem = HeapMemory::new(layout.size());
    host::format(&mem, &layout);
    let hints = [(); 2].map(|()| Rc::<Hints>::default());
    let [host_mem, nic_mem] = hints.each_ref().map(|hints| Counting(mem.clone(), Rc::clone(hints)));
    let mut pair = QueuePair::<_, R>::new(host_mem, &layout, 0).unwrap();
    let mut nic = NicQueue::<_, R>::new(nic_mem.clone(), &layout, 0).unwrap();
    let (mut pipeline, mut burst) = (Pipeline::default(), Burst::new());
    let tuning: Tuning = tuning.parse().unwrap();
    pair.set_tuning(tuning);
    nic.set_tuning(tuning);
    assert_eq!(
        (pair.tuning(), nic.tuning()),
        (tuning.within(layout.config()), tuning.within(layout.config()))
    );
    for round in 0..100 {
        assert_eq!(pair.alloc(len, 32, &mut burst), 32);
        burst.iter_mut().for_each(|buf| pair.with_mut(buf, |bytes| bytes.fill(round)));
        assert_eq!(pair.tx_burst(&mut burst), 32);
        while loopback(&mut nic, &mut pipeline, &nic_mem, false) > 0 {}
        let mut received = 0;
        while received < 32 {
            let n = pair.rx_burst(&mut burst, 8);
            assert!(n > 0, "round {round}: {received} packets have come");
            received += n;
            assert!(
                burst.as_slice().iter().all(|buf| pair.with(buf, |bytes| bytes.iter().all(|b| *b == round)))
            );
            pair.free(&mut burst);
        }
        pair.relax();
    }
    hints
}

#[test]
fn payload_is_requested_as_the_tuning_says_where_buffers_are_recycled() {
    let config = Config::default();
    let [own, read] = ["fetch=own", "fetch=read"].map(|tuning| run::<GroupedEpoch>(config, tuning, 1500));
    for (own, read) in own.iter().zip(&read) {
        let fewer = 32 * 100; // a packet has more lines than one
        assert!(own.owns.get() >= read.owns.get() + fewer, "{own:?} {read:?}");
        assert!(read.reads.get() >= own.reads.get() + fewer, "{own:?} {read:?}");
    }
    let other =
        |tuning| run::<GroupedClear>(config, tuning, 1500).map(|side| (side.owns.get(), side.reads.get()));
    assert_eq!(other("fetch=own"), other("fetch=read"), "the paper's design reads");
}

#[test]
fn lines_are_demoted_as_the_region_says_and_where_it_does_not_as_the_tuning_says() {
    let demotes = |demote, tuning: &str| {
        run::<GroupedEpoch>(Config { demote, ..Config::default() }, tuning, 64)
            .map(|side| side.demotes.get() > 0)
    };
    for (demote, tuning, demoted) in [
        (Demote::Auto, "demote=off", false),
        (Demote::Auto, "demote=auto", false), // full bursts: nobody is idle
        (Demote::Auto, "demote=on", true),
        (Demote::Off, "demote=on", false),
        (Demote::On, "demote=off", true),
    ] {
        assert_eq!(demotes(demote, tuning), [demoted; 2], "{demote} {tuning}");
    }
}

#[test]
fn a_program_pauses_or_spins() {
    let pauses = |tuning: &str| run::<GroupedEpoch>(Config::default(), tuning, 64)[0].pauses.get();
    assert_eq!((pauses("idle=pause"), pauses("idle=spin")), (100, 0));
}
