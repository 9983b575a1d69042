//! `ccnicd --metrics`: what a scraper reads, and what those who are none can do.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use ccnic::Design;
use ccnic_client::{Nic, Pages};
use ccnic_control::counters::{COUNTERS, Kind};
use common::flow::Flow;
use common::{Daemon, PATIENCE, config, until};
use serde_json::Value;

/// A daemon with metrics at a free port.
struct Scraped {
    daemon: Daemon,
    address: SocketAddr,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Scraped {
    fn start() -> Scraped {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let args = ["--metrics", "127.0.0.1:0", "--log", "info,ccnicd::placement=off"];
        let daemon = Daemon::start_with(&socket, &args);
        let mut address = None;
        until("the address of the metrics", || {
            let log = daemon.log();
            let found = log.split("metrics at http://").nth(1).and_then(|rest| rest.split("/metrics").next());
            address = found.and_then(|text| text.parse().ok());
            address.is_some()
        });
        Scraped { daemon, address: address.unwrap(), socket, _directory: directory }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends this and reads until the end: the head of the answer, and its body.
    #[track_caller]
    fn ask(&self, request: &[u8]) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let len = head.split("Content-Length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        assert_eq!(len.parse(), Ok(body.len()), "{head}");
        (head.to_owned(), body.to_owned())
    }

    #[track_caller]
    fn scrape(&self) -> String {
        let (head, body) = self.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{head}");
        assert!(body.ends_with("# EOF\n"));
        body
    }
}

/// Samples by name and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(of, n)| (of, n.parse().unwrap())).collect()
}

#[test]
fn a_scrape_has_every_counter_of_a_program_whatever_its_name() {
    let mut nic = Scraped::start();
    let name = "a\"b\\c\nccnic_port_tx_packets_total 7";
    let options = Nic::options().name(name).config(&config(Design::default())).pages(Pages::Small);
    let mut program = options.open(&nic.socket).unwrap();
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64], 64);
    flow.exchange(1000);
    flow.drain();
    let status = nic.daemon.program(name).unwrap();
    let labels = format!(r#"id="{}",port="a\"b\\\\c\\nccnic_port_tx_packets_total 7",queue="0""#, status.id);
    let text = nic.scrape();
    let samples = samples(&text);
    for counter in COUNTERS {
        let reason = counter.reason().map_or_else(String::new, |why| format!(",reason=\"{why}\""));
        let sample = format!("{}{{{labels}{reason}}}", counter.sample());
        if counter.kind == Kind::Turn {
            assert!(samples.contains_key(sample.as_str()), "{sample}: {text}"); // a turn may have been late since
            continue;
        }
        assert_eq!(
            samples.get(sample.as_str()),
            Some(&(counter.of(&status.queues[0]) as f64)),
            "{sample}: {text}"
        );
    }
    assert_eq!(
        samples[format!("ccnic_port_tx_bytes_total{{{labels}}}").as_str()],
        64.0 * flow.received as f64
    );
    let cpu = status.queues[0].core;
    assert!(
        samples.contains_key(format!("ccnic_core_busy_seconds_total{{cpu=\"{cpu}\"}}").as_str()),
        "{text}"
    );
    assert!(samples["ccnic_uptime_seconds"] > 0.0);
}

#[test]
fn packets_make_a_core_busy() {
    let mut nic = Scraped::start();
    let options = Nic::options().name("busy").config(&config(Design::default())).pages(Pages::Small);
    let mut program = options.open(&nic.socket).unwrap();
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64], 64);
    until("a busy core", || {
        flow.exchange(10_000);
        nic.daemon.status().busy_ns[0] > 0
    });
    let status = nic.daemon.status();
    assert!(status.busy_ns[0] as f64 / 1e9 < status.uptime_s, "{status:?}");
    flow.drain();
}

