//! Parts of the interface that only tests and examples reach into: not covered by any promise.

pub use crate::notify::{NotifyState, arm, disarm, request};
pub use crate::pool::{Allocator, Class};

use crate::buf::Burst;
use crate::config::{Config, Design};
use crate::heap::HeapMemory;
use crate::host::{self, QueuePair};
use crate::layout::Layout;
use crate::memory::SharedMemory;
use crate::nic::{Fetched, NicQueue, Pipeline, loopback};
use crate::queue_error::QueueError;
use crate::ring::{GroupedEpoch, Ring};
use crate::tuning::Tuning;

/// Both sides of the queue pairs of a small region on the heap.
pub struct Sides<R: Ring = GroupedEpoch> {
    /// The region.
    pub mem: HeapMemory,
    /// Its layout.
    pub layout: Layout,
    /// The host's side of queue pair 0.
    pub host: QueuePair<HeapMemory, R>,
    /// The NIC's side of queue pair 0.
    pub nic: NicQueue<HeapMemory, R>,
    /// Packets between the two.
    pub pipeline: Pipeline,
}

/// Rounds of a loop in a test: so many, or as many as take Miri no more than a minute, which interprets some ten thousand times slower.
pub const fn rounds(natively: usize, in_miri: usize) -> usize {
    if cfg!(miri) { in_miri } else { natively }
}

/// A ring of 64 descriptors and 64 large buffers, of design `R`.
pub fn config<R: Ring>() -> Config {
    let shared_pool = R::DESIGN != Design::Doorbell;
    Config { ring: 64, buffers: 64, design: R::DESIGN, shared_pool, ..Config::default() }
}

/// A new region on the heap.
///
/// # Panics
/// When the configuration is invalid.
pub fn region(config: &Config) -> (HeapMemory, Layout) {
    let layout = Layout::new(config).unwrap_or_else(|e| panic!("{e}"));
    let mem = HeapMemory::new(layout.size());
    host::format(&mem, &layout);
    (mem, layout)
}

/// The tuning of tests: long packets inline under load too, in some configurations a line, in others none.
fn tuning(config: &Config) -> Tuning {
    let loaded = match (config.small, config.sequential) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => Tuning::MAX_INLINE,
    };
    Tuning { inline: Tuning::MAX_INLINE, loaded, ..Tuning::default() }
}

/// A queue pair with the tuning of tests. See [`QueuePair::new`].
///
/// # Errors
/// As there.
pub fn pair<M: SharedMemory, R: Ring>(
    mem: M,
    layout: &Layout,
    queue: u16,
) -> Result<QueuePair<M, R>, QueueError> {
    let mut pair = QueuePair::new(mem, layout, queue)?;
    pair.set_tuning(tuning(layout.config()));
    Ok(pair)
}

/// The NIC's side of a queue pair with the tuning of tests. See [`NicQueue::new`].
///
/// # Errors
/// As there.
pub fn nic<M: SharedMemory, R: Ring>(
    mem: M,
    layout: &Layout,
    queue: u16,
) -> Result<NicQueue<M, R>, QueueError> {
    let mut nic = NicQueue::new(mem, layout, queue)?;
    nic.set_tuning(tuning(layout.config()));
    Ok(nic)
}

impl<R: Ring> Sides<R> {
    /// Both sides of queue pair 0 of a new region.
    ///
    /// # Panics
    /// When the configuration is invalid.
    pub fn new(config: &Config) -> Sides<R> {
        let (mem, layout) = region(config);
        Sides {
            host: pair(mem.clone(), &layout, 0).unwrap_or_else(|e| panic!("{e}")),
            nic: nic(mem.clone(), &layout, 0).unwrap_or_else(|e| panic!("{e}")),
            pipeline: Pipeline::default(),
            mem,
            layout,
        }
    }

    /// Sends packets of `len` bytes in at most `max` buffers, all filled with `byte`; returns the buffers
    /// sent.
    pub fn send(&mut self, len: u16, max: usize, byte: u8) -> usize {
        let mut burst = Burst::new();
        self.host.alloc(len, max, &mut burst);
        burst.iter_mut().for_each(|buf| self.host.with_mut(buf, |bytes| bytes.fill(byte)));
        let sent = self.host.tx_burst(&mut burst);
        self.host.free(&mut burst);
        sent
    }

    /// One poll of a loopback that copies; returns the descriptors delivered.
    pub fn poll(&mut self) -> usize {
        loopback(&mut self.nic, &mut self.pipeline, &self.mem, false)
    }

    /// What the NIC fetches next.
    pub fn fetch(&mut self) -> Fetched {
        let mut fetched = Fetched::default();
        self.nic.fetch(&mut fetched);
        fetched
    }

    /// Receives up to `max` buffers and frees them; calls `see` with the length and the first byte of each.
    /// Returns their number.
    pub fn receive(&mut self, max: usize, mut see: impl FnMut(u16, Option<u8>)) -> usize {
        let mut burst = Burst::new();
        let n = self.host.rx_burst(&mut burst, max);
        for buf in burst.as_slice() {
            see(buf.len(), self.host.with(buf, |bytes| bytes.first().copied()));
        }
        self.host.free(&mut burst);
        n
    }
}
