//! The daemon with a configuration file: what programs get of it, what is refused, and what it prints about itself.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::cell::RefCell;
use std::path::Path;
use std::process::{Command, Output};

use ccnic::Design;
use ccnic_client::{Nic, Pages};
use ccnic_control::Connection;
use common::station::{BROADCAST, Station, mac, reach};
use common::{Daemon, alone, config, file, two_cores, until};
use rustix::process::{Signal, kill_process};

fn ccnicd(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ccnicd")).args(args).output().unwrap()
}

thread_local! {
    /// For `--cores`: one polling thread, unless a test says otherwise.
    static CORES: RefCell<String> = const { RefCell::new(String::new()) };
}

fn start(file: &Path, socket: &Path) -> Daemon {
    start_with(file, socket, &[])
}

fn start_with(file: &Path, socket: &Path, more: &[&str]) -> Daemon {
    CORES.with_borrow(|cores| {
        let cores: &[&str] = if cores.is_empty() { &[] } else { &["--cores", cores] };
        Daemon::start_configured(file, socket, &[cores, more].concat())
    })
}

/// Policies, and a file that is read again, with two polling threads.
#[test]
fn on_two_cores() {
    CORES.set(two_cores());
    programs_get_the_policy_of_their_name_and_user();
    a_file_is_read_again();
}

#[test]
fn files_are_checked_and_the_schema_is_printed_without_starting_anything() {
    let (_directory, file, socket) = file("wire = 'switch'\nmac-table = 0\n");
    let args = ["--config", file.to_str().unwrap(), "--socket", socket.to_str().unwrap()];
    for output in [ccnicd(&args), ccnicd(&[&args[..], &["--check-config"]].concat())] {
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        for expected in ["nic.toml", "line 2", "mac-table = 0", "0 is not in 1..=1048576"] {
            assert!(message.contains(expected), "{message}");
        }
    }
    std::fs::write(&file, "wire = 'switch'\n").unwrap();
    let output = ccnicd(&[&args[..], &["--check-config", "--mac-table", "7"]].concat());
    assert!(output.status.success() && String::from_utf8(output.stdout).unwrap().contains("can be used"));
    assert!(!socket.exists());
    let schema: serde_json::Value = serde_json::from_slice(&ccnicd(&["--config-schema"]).stdout).unwrap();
    assert!(schema["properties"]["mac-table"].is_object());
}

