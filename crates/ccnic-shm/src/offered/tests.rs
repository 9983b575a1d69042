//! Tests of what a NIC takes, and of what the other process can do to it afterwards.

use std::os::fd::{AsFd, BorrowedFd};

use ccnic::SharedMemory;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};

use super::*;

const SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

fn memfd(size: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, size).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// A memfd with all its pages.
fn whole(size: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd(size, seals);
    fallocate(&fd, FallocateFlags::empty(), 0, size).unwrap();
    fd
}

fn punch(fd: impl AsFd, at: u64, len: u64) -> rustix::io::Result<()> {
    fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len)
}

fn copy(fd: impl AsFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().unwrap()
}

fn map_writable(fd: BorrowedFd<'_>, len: usize) -> rustix::io::Result<()> {
    // SAFETY: a fresh mapping at an address of the kernel's choice; nobody uses it.
    unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0) }
        .map(drop)
}

#[track_caller]
fn refused(fd: OwnedFd, why: &str) {
    let error = OfferedRegion::new(fd).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn what_is_no_region_is_refused() {
    refused(std::fs::File::open("/dev/null").unwrap().into(), "not a memfd");
    refused(tempfile_in_memory(), "F_SEAL_SHRINK");
    refused(whole(4096, SealFlags::GROW), "F_SEAL_SHRINK");
    refused(whole(4096, SealFlags::SHRINK), "F_SEAL_GROW");
    refused(whole(4096, SIZE | SealFlags::FUTURE_WRITE), "against writing");
    refused(memfd(4096, SIZE | SealFlags::WRITE), "against writing");
    refused(memfd(0, SIZE), "empty");
    refused(memfd(5 << 30, SIZE), "4 GiB");
}

/// A file of a tmpfs that is no memfd.
fn tempfile_in_memory() -> OwnedFd {
    memfd_create("no sealing", MemfdFlags::CLOEXEC).unwrap()
}

#[test]
fn a_region_with_a_page_missing_is_refused() {
    refused(memfd(1 << 20, SIZE), "pages of it are missing");
    let fd = whole(1 << 20, SIZE);
    punch(&fd, 4096, 4096).unwrap();
    refused(fd, "pages of it are missing");
}

/// A page of the last extent that is one huge page counts 512 times.
#[test]
fn a_huge_page_beyond_the_end_does_not_make_up_for_a_hole() {
    let size = u64::from(HUGE_PAGE) + 4096;
    let fd = memfd(size, SIZE);
    (0..size).step_by(4096).for_each(|at| assert_eq!(rustix::io::pwrite(&fd, b"!", at), Ok(1)));
    if let Err(e) = crate::collapse(&fd, HUGE_PAGE.into()) {
        return println!("not tested: an extent is not collapsed: {e}");
    }
    assert!(fstat(&fd).unwrap().st_blocks as u64 * BLOCK > size);
    OfferedRegion::new(copy(&fd)).unwrap();
    punch(&fd, 4096, 4096).unwrap();
    refused(fd, "pages of it are missing");
}

#[test]
fn a_hole_punched_between_the_checks_is_found_when_it_is_mapped() {
    for sealing in [Sealing::Required, Sealing::Trusted] {
        let fd = whole(1 << 20, SIZE);
        let offered = OfferedRegion::new(copy(&fd)).unwrap();
        punch(&fd, 4096, 4096).unwrap();
        let error = offered.map(sealing).unwrap_err().to_string();
        assert!(error.contains("pages of it are missing"), "{error}");
        assert_eq!(fstat(&fd).unwrap().st_blocks * 512, (1 << 20) - 4096, "no page was allocated for it");
    }
}

#[test]
fn a_header_is_read_before_anything_is_mapped() {
    let ours = Region::create(8192, Pages::Small).unwrap();
    ours.memory().write(0, b"header");
    let offered = OfferedRegion::new(copy(&ours)).unwrap();
    assert_eq!(offered.size(), 8192);
    assert_eq!(offered.read_header::<6>().unwrap(), *b"header");
    assert!(offered.read_header::<8193>().unwrap_err().to_string().contains("ends within"));
}

#[test]
fn regions_that_admit_no_seal_are_for_trusted_users() {
    let fd = whole(4096, SIZE | SealFlags::SEAL);
    let error = OfferedRegion::new(copy(&fd)).unwrap().map(Sealing::Required).unwrap_err().to_string();
    assert!(error.contains("F_SEAL_SEAL"), "{error}");
    assert!(OfferedRegion::new(fd).unwrap().map(Sealing::Trusted).is_ok());
}

/// Attaches a region made of such pages, and tries to punch holes into it.
fn nobody_punches_holes(ours: &Region) {
    let theirs = OfferedRegion::new(copy(ours)).unwrap().map(Sealing::Required).unwrap();
    let (size, mem) = (ours.size(), ours.memory());
    mem.store_release(size - 8, 7);
    assert_eq!(punch(ours, 0, size.into()), Err(Errno::PERM));
    // SAFETY: fails, or removes pages that only this test uses.
    let removed = unsafe { madvise(ours.base().as_ptr().cast(), size as usize, Advice::LinuxRemove) };
    assert_eq!(removed, Err(Errno::PERM));
    assert_eq!(map_writable(ours.as_fd(), size as usize), Err(Errno::PERM), "no further mapping");
    assert_eq!(fcntl_add_seals(ours, SealFlags::SHRINK), Err(Errno::PERM), "no further seal");
    assert_eq!(theirs.memory().load_acquire(size - 8), 7);
    mem.store_release(16, 8);
    theirs.memory().store_release(24, 9);
    assert_eq!((theirs.memory().load_acquire(16), mem.load_acquire(24)), (8, 9), "both can write as before");
    refused(copy(ours), "against writing");
}

#[test]
fn nobody_punches_holes_into_an_attached_region() {
    nobody_punches_holes(&Region::create(1 << 20, Pages::Small).unwrap());
}

#[test]
fn nobody_punches_holes_into_huge_pages() {
    match Region::create(2 * HUGE_PAGE, Pages::Huge) {
        Ok(region) => nobody_punches_holes(&region),
        Err(e) => println!("not tested: {e}"),
    }
}

#[test]
fn a_trusted_region_stays_unsealed() {
    let ours = Region::create(8192, Pages::Small).unwrap();
    let _theirs = OfferedRegion::new(copy(&ours)).unwrap().map(Sealing::Trusted).unwrap();
    assert_eq!(fcntl_get_seals(&ours).unwrap(), SIZE);
    assert!(map_writable(ours.as_fd(), 8192).is_ok());
}

/// Bytes of locked memory of the mapping at an address, by /proc.
fn locked(at: usize) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let entry = maps.lines().skip_while(|line| !line.starts_with(&format!("{at:x}-")));
    let line = entry.skip(1).find_map(|line| line.strip_prefix("Locked:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[test]
fn the_pages_of_a_mapped_region_are_locked_where_that_is_permitted() {
    let ours = Region::create(64 << 10, Pages::Small).unwrap();
    assert_eq!(locked(ours.base().addr().get()), Some(0), "a program's own mapping is not");
    let theirs = OfferedRegion::new(copy(&ours)).unwrap().map(Sealing::Required).unwrap();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    if rustix::process::geteuid().is_root() || limit.is_none_or(|limit| limit >= 8 << 20) {
        // Of a page that is mapped twice, each mapping counts half.
        assert_eq!(locked(theirs.base().addr().get()), Some(32 << 10));
    } else {
        println!("not tested: the limit of locked memory is {limit:?}");
    }
}
