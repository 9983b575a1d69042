//! Bursts of copies and of packets in buffers, from C: `tests/c/mixed.c`.

use crate::build::{ALL, program, run};
use crate::nic::{Nic, alone};

#[test]
fn copies_and_buffers_are_sent_in_one_burst_in_every_design() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/mixed.c", how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        let output = run(command.arg(&nic.socket));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "5 designs\n", "{how:?}");
        assert!(nic.alive(), "{how:?}: the daemon has ended");
    }
}
