//! `ccnic sim`: what it prints, and what bad options get.

#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::process::{Command, Output};

use serde_json::Value;

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ccnic")).arg("sim").args(args).output().expect("ccnic starts")
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let output = sim(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let output = sim(args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(message.contains(expected), "{args:?}: {message}");
}

#[test]
fn a_loopback_has_the_keys_of_bench_and_its_own() {
    let run = json(&["loopback", "--platform", "icx", "--cores", "2", "--micros", "20", "--design", "paper"]);
    for key in ["design", "size", "burst", "inflight", "queues", "packets", "mpps", "gbps", "lost", "corrupt"]
    {
        assert!(run.get(key).is_some(), "{key} in {run}");
    }
    assert_eq!((run["platform"].as_str(), run["cores"].as_u64()), (Some("icx"), Some(2)));
    assert_eq!((run["lost"].as_u64(), run["corrupt"].as_u64()), (Some(0), Some(0)));
    assert!(run["rtt_ns"]["p50"].as_f64() > Some(100.0), "{run}");
    assert!(run["counters"]["nic"]["remote_reads"].as_f64() > Some(0.1), "{run}");
    // A packet of 64 bytes and its share of a descriptor line.
    assert!(run["counters"]["link"]["host_to_nic"]["bytes"].as_f64() >= Some(64.0), "{run}");
    assert!(run["bound"]["by"].is_string() && run["bound"]["share"].is_number(), "{run}");
}

#[test]
fn a_run_repeats_bit_for_bit() {
    let run = || sim(&["loopback", "--platform", "icx", "--cores", "4", "--micros", "20", "--json"]).stdout;
    assert!(run() == run());
}

#[test]
fn a_sweep_rises_from_one_packet_to_saturation() {
    let sweep = json(&["loopback", "--platform", "icx", "--micros", "30", "--sweep"]);
    let points = sweep.as_array().expect("a list");
    let mpps: Vec<f64> = points.iter().filter_map(|p| p["mpps"].as_f64()).collect();
    assert_eq!(mpps.len(), 11);
    assert!(mpps[0] < mpps[10] / 3.0, "{mpps:?}");
    assert!(mpps[1] < mpps[5] && mpps[5] < mpps[10], "{mpps:?}");
    assert_eq!(points[2]["bound"]["by"], "offered");
}

#[test]
fn a_platform_value_changed_for_a_run() {
    let run = |set: &[&str]| {
        let args =
            [&["loopback", "--platform", "icx", "--inflight", "1", "--burst", "1", "--micros", "30"], set];
        json(&args.concat())
    };
    let rtt = |set: &[&str]| run(set)["rtt_ns"]["p50"].as_f64().expect("a median");
    let rate = |set: &[&str]| run(set)["mpps"].as_f64().expect("a rate");
    let (short, long) = (rtt(&[]), rtt(&["--set", "link.one_way=121.5"]));
    // At least six one-way trips of 100 ns more each; an empty poll takes some 10 ns, in which either may end.
    assert!(long > short + 560.0, "{short} {long}");
    // What a file may leave out can be set all the same: calls that cost nothing, of which more fit into the time. (The median round trip
    // is one of a few times, as many polls as it takes.)
    let (paid, free) = (rate(&[]), rate(&["--set", "software.call=0.01"]));
    assert!(free > paid * 1.05, "{paid} {free}");
    // Two at once, and the last one of a key counts.
    let (near, far) = (["--set", "link.one_way=21.5"], ["--set", "link.one_way=121.5"]);
    assert_eq!(rtt(&[far, near].concat()), short);
    assert_eq!(rtt(&[near, far].concat()), long);
}

#[test]
fn access_pingpong_stream() {
    let access = json(&["access", "--platform", "icx"]);
    assert_eq!(access.as_array().map(Vec::len), Some(6));
    let here = json(&["access", "--platform", "spr-one-socket"]);
    assert_eq!(here.as_array().map(Vec::len), Some(3), "no other socket");
    let pingpong = json(&["pingpong", "--platform", "icx"]);
    assert_eq!(pingpong.as_array().map(Vec::len), Some(6));
    let stream = json(&["stream", "--platform", "icx", "--pairs", "1"]);
    assert!(stream[0]["gbps"].as_f64() > Some(1.0), "{stream}");
}

#[test]
fn measurements_on_the_machine_itself_are_compared() {
    let probes = json(&["calibrate", "--native", "spr-one-socket", "icx"]);
    let probes = probes.as_array().expect("probes");
    assert!(probes.iter().all(|p| p["platform"] == "spr-one-socket"), "nobody has measured icx: {probes:?}");
    assert!(probes.iter().any(|p| p["target"] == "lone_64" && p["unit"] == "ns"), "{probes:?}");
}

#[test]
fn platforms_are_listed_shown_and_checked() {
    let listed = sim(&["platforms"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    for name in ["icx", "spr", "spr-one-socket", "cxl"] {
        assert!(text.contains(name), "{text}");
    }
    let shown = sim(&["platforms", "--show", "icx"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(text, include_str!("../../../platforms/icx.toml"), "a file to begin with");
    for name in ["cni-1996", "enzian", "pio-pc"] {
        let shown = sim(&["platforms", "--show", name]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&format!("name  = \"{name}\"")), "{name}");
    }
    let all: serde_json::Value = serde_json::from_slice(&sim(&["platforms", "--json"]).stdout).unwrap();
    let one: serde_json::Value =
        serde_json::from_slice(&sim(&["platforms", "--values", "icx", "--json"]).stdout).unwrap();
    assert!(all.as_array().unwrap().contains(&one) && one["values"][0]["source"].is_string(), "{one}");
    let values = sim(&["platforms", "--values", "icx"]);
    let text = String::from_utf8_lossy(&values.stdout);
    for word in ["link.one_way", "21.5", "fitted", "assumed", "icelake_mlc.txt"] {
        assert!(text.contains(word), "{word}");
    }
}

/// What is shown can be saved, changed and given back.
#[test]
fn a_platform_that_is_shown_can_be_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mine.toml");
    let path = file.to_str().expect("a name");
    let run = |options: &[&str]| {
        let args = [&["loopback", "--micros", "5", "--json"], options].concat();
        String::from_utf8(sim(&args).stdout).expect("a text")
    };
    let sets = ["--set", "link.remote_memory_ns=250", "--set", "link.gbytes_per_s=40"];
    let shown = sim(&[&["platforms", "--show", "cxl"], sets.as_slice()].concat());
    std::fs::write(&file, &shown.stdout).expect("saved");
    let changed = run(&[&["--platform", "cxl"], sets.as_slice()].concat());
    assert_eq!(run(&["--platform", path]), changed);
    let text = std::fs::read_to_string(&file).expect("the file");
    let nearer = text.replacen("ns = 250.0", "ns = 200.0", 1);
    assert_ne!(nearer, text);
    std::fs::write(&file, nearer).expect("changed");
    assert_ne!(run(&["--platform", path]), changed);
    refused(&["platforms", "--set", "link.one_way=3"], "--set changes one platform: add --show or --values");
}

#[test]
fn systems_are_listed_run_and_refused_where_they_cannot_be() {
    let listed = json(&["systems"]);
    let names: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|s| s["system"].as_str()).collect();
    for name in [
        "ccnic",
        "cc-nic",
        "e810",
        "cx6",
        "ni2w",
        "cni4",
        "cni16q",
        "cni512q",
        "cni16qm",
        "pio",
        "pio-device",
    ] {
        assert!(names.contains(&name), "{name} {names:?}");
    }
    let seen = json(&["run", "--system", "cni512q", "--platform", "icx", "--size", "64,1500"]);
    let of = |i: usize, key: &str| seen[i][key].as_f64().expect("a number");
    assert!(of(1, "round_trip_ns") > of(0, "round_trip_ns") && of(1, "mpps") < of(0, "mpps"), "{seen}");
    let far = json(&["run", "--system", "pio", "--set", "link.one_way=1000"]);
    assert!(far[0]["round_trip_ns"].as_f64() > Some(4000.0), "on enzian, its only platform: {far}");
    let table = sim(&["run", "--system", "cni4", "--size", "64"]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("cni4 on cni-1996"));
    refused(&["run", "--system", "e810", "--platform", "icx"], "it has no PCIe NIC; choose icx-e810");
    refused(&["run", "--system", "cx6", "--platform", "icx-e810"], "another one; choose icx-cx6");
    refused(&["run", "--system", "ni2w", "--platform", "spr"], "choose cni-1996");
    refused(&["run", "--system", "ccnic", "--platform", "enzian"], "choose icx");
    refused(&["run", "--system", "pio-device", "--size", "129"], "8 to 128 bytes, not 129");
    refused(&["run", "--system", "vax"], "choose one of ccnic, cc-nic");
}

#[test]
fn a_failed_calibration_check_ends_with_status_1() {
    let file = std::env::temp_dir().join(format!("ccnic-{}.toml", std::process::id()));
    let icx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/icx.toml");
    let text = std::fs::read_to_string(icx).expect("the platform file");
    std::fs::write(&file, text.replace("ns = 142.7", "ns = 242.7")).expect("a copy");
    let path = file.to_str().expect("a path");
    let (checked, unchecked) = (sim(&["calibrate", "--check", path]), sim(&["calibrate", path]));
    std::fs::remove_file(&file).expect("removed");
    assert_eq!((checked.status.code(), unchecked.status.code()), (Some(1), Some(0)));
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.lines().any(|line| line.contains("remote_memory") && line.contains("OUT")), "{text}");
}

#[test]
fn bad_options() {
    refused(&["loopback", "--cores", "0"], "--cores is 0");
    refused(
        &["loopback", "--platform", "icx", "--cores", "17"],
        "--cores is 17, icx has 16 and 16; choose 1 to 16",
    );
    refused(&["loopback", "--cores", "1000"], "--cores is 1000, spr has 56 and 56; choose 1 to 56");
    refused(&["loopback", "--size", "9601"], "--size is 9601; choose 16 to 9600");
    refused(&["loopback", "--micros", "0"], "--micros is 0; choose 1 to 1000000");
    refused(&["loopback", "--warmup=-1"], "--warmup is -1");
    refused(&["loopback", "--rate", "0"], "--rate is 0");
    refused(&["loopback", "--sweep", "--rate", "1"], "--rate");
    refused(&["loopback", "--platform", "vax"], "vax");
    refused(&["loopback", "--platform", "./none.toml"], "none.toml");
    refused(&["loopback", "--set", "link.one_way"], "--set link.one_way: write KEY=VALUE");
    refused(&["loopback", "--set", "link.one_way=far"], "--set link.one_way=far: \"far\" is not a number");
    refused(&["loopback", "--set", "link.color=3"], "link.color");
    refused(&["stream", "--platform", "icx", "--pairs", "17"], "--pairs is 17; choose 1 to 16");
    refused(&["calibrate", "vax"], "vax");
}

#[test]
fn a_run_can_be_cut_by_packets_and_by_events() {
    let all = json(&["loopback", "--micros", "40"]);
    let some = json(&["loopback", "--micros", "40", "--packets", "500"]);
    let packets = |run: &Value| run["packets"].as_u64().expect("a number");
    assert!((500..600).contains(&packets(&some)) && packets(&all) > 1000, "{all} {some}");
    refused(&["loopback", "--events", "5000"], "cut after 5000 events");
}

#[test]
fn a_trace_can_be_read_by_a_viewer_and_is_kept_when_a_run_is_cut() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("trace.json");
    let path = file.to_str().expect("a name");
    let events = || -> Value {
        let text = std::fs::read_to_string(&file).expect("a trace");
        serde_json::from_str(&text).expect("JSON")
    };
    json(&["loopback", "--micros", "5", "--trace", path]);
    assert!(events()["traceEvents"].as_array().expect("a list").len() > 100);
    refused(&["loopback", "--warmup", "0", "--events", "5000", "--trace", path], "cut after 5000 events");
    assert!(events()["traceEvents"].as_array().expect("a list").len() > 100);
    refused(&["loopback", "--trace", "/nowhere/trace.json"], "--trace /nowhere/trace.json");
}

#[test]
fn a_device_is_read_and_written() {
    let seen = json(&["mmio", "--platform", "icx-e810"]);
    let seen = seen.as_array().expect("a list");
    let of = |access: &str, size: u64, key: &str| {
        let one = seen.iter().find(|m| m["access"] == access && m["size"] == size);
        one.and_then(|m| m[key].as_f64()).unwrap_or_else(|| panic!("{access} {size}"))
    };
    assert!((900.0..1100.0).contains(&of("read", 8, "ns")));
    // 24 write-combining buffers (figure 3).
    let stores = |n| of("stores to lines of the device", n, "ns");
    assert!(stores(24) < 20.0 && stores(32) > 15.0 * stores(24));
    let device = |barrier| of("write to the device, write-combining", barrier, "gbytes_per_s");
    assert!(device(4096) > 3.0 * device(256));
    refused(&["mmio"], "has no PCIe link; choose a platform that has one");
}
