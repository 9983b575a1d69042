//! `ccnic top` on a terminal, which `script` of util-linux provides.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ccnicd::dataplane::DataplaneKind;
use common::TestNic;

/// Longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal of 80 columns and 24 lines in which `ccnic top` runs.
struct Terminal {
    script: Child,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// `None` where there is no `script`.
    fn start(socket: &Path) -> Option<Terminal> {
        let top = format!("{} top --socket {}", env!("CARGO_BIN_EXE_ccnic"), socket.display());
        let command = format!("stty rows 24 cols 80; {top}; echo ended: $?; stty -a");
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm");
        let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut stdout = script.stdout.take().unwrap();
        let output = Arc::<Mutex<Vec<u8>>>::default();
        let to = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = stdout.read(&mut bytes) {
                to.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        });
        Some(Terminal { script, output })
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let start = Instant::now();
        while !self.output().contains(text) {
            assert!(start.elapsed() < PATIENCE, "it does not show {text:?}: {:?}", self.output());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn press(&mut self, keys: &str) {
        let stdin = self.script.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill(); // it may have ended already
        let _ = self.script.wait();
    }
}

#[test]
fn it_waits_for_a_nic_shows_it_and_leaves_the_terminal_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let Some(mut terminal) = Terminal::start(&socket) else {
        println!("skipped: there is no script(1); install util-linux");
        return;
    };
    terminal.shows("waiting for");
    terminal.shows("trying again");
    let nic = TestNic::start(&socket, DataplaneKind::Loopback);
    // Cells that were blank before: the words, without the spaces between them.
    terminal.shows("attached.");
    terminal.press("?");
    terminal.shows("Any");
    terminal.press("xq");
    terminal.shows("ended: 0");
    terminal.shows(" icanon");
    assert!(terminal.output().contains("\u{1b}[?1049l"), "it has left the alternate screen");
    drop(nic);
}
