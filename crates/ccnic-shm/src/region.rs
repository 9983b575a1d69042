//! Regions: sealed memfds that two processes map.
//!
//! The program creates a region, seals its size and hands its descriptor to the NIC, which checks the seals
//! before it maps and adds further ones ([`OfferedRegion`](crate::OfferedRegion)): a mapping of a file that can shrink would fault
//! under the reader (SIGBUS).

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};

use crate::error::Error;
use crate::mapping::Mapping;
use crate::memory::NativeMemory;
use crate::numa;

/// The size of a huge page on x86-64.
pub const HUGE_PAGE: u32 = 2 << 20;

/// The pages that a region is made of.
///
/// ```
/// use ccnic_shm::{Pages, Region};
///
/// let region = Region::create(10_000, Pages::Small)?;
/// assert_eq!(region.size(), 12_288); // whole pages
/// # Ok::<(), ccnic_shm::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// 2 MiB pages if the system has enough free ones, ordinary pages otherwise (logged).
    #[default]
    Auto,
    /// Ordinary pages. The system puts whole 2 MiB of them into a transparent huge page where it has one (Linux 6.1).
    Small,
    /// 2 MiB pages or an error.
    Huge,
}

/// A mapped region of shared memory.
#[derive(Debug)]
pub struct Region {
    fd: OwnedFd,
    mapping: Arc<Mapping>,
    /// [`Pages::Small`] or [`Pages::Huge`].
    pages: Pages,
    /// NUMA nodes for ranges of its bytes.
    homes: Vec<(Range<u32>, u32)>,
}

impl Region {
    /// Creates a zeroed region of at least `size` bytes and seals it against changes of its size. The NIC adds
    /// the seals that keep holes out of it ([`OfferedRegion::map`](crate::OfferedRegion::map)).
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
        let region = Region::make_empty(size, huge, homes)?;
        region.mapping.populate().map_err(Error::os("find memory for the region"))?;
        Ok(region)
    }

    /// A region whose pages are allocated when they are first touched, but for whole extents of 2 MiB, which the system puts into huge
    /// pages where it has any. (With homes: those that belong to one of them.)
    pub(crate) fn make_empty(size: u32, huge: bool, homes: &[(Range<u32>, u32)]) -> Result<Region, Error> {
        let page = if huge { HUGE_PAGE } else { 4096 };
        let size = size.checked_next_multiple_of(page).ok_or(Error::TooLarge { size })?;
        let kind = if huge { MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB } else { MemfdFlags::empty() };
        let fd = memfd_create("ccnic-region", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind)
            .map_err(Error::os("create a memfd"))?;
        ftruncate(&fd, u64::from(size)).map_err(Error::os("size the region"))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).map_err(Error::os("seal the region"))?;
        let mapping = Mapping::new(&fd, size, page as usize).map_err(Error::os("map the region"))?;
        // Before the pages are touched: a page is placed at its first access.
        for (range, node) in homes {
            numa::home(mapping.base(), range, *node)
                .map_err(Error::os("choose the home of the region's pages"))?;
        }
        if !huge {
            match homes {
                [] => mapping.collapse(&(0..size)),
                some => some.iter().for_each(|(bytes, _)| mapping.collapse(bytes)),
            }
        }
        let pages = if huge { Pages::Huge } else { Pages::Small };
        Ok(Region { homes: homes.to_vec(), ..Region::new(fd, mapping, pages) })
    }

    /// A region from its descriptor and mapping.
    pub(crate) fn new(fd: OwnedFd, mapping: Mapping, pages: Pages) -> Region {
        Region { fd, mapping: Arc::new(mapping), pages, homes: Vec::new() }
    }

    /// True when a NIC has sealed the region: nobody can map it for writing any more.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn is_sealed(&self) -> Result<bool, Error> {
        let seals = fcntl_get_seals(&self.fd).map_err(Error::os("ask for the region's seals"))?;
        Ok(seals.contains(SealFlags::FUTURE_WRITE))
    }

    /// True when a page of the region has gone missing in this process: it has been replaced by zeroed,
    /// private memory as a whole ([`survive_holes`](crate::survive_holes)).
    pub fn is_lost(&self) -> bool {
        self.mapping.is_lost()
    }

    /// The pages that the region is made of: small or huge.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    pub(crate) fn homes(&self) -> &[(Range<u32>, u32)] {
        &self.homes
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Takes over the descriptor of a copy that is now mapped at this region's address.
    pub(crate) fn become_copy(&mut self, copy: Region) {
        (self.fd, self.pages) = (copy.fd, copy.pages);
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

    /// One agent's access to the region: what a queue pair, a pool or a ring of [`ccnic`] is made with. Each agent takes its own.
    ///
    /// Programs need none: `ccnic-client` and `ccnic-nic` hand out queues whose types keep the contract.
    ///
    /// # Safety
    /// A [`NativeMemory`] is used by safe code, and by code without `unsafe` in `ccnic`; whoever takes one answers for all that is done
    /// with it and with its clones:
    /// * Every offset, with the length that is accessed from it, lies inside the region. Any other ends the process (SIGSEGV): there is
    ///   no memory there, for 8 GiB around the mapping.
    /// * Bytes that [`with`](ccnic::SharedMemory::with) lends are written by nobody in this process while they are lent, and those
    ///   that [`with_mut`](ccnic::SharedMemory::with_mut) lends are accessed by nobody else: the caller holds the buffer.
    /// * At most one `ccnic::host::QueuePair` and one `ccnic::nic::NicQueue` exist for each queue, with the layout that the region was
    ///   formatted with.
    ///
    /// Accesses of the other side, another process or another mapping of the same file, are not part of this: words are atomic, and a copy
    /// of payload that is changed meanwhile is torn. Only code that trusts the other side may have payload lent.
    ///
    /// ```
    /// use ccnic::SharedMemory;
    /// use ccnic_shm::{Pages, Region};
    ///
    /// let region = Region::create(4096, Pages::Small)?;
    /// // SAFETY: one agent, offsets below 4096.
    /// let memory = unsafe { region.agent() };
    /// memory.store_release(64, 7);
    /// assert_eq!(memory.load_acquire(64), 7);
    /// # Ok::<(), ccnic_shm::Error>(())
    /// ```
    pub unsafe fn agent(&self) -> NativeMemory {
        NativeMemory::new(Arc::clone(&self.mapping))
    }

    /// [`agent`](Region::agent), of tests, which keep its contract.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> NativeMemory {
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
    use crate::offered::{OfferedRegion, Sealing};
    use ccnic::SharedMemory;

    #[test]
    fn two_mappings_of_a_region_share_their_bytes() {
        let ours = Region::create(10_000, Pages::Small).unwrap();
        assert_eq!(ours.size(), 12_288, "whole pages");
        let theirs = OfferedRegion::new(ours.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let theirs = theirs.map(Sealing::Required).unwrap();
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
    fn a_region_cannot_change_its_size() {
        let region = Region::create(8192, Pages::Small).unwrap();
        assert!(ftruncate(region.as_fd(), 4096).is_err());
        assert!(ftruncate(region.as_fd(), 12_288).is_err());
    }
}
