//! Regions: sealed memfds that two processes map.
//!
//! The program creates a region, seals it against shrinking and hands its descriptor to the NIC, which checks
//! the seals before it maps: a mapping of a file that can shrink would fault under the reader (SIGBUS).

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};

use crate::error::Error;
use crate::mapping::Mapping;
use crate::memory::NativeMemory;
use crate::numa;

/// The size of a huge page on x86-64.
pub const HUGE_PAGE: u32 = 2 << 20;

/// The pages that a region is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// 2 MiB pages if the system has enough free ones, ordinary pages otherwise (logged).
    #[default]
    Auto,
    /// Ordinary pages.
    Small,
    /// 2 MiB pages or an error.
    Huge,
}

/// A mapped region of shared memory.
#[derive(Debug)]
pub struct Region {
    fd: OwnedFd,
    mapping: Arc<Mapping>,
}

impl Region {
    /// Creates a zeroed region of at least `size` bytes and seals it against shrinking.
    ///
    /// # Errors
    /// When the system has no memory, or no huge pages and `pages` is [`Pages::Huge`].
    pub fn create(size: u32, pages: Pages) -> Result<Region, Error> {
        Region::create_homed(size, pages, &[])
    }

    /// As [`create`](Region::create), with NUMA nodes for ranges of its bytes.
    ///
    /// # Errors
    /// As [`create`](Region::create), or when the kernel refuses a placement.
    pub fn create_homed(size: u32, pages: Pages, homes: &[(Range<u32>, u32)]) -> Result<Region, Error> {
        match pages {
            Pages::Small => Region::make(size, false, homes),
            Pages::Huge => Region::make(size, true, homes),
            Pages::Auto => Region::make(size, true, homes).or_else(|e| {
                tracing::info!("region of {size} bytes on ordinary pages: no 2 MiB pages ({e})");
                Region::make(size, false, homes)
            }),
        }
    }

    fn make(size: u32, huge: bool, homes: &[(Range<u32>, u32)]) -> Result<Region, Error> {
        let page = if huge { HUGE_PAGE } else { 4096 };
        let size = size.checked_next_multiple_of(page).ok_or(Error::TooLarge { size })?;
        let kind = if huge { MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB } else { MemfdFlags::empty() };
        let fd = memfd_create("ccnic-region", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind)
            .map_err(Error::os("create a memfd"))?;
        ftruncate(&fd, u64::from(size)).map_err(Error::os("size the region"))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(Error::os("seal the region"))?;
        let mapping = Mapping::new(&fd, size, page as usize).map_err(Error::os("map the region"))?;
        // Before the pages are touched: a page is placed at its first access.
        for (range, node) in homes {
            numa::home(mapping.base(), range, *node)
                .map_err(Error::os("choose the home of the region's pages"))?;
        }
        mapping.populate().map_err(Error::os("find memory for the region"))?;
        Ok(Region { fd, mapping: Arc::new(mapping) })
    }

    /// Maps a region of at most `most` bytes that another process made.
    ///
    /// # Errors
    /// [`Error::TooMuch`] above that; [`Error::NotARegion`] when the descriptor is not a memfd, or not sealed
    /// against shrinking.
    pub fn from_fd(fd: OwnedFd, most: u32) -> Result<Region, Error> {
        let not = |why| Error::NotARegion { why };
        let seals = fcntl_get_seals(&fd).map_err(|_| not("it is not a memfd"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(not("it is not sealed against shrinking (F_SEAL_SHRINK)"));
        }
        if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return Err(not("it is sealed against writing"));
        }
        let stat = fstat(&fd).map_err(Error::os("stat the region"))?;
        let size = u32::try_from(stat.st_size).map_err(|_| not("it is 4 GiB or larger"))?;
        if size > most {
            return Err(Error::TooMuch { size, most });
        }
        let page = usize::try_from(stat.st_blksize).unwrap_or(4096).max(4096);
        if size == 0 || page > HUGE_PAGE as usize {
            return Err(not("it is empty or on pages larger than 2 MiB"));
        }
        let mapping = Mapping::new(&fd, size, page).map_err(Error::os("map the region"))?;
        mapping.populate().map_err(Error::os("find memory for the region"))?;
        Ok(Region { fd, mapping: Arc::new(mapping) })
    }

    /// Bytes of the region.
    pub fn size(&self) -> u32 {
        self.mapping.size()
    }

    /// The address of offset 0 in this process, valid as long as the region or one of its memories lives: for
    /// programs in other languages, which access payload by pointers.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Access to the region for one agent. Each agent takes its own.
    pub fn memory(&self) -> NativeMemory {
        NativeMemory::new(Arc::clone(&self.mapping))
    }
}

impl AsFd for Region {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::SharedMemory;

    fn memfd(size: u64, seals: SealFlags) -> OwnedFd {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, size).unwrap();
        fcntl_add_seals(&fd, seals).unwrap();
        fd
    }

    #[test]
    fn two_mappings_of_a_region_share_their_bytes() {
        let ours = Region::create(10_000, Pages::Small).unwrap();
        assert_eq!(ours.size(), 12_288, "whole pages");
        let theirs = Region::from_fd(ours.as_fd().try_clone_to_owned().unwrap(), 1 << 20).unwrap();
        ours.memory().store_release(8, 42);
        theirs.memory().write(12_280, b"the end!");
        let mut end = [0; 8];
        ours.memory().read(12_280, &mut end);
        assert_eq!((theirs.memory().load_acquire(8), &end), (42, b"the end!"));
    }

    #[test]
    fn a_port_outlives_its_region() {
        let mem = Region::create(4096, Pages::Small).unwrap().memory();
        mem.store(0, 7);
        assert_eq!(mem.load(0), 7);
    }

    #[test]
    fn what_is_no_region_is_refused() {
        let why = |fd, most| Region::from_fd(fd, most).unwrap_err().to_string();
        assert!(why(std::fs::File::open("/dev/null").unwrap().into(), 1 << 20).contains("not a memfd"));
        assert!(why(memfd(4096, SealFlags::GROW), 1 << 20).contains("F_SEAL_SHRINK"));
        assert!(why(memfd(4096, SealFlags::SHRINK | SealFlags::WRITE), 1 << 20).contains("against writing"));
        assert!(why(memfd(0, SealFlags::SHRINK), 1 << 20).contains("empty"));
        assert!(why(memfd(1 << 21, SealFlags::SHRINK), 1 << 20).contains("--region-max"));
        assert!(why(memfd(5 << 30, SealFlags::SHRINK), 1 << 20).contains("4 GiB"));
    }

    #[test]
    fn a_region_cannot_shrink() {
        let region = Region::create(8192, Pages::Small).unwrap();
        assert!(ftruncate(region.as_fd(), 4096).is_err());
    }
}
