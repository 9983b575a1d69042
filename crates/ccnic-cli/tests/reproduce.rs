//! `ccnic reproduce` and `ccnic explore`: what they leave behind, and what bad options get.

#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn ccnic(args: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic"));
    command.args(args).arg("--out").arg(out).output().expect("ccnic starts")
}

#[track_caller]
fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[track_caller]
fn is_a_picture(stem: &Path) {
    let svg = text(&stem.with_extension("svg"));
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains("<text"), "no text: is the font there?");
    let png = std::fs::read(stem.with_extension("png")).expect("a PNG");
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().expect("its header");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut pixels).expect("its pixels");
    let inked = pixels.iter().filter(|p| **p < 0x80).count();
    assert!((pixels.len() / 200..pixels.len() / 2).contains(&inked), "{inked} of {}", pixels.len());
}

#[test]
fn a_figure_of_the_cni_paper_is_reproduced() {
    let out = tempfile::tempdir().expect("a folder");
    let run = ccnic(&["reproduce", "cni-6"], out.path());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    is_a_picture(&out.path().join("figure-cni-6"));
    let page = text(&out.path().join("index.html"));
    assert!(page.contains("CNI figure 6") && page.contains("Coherent network interfaces of 1996"), "{page}");
    let verdicts: Vec<Value> = serde_json::from_str(&text(&out.path().join("summary.json"))).expect("JSON");
    assert!(verdicts.len() >= 10 && verdicts.iter().all(|v| v["simulated"].is_number()), "{verdicts:?}");
}

/// A value of every platform can be changed, and one that a platform lacks is refused.
#[test]
fn figures_of_changed_machines() {
    let median = |changes: &[&str]| {
        let out = tempfile::tempdir().expect("a folder");
        let run = ccnic(&[&["reproduce", "7", "--json"], changes].concat(), out.path());
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let page = text(&out.path().join("index.html"));
        assert_eq!(
            page.contains("with link.one_way=200"),
            !changes.is_empty(),
            "the page says what is changed"
        );
        let verdicts: Vec<Value> = serde_json::from_slice(&run.stdout).expect("JSON");
        let of = verdicts.iter().find(|v| v["statement"] == "N6-spr").expect("its statement");
        of["simulated"].as_f64().expect("a number")
    };
    assert!(median(&["--set", "link.one_way=200"]) > 2.0 * median(&[]), "a line of the other socket");
    let out = tempfile::tempdir().expect("a folder");
    let run = ccnic(&["reproduce", "7", "--set", "link.one_wey=200"], out.path());
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && error.contains("link.one_wey"), "{error}");
}

#[test]
fn the_figures_on_programmed_io_are_reproduced() {
    let out = tempfile::tempdir().expect("a folder");
    let run = ccnic(&["reproduce", "pio"], out.path());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    for figure in ["1", "5", "6", "8", "9", "10"] {
        is_a_picture(&out.path().join(format!("figure-pio-{figure}")));
    }
    let page = text(&out.path().join("index.html"));
    assert!(page.contains("PIO figure 10") && page.contains("Coherent programmed I/O"), "{page}");
    let verdicts: Vec<Value> = serde_json::from_str(&text(&out.path().join("summary.json"))).expect("JSON");
    assert!(verdicts.iter().all(|v| v["simulated"].is_number()), "{verdicts:?}");
    let of = |kind: &str| verdicts.iter().filter(|v| v["calibration"] == kind).collect::<Vec<_>>();
    // What was fitted comes out; what was not, may not.
    assert!(of("calibrated").iter().all(|v| v["within"] == true), "{:?}", of("calibrated"));
    assert!(of("predicted").len() >= 15, "{:?}", of("predicted"));
}

