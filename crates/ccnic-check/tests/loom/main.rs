//! loom models: every interleaving of a few packets through a ring of two or four units and of two agents that use the depot; of a few
//! calls; of a few packets that one polling thread hands over to another; of a few messages through a queue of CNI.
//!
//! The bound on preemptions (loom's: two or three find nearly every bug) keeps each model to seconds. loom
//! treats SeqCst as AcqRel and does not explore load buffering: ThreadSanitizer covers that (`make tsan`).

mod cachable;
mod calls;
mod handoff;
mod kept;

use std::rc::Rc;

use ccnic::layout::{AREA, LARGE_BUF, Layout, RingLayout};
use ccnic::ring::{Consumer, Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Producer, Ring};
use ccnic::testing::{Allocator, Class, NotifyState, arm, disarm, request};
use ccnic::{Config, Desc, SharedMemory};
use ccnic_check::faulty::{Faulty, WeakRelease};
use ccnic_check::loom_view::{LoomMemory, LoomView};
use loom::sync::Notify;
use loom::thread;

const UNITS: u32 = 0;
const LINES: u32 = 1024;
const RX_EVENT: u32 = 2048;
const TX_EVENT: u32 = 2176;
/// The flag that the program has ended. Not part of the interface.
const DONE: u32 = 2112;
const BYTES: u32 = 4096;

fn model(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(f);
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|_| panic!("the other thread failed"))
}

fn ring_layout(count: u32) -> RingLayout {
    RingLayout { units: UNITS, areas: 0, count, tail: LINES, head: LINES + 64, taken: LINES + 128 }
}

/// A ring of `count` units, and `slots` lines of payload.
fn memory<R: Ring>(count: u32, slots: u32) -> LoomMemory {
    LoomMemory::new()
        .words(UNITS..UNITS + count * R::DESIGN.unit())
        .word(LINES)
        .word(LINES + 64)
        .word(LINES + 128)
        .bytes(BYTES..BYTES + slots * 64)
}

/// The address of packet `seq`'s bytes: as many lines as can be in flight, which are reused.
fn slot(seq: u64, slots: u32) -> u32 {
    BYTES + (seq % u64::from(slots)) as u32 * 64
}

/// Sends `packets` packets of `segments` descriptors each, with payload, through a ring of `count` units; the
/// receiver checks order and content and hands the payload's lines back with the descriptors.
fn pass<R: Ring, S: SharedMemory + Clone + 'static>(
    mem: S,
    count: u32,
    packets: u64,
    segments: u64,
    slots: u32,
) {
    let layout = ring_layout(count);
    let to = mem.clone();
    let producer = thread::spawn(move || {
        let mut ring = R::Producer::resume(&to, &layout);
        for packet in 0..packets {
            let descs: Vec<Desc> = (0..segments)
                .map(|i| {
                    let seq = packet * segments + i;
                    Desc::new(slot(seq, slots), 64, 0).with_meta(seq).with_more(i + 1 < segments)
                })
                .collect();
            // The producer owns a payload line again when the ring has room for its descriptor.
            while ring.room(&to, descs.len()) < descs.len() {
                to.relax();
            }
            for desc in &descs {
                to.write(desc.offset(), &[desc.meta as u8 + 1; 8]);
            }
            assert_eq!(ring.push(&to, &descs), descs.len(), "there was room");
        }
    });
    let mut ring = R::Consumer::resume(&mem, &layout);
    let mut seq = 0;
    while seq < packets * segments {
        let mut out = [Desc::default(); 8];
        let n = ring.pop(&mem, &mut out);
        assert!((n as u64).is_multiple_of(segments), "{n} descriptors of packets of {segments}");
        for desc in &out[..n] {
            assert_eq!((desc.meta, desc.offset()), (seq, slot(seq, slots)), "order");
            let mut bytes = [0; 8];
            mem.read(desc.offset(), &mut bytes);
            assert_eq!(bytes, [seq as u8 + 1; 8], "content of {seq}");
            seq += 1;
        }
        if n == 0 {
            mem.relax();
        } else {
            ring.release(&mem);
        }
    }
    join(producer);
}

/// Five packets through two units: the ring is full, wraps, and reaches its third lap.
fn wraps<R: Ring>() {
    model(2, || pass::<R, _>(memory::<R>(2, 2).memory(), 2, 5, 1, 2));
}

/// Chains of as many descriptors as need two units, through four.
fn chains<R: Ring>(segments: u64) {
    model(2, move || pass::<R, _>(memory::<R>(4, 64).memory(), 4, 3, segments, 64));
}

