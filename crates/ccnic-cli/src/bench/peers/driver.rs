//! The drivers: which devices each side opens, with the options that their documentation recommends or that
//! measured best.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ccnic::Design;
use clap::ValueEnum;

use super::Through;
use super::process::{Output, PeerRun, Process};
use super::program::Setup;
use crate::loopback::{Bench, Run};
use crate::nic_process::{NicOptions, NicProcess};
use crate::options::{InterfaceArgs, TrafficArgs};

/// Why a driver has no figures between two programs.
const NO_SWITCH: &str = "nothing is between two programs; `bench switch` measures ccnic without DPDK";
/// How long a side may take to start: EAL, memory, all of DPDK's drivers.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Seconds that a run may take besides the measured time: connecting, and waiting for the last packets.
const BEYOND: f64 = 20.0;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// net_ccnic with ccnicd as the NIC
    Ccnic,
    /// net_ccnic on both sides: the NIC is a DPDK program too
    CcnicNic,
    /// ccnic without DPDK: the load generator of `bench loopback`, with ccnicd as the NIC
    Loopback,
    /// net_memif
    Memif,
    /// net_virtio_user and net_vhost, packed rings
    VirtioPacked,
    /// net_virtio_user and net_vhost, split rings
    VirtioSplit,
    /// net_ring: rte_rings between two threads of one process; the NIC's thread copies each packet
    Ring,
}

/// The load that every driver is measured with.
#[derive(Debug, Clone, Copy)]
pub struct PeerLoad<'a> {
    pub through: Through,
    pub size: u16,
    pub inflight: &'a [usize],
    pub seconds: f64,
}

/// The result of a driver's runs.
#[derive(Debug)]
pub enum Ran {
    Runs(Vec<PeerRun>),
    /// The driver cannot carry this load; the reason.
    Not(String),
}

/// The devices of the two sides.
pub struct Devices {
    pub host: String,
    pub nic: String,
}

