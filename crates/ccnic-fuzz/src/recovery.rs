//! A NIC that changes the region between any two accesses of its program, and dies; then recovery, in a memory
//! that the dead NIC has no more access to; then an honest successor.
//!
//! Checked: recovery does not panic and its accesses are bounded; afterwards every buffer is in one place, once: with the program, in a
//! ring or in a depot, and none is lost; every queue pair sends and receives again.

use std::rc::Rc;

use ccnic::host::QueuePair;
use ccnic::layout::{LARGE_BUF, Layout, SMALL_BUF, SMALL_PER_LARGE};
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::recovery::{Inventory, post_again};
use ccnic::ring::{Consumer, Ring, RingVisitor};
use ccnic::testing::{self, Allocator, Class};
use ccnic::{Burst, Desc, SharedMemory};

use crate::host_region::Run;
use crate::memory::{Region, View};
use crate::setup::{Setup, bounded, call};

/// The fuzz target.
pub fn recovery(bytes: &[u8]) {
    let setup = Setup::new(bytes, |_, _| false);
    setup.layout.config().design.dispatch(Sides(setup));
}

struct Sides(Setup);

impl RingVisitor for Sides {
    type Output = ();

    fn visit<R: Ring>(self) {
        let Setup { region, layout, input, .. } = self.0;
        let mut run = Run::<R>::new(Rc::clone(&region), layout, input, false);
        while !run.input.is_used_up() {
            // NICs die after a while, one after the other.
            region.set_calm(false);
            for _ in 0..4 + run.input.below(60) {
                run.step();
            }
            region.set_calm(true);
            run.nics.clear();
            bounded(&region, 4 * call(layout.config()), "recovery", || recover(&mut run, &layout));
            free_everything(&mut run, &layout);
            run.nics = successors(&region, &layout);
            traffic(&mut run, &layout);
        }
        nothing_is_lost(run, &layout);
    }
}

/// Both sides end in order: every buffer is in a depot then, or in a ring. (The host-managed pool's host holds what it has sent: there
/// [`account`] has the last word.)
fn nothing_is_lost<R: Ring>(mut run: Run<R>, layout: &Layout) {
    run.region.set_calm(true);
    run.nics.clear();
    recover(&mut run, layout);
    free_everything(&mut run, layout);
    if layout.config().shared_pool {
        let times = times_free(&run, layout);
        assert!(
            times.iter().all(|n| *n == 1),
            "how often each 128-byte slot is free or in a ring: {times:?}"
        );
    }
}

/// The program frees what it holds, also in magazines: a small pool may be dry otherwise.
fn free_everything<R: Ring>(run: &mut Run<R>, layout: &Layout) {
    run.retire();
    // A buffer that a forging NIC has handed out twice is freed twice then, and the depots have lost others. A second recovery makes
    // them anew, since the program holds nothing any more.
    if times_free(run, layout).iter().any(|times| *times > 1) {
        recover(run, layout);
        run.retire();
    }
}

/// How often each slot of 128 bytes is in a depot or in a ring.
fn times_free<R: Ring>(run: &Run<R>, layout: &Layout) -> Vec<u32> {
    let mem = run.region.view(false);
    let mut times = vec![0; (layout.config().buffers * SMALL_PER_LARGE) as usize];
    let mut see = |at: u32, class: Class| {
        let first = (at & !(class.size() - 1)).wrapping_sub(layout.pool().buffers) / SMALL_BUF;
        let range = first as usize..(first + class.size() / SMALL_BUF) as usize;
        times.get_mut(range).unwrap_or_default().iter_mut().for_each(|times| *times += 1);
    };
    Allocator::walk(&mem, layout, &mut see);
    for q in 0..layout.config().queues {
        let rings = layout.queue(q).expect("the number is below the number of queues");
        // There is no fill ring: opening one would write where the buffers are.
        for ring in [&rings.tx, &rings.rx] {
            R::Consumer::look(&mem, ring).peek(&mem, |desc| {
                if !desc.inline() {
                    see(desc.offset(), if desc.small() { Class::Small } else { Class::Large });
                }
            });
        }
    }
    times
}

fn recover<R: Ring>(run: &mut Run<R>, layout: &Layout) {
    let mem = run.region.view(true);
    let mut inventory = Inventory::new(&mem, layout);
    run.pairs.iter().for_each(|pair| inventory.count_pair(pair));
    inventory.count_pool(&run.pool);
    run.pairs.iter_mut().for_each(|pair| inventory.repair_rings(pair));
    inventory.reclaim();
    // Before anything is allocated: a buffer that a forging NIC has handed out twice may be posted while the program holds it.
    account(run, layout);
    run.pairs.iter_mut().for_each(post_again);
}

fn successors<R: Ring>(region: &Rc<Region>, layout: &Layout) -> Vec<(NicQueue<View, R>, Pipeline)> {
    let open = |q| testing::nic(region.view(false), layout, q).expect("the region has this queue");
    (0..layout.config().queues).map(|q| (open(q), Pipeline::default())).collect()
}

