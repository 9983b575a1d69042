//! Tests that no operation of a program on the pages of its region makes a NIC's access to them fault: a fault may sleep.

use std::os::fd::AsRawFd;

use ccnic::SharedMemory;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};

use super::*;
use crate::freeze::freeze;
use crate::offered::{OfferedRegion, Sealing};
use crate::{Pages, Region};

/// Three whole extents, and a tail of nine pages.
const SIZE: u64 = 3 * EXTENT + 9 * 4096;

/// Page faults of the calling thread so far.
fn faults() -> i64 {
    // SAFETY: all zeroes are a valid `rusage`, which the kernel fills in.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt + usage.ru_majflt
    }
}

/// Page faults of a thread that reads and writes each page.
fn faults_of_access(region: &Region) -> i64 {
    let (mem, before) = (region.memory(), faults());
    for at in (0..region.size()).step_by(4096) {
        mem.store(at, mem.load(at) + 1);
    }
    faults() - before
}

/// The page frames of a region, where this process may know them (zeroes elsewhere): an access to a page that moves may sleep, too.
fn frames(region: &Region) -> Vec<u64> {
    let file = std::fs::File::open("/proc/self/pagemap").unwrap();
    let mut bytes = vec![0; region.size().div_ceil(4096) as usize * 8];
    std::os::unix::fs::FileExt::read_exact_at(
        &file,
        &mut bytes,
        region.base().addr().get() as u64 / 4096 * 8,
    )
    .unwrap();
    // Bits 0 to 54; those above say what has become of the page.
    bytes.chunks(8).map(|entry| u64::from_ne_bytes(entry.try_into().unwrap()) << 9).collect()
}

/// A memfd of small pages that are all there, as a program without the library makes it.
fn small(size: u64) -> OwnedFd {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, size).unwrap();
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    for at in (0..size).step_by(4096) {
        rustix::io::pwrite(&fd, &[1], at).unwrap();
    }
    fd
}

/// A NIC's mapping of the region.
fn attach(fd: impl AsFd) -> Region {
    let fd = fd.as_fd().try_clone_to_owned().unwrap();
    OfferedRegion::new(fd).unwrap().map(Sealing::Required).unwrap()
}

fn extents(size: u64) -> impl Iterator<Item = u64> {
    (0..size).step_by(EXTENT as usize)
}

/// True if this system collapses extents of shared memory at all (Linux 6.1, not with `shmem_enabled=deny`, and with a huge page left).
fn collapses() -> bool {
    let collapsed = collapse(small(EXTENT), 0);
    if let Err(e) = collapsed {
        println!("not tested: an extent is not collapsed: {e}");
    }
    collapsed.is_ok()
}

#[test]
fn no_extent_of_an_attached_region_is_collapsed_and_its_tail_is_not_either() {
    if !collapses() {
        return;
    }
    for size in [SIZE, 3 * 4096] {
        let ours = small(size);
        let theirs = attach(&ours);
        for at in extents(size) {
            assert_eq!(collapse(&ours, at), Err(Errno::AGAIN), "at {at} of {size}");
        }
        assert_eq!(faults_of_access(&theirs), 0);
        drop(theirs);
        for at in extents(size) {
            assert_eq!(collapse(&ours, at), Ok(()), "no longer held at {at} of {size}");
        }
    }
}

#[test]
fn a_region_that_is_not_sealed_is_collapsed_by_its_program() {
    if !collapses() {
        return;
    }
    let ours = small(SIZE);
    let theirs = OfferedRegion::new(ours.as_fd().try_clone_to_owned().unwrap())
        .unwrap()
        .map(Sealing::Trusted)
        .unwrap();
    extents(SIZE).for_each(|at| assert_eq!(collapse(&ours, at), Ok(())));
    assert!(
        faults_of_access(&theirs) > 0,
        "an access to what was collapsed faults, or this file tests nothing"
    );
}