/// What `--check-config --json` prints, and its status.
fn checked(args: &[&str]) -> (Option<i32>, serde_json::Value) {
    let output = ccnicd(&[args, &["--check-config", "--json"]].concat());
    assert!(output.stderr.is_empty(), "{output:?}");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn what_a_check_finds_is_json_if_that_is_asked_for() {
    let (_directory, file, socket) = file("");
    let name = file.to_str().unwrap();
    let args = ["--socket", socket.to_str().unwrap(), "--config", name];
    assert_eq!(checked(&args), (Some(0), serde_json::json!({ "usable": true, "errors": [] })));
    for (text, line, key, message) in [
        ("wire = 'switch'\nmac-table = 0\n", 2, "mac-table", "0 is not in 1..=1048576"),
        ("wire = 'switch'\n\nmac-tabel = 7\n", 3, "mac-tabel", "unknown field"),
        ("wire = 'switch'\n[defaults]\nvlan = 4095\n", 3, "vlan", "4095 is not in 1..=4094"),
        ("\ncores = [0, 99999]\n", 2, "cores", "CPU 99999 is none"),
        ("memory-max = 64\nuser-memory = 65\n", 2, "user-memory", "cannot be reached"),
        ("[[program]]\n[[program]]\nname = 'web'\n", 2, "program", "never counts"),
        ("wire = 'switch'\n[[port]]\nkind = 'xdp'\nname = 'missing0'\n", 2, "port", "missing0"),
        ("wire = \n", 1, "wire", ""),
    ] {
        std::fs::write(&file, text).unwrap();
        let (status, said) = checked(&args);
        let error = &said["errors"][0];
        assert_eq!((status, &said["usable"]), (Some(2), &false.into()), "{text}");
        assert_eq!(
            (&error["file"], &error["line"], &error["key"]),
            (&name.into(), &line.into(), &key.into()),
            "{said}"
        );
        assert!(error["message"].as_str().unwrap().contains(message), "{said}");
        assert!(!error["message"].as_str().unwrap().contains(name), "{said}");
    }
    // Flags have no line, nor has a file that is not there.
    std::fs::write(&file, "").unwrap();
    let (status, said) = checked(&[&args[..], &["--cores", "99999"]].concat());
    let error = &said["errors"][0];
    assert_eq!(
        (status, &error["file"], &error["line"], &error["key"]),
        (Some(2), &().into(), &().into(), &"cores".into()),
        "{said}"
    );
    std::fs::remove_file(&file).unwrap();
    let (status, said) = checked(&args);
    let error = &said["errors"][0];
    assert_eq!((status, &error["file"], &error["line"]), (Some(2), &name.into(), &().into()), "{said}");
    // It is of a check only.
    assert_eq!(ccnicd(&["--json"]).status.code(), Some(2));
}

/// What is wrong with a file is found by a check and by a start alike, and said in the same words: file, line, key, value, remedy.
#[test]
fn a_check_refuses_what_a_start_refuses() {
    let _alone = alone();
    let (directory, file, socket) = file("");
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("text"), "no packets").unwrap();
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let switch = |text: &str| format!("wire = 'switch'\n{text}");
    let port = |text: &str| switch(&format!("[[port]]\n{text}"));
    let files = [
        ("cores = [0, 99999]".to_owned(), "line 1: cores = [0, 99999]: CPU 99999"),
        ("\ncores = [0, 0]".into(), "line 2: cores = [0, 0]: CPU 0 is named twice"),
        (switch("tuning = 'idle=jump'"), "line 2: tuning = 'idle=jump': "),
        ("tuning = 'speed=1'".into(), "line 1: tuning = 'speed=1': "),
        ("log = 'loud'".into(), "line 1: log = 'loud': loud is no log filter"),
        ("log = 'warn,loud'".into(), "line 1: log = 'warn,loud': "),
        ("sleep-after = 7".into(), "line 1: sleep-after = 7: choose 100"),
        ("wire = 'switch'\nreflect = true".into(), "line 2: reflect = true is the loopback's"),
        (
            "memory-max = 64\nuser-memory = 65".into(),
            "line 2: user-memory = 65 cannot be reached: memory-max is 64",
        ),
        ("memory-max = 64\nregion-max = 65".into(), "line 2: region-max = 65 cannot be reached"),
        ("user-memory = 64\nregion-max = 65".into(), "line 2: region-max = 65 cannot be reached"),
        ("user-connections = 2\nuser-programs = 3".into(), "line 2: user-programs = 3 cannot be reached"),
        ("user-queues = 2\nuser-programs = 3".into(), "line 2: user-programs = 3 cannot be reached"),
        ("memory-max = 64\n[[program]]\nmemory = 65".into(), "line 3: memory = 65 cannot be reached"),
        ("user-memory = 64\n[[program]]\nmemory = 65".into(), "line 3: memory = 65 cannot be reached"),
        ("user = 'nobody-has-this-name'".into(), "line 1: user = 'nobody-has-this-name': there is no user"),
        ("operators = ['nobody-has-this-name']".into(), "line 1: operators = "),
        ("trusted-users = ['nobody-has-this-name']".into(), "line 1: trusted-users = "),
        ("socket-owner = 'nobody-has-this-name'".into(), "line 1: socket-owner = "),
        ("socket-group = 'no-such-group'".into(), "line 1: socket-group = "),
        ("sandbox = 'off'\nuser = '4242:4243'".into(), "line 2: user = '4242:4243': becoming another user"),
        ("metrics = '192.0.2.1:9184'".into(), "line 1: metrics = '192.0.2.1:9184': could not listen"),
        (format!("metrics = '{}'", busy.local_addr().unwrap()), "line 1: metrics = "),
        ("[[program]]\n[[program]]\nname = 'web'".into(), "line 2: program number 2 never counts: number 1"),
        (
            "[[program]]\nuser = '7'\n[[program]]\nuser = '7'\nname = 'a'".into(),
            "line 3: program number 2 never",
        ),
        (
            "[[flow]]\ndrop = true\n[[flow]]\nvlan = 1\nrss = true".into(),
            "line 3: flow number 2 is never followed",
        ),
        (
            "[[flow]]\npriority = 1\nvlan = 1\nrss = true\n[[flow]]\ndrop = true".into(),
            "flow number 1 is never",
        ),
        ("[[port]]\nkind = 'tap'\nname = 'a'".into(), "line 1: port tap:a is a port of a switch"),
        (switch(&"[[port]]\nkind = 'tap'\nname = 'a'\n".repeat(2)), "line 5: port tap:a is given twice"),
        (port("kind = 'tap'\nname = 'a'\noptions = { mtu = '9000' }"), "write mtu = 9000"),
        (port("kind = 'xdp'\nname = 'missing0'\noptions = { queues = '1' }"), "write queues = 1"),
        (port("kind = 'xdp'\nname = 'missing0'"), "line 2: port xdp:missing0: "),
        (port("kind = 'tap'\nname = 'lo'"), "line 2: port tap:lo: "),
        (port(&format!("kind = 'pcap'\nname = '{}'", at("missing"))), "line 2: port pcap:"),
        (port(&format!("kind = 'pcap'\nname = '{}'", at("text"))), "line 2: port pcap:"),
        (port(&format!("kind = 'pcap'\nname = 'record={}'", at("none/a"))), "line 2: port pcap:record="),
        (
            switch(&format!(
                "[[port]]\nkind = 'pcap'\nname = 'record={0}/twice'\n[[port]]\nkind = 'pcap'\nname = 'record={0}/./twice'",
                at("")
            )),
            "another port records in this file",
        ),
        (
            port("kind = 'xdp'\nname = 'missing0'\noptions = { helper = '/nowhere/x' }"),
            "line 2: port xdp:missing0: ",
        ),
        (switch("[defaults]\nmirror = { to = 'tap:x' }"), "line 3: mirror.to = "),
    ];
    let run = |socket: &Path, more: &[&str]| {
        let mut args = vec!["--config", file.to_str().unwrap(), "--socket", socket.to_str().unwrap()];
        args.extend(more);
        if !std::fs::read_to_string(&file).unwrap().contains("tuning") {
            args.extend(["--tuning", "default"]);
        }
        let output = ccnicd(&args);
        let said = String::from_utf8(output.stderr).unwrap();
        let last = said.lines().rev().find(|line| line.starts_with("ccnicd: ")).map(str::to_owned);
        (output.status.code(), last, said)
    };
    for (text, expected) in &files {
        std::fs::write(&file, text).unwrap();
        let (checked, said, all) = run(&socket, &["--check-config"]);
        assert_eq!(checked, Some(2), "{text}: {all}");
        assert!(all.contains("nic.toml") && all.contains(expected), "{text}: {all}");
        let of_helper = text.contains("helper"); // which is started by flags
        assert!(of_helper || !all.contains("--"), "a file is no flag: {text}: {all}");
        let (started, why, all) = run(&socket, &[]);
        assert_eq!(started, Some(2), "{text}: {all}");
        if !text.contains("kind = ") {
            assert_eq!(said, why, "{text}: {all}");
        }
    }
    let nowhere = directory.path().join("none/nic.sock");
    std::fs::write(&file, "").unwrap();
    assert_eq!(run(&nowhere, &["--check-config"]).0, Some(2));
    assert_eq!(run(&nowhere, &[]).0, Some(2));
    let record = at("recorded");
    let good = [
        String::new(),
        switch("mac-table = 7"),
        "log = 'warn,ccnicd::metrics=debug'\nsocket-mode = '0600'\nmetrics = '127.0.0.1:0'".into(),
        "[[program]]\nname = 'web'\n[[program]]\nuser = '7'\n[[program]]\nrefuse = true".into(),
        "[[flow]]\nvlan = 1\nrss = true\n[[flow]]\nqueue = 0\n[[flow]]\nvlan = 2\ndrop = true".into(),
        port(&format!("kind = 'pcap'\nname = 'record={record}'")),
        "memory-max = 64\nuser-memory = 64\nregion-max = 64".into(),
    ];
    for text in good {
        std::fs::write(&file, &text).unwrap();
        let (checked, _, all) = run(&socket, &["--check-config"]);
        assert_eq!(checked, Some(0), "{text}: {all}");
        assert!(!socket.exists() && !Path::new(&record).exists(), "a check makes nothing");
        let mut daemon = Daemon::start_configured(&file, &socket, &["--log", "error"]);
        assert_eq!(run(&socket, &["--check-config"]).0, Some(0), "while its daemon runs: {text}");
        assert!(daemon.signal(Signal::TERM).success());
        std::fs::remove_file(&socket).ok();
        std::fs::remove_file(&record).ok();
    }
}

