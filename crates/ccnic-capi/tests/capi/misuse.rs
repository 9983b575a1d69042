//! Wrong arguments are errors, and forged handles do not lead outside the region: `tests/c/misuse.c`, and for NICs
//! `tests/c/nic.c`.

use crate::build::{ALL, How, program, run};
use crate::nic::{Nic, alone};

#[test]
fn the_sanitizer_and_valgrind_see_a_fault_on_purpose() {
    for how in [How::Sanitized, How::Valgrind] {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/fault.c", how, directory.path()) else { continue };
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.to_lowercase().contains("write of size 1"),
            "{how:?}: {said}"
        );
    }
}

#[test]
fn wrong_arguments_are_errors_in_every_design() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/misuse.c", how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        // A socket file without a listener.
        let dead = directory.path().join("dead.sock");
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        let output = run(command.arg(&nic.socket).arg(directory.path().join("none.sock")).arg(&dead));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "5 designs\n", "{how:?}");
        assert!(nic.alive(), "{how:?}: the daemon has ended");
    }
}

#[test]
fn a_closed_handle_of_any_kind_is_noticed_in_every_call() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/stale.c", how, directory.path()) else { continue };
        let nic = Nic::start(directory.path());
        let sockets =
            [nic.socket.clone(), directory.path().join("call.sock"), directory.path().join("c.sock")];
        let output = run(command.args(sockets));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "all noticed\n", "{how:?}");
    }
}

#[test]
fn the_debug_mode_notices_buffers_that_are_handed_over_twice() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let Some(mut command) = program("tests/c/held.c", How::Shared, directory.path()) else { return };
    let nic = Nic::start(directory.path());
    let output = run(command.arg(&nic.socket).env("CCNIC_DEBUG", "1"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "5 designs\n");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = "libccnic: ccnic_buf_free: entry 8, a small buffer at 0x";
    assert!(told.starts_with(first) && told.lines().count() == 5, "the first of each attachment: {told}");
}

#[test]
fn a_nic_in_c_serves_every_design_and_believes_nothing() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/nic.c", how, directory.path()) else { continue };
        let file = directory.path().join("file");
        std::fs::write(&file, "no socket").unwrap();
        let output = run(command.arg(directory.path().join("nic.sock")).arg(&file));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "5 designs\n", "{how:?}");
        assert!(!directory.path().join("nic.sock").exists(), "{how:?}: the socket file goes with its NIC");
    }
}
