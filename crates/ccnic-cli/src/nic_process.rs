//! A NIC for a measurement: a `ccnicd` that is started as a child process and stopped afterwards, or one that
//! runs already.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ccnic_control::Connection;
use tempfile::TempDir;

/// How long a daemon may take to answer after it was started.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a daemon may take to notice that a program has left.
const SETTLED: Duration = Duration::from_millis(200);

/// How long a daemon may take to end after SIGTERM, before it is killed.
const FAREWELL: Duration = Duration::from_secs(5);

/// How a daemon is started.
#[derive(Debug, Default)]
pub struct NicOptions<'a> {
    /// The `ccnicd`; by default the one beside this program.
    pub program: Option<&'a Path>,
    /// CPUs that poll.
    pub cores: &'a [usize],
    /// Further arguments.
    pub args: &'a [&'a str],
    /// Where its log goes; by default to standard error.
    pub log: Option<File>,
}

/// A NIC that can be reached.
#[derive(Debug)]
pub struct NicProcess {
    socket: PathBuf,
    own: Option<(Child, TempDir)>,
}

impl NicProcess {
    /// The NIC at `socket`, which another user or process runs.
    pub fn running(socket: PathBuf) -> anyhow::Result<NicProcess> {
        Connection::open(&socket)?;
        Ok(NicProcess { socket, own: None })
    }

    /// Starts a `ccnicd` that polls on `cores`.
    pub fn start(cores: &[usize], reflect: bool) -> anyhow::Result<NicProcess> {
        let args: &[&str] = if reflect { &["--reflect"] } else { &[] };
        NicProcess::start_with(NicOptions { cores, args, ..NicOptions::default() })
    }

    /// Starts a `ccnicd` as `options` say.
    pub fn start_with(options: NicOptions<'_>) -> anyhow::Result<NicProcess> {
        let directory = tempfile::tempdir().context("could not make a directory for the control socket")?;
        let socket = directory.path().join("nic.sock");
        let cores: Vec<String> = options.cores.iter().map(usize::to_string).collect();
        let mut command = Command::new(options.program.map_or_else(daemon, |path| Ok(path.to_owned()))?);
        command.arg("--socket").arg(&socket);
        command.args(["--log", "warn,ccnicd::placement=off", "--cores", &cores.join(",")]);
        command.args(options.args);
        // What this process's own side of a region does by it: both sides then have the same.
        if let Some(tuning) = std::env::var_os("CCNIC_TUNING").filter(|text| !text.is_empty()) {
            command.arg("--tuning").arg(tuning);
        }
        if let Some(log) = options.log {
            command.stderr(log);
        }
        let child = command.stdin(Stdio::null()).spawn().context("could not start ccnicd")?;
        let mut this = NicProcess { socket, own: Some((child, directory)) };
        this.await_answer()?;
        Ok(this)
    }

    fn await_answer(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while Connection::open(&self.socket).is_err() {
            if let Some((child, _)) = &mut self.own
                && let Some(status) = child.try_wait().context("could not watch ccnicd")?
            {
                bail!("ccnicd ended at once ({status}); its message is above");
            }
            if start.elapsed() > PATIENCE {
                bail!("ccnicd did not answer at {} within {PATIENCE:?}", self.socket.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits at most 0.2 s until a NIC that was started here has no program: its threads sleep then, and its
    /// CPUs are free. Does nothing for a NIC that ran already.
    pub fn settle(&self) {
        if self.own.is_none() {
            return;
        }
        let start = Instant::now();
        while start.elapsed() < SETTLED && !self.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// True when no program is attached, or when that cannot be told.
    fn is_empty(&self) -> bool {
        let status = Connection::open(&self.socket).and_then(|connection| connection.status());
        status.map_or(true, |status| status.programs.is_empty())
    }

    /// Where programs connect.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The process that was started here.
    pub fn pid(&self) -> Option<u32> {
        self.own.as_ref().map(|(child, _)| child.id())
    }

    /// True unless the daemon that was started here has ended.
    pub fn is_running(&mut self) -> bool {
        self.own.as_mut().is_none_or(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }

    /// Stops a daemon that was started here: SIGTERM lets it end in order. False when it had to be killed.
    pub fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        let Some((mut child, _directory)) = self.own.take() else { return true };
        let pid = rustix::process::Pid::from_child(&child);
        // A daemon that has died already needs no signal.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < FAREWELL {
            if !matches!(child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }
}

/// The `ccnicd` that was installed beside this program.
fn daemon() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("could not ask where this program is")?;
    let beside = here.with_file_name("ccnicd");
    anyhow::ensure!(
        beside.exists(),
        "there is no ccnicd at {}; build it with `make` or start one and name its --socket",
        beside.display()
    );
    Ok(beside)
}

impl Drop for NicProcess {
    fn drop(&mut self) {
        self.end();
    }
}
