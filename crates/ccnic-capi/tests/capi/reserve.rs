//! Reserve and commit from C: `tests/c/reserve.c`.

use crate::nic::in_every_design;

#[test]
fn packets_are_written_in_place_in_every_design() {
    // In the ring under load too.
    in_every_design("tests/c/reserve.c", |program| _ = program.env("CCNIC_TUNING", "inline=1,loaded=1"));
}
