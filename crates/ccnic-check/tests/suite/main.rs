//! The tests of one thread, in one program: a burst over the heap is compiled once for all of them.

mod faults;
mod handoff;
mod heap;
mod kept;
mod mempool;
mod native;
mod scripts;
mod spread;
mod tuning;