#[test]
fn who_does_not_ask_for_metrics_is_told_so() {
    let nic = Scraped::start();
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("GET /metrics HTTP/3\r\n\r\n", "400"),
        ("\u{16}\u{3}\u{1}\n", "400"),
    ] {
        let (head, _) = nic.ask(request.as_bytes());
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {head}");
    }
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(64 << 10));
    let mut stream = nic.connect();
    let _ = stream.write_all(long.as_bytes()); // it may be answered before it is all there
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 431");
    nic.scrape();
}

#[test]
fn who_stands_still_delays_nobody_and_is_closed() {
    let nic = Scraped::start();
    let mut silent = nic.connect();
    let mut slow = nic.connect();
    slow.write_all(b"GET /metr").unwrap();
    let mut deaf = nic.connect();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    nic.scrape();
    slow.write_all(b"ics HTTP/1.1\r\n").unwrap();
    nic.scrape();
    // Neither has asked for anything: the end, without an answer.
    for stream in [&mut silent, &mut slow] {
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    }
    let mut answer = String::new();
    deaf.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("# EOF\n"), "it has only been slow");
    nic.scrape();
}

#[test]
fn many_clients_take_places_from_each_other_only() {
    let nic = Scraped::start();
    let (before, _) = nic.daemon.settled();
    let crowd: Vec<_> = (0..200).map(|_| nic.connect()).collect();
    nic.scrape();
    let (with_crowd, _) = nic.daemon.holdings();
    assert!(with_crowd <= before + 9, "{with_crowd} descriptors instead of {before}");
    let threads = nic.daemon.threads();
    assert_eq!(threads.iter().filter(|(name, _)| name == "metrics").count(), 1, "{threads:?}");
    drop(crowd);
    nic.scrape();
    until("all connections closed", || nic.daemon.holdings().0 <= before + 1);
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let nic = Scraped::start();
    let directory = tempfile::tempdir().unwrap();
    let start = |address: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnicd"));
        command.args(["--tuning", "default", "--metrics", address, "--socket"]);
        command.arg(directory.path().join("nic.sock")).output().unwrap()
    };
    for address in [&nic.address.to_string(), "127.0.0.1", "localhost:9184"] {
        let output = start(address);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("--metrics") && message.contains(address), "{message}");
    }
    nic.scrape();
}

/// All texts in a JSON document under this key.
fn under<'a>(key: &str, value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| under(key, value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| under(key, value, found)),
        _ => {}
    }
}

/// The words of a query that begin with `ccnic_`.
fn metrics(query: &str) -> impl Iterator<Item = &str> {
    query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("ccnic_"))
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let nic = Scraped::start();
    let options = Nic::options().name("one").config(&config(Design::default())).pages(Pages::Small);
    let _program = options.open(&nic.socket).unwrap();
    let text = nic.scrape();
    let there: BTreeSet<&str> = samples(&text).into_keys().map(|of| of.split('{').next().unwrap()).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/ccnic.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut queries, mut variables) = (Vec::new(), Vec::new());
    under("expr", &dashboard["panels"], &mut queries);
    under("query", &dashboard["templating"], &mut variables);
    let asked: BTreeSet<&str> = queries.iter().flat_map(|query| metrics(query)).collect();
    assert_eq!(asked, there, "the dashboard shows every metric, and no other");
    assert!(
        variables.iter().flat_map(|query| metrics(query)).all(|name| there.contains(name)),
        "{variables:?}"
    );
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    assert!(there.iter().all(|name| docs.contains(name)), "docs/operations.md names every metric: {there:?}");
    let labels = ["id", "port", "queue", "reason", "cpu", "instance", "le"];
    for query in &queries {
        let by = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
        let by = by.flat_map(|names| names.split(", "));
        let selected = query.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let selected = selected.flat_map(|list| list.split(',')).filter_map(|label| label.split('=').next());
        assert!(by.chain(selected).all(|label| labels.contains(&label)), "{query}");
    }
}
