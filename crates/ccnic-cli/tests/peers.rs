//! `ccnic bench peers` with generators that are scripts: what it makes of results, refusals, failures and
//! damage. (The generator itself is tested where DPDK is: `make dpdk-peers-smoke`.)

#![allow(clippy::unwrap_used, reason = "a test")]

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// `bench peers` over net_memif with a script as generator; `None` on machines with one CPU, where there is
/// nothing to run.
fn peers(script: &str) -> Option<Output> {
    peers_by("memif", script, |_| ())
}

/// The same by these drivers, with what `prepare` adds to the command.
fn peers_by(drivers: &str, script: &str, prepare: impl FnOnce(&mut Command)) -> Option<Output> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: one CPU only");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("ccnic-peers");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic"));
    command.args(["bench", "peers", "--drivers", drivers, "--size", "64", "--inflight", "1,64", "--json"]);
    command.args(["--repeat", "3", "--seconds", "0.01", "--program"]).arg(&program);
    prepare(&mut command);
    Some(command.output().unwrap())
}

/// Our own driver is what the comparison is about: without it, others are measured, and it fails.
#[test]
fn a_plugin_that_is_missing_is_a_failure() {
    let lines = script(&(run(1, "1.5", 0) + &run(64, "9.5", 0)));
    let directory = tempfile::tempdir().unwrap();
    // A copy of the command in a folder where nothing has been built.
    let copy = directory.path().join("ccnic");
    std::fs::copy(env!("CARGO_BIN_EXE_ccnic"), &copy).unwrap();
    let here = |command: &mut Command| {
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        *command = Command::new(&copy);
        command.args(args);
    };
    let Some(output) = peers_by("ccnic,memif", &lines, here) else { return };
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let folder = directory.path().join("dpdk").display().to_string();
    assert!(
        said(&output).contains("librte_net_ccnic.so in ") && said(&output).contains(&folder),
        "{}",
        said(&output)
    );
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rows[0]["skipped"].as_str().unwrap().contains(&folder), "{rows}");
    assert_eq!(rows[2]["mpps"], 1.5, "{rows}");
    // One that EAL does not load.
    let open = directory.path().join("open");
    std::fs::create_dir_all(open.join("plugins")).unwrap();
    std::fs::write(open.join("plugins/librte_net_ccnic.so"), "").unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let plugins = open.join("plugins");
    let Some(output) = peers_by("ccnic", &lines, |command| _ = command.arg("--plugins").arg(&plugins)) else {
        return;
    };
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let expected = ["EAL loads no plugin below", "where everybody may write", "/opt/ccnic"];
    expected.iter().for_each(|expected| assert!(said(&output).contains(expected), "{}", said(&output)));
}

/// A NIC side that waits to be told to end, and a generator that says `lines`.
fn script(lines: &str) -> String {
    format!(
        "case \"$*\" in\n*--reflect*) echo '{{\"ready\":true}}'; trap 'exit 0' TERM; while :; do sleep 0.02; done;;\nesac\n{lines}"
    )
}

fn run(inflight: usize, mpps: &str, corrupt: u64) -> String {
    format!(
        "echo '{{\"inflight\":{inflight},\"mpps\":{mpps},\"rtt_p50_ns\":500,\"rtt_p99_ns\":900,\"lost\":2,\"corrupt\":{corrupt}}}'\n"
    )
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn results_become_rows() {
    let Some(output) = peers(&script(&(run(1, "1.5", 0) + &run(64, "9.5", 0)))) else { return };
    assert!(output.status.success(), "{}", said(&output));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&rows[0]["driver"], &rows[0]["mpps"]), (&"memif".into(), &1.5.into()));
    assert_eq!((&rows[0]["runs"], &rows[0]["lost"]), (&3.into(), &6.into()));
    assert_eq!((&rows[1]["inflight"], &rows[1]["mpps"]), (&64.into(), &9.5.into()));
}

#[test]
fn damage_is_a_failure() {
    let Some(output) = peers(&script(&(run(1, "1.5", 0) + &run(64, "9", 1)))) else { return };
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn what_a_driver_cannot_do_is_a_row() {
    let Some(output) = peers("echo '{\"unsupported\":\"too long for it\"}'") else { return };
    assert!(output.status.success(), "{}", said(&output));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[1]["skipped"], "too long for it");
}

#[test]
fn a_generator_that_fails_says_why() {
    let failures = [
        ("echo no such device >&2; exit 3".to_owned(), "no such device"),
        (script("echo half a result; exit 1"), "no result: half a result"),
        (script("echo out of mbufs >&2; exit 1"), "out of mbufs"),
        (script(&run(1, "1.5", 0)), "only 1 results"),
    ];
    for (script, why) in failures {
        let Some(output) = peers(&script) else { return };
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert!(
            said(&output).contains("memif failed at 64 B") && said(&output).contains(why),
            "{}",
            said(&output)
        );
    }
}