/// The consumer is replaced by a successor, which resumes from the region, while the producer continues.
fn consumer_hands_over<R: Ring>() {
    model(2, || {
        let (count, packets) = (2, 3);
        let mem = memory::<R>(count, 1).memory();
        let (to, layout) = (mem.clone(), ring_layout(count));
        let producer = thread::spawn(move || {
            let mut ring = R::Producer::resume(&to, &layout);
            for seq in 0..packets {
                while ring.push(&to, &[Desc::new(0, 1, 0).with_meta(seq)]) == 0 {
                    to.relax();
                }
            }
        });
        for seq in 0..packets {
            let mut ring = R::Consumer::resume(&mem, &layout);
            let mut out = [Desc::default(); 1];
            while ring.pop(&mem, &mut out) == 0 {
                mem.relax();
            }
            assert_eq!(out[0].meta, seq, "order");
            ring.release(&mem);
        }
        join(producer);
    });
}

/// The producer is replaced by a successor, which resumes from the region, while the consumer continues.
fn producer_hands_over<R: Ring>() {
    model(2, || {
        let (count, packets) = (2, 3);
        let mem = memory::<R>(count, 1).memory();
        let (to, layout) = (mem.clone(), ring_layout(count));
        let producer = thread::spawn(move || {
            for seq in 0..packets {
                let mut ring = R::Producer::resume(&to, &layout);
                while ring.push(&to, &[Desc::new(0, 1, 0).with_meta(seq)]) == 0 {
                    to.relax();
                }
            }
        });
        let mut ring = R::Consumer::resume(&mem, &layout);
        let mut seq = 0;
        while seq < packets {
            let mut out = [Desc::default(); 1];
            if ring.pop(&mem, &mut out) == 0 {
                mem.relax();
            } else {
                assert_eq!(out[0].meta, seq, "order");
                seq += 1;
            }
            ring.release(&mem);
        }
        join(producer);
    });
}

/// A missing release: the model must fail.
fn weak<R: Ring>() {
    model(2, || pass::<R, _>(Faulty(memory::<R>(2, 2).memory(), WeakRelease), 2, 3, 1, 2));
}

/// A program that waits for a notification whenever there is nothing, and a NIC that publishes a packet when
/// there is room and checks whether the program is armed: in every poll, or once for each packet. A lost
/// notification leaves the program waiting.
fn waits<R: Ring>(in_every_poll: bool) {
    model(2, move || {
        let packets = 3;
        let mem = memory::<R>(2, 1).word(RX_EVENT).word(DONE).memory();
        let (to, layout) = (mem.clone(), ring_layout(2));
        let notifier = Rc::new(Notify::new());
        let notified = Rc::clone(&notifier);
        let nic = thread::spawn(move || {
            let (mut ring, mut watch) = (R::Producer::resume(&to, &layout), NotifyState::new(RX_EVENT));
            let mut seq = 0;
            while if in_every_poll { to.load_acquire(DONE) == 0 } else { seq < packets } {
                let sent = seq < packets && ring.push(&to, &[Desc::new(0, 1, 0).with_meta(seq)]) > 0;
                seq += u64::from(sent);
                if (sent || in_every_poll)
                    && let Some(armed) = watch.needs_notification(&to, &ring)
                {
                    notified.notify();
                    watch.notified(armed);
                }
                to.relax();
            }
        });
        let mut ring = R::Consumer::resume(&mem, &layout);
        for seq in 0..packets {
            let mut out = [Desc::default(); 1];
            while ring.pop(&mem, &mut out) == 0 {
                if arm(&mem, RX_EVENT, &ring) {
                    notifier.wait();
                    disarm(&mem, RX_EVENT);
                }
            }
            assert_eq!(out[0].meta, seq, "order");
            ring.release(&mem);
        }
        mem.store_release(DONE, 1);
        join(nic);
    });
}

