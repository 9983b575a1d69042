//! Tests of what is left of a region that loses a page. Huge pages are rare on test machines; a file that
//! shrinks ends in the same signal.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::{Arc, Barrier};

use ccnic::SharedMemory;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::mapping::Mapping;
use crate::memory::NativeMemory;

/// A mapping of three pages, each with a 7 at its ninth byte.
fn three_pages() -> (OwnedFd, Arc<Mapping>, NativeMemory) {
    let fd = memfd_create("hole", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, 3 * 4096).unwrap();
    let mapping = Arc::new(Mapping::new(&fd, 3 * 4096, 4096).unwrap());
    let mem = NativeMemory::new(Arc::clone(&mapping));
    (0..3).for_each(|page| mem.store(page * 4096 + 8, 7));
    (fd, mapping, mem)
}

#[test]
fn a_region_that_loses_a_page_is_replaced_as_a_whole() {
    super::survive().unwrap();
    let (fd, mapping, mem) = three_pages();
    let (_beside, neighbour, beside) = three_pages();
    ftruncate(&fd, 4096).unwrap();
    assert_eq!((mem.load(8), mapping.is_lost()), (7, false), "no page that is there has been touched");
    assert_eq!((mem.load(8200), mapping.is_lost()), (0, true));
    assert_eq!([8, 4104, 8200].map(|at| mem.load(at)), [0; 3]);
    mem.store(4104, 9);
    assert_eq!([8, 4104, 8200].map(|at| mem.load(at)), [0, 9, 0]);
    assert_eq!((beside.load(4104), neighbour.is_lost()), (7, false));
}

#[test]
fn a_new_mapping_in_the_same_place_of_the_table_is_not_lost() {
    super::survive().unwrap();
    for _ in 0..2 {
        let (fd, mapping, mem) = three_pages();
        assert!(!mapping.is_lost());
        ftruncate(&fd, 0).unwrap();
        assert_eq!((mem.load(8), mapping.is_lost()), (0, true));
    }
}

#[test]
fn threads_that_fault_at_the_same_time_all_go_on() {
    super::survive().unwrap();
    for _ in 0..50 {
        let (fd, mapping, _) = three_pages();
        ftruncate(&fd, 0).unwrap();
        let start = Barrier::new(4);
        std::thread::scope(|threads| {
            for i in 0..4 {
                let (mem, start) = (NativeMemory::new(Arc::clone(&mapping)), &start);
                threads.spawn(move || {
                    start.wait();
                    assert_eq!(mem.load(8 + i % 3 * 4096), 0);
                });
            }
        });
        assert!(mapping.is_lost());
    }
}

/// Run by `a_process_without_room_for_mappings_survives`, in a process of its own.
#[test]
#[ignore = "a child of another test"]
fn child_without_room_for_mappings() {
    super::survive().unwrap();
    let (fd, mapping, mem) = three_pages();
    let (other_fd, other, other_mem) = three_pages();
    ftruncate(&fd, 4096).unwrap();
    ftruncate(&other_fd, 0).unwrap();
    // No allocation from here on: it may need a mapping.
    let one_more = || {
        // SAFETY: a fresh mapping at an address of the kernel's choice; shared, so that it becomes one with
        // no other.
        unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, ProtFlags::empty(), MapFlags::SHARED) }.is_ok()
    };
    let mut mappings = 0u64;
    while mappings < 1 << 21 && one_more() {
        mappings += 1;
    }
    let refused = !one_more();
    let (first, second) = (mem.load(8200), other_mem.load(8));
    assert!(refused, "{mappings} mappings are not too many: raise the limit of this test");
    assert_eq!((first, second), (0, 0));
    assert!(mapping.is_lost() && other.is_lost());
    println!("survived beside {mappings} mappings");
}

#[test]
fn a_process_without_room_for_mappings_survives() {
    let me = std::env::current_exe().unwrap();
    let child = ["--exact", "holes::tests::child_without_room_for_mappings", "--ignored", "--nocapture"];
    let done = Command::new(me).args(child).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    if most.trim().parse::<u64>().unwrap() > 1 << 20 {
        return println!("not tested: this system allows {most} mappings");
    }
    assert!(done.status.success() && said.contains("survived beside"), "{done:?}");
}
