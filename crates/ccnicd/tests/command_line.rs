//! The daemon's command line and its socket file: what is refused with exit status 2 and the name of the option, what is
//! replaced, what is never touched, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use ccnic_client::Nic;
use ccnic_control::{Connection, Listener};
use ccnic_shm::Pages;
use common::{Daemon, alone, config, until};
use rustix::process::Signal;

/// What a daemon with these arguments says before it ends with status 2.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ccnicd"))
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > common::PATIENCE {
            child.kill().unwrap();
            panic!("{args:?} was not refused");
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

#[track_caller]
fn says(message: &str, expected: &[&str]) {
    for expected in expected {
        assert!(message.contains(expected), "\"{message}\" does not say \"{expected}\"");
    }
}

/// Tries each of `values` for `option` at a socket of its own; none may leave anything behind.
#[track_caller]
fn option(option: &str, values: &[(&str, &str)]) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    for (value, expected) in values {
        let message = refused(&["--socket", socket.to_str().unwrap(), &format!("{option}={value}")]);
        says(&message, &[option, expected]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{option} {value}");
    }
}

#[test]
fn cores() {
    option(
        "--cores",
        &[
            ("1000", "CPU 1000"),
            ("99999", "CPU 99999"),
            ("18446744073709551615", "CPU 18446744073709551615"),
            ("18446744073709551616", "too large"),
            ("0,0", "twice"),
            ("0,1000", "CPU 1000"),
            ("0,", "empty"),
            ("", "--cores"),
            (",", "--cores"),
            ("all", "all"),
            ("0-1", "0-1"),
            ("-1", "-1"),
            ("0x1", "0x1"),
        ],
    );
    assert!(refused(&["--cores"]).contains("--cores"));
}

#[test]
fn a_switch() {
    for option_ in ["--mac-ageing", "--mac-table", "--mac-port"] {
        option(option_, &[("0", "0"), ("-1", "-1"), ("many", "many"), ("4294967296", "4294967296")]);
    }
    option("--mac-table", &[("1048577", "1048577")]);
    option("--reserved", &[("flood", "forward")]);
    says(&refused(&["--wire", "hub"]), &["hub", "loopback", "switch"]);
    says(&refused(&["--wire", "switch", "--reflect"]), &["--reflect", "loopback"]);
}

#[test]
fn ports_that_are_no_programs() {
    option(
        "--port",
        &[
            ("tap0", "tap:NAME"),
            ("dpdk:0", "tap:NAME, xdp:IFACE or pcap:FILE"),
            ("xdp:eth0,queue=1", "the keys are queues"),
            ("pcap:a,speed=1", "the keys are record"),
            ("tap:", "no name"),
            ("tap:a-name-of-16-byt", "15 at most"),
            ("tap:t,mtu=1", "68 to 65521"),
            ("tap:t,speed=1", "the keys are mtu"),
            ("tap:t", "say --wire switch"),
        ],
    );
    says(
        &refused(&["--wire", "switch", "--port", "tap:t", "--port", "tap:t,mtu=1500"]),
        &["--port tap:t is given twice"],
    );
}

#[test]
fn numbers_and_words() {
    option(
        "--region-max",
        &[("0", "1..=4095"), ("4096", "1..=4095"), ("-1", "-1"), ("much", "much"), ("1.5", "1.5")],
    );
    let mib = (1u64 << 44).to_string(); // more bytes than 64 bits count
    option("--memory-max", &[("0", "not in 1.."), (&mib, "not in 1..")]);
    option("--memory-max", &[("much", "much"), ("-1", "-1"), ("18446744073709551616", "too large")]);
    option("--wire", &[("ethernet", "loopback"), ("", "loopback")]);
    option(
        "--log",
        &[
            ("ccnicd=loud", "ccnicd=loud"),
            ("=,=", "=,="),
            ("loud", "loud is no level"),
            ("warn,loud", "loud is no level"),
        ],
    );
    option(
        "--tuning",
        &[("idle=sleep", "pause, spin"), ("speed=1", "fetch, ahead, demote, idle"), ("", "fetch")],
    );
    says(&refused(&["--tune", "--tuning", "default"]), &["--tune", "--tuning"]);
    option("--polls", &[("1", "unexpected argument")]);
    assert!(refused(&["--socket"]).contains("--socket"));
    assert!(refused(&["nic.sock"]).contains("nic.sock"));
}

#[test]
fn socket_paths_that_cannot_be() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let missing = refused(&["--socket", &at("missing/nic.sock")]);
    says(&missing, &["missing/nic.sock", "--socket", "No such file"]);
    assert_eq!(missing.matches("No such file").count(), 1, "said once: {missing}");
    std::fs::write(at("file"), "precious").unwrap();
    says(&refused(&["--socket", &at("file")]), &["/file exists and is no socket", "--socket"]);
    says(&refused(&["--socket", &at("file/nic.sock")]), &["file/nic.sock", "--socket"]);
    std::fs::create_dir(at("directory")).unwrap();
    says(&refused(&["--socket", &at("directory")]), &["/directory exists and is no socket", "--socket"]);
    std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
    says(&refused(&["--socket", &at("link")]), &["/link exists and is no socket", "--socket"]);
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
    says(&refused(&["--socket", &at("dangling")]), &["/dangling exists and is no socket", "--socket"]);
    says(&refused(&["--socket", &at(&"x".repeat(150))]), &["--socket"]);
    says(&refused(&["--socket", ""]), &["--socket"]);
    assert_eq!(std::fs::read_to_string(at("link")).unwrap(), "precious");
    assert_eq!(std::fs::read_link(at("dangling")).unwrap(), Path::new(&at("nowhere")));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4, "nothing came, nothing went");
}