/// A NIC that sleeps whenever there is nothing, and a program that sends a packet when there is room and looks once whether the NIC has
/// to be woken. A look that comes too early leaves the NIC asleep.
fn nic_sleeps<R: Ring>(packets: u64, fences: bool) {
    model(2, move || {
        let mem = memory::<R>(2, 1).word(TX_EVENT).memory();
        let (to, layout) = (mem.clone(), ring_layout(2));
        let sleeper = Rc::new(Notify::new());
        let woken = Rc::clone(&sleeper);
        let program = thread::spawn(move || {
            let (mut ring, mut watch) = (R::Producer::resume(&to, &layout), NotifyState::new(TX_EVENT));
            for seq in 0..packets {
                while ring.push(&to, &[Desc::new(0, 1, 0).with_meta(seq)]) == 0 {
                    to.relax();
                }
                if fences {
                    to.light_barrier();
                }
                if let Some(armed) = watch.needs_notification(&to, &ring) {
                    watch.notified(armed);
                    woken.notify();
                }
            }
        });
        let mut ring = R::Consumer::resume(&mem, &layout);
        for seq in 0..packets {
            let mut out = [Desc::default(); 1];
            while ring.pop(&mem, &mut out) == 0 {
                request(&mem, TX_EVENT, &ring);
                if fences {
                    mem.heavy_barrier();
                }
                if !ring.ready(&mem) {
                    sleeper.wait();
                }
                disarm(&mem, TX_EVENT);
            }
            assert_eq!(out[0].meta, seq, "order");
            ring.release(&mem);
        }
        join(program);
    });
}

/// Sends packets through the areas of a ring of two units: what is written before the signal is seen after it, and an area is not written
/// again before its unit has been handed back. A reader that hands it back before it has read must fail.
fn inline<S: SharedMemory + Clone + 'static>(mem: S, early: bool) {
    let (packets, layout) = (4, RingLayout { areas: BYTES, ..ring_layout(2) });
    let to = mem.clone();
    let producer = thread::spawn(move || {
        let mut ring = <GroupedEpoch as Ring>::Producer::resume(&to, &layout);
        for seq in 0..packets {
            let put = |_, at| {
                to.write(at, &[seq as u8 + 1; 8]);
                (8, seq)
            };
            while ring.push_lines(&to, 1, put) == 0 {
                to.relax();
            }
            ring.close(&to);
        }
    });
    let mut ring = <GroupedEpoch as Ring>::Consumer::resume(&mem, &layout);
    let mut seq = 0;
    while seq < packets {
        let mut out = [Desc::default(); 4];
        let n = ring.pop(&mem, &mut out);
        if n == 0 {
            mem.relax();
            continue;
        }
        assert!(ring.all_inline(), "each lies in the area of its unit");
        if early {
            ring.release(&mem);
        }
        for desc in &out[..n] {
            assert_eq!((desc.meta, desc.len()), (seq, 8), "order");
            mem.with(desc.offset(), 8, |bytes| assert_eq!(bytes, [seq as u8 + 1; 8], "content of {seq}"));
            seq += 1;
        }
        ring.release(&mem);
    }
    join(producer);
}

/// A ring of two units with areas.
fn memory_with_areas() -> LoomView {
    memory::<GroupedEpoch>(2, 2 * AREA / 64).memory()
}

#[test]
fn inline_payload_is_handed_over_with_its_unit() {
    model(2, || inline(memory_with_areas(), false));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_missing_release_of_inline_payload_is_detected() {
    model(2, || inline(Faulty(memory_with_areas(), WeakRelease), false));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_area_that_is_handed_back_before_it_is_read_is_detected() {
    model(2, || inline(memory_with_areas(), true));
}

macro_rules! models {
    ($($module:ident: $ring:ident, $segments:literal);+ $(;)?) => {
        $(mod $module {
            use super::*;

            #[test]
            fn the_ring_wraps() {
                wraps::<$ring>();
            }

            #[test]
            fn chains_are_whole() {
                chains::<$ring>($segments);
            }

            #[test]
            fn a_successor_consumes() {
                consumer_hands_over::<$ring>();
            }

            #[test]
            fn a_successor_produces() {
                producer_hands_over::<$ring>();
            }

            #[test]
            fn no_notification_is_lost() {
                waits::<$ring>(true);
            }

            #[test]
            #[should_panic(expected = "deadlock")]
            fn a_nic_that_checks_only_once_per_packet_is_detected() {
                waits::<$ring>(false);
            }

            #[test]
            fn a_nic_that_sleeps_is_woken() {
                nic_sleeps::<$ring>(3, true);
            }

            #[test]
            #[should_panic(expected = "deadlock")]
            fn a_missing_fence_before_sleep_is_detected() {
                nic_sleeps::<$ring>(2, false); // as many as the ring has room for
            }

            #[test]
            #[should_panic(expected = "Causality violation")]
            fn a_missing_release_is_detected() {
                weak::<$ring>();
            }
        })+
    };
}

models! {
    grouped_epoch: GroupedEpoch, 6;
    grouped_clear: GroupedClear, 6;
    packed: Packed, 2;
    padded: Padded, 2;
    doorbell: Doorbell, 2;
}

/// The smallest pool, with few words of it declared: those of its chunks as large buffers.
fn pool_memory(layout: &Layout) -> LoomView {
    let pool = layout.pool();
    let mut memory = LoomMemory::new().word(pool.small).word(pool.large).word(pool.split);
    for chunk in 0..layout.config().buffers {
        memory = memory
            .word(pool.links + chunk * 32 * 8)
            .word(pool.kinds + chunk * 8)
            .bytes(pool.buffers + chunk * LARGE_BUF..pool.buffers + chunk * LARGE_BUF + 128);
    }
    memory.memory()
}

/// Takes two buffers and writes them; frees the first and keeps the last.
fn churn<S: SharedMemory>(pool: &mut Allocator, mem: &S, mark: u8) -> Option<u32> {
    let mut kept = None;
    for _ in 0..2 {
        let Some((at, class)) = pool.alloc(mem, Class::Large) else { break };
        mem.write(at, &[mark; 8]);
        if let Some(before) = kept.replace(at) {
            pool.free(mem, before, class);
        }
    }
    pool.drain(mem);
    kept.inspect(|&at| mem.with(at, 8, |bytes| assert_eq!(bytes, [mark; 8], "another agent wrote {at}")))
}

/// Two agents allocate and free concurrently: no buffer is held twice, none is lost.
fn two_agents<S: SharedMemory + Clone + 'static>(mem: S, layout: &Layout) {
    Allocator::fill(&mem, layout);
    let (other, theirs) = (mem.clone(), *layout);
    let thread = thread::spawn(move || churn(&mut Allocator::nic(&theirs), &other, 1));
    let ours = churn(&mut Allocator::nic(layout), &mem, 2);
    let theirs = join(thread);
    let mut seen: Vec<u32> = [ours, theirs].into_iter().flatten().collect();
    Allocator::walk(&mem, layout, |buffer, _| seen.push(buffer));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len() as u32, layout.config().buffers, "each buffer in one place");
}

