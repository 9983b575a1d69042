//! `ccnic apply`, `ccnic config` and `ccnic port` with a switch in a thread of the test, whose configuration can change.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ccnicd::config::{Config, Running};
use common::TestNic;
use serde_json::{Value, json};

/// A switch with a socket beside files.
struct Rig {
    _nic: TestNic,
    directory: tempfile::TempDir,
}

const FILE: &str = "wire = 'switch'\n[[port]]\nkind = 'pcap'\nname = 'record=RECORD'\n";

impl Rig {
    /// With this file.
    fn start(file: &str) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.toml");
        std::fs::write(&path, file.replace("RECORD", text(&directory.path().join("a")))).unwrap();
        let flags = format!("socket = '{}'", text(&directory.path().join("nic.sock")));
        let flags = Config::parse(Path::new("flags"), flags).unwrap();
        let running = Running::new(flags, Some(Config::read(&path).unwrap()));
        Rig { _nic: TestNic::configured(running), directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `ccnic` with these words at this NIC.
    fn ccnic(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic"));
        command.args(args).arg("--socket").arg(self.path("nic.sock")).output().unwrap()
    }

    #[track_caller]
    fn says(&self, args: &[&str]) -> String {
        let output = self.ccnic(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[args, &["--json"]].concat())).unwrap()
    }

    #[track_caller]
    fn refused(&self, args: &[&str], expected: &[&str]) {
        let output = self.ccnic(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        expected.iter().for_each(|expected| assert!(message.contains(expected), "{args:?}: {message}"));
    }

    /// The names of its ports.
    fn ports(&self) -> Vec<String> {
        let rows = self.json(&["port", "list"]);
        let open = |row: &&Value| row["id"].is_u64();
        let rows = rows.as_array().unwrap().iter().filter(open);
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn ports_are_opened_changed_and_closed_and_the_configuration_can_be_kept() {
    let rig = Rig::start(FILE);
    let [first, second] = ["a", "b"].map(|name| format!("pcap:record={}", text(&rig.path(name))));
    assert_eq!(rig.ports(), std::slice::from_ref(&first));
    let would = rig.json(&["port", "add", &second, "vlan=10", "--check"]);
    assert_eq!((&would["opened"][0]["name"], rig.ports().len()), (&json!(second), 1));
    assert!(!rig.path("b").exists(), "nothing was opened");
    let said = rig.says(&["port", "add", &second, "vlan=10", "send.packets=1000"]);
    assert!(said.contains("policy.vlan: 10") && said.contains("Opened:"), "{said}");
    assert_eq!(rig.ports(), [first.clone(), second.clone()]);
    let set = rig.json(&["port", "set", &second, "vlan=20", "send="]);
    assert_eq!(set["governed"][0]["name"], json!(second));
    assert_eq!(set["changes"].as_array().unwrap().len(), 2, "{set}");
    let list = rig.says(&["port", "list"]);
    assert!(list.contains("vlan=20") && !list.contains("send"), "{list}");
    rig.refused(&["port", "set", &second, "vlan=4095"], &["4095 is not in 1..=4094"]);
    rig.refused(&["port", "set", &second, "rate=asap"], &["rate, loop and start are of a file"]);
    rig.refused(&["port", "add", &second], &["is given twice"]);
    rig.refused(&["port", "del", "tap:x"], &["there is no port", &first]);
    let missing = format!("pcap:{}", text(&rig.path("missing")));
    rig.refused(&["port", "add", &missing], &["missing", "No such file"]);
    assert_eq!(rig.ports(), [first, second.clone()], "what was refused has changed nothing");

    // What is printed is a file that brings it back.
    let kept = rig.path("kept.toml");
    std::fs::write(&kept, rig.says(&["config"])).unwrap();
    assert_eq!(rig.json(&["config"])["port"][1]["policy"], json!({ "vlan": 20 }));
    rig.says(&["port", "del", &second]);
    assert_eq!(rig.ports().len(), 1);
    let back = rig.json(&["apply", text(&kept)]);
    assert_eq!((&back["opened"][0]["name"], rig.ports().len()), (&json!(second), 2));
    assert!(rig.says(&["apply", text(&kept)]).contains("Nothing changes."));
}

#[test]
fn a_wrong_file_is_refused_whole_with_its_line() {
    let rig = Rig::start(FILE);
    let file = rig.path("wrong.toml");
    let switch = "wire = 'switch'\n";
    let cases = [
        (
            format!("{switch}[defaults]\nvlan = 4095\n"),
            // The line is shown as it stands there, with a mark under what is wrong.
            &["wrong.toml", "line 3", "\n3 | vlan = 4095\n  |        ^^^^\n", "1..=4094"][..],
        ),
        ("wire = 'loopback'\n".to_owned(), &["wire cannot change while ccnicd runs", "restart"]),
        (format!("{switch}mac-table = 7\n"), &["mac-table cannot change"]),
        (
            format!("{switch}[[port]]\nkind = 'pcap'\nname = '/nowhere/x'\n"),
            &["pcap:/nowhere/x", "No such file"],
        ),
        (format!("{switch}[defaults]\nmirror = {{ to = 'tap:x' }}\n"), &["wrong.toml, line 3", "is no port"]),
    ];
    for (wrong, expected) in cases {
        std::fs::write(&file, wrong).unwrap();
        rig.refused(&["apply", text(&file)], expected);
    }
    assert_eq!(rig.ports().len(), 1);
    rig.refused(&["apply", "/nowhere/x.toml"], &["could not read /nowhere/x.toml"]);
}

#[test]
fn a_nic_without_configuration_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let nic = TestNic::start(&directory.path().join("nic.sock"), ccnicd::dataplane::DataplaneKind::Loopback);
    let rig = Rig { _nic: nic, directory };
    rig.refused(&["config"], &["without a configuration"]);
    rig.refused(&["port", "add", "tap:x"], &["without a configuration"]);
}
