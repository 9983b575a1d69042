//! A trace is JSON that a viewer can show, its events are those of the run, and tracing changes no result.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

use crate::common::{named, plan};
use ccnic::Design;
use ccnic_sim::loopback::{Options, Plan, RunError, run, run_with};
use ccnic_sim::trace::Trace;
use serde_json::Value;

/// A writer whose contents can be read afterwards.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn small(inflight: usize) -> Plan {
    plan(Design::GroupedEpoch, 1, 64, inflight, 4e-6)
}

/// The events of a traced run, metadata left out.
fn events(plan: &Plan, configure: impl Fn(Trace) -> Trace, window: std::ops::Range<u64>) -> Vec<Value> {
    let out = Shared::default();
    let trace = configure(Trace::new(out.clone(), window));
    let traced = run_with(&named("spr"), plan, Options { trace: Some(trace), ..Options::default() }).unwrap();
    let plain = run(&named("spr"), plan).unwrap();
    assert_eq!(format!("{:?}", traced.host), format!("{:?}", plain.host), "tracing changes the results");
    let parsed: Value = serde_json::from_slice(&out.0.borrow()).unwrap();
    let all = parsed["traceEvents"].as_array().unwrap();
    all.iter().filter(|e| e["ph"] != "M").cloned().collect()
}

fn time(event: &Value) -> f64 {
    event["ts"].as_f64().unwrap()
}

fn of<'a>(events: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |e| e["ph"] == kind)
}

#[test]
fn waits_follow_each_other() {
    let events = events(&small(8), |t| t, 0..u64::MAX);
    let mut ends: HashMap<u64, f64> = HashMap::new();
    let mut slices = 0;
    for event in of(&events, "X") {
        let (start, took) = (time(event), event["dur"].as_f64().unwrap());
        let end = ends.entry(event["tid"].as_u64().unwrap()).or_insert(0.0);
        assert!(start >= *end - 1e-9 && took > 0.0, "{event} begins before {end}");
        *end = start + took;
        slices += 1;
    }
    assert!(ends.len() == 2 && slices > 20, "{slices} slices of {} cores", ends.len());
}

#[test]
fn requests_begin_pass_hops_and_end() {
    let events = events(&small(8), |t| t, 0..u64::MAX);
    let mut open: HashMap<u64, (f64, String)> = HashMap::new();
    let (mut ended, mut hops, mut remote) = (0, 0, 0);
    for event in events.iter().filter(|e| e["cat"] == "request") {
        let (id, at) = (event["id"].as_u64().unwrap(), time(event));
        let name = event["name"].as_str().unwrap().to_string();
        match event["ph"].as_str().unwrap() {
            "b" => {
                for key in ["at", "line", "home", "request"] {
                    assert!(!event["args"][key].is_null(), "{event} lacks {key}");
                }
                assert_eq!(open.insert(id, (at, name)), None, "begun twice");
            }
            "n" => {
                let (last, _) = open.get_mut(&id).unwrap();
                assert!(at >= *last, "{event} comes before {last}");
                *last = at;
                hops += 1;
            }
            "e" => {
                let (last, begun) = open.remove(&id).unwrap();
                assert!(at >= last && begun == name, "{event}");
                remote += u64::from(event["args"]["source"] == "RemoteCore");
                ended += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(open.is_empty() && ended > 50 && hops > 2 * ended && remote > 10, "{ended}, {hops}, {remote}");
}

#[test]
fn a_packet_can_be_followed() {
    let inline = small(1);
    assert!(inline.config.has_areas());
    follow(&inline, "TX areas 0", "RX areas 0");
    let buffers = Plan { config: ccnic::Config { inline: false, ..inline.config }, ..inline };
    follow(&buffers, "buffer", "buffer");
}

/// Follows a lone packet to the NIC and back. Its payload lies in `there` when it is sent, in `back` when it is received.
#[track_caller]
fn follow(plan: &Plan, there: &str, back: &str) {
    let events = events(plan, |t| t, 0..u64::MAX);
    let stored = |core: u64, ring: &str, after: f64| {
        let name = format!("store {ring}");
        let found = of(&events, "i").filter(|e| e["name"] == name.as_str() && e["tid"] == core);
        found
            .map(time)
            .find(|at| *at > after)
            .unwrap_or_else(|| panic!("core {core}: no {name} after {after}"))
    };
    let fetched = |core: u64, ring: &str, after: f64| {
        let mut ends =
            of(&events, "e").filter(|e| e["tid"] == core && e["name"].as_str().unwrap().contains(ring));
        ends.find(|e| time(e) > after).map(time).unwrap()
    };
    let sent = stored(0, "TX ring 0", 1.0);
    let seen = fetched(1, "TX ring 0", sent);
    let answered = stored(1, "RX ring 0", seen);
    let received = fetched(0, "RX ring 0", answered);
    assert!(sent < seen && seen < answered && answered < received, "{sent} {seen} {answered} {received}");
    if plan.config.has_areas() {
        // A reader that waits watches the payload's line, too: it comes before the signal or after it. A packet that is sent before the
        // reader has waited lies in a buffer.
        assert!(fetched(1, there, 0.0) < fetched(0, back, 0.0));
    } else {
        let (copied, read) = (fetched(1, there, seen - 0.2), fetched(0, back, answered - 0.2));
        assert!(copied < received && copied < read && read < received + 1.0, "{copied} {received} {read}");
    }
    assert!(received - sent < 1.5, "a round trip takes less than 1.5 us: {}", received - sent);
}

#[test]
fn the_utilisation_of_a_link_is_traced() {
    let events = events(&small(64), |t| t, 0..u64::MAX);
    let values: Vec<f64> = of(&events, "C").map(|e| e["args"]["percent"].as_f64().unwrap()).collect();
    assert!(values.len() > 20 && values.iter().all(|v| (0.0..=100.0).contains(v)), "{values:?}");
    assert!(values.iter().any(|v| *v > 2.0), "{values:?}");
}

#[test]
fn a_window_and_a_limit_keep_it_small() {
    let all = events(&small(8), |t| t, 0..u64::MAX).len();
    let window = 2_000_000..3_000_000;
    let part = events(&small(8), |t| t, window);
    assert!(part.len() > 10 && part.len() < all / 2, "{} of {all}", part.len());
    for event in of(&part, "i") {
        assert!((2.0..=3.0).contains(&time(event)), "{event}");
    }
    // Requests that have begun end: at most the events of one request more.
    let few = events(&small(8), |t| t.at_most(30), 0..u64::MAX).len();
    assert!((20..50).contains(&few), "{few}");
}

/// A disk that is full.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    let trace = Some(Trace::new(Full, 0..u64::MAX));
    let error = run_with(&named("spr"), &small(1), Options { trace, ..Options::default() }).unwrap_err();
    assert!(matches!(error, RunError::Trace(_)), "{error}");
}