impl Driver {
    pub const ALL: [Driver; 7] = [
        Driver::Ccnic,
        Driver::CcnicNic,
        Driver::Loopback,
        Driver::Memif,
        Driver::VirtioPacked,
        Driver::VirtioSplit,
        Driver::Ring,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Driver::Ccnic => "ccnic",
            Driver::CcnicNic => "ccnic-nic",
            Driver::Loopback => "loopback",
            Driver::Memif => "memif",
            Driver::VirtioPacked => "virtio-packed",
            Driver::VirtioSplit => "virtio-split",
            Driver::Ring => "ring",
        }
    }

    pub fn needs_plugin(self) -> bool {
        matches!(self, Driver::Ccnic | Driver::CcnicNic)
    }

    /// Runs a load over this driver, from fresh processes.
    pub fn measure(self, setup: &Setup, load: &PeerLoad<'_>) -> anyhow::Result<Ran> {
        if let Some(why) = setup.no_plugin().filter(|_| self.needs_plugin()) {
            return Ok(Ran::Not(why.to_owned()));
        }
        let folder = tempfile::tempdir().context("could not make a directory for a socket")?;
        let switch = load.through == Through::Switch;
        match self {
            Driver::Loopback | Driver::Ring if switch => Ok(Ran::Not(NO_SWITCH.to_owned())),
            Driver::Loopback => loopback(setup, load),
            Driver::Ring => {
                let mut command = setup.command(&[setup.split.host(0), setup.split.nic()], &[]);
                command.arg("--ring").args(self.options(setup, load));
                collect(command, load)
            }
            Driver::Ccnic => {
                let args: &[&str] = if switch { &["--wire", "switch"] } else { &[] };
                let cores = &[setup.split.nic()];
                let nic = NicProcess::start_with(NicOptions { cores, args, ..NicOptions::default() })?;
                let device = |n| format!("net_ccnic{n},socket={},role=program", nic.socket().display());
                let programs = if switch { vec![device(0), device(1)] } else { vec![device(0)] };
                self.generate(setup, load, &programs)
            }
            _ if switch => self.bridged(setup, load, folder.path()),
            _ => self.two_processes(setup, load, folder.path()),
        }
    }

    /// Two devices of the generator's process, and testpmd between them.
    fn bridged(self, setup: &Setup, load: &PeerLoad<'_>, folder: &Path) -> anyhow::Result<Ran> {
        let sockets = [0, 1].map(|n| folder.join(format!("{n}.sock")));
        let [a, b] = [0, 1].map(|n| self.devices(n, &sockets[n], false)); // two memifs with zero-copy do not come up in one process
        let mut bridge = Process::start(setup.bridge(&[a.nic, b.nic], load.size))?;
        let start = Instant::now();
        while !sockets.iter().all(|socket| socket.exists()) {
            bridge.is_running().context("testpmd")?;
            anyhow::ensure!(start.elapsed() < PATIENCE, "testpmd does not listen{}", bridge.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.generate(setup, load, &[a.host, b.host])
    }

    /// The generator in one process, the NIC side in another.
    fn two_processes(self, setup: &Setup, load: &PeerLoad<'_>, folder: &Path) -> anyhow::Result<Ran> {
        let devices = self.devices(0, &folder.join("peer.sock"), setup.huge_pages());
        let mut command = setup.command(&[setup.split.nic()], &[devices.nic]);
        command.arg("--reflect").args(self.options(setup, load));
        let mut nic = Process::start(command).context("the NIC side")?;
        match nic.line(PATIENCE).context("the NIC side")? {
            Some(Output::Ready { ready: true }) => {}
            Some(Output::Unsupported { unsupported }) => return Ok(Ran::Not(unsupported)),
            _ => {
                nic.succeed().context("the NIC side")?;
                bail!("the NIC side ended at once{}", nic.said());
            }
        }
        self.generate(setup, load, &[devices.host])
    }

    fn generate(self, setup: &Setup, load: &PeerLoad<'_>, devices: &[String]) -> anyhow::Result<Ran> {
        let mut command = setup.command(&[setup.split.host(0)], devices);
        if load.through == Through::Switch {
            command.arg("--pair");
        }
        command.args(self.options(setup, load));
        collect(command, load)
    }

    /// Options of `ccnic-peers` that both sides take.
    fn options(self, setup: &Setup, load: &PeerLoad<'_>) -> Vec<String> {
        let inflight: Vec<String> = load.inflight.iter().map(usize::to_string).collect();
        let mut options = vec![
            format!("--label={}", self.name()),
            format!("--size={}", load.size),
            format!("--inflight={}", inflight.join(",")),
            format!("--seconds={}", load.seconds),
            format!("--warmup={}", warmup(load.seconds)),
        ];
        if let Some(mempool) = setup.mempool().filter(|_| self.needs_plugin()) {
            options.push(format!("--pool-ops={mempool}"));
        }
        options
    }

    /// The `n`th devices of drivers with a process on each side.
    pub fn devices(self, n: usize, socket: &Path, huge: bool) -> Devices {
        let socket = socket.display();
        let vhost = format!("net_vhost{n},iface={socket},queues=1");
        let virtio = |more| format!("net_virtio_user{n},path={socket},queues=1,queue_size=1024,{more}");
        match self {
            // Without mergeable buffers and with in-order completion the drivers use their vectorised paths.
            Driver::VirtioPacked => {
                Devices { host: virtio("packed_vq=1,in_order=1,mrg_rxbuf=0"), nic: vhost }
            }
            Driver::VirtioSplit => Devices { host: virtio("in_order=1,mrg_rxbuf=0"), nic: vhost },
            Driver::CcnicNic => Devices {
                host: format!("net_ccnic{n},socket={socket},role=program"),
                nic: format!("net_ccnic{n},socket={socket},role=nic"),
            },
            _ => {
                let memif = |role| {
                    format!("net_memif{n},role={role},id={n},socket={socket},socket-abstract=no,rsize=10")
                };
                // With zero-copy the client shares its own buffers, which then must lie in one file.
                let zero_copy = if huge { ",zero-copy=yes" } else { "" };
                Devices { host: memif("client") + zero_copy, nic: memif("server") }
            }
        }
    }
}

fn warmup(seconds: f64) -> f64 {
    (seconds / 4.0).min(0.3)
}

/// Runs the generator to its end.
fn collect(command: std::process::Command, load: &PeerLoad<'_>) -> anyhow::Result<Ran> {
    let mut generator = Process::start(command)?;
    let a_run = Duration::from_secs_f64(load.seconds + warmup(load.seconds) + BEYOND) + PATIENCE;
    let mut runs = Vec::new();
    while let Some(line) = generator.line(a_run)? {
        match line {
            Output::Run(run) => runs.push(PeerRun { mpps: run.mpps * load.through.passes(), ..run }),
            Output::Unsupported { unsupported } => return Ok(Ran::Not(unsupported)),
            Output::Ready { ready } => bail!("the generator said ready: {ready}"),
        }
    }
    generator.succeed()?;
    anyhow::ensure!(runs.len() == load.inflight.len(), "only {} results came", runs.len());
    Ok(Ran::Runs(runs))
}

/// The generator of `bench loopback`: the difference to net_ccnic is the cost of DPDK's API.
fn loopback(setup: &Setup, load: &PeerLoad<'_>) -> anyhow::Result<Ran> {
    anyhow::ensure!(setup.split.alone(1), "both sides share a CPU");
    let config = InterfaceArgs::of(Design::GroupedEpoch).config(1);
    let bench = Bench::new(None, 1, false)?;
    let run = |&inflight: &usize| {
        let traffic = TrafficArgs {
            size: load.size,
            burst: 32.min(inflight),
            rx_burst: 32,
            inflight,
            queues: 1,
            seconds: load.seconds,
            whole_bursts: false,
            rate: None,
        };
        let Run { totals, cpu_share } = bench.run(&config, &traffic)?;
        Ok(PeerRun {
            inflight,
            mpps: totals.mpps,
            rtt_p50_ns: totals.rtt_ns.p50,
            rtt_p99_ns: totals.rtt_ns.p99,
            lost: totals.lost,
            corrupt: totals.corrupt,
            cpu_share,
        })
    };
    load.inflight.iter().map(run).collect::<anyhow::Result<_>>().map(Ran::Runs)
}