fn pool_layout() -> Layout {
    // Three batches, the first of one buffer: without recycling the head returns to its old value, which a
    // list without tags cannot distinguish (ABA).
    Layout::new(&Config { buffers: 65, small: false, recycle: false, ..Config::default() })
        .unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn two_agents_share_the_depot() {
    model(2, || {
        let layout = pool_layout();
        two_agents(pool_memory(&layout), &layout);
    });
}

#[test]
fn two_agents_share_the_ring_of_a_mempool() {
    model(2, || {
        let config = Config { buffers: 16, small: false, recycle: false, mempool: true, ..Config::default() };
        let layout = Layout::new(&config).unwrap_or_else(|e| panic!("{e}"));
        let pool = layout.pool();
        let mut memory = LoomMemory::new().word(pool.split);
        // Both ends of the two rings, and the slots of the large buffers.
        for word in (0..32).step_by(8).chain(32..32 + 16) {
            memory = memory.word(pool.links + word * 8);
        }
        for chunk in 0..16 {
            memory = memory.bytes(pool.buffers + chunk * LARGE_BUF..pool.buffers + chunk * LARGE_BUF + 8);
        }
        let ends = (0..4).map(|line| pool.links + line * 64).collect();
        two_agents(Altered(memory.memory(), None, ends), &layout);
    });
}

/// A memory in which a depot's head, if there is one, is without its tag, which distinguishes a head that has returned to its old value
/// (ABA); and who finds one of these words odd, an end of a ring that another agent changes, lets that agent go on.
#[derive(Clone)]
struct Altered<S>(S, Option<u32>, Vec<u32>);

impl<S: SharedMemory> SharedMemory for Altered<S> {
    type Adopt = S::Adopt;

    fn load(&self, at: u32) -> u64 {
        self.0.load(at)
    }
    fn store(&self, at: u32, value: u64) {
        self.0.store(at, value);
    }
    fn load_acquire(&self, at: u32) -> u64 {
        let word = self.0.load_acquire(at);
        if word & 1 == 1 && self.2.contains(&at) {
            self.0.relax();
        }
        word
    }
    fn store_release(&self, at: u32, value: u64) {
        self.0.store_release(at, value);
    }
    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        let new = if Some(at) == self.1 { new & 0xffff_ffff } else { new };
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
    fn prefetch_read(&self, _: u32) {}
    fn prefetch_own(&self, _: u32) {}
    fn demote(&self, _: u32) {}
    fn relax(&self) {
        self.0.relax();
    }
}

#[test]
#[should_panic]
fn a_depot_without_tags_is_detected() {
    model(2, || {
        let layout = pool_layout();
        two_agents(Altered(pool_memory(&layout), Some(layout.pool().large), Vec::new()), &layout);
    });
}