#[test]
fn a_region_of_the_library_is_in_huge_pages_and_stays_where_it_is() {
    if !collapses() {
        return;
    }
    let ours = Region::create(SIZE as u32, Pages::Small).unwrap();
    let theirs = attach(&ours);
    let before = frames(&theirs);
    for at in extents(SIZE) {
        // Those that are whole are in huge pages already.
        let tail = at == 3 * EXTENT;
        assert_eq!(collapse(&ours, at), if tail { Err(Errno::AGAIN) } else { Ok(()) }, "at {at}");
    }
    assert_eq!((faults_of_access(&theirs), frames(&theirs) == before), (0, true));
}

#[test]
fn extents_whose_parts_belong_to_different_nodes_are_left_alone() {
    if !collapses() {
        return;
    }
    let half = HUGE_PAGE / 2;
    let homes = [(0..HUGE_PAGE + half, 0), (HUGE_PAGE + half..3 * HUGE_PAGE, 0)];
    let region = Region::create_homed(3 * HUGE_PAGE, Pages::Small, &homes).unwrap();
    let nic = attach(&region);
    let collapsed: Vec<bool> = extents(nic.size().into()).map(|at| collapse(&region, at).is_ok()).collect();
    assert_eq!(collapsed, [true, false, true], "what is in a huge page can be collapsed again");
}

/// An extent beyond what one pipe holds, of a file that needs no memory: a page that is missing is held as zeroes.
#[test]
fn a_region_of_four_gigabytes_takes_a_pipe_for_512_mib() {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, u64::from(u32::MAX) + 1).unwrap();
    let pins = Pins::take(&fd, u32::MAX).unwrap();
    assert!(pins.0.len() >= 8, "{}", pins.0.len());
    let held: u64 = pins.0.iter().map(|pipe| rustix::io::ioctl_fionread(pipe).unwrap()).sum();
    assert_eq!(held, 2048, "a byte for each extent");
    assert_eq!(Pins::take(small(4096), 2 * HUGE_PAGE).unwrap_err(), Errno::NODATA, "the file is shorter");
}

/// True if this process may lock the regions of all tests.
fn locks() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    rustix::process::geteuid().is_root() || limit.is_none_or(|limit| limit >= 256 << 20)
}

/// Operations that a program may ask of the kernel for the pages at `base`, `len` bytes.
type Operation = fn(base: *mut c_void, len: usize, fd: i32);

fn advise(base: *mut c_void, len: usize, all: &[i32]) {
    for advice in all {
        // SAFETY: none of the advice used here takes anything away that another test uses; refused is as good.
        unsafe { libc::madvise(base, len, *advice) };
    }
}

fn clear_refs(what: &str) {
    let _ = std::fs::write("/proc/self/clear_refs", what); // absent in some containers
}

