//! What a start of `ccnicd` begins with, and all of `--check-config`: the configuration comes to something, and this machine has what it
//! takes. One validation, so that a file which a check passes is one with which the daemon starts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use ccnic_control::{Listener, files};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use tracing_subscriber::filter::Targets;

use crate::config::Config;
use crate::control::placement;
use crate::metrics::Exporter;
use crate::ports::PortOptions;
use crate::ports::pcap::{PcapOptions, PcapPort};
use crate::sandbox::{self, Account, Needs, SandboxOptions};
use crate::{DaemonOptions, log, tune};

/// A configuration that goes together, on this machine.
#[derive(Debug)]
pub struct Start {
    /// What the daemon is to be; of its tuning nothing is known yet.
    pub options: DaemonOptions,
    /// What is logged.
    pub filter: Targets,
    /// The CPUs that this process may use.
    pub usable: Vec<usize>,
    /// What is left to the process once it is set up, as which user.
    pub needs: Needs,
    /// Parts of the sandbox.
    pub confinement: SandboxOptions,
    /// The user that it becomes.
    pub account: Option<Account>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// How the operator has said `metrics` and `sandbox`.
    pub said: [String; 2],
}

impl Start {
    /// Looks `config` through, which has been read from `file` and flags. Opens and changes nothing.
    ///
    /// # Errors
    /// What is wrong, where it has been said, and what would be right.
    pub fn of(config: &Config, file: Option<&Path>) -> anyhow::Result<Start> {
        let filter = log::filter(config.log()).with_context(|| config.said("log"))?;
        let usable = placement::allowed_cpus().context("could not ask which CPUs may be used")?;
        let (cores, dedicated_cores) =
            choose_cores(&usable, &config.cores).with_context(|| config.said("cores"))?;
        let options = config.settle()?;
        DaemonOptions::check_cores(options.dataplane, cores.len()).with_context(|| config.said("cores"))?;
        tune::check(config.tuning.as_deref()).with_context(|| config.said("tuning"))?;
        let (needs, account) = (config.needs(file, &options), config.account()?);
        sandbox::check(&config.sandbox(), account).with_context(|| config.said("user"))?;
        Ok(Start {
            options: DaemonOptions { cores, dedicated_cores, ..options },
            filter,
            usable,
            needs,
            confinement: config.sandbox(),
            account,
            metrics: config.metrics,
            said: [config.said("metrics"), config.said("sandbox")],
        })
    }

    /// `--check-config`: tries what a start would do, as far as nobody notices. A daemon that runs at the socket may hold what this one would
    /// need: it is the one whose file is looked at. Confines this process for good, which is to end now.
    ///
    /// # Errors
    /// As [`of`](Start::of).
    pub fn check(self) -> anyhow::Result<()> {
        let Start { options, needs, confinement, account, metrics, said: [of_metrics, of_sandbox], .. } =
            self;
        let runs = Listener::is_taken(&options.socket);
        Listener::check(&options.socket, &options.access).with_context(|| options.said.socket.clone())?;
        if let Some(address) = metrics
            && let Err(e) = Exporter::bind(address)
        {
            let held = e.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            if !(runs && held == Some(std::io::ErrorKind::AddrInUse)) {
                return Err(e).context(of_metrics);
            }
        }
        let ports = || options.ports.iter().enumerate();
        for (at, port) in ports() {
            port.check_interface().with_context(|| options.said_port(at))?;
        }
        sandbox::enter(&confinement, account, &needs).context(of_sandbox)?;
        let mut recorded: Vec<PathBuf> = Vec::new();
        for (at, port) in ports() {
            if let PortOptions::Pcap(files) = port {
                check_files(files, &mut recorded).with_context(|| options.said_port(at))?;
            }
        }
        Ok(())
    }
}

/// Opens what is replayed, and sees whether what is recorded could be made, in a file that is not `recorded` in by a port before: beginning a
/// recording cuts the file.
fn check_files(options: &PcapOptions, recorded: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if options.replay.is_some() {
        PcapPort::open(&PcapOptions { record: None, ..options.clone() })?;
    }
    let Some(record) = &options.record else { return Ok(()) };
    let same = options.replay.as_deref().is_some_and(|replay| files::are_one(replay, record));
    ensure!(!same, "a file is replayed and recorded at once: name another one");
    let whole = std::path::absolute(record).with_context(|| record.display().to_string())?;
    let twice = recorded.iter().any(|other| *other == whole || files::are_one(other, &whole));
    ensure!(!twice, "record={}: another port records in this file: name another one", record.display());
    recorded.push(whole);
    let parent = record.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let may = accessat(CWD, &directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
    may.with_context(|| {
        format!("record={}: no file can be made in {}", record.display(), directory.display())
    })
}

/// The polling CPUs, and whether programs have other CPUs to run on.
fn choose_cores(usable: &[usize], asked: &[usize]) -> anyhow::Result<(Vec<usize>, bool)> {
    if let Some(cpu) = asked.iter().find(|cpu| !usable.contains(cpu)) {
        bail!("CPU {cpu} is none that this process may use: name some of {usable:?}");
    }
    if let Some((i, cpu)) = asked.iter().enumerate().find(|(i, cpu)| asked.iter().take(*i).any(|c| c == *cpu))
    {
        bail!("CPU {cpu} is named twice, again as number {}: name it once", i + 1);
    }
    let cores = if asked.is_empty() { usable.last().copied().into_iter().collect() } else { asked.to_vec() };
    let dedicated = usable.len() > cores.len();
    Ok((cores, dedicated))
}
