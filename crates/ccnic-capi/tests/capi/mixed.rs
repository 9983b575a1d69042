//! Bursts of copies and of packets in buffers, from C: `tests/c/mixed.c`.

use crate::nic::in_every_design;

#[test]
fn copies_and_buffers_are_sent_in_one_burst_in_every_design() {
    in_every_design("tests/c/mixed.c", |_| ());
}
