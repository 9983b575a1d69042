//! `ccnicd --log-format`: lines for people, or for programs.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use ccnic::Design;
use ccnic_client::{Nic, Pages};
use common::{Daemon, config, until};
use rustix::process::Signal;
use serde_json::Value;

/// What a daemon logs that a program with this name attaches to.
fn log(name: &str, format: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start_with(&socket, &["--log", "info", "--log-format", format]);
    let options = Nic::options().name(name).config(&config(Design::default())).pages(Pages::Small);
    let program = options.open(&socket).unwrap();
    until("the attachment in the log", || daemon.log().contains("attached"));
    drop(program);
    assert!(daemon.signal(Signal::TERM).success());
    daemon.log()
}

#[test]
fn each_line_is_an_object_whatever_a_program_is_called() {
    let name = "a\"}\n{\"level\":\"ERROR\"}\u{1b}[2J";
    let log = log(name, "json");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let message = |line: &Value| line["fields"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["target"].is_string()), "{log}");
    assert!(lines.iter().all(|line| line["level"] != "ERROR"), "{log}");
    let ready = lines.iter().find(|line| message(line).ends_with("is ready")).unwrap();
    assert_eq!((&ready["level"], &ready["fields"]["wire"]), (&"INFO".into(), &"loopback".into()));
    assert!(lines.iter().any(|line| message(line).starts_with("stopping")), "{log}");
}

#[test]
fn text_has_no_escape_sequences() {
    let log = log("b\u{1b}[2J", "text");
    assert!(log.lines().any(|line| line.contains(" INFO ccnicd::control: ccnicd ")), "{log}");
    assert!(!log.contains('\u{1b}'), "{log:?}");
}
