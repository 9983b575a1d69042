//! The pool as DPDK's mempool: random allocations by two agents.

use std::collections::VecDeque;

use ccnic::Config;
use ccnic::layout::{SMALL_BUF, SMALL_PER_LARGE};
use ccnic::ring::GroupedEpoch;
use ccnic::testing::{Allocator, Class, config, region, rounds};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(200, 4) as u32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two agents allocate and free what they hold, in any order, of both classes: no buffer is given twice, and none is lost.
    #[test]
    fn a_mempool_gives_no_buffer_twice_and_loses_none(
        recycle: bool,
        buffers in 16u32..400,
        steps in prop::collection::vec((0usize..2, 1usize..70, any::<bool>(), any::<bool>()), 1..60),
    ) {
        let config = Config { mempool: true, recycle, buffers, ..config::<GroupedEpoch>() };
        let (mem, layout) = region(&config);
        let mut agents = [Allocator::nic(&layout), Allocator::nic(&layout)];
        let mut held = VecDeque::new();
        let mut used = vec![false; (buffers * SMALL_PER_LARGE) as usize];
        let slots = |at: u32, class: Class| {
            let first = (at - layout.pool().buffers) / SMALL_BUF;
            first as usize..(first + class.size() / SMALL_BUF) as usize
        };
        for (who, n, takes, small) in steps {
            let class = if small { Class::Small } else { Class::Large };
            for _ in 0..n {
                if takes {
                    let Some((at, class)) = agents[who].alloc(&mem, class) else { break };
                    prop_assert!(used[slots(at, class)].iter().all(|used| !used), "{at} is given twice");
                    used[slots(at, class)].fill(true);
                    held.push_back((at, class));
                } else if let Some((at, class)) = held.pop_front() {
                    used[slots(at, class)].fill(false);
                    agents[who].free(&mem, at, class);
                }
            }
        }
        held.into_iter().for_each(|(at, class)| agents[0].free(&mem, at, class));
        agents.iter_mut().for_each(|agent| agent.drain(&mem));
        let mut found = vec![false; (buffers * SMALL_PER_LARGE) as usize];
        Allocator::walk(&mem, &layout, |at, class| {
            assert!(found[slots(at, class)].iter().all(|found| !found), "{at} is there twice");
            found[slots(at, class)].fill(true);
        });
        prop_assert!(found.iter().all(|found| *found), "a buffer is lost");
    }
}
