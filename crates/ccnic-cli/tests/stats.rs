//! `ccnic stats` and `ccnic top` with a NIC in a thread of the test.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use ccnic::Config;
use ccnic_client::{Burst, Nic, Pages};
use ccnic_control::counters::{COUNTERS, Kind};
use ccnicd::dataplane::DataplaneKind;
use ccnicd::switch::TableLimits;
use common::TestNic;
use serde_json::Value;

fn ccnic(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ccnic")).args(args).output().unwrap()
}

#[test]
fn counters_of_a_program_by_name_as_text_and_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nic.sock");
    let socket = path.to_str().unwrap();
    let _nic = TestNic::start(&path, DataplaneKind::Loopback);
    let config = Config { ring: 64, buffers: 64, queues: 2, ..Config::default() };
    let mut program =
        Nic::options().name("one\u{1b}[2J").config(&config).pages(Pages::Small).open(&path).unwrap();
    let mut pair = program.queue_pair(0).unwrap();
    let mut burst = Burst::new();
    pair.alloc(60, 1, &mut burst);
    assert_eq!(pair.tx_burst(&mut burst), 1);
    while pair.rx_burst(&mut burst, 1) == 0 {
        pair.wait(std::time::Duration::from_secs(60)).unwrap();
    }
    pair.free(&mut burst);
    let id = program.status().unwrap().programs[0].id.to_string();
    for name in ["one\u{1b}[2J", "one\\u{1b}[2J", &id] {
        let text = String::from_utf8(ccnic(&["stats", name, "--socket", socket]).stdout).unwrap();
        assert!(text.contains("one\\u{1b}[2J (process"), "{text}");
        let row = text.lines().find_map(|line| line.strip_prefix("tx_packets")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["1", "0:", "1"], "{text}");
    }
    let output = ccnic(&["stats", "--json", "--socket", socket]).stdout;
    let json: Value = serde_json::from_slice(&output).unwrap();
    let queues = json["ports"][0]["queues"].as_array().unwrap();
    assert_eq!(queues.iter().map(|q| q["total"]["rx_packets"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 0]);
    let mut of_the_queue = COUNTERS.iter().filter(|counter| counter.kind != Kind::Turn);
    assert!(of_the_queue.all(|counter| queues[1]["total"][counter.name] == 0), "{json}");
    assert!(json["cores"][0]["busy"].is_number() && json.get("seconds").is_none(), "{json}");
    let unknown = ccnic(&["stats", "nobody", "--socket", socket]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("nobody"));
}

/// One burst in 32 to 95 is followed, and the one after it measured.
#[test]
fn the_latency_of_lone_packets_is_sampled() {
    for kind in [DataplaneKind::Loopback, DataplaneKind::Switch(TableLimits::default())] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        let _nic = TestNic::start(&path, kind);
        let config = Config { ring: 64, buffers: 64, ..Config::default() };
        let open = |name| Nic::options().name(name).config(&config).pages(Pages::Small).open(&path).unwrap();
        let (mut one, mut other) = (open("one"), open("other"));
        let (mut from, mut to) = (one.queue_pair(0).unwrap(), other.queue_pair(0).unwrap());
        let mut burst = Burst::new();
        for _ in 0..300 {
            from.alloc(60, 1, &mut burst);
            let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0xab, 1], &[0x88, 0xb5]].concat();
            burst.iter_mut().for_each(|buf| _ = from.write(buf, 0, &frame));
            assert_eq!(from.tx_burst(&mut burst), 1);
            let back = if kind == DataplaneKind::Loopback { &mut from } else { &mut to };
            while back.rx_burst(&mut burst, 1) == 0 {
                std::thread::yield_now();
            }
            back.free(&mut burst);
        }
        let output = ccnic(&["stats", "--json", "--socket", path.to_str().unwrap()]).stdout;
        let json: Value = serde_json::from_slice(&output).unwrap();
        let latency = |port: usize| &json["ports"][port]["latency"];
        // A burst that is found by the first look after the worker has slept is not measured.
        assert!((1..=9).contains(&latency(0)["samples"].as_u64().unwrap_or(0)), "{json}");
        assert!(latency(0)["mean_ns"].as_f64() > Some(0.0) && latency(1).is_null(), "{json}");
    }
}

#[test]
fn rates_come_until_nobody_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nic.sock");
    let _nic = TestNic::start(&path, DataplaneKind::Loopback);
    let watch = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic"));
        command.args(["stats", "--watch", "1", "--json", "--socket"]).arg(&path).args(more);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let twice = watch(&["--count", "2"]).wait_with_output().unwrap();
    assert!(twice.status.success());
    let lines = String::from_utf8(twice.stdout).unwrap();
    let seconds: Vec<_> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seconds"].as_f64().unwrap())
        .collect();
    assert!(seconds.len() == 2 && seconds.iter().all(|seconds| *seconds > 0.0), "{seconds:?}");
    let mut endless = watch(&[]);
    let mut line = String::new();
    BufReader::new(endless.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"uptime_s\":"), "{line}");
    assert!(endless.wait().unwrap().success(), "its output is closed: that is the end, and no failure");
}

#[test]
fn top_needs_a_terminal_and_says_what_does_not() {
    let output = ccnic(&["top", "--socket", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("ccnic stats --watch"));
    assert!(output.stdout.is_empty());
}
