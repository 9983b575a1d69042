//! The programs of a measurement: a server and a generator, each on a CPU of its own. They are processes, as users start them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::rows::{Protocol, Server};
use crate::bench::peers::{Driver, Setup};
use crate::cpus::{Split, pin_to, usable};

/// How long a program may take to be there.
const PATIENCE: Duration = Duration::from_secs(60);
/// Mebibytes for items: nothing is evicted.
const MEMORY: &str = "6144";
/// The program of DPDK: server and generator.
const ON_DPDK: &str = "ccnic-kv-ethdev";
/// Requests in flight of an open loop there, at most: half of a ring.
const OPEN_ON_DPDK: &str = "512";
/// Addresses of server and generator, where the generator is the NIC.
const SERVER: &str = "10.9.0.1";
const GENERATOR: &str = "10.9.0.2/24";

/// What a generator is to do.
#[derive(Debug, Clone)]
pub struct Load<'a> {
    /// Its workload's name.
    pub workload: &'a str,
    /// Objects.
    pub objects: u32,
    /// Requests in flight in a closed loop.
    pub inflight: usize,
    /// Requests a second of an open loop.
    pub rate: Option<f64>,
    /// Gets only.
    pub gets_only: bool,
    /// Bytes of the longest frame over a driver of DPDK.
    pub frame: u32,
    /// Bytes of the largest value; larger ones are cut.
    pub largest: usize,
    /// Seconds that are measured.
    pub seconds: f64,
}

/// What a generator reports; `ccnic-kv-load --json` says more.
#[derive(Debug, Clone, Deserialize)]
pub struct Measured {
    pub requests_per_s: f64,
    pub answered: u64,
    pub latency_ns: Option<Latency>,
    pub lost: u64,
    pub unsent: u64,
    pub refused: u64,
    pub server_stats: Option<std::collections::BTreeMap<String, f64>>,
}

/// Percentiles in nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
}

impl Measured {
    /// What the server has added to one of its statistics.
    pub fn stat(&self, name: &str) -> f64 {
        self.server_stats.as_ref().and_then(|stats| stats.get(name).copied()).unwrap_or(0.0)
    }
}

/// Where the programs are, and the CPUs of both sides.
#[derive(Debug)]
pub struct Programs {
    kv: PathBuf,
    load: PathBuf,
    split: Split,
    /// How programs of DPDK are started, or why there are none.
    dpdk: Result<Setup, String>,
}

