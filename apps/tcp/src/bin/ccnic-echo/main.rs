//! `ccnic-echo`: remote procedure calls of 64 bytes over many TCP connections, over ccnic or over the kernel's sockets, to compare the two.
//!
//! The experiment of CC-NIC section 5.7 (with the TCP stack TAS): 96 connections, requests pipelined, closed loop. Server and client are the
//! same code for both; only what is behind [`net::Net`] differs.

mod client;
mod kernel;
mod net;
mod overlay;
mod server;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ccnic_tcp::{Network, Options};
use clap::{Args, Parser, Subcommand};

use client::{Client, Load};
use net::Net;
use server::Server;

/// Remote procedure calls over TCP: over ccnic, or over the kernel's sockets.
#[derive(Debug, Parser)]
#[command(name = "ccnic-echo", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Return what comes, until the process is ended
    Server {
        #[command(flatten)]
        way: Way,
        /// The TCP port
        #[arg(long, default_value_t = 7)]
        port: u16,
        /// Connections whose requests find room in the ring when they come at once
        #[arg(long, default_value_t = 96)]
        flows: usize,
        #[command(flatten)]
        idle: Idle,
    },
    /// Send requests, check the answers, and say what was measured
    Client {
        #[command(flatten)]
        way: Way,
        /// The server
        #[arg(long)]
        to: SocketAddr,
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        idle: Idle,
    },
    /// Client and server in one thread: calls per second of one core that does the work of both ends
    Both {
        #[command(flatten)]
        way: Way,
        #[command(flatten)]
        load: Load,
    },
}

/// What to do when nothing comes.
#[derive(Debug, Args)]
struct Idle {
    /// Sleep when no frame has come for so many microseconds (over the kernel at once); 0: never
    #[arg(long, default_value_t = 50, value_name = "MICROSECONDS")]
    sleep_after: u64,
}

impl Idle {
    /// How long to sleep at most: so that a client whose answers do not come says so.
    fn limit(&self) -> Duration {
        if self.sleep_after == 0 { Duration::ZERO } else { Duration::from_secs(1) }
    }

    fn set(&self, mut options: Options) -> Options {
        options.sleep_after = Duration::from_micros(self.sleep_after);
        options
    }
}

/// The longest ring.
const RING: u32 = 32768;

/// Over what.
#[derive(Debug, Args)]
struct Way {
    /// The kernel's sockets, on all its addresses
    #[arg(long, conflicts_with = "socket")]
    kernel: bool,
    /// The socket of the NIC [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long)]
    socket: Option<PathBuf>,
    /// This host's address and the bits of its network's prefix
    #[arg(long, default_value = "10.9.0.2/24")]
    address: Network,
    /// An IPv6 address, too
    #[arg(long)]
    ipv6: Option<Network>,
    /// The gateway to other networks; once for each version of IP
    #[arg(long, value_name = "ADDR")]
    gateway: Vec<IpAddr>,
}

impl Way {
    fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(ccnic_client::default_socket)
    }

    /// Options for so many connections.
    fn options(&self, flows: usize) -> Result<Options, ccnic_tcp::Error> {
        let mut options = Options::new(self.address);
        options.ipv6 = self.ipv6.or(options.ipv6);
        options.set_gateways(self.gateway.iter().copied())?;
        options.connections = options.connections.max(flows);
        // Each may have a segment and an acknowledgement under way: what finds the ring full is lost, and sent again after a second.
        let config = &mut options.config;
        config.ring =
            config.ring.max(u32::try_from(2 * flows).unwrap_or(u32::MAX)).min(RING).next_power_of_two();
        config.buffers = config.buffers.max(2 * config.ring);
        Ok(options)
    }

    fn listen(&self, options: &Options, port: u16) -> anyhow::Result<Box<dyn Net>> {
        if self.kernel {
            return Ok(Box::new(kernel::Kernel::listen(port).with_context(|| format!("port {port}"))?));
        }
        Ok(Box::new(overlay::Overlay::listen(&self.socket(), options, port)?))
    }

    fn connect(&self, options: &Options, to: SocketAddr, load: &Load) -> anyhow::Result<Box<dyn Net>> {
        if self.kernel {
            let connected = kernel::Kernel::connect(to, load.flows, load.limit());
            return Ok(Box::new(connected.with_context(|| format!("{to}"))?));
        }
        Ok(Box::new(overlay::Overlay::connect(&self.socket(), options, to, load.flows)?))
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ccnic-echo: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Server { way, port, flows, idle } => {
            let mut net = way.listen(&idle.set(way.options(flows)?), port)?;
            let mut server = Server::default();
            loop {
                server.step(net.as_mut(), idle.limit())?;
            }
        }
        Command::Client { way, to, load, idle } => {
            let mut net = way.connect(&idle.set(way.options(load.flows)?), to, &load)?;
            let mut client = Client::new(&load);
            client.run(net.as_mut(), &load, idle.limit(), || Ok(()))?;
            client.report(&load);
        }
        Command::Both { way, load } => both(&way, &load)?,
    }
    Ok(())
}

/// Both ends in this thread.
fn both(way: &Way, load: &Load) -> anyhow::Result<()> {
    const PORT: u16 = 7007;
    let mut listening = way.listen(&way.options(load.flows)?, PORT)?;
    let (to, options) = if way.kernel {
        (SocketAddr::from(([127, 0, 0, 1], PORT)), way.options(load.flows)?)
    } else {
        let mut options = way.options(load.flows)?;
        let next = |ours: Network| Network { address: next_address(ours.address), ..ours };
        (options.ipv4, options.ipv6) = (options.ipv4.map(next), options.ipv6.map(next));
        (SocketAddr::new(way.address.address, PORT), options)
    };
    let mut net = way.connect(&options, to, load)?;
    let (mut client, mut server) = (Client::new(load), Server::default());
    client.run(net.as_mut(), load, Duration::ZERO, || server.step(listening.as_mut(), Duration::ZERO))?;
    client.report(load);
    Ok(())
}

/// The address behind this one, for the other end.
fn next_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::from(u32::from(address).wrapping_add(1).to_be_bytes()),
        IpAddr::V6(address) => IpAddr::from(u128::from(address).wrapping_add(1).to_be_bytes()),
    }
}
