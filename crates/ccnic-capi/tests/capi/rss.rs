//! Packets spread over queues, from C, by a NIC and its successor: `tests/c/rss.c`.

use std::io::BufReader;
use std::process::Stdio;

use crate::build::{ALL, program};
use crate::nic::{Nic, alone};
use crate::recovery::{expect, go_on};

#[test]
fn packets_come_where_the_hash_says() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/rss.c", how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        command.arg(&nic.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        expect(&mut lines, "attached");
        nic.kill();
        expect(&mut lines, "the NIC has gone");
        let _successor = Nic::start(directory.path());
        go_on(&mut child);
        expect(&mut lines, "spread again");
        assert!(child.wait().unwrap().success(), "{how:?}");
    }
}