fn has_memcached() -> bool {
    Command::new("memcached").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// What a generator is told.
fn add_load(command: &mut Command, target: &str, load: &Load<'_>) {
    command.arg(target).args(["--json", "--warmup", "0.3", "--workload", load.workload]);
    command.args(["--objects", &load.objects.to_string(), "--seconds", &load.seconds.to_string()]);
    command.args(["--largest", &load.largest.to_string()]);
    match load.rate {
        Some(rate) => command.args(["--rate", &rate.to_string()]),
        None => command.args(["--inflight", &load.inflight.to_string()]),
    };
    if load.gets_only {
        command.args(["--gets", "1"]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// A process that is ended when it is dropped.
struct Process(Child);

impl Process {
    fn ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.0.try_wait().context("could not watch a program")?.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Programs {
    /// Those that were installed beside this one.
    ///
    /// # Errors
    /// When one is not there.
    pub fn find() -> anyhow::Result<Programs> {
        let here = std::env::current_exe().context("could not ask where this program is")?;
        let beside = |name: &str| {
            let path = here.with_file_name(name);
            anyhow::ensure!(path.exists(), "there is no {name} at {}; build it with `make`", path.display());
            Ok(path)
        };
        let dpdk = [here.with_file_name("dpdk").join(ON_DPDK), here.with_file_name(ON_DPDK)];
        let dpdk = match dpdk.iter().find(|path| path.exists()) {
            Some(path) => Setup::new(Some(path), None, false).map_err(|error| error.to_string()),
            None => Err(format!("no {ON_DPDK} beside this program (make dpdk-kv; it needs libdpdk-dev)")),
        };
        let (kv, load) = (beside("ccnic-kv")?, beside("ccnic-kv-load")?);
        Ok(Programs { kv, load, split: Split::of_machine()?, dpdk })
    }

    /// Why a server cannot be measured here.
    pub fn lacks(&self, server: Server) -> Option<String> {
        match server {
            Server::Memcached if !has_memcached() => Some("memcached is not installed".to_owned()),
            Server::Dpdk(driver) => match &self.dpdk {
                Err(why) => Some(why.clone()),
                Ok(setup) => setup.no_plugin().filter(|_| driver.needs_plugin()).map(str::to_owned),
            },
            _ => None,
        }
    }

    /// Whether programs of DPDK use pages of 4 KiB.
    pub fn small_pages(&self) -> bool {
        self.dpdk.as_ref().is_ok_and(|setup| !setup.huge_pages())
    }

    /// Starts a program on a CPU: children have the CPUs of the thread that starts them.
    fn start(&self, command: &mut Command, cpu: usize) -> anyhow::Result<Process> {
        let all = usable()?;
        pin_to(&[cpu])?;
        let child = command.stdin(Stdio::null()).spawn();
        pin_to(&all)?;
        let name = command.get_program().to_string_lossy().into_owned();
        child.map(Process).with_context(|| format!("could not start {name}"))
    }

    fn generator(&self, target: &str, load: &Load<'_>) -> Command {
        let mut command = Command::new(&self.load);
        add_load(&mut command, target, load);
        command
    }

    /// Runs the loads one after another against one server, or each against a new one where the generator is its NIC.
    ///
    /// # Errors
    /// When a program cannot be started or fails, or when an answer was wrong.
    pub fn measure(&self, server: Server, protocol: Protocol, load: &Load<'_>) -> anyhow::Result<Measured> {
        match server {
            Server::Ccnic(design) => self.as_nic(design.name(), protocol, load),
            Server::Dpdk(driver) => self.on_dpdk(driver, load),
            Server::KvOnKernel => {
                let mut command = Command::new(&self.kv);
                command.args(["-t", "1", "-m", MEMORY, "-l", "127.0.0.1"]);
                self.on_kernel(command, protocol, load)
            }
            Server::Memcached => {
                let mut command = Command::new("memcached");
                command.args(["-t", "1", "-m", MEMORY, "-l", "127.0.0.1"]);
                if rustix::process::getuid().is_root() {
                    command.args(["-u", "root"]);
                }
                self.on_kernel(command, protocol, load)
            }
        }
    }

    /// The generator is the NIC of the server's queue pair.
    fn as_nic(&self, design: &str, protocol: Protocol, load: &Load<'_>) -> anyhow::Result<Measured> {
        let directory = tempfile::tempdir().context("could not make a directory for sockets")?;
        let (nic, stats) = (directory.path().join("nic"), directory.path().join("stats"));
        let target = match protocol {
            Protocol::Rpc => format!("rpc:{SERVER}:11300"),
            _ => format!("udp:{SERVER}:11211"),
        };
        let mut generator = self.generator(&target, load);
        generator.arg("--as-nic").arg(&nic).args(["--address", GENERATOR]);
        generator.arg("--stats").arg(format!("unix:{}", stats.display()));
        let mut generator = self.start(&mut generator, self.split.host(0))?;
        await_file(&nic, &mut generator)?;
        let mut server = Command::new(&self.kv);
        server.args(["-t", "1", "-m", MEMORY, "-U", "11211", "--rpc-port", "11300", "--sleep-after", "0"]);
        // The largest values come in one frame, which is what a generator that is the NIC takes.
        server.args(["--address", "10.9.0.1/24", "--mtu", "9586", "--design", design]);
        server.arg("--ccnic").arg(&nic);
        let mut server = self.start(server.arg("-s").arg(&stats), self.split.nic())?;
        let measured = report(generator);
        anyhow::ensure!(measured.is_ok() || !server.ended()?, "ccnic-kv ended; its message is above");
        measured
    }

    /// Both are programs of DPDK, at the two ends of a driver.
    fn on_dpdk(&self, driver: Driver, load: &Load<'_>) -> anyhow::Result<Measured> {
        let setup = self.dpdk.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        let directory = tempfile::tempdir().context("could not make a directory for sockets")?;
        let (socket, stats) = (directory.path().join("port"), directory.path().join("stats"));
        let devices = driver.devices(0, &socket, setup.huge_pages());
        let start = |cpu, device, role: &mut dyn FnMut(&mut Command)| {
            let mut command = setup.command(&[cpu], &[device]);
            if let Some(ops) = setup.mempool().filter(|_| driver.needs_plugin()) {
                command.args(["--pool-ops", ops]);
            }
            command.args(["--frame", &load.frame.to_string()]);
            role(&mut command);
            self.start(&mut command, cpu)
        };
        let mut generator = start(self.split.host(0), devices.nic, &mut |command| {
            command.arg("load");
            add_load(command, &format!("rpc:{SERVER}:11300"), load);
            command.arg("--stats").arg(format!("unix:{}", stats.display()));
            if load.rate.is_some() {
                command.args(["--inflight", OPEN_ON_DPDK]);
            }
        })?;
        await_file(&socket, &mut generator)?;
        let mut server = start(self.split.nic(), devices.host, &mut |command| {
            command.args(["serve", "-m", MEMORY, "--stats"]).arg(&stats);
        })?;
        let measured = report(generator);
        anyhow::ensure!(measured.is_ok() || !server.ended()?, "ccnic-kv-ethdev ended; its message is above");
        measured
    }

    /// Both have kernel sockets.
    fn on_kernel(
        &self,
        mut server: Command,
        protocol: Protocol,
        load: &Load<'_>,
    ) -> anyhow::Result<Measured> {
        // Nobody else takes it in the meantime: the kernel gives out ports in turn.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr())?.port();
        let text = port.to_string();
        server.args(["-p", &text, "-U", &text]);
        let mut process = self.start(&mut server, self.split.nic())?;
        await_port(port, &mut process)?;
        let target = match protocol {
            Protocol::Tcp => format!("tcp:127.0.0.1:{port}"),
            _ => format!("udp:127.0.0.1:{port}"),
        };
        let mut generator = self.generator(&target, load);
        generator.arg("--stats").arg(format!("pid:{}", process.0.id()));
        report(self.start(&mut generator, self.split.host(0))?)
    }
}

fn await_file(path: &Path, maker: &mut Process) -> anyhow::Result<()> {
    await_it(maker, || path.exists())
}

fn await_port(port: u16, server: &mut Process) -> anyhow::Result<()> {
    await_it(server, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())
}

fn await_it(program: &mut Process, mut is_there: impl FnMut() -> bool) -> anyhow::Result<()> {
    let start = Instant::now();
    while !is_there() {
        if program.ended()? {
            let mut said = String::new();
            if let Some(stderr) = &mut program.0.stderr {
                let _ = std::io::Read::read_to_string(stderr, &mut said);
            }
            // A server's goes where this program's goes.
            let said = if said.trim().is_empty() { "its message is above" } else { said.trim() };
            bail!("a program of the measurement ended at once: {said}");
        }
        anyhow::ensure!(start.elapsed() < PATIENCE, "a program of the measurement was not ready in time");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// What a generator says at its end.
fn report(mut generator: Process) -> anyhow::Result<Measured> {
    let mut said = Output { status: Default::default(), stdout: Vec::new(), stderr: Vec::new() };
    // Little is written to the second: it never waits for whoever reads it.
    if let Some(stdout) = &mut generator.0.stdout {
        std::io::Read::read_to_end(stdout, &mut said.stdout)?;
    }
    if let Some(stderr) = &mut generator.0.stderr {
        std::io::Read::read_to_end(stderr, &mut said.stderr)?;
    }
    said.status = generator.0.wait()?;
    if !said.status.success() {
        let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        bail!("ccnic-kv-load failed ({}): {}{}", said.status, err.trim(), out.trim());
    }
    serde_json::from_slice(&said.stdout).context("the report of ccnic-kv-load is not understood")
}
