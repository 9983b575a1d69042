//! Rules between values.

use ccnic_sim::platform::Platform;
use toml::Table;

use super::{complaint, full, parse, refused, refused_with, remove, set, text};

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
        ("link.spare_slots", 65.0),
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
fn impossible_slices() {
    let filter = Platform::parse(&text("spr-filter"), "mine.toml").unwrap();
    for (key, value, words) in [
        ("llc.slices", 2000.0, ["2000", "more than 1024"]),
        ("llc.slices", 57.0, ["57", "114688 sets"]),
        ("snoop_filter.sets", 20_000.0, ["20000", "more than"]),
        ("snoop_filter.ways", 65.0, ["65", "more than 64"]),
    ] {
        complaint(filter.overridden(key, value).unwrap_err(), key, &words);
    }
    let mut file: Table = text("spr-filter").parse().unwrap();
    remove(&mut file, "llc.slices");
    refused(&file, "snoop_filter", &["no slices", "add llc.slices"]);
    remove(&mut file, "snoop_filter");
    assert_eq!(parse(&file).unwrap().snoop_filter, None);
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
