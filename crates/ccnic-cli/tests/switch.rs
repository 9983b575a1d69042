//! `ccnic mac-table`, `ccnic status` and `ccnic bench switch` with a switch in a thread of the test.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::process::{Command, Output};

use ccnic::Config;
use ccnic_client::{Burst, Nic, Pages};
use ccnicd::dataplane::DataplaneKind;
use ccnicd::switch::TableLimits;
use common::TestNic;
use serde_json::Value;

fn ccnic(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ccnic")).args(args).output().unwrap()
}

#[test]
fn addresses_are_shown_with_their_programs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nic.sock");
    let socket = path.to_str().unwrap();
    let _nic = TestNic::start(&path, DataplaneKind::Switch(TableLimits::default()));
    let config = Config { ring: 64, buffers: 64, ..Config::default() };
    let open = |name| Nic::options().name(name).config(&config).pages(Pages::Small).open(&path).unwrap();
    let (mut one, mut other) = (open("one\u{1b}[2J"), open("other"));
    let (mut from, mut to) = (one.queue_pair(0).unwrap(), other.queue_pair(0).unwrap());
    let mut burst = Burst::new();
    from.alloc(60, 1, &mut burst);
    let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0xab, 1], &[0x88, 0xb5]].concat();
    burst.iter_mut().for_each(|buf| _ = from.write(buf, 0, &frame));
    assert_eq!(from.tx_burst(&mut burst), 1);
    while to.rx_burst(&mut burst, 1) == 0 {
        to.wait(std::time::Duration::from_secs(60)).unwrap();
    }
    to.free(&mut burst);
    let text = String::from_utf8(ccnic(&["mac-table", "--socket", socket]).stdout).unwrap();
    assert!(text.contains("02:00:00:00:ab:01") && text.contains("one\\u{1b}[2J"), "{text}");
    let json = ccnic(&["mac-table", "--json", "--socket", socket]).stdout;
    let rows: Value = serde_json::from_slice(&json).unwrap();
    let row = &rows[0];
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(
        (row["mac"].as_str(), row["name"].as_str()),
        (Some("02:00:00:00:ab:01"), Some("one\u{1b}[2J"))
    );
    let status = String::from_utf8(ccnic(&["status", "--socket", socket]).stdout).unwrap();
    assert!(status.contains("dataplane switch") && status.contains("1 packets were flooded"), "{status}");
}

#[test]
fn a_loopback_has_no_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nic.sock");
    let _nic = TestNic::start(&path, DataplaneKind::Loopback);
    let output = ccnic(&["mac-table", "--socket", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--wire switch"));
}

#[test]
fn sizes_that_hold_no_frame_are_refused() {
    let output = ccnic(&["bench", "switch", "--sizes", "64,31"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("--sizes names 31; choose 32"), "{message}");
    let output = ccnic(&["bench", "switch", "--inflight", "1024"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("--inflight is 1024; choose 1 to 512, or at least --ring 2048"), "{message}");
}
