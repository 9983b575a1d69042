//! Mapped memory: what a program without `unsafe` gets of it.
#![forbid(unsafe_code)]

use ccnic_misuse::{ccnic, ccnic_shm};
use ccnic_shm::{Adopt, NativeMemory, OfferedRegion, Pages, Region, Sealing, xdp};

pub fn two_exclusive_slices(region: &Region) {
    let (one, other) = (region.agent(), region.agent()); //~ E0133
    let _ = (one, other);
}

pub fn an_offset_beyond(region: &Region) {
    use ccnic::SharedMemory;
    region.agent().load(1 << 20); //~ E0133
}

pub fn the_old_way(region: &Region) {
    region.memory(); //~ E0599
}

pub fn made_of_nothing() -> NativeMemory {
    NativeMemory::new(todo!()) //~ E0624
}

pub fn default_memory() -> NativeMemory {
    Default::default() //~ E0277
}

pub fn a_promise() -> Adopt {
    Adopt::promise() //~ E0133
}

pub fn a_promise_made_of_nothing() -> Adopt {
    Adopt(()) //~ E0423
}

pub fn mapped_twice(offered: OfferedRegion) {
    let _ = offered.map(Sealing::Required);
    let _ = offered.map(Sealing::Required); //~ E0382
}

pub fn shared_between_threads(memory: &NativeMemory) {
    std::thread::scope(|scope| {
        scope.spawn(|| memory.vectors()); //~ E0277
    });
}

pub fn renewed_while_it_is_read(mut region: Region) {
    let seen = &region;
    let _ = region.renew(); //~ E0502
    seen.size();
}

pub fn the_kernel_reads_what_it_is_not() {
    struct Pointer(#[allow(dead_code)] *const u8);
    let _: Option<xdp::Producer<Pointer>> = None; //~ E0277
}

pub fn a_region_of_a_program_is_read_through_its_address(region: &Region) {
    region.base().as_ref(); //~ E0133
    let _ = Pages::Small;
}
