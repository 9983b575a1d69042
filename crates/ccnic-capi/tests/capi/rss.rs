//! Receive-side scaling from C, by a NIC and its successor: `tests/c/rss.c`.

use crate::recovery::carries_on;

#[test]
fn packets_come_where_the_hash_says() {
    carries_on("tests/c/rss.c", "spread again");
}
