//! Small packets as copies, from C: `tests/c/small.c`.

use crate::build::{ALL, program, run};
use crate::nic::{Nic, alone};

#[test]
fn small_packets_are_sent_and_received_as_copies_in_every_design() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/small.c", how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        let output = run(command.arg(&nic.socket));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "5 designs\n", "{how:?}");
        assert!(nic.alive(), "{how:?}: the daemon has ended");
    }
}
