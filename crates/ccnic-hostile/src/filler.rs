//! Keeps transmit rings full of whatever an attack wants to be there.

use crate::memory::RegionMemory;
use ccnic::desc::SIGNAL_SHIFT;
use ccnic::{LINE, Layout, SharedMemory};
use ccnic_shm::NativeMemory;

use crate::program::Program;

/// Descriptors of a group.
const GROUP: u64 = 4;

/// The transmit rings of a program of design `GroupedEpoch`, written without the library.
#[derive(Debug)]
pub struct Filler {
    mem: NativeMemory,
    layout: Layout,
    /// By queue: the next group to be written.
    next: Vec<u64>,
}

impl Filler {
    /// For the rings of `program`, which nothing else writes.
    pub fn new(program: &Program) -> Filler {
        let next = vec![0; program.layout.config().queues.into()];
        Filler { mem: program.region.memory(), layout: program.layout, next }
    }

    /// Fills what is free in each ring, `most` groups of it, with full groups of descriptors; `word` gives the first word of the
    /// queue's n-th descriptor. Returns the groups written.
    pub fn fill(&mut self, most: u64, mut word: impl FnMut(u64) -> u64) -> usize {
        let mut written = 0;
        for (queue, next) in (0..).zip(&mut self.next) {
            let Some(queue) = self.layout.queue(queue) else { continue };
            let (ring, count) = (queue.tx, u64::from(queue.tx.count));
            let end = ((self.mem.load(ring.taken) >> 3) + count).min(next.saturating_add(most));
            while *next < end {
                let at = ring.units + LINE * (*next % count) as u32;
                let epoch = if (*next / count).is_multiple_of(2) { 0x80 } else { 0 };
                for i in (1..GROUP).rev() {
                    self.mem.store(at + 16 * i as u32, word(*next * GROUP + i));
                }
                let signal = (epoch | GROUP) << SIGNAL_SHIFT;
                self.mem.store_release(at, word(*next * GROUP) | signal);
                *next += 1;
                written += 1;
            }
        }
        written
    }

    /// Hands back all that has been received, unread: there is room for more.
    pub fn drain(&self) {
        for queue in 0..self.layout.config().queues {
            if let Some(queue) = self.layout.queue(queue) {
                self.mem.store_release(queue.rx.head, self.mem.load_acquire(queue.rx.tail));
            }
        }
    }

    /// Asks for a notification at every queue, for the next packet.
    pub fn arm(&self) {
        for queue in 0..self.layout.config().queues {
            if let Some(queue) = self.layout.queue(queue) {
                self.mem.store_release(queue.rx_event, self.mem.load_acquire(queue.rx.tail) + 1);
            }
        }
    }
}

/// The first word of a descriptor.
pub fn word(offset: u32, len: u16, flags: u8) -> u64 {
    u64::from(offset) | u64::from(len) << 32 | u64::from(flags) << 48
}
