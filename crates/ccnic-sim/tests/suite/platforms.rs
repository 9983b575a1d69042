//! Built-in platforms are consistent; an invalid file is refused with an error that names the key and the remedy.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use ccnic_sim::platform::{Platform, PlatformError};
use toml::{Table, Value};

fn text(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../platforms/{name}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The file with every table.
fn full() -> Table {
    text("icx-e810").parse().unwrap()
}

fn parse(file: &Table) -> Result<Platform, PlatformError> {
    Platform::parse(&toml::to_string(file).unwrap(), "mine.toml")
}

/// Every value of a file: dotted key and its entry.
fn entries(table: &Table, at: &str, found: &mut Vec<(String, Table)>) {
    for (key, value) in table {
        let Value::Table(inner) = value else { continue };
        let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        if inner.contains_key("source") {
            found.push((at, inner.clone()));
        } else {
            entries(inner, &at, found);
        }
    }
}

fn all_entries(table: &Table) -> Vec<(String, Table)> {
    let mut found = Vec::new();
    entries(table, "", &mut found);
    found
}

/// The table that holds the last part of a dotted key, and that part.
fn parent<'t, 'k>(file: &'t mut Table, key: &'k str) -> (&'t mut Table, &'k str) {
    let (way, last) = key.rsplit_once('.').unwrap_or(("", key));
    let parts = way.split('.').filter(|part| !part.is_empty());
    (parts.fold(file, |table, part| table[part].as_table_mut().unwrap()), last)
}

fn set(file: &mut Table, key: &str, value: Value) {
    let (table, last) = parent(file, key);
    table.insert(last.into(), value);
}

fn remove(file: &mut Table, key: &str) {
    let (table, last) = parent(file, key);
    table.remove(last).unwrap();
}

fn unit(entry: &Table) -> &str {
    entry.keys().find(|key| !["source", "assumed", "fitted"].contains(&key.as_str())).unwrap()
}

/// Refused because of `key`; the message names the file, the key, a remedy and everything in `words`.
fn complaint(error: PlatformError, key: &str, words: &[&str]) {
    let message = error.to_string();
    assert_eq!(error.key(), Some(key), "{message}");
    for word in [&["mine.toml", key, "; "], words].concat() {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
}

fn refused(file: &Table, key: &str, words: &[&str]) {
    complaint(parse(file).expect_err(key), key, words);
}

/// The full file with one value changed is refused because of the value `at`.
fn refused_with(key: &str, value: f64, at: &str, words: &[&str]) {
    let platform = parse(&full()).unwrap();
    complaint(platform.overridden(key, value).expect_err(at), at, words);
}

#[test]
fn built_in_platforms_load() {
    for name in Platform::names() {
        let platform = Platform::named(name).unwrap();
        assert_eq!(platform.name, *name);
        assert_eq!(platform, Platform::parse(&text(name), &format!("platforms/{name}.toml")).unwrap());
    }
    assert!(parse(&full()).is_ok());
}

/// Every file in `platforms/` is built in.
#[test]
fn every_file_is_built_in() {
    let files = std::fs::read_dir(format!("{}/../../platforms", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut files: Vec<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().into()).collect();
    let mut names: Vec<String> = Platform::names().iter().map(|name| name.to_string()).collect();
    files.retain(|file| file != "instructions"); // the code's, not a platform's
    // Other machines': see bus.rs and pio.rs.
    files.retain(|file| !["cni-1996", "enzian", "pio-pc"].contains(&file.as_str()));
    files.sort();
    names.sort();
    assert_eq!(files, names);
}

#[test]
fn paths_add_up_to_the_targets() {
    for name in Platform::names() {
        let platform = Platform::named(name).unwrap();
        let targets = &platform.targets;
        assert!(targets.local_hitm.is_some(), "{name} has nothing to be compared with");
        for (what, sum, target) in [
            ("local hitm", Some(platform.local_hitm_ns()), &targets.local_hitm),
            ("local memory", Some(platform.local_memory_ns()), &targets.local_memory),
            ("remote memory", platform.remote_memory_ns(), &targets.remote_memory),
            ("writer-homed", platform.remote_hitm_writer_homed_ns(), &targets.remote_hitm_writer_homed),
            ("reader-homed", platform.remote_hitm_reader_homed_ns(), &targets.remote_hitm_reader_homed),
        ] {
            let Some(target) = target else { continue };
            let error = sum.unwrap() / target.get() - 1.0;
            println!(
                "{name:15} {what:13} {:6.1} of {:6.1} ns {:+.1} %",
                sum.unwrap(),
                target.get(),
                100.0 * error
            );
            assert!(error.abs() <= 0.03, "{name}: {what} adds up to {sum:?}, target {}", target.get());
        }
    }
}

/// The sums in the documentation of `Path`, repeated here.
#[test]
fn paths_are_the_documented_sums() {
    let platform = Platform::named("icx").unwrap();
    let path = &platform.path;
    let [miss, mesh, lookup] = [path.miss.get(), path.mesh.get(), path.lookup.get()];
    let [data, snoop, fill] = [path.llc_data.get(), path.snoop.get(), path.fill.get()];
    let [memory, link] = [platform.memory.latency.get(), platform.link.as_ref().unwrap().one_way.get()];
    let near =
        |sum: f64, parts: &[f64]| assert!((sum - parts.iter().sum::<f64>()).abs() < 1e-9, "{sum} {parts:?}");
    near(platform.local_hitm_ns(), &[miss, mesh, lookup, mesh, snoop, mesh, fill]);
    near(platform.llc_hit_ns(), &[miss, mesh, lookup, data, mesh, fill]);
    near(platform.local_memory_ns(), &[miss, mesh, lookup, memory, mesh, fill]);
    let remote = [miss, mesh, lookup, link, lookup, mesh, snoop, mesh, link, mesh, fill];
    near(platform.remote_hitm_writer_homed_ns().unwrap(), &remote);
    let extra = [&remote[..], &[path.home_extra.get()]].concat();
    near(platform.remote_hitm_reader_homed_ns().unwrap(), &extra);
    let far = [miss, mesh, lookup, link, lookup, memory, link, mesh, fill];
    near(platform.remote_memory_ns().unwrap(), &far);
    let one = Platform::named("spr-one-socket").unwrap();
    assert_eq!((one.remote_memory_ns(), one.remote_hitm_reader_homed_ns()), (None, None));
}

/// A link's throughput, in lines of 64 bytes, is what the paper measured, or at most 2 % more.
#[test]
fn links_carry_what_was_measured() {
    for name in ["icx", "spr"] {
        let platform = Platform::named(name).unwrap();
        let link = platform.link.unwrap();
        let gbit = link.rate.get() / f64::from(link.data_flits.get()) * 512.0;
        let target = platform.targets.remote_read_rate.unwrap().get();
        assert!((1.0..1.02).contains(&(gbit / target)), "{name}: {gbit} of {target} Gbit/s");
    }
}

/// The file of a PCIe NIC describes the same machine as the machine's own file.
#[test]
fn variants_share_their_machine() {
    let alike = |name: &str, other: &str, keys: &[&str]| {
        let [one, other]: [Table; 2] = [name, other].map(|name| text(name).parse().unwrap());
        for key in keys {
            assert_eq!(one[*key], other[*key], "{name}: {key}");
        }
    };
    let machine =
        ["core", "l1", "l2", "llc", "path", "memory", "protocol", "prefetch", "software", "targets", "link"];
    alike("icx-e810", "icx", &machine);
    alike("icx-cx6", "icx", &machine);
    alike("icx-cx6", "icx-e810", &["pcie"]);
    alike("cxl", "spr", &["core", "l1", "l2", "llc", "path", "memory", "prefetch", "software"]);
}

#[test]
fn values_keep_their_source_and_marks() {
    let icx = Platform::named("icx").unwrap();
    assert_eq!(icx.core.frequency.get(), 3.1);
    assert_eq!(icx.core.rob.get(), 352);
    assert!(icx.core.rob.assumed() && !icx.core.rob.fitted());
    assert!(icx.path.mesh.fitted() && !icx.path.mesh.assumed());
    assert!(icx.prefetch.host.ip.get() && !icx.prefetch.nic.ip.get());
    assert!(icx.targets.local_memory.unwrap().source().contains("icelake_mlc.txt"));
    let curve = icx.memory.curve.unwrap();
    assert_eq!(curve.points()[0], [1.4, 91.2]);
    assert!(curve.source().contains("mlc 3.10"));
}

#[test]
fn names_and_files() {
    let error = Platform::named("skylake").unwrap_err().to_string();
    assert!(Platform::names().iter().all(|name| error.contains(name)), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text("spr")).unwrap();
    assert_eq!(Platform::named(path.to_str().unwrap()).unwrap().name, "spr");
    let error = Platform::named("nowhere.toml").unwrap_err().to_string();
    assert!(error.contains("nowhere.toml") && error.contains("icx"), "{error}");
    std::fs::write(&path, " ".repeat(2 << 20)).unwrap();
    assert!(Platform::load(&path).unwrap_err().to_string().contains("larger"));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(Platform::load(&path).unwrap_err().to_string().contains("mine.toml"));
    let error = Platform::parse("[core]\nrob = {", "mine.toml").unwrap_err();
    assert!(
        error.to_string().contains("mine.toml: not TOML") && error.to_string().contains("line 2"),
        "{error}"
    );
    assert_eq!(error.key(), None);
}

/// Optional values and tables.
fn optional(key: &str) -> bool {
    key.starts_with("targets.") || ["memory.curve", "device"].contains(&key)
}

#[test]
fn every_missing_value_is_named() {
    let mut keys: Vec<String> = all_entries(&full()).into_iter().map(|(key, _)| key).collect();
    keys.extend(full().keys().cloned());
    keys.extend(
        ["link.kind", "device.kind", "protocol.kind", "prefetch.host", "prefetch.nic"].map(String::from),
    );
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
    "core.mispredict", "path.home_extra", "link.spare_slots", "device.pipeline", "device.packet", "device.doorbell", "device.fetch",
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
    for key in ["name", "about", "link.kind", "device.kind", "protocol.kind"] {
        let mut file = full();
        set(&mut file, key, Value::String(String::new()));
        refused(&file, key, &["is empty"]);
        set(&mut file, key, Value::Integer(3));
        refused(&file, key, &["not a text"]);
    }
    for (key, known) in [("link.kind", "upi, cxl"), ("device.kind", "e810, cx6"), ("protocol.kind", "mesif")]
    {
        let mut file = full();
        set(&mut file, key, Value::String("token ring".into()));
        refused(&file, key, &["token ring", known]);
    }
    let mut file = full();
    set(&mut file, "core", Value::Integer(3));
    refused(&file, "core", &["is not a table"]);
}

#[test]
fn impossible_cores_and_caches() {
    refused_with("topology.host_cores", 128.0, "topology.host_cores", &["129 cores", "128"]);
    refused_with("topology.nic_cores", 113.0, "topology.host_cores", &["129 cores"]);
    for (key, value) in [
        ("core.width", 17.0),
        ("core.rob", 5000.0),
        ("core.load_queue", 2000.0),
        ("core.store_queue", 2000.0),
        ("core.fill_buffers", 2000.0),
        ("core.super_queue", 2000.0),
        ("core.wc_buffers", 2000.0),
        ("link.data_flits", 65.0),
        ("link.slots_per_flit", 65.0),
        ("device.descriptor", 257.0),
    ] {
        refused_with(key, value, key, &["more than"]);
    }
    for level in ["l1", "l2", "llc"] {
        refused_with(&format!("{level}.ways"), 11.0, &format!("{level}.size"), &["11 ways", "lines"]);
    }
    // Sets need not be a power of two.
    assert!(parse(&full()).unwrap().overridden("llc.size", 3.0 * 37.0).is_ok());
}

#[test]
fn latencies_out_of_order() {
    refused_with("l1.latency", 5.0, "l2.latency", &["l1.latency of 5 ns"]);
    refused_with("l2.latency", 1.6, "l2.latency", &["l1.latency"]);
    complaint(
        parse(&full()).unwrap().overridden("l2.latency", 60.0).unwrap_err(),
        "path.llc_data",
        &["l2.latency of 60 ns", "llc_data"],
    );
    refused_with("memory.latency", 4.0, "memory.latency", &["path.llc_data"]);
    refused_with("targets.remote_memory", 80.0, "targets.remote_memory", &["89.2"]);
    refused_with("targets.remote_hitm_writer_homed", 50.0, "targets.remote_hitm_writer_homed", &["59.8"]);
    refused_with("targets.remote_hitm_reader_homed", 50.0, "targets.remote_hitm_reader_homed", &["59.8"]);
    refused_with("pcie.mmio_read_line", 900.0, "pcie.mmio_read_line", &["pcie.mmio_read of 982 ns"]);
    let one = Platform::parse(&text("spr-one-socket"), "mine.toml").unwrap();
    let key = "targets.word_rtt_separate";
    complaint(one.overridden(key, 120.0).unwrap_err(), key, &["word_rtt_shared of 130 ns"]);
}

#[test]
fn links_and_sockets_agree() {
    refused_with("topology.same_socket", 1.0, "link", &["same_socket is true", "remove [link]"]);
    refused_with("link.spare_slots", 3.0, "link.spare_slots", &["3 slots"]);
    for key in ["remote_memory", "remote_hitm_writer_homed", "remote_hitm_reader_homed", "remote_read_rate"] {
        let key = format!("targets.{key}");
        let unit = if key.ends_with("rate") { "gbit_per_s" } else { "ns" };
        let mut file: Table = text("spr-one-socket").parse().unwrap();
        let target: Table = format!("{unit} = 500\nsource = \"a guess\"").parse().unwrap();
        set(&mut file, &key, target.into());
        refused(&file, &key, &["no other socket"]);
    }
}

#[test]
fn impossible_devices() {
    refused_with("pcie.ddio_ways", 13.0, "pcie.ddio_ways", &["12 ways"]);
    for (key, value) in [
        ("pcie.payload", 96.0),
        ("pcie.payload", 64.0),
        ("pcie.read_request", 300.0),
        ("pcie.read_request", 8192.0),
        ("pcie.completion_boundary", 32.0),
    ] {
        refused_with(key, value, key, &["powers of two"]);
    }
    refused_with("pcie.tlp_share", 1.1, "pcie.tlp_share", &["between"]);
    // The measured totals must exceed the sum of their parts.
    refused_with("pcie.dma_write", 29.0, "pcie.dma_write", &["29.6 ns", "caches"]);
    refused_with("pcie.dma_read", 330.0, "pcie.dma_read", &["dma_write"]);
    refused_with("pcie.posted_write", 220.0, "pcie.posted_write", &["dma_read"]);
    refused_with("pcie.posted_accept", 150.0, "pcie.posted_accept", &["root complex and back"]);
    refused_with("pcie.mmio_read", 600.0, "pcie.mmio_read", &["posted_write"]);
    refused_with("pcie.tags", 70000.0, "pcie.tags", &["65536"]);
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

#[test]
fn overriding() {
    let icx = Platform::named("icx").unwrap();
    let slow = icx.overridden("link.one_way", 30.0).unwrap();
    let one_way = &slow.link.as_ref().unwrap().one_way;
    assert!(one_way.get() == 30.0 && !one_way.fitted());
    assert!(one_way.source().contains("21.5") && one_way.source().contains("fitted to"), "{one_way:?}");
    assert_eq!(slow.remote_memory_ns().unwrap() - icx.remote_memory_ns().unwrap(), 17.0);
    let both = slow.overridden("core.fill_buffers", 8.0).unwrap().overridden("prefetch.nic.ip", 1.0).unwrap();
    assert_eq!((both.core.fill_buffers.get(), both.prefetch.nic.ip.get()), (8, true));
    assert_eq!(both.link.unwrap().one_way.get(), 30.0);

    for (key, value, words) in [
        ("link.one_way", f64::NAN, "NaN"),
        ("link.rate", 0.0, "is zero"),
        ("core.fill_buffers", 8.5, "whole"),
        ("core.fill_buffers", 1e300, "whole"),
        ("prefetch.nic.ip", 2.0, "0 or 1"),
        ("memory.curve", 2.0, "not one number"),
        ("link", 2.0, "not one number"),
        ("link.one_day", 2.0, "one_way"),
        ("lnk.one_way", 2.0, "link"),
        ("link.one_way.ns", 2.0, "without its unit"),
        ("link.kind", 2.0, "one_way"),
        ("name", 2.0, "link"),
        ("", 2.0, "link"),
    ] {
        let error = icx.overridden(key, value).unwrap_err();
        assert_eq!(error.key(), Some(key), "{error}");
        assert!(error.to_string().contains("icx.toml") && error.to_string().contains(words), "{error}");
    }
}

/// A device is described by what its data sheet says.
#[test]
fn a_link_by_its_data_sheet() {
    let cxl = Platform::named("cxl").unwrap();
    let far = cxl.overridden("link.remote_memory_ns", 250.0).unwrap();
    assert!((far.remote_memory_ns().unwrap() - 250.0).abs() < 1e-9);
    let slow = cxl.overridden("link.gbytes_per_s", 40.0).unwrap();
    let link = slow.link.as_ref().unwrap();
    assert!((link.rate.get() / f64::from(link.data_flits.get()) * 64.0 - 40.0).abs() < 1e-9);
    assert!(cxl.overridden("link.remote_memory_ns", 50.0).is_err(), "below local memory");
    assert!(Platform::named("spr-one-socket").unwrap().overridden("link.gbytes_per_s", 40.0).is_err());
}

#[test]
fn every_platform_prints_as_the_file_that_it_is() {
    for name in Platform::names() {
        let text = Platform::text(name).unwrap();
        assert_eq!(
            Platform::parse(&text, "printed.toml").unwrap().entries(),
            Platform::named(name).unwrap().entries()
        );
    }
    assert!(Platform::text("icy").is_err());
}
