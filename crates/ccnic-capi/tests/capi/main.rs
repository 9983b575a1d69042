//! libccnic from C: programs, compiled and linked as the README says, run against a NIC daemon in a process of its own, plain, under
//! AddressSanitizer and under valgrind.

#![allow(clippy::unwrap_used, reason = "a test")]

mod build;
mod call;
mod examples;
mod flow;
mod forged;
mod header;
mod man;
mod misuse;
mod mixed;
mod nic;
mod recovery;
mod reserve;
mod rss;
mod small;
