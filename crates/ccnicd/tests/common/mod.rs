//! What the daemon's tests share: a daemon in its own process, a flow of numbered packets with its oracle, a random
//! number generator that can be seeded.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ccnic::{Config, Design};
use ccnic_control::Connection;
use ccnic_control::messages::{ProgramStatus, SandboxStatus, Status};
pub use ccnic_hostile::Random;
#[allow(unused_imports, reason = "each test uses its part")]
pub use ccnic_testing::{PATIENCE, alone, until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use tempfile::TempDir;

pub mod flow;
pub mod station;
pub mod traffic;

/// A command with what it says in `log`, after what is there already.
fn logged(program: &Path, log: &Path) -> Command {
    let file = || -> File { OpenOptions::new().create(true).append(true).open(log).unwrap() };
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(file()).stderr(file());
    command
}

/// A configuration file of this text in a directory of its own, and where its daemon's socket is to be.
pub fn file(text: &str) -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (file, socket) = (directory.path().join("nic.toml"), directory.path().join("nic.sock"));
    std::fs::write(&file, text).unwrap();
    (directory, file, socket)
}

/// A daemon in a process of its own. Dropping it kills it.
pub struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    /// Starts a daemon and waits until it answers.
    pub fn start(socket: &Path) -> Daemon {
        Daemon::start_with(socket, &[])
    }

    /// As `start`, with further arguments.
    #[track_caller]
    pub fn start_with(socket: &Path, args: &[&str]) -> Daemon {
        Daemon::start_by(&[env!("CARGO_BIN_EXE_ccnicd")], socket, args)
    }

    /// As `start_with`, with a configuration file.
    #[track_caller]
    pub fn start_configured(file: &Path, socket: &Path, args: &[&str]) -> Daemon {
        Daemon::start_with(socket, &[&["--config", file.to_str().unwrap()], args].concat())
    }

    /// As `start_with`, by a command that takes the daemon's arguments.
    #[track_caller]
    pub fn start_by(command: &[&str], socket: &Path, args: &[&str]) -> Daemon {
        // A measurement for each test would take its time, and find busy CPUs. Packets of all lengths that fit are inline, under load too.
        let tuned: &[&str] =
            if args.contains(&"--tuning") { &[] } else { &["--tuning", "default,inline=7,loaded=7"] };
        Daemon::spawn(command, socket, &[args, tuned].concat())
    }

    /// Starts a daemon that uses what is kept in `cache`, or measures this machine.
    #[track_caller]
    pub fn start_measuring(socket: &Path, cache: &Path) -> Daemon {
        let cache = format!("CACHE_DIRECTORY={}", cache.display());
        Daemon::spawn(&["env", &cache, env!("CARGO_BIN_EXE_ccnicd")], socket, &[])
    }

    #[track_caller]
    fn spawn(command: &[&str], socket: &Path, args: &[&str]) -> Daemon {
        let child = logged(Path::new(command[0]), &socket.with_extension("log"))
            .args(&command[1..])
            .arg("--socket")
            .arg(socket)
            .args(args)
            .args(if args.contains(&"--log") {
                [].as_slice()
            } else {
                &["--log", "warn,ccnicd::placement=off"]
            })
            .spawn()
            .unwrap();
        let mut this = Daemon { child, socket: socket.to_owned() };
        let start = Instant::now();
        while Connection::open(socket).is_err() {
            let ended = this.child.try_wait().unwrap();
            assert!(ended.is_none(), "the daemon ended at once: {ended:?}: {}", this.log());
            assert!(start.elapsed() < PATIENCE, "the daemon does not answer");
            std::thread::sleep(Duration::from_millis(2));
        }
        this
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends it a signal and waits for its end.
    pub fn signal(&mut self, signal: Signal) -> ExitStatus {
        kill_process(self.pid(), signal).unwrap();
        self.child.wait().unwrap()
    }

    /// Waits for its end, which somebody else has brought about.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// All that daemons at this socket have logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.socket.with_extension("log")).unwrap_or_default()
    }

    /// Its state; panics when it has died or does not answer.
    #[track_caller]
    pub fn status(&mut self) -> Status {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the daemon has died: {ended:?}: {}", self.log());
        let status = Connection::open(&self.socket).unwrap().status().unwrap();
        assert_eq!(status.pid, self.child.id(), "another daemon answers");
        status
    }

    /// The attached program of that name.
    #[track_caller]
    pub fn program(&mut self, name: &str) -> Option<ProgramStatus> {
        self.status().programs.into_iter().find(|p| p.name == name)
    }

    /// Open descriptors and mapped regions of the daemon.
    pub fn holdings(&self) -> (usize, usize) {
        let proc = PathBuf::from(format!("/proc/{}", self.child.id()));
        let fds = std::fs::read_dir(proc.join("fd")).unwrap().count();
        let maps = std::fs::read_to_string(proc.join("maps")).unwrap();
        (fds, maps.lines().filter(|l| l.contains("memfd:")).count())
    }

    /// The names of its threads, and the CPUs that each may run on, as the kernel lists them.
    pub fn threads(&self) -> Vec<(String, String)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let thread = |task: std::fs::DirEntry| {
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
            let status = std::fs::read_to_string(task.path().join("status")).ok()?;
            let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some((name, cpus.trim().to_owned()))
        };
        tasks.filter_map(|task| thread(task.ok()?)).collect() // those that end meanwhile are left out
    }

    /// What the kernel says of its polling threads: a file of the task of each.
    pub fn polling_threads(&self, file: &str) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let read = |task: &std::fs::DirEntry, file| {
            std::fs::read_to_string(task.path().join(file)).unwrap_or_default()
        };
        let polls = |task: &std::fs::DirEntry| read(task, "comm").starts_with("poll-");
        let threads: Vec<_> =
            tasks.map(Result::unwrap).filter(polls).map(|thread| read(&thread, file)).collect();
        assert!(!threads.is_empty());
        threads
    }

    /// Waits until all its polling threads sleep.
    #[track_caller]
    pub fn falls_asleep(&self) {
        let sleeps = |status: &String| status.contains("State:\tS");
        until("a daemon that sleeps", || self.polling_threads("status").iter().all(sleeps));
    }

    /// Stops it; returns when it stands still.
    #[track_caller]
    pub fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        until("a daemon that stands still", || self.stands_still());
    }

    /// It goes on, having been stopped.
    pub fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// True when all its threads have been stopped by a signal.
    pub fn stands_still(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).ok();
        tasks.filter_map(|task| status(task.ok()?)).all(|status| status.contains("State:\tT"))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// A figure of the process as the kernel shows it in `/proc/PID/status`, such as `Threads`, or `VmHWM` in KiB.
    #[track_caller]
    pub fn figure(&self, name: &str) -> u64 {
        ccnic_hostile::figure(self.child.id(), name).unwrap()
    }

    /// Its holdings once it has noticed that connections have ended: several looks, all the same.
    pub fn settled(&self) -> (usize, usize) {
        let mut last = self.holdings();
        let mut same = 0;
        until("a daemon that holds still", || {
            std::thread::sleep(Duration::from_millis(5));
            let now = self.holdings();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same == 5
        });
        last
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended already
        let _ = self.child.wait();
    }
}

