//! Small packets as copies, from C: `tests/c/small.c`.

use crate::nic::in_every_design;

#[test]
fn small_packets_are_sent_and_received_as_copies_in_every_design() {
    in_every_design("tests/c/small.c", |_| ());
}