#[test]
fn a_live_socket_is_refused_and_a_stale_one_replaced() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut first = Daemon::start(&socket);
    let message = refused(&["--socket", socket.to_str().unwrap()]);
    says(&message, &["already running", "--socket", &format!("process {}", first.status().pid)]);
    first.status(); // and it is the first that still answers
    first.signal(Signal::KILL);
    assert!(socket.exists() && Connection::open(&socket).is_err(), "a stale socket");
    let mut second = Daemon::start(&socket);
    second.status();
    // A socket of somebody else's, where nobody listens any more, looks the same.
    assert!(second.signal(Signal::TERM).success());
    let _ = std::fs::remove_file(&socket); // it stays where a daemon may not remove files
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    Daemon::start(&socket).status();
}

#[test]
fn signals_end_it_cleanly() {
    let _alone = alone();
    for signal in [Signal::TERM, Signal::INT] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let mut daemon = Daemon::start(&socket);
        let config = config(ccnic::Design::GroupedEpoch);
        let program = Nic::options().name("guest").config(&config).pages(Pages::Small).open(&socket).unwrap();
        assert!(program.alive());
        let ended = daemon.signal(signal);
        assert_eq!(ended.code(), Some(0), "{signal:?}: {}", daemon.log());
        assert!(!Listener::is_taken(&socket), "{signal:?}: nobody listens any more");
        until("the program to notice", || !program.alive());
        assert_eq!(daemon.log(), "", "{signal:?}: nothing to complain of");
    }
}

#[test]
fn a_service_manager_is_told_when_programs_can_attach() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (socket, notify) = (directory.path().join("nic.sock"), directory.path().join("notify"));
    let manager = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    manager.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let variable = format!("NOTIFY_SOCKET={}", notify.display());
    let daemon = ["env", &variable, env!("CARGO_BIN_EXE_ccnicd")];
    let mut daemon = Daemon::start_by(&daemon, &socket, &["--sandbox", "on"]);
    let mut said = [0; 64];
    let n = manager.recv(&mut said).unwrap();
    assert_eq!(&said[..n], b"READY=1");
    assert!(daemon.signal(Signal::TERM).success());
    let message =
        ccnicd_with(&format!("NOTIFY_SOCKET={}", directory.path().join("missing").display()), &socket);
    says(&message, &["NOTIFY_SOCKET=", "missing"]);
}

/// What a daemon with this variable in its environment says before it ends with status 2.
fn ccnicd_with(variable: &str, socket: &Path) -> String {
    let daemon = env!("CARGO_BIN_EXE_ccnicd");
    let output = Command::new("env")
        .args([variable, daemon, "--tuning", "default", "--socket"])
        .arg(socket)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_daemon_leaves_the_socket_of_another_alone() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut first = Daemon::start(&socket);
    for file in [&socket, &directory.path().join("nic.sock.lock")] {
        std::fs::remove_file(file).unwrap(); // somebody tidies up
    }
    let mut second = Daemon::start(&socket);
    assert!(first.signal(Signal::TERM).success());
    second.status();
}
