//! libccnic: the CC-NIC packet interface for programs in C (figure 5 of the paper, and what a program needs around it).
//!
//! The contract stands in `include/ccnic.h`. What C holds by value is a descriptor ([`CcnicBuf`]); every burst checks the
//! descriptors it is given against the pool before it believes them, so a mistaken or forged handle cannot leave the
//! region.
//!
//! # Reading order
//! `include/ccnic.h`, `abi.rs` (its structures), `queue.rs` (bursts), `pool.rs` (buffers without a queue), `nic.rs`, `wait.rs`,
//! `exports.rs` and `bursts.rs` (its functions). The NIC's side, `include/ccnic_nic.h`, stands apart in `side/`: `mod.rs` (its
//! structures), `queue.rs` (bursts), `program.rs`, `nic.rs`, `exports.rs`.

mod abi;
mod bursts;
mod design;
mod errno;
mod exports;
mod nic;
mod owned;
mod pool;
mod queue;
mod side;
mod wait;

pub use abi::{CcnicBuf, CcnicOptions, CcnicRss, CcnicStats, View};
pub use bursts::*;
pub use exports::*;
pub use nic::Nic;
pub use pool::Pool;
pub use queue::Queue;
pub use side::exports::*;
pub use side::{
    CcnicNicOptions, CcnicNicStats, CcnicProgramInfo, CcnicSegment, ListeningNic, Program, SideQueue,
};
