//! Calls from C: wrong arguments and timeouts by `tests/c/call.c`; caller and server in processes of their own by `examples/call.c`.

use std::process::Command;
use std::time::Duration;

use crate::build::{ALL, program, run};

#[test]
fn wrong_arguments_are_errors_and_a_late_answer_is_dropped() {
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program("tests/c/call.c", how, directory.path()) else { continue };
        let output = run(command.arg(directory.path().join("calls.sock")));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "called\n", "{how:?}");
    }
}

#[test]
fn the_example_calls_a_server_in_another_process() {
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("calls.sock");
        let Some(command) = program("examples/call.c", how, directory.path()) else { continue };
        let again = || {
            let mut again = Command::new(command.get_program());
            again.args(command.get_args()).envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
            again.arg(&socket);
            again
        };
        for len in ["8", "3000"] {
            let mut server = again().arg("serve").spawn().unwrap();
            while !socket.exists() {
                assert_eq!(server.try_wait().unwrap(), None, "{how:?}: the server has ended");
                std::thread::sleep(Duration::from_millis(2));
            }
            // It may not listen yet.
            let output = loop {
                let output = again().args(["500", len]).output().unwrap();
                if output.status.success() {
                    break output;
                }
                assert!(
                    String::from_utf8_lossy(&output.stderr).contains("no server answers"),
                    "{how:?}: {output:?}"
                );
            };
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.starts_with(&format!("500 calls of {len} bytes, ")), "{how:?}: {said}");
            assert!(server.wait().unwrap().success(), "{how:?}");
        }
    }
}
