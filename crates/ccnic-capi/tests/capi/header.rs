//! The headers compile alone, in C and in C++; the library exports exactly the functions that they declare; their structures have
//! the library's layout.

use std::collections::BTreeSet;
use std::mem::{offset_of, size_of};
use std::process::Command;

use ccnic_capi::{
    CcnicBuf, CcnicFlowRule, CcnicNicOptions, CcnicNicStats, CcnicOptions, CcnicProgramInfo, CcnicRss,
    CcnicSegment, CcnicStats,
};

use crate::build::{PRIVATE, cc, here, library, run};

#[test]
fn each_header_compiles_alone() {
    let directory = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(here("include")).unwrap() {
        let name = file.unwrap().file_name();
        let source = directory.path().join(&name).with_extension("c");
        std::fs::write(&source, format!("#include <{}>\nint ccnic_unused;\n", name.to_str().unwrap()))
            .unwrap();
        run(cc().arg("-fsyntax-only").arg(&source));
    }
}

#[test]
fn the_headers_compile_together_and_twice_as_c_and_as_cpp() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("alone.c");
    std::fs::write(
        &source,
        "#include <ccnic.h>\n#include <ccnic_nic.h>\n#include <ccnic.h>\nint ccnic_unused;\n",
    )
    .unwrap();
    run(cc().arg("-fsyntax-only").arg(&source));
    let mut cpp = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    if cpp.arg("--version").output().is_err() {
        println!("skipped: no C++ compiler");
        return;
    }
    let mut cpp = Command::new(cpp.get_program());
    cpp.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c++", "-I"]);
    run(cpp.arg(here("include")).arg(&source));
}

/// Names of functions that the headers declare and do not define.
fn declared() -> BTreeSet<String> {
    let files = std::fs::read_dir(here("include")).unwrap();
    let header: String = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let lines = header.lines().filter(|line| line.ends_with(");") && !line.starts_with([' ', '\t', '#']));
    let name = |line: &str| line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap().to_owned();
    lines.map(name).collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let library = library().join("libccnic.so");
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let symbols = String::from_utf8(output.stdout).unwrap();
    let (versions, functions): (Vec<_>, Vec<_>) =
        symbols.lines().map(|line| line.split(' ').skip(1).collect::<Vec<_>>()).partition(|l| l[0] == "A");
    assert_eq!(versions, [["A", "CCNIC_0.1"]]);
    let version =
        |symbol: &[&str]| symbol[1].split_once("@@").map(|(name, v)| (name.to_owned(), v.to_owned()));
    let exported: BTreeSet<_> = functions.iter().map(|s| version(s).unwrap()).collect();
    assert_eq!(exported, declared().into_iter().map(|name| (name, "CCNIC_0.1".to_owned())).collect());
    assert!(exported.len() >= 32 && functions.iter().all(|symbol| symbol[0] == "T"));
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library)).stdout;
    assert!(String::from_utf8_lossy(&dynamic).contains("soname: [libccnic.so.0]"));
}

#[test]
fn the_pkg_config_file_names_what_a_static_program_needs() {
    let file = std::fs::read_to_string(here("ccnic.pc.in")).unwrap();
    assert!(file.lines().any(|line| line == format!("Libs.private: {}", PRIVATE.join(" "))));
}

#[test]
fn every_function_has_a_man_page() {
    for name in declared() {
        let group =
            run(Command::new("grep").args(["-rl", &format!("^\\.Nm {name}\\b")]).arg(here("man"))).stdout;
        assert!(!group.is_empty(), "{name}");
    }
}

