//! The NIC of a program in C is killed; the program detects it, waits for the successor, and continues: `tests/c/recovery.c`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use crate::build::{ALL, program};
use crate::nic::{Nic, alone};

/// Expects a line of the program's output.
#[track_caller]
fn expect(lines: &mut impl BufRead, what: &str) {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), what);
}

/// Lets the program continue.
fn go_on(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

/// Runs a program whose NIC is killed; `end` is its last line, after it has continued with the successor.
pub(crate) fn carries_on(source: &str, end: &str) {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program(source, how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        command.arg(&nic.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        expect(&mut lines, "attached");
        nic.kill();
        expect(&mut lines, "the NIC has gone");
        let _successor = Nic::start(directory.path());
        go_on(&mut child);
        expect(&mut lines, end);
        assert!(child.wait().unwrap().success(), "{how:?}");
    }
}

#[test]
fn a_program_continues_with_the_next_nic() {
    carries_on("tests/c/recovery.c", "attached again");
}