#[test]
fn small_figures_are_reproduced() {
    let out = tempfile::tempdir().expect("a folder");
    let run = ccnic(&["reproduce", "17", "7", "--quick"], out.path());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    for stem in ["figure-17", "figure-7"] {
        is_a_picture(&out.path().join(stem));
        let csv = text(&out.path().join(stem).with_extension("csv"));
        let columns: Vec<usize> = csv.lines().map(|line| line.split('"').count()).collect();
        assert!(csv.lines().count() > 8 && columns[1..].iter().all(|n| *n == 3), "{csv}");
    }
    let summary: Value = serde_json::from_str(&text(&out.path().join("summary.json"))).expect("JSON");
    let statements = summary.as_array().expect("a list");
    assert_eq!(statements.len(), 22);
    for statement in statements {
        for key in ["figure", "statement", "published", "simulated", "error", "calibration"] {
            assert!(statement.get(key).is_some_and(|v| !v.is_null()), "{key} in {statement}");
        }
        assert!(statement["within"].is_null(), "--quick judges nothing: {statement}");
    }
    let page = text(&out.path().join("index.html"));
    assert_eq!(page.matches("<svg").count(), 2);
    assert_eq!(page.matches("</tr>").count(), 22 + 2);
    assert!(page.contains("calibrated") && page.contains("predicted") && page.contains("own"));
}

#[test]
fn a_plan_of_ones_own() {
    let out = tempfile::tempdir().expect("a folder");
    let plan = out.path().join("mine.toml");
    let text = r#"
        id = "mine/1"
        title = "Two <b> bursts"
        cites = "nobody"
        about = "a test"
        panel = [{ id = "p", title = "t", kind = "lines", x = { label = "x", log = true }, y = { label = "y", metric = "mpps" } }]
        [[series]]
        id = "a"
        panel = "p"
        label = "A & B"
        kind = "loopback"
        platform = "icx"
        design = "ccnic"
        over = "burst"
        values = [1, 8]
        [[statement]]
        id = "more"
        text = "more is more"
        section = "1"
        ours = "at(a.mpps, 8) > at(a.mpps, 1)"
        tolerance = "order"
    "#;
    std::fs::write(&plan, text).expect("a plan");
    let file = plan.to_str().expect("a path");
    let run = ccnic(&["reproduce", file, "--quick"], out.path());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(String::from_utf8_lossy(&run.stdout).contains("1 statements not judged"));
    is_a_picture(&out.path().join("figure-mine-1"));
    let page = std::fs::read_to_string(out.path().join("index.html")).expect("the page");
    assert!(page.contains("Two &lt;b&gt; bursts") && !page.contains("<b> bursts"));

    for (from, to, expected) in [
        ("panel = \"p\"", "panel = \"q\"", "series a: there is no panel \"q\""),
        ("values = [1, 8]", "", "takes either values or variants"),
        ("over = \"burst\"", "", "add over"),
        ("a.mpps, 8", "b.mpps, 8", "statement more: there is no series \"b\""),
        ("at(a.mpps, 8)", "most(a.mpps)", "peak, least, at, reach"),
        ("design = \"ccnic\"", "desing = \"ccnic\"", "desing"),
        ("design = \"ccnic\"", "design = \"e1000\"", "e1000"),
    ] {
        std::fs::write(&plan, text.replace(from, to)).expect("a plan");
        let run = ccnic(&["reproduce", file, "--quick"], out.path());
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{to}: {message}");
        assert!(message.contains("mine.toml") && message.contains(expected), "{to}: {message}");
    }
}