/// A daemon with this port of a switch ends at once, and leaves no socket; gives what it says.
#[track_caller]
pub fn refused_port(port: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("refused.sock");
    let output = Command::new(env!("CARGO_BIN_EXE_ccnicd"))
        .args(["--wire", "switch", "--tuning", "default", "--port", port, "--socket"])
        .arg(&socket)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!ccnic_control::Listener::is_taken(&socket), "nobody listens any more");
    said
}

/// The capabilities that a daemon has kept, but for the one that it keeps where it may not raise the limit of locked memory.
pub fn without_lock(sandbox: &SandboxStatus) -> Vec<&str> {
    sandbox.kept.iter().map(String::as_str).filter(|name| *name != "cap_ipc_lock").collect()
}

/// This test binary again, running the ignored test `name`: a program in a process of its own, which may die.
pub struct Forked(Child);

impl Forked {
    /// Starts it with `env`; what it says goes to `log`.
    pub fn start(name: &str, env: &[(&str, &str)], log: &Path) -> Forked {
        let mut command = logged(&std::env::current_exe().unwrap(), log);
        command.args(["--exact", name, "--ignored", "--nocapture"]).envs(env.iter().copied());
        Forked(command.spawn().unwrap())
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// What it does, as the kernel says: `R` runs, `S` sleeps, `T` was stopped.
    pub fn state(&self) -> char {
        state_of(self.pid())
    }

    /// Ends it where it stands. True when it was alive until then.
    pub fn kill(&mut self) -> bool {
        let _ = self.0.kill(); // it may have ended already
        self.0.wait().unwrap().signal() == Some(9)
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        self.kill();
    }
}

/// For `--cores`: two CPUs, or the only one there is. Their polling threads share them with the program.
pub fn two_cores() -> String {
    let allowed = sched_getaffinity(None).unwrap();
    let cpus: Vec<_> =
        (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(2).map(|c| c.to_string()).collect();
    cpus.join(",")
}

/// A seed that differs from run to run, or the one in `CCNIC_SEED`. Said, so that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("CCNIC_SEED").ok().and_then(|s| s.parse().ok());
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = given.unwrap_or_else(|| u64::from(now().subsec_nanos()));
    println!("seed: CCNIC_SEED={seed}");
    seed
}

/// A small region of `design`, with the pool that goes with it.
pub fn config(design: Design) -> Config {
    let shared_pool = design != Design::Doorbell;
    Config { design, shared_pool, ring: 256, buffers: 512, ..Config::default() }
}

/// A process's state as in ps(1): `T` when it has been stopped.
pub fn state_of(pid: Pid) -> char {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let state = status.lines().find_map(|line| line.strip_prefix("State:\t"));
    state.and_then(|state| state.chars().next()).unwrap()
}
