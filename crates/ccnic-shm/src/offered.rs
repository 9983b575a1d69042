//! A region that another process offers, from its descriptor to a mapping that the other process cannot
//! disturb.
//!
//! A page that is missing when the NIC touches it would stop the NIC: while a hole is being punched, or a page
//! moved, a fault in it sleeps. So a NIC takes a region only when nothing can go missing or move any more:
//!
//! 1. [`OfferedRegion::new`] looks at the descriptor alone: a memfd, sealed against changes of its size, with
//!    all its pages there. The kernel charges those to the program.
//! 2. [`OfferedRegion::read_header`] copies the header out by `pread`. Nothing is mapped, and a copy cannot
//!    change after it has been checked.
//! 3. [`OfferedRegion::map`] maps the region, adds F_SEAL_FUTURE_WRITE, after which no process can punch
//!    holes, and looks again that no page is missing. Mappings that exist stay writable; there will be no
//!    further ones. Then it holds a page of each 2 MiB, so that no process can have them put into huge pages,
//!    locks all in memory, and touches each.
//!
//! Each step may sleep for as long as the program keeps the file's lock busy (by punching holes in a loop,
//! say): not for a thread that others wait for.

use std::os::fd::OwnedFd;

use rustix::fs::{SealFlags, SeekFrom, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, seek};
use rustix::io::{Errno, pread};

use crate::error::Error;
use crate::extents::Pins;
use crate::mapping::Mapping;
use crate::region::{HUGE_PAGE, Pages, Region};

/// Whether a NIC seals the regions of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sealing {
    /// The region is sealed against future writable mappings, which keeps every process from punching holes.
    /// A successor of the NIC cannot map it: the program copies it ([`Region::renew`]).
    #[default]
    Required,
    /// The region stays as it is, for users that are trusted not to punch holes: no copy at a restart of the
    /// NIC.
    Trusted,
}

/// A memfd that another process offers as a region. Its size is fixed and no page is missing; nothing of it
/// is mapped yet.
#[derive(Debug)]
pub struct OfferedRegion {
    fd: OwnedFd,
    size: u32,
    /// Bytes of its pages.
    page: usize,
    seals: SealFlags,
}

/// A step of the offer, as errors name it: pages that a pipe holds are not moved.
const PIN: &str = "hold the region's pages in a pipe (raise RLIMIT_NOFILE, or fs.pipe-user-pages-hard)";
/// Bytes of the blocks in which `stat` counts, whatever the pages' size.
const BLOCK: u64 = 512;

impl OfferedRegion {
    /// Looks at a descriptor without mapping it.
    ///
    /// # Errors
    /// [`Error::NotARegion`]: not a memfd; not sealed against shrinking and growing; sealed against writing;
    /// empty, 4 GiB or larger; pages missing, or larger than 2 MiB.
    pub fn new(fd: OwnedFd) -> Result<OfferedRegion, Error> {
        let not = |why| Error::NotARegion { why };
        // Before anything else: other calls on a file of an unknown kind may block for ever.
        let seals = fcntl_get_seals(&fd).map_err(|_| not("it is not a memfd"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(not("it is not sealed against shrinking (F_SEAL_SHRINK)"));
        }
        if !seals.contains(SealFlags::GROW) {
            return Err(not("it is not sealed against growing (F_SEAL_GROW)"));
        }
        if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return Err(not("it is sealed against writing"));
        }
        let stat = fstat(&fd).map_err(Error::os("stat the region"))?;
        let size = u32::try_from(stat.st_size).map_err(|_| not("it is 4 GiB or larger"))?;
        let page = page_of(&fd)?;
        if size == 0 || page > HUGE_PAGE as usize {
            return Err(not("it is empty or on pages larger than 2 MiB"));
        }
        let offered = OfferedRegion { fd, size, page, seals };
        offered.check_pages()?;
        Ok(offered)
    }

    /// Bytes of the region.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Copies the first `N` bytes, without mapping them.
    ///
    /// # Errors
    /// [`Error::NotARegion`] when there are fewer.
    pub fn read_header<const N: usize>(&self) -> Result<[u8; N], Error> {
        let mut header = [0; N];
        let mut done = 0;
        while let Some(rest) = header.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match pread(&self.fd, rest, done as u64) {
                Ok(0) => return Err(Error::NotARegion { why: "it ends within its header" }),
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::os("read the region's header")(e)),
            }
        }
        Ok(header)
    }

    /// Maps the region, seals it as `sealing` says, and locks its pages in memory where this process may
    /// (RLIMIT_MEMLOCK; otherwise one warning). All pages are there when it returns, and mapped; those of a
    /// sealed region stay where they are. Takes a descriptor for each 512 MiB of such a region.
    ///
    /// # Errors
    /// [`Error::NotARegion`] when it cannot be sealed (F_SEAL_SEAL is set), or pages have gone missing since
    /// [`new`](OfferedRegion::new); [`Error::Os`] when the system has no address space or descriptors left.
    pub fn map(self, sealing: Sealing) -> Result<Region, Error> {
        if sealing == Sealing::Required && self.seals.contains(SealFlags::SEAL) {
            return Err(Error::NotARegion {
                why: "it admits no further seals (F_SEAL_SEAL), so the NIC cannot keep holes out of it; use the same \
                      release on both sides, or have the operator trust this user",
            });
        }
        let huge = self.page == HUGE_PAGE as usize;
        let pinned = sealing == Sealing::Required && !huge;
        // While an extent is being collapsed, mapping the file waits with a lock that all threads of this process need. Here only this
        // thread waits, and what it holds now is collapsed no more.
        let _meanwhile =
            pinned.then(|| Pins::take(&self.fd, self.size)).transpose().map_err(Error::os(PIN))?;
        let mut mapping =
            Mapping::new(&self.fd, self.size, self.page).map_err(Error::os("map the region"))?;
        if sealing == Sealing::Required {
            fcntl_add_seals(&self.fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
                .map_err(Error::os("seal the region"))?;
        }
        // Nobody can punch holes any more, so this is final: the next lines allocate no page.
        self.check_pages()?;
        if pinned {
            // Once more: until the seal pages could be punched and made anew.
            mapping.pin(&self.fd).map_err(Error::os(PIN))?;
        }
        if !huge {
            mapping.lock_pages();
        }
        mapping.touch();
        Ok(Region::new(self.fd, mapping, if huge { Pages::Huge } else { Pages::Small }))
    }

    /// That all pages are there. A missing one would be allocated by the NIC, and charged to it.
    fn check_pages(&self) -> Result<(), Error> {
        let stat = fstat(&self.fd).map_err(Error::os("stat the region"))?;
        let there = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK);
        // An extent that is one huge page counts as a whole, even beyond the end of the file, and makes up for holes elsewhere.
        let holes = there > u64::from(self.size) && self.has_hole()?;
        if there < u64::from(self.size) || holes {
            return Err(Error::NotARegion { why: "pages of it are missing; write to all of them first" });
        }
        Ok(())
    }

    fn has_hole(&self) -> Result<bool, Error> {
        let hole = seek(&self.fd, SeekFrom::Hole(0)).map_err(Error::os("look for holes in the region"))?;
        Ok(hole < u64::from(self.size))
    }
}

/// Bytes of the pages that a memfd is made of: the block size of its file system, which `stat` may round up.
fn page_of(fd: &OwnedFd) -> Result<usize, Error> {
    let system = fstatfs(fd).map_err(Error::os("ask for the region's page size"))?;
    Ok(usize::try_from(system.f_bsize).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