/// Where each slot of 128 bytes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Unknown,
    Program,
    Ring,
    Depot,
}

struct Places {
    slots: Vec<Place>,
    layout: Layout,
    mem: View,
}

impl Places {
    fn put(&mut self, at: u32, class: Class, place: Place) {
        let pool = self.layout.pool();
        assert!((pool.buffers..pool.end).contains(&at), "{place:?} has a buffer at {at}");
        let first = ((at & !(class.size() - 1)) - pool.buffers) / SMALL_BUF;
        for slot in &mut self.slots[first as usize..(first + class.size() / SMALL_BUF) as usize] {
            let again = *slot != Place::Unknown && (place, *slot) != (Place::Program, Place::Program);
            assert!(!again, "the buffer at {at} is in two places: {slot:?} and {place:?}");
            *slot = place;
        }
        // What the program holds, it may hold in both classes: see below.
        let kind = self.mem.load(pool.kinds + (at - pool.buffers) / LARGE_BUF * 8);
        let fits = kind == u64::from(class == Class::Small);
        assert!(fits || place == Place::Program, "{place:?}: a {class:?} buffer at {at}, of kind {kind}");
    }
}

/// Every buffer is in one place. (The program may hold one twice, or a large one and a part of it: a NIC that forges descriptors can do
/// that. What the program has in its magazines is not seen here.)
fn account<R: Ring>(run: &Run<R>, layout: &Layout) {
    let (mem, config) = (run.region.view(false), layout.config());
    let slots = vec![Place::Unknown; (config.buffers * SMALL_PER_LARGE) as usize];
    let mut places = Places { slots, layout: *layout, mem: mem.clone() };
    let class = |desc: Desc| if desc.small() { Class::Small } else { Class::Large };
    for desc in run.held.descs() {
        places.put(desc.offset(), class(desc), Place::Program);
    }
    for q in 0..config.queues {
        let rings = layout.queue(q).expect("the number is below the number of queues");
        // A look: a consumer that resumes would hand back the units that the program is still reading.
        let mut see = |ring| {
            R::Consumer::look(&mem, ring).peek(&mem, |desc| {
                if !desc.inline() {
                    places.put(desc.offset(), class(desc), Place::Ring);
                }
            });
        };
        see(&rings.rx);
        match config.shared_pool {
            true => see(&rings.tx), // the host holds what it has sent with the host-managed pool
            false => {
                see(&rings.fill);
                R::Consumer::look(&mem, &rings.fill).peek(&mem, |desc| {
                    let whole = desc.offset().is_multiple_of(class(desc).size());
                    assert!(whole, "queue {q} has posted {desc:?}, which is no whole buffer");
                });
            }
        }
    }
    Allocator::walk(&mem, layout, |at, class| places.put(at, class, Place::Depot));
}

/// Polls of a queue after which something must have come, if it can.
const POLLS: usize = 400;

/// What was on its way arrives; then every queue pair gets a packet back from the successor.
fn traffic<R: Ring>(run: &mut Run<R>, layout: &Layout) {
    (0..POLLS).find(|_| round(run, None).iter().all(|(received, delivered)| received + delivered == 0));
    for q in 0..run.pairs.len() {
        let received = (0..POLLS).any(|_| round(run, Some(q))[q].0 > 0);
        assert!(received || starved(run, layout), "queue {q} is stuck: {:?}", layout.config());
    }
}

/// Every queue pair receives what is there, `sender` sends a packet, every NIC polls. By queue, what was received and what delivered.
fn round<R: Ring>(run: &mut Run<R>, sender: Option<usize>) -> Vec<(usize, usize)> {
    let mem = run.region.view(false);
    let queues = run.pairs.iter_mut().zip(&mut run.nics).enumerate();
    let turn = queues.map(|(q, (pair, (nic, pipeline)))| {
        (turn(pair, Some(q) == sender), loopback(nic, pipeline, &mem, false))
    });
    turn.collect()
}

/// With the host-managed pool a program can have sent every buffer of the class that it posts. Then nothing can be posted, a loopback
/// NIC waits for a receive buffer, and the program waits for what it has sent. Free small buffers do not help a queue that posts large ones.
fn starved<R: Ring>(run: &Run<R>, layout: &Layout) -> bool {
    let config = layout.config();
    let small = u32::from(config.mtu) <= config.small_limit();
    let mut free = config.shared_pool;
    Allocator::walk(&run.region.view(false), layout, |_, class| free |= small || class == Class::Large);
    !free
}

/// Receives what is there and sends a packet; returns how many were received.
fn turn<R: Ring>(pair: &mut QueuePair<View, R>, sends: bool) -> usize {
    let mut burst = Burst::new();
    let received = pair.rx_burst(&mut burst, 32);
    pair.free(&mut burst);
    if sends {
        pair.alloc(60, 1, &mut burst);
        pair.tx_burst(&mut burst);
        pair.free(&mut burst);
    }
    received
}
