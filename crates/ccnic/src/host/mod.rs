//! The host side of a queue pair: what a program calls (CC-NIC figure 5, with the semantics of DPDK's mempool
//! and ethdev).
//!
//! | file | contents |
//! |---|---|
//! | `queue_pair.rs` | [`QueuePair`]: opening, receive bursts, notification, statistics |
//! | `alloc.rs` | allocation and freeing |
//! | `payload.rs` | reading and writing buffers |
//! | `small.rs` | packets without handles: copied in and out, or made and read where they lie |
//! | `mixed.rs` | bursts of copies and of packets in buffers |
//! | `reserve.rs` | reserve and commit: packets written in place, in two calls |
//! | `descs.rs` | bursts of plain descriptors, for libraries in other languages |
//! | `kept.rs` | [`KeptBuf`]: buffers that are sent and stay the program's |
//! | `pool.rs` | [`Pool`]: buffers without a queue pair |
//! | `transmit.rs` | the transmit path from the program to the ring: transmit bursts |
//! | `receive.rs` | the receive path from the ring to the program |
//! | `check.rs` | the checks of what the NIC has delivered |
//! | `managed.rs` | the host's work with the host-managed pool |

mod alloc;
mod check;
mod descs;
#[cfg(test)]
mod inline_tests;
mod kept;
mod managed;
mod mixed;
mod payload;
mod pool;
mod queue_pair;
mod receive;
mod reserve;
mod small;
mod transmit;

pub use kept::{KeptBuf, KeptPart};
pub use mixed::Outgoing;
pub use pool::Pool;
pub use queue_pair::NEARLY_EMPTY;
pub use queue_pair::{HostDrops, QueuePair};
pub use reserve::Reserved;
pub use small::{NotSmall, Segmented};

use crate::layout::Layout;
use crate::memory::SharedMemory;
use crate::pool::Allocator;

/// Makes a new region ready to be attached: puts all buffers on the free list, then writes the header. The
/// memory must be zero.
///
/// ```
/// use ccnic::{Config, Layout, heap::HeapMemory, host};
///
/// let layout = Layout::new(&Config::default())?;
/// let mem = HeapMemory::new(layout.size());
/// host::format(&mem, &layout);
/// assert_eq!(Layout::load(&mem, layout.size())?, layout);
/// # Ok::<(), ccnic::ConfigError>(())
/// ```
pub fn format<M: SharedMemory>(mem: &M, layout: &Layout) {
    Allocator::fill(mem, layout);
    layout.store(mem);
}
