//! A fresh memory in the place of a sealed one.
//!
//! A NIC seals a region against future writable mappings, so its successor cannot map it. The program copies
//! the region into a fresh memfd and maps that at the same address in one step: offsets and pointers stay
//! valid.

use crate::error::Error;
use crate::region::{Pages, Region};

impl Region {
    /// If a NIC has sealed the region ([`Sealing::Required`](crate::Sealing)), replaces its memory by a copy
    /// that another NIC can map: same bytes, same address, same NUMA homes, another descriptor. Returns false
    /// if it is not sealed; then nothing has changed.
    ///
    /// Takes as much memory again until the old NIC has unmapped the old one, and the time to copy it. The
    /// copy is on huge pages if the region is and the system has enough free ones, and otherwise on ordinary
    /// pages.
    ///
    /// The region must be at rest: no thread uses a queue or a pool of it. Threads that write into packets
    /// that they hold wait until the copy is made, on Linux 5.19 or later and where the process may use
    /// userfaultfd; elsewhere what they write meanwhile may be lost. What the kernel or a device writes on
    /// the program's behalf may be lost in any case: memory that is pinned (for DMA) stays the old one.
    ///
    /// # Errors
    /// When the system has no memory or no descriptor. The region is as it was, and this may be tried again.
    pub fn renew(&mut self) -> Result<bool, Error> {
        if !self.is_sealed()? {
            return Ok(false);
        }
        let copy = self.room_for_copy()?;
        let frozen = self.mapping().freeze();
        match copy.pages() {
            Pages::Huge => copy.mapping().copy_from(self.mapping()),
            // In half the time of faulting the pages in: the kernel neither zeroes nor maps them first.
            _ => self.mapping().write_to(&copy).map_err(Error::os("copy the region"))?,
        }
        self.mapping().replace(&copy).map_err(Error::os("map the region's copy"))?;
        drop(frozen);
        self.become_copy(copy);
        Ok(true)
    }

    /// A region like this one: on huge pages, which are there already, or on ordinary ones that are not.
    fn room_for_copy(&self) -> Result<Region, Error> {
        if self.pages() == Pages::Huge {
            match Region::create_homed(self.size(), Pages::Huge, self.homes()) {
                Err(e) => tracing::info!("the region's copy is on ordinary pages: no 2 MiB pages ({e})"),
                copy => return copy,
            }
        }
        Region::make_empty(self.size(), false, self.homes())
    }
}

#[cfg(test)]
mod tests;
