//! A value alone: one that is missing, misspelt, in another unit, without its source or senseless is refused with its key and a remedy.

use toml::{Table, Value};

use super::{all_entries, full, parse, refused, remove, set, unit};

/// Optional values and tables.
fn optional(key: &str) -> bool {
    key.starts_with("targets.") || ["memory.curve", "device", "snoop_filter"].contains(&key)
}

#[test]
fn every_missing_value_is_named() {
    let mut keys: Vec<String> = all_entries(&full()).into_iter().map(|(key, _)| key).collect();
    keys.extend(full().keys().cloned());
    keys.extend(["device.kind", "protocol.kind", "prefetch.host", "prefetch.nic"].map(String::from));
    for key in keys {
        let mut file = full();
        remove(&mut file, &key);
        match key.as_str() {
            key if optional(key) => assert!(parse(&file).is_ok(), "{key}"),
            "link" => refused(&file, "link", &["same_socket"]),
            "pcie" => refused(&file, "device", &["without a [pcie]"]),
            key => refused(&file, key, &["is missing"]),
        }
    }
}

#[test]
fn every_unknown_key_is_named() {
    let mut tables: Vec<String> =
        full().into_iter().filter(|(_, v)| v.is_table()).map(|(key, _)| key).collect();
    tables.extend(all_entries(&full()).into_iter().map(|(key, _)| key));
    tables.push("prefetch.host".into());
    for table in tables {
        let mut file = full();
        let key = format!("{table}.latencyy");
        set(&mut file, &key, Value::Integer(1));
        refused(&file, &key, &["is unknown"]);
    }
    let mut file = full();
    set(&mut file, "linc", Value::Integer(1));
    refused(&file, "linc", &["is unknown", "link"]);
}

#[test]
fn every_wrong_unit_is_named() {
    for (key, entry) in all_entries(&full()) {
        if key == "memory.curve" {
            continue;
        }
        let right = unit(&entry).to_string();
        let wrong = if right == "ns" { "ghz" } else { "ns" };
        let mut file = full();
        set(&mut file, &format!("{key}.{wrong}"), Value::Integer(1));
        refused(&file, &key, &[&format!("`{wrong}`"), &format!("wants `{right}`")]);
        remove(&mut file, &format!("{key}.{right}"));
        refused(&file, &key, &[&format!("`{wrong}`"), &format!("wants `{right}`")]);
        remove(&mut file, &format!("{key}.{wrong}"));
        refused(&file, &key, &[&format!("no value in `{right}`")]);
        set(&mut file, &key, Value::Float(3.5));
        refused(&file, &key, &["neither unit nor source", &format!("{{ {right} = ..., source = \"...\" }}")]);
        set(&mut file, &key, entry.into());
        set(&mut file, &format!("{key}.{right}"), Value::String("3".into()));
        refused(&file, &key, &[if right == "on" { "neither true nor false" } else { "number" }]);
    }
}

#[test]
fn every_source_and_mark_is_checked() {
    for (key, _) in all_entries(&full()) {
        let source = format!("{key}.source");
        let mut file = full();
        set(&mut file, &source, Value::String(" ".into()));
        refused(&file, &source, &["is empty"]);
        set(&mut file, &source, Value::Integer(1));
        refused(&file, &source, &["not a text"]);
        remove(&mut file, &source);
        refused(&file, &key, &["has no source"]);
        if key == "memory.curve" {
            continue;
        }
        for mark in ["assumed", "fitted"] {
            let mut file = full();
            set(&mut file, &format!("{key}.{mark}"), Value::String("yes".into()));
            refused(&file, &format!("{key}.{mark}"), &["neither true nor false"]);
        }
    }
}

/// What may be zero is little, and listed here once more.
#[rustfmt::skip]
const FREE: &[&str] = &[
    "core.mispredict", "path.home_extra", "link.spare_slots", "device.pipeline", "device.packet",
    "device.segment", "device.doorbell", "device.fetch",
];

#[test]
fn every_senseless_number_is_named() {
    for (key, entry) in all_entries(&full()) {
        let unit = unit(&entry).to_string();
        if key == "memory.curve" || unit == "on" {
            continue;
        }
        let with = |value: Value| {
            let mut file = full();
            set(&mut file, &format!("{key}.{unit}"), value);
            file
        };
        if FREE.contains(&key.as_str()) {
            assert!(parse(&with(Value::Integer(0))).is_ok(), "{key}");
        } else {
            refused(&with(Value::Integer(0)), &key, &["is zero"]);
        }
        refused(&with(Value::Integer(-1)), &key, &["is negative"]);
        refused(&with(Value::Integer(i64::MAX)), &key, &["no machine"]);
        if ["count", "kib", "bytes"].contains(&unit.as_str()) {
            refused(&with(Value::Float(2.5)), &key, &["whole"]);
            continue;
        }
        refused(&with(Value::Float(f64::NAN)), &key, &["NaN"]);
        refused(&with(Value::Float(f64::INFINITY)), &key, &["inf"]);
        refused(&with(Value::Float(f64::NEG_INFINITY)), &key, &["inf"]);
        refused(&with(Value::Float(-0.5)), &key, &["is negative"]);
        refused(&with(Value::Float(1e-300)), &key, &["no machine"]);
    }
}

#[test]
fn texts_are_checked() {
    for key in ["name", "about", "device.kind", "protocol.kind"] {
        let mut file = full();
        set(&mut file, key, Value::String(String::new()));
        refused(&file, key, &["is empty"]);
        set(&mut file, key, Value::Integer(3));
        refused(&file, key, &["not a text"]);
    }
    for (key, known) in [("device.kind", "e810, cx6"), ("protocol.kind", "mesif")] {
        let mut file = full();
        set(&mut file, key, Value::String("token ring".into()));
        refused(&file, key, &["token ring", known]);
    }
    let mut file = full();
    set(&mut file, "core", Value::Integer(3));
    refused(&file, "core", &["is not a table"]);
}

#[test]
fn crooked_curves() {
    let with = |points: &str| {
        let mut file = full();
        let points: Table = format!("x = {points}").parse().unwrap();
        set(&mut file, "memory.curve.gbytes_per_s_ns", points["x"].clone());
        file
    };
    for (points, words) in [
        ("[[1.0, 90.0]]", "fewer than two"),
        ("[]", "fewer than two"),
        ("[[1.0, 90.0], [1.0, 95.0]]", "does not ascend"),
        ("[[2.0, 90.0], [1.0, 95.0]]", "does not ascend"),
        ("[[1.0, 90.0], [2.0, 85.0]]", "does not ascend"),
    ] {
        refused(&with(points), "memory.curve", &[words]);
    }
    for points in
        ["3", "[3, 4]", "[[1, nan], [2, 3]]", "[[0, 90], [1, 95]]", "[[1, 2, 3], [2, 3, 4]]", "[[1, 'x']]"]
    {
        refused(&with(points), "memory.curve.gbytes_per_s_ns", &["[GB/s, ns]"]);
    }
}
