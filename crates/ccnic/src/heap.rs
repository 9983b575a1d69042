//! A memory for one thread, for tests and examples: both sides of an interface, without a NIC.

extern crate alloc;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use core::cell::{Cell, OnceCell};

use crate::memory::SharedMemory;

const PAGE_WORDS: usize = 512;

/// A page of words, made when it is first touched: a region is large and a test touches little of it.
type Page = OnceCell<Box<[Cell<u64>]>>;

/// A region in the memory of one thread. Clones see the same bytes: one is the host's, another the NIC's.
///
/// Deterministic and without `unsafe`. Panics where mapped memory would fault: outside the region, and at a
/// word that is not aligned to 8 bytes.
///
/// ```
/// use ccnic::heap::HeapMemory;
/// use ccnic::ring::GroupedEpoch;
/// use ccnic::{Burst, Config, Layout, host};
///
/// let layout = Layout::new(&Config::default())?;
/// let mem = HeapMemory::new(layout.size());
/// host::format(&mem, &layout);
/// let mut pair = host::QueuePair::<_, GroupedEpoch>::new(mem.clone(), &layout, 0)?;
/// assert_eq!(pair.alloc(64, 32, &mut Burst::new()), 32);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct HeapMemory {
    pages: Rc<[Page]>,
}

impl HeapMemory {
    /// Zeroed memory of `size` bytes. Example: [`HeapMemory`].
    pub fn new(size: u32) -> HeapMemory {
        let pages = (size as usize).div_ceil(PAGE_WORDS * 8);
        HeapMemory { pages: (0..pages).map(|_| OnceCell::new()).collect() }
    }

    /// The word that contains the byte at `at`.
    fn cell(&self, at: u32) -> &Cell<u64> {
        let index = at as usize / 8;
        let page = &self.pages[index / PAGE_WORDS];
        &page.get_or_init(|| vec![Cell::new(0); PAGE_WORDS].into())[index % PAGE_WORDS]
    }

    fn word(&self, at: u32) -> &Cell<u64> {
        assert!(at.is_multiple_of(8), "word at {at}: not aligned");
        self.cell(at)
    }
}

impl SharedMemory for HeapMemory {
    type Adopt = ();

    fn load(&self, at: u32) -> u64 {
        self.word(at).get()
    }

    fn store(&self, at: u32, value: u64) {
        self.word(at).set(value);
    }

    fn load_acquire(&self, at: u32) -> u64 {
        self.load(at)
    }

    fn store_release(&self, at: u32, value: u64) {
        self.store(at, value);
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.load(at);
        if found != current {
            return Err(found);
        }
        self.store(at, new);
        Ok(found)
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        let mut at = at;
        let mut left = to;
        while !left.is_empty() {
            let skip = at as usize % 8;
            let n = (8 - skip).min(left.len());
            let (part, rest) = left.split_at_mut(n);
            part.copy_from_slice(&self.cell(at).get().to_le_bytes()[skip..skip + n]);
            (left, at) = (rest, at + n as u32);
        }
    }

    fn write(&self, at: u32, from: &[u8]) {
        let mut at = at;
        let mut left = from;
        while !left.is_empty() {
            let skip = at as usize % 8;
            let n = (8 - skip).min(left.len());
            let (part, rest) = left.split_at(n);
            let mut bytes = self.cell(at).get().to_le_bytes();
            bytes[skip..skip + n].copy_from_slice(part);
            self.cell(at).set(u64::from_le_bytes(bytes));
            (left, at) = (rest, at + n as u32);
        }
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes);
        f(&bytes)
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes);
        let result = f(&mut bytes);
        self.write(at, &bytes);
        result
    }

    fn prefetch_read(&self, _: u32) {}
    fn prefetch_own(&self, _: u32) {}
    fn demote(&self, _: u32) {}
    fn relax(&self) {}

    fn region(&self) -> usize {
        Rc::as_ptr(&self.pages).addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_words_are_the_same_memory() {
        let mem = HeapMemory::new(8192);
        mem.store(4096, u64::from_le_bytes(*b"abcdefgh"));
        mem.write(4103, b"HIJK");
        let mut out = [0; 6];
        mem.read(4101, &mut out);
        assert_eq!(&out, b"fgHIJK");
        assert_eq!(mem.compare_exchange(4096, 1, 2), Err(u64::from_le_bytes(*b"abcdefgH")));
        mem.with_mut(4095, 3, |b| b.fill(b'x'));
        assert_eq!(mem.load(4096).to_le_bytes(), *b"xxcdefgH");
    }
}
