//! `ccnic flow` with a NIC in a thread of the test: what is added steers packets, is listed with its counters, and goes.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::process::{Command, Output};
use std::time::Duration;

use ccnic::Config;
use ccnic_client::{FlowRule, Nic, Pages};
use ccnicd::dataplane::DataplaneKind;
use common::TestNic;
use serde_json::Value;

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn rules_are_added_listed_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nic.sock");
    let _nic = TestNic::start(&path, DataplaneKind::Loopback);
    let flow = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic"));
        command.arg("flow").args(words.split(' ')).arg("--socket").arg(&path).output().unwrap()
    };
    let config = Config { ring: 64, buffers: 64, queues: 2, ..Config::default() };
    let mut program = Nic::options().name("kv").config(&config).pages(Pages::Small).open(&path).unwrap();
    let mut pairs = [program.queue_pair(0).unwrap(), program.queue_pair(1).unwrap()];
    program.flow_create(&FlowRule::default()).unwrap();
    let id = program.status().unwrap().programs[0].id;

    let added = json(&flow("add kv --ether-type 0x88b5 --queue 1 --mark 5 --json"));
    assert_eq!((&added["program"], &added["id"]), (&id.into(), &2_147_483_648_u64.into()));
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let mut burst = ccnic_client::Burst::new();
    assert_eq!(pairs[0].tx_small(60, [(&frame[..], 0)].into_iter(), &mut burst), 1);
    pairs[1].wait(Duration::from_secs(60)).unwrap();
    assert_eq!(pairs[1].rx_small(1, |_, _, meta| assert_eq!(meta, 1 << 40 | 5 << 16)).unwrap(), 1);

    let rules = json(&flow("list --json"));
    let rules: Vec<_> =
        rules.as_array().unwrap().iter().map(|r| (&r["by"], &r["packets"], &r["name"])).collect();
    assert_eq!(
        rules,
        [(&"program".into(), &0.into(), &"kv".into()), (&"operator".into(), &1.into(), &"kv".into())]
    );
    let text = String::from_utf8(flow(&format!("list {id}")).stdout).unwrap();
    assert!(text.contains("kv: type 0x88b5") && text.contains("queue 1"), "{text}");

    for (words, why) in [
        ("add kv --queue 2", "to is queue 2; the program has queues 0 to 1"),
        ("add kv --dst-port 5 --drop", "dst_port is 5 without a protocol"),
        ("add nobody --drop", "there is no program \"nobody\"; `ccnic status`"),
        ("del kv 0", "flow rule 0 is the program's own"),
        ("del kv 7", "there is no flow rule 7"),
        ("list nobody", "there is no program \"nobody\""),
    ] {
        let output = flow(words);
        let said = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        assert!(output.status.code() == Some(2) && said.contains(why), "{words}: {said}");
    }
    assert!(flow("del kv 2147483648").status.success());
    assert!(flow("add kv --drop").status.success() && flow("del kv --all").status.success());
    let left = json(&flow("list kv --json"));
    assert_eq!((left.as_array().unwrap().len(), &left[0]["by"]), (1, &"program".into()));
}
