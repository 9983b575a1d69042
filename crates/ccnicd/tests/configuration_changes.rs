//! A configuration that an operator changes over the control socket while programs go on; and the client in docs/control-protocol.md.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use ccnic::Design;
use ccnic_control::Connection;
use ccnic_control::messages::{Applied, PortAdd, PortDel, Request};
use common::station::{Station, reach};
use common::{Daemon, alone, config, file, until};
use tempfile::TempDir;

/// A daemon with this file, where it is and where its socket is. Ports may record there.
fn start(text: &str) -> (TempDir, PathBuf, Daemon) {
    let (directory, file, socket) = file(text);
    let later = directory.path().to_str().unwrap();
    let daemon = Daemon::start_configured(&file, &socket, &["--later-paths", later, "--log", "info"]);
    (directory, socket, daemon)
}

#[track_caller]
fn apply(socket: &Path, text: &str) -> Applied {
    Connection::open(socket).unwrap().apply("nic.toml", text, false).unwrap()
}

fn names(list: &[ccnic_control::messages::Affected]) -> Vec<&str> {
    list.iter().map(|one| one.name.as_str()).collect()
}

#[test]
fn the_difference_is_applied_and_who_is_not_concerned_does_not_notice() {
    let _alone = alone();
    let (directory, socket, mut daemon) = start("wire = 'switch'\n");
    let mut stations: Vec<_> =
        (0..4).map(|n| Station::open(&socket, n, &config(Design::GroupedEpoch))).collect();
    for from in 0..4 {
        let to: Vec<usize> = (0..4).filter(|to| *to != from).collect();
        reach(&mut daemon, &mut stations, from, &to);
    }
    let known = |of: u8| {
        let table = Connection::open(&socket).unwrap().mac_table().unwrap();
        table.iter().any(|known| known.mac == common::station::mac(of))
    };
    let split = "wire = 'switch'\n[[program]]\nname = 'station 1'\npolicy = { vlan = 10 }\n\
                 [[program]]\nname = 'station 2'\npolicy = { vlan = 10 }\n";
    let checked = Connection::open(&socket).unwrap().apply("nic.toml", split, true).unwrap();
    assert!(known(1), "a check changes nothing");
    let applied = apply(&socket, split);
    assert_eq!(applied, checked);
    assert_eq!(names(&applied.governed), ["station 1", "station 2"]);
    assert!(applied.detached.is_empty() && applied.opened.is_empty());
    assert!(known(0) && known(3) && !known(1), "addresses of who is not concerned stay");
    reach(&mut daemon, &mut stations, 1, &[2]);
    reach(&mut daemon, &mut stations, 0, &[3]);

    // A port that only records takes no privileges; those of the switch see nothing of it but that it is there.
    let record = format!("pcap:record={}", directory.path().join("all.pcapng").display());
    let add = PortAdd { port: record.clone(), ..PortAdd::default() };
    let connection = Connection::open(&socket).unwrap();
    let applied = connection.change(&Request::PortAdd(add.clone())).unwrap();
    assert_eq!(names(&applied.opened), [record.as_str()]);
    let id = applied.opened[0].id;
    reach(&mut daemon, &mut stations, 0, &[3]);
    until("the port to get it", || daemon.program(&record).unwrap().queues[0].rx_packets == 1);
    let del = |name: &str| Request::PortDel(PortDel { name: name.to_owned(), check: false });
    assert_eq!(names(&connection.change(&del(&record)).unwrap().closed), [record.as_str()]);
    assert!(daemon.program(&record).is_none());
    let again = connection.change(&Request::PortAdd(add)).unwrap();
    assert!(again.opened[0].id > id && daemon.program(&record).unwrap().id > id, "an id is used once");
    connection.change(&del(&record)).unwrap();
    let why = connection.change(&del(&record)).unwrap_err().to_string();
    assert!(why.contains("there is no port") && why.contains("there is none"), "{why}");

    // What is wrong changes nothing; a program that is refused goes.
    for (wrong, expected) in [
        ("wire = 'switch'\nvlan = 1\n", "nic.toml is not used"),
        ("wire = 'loopback'\n", "wire cannot change"),
        ("", "wire cannot change"),
    ] {
        let why = connection.apply("nic.toml", wrong, false).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
        reach(&mut daemon, &mut stations, 1, &[2]);
    }
    let log = daemon.log();
    let (port, file) = ("refused to close a port: ", "refused a configuration: ");
    assert!(log.contains(port) && log.contains(file) && !log.contains("refused a program"), "{log}");
    let applied = apply(&socket, &format!("{split}[[program]]\nname = 'station 3'\nrefuse = true\n"));
    assert_eq!(names(&applied.detached), ["station 3"]);
    until("the program to be told", || !stations[3].nic.alive());
    until("its port to go", || daemon.program("station 3").is_none());
    stations.pop();
    apply(&socket, "wire = 'switch'\n");
    reach(&mut daemon, &mut stations, 1, &[0, 2]);
    assert!(stations.iter().all(|station| station.nic.alive()));
    assert!(daemon.log().contains("an operator has changed the configuration"), "{}", daemon.log());
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn only_operators_read_and_change_it() {
    let _alone = alone();
    for (operators, allowed) in
        [("[]".to_owned(), false), (format!("['{}']", rustix::process::geteuid()), true)]
    {
        let (_directory, socket, mut daemon) = start(&format!("wire = 'switch'\noperators = {operators}\n"));
        let connection = Connection::open(&socket).unwrap();
        let text = format!("wire = 'switch'\noperators = {operators}\n[defaults]\nvlan = 7\n");
        let (applied, read) = (connection.apply("nic.toml", &text, false), connection.config());
        assert_eq!((applied.is_ok(), read.is_ok()), (allowed, allowed));
        if let Err(why) = applied {
            assert!(why.to_string().contains("--operators"), "{why}");
        }
        daemon.status();
    }
}

/// As other languages do it.
#[test]
fn the_client_of_the_documentation_works() {
    let _alone = alone();
    let (directory, socket, _daemon) = start("wire = 'switch'\n[defaults]\nstorm = 1000\n");
    let _stations: Vec<_> =
        (0..2).map(|n| Station::open(&socket, n, &config(Design::GroupedEpoch))).collect();
    let document = include_str!("../../../docs/control-protocol.md");
    let program = document.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let file = directory.path().join("client.py");
    std::fs::write(&file, program).unwrap();
    let output = match Command::new("python3").arg(&file).arg(&socket).output() {
        Ok(output) => output,
        Err(e) => return println!("skipped: python3: {e}"),
    };
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{wrong}");
    for expected in
        ["protocol 1\n", " 'station 0' 0\n", " 'station 1' 0\n", "wire = \"switch\"\n", "storm = 1000\n"]
    {
        assert!(said.contains(expected), "{said}");
    }
}
