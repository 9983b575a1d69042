//! The programs' side: the functions of `ccnic.h` and what is behind them.

mod attachment;
pub(crate) mod bursts;
pub(crate) mod exports;
pub(crate) mod flow;
mod mixed;
mod packets;
mod parked;
mod pool;
mod queue;
mod reserve;
mod wait;

pub use attachment::Ccnic;
pub use pool::CcnicPool;
pub use queue::CcnicQueue;
