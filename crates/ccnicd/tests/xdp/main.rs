//! AF_XDP ports: programs and kernels on one switch, over veths that the tests make. The program's side of IP is smoltcp.
//!
//! Each test runs in a network namespace of its own (`tests/tap/main.rs` says how). Here that takes root: XDP programs are not loaded for user
//! namespaces. Elsewhere tests say so and are skipped.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod failures;
mod helper;
mod namespaces;
#[path = "../network/mod.rs"]
mod network;
#[path = "../../src/ports/offload_table.rs"]
mod offload_table;
mod program;
mod veth;
mod wire;

use network::{neighbour, net, stack};
