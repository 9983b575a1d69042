//! Flow rules from C, by a NIC and its successor: `tests/c/flow.c`.

use crate::recovery::carries_on;

#[test]
fn packets_come_where_the_rules_say() {
    carries_on("tests/c/flow.c", "steered again");
}
