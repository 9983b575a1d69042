//! Reserve and commit from C: `tests/c/reserve.c`.

use crate::build::{ALL, program, run};
use crate::nic::{Nic, alone};

#[test]
fn packets_are_written_in_place_in_every_design() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/reserve.c", how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        // In the ring under load too.
        let command = command.env("CCNIC_TUNING", "inline=1,loaded=1");
        let output = run(command.arg(&nic.socket));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "5 designs\n", "{how:?}");
        assert!(nic.alive(), "{how:?}: the daemon has ended");
    }
}