#[test]
fn programs_get_the_policy_of_their_name_and_user() {
    let _alone = alone();
    let uid = rustix::process::geteuid().as_raw();
    let (_directory, file, socket) = file(&format!(
        "wire = 'switch'\n\
         [defaults]\nvlan = 10\n\
         [[program]]\nname = 'station 2'\npolicy = {{ vlan = 20 }}\n\
         [[program]]\nname = 'station 3'\nuser = '{uid}'\npolicy = {{ macs = ['02:00:00:00:01:03'], static = ['02:00:00:00:00:33'] }}\n\
         [[program]]\nname = 'station 4'\nuser = '{}'\nrefuse = true\n\
         [[program]]\nname = 'unwanted'\nrefuse = true\n",
        uid.wrapping_add(1)
    ));
    let mut daemon = start(&file, &socket);
    let mut stations: Vec<_> =
        (0..5).map(|n| Station::open(&socket, n, &config(Design::GroupedEpoch))).collect();
    // Station 4 is not the user that is refused. 2 is alone in its VLAN; 3 may speak as itself only.
    assert!(
        stations[0].send(BROADCAST, 100)
            && stations[2].send(BROADCAST, 100)
            && stations[3].send(BROADCAST, 100)
    );
    assert!(stations[3].send_as(BROADCAST, mac(1), 100));
    let dealt_with = |daemon: &mut Daemon, n: u8| daemon.program(&format!("station {n}")).unwrap().queues[0];
    until("all frames to be dealt with", || dealt_with(&mut daemon, 3).tx_packets == 2);
    until("all frames to be dealt with", || dealt_with(&mut daemon, 2).tx_packets == 1);
    for (at, from) in [(0, &[3][..]), (1, &[0, 3]), (2, &[]), (3, &[0]), (4, &[0, 3])] {
        let mut came = Vec::new();
        until("its frames", || {
            came.extend(stations[at].receive().iter().map(|came| came.from));
            came.len() >= from.len()
        });
        came.sort_unstable();
        assert_eq!(came, from.iter().map(|n| mac(*n)).collect::<Vec<_>>(), "at {at}");
    }
    assert_eq!(
        (dealt_with(&mut daemon, 3).drop_spoofed, dealt_with(&mut daemon, 2).drop_no_destination),
        (1, 1)
    );
    let table = Connection::open(&socket).unwrap().mac_table().unwrap();
    let fixed: Vec<_> = table.iter().filter(|known| known.fixed).collect();
    assert_eq!(
        fixed.iter().map(|known| (known.mac, known.vlan)).collect::<Vec<_>>(),
        [([2, 0, 0, 0, 0, 0x33], 10)]
    );
    assert!(table.iter().any(|known| known.mac == mac(2) && known.vlan == 20));
    let unwanted = Nic::options().name("unwanted").pages(Pages::Small).open(&socket).unwrap_err().to_string();
    assert!(unwanted.contains("refuses") && unwanted.contains("[[program]]"), "{unwanted}");
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// What has changed is applied to ports that are there; what is wrong changes nothing.
#[test]
fn a_file_is_read_again() {
    let _alone = alone();
    let (_directory, file, socket) = file("wire = 'switch'\n");
    let mut daemon = start_with(&file, &socket, &["--log", "info"]);
    let mut stations: Vec<_> =
        (0..4).map(|n| Station::open(&socket, n, &config(Design::GroupedEpoch))).collect();
    let reload = |daemon: &Daemon, text: &str, says: &str| {
        let before = daemon.log().matches(says).count();
        std::fs::write(&file, text).unwrap();
        kill_process(daemon.pid(), Signal::HUP).unwrap();
        until("the file to be read", || daemon.log().matches(says).count() > before);
    };
    let (applied, refused) = ("has been applied", "stays as it was");
    reach(&mut daemon, &mut stations, 0, &[1, 2, 3]);
    let split = "wire = 'switch'\n[[program]]\nname = 'station 1'\npolicy = { vlan = 10 }\n\
                 [[program]]\nname = 'station 2'\npolicy = { vlan = 10 }\n";
    reload(&daemon, split, applied);
    reach(&mut daemon, &mut stations, 1, &[2]);
    reach(&mut daemon, &mut stations, 0, &[3]);
    for wrong in ["wire = 'switch'\nvlan = 1\n", "wire = 'loopback'\n", "wire = 'switch'\nmac-table = 7\n"] {
        reload(&daemon, wrong, refused);
        reach(&mut daemon, &mut stations, 1, &[2]);
    }
    assert!(daemon.log().contains("mac-table cannot change while ccnicd runs"), "{}", daemon.log());
    reload(&daemon, &format!("{split}[[program]]\nname = 'station 3'\nrefuse = true\n"), applied);
    until("the program to be told", || !stations[3].nic.alive());
    until("its port to go", || daemon.program("station 3").is_none());
    stations.pop();
    reload(&daemon, "wire = 'switch'\n", applied);
    reach(&mut daemon, &mut stations, 1, &[0, 2]);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}