/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE` of Linux 6.13.
const GUARD: [i32; 2] = [102, 103];
const MPOL_BIND: i32 = 2;
const MPOL_MF_MOVE: u32 = 2;

/// All of them that an unprivileged program may try. SAFETY of each: the mapping is the test's own, and whole again when it is done.
const OPERATIONS: &[(&str, Operation)] = &[
    ("reclaim", |base, len, _| advise(base, len, &[libc::MADV_COLD, libc::MADV_PAGEOUT, libc::MADV_FREE])),
    ("drop", |base, len, _| advise(base, len, &[libc::MADV_DONTNEED, libc::MADV_DONTNEED_LOCKED])),
    ("punch", |base, len, fd| {
        advise(base, len, &[libc::MADV_REMOVE]);
        // SAFETY: see above.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        for flags in [FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, FallocateFlags::empty()] {
            let _ = fallocate(fd, flags, 0, len as u64);
        }
        let _ = ftruncate(fd, 0);
    }),
    ("advise huge pages and merging", |base, len, _| {
        advise(base, len, &[libc::MADV_HUGEPAGE, libc::MADV_MERGEABLE, libc::MADV_NOHUGEPAGE])
    }),
    ("collapse", |base, len, _| advise(base, len, &[libc::MADV_COLLAPSE])),
    ("populate", |base, len, _| advise(base, len, &[libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE])),
    ("guard", |base, len, _| advise(base, len, &GUARD)),
    // SAFETY: see above.
    ("lock", |base, len, _| unsafe {
        libc::mlock(base, len);
        libc::munlock(base, len);
    }),
    // SAFETY: see above.
    ("protect", |base, len, _| unsafe {
        assert_eq!(libc::mprotect(base, len, libc::PROT_NONE), 0);
        assert_eq!(libc::mprotect(base, len, libc::PROT_READ | libc::PROT_WRITE), 0);
    }),
    // SAFETY: a second mapping of the same pages, which goes at once.
    ("map a second time", |base, len, _| unsafe {
        let second = libc::mremap(base, 0, len, libc::MREMAP_MAYMOVE);
        assert_ne!(second, libc::MAP_FAILED);
        libc::munmap(second, len);
    }),
    // SAFETY: see above.
    ("write back", |base, len, fd| unsafe {
        libc::msync(base, len, libc::MS_SYNC | libc::MS_INVALIDATE);
        libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED);
        libc::sync_file_range(fd, 0, 0, libc::SYNC_FILE_RANGE_WRITE);
    }),
    ("soft-dirty, referenced", |_, _, _| ["4", "1"].into_iter().for_each(clear_refs)),
    ("write-protect by userfaultfd", |base, len, _| {
        drop(freeze(NonNull::new(base.cast()).unwrap(), len)); // refused in some containers
    }),
    // SAFETY: pages stay what they are, wherever they are placed.
    ("move to a node", |base, len, _| unsafe {
        let mask = 1u64;
        libc::syscall(libc::SYS_mbind, base, len, MPOL_BIND, &raw const mask, 64usize, MPOL_MF_MOVE);
        let pages: Vec<*mut c_void> = (0..len).step_by(4096).map(|at| base.byte_add(at)).collect();
        let (nodes, mut status) = (vec![0i32; pages.len()], vec![0i32; pages.len()]);
        let (count, pages) = (pages.len(), pages.as_ptr());
        libc::syscall(
            libc::SYS_move_pages,
            0,
            count,
            pages,
            nodes.as_ptr(),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        );
        libc::syscall(libc::SYS_migrate_pages, 0, 64usize, &raw const mask, &raw const mask);
    }),
    // SAFETY: the child does nothing but end.
    ("fork", |_, _, _| unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }),
    ("hold", |_, len, fd| {
        // SAFETY: see above.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        drop(Pins::take(fd, len as u32).unwrap());
    }),
];

/// A program's operations on its own mapping concern itself: the NIC reads and writes every page without a fault, and no page has moved.
#[test]
fn no_operation_of_a_program_makes_an_access_of_the_nic_fault() {
    let library = Region::create(SIZE as u32, Pages::Small).unwrap();
    let plain = small(SIZE);
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let mapped = unsafe {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        mmap(std::ptr::null_mut(), SIZE as usize, access, MapFlags::SHARED, plain.as_fd(), 0).unwrap()
    };
    let programs = [(library.as_fd(), library.base().as_ptr().cast()), (plain.as_fd(), mapped)];
    for (fd, base) in programs {
        let theirs = attach(fd);
        assert_eq!(faults_of_access(&theirs), 0, "a page is not mapped");
        let before = frames(&theirs);
        for (name, operation) in OPERATIONS {
            if *name == "reclaim" && !locks() {
                println!("not tested: {name}, since this process may not lock memory");
                continue;
            }
            operation(base, SIZE as usize, fd.as_raw_fd());
            assert_eq!(faults_of_access(&theirs), 0, "{name}");
            assert!(frames(&theirs) == before, "{name}: pages have moved");
        }
    }
    // SAFETY: nobody uses it any more.
    unsafe { munmap(mapped, SIZE as usize).unwrap() };
}
