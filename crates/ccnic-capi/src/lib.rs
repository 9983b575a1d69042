//! libccnic: the CC-NIC packet interface for programs in C (CC-NIC, ASPLOS '24, figure 5), and for NICs in C.
//!
//! The headers are the specification: `include/ccnic.h` for programs, `include/ccnic_nic.h` for NICs. A type of a header has
//! the same name here, in camel case: `struct ccnic_queue` is [`CcnicQueue`]. What C holds by value is a descriptor
//! ([`CcnicBuf`]); every burst checks the descriptors that it is given against the pool before it uses them, so that a wrong or
//! forged handle never leads outside the region.
//!
//! # Reading order
//! 1. `errno.rs`: errors. `abi.rs`: the structures of `ccnic.h`. `pointers.rs`: pointers become slices and strings.
//!    `handle.rs`: objects that C holds by pointer, closes and opens again. `held.rs`: the debug mode.
//! 2. `client/`, the programs' side: `packets.rs` and `parked.rs`, `queue.rs` (bursts on a `ccnic_client::QueuePair`), `pool.rs`,
//!    `attachment.rs`, `wait.rs`; then the functions that C calls, `bursts.rs` and `exports.rs`.
//! 3. `nic/`, the NIC's side, on the crate `ccnic-nic`: `abi.rs`, `queue.rs`, `program.rs`, `exports.rs`.
//! 4. `offload.rs`: requests in the metadata of packets, on either side. `call.rs`: calls, which need no NIC.
//!
//! Files import only from files above them in this list.

mod abi;
mod call;
mod client;
mod errno;
mod handle;
mod held;
mod nic;
mod offload;
mod pointers;
#[cfg(test)]
mod testing;

pub use abi::{CcnicBuf, CcnicOptions, CcnicRss, CcnicStats, CcnicView};
pub use call::*;
pub use client::{Ccnic, CcnicPool, CcnicQueue, bursts::*, exports::*, flow::*};
pub use nic::abi::{CcnicNicOptions, CcnicNicStats, CcnicProgramInfo, CcnicSegment};
pub use nic::{CcnicNic, CcnicNicQueue, CcnicProgram, exports::*};
pub use offload::*;
