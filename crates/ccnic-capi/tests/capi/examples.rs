//! The examples do what their first lines say, linked in every way.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use ccnic_control::Connection;

use crate::build::{ALL, How, program, run};
use crate::nic::{Nic, PATIENCE, alone};

fn each(source: &str, arguments: &[&str], check: impl Fn(&str)) {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program(source, how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        let output = run(command.arg(&nic.socket).args(arguments));
        check(&String::from_utf8_lossy(&output.stdout));
        assert!(nic.alive(), "{how:?}: the daemon has ended");
    }
}

#[test]
fn echo_sends_back_what_it_receives() {
    each("examples/echo.c", &["500"], |said| {
        assert!(said.starts_with("500 packets received, 501 sent"), "{said}");
    });
}

/// Packets that the NIC's only program has sent.
fn sent(socket: &Path) -> u64 {
    let status = Connection::open(socket).and_then(|connection| connection.status());
    let programs = status.map(|status| status.programs).unwrap_or_default();
    programs.iter().flat_map(|program| &program.queues).map(|queue| queue.tx_packets).sum()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn echo_goes_on_when_the_nic_is_killed_and_another_one_started() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut echo = program("examples/echo.c", How::Shared, directory.path()).unwrap();
    let mut first = Nic::start(directory.path());
    let mut echo = echo.arg(&first.socket).stdout(Stdio::piped()).spawn().unwrap();
    until("packets by the first NIC", || sent(&first.socket) > 1000);
    first.kill();
    let second = Nic::start(directory.path());
    until("packets by the second NIC", || sent(&second.socket) > 1000);
    assert!(echo.try_wait().unwrap().is_none());
    rustix::process::kill_process(rustix::process::Pid::from_child(&echo), rustix::process::Signal::TERM)
        .unwrap();
    let output = echo.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert!(String::from_utf8_lossy(&output.stdout).contains("packets received"));
}

#[test]
fn a_pair_of_programs_meets_on_a_switch() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let command = program("examples/pair.c", How::Shared, directory.path()).unwrap();
    let nic = Nic::start_as(directory.path(), "switch");
    let pair = [(); 2].map(|()| again(&command).arg(&nic.socket).stdout(Stdio::piped()).spawn().unwrap());
    let ids = [pair[1].id(), pair[0].id()];
    for (program, other) in pair.into_iter().zip(ids) {
        let output = program.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said == format!("hello, I am process {other}\n"), "{said}");
    }
}

#[test]
fn generator_gets_back_what_it_sends() {
    each("examples/generator.c", &["5000", "64"], |said| {
        assert!(said.contains("packets of 64 bytes"), "{said}")
    });
}

#[test]
fn generator_sends_chains() {
    each("examples/generator.c", &["1000", "9000"], |said| assert!(said.contains("of 9000 bytes"), "{said}"));
}

/// Programs in C that run against the NIC of an example.
struct Tools {
    directory: tempfile::TempDir,
}

impl Tools {
    fn new() -> Tools {
        Tools { directory: tempfile::tempdir().unwrap() }
    }

    fn tool(&self, source: &str) -> Command {
        let directory = self.directory.path().join(source.replace('/', "-"));
        std::fs::create_dir(&directory).unwrap();
        program(source, How::Shared, &directory).unwrap()
    }
}

/// The example NIC, which ends after so many programs; `None` if it cannot be built in this way.
fn example_nic(how: How, directory: &Path, programs: u32) -> Option<(Child, PathBuf)> {
    let mut nic = program("examples/nic.c", how, directory)?;
    let socket = directory.join("nic.sock");
    let mut nic = nic.arg(&socket).arg(programs.to_string()).stdout(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while Connection::open(&socket).is_err() {
        assert_eq!(nic.try_wait().unwrap(), None, "{how:?}: the NIC has ended");
        assert!(start.elapsed() < PATIENCE, "{how:?}: the NIC does not answer");
        std::thread::sleep(Duration::from_millis(2));
    }
    Some((nic, socket))
}

#[test]
fn nic_serves_the_other_examples() {
    let _alone = alone();
    let tools = Tools::new();
    let (echo, generator) = (tools.tool("examples/echo.c"), tools.tool("examples/generator.c"));
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some((nic, socket)) = example_nic(how, directory.path(), 2) else { continue };
        run(again(&echo).arg(&socket).arg("300"));
        let status = Connection::open(&socket).unwrap().status().unwrap();
        assert_eq!(status.pid, nic.id());
        run(again(&generator).arg(&socket).args(["2000", "9000"]));
        let output = nic.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{how:?}: {said}");
        assert!(said.starts_with("program has attached: 1 queues, MTU 9600"), "{said}");
        assert!(
            said.contains("generator has attached") && said.contains("a program has ended, after"),
            "{said}"
        );
    }
}

/// Programs that overwrite their regions, in each design, and a correct one after them.
#[test]
fn nic_survives_programs_that_scribble() {
    let _alone = alone();
    let tools = Tools::new();
    let (hostile, generator) = (tools.tool("tests/c/hostile.c"), tools.tool("examples/generator.c"));
    let seed = std::env::var("CCNIC_SEED").unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        (now.as_nanos() as u64 | 1).to_string()
    });
    println!("CCNIC_SEED={seed}");
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some((nic, socket)) = example_nic(how, directory.path(), 6) else { continue };
        for design in 0..5 {
            run(again(&hostile).arg(&socket).arg(design.to_string()).arg(&seed));
        }
        run(again(&generator).arg(&socket).args(["2000", "1496"]));
        let output = nic.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{how:?}: {}\n{said}", output.status);
        assert_eq!(said.matches("a program has ended, after").count(), 6, "{said}");
    }
}

/// A command without the arguments of its last run.
fn again(command: &Command) -> Command {
    let mut fresh = Command::new(command.get_program());
    command.get_envs().for_each(|(name, value)| _ = fresh.env(name, value.unwrap_or_default()));
    fresh
}

#[test]
fn examples_say_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    for source in ["examples/echo.c", "examples/generator.c"] {
        let mut command = program(source, How::Shared, directory.path()).unwrap();
        let output = command.arg(directory.path().join("nobody.sock")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no NIC answers at") && said.contains("start one with"), "{said}");
    }
}
