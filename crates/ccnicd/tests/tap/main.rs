//! TAP ports: programs and this kernel on one switch. The program's side of IP is smoltcp, so that both ends of every packet are stacks
//! which nobody here has written.
//!
//! Each test runs in network namespaces of its own, in which it has the names and addresses for itself: the test itself starts this binary again,
//! under `unshare`, for the ignored test of the same name. That takes root, or user namespaces; where there are neither, or no `ip`
//! command, tests say so and are skipped.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod bridge;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod dhcp;
mod failures;
mod kept;
mod namespaces;
#[path = "../network/mod.rs"]
mod network;
mod policy;
mod program;

use network::{neighbour, net, stack};