#[test]
fn structures_are_the_same_on_both_sides() {
    let fields = |name: &str, of: &[(&str, usize)]| -> String {
        let checks = of.iter().map(|(field, at)| {
            format!("_Static_assert(offsetof(struct {name}, {field}) == {at}, \"{name}.{field}\");\n")
        });
        checks.collect()
    };
    let size =
        |name: &str, bytes: usize| format!("_Static_assert(sizeof(struct {name}) == {bytes}, \"{name}\");\n");
    let text = [
        "#include <ccnic_nic.h>\n".to_owned(),
        size("ccnic_buf", size_of::<CcnicBuf>()),
        fields("ccnic_buf", &[("offset", 0), ("len", 4), ("flags", 6), ("meta", offset_of!(CcnicBuf, meta))]),
        size("ccnic_options", size_of::<CcnicOptions>()),
        fields(
            "ccnic_options",
            &[
                ("name", offset_of!(CcnicOptions, name)),
                ("design", offset_of!(CcnicOptions, design)),
                ("flags", offset_of!(CcnicOptions, flags)),
                ("queues", offset_of!(CcnicOptions, queues)),
                ("ring", offset_of!(CcnicOptions, ring)),
                ("buffers", offset_of!(CcnicOptions, buffers)),
                ("mtu", offset_of!(CcnicOptions, mtu)),
                ("pages", offset_of!(CcnicOptions, pages)),
                ("mac", offset_of!(CcnicOptions, mac)),
            ],
        ),
        size("ccnic_stats", size_of::<CcnicStats>()),
        fields(
            "ccnic_stats",
            &[
                ("tx_packets", offset_of!(CcnicStats, tx_packets)),
                ("tx_bytes", offset_of!(CcnicStats, tx_bytes)),
                ("rx_packets", offset_of!(CcnicStats, rx_packets)),
                ("rx_bytes", offset_of!(CcnicStats, rx_bytes)),
                ("tx_ring_full", offset_of!(CcnicStats, tx_ring_full)),
                ("alloc_failed", offset_of!(CcnicStats, alloc_failed)),
                ("tx_bad_buffer", offset_of!(CcnicStats, tx_bad_buffer)),
                ("tx_bad_packet", offset_of!(CcnicStats, tx_bad_packet)),
                ("free_bad_buffer", offset_of!(CcnicStats, free_bad_buffer)),
                ("rx_bad_descriptor", offset_of!(CcnicStats, rx_bad_descriptor)),
                ("rx_bad_chain", offset_of!(CcnicStats, rx_bad_chain)),
                ("rx_dropped", offset_of!(CcnicStats, rx_dropped)),
                ("rx_too_long", offset_of!(CcnicStats, rx_too_long)),
                ("rx_too_few_entries", offset_of!(CcnicStats, rx_too_few_entries)),
                ("rx_no_buffer", offset_of!(CcnicStats, rx_no_buffer)),
            ],
        ),
        size("ccnic_rss", size_of::<CcnicRss>()),
        fields(
            "ccnic_rss",
            &[
                ("types", offset_of!(CcnicRss, types)),
                ("flags", offset_of!(CcnicRss, flags)),
                ("key", offset_of!(CcnicRss, key)),
                ("table", offset_of!(CcnicRss, table)),
            ],
        ),
        size("ccnic_flow_rule", size_of::<CcnicFlowRule>()),
        fields(
            "ccnic_flow_rule",
            &[
                ("priority", offset_of!(CcnicFlowRule, priority)),
                ("match", offset_of!(CcnicFlowRule, fields)),
                ("dst_mac", offset_of!(CcnicFlowRule, dst_mac)),
                ("src_mac", offset_of!(CcnicFlowRule, src_mac)),
                ("src_ip", offset_of!(CcnicFlowRule, src_ip)),
                ("dst_ip", offset_of!(CcnicFlowRule, dst_ip)),
                ("vlan", offset_of!(CcnicFlowRule, vlan)),
                ("ether_type", offset_of!(CcnicFlowRule, ether_type)),
                ("src_port", offset_of!(CcnicFlowRule, src_port)),
                ("dst_port", offset_of!(CcnicFlowRule, dst_port)),
                ("queue", offset_of!(CcnicFlowRule, queue)),
                ("mark", offset_of!(CcnicFlowRule, mark)),
                ("flags", offset_of!(CcnicFlowRule, flags)),
                ("protocol", offset_of!(CcnicFlowRule, protocol)),
                ("target", offset_of!(CcnicFlowRule, target)),
                ("reserved", offset_of!(CcnicFlowRule, reserved)),
            ],
        ),
        size("ccnic_nic_options", size_of::<CcnicNicOptions>()),
        fields(
            "ccnic_nic_options",
            &[
                ("name", offset_of!(CcnicNicOptions, name)),
                ("flags", offset_of!(CcnicNicOptions, flags)),
                ("node", offset_of!(CcnicNicOptions, node)),
                ("region_max", offset_of!(CcnicNicOptions, region_max)),
                ("memory_max", offset_of!(CcnicNicOptions, memory_max)),
            ],
        ),
        size("ccnic_program_info", size_of::<CcnicProgramInfo>()),
        fields(
            "ccnic_program_info",
            &[
                ("name", offset_of!(CcnicProgramInfo, name)),
                ("pid", offset_of!(CcnicProgramInfo, pid)),
                ("design", offset_of!(CcnicProgramInfo, design)),
                ("queues", offset_of!(CcnicProgramInfo, queues)),
                ("ring", offset_of!(CcnicProgramInfo, ring)),
                ("buffers", offset_of!(CcnicProgramInfo, buffers)),
                ("mtu", offset_of!(CcnicProgramInfo, mtu)),
                ("flags", offset_of!(CcnicProgramInfo, flags)),
                ("mac", offset_of!(CcnicProgramInfo, mac)),
            ],
        ),
        size("ccnic_segment", size_of::<CcnicSegment>()),
        fields(
            "ccnic_segment",
            &[
                ("data", offset_of!(CcnicSegment, data)),
                ("meta", offset_of!(CcnicSegment, meta)),
                ("len", offset_of!(CcnicSegment, len)),
                ("flags", offset_of!(CcnicSegment, flags)),
            ],
        ),
        size("ccnic_nic_stats", size_of::<CcnicNicStats>()),
        fields(
            "ccnic_nic_stats",
            &[
                ("rx_packets", offset_of!(CcnicNicStats, rx_packets)),
                ("rx_bytes", offset_of!(CcnicNicStats, rx_bytes)),
                ("tx_packets", offset_of!(CcnicNicStats, tx_packets)),
                ("tx_bytes", offset_of!(CcnicNicStats, tx_bytes)),
                ("rx_bad_descriptor", offset_of!(CcnicNicStats, rx_bad_descriptor)),
                ("rx_bad_chain", offset_of!(CcnicNicStats, rx_bad_chain)),
                ("rx_too_long", offset_of!(CcnicNicStats, rx_too_long)),
                ("rx_dropped_close", offset_of!(CcnicNicStats, rx_dropped_close)),
                ("tx_ring_full", offset_of!(CcnicNicStats, tx_ring_full)),
                ("tx_no_buffer", offset_of!(CcnicNicStats, tx_no_buffer)),
                ("tx_bad_buffer", offset_of!(CcnicNicStats, tx_bad_buffer)),
                ("tx_bad_packet", offset_of!(CcnicNicStats, tx_bad_packet)),
                ("free_bad_buffer", offset_of!(CcnicNicStats, free_bad_buffer)),
                ("alloc_failed", offset_of!(CcnicNicStats, alloc_failed)),
            ],
        ),
    ];
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("layout.c");
    std::fs::write(&source, text.concat()).unwrap();
    run(cc().arg("-fsyntax-only").arg(&source));
}
