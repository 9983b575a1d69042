//! What tests of ports have beside the switch: network namespaces of the kernel, and programs with an IP stack.

#![allow(dead_code, reason = "each test has some of it")]

pub mod neighbour;
pub mod net;
pub mod stack;
