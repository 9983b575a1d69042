//! The pool: one set of buffers per region, used by both sides (CC-NIC section 3.4).
//!
//! The NIC frees sent buffers and allocates receive buffers itself: no completion pass, no posting of receive
//! buffers. In front of the shared *depot* each agent keeps private *magazines*, so that the next buffer it
//! uses is still in its cache: a TX buffer just consumed becomes the next RX buffer (section 3.3). Large
//! buffers (4 KiB) are subdivided on demand into 32 small ones. The depot is filled so that successive
//! allocations are never adjacent: the hardware prefetcher of a reader would otherwise take the line that the
//! writer is about to write (section 3.3).
//!
//! The *ledger* records which buffers the host side holds, to recover those of a NIC that died (`recovery`).
//!
//! `allocator.rs` is what each agent has; `depot.rs`, `magazine.rs` and `ledger.rs` are its parts; the depot is a `stack.rs` or, for
//! comparison with DPDK's pool, a `fifo.rs`; `color.rs` says where data begin.

mod allocator;
mod color;
mod depot;
mod fifo;
mod ledger;
mod magazine;
mod stack;

use crate::desc::{Desc, FLAG_SMALL};
use crate::layout::{LARGE_BUF, SMALL_BUF};
use crate::memory::{SharedMemory, copy};

pub use allocator::Allocator;
pub(crate) use allocator::flags;
pub(crate) use color::data_offset;
pub(crate) use ledger::Ledger;

/// The two sizes of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 128 bytes.
    Small,
    /// 4 KiB.
    Large,
}

impl Class {
    /// The class that the flags of a descriptor claim.
    #[inline(always)]
    pub(crate) const fn of(desc: Desc) -> Class {
        if desc.small() { Class::Small } else { Class::Large }
    }

    /// The flag of descriptors whose segment lies in a buffer of this class.
    #[inline(always)]
    pub(crate) const fn flag(self) -> u8 {
        match self {
            Class::Small => FLAG_SMALL,
            Class::Large => 0,
        }
    }

    /// Bytes of a buffer.
    #[inline(always)]
    pub const fn size(self) -> u32 {
        match self {
            Class::Small => SMALL_BUF,
            Class::Large => LARGE_BUF,
        }
    }
}

/// Copies the data of an inline segment into a buffer of the pool, and makes its descriptor name that.
#[inline(always)]
pub(crate) fn move_to_buffer<M: SharedMemory>(mem: &M, slot: &mut Desc, (at, class): (u32, Class)) {
    copy(mem, slot.offset(), mem, at, slot.len().into());
    *slot = Desc::new(at, slot.len(), class.flag()).with_meta(slot.meta).with_more(slot.more());
}
