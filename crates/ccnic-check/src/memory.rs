//! What a region can be made of in these tests.

use ccnic::Port;
use ccnic_shm::{NativePort, Pages, Region};

use crate::local::LocalPort;

/// A region's worth of memory, and the ports of its two sides.
pub trait Memory {
    /// What both sides access it by.
    type Port: Port;

    /// Zeroed memory of at least `size` bytes.
    fn new(size: u32) -> Self;
    /// A port for the host.
    fn host(&self) -> Self::Port;
    /// A port for the NIC.
    fn nic(&self) -> Self::Port;
}

/// A vector: fast, deterministic, one thread.
#[derive(Debug)]
pub struct LocalMemory(LocalPort);

impl Memory for LocalMemory {
    type Port = LocalPort;

    fn new(size: u32) -> LocalMemory {
        LocalMemory(LocalPort::new(size))
    }

    fn host(&self) -> LocalPort {
        self.0.clone()
    }

    fn nic(&self) -> LocalPort {
        self.0.clone()
    }
}

/// Mapped shared memory, as programs use it.
#[derive(Debug)]
pub struct NativeMemory(Region);

impl Memory for NativeMemory {
    type Port = NativePort;

    /// # Panics
    /// When the kernel has no memory for a test.
    fn new(size: u32) -> NativeMemory {
        match Region::create(size, Pages::Small) {
            Ok(region) => NativeMemory(region),
            Err(e) => panic!("no region of {size} bytes for a test: {e}"),
        }
    }

    fn host(&self) -> NativePort {
        self.0.port()
    }

    fn nic(&self) -> NativePort {
        self.0.port()
    }
}
