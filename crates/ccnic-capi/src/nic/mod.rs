//! The NIC's side, for NICs in C: the functions of `ccnic_nic.h` on what the crate `ccnic-nic` does.

pub(crate) mod abi;
pub(crate) mod exports;
mod program;
mod queue;

pub use ccnic_nic::Nic as CcnicNic;
pub use program::CcnicProgram;
pub use queue::CcnicNicQueue;

crate::handle::handles!(CcnicNic);
