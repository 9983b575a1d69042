//! What is seen of a run: counters, a trace, a summary, a journal for tests, and the auditor.

pub(crate) mod audit;
pub mod counters;
pub mod summary;
pub mod trace;
pub mod witness;
