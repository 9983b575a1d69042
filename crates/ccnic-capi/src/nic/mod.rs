//! The NIC's side, for NICs in C: the functions of `ccnic_nic.h` and what is behind them.

pub(crate) mod abi;
pub(crate) mod exports;
mod listener;
mod pair;
mod program;
mod queue;
mod shared;
mod sleep;

pub use listener::CcnicNic;
pub use program::CcnicProgram;
pub use queue::CcnicNicQueue;
