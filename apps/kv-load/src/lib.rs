//! A load generator for key-value stores: the CC-NIC paper's workloads and YCSB's, open or closed loop, every value verified.
//!
//! Reading order: [`workload`] (what is asked for), [`value`] (what values are made of), [`protocol`] (bytes), [`transport`] (how they
//! reach a store), [`book`] (what is in flight, and whether an answer is right), [`run`] (when requests are sent, and when a silent store is
//! given up), [`stats`] (what the server counts meanwhile), [`report`], [`command`].

pub mod book;
pub mod command;
mod dial;
mod preload;
pub mod protocol;
pub mod report;
pub mod run;
mod silence;
pub mod stats;
pub mod transport;
pub mod value;
pub mod workload;
