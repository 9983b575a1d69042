//! `ccnic-echo` with more connections than a backlog or a ring has room for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::process::Command;

use common::{Nic, alone};

/// Both ends in one thread; returns what it has printed.
#[track_caller]
fn both(words: &[&str]) -> serde_json::Value {
    let mut command = Command::new("timeout");
    command.args(["120", env!("CARGO_BIN_EXE_ccnic-echo"), "both", "--seconds", "0.1", "--json"]);
    let done = command.args(words).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn four_thousand_connections() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let measured = both(&["--flows", "4000", "--socket", nic.socket.to_str().unwrap()]);
    assert_eq!(measured["flows"], 4000);
    assert!(measured["calls"].as_u64().unwrap() > 0, "{measured}");
}

#[test]
fn more_connections_than_the_backlog_of_the_standard_library() {
    let _alone = alone();
    assert_eq!(both(&["--flows", "300", "--kernel"])["flows"], 300);
}
