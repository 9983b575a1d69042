//! `ccnicd`: the NIC daemon's command line.

use std::io::IsTerminal;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use ccnic_control::{Connection, Limits, UserLimits};
use ccnicd::control::{placement, users::uid_of};
use ccnicd::dataplane::DataplaneKind;
use ccnicd::ports::PortOptions;
use ccnicd::switch::TableLimits;
use ccnicd::tune::{self, Kept, Pair, Tuned};
use ccnicd::{Daemon, DaemonOptions, default_socket, oom};
use clap::{Parser, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use tracing_subscriber::EnvFilter;

/// The ccnic NIC daemon: serves programs over cache-coherent shared memory.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Where programs connect [default: /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long)]
    socket: Option<PathBuf>,
    /// CPUs that poll, such as 1 or 2,3 [default: the last one this process may use]
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    /// What programs are connected to
    #[arg(long, value_enum, default_value_t = WireName::Loopback)]
    wire: WireName,
    /// Loopback: hand the same buffer back, without a copy
    #[arg(long)]
    reflect: bool,
    /// Switch: forget an address from which no packet has come for so long
    #[arg(long, value_name = "SECONDS", default_value_t = TableLimits::default().ageing, value_parser = clap::value_parser!(u32).range(1..))]
    mac_ageing: u32,
    /// Switch: addresses that it learns; packets to others go to all ports
    #[arg(long, value_name = "N", default_value_t = TableLimits::default().addresses as u32, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    mac_table: u32,
    /// Switch: addresses that it learns of one program
    #[arg(long, value_name = "N", default_value_t = TableLimits::default().per_port, value_parser = clap::value_parser!(u32).range(1..))]
    mac_port: u32,
    /// Switch: a port that is no program (may be given several times): tap:NAME[,mtu=N][,address=IP/PREFIX]...[,mac=MAC][,queues=N][,offload=off]
    /// is a network interface of this kernel (docs/switch.md)
    #[arg(long = "port", value_name = "KIND:NAME[,...]", value_parser = port)]
    ports: Vec<PortOptions>,
    /// The largest region that a program may bring, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1280, value_parser = clap::value_parser!(u32).range(1..4096))]
    region_max: u32,
    /// What all programs' regions together may take, in MiB [default: half of the memory that machine and control group leave]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=u64::MAX >> 20))]
    memory_max: Option<u64>,
    /// Connections that the programs of one user may have
    #[arg(long, value_name = "N", default_value_t = UserLimits::CONNECTIONS, value_parser = clap::value_parser!(u32).range(1..))]
    user_connections: u32,
    /// Programs that one user may have attached
    #[arg(long, value_name = "N", default_value_t = UserLimits::PROGRAMS, value_parser = clap::value_parser!(u32).range(1..))]
    user_programs: u32,
    /// Queue pairs that the programs of one user may have together
    #[arg(long, value_name = "N", default_value_t = UserLimits::QUEUES, value_parser = clap::value_parser!(u32).range(1..))]
    user_queues: u32,
    /// What the regions of one user's programs may take together, in MiB [default: three quarters of --memory-max]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=u64::MAX >> 20))]
    user_memory: Option<u64>,
    /// Users, by name or uid, whose programs are trusted not to punch holes into their regions: those are not sealed, so that a program
    /// need not copy its region when ccnicd is restarted
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    trusted_users: Vec<String>,
    /// Sleep when no packet has come for so many microseconds, until a program, an interface or an operator wants something; 0: never,
    /// poll all the time
    #[arg(long, value_name = "MICROSECONDS", default_value_t = DaemonOptions::SLEEP_AFTER.as_micros() as u32, value_parser = sleep_after)]
    sleep_after: u32,
    /// Measure on this machine what --tuning chooses, print a table, keep the result for later starts, and end. Needs a polling CPU
    /// and another one that are idle
    #[arg(long, conflicts_with = "tuning")]
    tune: bool,
    /// How the machine is used, such as fetch=own,ahead=0,demote=auto,idle=pause: fields that are left out, and all without this option,
    /// are measured once for each CPU model; default: measure nothing
    #[arg(long, value_name = "FIELD=VALUE,...")]
    tuning: Option<String>,
    /// What to log: error, warn, info, debug or trace
    #[arg(long, default_value = "info")]
    log: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WireName {
    /// Back to the program that sent it
    Loopback,
    /// To the program that has the packet's destination address, or to all others (docs/switch.md)
    Switch,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("ccnicd: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let filter =
        EnvFilter::try_new(&args.log).with_context(|| format!("--log {} is no log filter", args.log))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let usable = placement::allowed_cpus().context("could not ask which CPUs may be used")?;
    let (cores, dedicated_cores) = choose_cores(&usable, &args.cores)?;
    for warning in placement::warnings(&placement::Kernel::this(), &cores) {
        tracing::warn!(target: "ccnicd::placement", "{warning}");
    }
    if args.tune {
        return measure(pair(&usable, &cores));
    }
    let dataplane = dataplane(args)?;
    DaemonOptions::check_cores(dataplane, cores.len())?;
    DaemonOptions::check_ports(dataplane, &args.ports)?;
    let socket = args.socket.clone().unwrap_or_else(default_socket);
    // A daemon that will be refused measures nothing: another one polls there.
    let refused = Connection::open(&socket).is_ok();
    let choose = || tune::choose(args.tuning.as_deref(), pair(&usable, &cores));
    let tuning =
        if refused { Ok(Tuned::default()) } else { choose() }.context("--tuning is not understood")?;
    // Before any other thread is started: those run where this one may.
    placement::leave_polling_cpus(&usable, &cores);
    let (stop, signalled) = UnixStream::pair().context("could not make a pipe for signals")?;
    for signal in [SIGTERM, SIGINT] {
        let end = signalled.try_clone().context("could not copy the signal pipe")?;
        signal_hook::low_level::pipe::register(signal, end).context("could not watch for signals")?;
    }
    // A socket for each queue with notifications.
    let files = getrlimit(Resource::Nofile);
    if let Err(e) = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }) {
        tracing::warn!("at most {:?} open files: {e}", files.current);
    }
    ccnic_shm::survive_holes().context("could not watch for memory that goes away")?;
    let limits = limits(args)?;
    if let Err(e) = oom::lower_score(limits.memory_max) {
        tracing::info!("the score of the out-of-memory killer stays as it is: {e}");
    }
    let ports = args.ports.clone();
    let sleep_after = (args.sleep_after > 0).then(|| Duration::from_micros(args.sleep_after.into()));
    let daemon = Daemon::new(DaemonOptions {
        socket,
        cores,
        dataplane,
        ports,
        limits,
        dedicated_cores,
        sleep_after,
        tuning,
    })?;
    daemon.run(&stop);
    Ok(())
}

