//! Tests of the allocator: a new region, subdivision, recycling, and the checks of descriptors.

extern crate std;

use super::*;
use crate::config::Config;
use crate::desc::Desc;
use crate::heap::HeapMemory;
use crate::ring::GroupedEpoch;
use crate::testing::{config, region};

#[test]
fn a_new_region_gives_each_buffer_once_and_never_a_neighbour() {
    let (mem, layout) = region(&config::<GroupedEpoch>());
    let mut agent = Allocator::nic(&layout);
    let mut seen = [false; 64];
    let mut last = None;
    while let Some((at, class)) = agent.alloc(&mem, Class::Large) {
        let i = (at - layout.pool().buffers) / LARGE_BUF;
        assert!(class == Class::Large && !seen[i as usize] && last.is_none_or(|j: u32| i.abs_diff(j) > 1));
        (seen[i as usize], last) = (true, Some(i));
    }
    assert!(seen.iter().all(|seen| *seen));
}

#[test]
fn large_buffers_are_subdivided_up_to_half_of_the_pool() {
    let (mem, layout) = region(&config::<GroupedEpoch>());
    let mut agent = Allocator::nic(&layout);
    let [mut small, mut large] = [0; 2];
    while let Some((_, class)) = agent.alloc(&mem, Class::Small) {
        *(if class == Class::Small { &mut small } else { &mut large }) += 1;
    }
    assert_eq!((small, large, mem.load(layout.pool().split)), (32 * 32, 32, 32));
}

#[test]
fn freed_buffers_are_allocated_again_last_first_or_by_way_of_the_depot() {
    for recycle in [true, false] {
        let (mem, layout) = region(&Config { recycle, ..config::<GroupedEpoch>() });
        let mut agent = Allocator::nic(&layout);
        let one = agent.alloc(&mem, Class::Large).unwrap().0;
        agent.free(&mem, one + 77, Class::Large);
        let next = agent.alloc(&mem, Class::Large).unwrap().0;
        assert_eq!(next == one, recycle);
        agent.free(&mem, next, Class::Large);
        agent.drain(&mem);
        let mut left = 0;
        Allocator::walk(&mem, &layout, |_, _| left += 1);
        assert_eq!((left, agent.kept()), (64, 0), "all in the depot");
    }
}

#[test]
fn segments_are_checked_against_the_buffers_of_their_class() {
    let (_, layout) = region(&config::<GroupedEpoch>());
    let (agent, pool) = (Allocator::nic(&layout), layout.pool());
    let small = |at, len| agent.alike(&[Desc::new(at, len, FLAG_SMALL)]) == Some(Class::Small);
    assert!(small(pool.buffers, 1) && small(pool.buffers + 28, 100) && small(pool.end - 128, 128));
    assert!(!small(pool.buffers, 0) && !small(pool.buffers + 28, 101) && !small(pool.end, 1));
    assert!(!small(pool.buffers - 1, 1) && !small(u32::MAX, 1) && !small(pool.buffers, 129));
    let chain = Desc::new(pool.buffers, 1, FLAG_SMALL | crate::desc::FLAG_MORE);
    assert_ne!(agent.alike(&[chain]), Some(Class::Small));
    let large = |at, len| agent.holds_all(&[Desc::new(at, len, 0)]);
    assert!(large(pool.buffers, 4096) && large(pool.end - 1, 1) && large(pool.buffers + 96, 4000));
    let alike = |at, len| agent.alike(&[Desc::new(at, len, 0)]) == Some(Class::Large);
    assert!(alike(pool.buffers, 4096) && alike(pool.end - 1, 1) && alike(pool.buffers + 96, 4000));
    assert!(!alike(pool.buffers + 97, 4000) && !alike(pool.end, 1) && !alike(pool.buffers - 1, 1));
    assert!(!alike(pool.buffers, 0) && !alike(u32::MAX, 1) && !alike(pool.buffers, 4097));
    for flags in [FLAG_SMALL, crate::desc::FLAG_MORE, crate::desc::FLAG_INLINE] {
        assert_ne!(agent.alike(&[Desc::new(pool.buffers, 64, flags)]), Some(Class::Large));
    }
    assert!(!large(pool.buffers + 97, 4000) && !large(pool.end, 0) && !large(pool.buffers - 1, 1));
}

#[test]
fn small_buffers_are_never_taken_in_address_order() {
    let order = |i: u32| i.reverse_bits() >> (32 - SMALL_PER_LARGE.ilog2());
    for i in 1..SMALL_PER_LARGE {
        assert!(order(i).abs_diff(order(i - 1)) > 1);
    }
}

/// A pool by DPDK's rules, of so many large buffers.
fn mempool(buffers: u32, recycle: bool) -> (HeapMemory, Layout) {
    region(&Config { mempool: true, recycle, buffers, sequential: true, ..config::<GroupedEpoch>() })
}

#[test]
fn without_its_cache_a_mempool_gives_what_was_freed_first() {
    let (mem, layout) = mempool(128, false);
    let mut agent = Allocator::nic(&layout);
    let number = |at: u32| (at - layout.pool().buffers) / LARGE_BUF;
    // In bursts as long as a batch, all in address order again and again.
    for lap in 0..10 {
        for burst in 0..4 {
            let taken: [u32; 32] = core::array::from_fn(|_| agent.alloc(&mem, Class::Large).unwrap().0);
            assert!(taken.iter().map(|at| number(*at)).eq(burst * 32..(burst + 1) * 32), "lap {lap}");
            taken.iter().for_each(|at| agent.free(&mem, *at, Class::Large));
        }
    }
}

#[test]
fn the_cache_of_a_mempool_has_dpdks_thresholds() {
    let (mem, layout) = mempool(4096, true);
    let mut agent = Allocator::nic(&layout);
    let alloc = |agent: &mut Allocator, n: usize| -> std::vec::Vec<u32> {
        (0..n).map(|_| agent.alloc(&mem, Class::Large).unwrap().0).collect()
    };
    let one = alloc(&mut agent, 1);
    assert_eq!(agent.kept(), 256, "an empty one takes its size and what is asked for");
    agent.free(&mem, one[0], Class::Large);
    assert_eq!(alloc(&mut agent, 1), one, "what was freed last");
    let more = alloc(&mut agent, 256);
    assert_eq!(agent.kept(), 0);
    let rest = alloc(&mut agent, 200);
    let free = |agent: &mut Allocator, buffers: &[u32]| {
        buffers.iter().for_each(|at| agent.free(&mem, *at, Class::Large));
    };
    assert_eq!(agent.kept(), 57);
    free(&mut agent, &more);
    free(&mut agent, &rest[..71]);
    assert_eq!(agent.kept(), 384, "1.5 times its size");
    free(&mut agent, &rest[71..72]);
    assert_eq!(agent.kept(), 1, "the rest is in the ring");
    agent.drain(&mem);
    let mut left = 0;
    Allocator::walk(&mem, &layout, |_, _| left += 1);
    assert_eq!(left, 4096 - 1 - 128);
}

#[test]
fn a_small_pools_cache_is_a_share_of_it() {
    assert_eq!(cache_limits(16), (15, 11));
    assert_eq!((cache_limits(1), cache_limits(383), cache_limits(10_000)), ((1, 2), (382, 256), (384, 257)));
}
