//! The memories of these tests.

use ccnic::SharedMemory;
use ccnic::heap::HeapMemory;
use ccnic_shm::{NativeMemory, Pages, Region};
use ccnic_testing::RegionMemory;

/// The memory of a region, as its two sides access it.
pub trait Memory {
    /// The access of one side.
    type Side: SharedMemory;

    /// Zeroed memory of at least `size` bytes.
    fn new(size: u32) -> Self;
    /// The host's access.
    fn host(&self) -> Self::Side;
    /// The NIC's access.
    fn nic(&self) -> Self::Side;
}

/// Fast, deterministic, one thread.
impl Memory for HeapMemory {
    type Side = HeapMemory;

    fn new(size: u32) -> HeapMemory {
        HeapMemory::new(size)
    }

    fn host(&self) -> HeapMemory {
        self.clone()
    }

    fn nic(&self) -> HeapMemory {
        self.clone()
    }
}

/// Mapped shared memory, as programs use it.
#[derive(Debug)]
pub struct MappedMemory(Region);

impl Memory for MappedMemory {
    type Side = NativeMemory;

    /// # Panics
    /// When the kernel has no memory for a test.
    fn new(size: u32) -> MappedMemory {
        match Region::create(size, Pages::Small) {
            Ok(region) => MappedMemory(region),
            Err(e) => panic!("no region of {size} bytes for a test: {e}"),
        }
    }

    fn host(&self) -> NativeMemory {
        self.0.memory()
    }

    fn nic(&self) -> NativeMemory {
        self.0.memory()
    }
}
