//! `ccnic bench apps` with servers and a generator that are scripts: which rows it measures, which it leaves out and why, and what it
//! ends with.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The generator: makes the socket that it is told to listen at, and reports.
const LOAD: &str = r#"while [ $# -gt 0 ]; do
    if [ "$1" = --as-nic ]; then : > "$2"; fi
    shift
done
echo '{"requests_per_s":2000000,"answered":1000,"latency_ns":{"p50":5000,"p99":9000},"lost":0,"unsent":0,"refused":0,"server_stats":{}}'"#;

/// A server that waits until it is ended; it has no kernel sockets.
const KV: &str = r#"case "$*" in *-U*--ccnic*) exec sleep 600;; esac
echo 'no kernel here' >&2
exit 3"#;

/// `bench apps --json` of these servers, in a folder with `ccnic` and programs of this text only, where no memcached is found.
fn apps(servers: Option<&str>, load: &str) -> Output {
    // A file that another thread's child still has open for writing cannot be executed.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let within = |name: &str| directory.path().join(name);
    std::fs::copy(env!("CARGO_BIN_EXE_ccnic"), within("ccnic")).unwrap();
    let script = |name: &str, text: &str| {
        std::fs::write(within(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(within(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("ccnic-kv", KV);
    script("ccnic-kv-load", load);
    std::fs::create_dir(within("bin")).unwrap();
    let sleep = ["/usr/bin/sleep", "/bin/sleep"].into_iter().find(|path| Path::new(path).exists());
    std::os::unix::fs::symlink(sleep.unwrap(), within("bin/sleep")).unwrap();
    let mut command = Command::new(within("ccnic"));
    command.args(["bench", "apps", "--workloads", "ads", "--rounds", "2", "--seconds", "0.01", "--json"]);
    command.args(servers.map(|servers| format!("--servers={servers}")));
    command.env("PATH", within("bin")).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Server, protocol, and why it was left out, of each row.
fn rows(output: &Output) -> Vec<(String, String, Option<String>)> {
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let word = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    rows.iter()
        .map(|row| (word(&row["server"]).unwrap(), word(&row["protocol"]).unwrap(), word(&row["skipped"])))
        .collect()
}

#[test]
fn what_was_asked_for_and_is_there_is_measured() {
    let output = apps(Some("ccnic"), LOAD);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let expected = ["rpc", "udp"].map(|protocol| ("ccnic".to_owned(), protocol.to_owned(), None));
    assert_eq!(rows(&output), expected);
}

#[test]
fn a_server_that_was_named_and_is_not_there_is_a_failure() {
    for (servers, why) in [("ccnic,memif", "make dpdk-kv"), ("ccnic,memcached", "memcached is not installed")]
    {
        let output = apps(Some(servers), LOAD);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let name = servers.strip_prefix("ccnic,").unwrap();
        let warning = format!("{name}: SKIPPED, ");
        assert!(said(&output).contains(&warning) && said(&output).contains(why), "{}", said(&output));
        let rows = rows(&output);
        let is_left_out =
            |row: &&(String, _, Option<String>)| row.2.as_ref().is_some_and(|said| said.contains(why));
        assert!(rows.iter().filter(|row| row.2.is_none()).count() == 2, "{rows:?}");
        assert!(rows.iter().filter(|row| row.0 == name).all(|row| is_left_out(&row)), "{rows:?}");
        assert!(rows.iter().any(|row| row.0 == name), "{rows:?}");
    }
}

#[test]
fn a_row_that_fails_is_named_and_others_are_measured() {
    let output = apps(Some("ccnic,kernel"), LOAD);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    for expected in ["ads, kernel, udp failed: ", "no kernel here"] {
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
    let rows = rows(&output);
    let failed = |row: &(String, String, Option<String>)| {
        row.0 == "kernel"
            && row.2.as_ref().is_some_and(|why| why.contains("ended at once: its message is above"))
    };
    assert_eq!((rows.len(), rows.iter().filter(|row| failed(row)).count()), (4, 2), "{rows:?}");
    assert!(rows.iter().all(|row| failed(row) || row.2.is_none()), "{rows:?}");
    // A generator that fails says why.
    let output = apps(
        Some("e810"),
        "while [ $# -gt 0 ]; do if [ \"$1\" = --as-nic ]; then : > \"$2\"; fi; shift; done; echo silent store >&2; exit 2",
    );
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("silent store"), "{}", said(&output));
}

/// Of all servers, those are measured that there are; the others are named. Here one fails, too.
#[test]
fn without_names_what_is_not_there_is_only_said() {
    let output = apps(None, LOAD);
    let left_out: Vec<String> =
        rows(&output).into_iter().filter(|row| row.2.is_some()).map(|row| row.0).collect();
    assert_eq!(left_out, ["net_ccnic", "vhost", "memif", "kernel", "kernel", "memcached", "memcached"]);
    for name in ["net_ccnic", "vhost", "memif", "memcached"] {
        assert!(said(&output).contains(&format!("{name}: SKIPPED, ")), "{}", said(&output));
    }
    assert_eq!(output.status.code(), Some(1), "kernel failed");
}
