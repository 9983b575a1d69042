//! Tests of the copy that takes a sealed region's place.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ccnic::SharedMemory;
use rustix::fs::fstat;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{HUGE_PAGE, OfferedRegion, Pages, Region, Sealing};

fn offer(region: &Region) -> OfferedRegion {
    let fd: OwnedFd = region.as_fd().try_clone_to_owned().unwrap();
    OfferedRegion::new(fd).unwrap()
}

fn inode(region: &Region) -> u64 {
    fstat(region).unwrap().st_ino
}

/// A different word in each page, and in the last word.
fn fill(region: &Region) {
    let mem = region.memory();
    (0..region.size()).step_by(4096).for_each(|at| mem.store(at, u64::from(at) + 1));
    mem.store(region.size() - 8, 42);
}

#[track_caller]
fn is_filled(region: &Region) {
    let mem = region.memory();
    assert!((0..region.size()).step_by(4096).all(|at| mem.load(at) == u64::from(at) + 1));
    assert_eq!(mem.load(region.size() - 8), 42);
}

/// A region survives three NICs, one after the other, that seal it.
fn three_nics(mut region: Region) {
    let (base, before) = (region.base(), region.memory());
    fill(&region);
    for nic in 1..4 {
        let nics = offer(&region).map(Sealing::Required).unwrap();
        assert!(region.is_sealed().unwrap());
        let old = inode(&region);
        assert!(region.renew().unwrap());
        assert!(!region.is_sealed().unwrap() && inode(&region) != old);
        assert_eq!(region.base(), base);
        is_filled(&region);
        before.store(16, nic);
        assert_eq!((region.memory().load(16), nics.memory().load(16)), (nic, nic - 1), "memory of its own");
        nics.memory().store(24, 99);
        assert_eq!(before.load(24), 0, "the old NIC does not reach it");
    }
}

#[test]
fn a_sealed_region_is_copied_for_the_next_nic() {
    three_nics(Region::create(1 << 20, Pages::Small).unwrap());
}

#[test]
fn a_sealed_region_on_huge_pages_is_copied_for_the_next_nic() {
    match Region::create(2 * HUGE_PAGE, Pages::Huge) {
        Ok(region) => three_nics(region),
        Err(e) => println!("not tested: {e}"),
    }
}

#[test]
fn a_region_that_is_not_sealed_stays_as_it_is() {
    let mut region = Region::create(1 << 16, Pages::Small).unwrap();
    let inode_before = inode(&region);
    let nics = offer(&region).map(Sealing::Trusted).unwrap();
    assert!(!region.renew().unwrap());
    assert_eq!(inode(&region), inode_before);
    region.memory().store(8, 5);
    assert_eq!(nics.memory().load(8), 5);
}

/// A copy on ordinary pages takes the place of huge ones.
#[test]
fn without_huge_pages_the_copy_is_on_ordinary_ones() {
    let Ok(mut region) = Region::create(HUGE_PAGE, Pages::Huge) else {
        return println!("not tested: no huge page");
    };
    fill(&region);
    let copy = Region::create(HUGE_PAGE, Pages::Small).unwrap();
    copy.mapping().copy_from(region.mapping());
    region.mapping().replace(&copy).unwrap();
    region.become_copy(copy);
    is_filled(&region);
    assert_eq!(region.pages(), Pages::Small);
    three_nics(region);
}

/// A thread goes on writing into the region, each time one more than it finds there: a write that is lost
/// shows.
fn writers_wait(mut region: Region) {
    if region.mapping().freeze().is_none() {
        return println!("not tested: this process may not use userfaultfd");
    }
    let (stop, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        let mem = region.memory();
        let (stop, rounds) = (&stop, &rounds);
        let writer = threads.spawn(move || {
            let mut value = 0;
            while !stop.load(Ordering::Relaxed) {
                for at in (0..8 << 20).step_by(4096) {
                    let found = mem.load(at);
                    assert_eq!(found, value, "a write to {at} is lost");
                    mem.store(at, value + 1);
                }
                value += 1;
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..10 {
            let before = rounds.load(Ordering::Relaxed);
            let _nic = offer(&region).map(Sealing::Required).unwrap();
            assert!(region.renew().unwrap());
            while rounds.load(Ordering::Relaxed) == before && !writer.is_finished() {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn writers_wait_while_a_region_is_copied() {
    writers_wait(Region::create(8 << 20, Pages::Small).unwrap());
}

#[test]
fn writers_wait_while_huge_pages_are_copied() {
    match Region::create(8 << 20, Pages::Huge) {
        Ok(region) => writers_wait(region),
        Err(e) => println!("not tested: {e}"),
    }
}

/// Prints what a copy costs, for the documentation: run it alone, with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "takes 2 GiB of memory"]
fn cost() {
    for (mib, pages) in [(64, Pages::Small), (1024, Pages::Small), (64, Pages::Huge), (96, Pages::Huge)] {
        let times = (0..7).map_while(|_| {
            let mut region = Region::create(mib << 20, pages).ok()?;
            fill(&region);
            offer(&region).map(Sealing::Required).unwrap();
            let start = crate::thread_time();
            assert!(region.renew().unwrap());
            (region.pages() == pages).then_some((crate::thread_time() - start) / 1000)
        });
        let mut times: Vec<_> = times.collect();
        times.sort();
        match times.get(times.len() / 2) {
            Some(median) => println!("{mib} MiB, {pages:?} pages: {median} us of CPU time ({times:?})"),
            None => println!("{mib} MiB, {pages:?} pages: no memory"),
        }
    }
}

/// Run by `a_region_that_cannot_be_copied_is_intact`, in a process of its own.
#[test]
#[ignore = "a child of another test"]
fn child_without_descriptors() {
    let mut region = Region::create(1 << 20, Pages::Small).unwrap();
    fill(&region);
    let nics = offer(&region).map(Sealing::Required).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
    let refused = region.renew();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(refused.unwrap_err().to_string().contains("create a memfd"));
    is_filled(&region);
    region.memory().store(8, 5);
    assert_eq!(nics.memory().load(8), 5, "still the same memory");
    assert!(region.renew().unwrap());
    println!("copied at the second attempt");
}

#[test]
fn a_region_that_cannot_be_copied_is_intact() {
    let me = std::env::current_exe().unwrap();
    let child = ["--exact", "renew::tests::child_without_descriptors", "--ignored", "--nocapture"];
    let done = Command::new(me).args(child).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("at the second attempt"), "{done:?}");
}