#[test]
fn figures_that_are_not_there() {
    let out = tempfile::tempdir().expect("a folder");
    let listed = ccnic(&["reproduce", "list"], out.path());
    let list = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.status.success() && list.contains("14b") && list.contains("cores"), "{list}");
    for (figure, expected) in [("99", "there is no figure 99"), ("none.toml", "none.toml")] {
        let run = ccnic(&["reproduce", figure], out.path());
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

const SHORT: [&str; 7] = ["explore", "--platform", "icx", "--micros", "10", "--warmup", "10"];

#[test]
fn one_thing_varied_and_two() {
    let out = tempfile::tempdir().expect("a folder");
    for (sweeps, points) in [
        (&["--sweep", "link.one_way=20:80:3"][..], 3),
        (&["--sweep", "burst=1,16", "--sweep", "link.one_way=20:80:2", "--metric", "p50"][..], 4),
    ] {
        let run = ccnic(&[&SHORT[..], &["--designs", "ccnic,padded"], sweeps].concat(), out.path());
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        is_a_picture(&out.path().join("explored"));
        let csv = text(&out.path().join("explored.csv"));
        assert_eq!(csv.lines().count(), 1 + 2 * points, "{csv}");
        assert!(String::from_utf8_lossy(&run.stdout).contains("best"));
    }
}

#[test]
fn sweeps_that_cannot_be() {
    let out = tempfile::tempdir().expect("a folder");
    for (sweep, expected) in [
        (&["--sweep", "size"][..], "--sweep size: write KEY=FROM:TO:HOW-MANY"),
        (&["--sweep", "link.color=1,2"], "link.color"),
        (&["--sweep", "size=4,8"], "--size is 4; choose 16 to 9600"),
        (&["--sweep", "cores=1,17"], "--cores is 17, icx has 16 and 16; choose 1 to 16"),
        (&["--sweep", "size=64:128:999", "--sweep", "burst=1,2"], "choose at most 1000"),
        (&["--sweep", "size=64", "--sweep", "burst=1", "--sweep", "cores=1"], "3 times; choose one or two"),
        (&[], "--sweep"),
    ] {
        let run = ccnic(&[&SHORT[..], sweep].concat(), out.path());
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{sweep:?}: {message}");
        assert!(message.contains(expected), "{sweep:?}: {message}");
    }
}

/// Published systems instead of designs: which one wins, by the size of messages and the link's latency.
#[test]
fn systems_over_sizes_and_link_latencies() {
    let out = tempfile::tempdir().expect("a folder");
    let systems =
        ["explore", "--systems", "ccnic,cni512q,e810@icx-e810", "--platform", "icx", "--metric", "p50"];
    let sweeps = ["--sweep", "size=64,1500", "--sweep", "link.one_way=20,320"];
    let run = ccnic(&[&systems[..], &sweeps].concat(), out.path());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    is_a_picture(&out.path().join("explored"));
    let svg = text(&out.path().join("explored.svg"));
    for axis in ["packet size [bytes]", "link.one_way [ns]"] {
        assert!(svg.contains(axis), "{axis}");
    }
    let csv = text(&out.path().join("explored.csv"));
    assert_eq!(csv.lines().count(), 1 + 3 * 4, "{csv}");
    let trip = |size: &str, way: &str, system: &str| -> f64 {
        let start = format!("{size},{way},{system},");
        let line = csv.lines().find(|line| line.starts_with(&start)).expect("a line");
        line.split(',').nth(5).and_then(|field| field.parse().ok()).expect("a time")
    };
    // The device on PCIe does not hear of the link; the others' messages cross it.
    assert_eq!(trip("64", "20", "e810"), trip("64", "320", "e810"));
    for system in ["ccnic", "cni512q"] {
        assert!(trip("64", "320", system) > trip("64", "20", system) + 1000.0, "{csv}");
    }
    for (more, expected) in [
        (&["--sweep", "cores=1,2"][..], "vary size or a platform's value"),
        (&["--sweep", "memory_bus.load=1,2"], "--sweep memory_bus.load: icx"),
        (&["--sweep", "size=4,64"], "16 to 9600 bytes, not 4"),
        (&["--sweep", "size=64", "--burst", "2"], "--burst"),
        (&["--sweep", "size=64", "--systems", "ni2w"], "ni2w cannot be on icx"),
    ] {
        let run = ccnic(&[&systems[..], more].concat(), out.path());
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{more:?}: {message}");
        assert!(message.contains(expected), "{more:?}: {message}");
    }
}
