//! `ccnicd`: the NIC daemon's command line.

use std::io::{IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail};
use ccnic_control::Listener;
use ccnicd::command::Args;
use ccnicd::config::{Config, Finding, LogFormat, Running};
use ccnicd::control::placement;
use ccnicd::log::LogWriter;
use ccnicd::metrics::Exporter;
use ccnicd::ports::PortOptions;
use ccnicd::start::Start;
use ccnicd::tune::{self, Kept, Pair, Tuned};
use ccnicd::{Daemon, DaemonOptions, notify, oom, sandbox};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        // What is wrong has been printed.
        Ok(false) => ExitCode::from(2),
        Err(e) => {
            let _ = writeln!(LogWriter::default(), "ccnicd: {e:#}");
            ExitCode::from(2)
        }
    }
}

/// `--check-config`: false when something is wrong, and JSON says what.
fn check(file: Option<&Path>, flags: Config, json: bool) -> anyhow::Result<bool> {
    let checked = file.map(Config::read).transpose().and_then(|said| {
        let running = Running::new(flags, said);
        Start::of(running.now(), file)?.check()
    });
    if !json {
        checked?;
        println!("the configuration can be used");
        return Ok(true);
    }
    let errors: Vec<_> = checked.err().iter().map(|error| Finding::of(error, file)).collect();
    println!("{:#}", serde_json::json!({ "usable": errors.is_empty(), "errors": errors }));
    Ok(errors.is_empty())
}

/// Serves until it is told to end, or does what ends at once; false when a check has found something wrong, and has printed it.
fn run(args: Args) -> anyhow::Result<bool> {
    if args.config_schema {
        println!("{:#}", Config::schema());
        return Ok(true);
    }
    let Args { file, config: flags, .. } = args;
    if args.check_config {
        return check(file.as_deref(), flags, args.json);
    }
    let said = file.as_deref().map(Config::read).transpose()?;
    let running = Running::new(flags, said);
    let config = running.now();
    let start = Start::of(config, file.as_deref())?;
    let Start {
        options,
        filter,
        usable,
        needs,
        confinement,
        account,
        metrics,
        said: [of_metrics, of_sandbox],
    } = start;
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(Mutex::new(LogWriter::default()));
    match config.log_format.unwrap_or_default() {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).finish().with(filter).init(),
        LogFormat::Json => log.json().finish().with(filter).init(),
    }
    for warning in placement::warnings(&placement::Kernel::this(), &options.cores) {
        tracing::warn!(target: "ccnicd::placement", "{warning}");
    }
    if usable.len() < 2 {
        tracing::warn!("one CPU only: the NIC and its programs share it and are slow");
    }
    if args.tune {
        return measure(pair(&usable, &options.cores)).map(|()| true);
    }
    // A daemon that will be refused measures nothing: another one polls there.
    let refused = Listener::is_taken(&options.socket);
    let choose = || tune::choose(config.tuning.as_deref(), pair(&usable, &options.cores));
    let tuning = if refused { Ok(Tuned::default()) } else { choose() }?;
    let options = DaemonOptions { tuning, ..options };
    // Before any other thread is started: those run where this one may.
    placement::leave_polling_cpus(&usable, &options.cores);
    let (stop, signalled) = UnixStream::pair().context("could not make a pipe for signals")?;
    // A helper may have stopped, and is waited for while the daemon starts: then a signal ends it at once.
    let waits =
        options.ports.iter().any(|port| matches!(port, PortOptions::Xdp(xdp) if xdp.helper.is_some()));
    let starting = Arc::new(AtomicBool::new(waits));
    for signal in [SIGTERM, SIGINT] {
        let at_once = signal_hook::flag::register_conditional_default(signal, Arc::clone(&starting));
        at_once.context("could not watch for signals")?;
        let end = signalled.try_clone().context("could not copy the signal pipe")?;
        signal_hook::low_level::pipe::register(signal, end).context("could not watch for signals")?;
    }
    let hung_up = Arc::new(AtomicBool::new(false));
    if file.is_some() {
        signal_hook::flag::register(SIGHUP, Arc::clone(&hung_up)).context("could not watch for SIGHUP")?;
    }
    // A socket for each queue with notifications.
    let files = getrlimit(Resource::Nofile);
    if let Err(e) = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }) {
        tracing::warn!("at most {:?} open files: {e}", files.current);
    }
    ccnic_shm::survive_holes().context("could not watch for memory that goes away")?;
    if let Err(e) = oom::lower_score(options.limits.memory_max) {
        tracing::info!("the score of the out-of-memory killer stays as it is: {e}");
    }
    let metrics = metrics.map(Exporter::bind).transpose().context(of_metrics)?;
    notify::connect()?;
    let daemon = Daemon::prepare(options, Some(running))?;
    let sandbox = sandbox::enter(&confinement, account, &needs).context(of_sandbox)?;
    let daemon = daemon.start(Some(sandbox))?;
    starting.store(false, Ordering::Relaxed);
    let exporter = metrics.map(|listener| Exporter::start(listener, daemon.observer())).transpose()?;
    notify::ready();
    daemon.run_reloading(&stop, file.as_deref().map(|file| (&*hung_up, file)));
    drop(exporter);
    Ok(true)
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
