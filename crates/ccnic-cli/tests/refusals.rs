//! What bad options get: exit status 2 and a message that names the option and what it may be.

#![allow(clippy::expect_used, reason = "a helper of tests")]

use std::process::Command;

/// The message that a command line ends with.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ccnic")).args(args).output().expect("ccnic starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}");
    message
}

#[track_caller]
fn loopback(option: &str, value: &str, expected: &str) {
    let message = refused(&["bench", "loopback", "--no-limit", option, value]);
    assert!(message.contains(expected), "{option} {value}: {message}");
}

#[test]
fn numbers_out_of_range() {
    loopback("--size", "9601", "--size is 9601; choose 16 to 9600");
    loopback("--size", "8", "--size is 8; choose 16 to 9600");
    loopback("--burst", "0", "--burst is 0; choose 1 to 64");
    loopback("--burst", "65", "--burst is 65; choose 1 to 64");
    loopback("--rx-burst", "0", "--rx-burst is 0; choose 1 to 64");
    loopback("--inflight", "0", "--inflight is 0; choose 1 to");
    loopback("--ring", "1000", "--ring is 1000; choose a power of two from 64 to 32768");
    loopback("--ring", "16", "--ring is 16; choose 64 to 32768");
    loopback("--queues", "0", "--queues is 0; choose 1 to 256");
    loopback("--queues", "257", "--queues is 257; choose 1 to 256");
    loopback("--buffers", "4", "--buffers is 4; choose 16 to");
    loopback("--seconds", "0", "--seconds is 0");
    loopback("--rounds", "0", "--rounds is 0; choose 1 to 10000");
    loopback("--rate", "0", "--rate is 0");
}

#[test]
fn words_that_are_none() {
    loopback("--design", "e1000", "--design");
    loopback("--design", "cni", "`ccnic bench cni` measures it");
    loopback("--size", "many", "--size");
    assert!(refused(&["bench", "loopback", "--sweep", "--rate", "1"]).contains("--rate"));
}

#[test]
fn a_nic_that_is_not_there() {
    loopback("--socket", "/nonexistent/nic.sock", "no NIC answers at /nonexistent/nic.sock");
    let message = refused(&["status", "--socket", "/nonexistent/nic.sock"]);
    assert!(message.contains("ccnicd --socket"), "{message}");
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
}

/// Whatever is asked of a NIC that is not there: no output, status 2, and how to start one.
#[test]
fn every_command_without_its_nic() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ccnicd.example.toml");
    for command in [
        "status",
        "status --json",
        "mac-table",
        "flow list",
        "flow add web --drop",
        "flow del web --all",
        "stats",
        "stats --json",
        "config",
        "port list",
        "port add tap:x",
        "port set tap:x mtu=1500",
        "port del tap:x",
        "capture --write /nonexistent/packets.pcapng",
        "bench loopback --no-limit",
    ] {
        let words = command.split(' ').chain(["--socket", "/nonexistent/nic.sock"]);
        let message = refused(&words.collect::<Vec<_>>());
        assert!(message.contains("no NIC answers at /nonexistent/nic.sock"), "{command}: {message}");
    }
    let message = refused(&["apply", file, "--socket", "/nonexistent/nic.sock"]);
    assert!(message.contains("no NIC answers at /nonexistent/nic.sock"), "{message}");
}

#[test]
fn peers_out_of_range_or_not_built() {
    let peers = |option, value| refused(&["bench", "peers", option, value]);
    assert!(peers("--size", "64,9601").contains("--size is 9601; choose 16 to 9600"));
    assert!(peers("--inflight", "0").contains("--inflight is 0; choose 1 to 1024"));
    assert!(peers("--seconds", "0").contains("--seconds is 0"));
    assert!(peers("--repeat", "0").contains("--repeat is 0"));
    assert!(peers("--drivers", "e1000").contains("--drivers"));
    assert!(
        peers("--program", "/nonexistent/ccnic-peers").contains("--program names /nonexistent/ccnic-peers")
    );
}

#[test]
fn apps_out_of_range_or_unknown() {
    let apps = |option, value| refused(&["bench", "apps", option, value]);
    assert!(apps("--servers", "redis").contains("--servers"));
    assert!(apps("--workloads", "ycsb").contains("--workloads"));
    assert!(apps("--rounds", "0").contains("--rounds is 0"));
    assert!(apps("--seconds", "0").contains("--seconds is 0"));
    assert!(apps("--nic-peak", "0").contains("--nic-peak is 0"));
}
