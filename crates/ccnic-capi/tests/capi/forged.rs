//! A NIC that writes longer inline packets than the library does: `tests/c/forged.c`.

use crate::build::{ALL, program, run};
use crate::nic::alone;

#[test]
fn no_inline_packet_overflows_a_room() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/forged.c", how, directory.path()) else { continue };
        // Inline under load too.
        let command = command.env("CCNIC_TUNING", "inline=7,loaded=7");
        let output = run(command.arg(directory.path().join("nic.sock")));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "forged\n", "{how:?}");
    }
}
