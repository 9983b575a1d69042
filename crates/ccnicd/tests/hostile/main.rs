//! Hostile programs beside a good one on the same polling core. `scribbling`: whatever one writes into its region, in all designs.
//! `attacks`: everything else that a program may do to the NIC, one test for each attack of `ccnic-hostile`. `lost`: a trusted user's
//! program that takes its region away.

#![allow(clippy::unwrap_used, reason = "a test")]

mod attacks;
#[path = "../common/mod.rs"]
mod common;
mod lost;
mod scribbling;
