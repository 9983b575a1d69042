//! An iperf3 server on a stack, as much of it as `iperf3 -c` needs: bulk data over several connections, either way.

use std::io::ErrorKind;
use std::process::Command;

use ccnic_tcp::{Conn, Stack};
use serde_json::{Value, json};

use crate::Program;
use crate::common::until;

/// Bytes of the cookie that each connection begins with.
const COOKIE: usize = 37;
// States, which either side tells the other by one byte.
const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;
const IPERF_DONE: u8 = 16;

/// What the control connection brings next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Cookie,
    Parameters,
    /// Nothing: data connections come.
    Streams,
    Running,
    Results,
    Done,
    Over,
}

/// One test of iperf3.
struct Test {
    stack: Stack,
    control: Option<Conn>,
    stage: Stage,
    /// What has come over the control connection and was not used.
    input: Vec<u8>,
    streams: Vec<Conn>,
    wanted: usize,
    /// This side sends.
    reverse: bool,
    /// Bytes over the data connections, cookies included.
    received: u64,
    sent: u64,
    results: Value,
}

/// What a connection has brought: nothing yet, bytes, or the end.
fn read(stack: &mut Stack, conn: Conn, bytes: &mut [u8]) -> Option<usize> {
    match stack.read(conn, bytes) {
        Err(e) if e.kind() == ErrorKind::WouldBlock => None,
        other => Some(other.unwrap_or(0)),
    }
}

impl Test {
    fn say(&mut self, bytes: &[u8]) {
        assert_eq!(self.stack.write(self.control.unwrap(), bytes).unwrap(), bytes.len());
    }

    /// Takes `n` bytes of the control connection, once they are there.
    fn take(&mut self, n: usize) -> Option<Vec<u8>> {
        (self.input.len() >= n).then(|| self.input.drain(..n).collect())
    }

    /// A length, and as much JSON.
    fn json(&mut self) -> Option<Value> {
        let len = u32::from_be_bytes(*self.input.first_chunk()?) as usize;
        let bytes = self.take(4 + len)?;
        Some(serde_json::from_slice(&bytes[4..]).unwrap())
    }

    fn control(&mut self) {
        match self.stage {
            Stage::Cookie => {
                if self.take(COOKIE).is_some() {
                    self.say(&[PARAM_EXCHANGE]);
                    self.stage = Stage::Parameters;
                }
            }
            Stage::Parameters => {
                if let Some(parameters) = self.json() {
                    self.wanted = parameters["parallel"].as_u64().unwrap_or(1) as usize;
                    self.reverse = parameters["reverse"].as_bool().unwrap_or(false);
                    self.say(&[CREATE_STREAMS]);
                    self.stage = Stage::Streams;
                }
            }
            Stage::Streams if self.received == (self.wanted * COOKIE) as u64 => {
                self.say(&[TEST_START, TEST_RUNNING]);
                self.stage = Stage::Running;
            }
            Stage::Streams => {}
            Stage::Running => {
                if let Some(state) = self.take(1) {
                    assert_eq!(state, [TEST_END]);
                    if self.reverse {
                        // A client that waits for the rest of a block would not go on.
                        self.streams.drain(..).for_each(|conn| self.stack.close(conn));
                    }
                    self.say(&[EXCHANGE_RESULTS]);
                    self.stage = Stage::Results;
                }
            }
            Stage::Results => {
                if let Some(results) = self.json() {
                    let ours = json!({ "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": 0,
                        "streams": results["streams"] });
                    let ours = ours.to_string();
                    self.say(&(ours.len() as u32).to_be_bytes());
                    self.say(ours.as_bytes());
                    self.say(&[DISPLAY_RESULTS]);
                    (self.results, self.stage) = (results, Stage::Done);
                }
            }
            Stage::Done => {
                if let Some(state) = self.take(1) {
                    assert_eq!(state, [IPERF_DONE]);
                    self.stage = Stage::Over;
                }
            }
            Stage::Over => {}
        }
    }

    fn turn(&mut self, listener: ccnic_tcp::Listener) {
        self.stack.poll();
        while self.stack.next_event().is_some() {}
        while let Some(conn) = self.stack.accept(listener) {
            if self.control.is_none() { self.control = Some(conn) } else { self.streams.push(conn) }
        }
        let Some(control) = self.control else { return };
        let mut bytes = vec![0; 64 << 10];
        if let Some(n) = read(&mut self.stack, control, &mut bytes) {
            self.input.extend_from_slice(&bytes[..n]);
        }
        self.control();
        for conn in self.streams.clone() {
            while let Some(n @ 1..) = read(&mut self.stack, conn, &mut bytes) {
                self.received += n as u64;
            }
            if self.reverse && self.stage == Stage::Running {
                self.sent += self.stack.write(conn, &bytes).unwrap_or(0) as u64;
            }
        }
    }
}

/// Runs `iperf3 -c` with these words against a stack at `10.9.0.1`; returns the stack.
#[track_caller]
pub fn run(mut stack: Stack, words: &[&str]) -> Stack {
    let listener = stack.listen(5201, 16).unwrap();
    let (streams, input, results) = (Vec::new(), Vec::new(), Value::Null);
    let (control, stage) = (None, Stage::Cookie);
    let mut test = Test {
        stack,
        control,
        stage,
        input,
        streams,
        wanted: 0,
        reverse: false,
        received: 0,
        sent: 0,
        results,
    };
    let mut command = Command::new("iperf3");
    let mut client = Program(command.args(["-c", "10.9.0.1"]).args(words).spawn().unwrap());
    let mut ended = None;
    until("iperf3", || {
        test.turn(listener);
        ended = client.0.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.unwrap().success(), "{ended:?}, {:?}", test.stage);
    // Its last bytes may be under way still.
    until("its end", || {
        test.turn(listener);
        test.stage == Stage::Over
    });
    let of_client: u64 = test.results["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stream| stream["bytes"].as_u64().unwrap())
        .sum();
    if test.reverse {
        assert!(of_client > 0 && test.sent >= of_client, "{} sent, {of_client} received", test.sent);
    } else {
        until("all bytes", || {
            test.turn(listener);
            test.received - (test.wanted * COOKIE) as u64 == of_client
        });
    }
    for conn in test.streams.iter().chain(&test.control) {
        test.stack.close(*conn);
    }
    test.stack.close_listener(listener);
    test.stack.flush();
    test.stack
}
