//! The simulator's tests, by question: does the interface work on it, are curves right, are times right, do runs repeat. They are one
//! program, so that simulated runs are compiled once for all of them.

mod common;
mod conformance;
mod curves;
mod flush;
mod layers;
mod limit;
mod litmus;
mod pcie;
mod platforms;
mod protocol;
mod repeat;
mod snapshot;
mod timing;
mod trace;
