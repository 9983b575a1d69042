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
//! `allocator.rs` is what each agent has; `depot.rs`, `magazine.rs` and `ledger.rs` are its parts; `color.rs`
//! says where data begin.

mod allocator;
mod color;
mod depot;
mod ledger;
mod magazine;

use crate::desc::Desc;
use crate::layout::{LARGE_BUF, SMALL_BUF};

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

    /// Bytes of a buffer.
    #[inline(always)]
    pub const fn size(self) -> u32 {
        match self {
            Class::Small => SMALL_BUF,
            Class::Large => LARGE_BUF,
        }
    }
}