/// `--sleep-after`.
fn sleep_after(text: &str) -> Result<u32, String> {
    let microseconds: u32 = text.parse().map_err(|_| "it is no number of microseconds".to_owned())?;
    match microseconds {
        0 | 100..=10_000_000 => Ok(microseconds),
        _ => Err("choose 100 to 10000000 microseconds, or 0 to poll all the time".to_owned()),
    }
}

/// `--port`. (Of an error with causes, clap would print the first line.)
fn port(text: &str) -> Result<PortOptions, String> {
    text.parse().map_err(|e: anyhow::Error| format!("{e:#}"))
}

/// `--wire`, with what belongs to it.
fn dataplane(args: &Args) -> anyhow::Result<DataplaneKind> {
    let limits =
        TableLimits { addresses: args.mac_table as usize, per_port: args.mac_port, ageing: args.mac_ageing };
    Ok(match (args.wire, args.reflect) {
        (WireName::Loopback, false) => DataplaneKind::Loopback,
        (WireName::Loopback, true) => DataplaneKind::Reflect,
        (WireName::Switch, false) => DataplaneKind::Switch(limits),
        (WireName::Switch, true) => {
            bail!(
                "--reflect is the loopback's: a switch copies packets from one program's memory to another's"
            )
        }
    })
}

/// The CPUs that a measurement runs on: the first that polls, and one for programs.
fn pair(usable: &[usize], cores: &[usize]) -> Option<Pair> {
    let nic = *cores.first()?;
    let program = placement::program_cpu(&placement::Kernel::this(), usable, cores, nic)?;
    Some(Pair { nic, program })
}

/// `--tune`.
fn measure(pair: Option<Pair>) -> anyhow::Result<()> {
    let pair =
        pair.context("--tune needs two CPUs, one of the NIC and one of a program, and there is one only")?;
    let tune::Outcome { text, tuning, kept } = tune::tune(pair)?;
    println!("CPU {} is the NIC's, CPU {} the program's\n\n{text}\ntuning: {tuning}", pair.nic, pair.program);
    match kept {
        Kept::In(path) => println!("kept in {}", path.display()),
        Kept::Nowhere => println!("not kept: the CPU's model, or a directory for it, is unknown"),
        Kept::Incomplete => bail!("not kept: other processes used these CPUs; try again when they are idle"),
    }
    Ok(())
}

/// What programs may take.
fn limits(args: &Args) -> anyhow::Result<Limits> {
    let memory_max = args.memory_max.map_or_else(Limits::half_the_memory, |mib| mib << 20);
    let user = UserLimits {
        connections: args.user_connections,
        programs: args.user_programs,
        queues: args.user_queues,
        memory: args.user_memory.map_or(UserLimits::within(memory_max).memory, |mib| mib << 20),
    };
    let trusted = args.trusted_users.iter().map(|user| uid_of(user)).collect::<Result<_, _>>();
    let trusted_users = trusted.context("--trusted-users names nobody")?;
    Ok(Limits { region_max: args.region_max << 20, memory_max, user, trusted_users })
}

/// The polling CPUs, and whether programs have other CPUs to run on.
fn choose_cores(usable: &[usize], asked: &[usize]) -> anyhow::Result<(Vec<usize>, bool)> {
    if let Some(cpu) = asked.iter().find(|cpu| !usable.contains(cpu)) {
        bail!("--cores names CPU {cpu}, which this process may not use; it may use {usable:?}");
    }
    if let Some((i, cpu)) = asked.iter().enumerate().find(|(i, cpu)| asked.iter().take(*i).any(|c| c == *cpu))
    {
        bail!("--cores names CPU {cpu} twice, again as number {}", i + 1);
    }
    let cores = if asked.is_empty() { usable.last().copied().into_iter().collect() } else { asked.to_vec() };
    if usable.len() < 2 {
        tracing::warn!("one CPU only: the NIC and its programs share it and are slow");
    }
    let dedicated = usable.len() > cores.len();
    Ok((cores, dedicated))
}
