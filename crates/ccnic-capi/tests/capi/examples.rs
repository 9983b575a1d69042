//! The examples do what their first lines say, however they are linked.

use crate::build::{ALL, How, program, run};
use crate::nic::{Nic, alone};

fn each(source: &str, arguments: &[&str], check: impl Fn(&str)) {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program(source, how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        let output = run(command.arg(&nic.socket).args(arguments));
        check(&String::from_utf8_lossy(&output.stdout));
        assert!(nic.alive(), "{how:?}: the daemon has ended");
    }
}

#[test]
fn echo_sends_back_what_it_receives() {
    each("examples/echo.c", &["500"], |said| {
        assert!(said.starts_with("500 packets received, 501 sent"), "{said}");
    });
}

#[test]
fn generator_gets_back_what_it_sends() {
    each("examples/generator.c", &["5000", "64"], |said| {
        assert!(said.contains("packets of 64 bytes"), "{said}")
    });
}

#[test]
fn generator_sends_chains() {
    each("examples/generator.c", &["1000", "9000"], |said| assert!(said.contains("of 9000 bytes"), "{said}"));
}

#[test]
fn examples_say_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    for source in ["examples/echo.c", "examples/generator.c"] {
        let mut command = program(source, How::Shared, directory.path()).unwrap();
        let output = command.arg(directory.path().join("nobody.sock")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no NIC answers at") && said.contains("start one with"), "{said}");
    }
}
