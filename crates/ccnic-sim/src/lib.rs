//! A deterministic, execution-driven, transaction-level simulator of cache-coherent interconnects.
//!
//! The rings, pools and the NIC of `ccnic` run on it unchanged, through a simulated [`Port`](ccnic::Port).

pub mod platform;
