//! A flushed line is in no cache: the next load finds it in memory, with what was stored.

use std::cell::Cell;
use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic_sim::platform::Platform;
use ccnic_sim::time::ps;
use ccnic_sim::{Machine, Sim};

#[test]
fn a_flushed_line_is_read_from_memory() {
    let platform = Platform::named("icx").unwrap();
    let mut sim = Sim::new(Machine::new(&platform, 4096, &[(0, 1)]).unwrap());
    let seen = Rc::new(Cell::new((0, 0)));
    let result = Rc::clone(&seen);
    sim.spawn(0, move |agent| {
        agent.store_release(64, 7);
        agent.flush(64, 64);
        agent.fence();
        let start = agent.now();
        let value = agent.load_acquire(64);
        result.set((value, agent.now() - start));
    })
    .unwrap();
    sim.run(ps(1e6));
    let (value, took) = seen.get();
    let memory = ps(platform.local_memory_ns());
    assert_eq!(value, 7);
    assert!((memory..memory + 2000).contains(&took), "{took} ps, memory is {memory} away");
    sim.machine().audit().unwrap();
}
