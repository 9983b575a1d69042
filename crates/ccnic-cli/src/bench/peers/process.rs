//! A `ccnic-peers` process: its lines of JSON, its exit status, and its error messages.

use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

/// How long it may take to exit after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(5);

/// A line of its output.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Output {
    Ready { ready: bool },
    Unsupported { unsupported: String },
    Run(PeerRun),
}

/// One run at one load.
#[derive(Debug, Clone, Deserialize)]
pub struct PeerRun {
    pub inflight: usize,
    pub mpps: f64,
    pub rtt_p50_ns: u64,
    pub rtt_p99_ns: u64,
    pub lost: u64,
    pub corrupt: u64,
    /// Share of the measured time that the generator's thread had its CPU.
    pub cpu_share: Option<f64>,
}

/// A child process, which is stopped when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    said: std::fs::File,
}

impl Process {
    pub fn start(mut command: Command) -> anyhow::Result<Process> {
        let said = tempfile::tempfile().context("could not make a file for a process's messages")?;
        let errors = said.try_clone().context("could not copy a descriptor")?;
        // testpmd ends with its input, which is open as long as this lives.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command
            .spawn()
            .with_context(|| format!("could not start {}", command.get_program().to_string_lossy()))?;
        let output = child.stdout.take().context("the process has no output")?;
        let (to, lines) = channel();
        std::thread::spawn(move || {
            // Ends with the output, or when the receiver has been dropped.
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Process { child, lines, said })
    }

    /// Its next line; `None` at its end.
    pub fn line(&mut self, patience: Duration) -> anyhow::Result<Option<Output>> {
        match self.lines.recv_timeout(patience) {
            Ok(text) => {
                let line =
                    serde_json::from_str(&text).with_context(|| format!("a line is no result: {text}"))?;
                Ok(Some(line))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                bail!("nothing came within {patience:?}{}", self.said())
            }
        }
    }

    /// An error when it has ended.
    pub fn is_running(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.wait(Duration::ZERO)? {
            bail!("it ended at once ({status}){}", self.said());
        }
        Ok(())
    }

    /// Waits until it has exited, after the end of its output; an error unless it succeeded.
    pub fn succeed(&mut self) -> anyhow::Result<()> {
        let status = self.wait(FAREWELL)?.context("the process does not end")?;
        if !status.success() {
            bail!("{status}{}", self.said());
        }
        Ok(())
    }

    fn wait(&mut self, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().context("could not watch a process")? {
                return Ok(Some(status));
            }
            if start.elapsed() > patience {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The last lines of its standard error, to be appended to a message.
    pub fn said(&mut self) -> String {
        let mut text = Vec::new();
        // Without the messages if they cannot be read.
        let _ = self.said.rewind().and_then(|()| self.said.read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default();
        if last.is_empty() { String::new() } else { format!(": {}", last.join("; ")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM); // it may have exited already
        if !matches!(self.wait(FAREWELL), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
