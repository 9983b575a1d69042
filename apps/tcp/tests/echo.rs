//! `ccnic-echo` with more connections than a backlog or a ring has room for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
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

/// What a client of two connections says that waits for so many seconds.
fn client(server: &TcpListener, seconds: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["300", env!("CARGO_BIN_EXE_ccnic-echo"), "client", "--kernel", "--flows", "2"]);
    let to = server.local_addr().unwrap().to_string();
    let done = command.args(["--connection-timeout", seconds, "--to", &to]).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    // The kernel takes the connections, and nobody accepts them.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let expected = "the server does not answer on 2 of 2 connections: nothing has come for 0.3 s\n";
    assert_eq!(client(&server, "0.3"), format!("ccnic-echo: {expected}"));
}

#[test]
fn answers_on_one_connection_are_not_those_of_all() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = server.accept().unwrap().0;
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                if stream.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
        });
        client(&server, "3")
    });
    assert!(said.contains("does not answer on 1 of 2 connections: nothing has come for 3 s"), "{said}");
}

#[test]
fn without_a_nic_programs_end_with_2() {
    for (program, words) in [
        (env!("CARGO_BIN_EXE_ccnic-echo"), "server"),
        (env!("CARGO_BIN_EXE_ccnic-echo"), "client --to 10.9.0.1:7"),
        (env!("CARGO_BIN_EXE_ccnic-echo"), "both"),
        (env!("CARGO_BIN_EXE_ccnic-hello"), ""),
    ] {
        let words = words.split_whitespace().chain(["--socket", "/nonexistent/nic.sock"]);
        let done = Command::new(program).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{program}: {said}");
        assert!(said.contains("no NIC answers at /nonexistent/nic.sock") && done.stdout.is_empty(), "{said}");
    }
    for (option, wrong) in [("--seconds", "-1"), ("--seconds", "nan"), ("--connection-timeout", "inf")] {
        let words = ["client", "--to", "127.0.0.1:7", &format!("{option}={wrong}")];
        let done = Command::new(env!("CARGO_BIN_EXE_ccnic-echo")).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && said.contains("choose 0 to 86400 seconds"), "{said}");
    }
}
