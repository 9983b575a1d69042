//! `ccnicd-xdp`: opens queues of interfaces for daemons that have no capabilities (`--port xdp:IFACE,helper=SOCKET`).

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::Context;
use ccnic_control::{Listener, SocketAccess};
use ccnicd::config::{FileMode, Text};
use ccnicd::control::users::{gid_of, uid_of};
use ccnicd::log::LogWriter;
use ccnicd::ports::PortOptions;
use ccnicd::ports::xdp::{XdpOptions, helper};
use ccnicd::sandbox::{self, Needs, SandboxOptions};
use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Opens queues of network interfaces by AF_XDP, and hands them over to ccnicd, which needs no capabilities then.
#[derive(Debug, Parser)]
#[command(name = "ccnicd-xdp", version)]
struct Args {
    /// Where daemons connect: `ccnicd --port xdp:IFACE,helper=PATH`
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The socket's permissions, such as 0660 [default: as for any new file]
    #[arg(long, value_name = "MODE")]
    socket_mode: Option<Text<FileMode>>,
    /// The user that the socket belongs to, by name or number
    #[arg(long, value_name = "USER")]
    socket_owner: Option<String>,
    /// The group that the socket belongs to, by name or number
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// An interface that is handed over, to one daemon at a time; several times for several. Keys: queues, mode, zero-copy, ring
    #[arg(long, value_name = "IFACE[,KEY=VALUE]...", required = true, value_parser = interface)]
    interface: Vec<XdpOptions>,
    /// What it may do itself, as of ccnicd
    #[arg(long, value_name = "HOW", default_value_t)]
    sandbox: SandboxOptions,
}

fn interface(text: &str) -> Result<XdpOptions, String> {
    XdpOptions::for_helper(text).map_err(|e| format!("{e:#}")) // on one line: of an error with causes, clap would print the first
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(LogWriter::default(), "ccnicd-xdp: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    let Args { socket, socket_mode, socket_owner, socket_group, interface, sandbox } = args;
    tracing_subscriber::fmt()
        .with_writer(Mutex::new(LogWriter::default()))
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let (stop, signalled) = UnixStream::pair().context("could not make a pipe for signals")?;
    for signal in [SIGTERM, SIGINT] {
        let end = signalled.try_clone().context("could not copy the signal pipe")?;
        signal_hook::low_level::pipe::register(signal, end).context("could not watch for signals")?;
    }
    let access = SocketAccess {
        mode: socket_mode.map(|Text(FileMode(mode))| mode),
        owner: socket_owner.as_deref().map(uid_of).transpose().context("--socket-owner names nobody")?,
        group: socket_group.as_deref().map(gid_of).transpose().context("--socket-group names nothing")?,
    };
    let listening = Listener::bind(&socket, &access)?;
    let ports = interface.iter().cloned().map(PortOptions::Xdp).collect();
    sandbox::enter(&sandbox, None, &Needs { ports, ..Needs::default() })?;
    tracing::info!(interfaces = interface.len(), "ccnicd-xdp {} is ready", env!("CARGO_PKG_VERSION"));
    helper::serve(&listening, interface, stop.as_fd())
}
