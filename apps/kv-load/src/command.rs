//! The command line of the load generator, also for programs that bring a transport of their own.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum};

use crate::report::Report;
use crate::run::{Edge, Load, Outcome, Pace, run_between};
use crate::stats::{Figures, Source, between};
use crate::transport::{AsNic, Attached, Datagrams, Speech, Streams, Transport};
use crate::workload::{Plan, Sizes, Workload};

/// Loads a key-value store (ccnic-kv, memcached) and measures throughput and latencies. Every value is verified.
#[derive(Debug, Parser)]
#[command(name = "ccnic-kv-load", version)]
pub struct Args {
    /// tcp:HOST:PORT, udp:HOST:PORT, rpc:HOST:PORT (the RPC of the CC-NIC paper over UDP) or unix:PATH
    server: Server,
    /// Control socket of a ccnic NIC, over which udp: and rpc: then go
    #[arg(long, value_name = "SOCKET", requires = "address")]
    ccnic: Option<PathBuf>,
    /// Listen here as a NIC, and load the server of udp: or rpc: that attaches (ccnic-kv --ccnic SOCKET -t 1): nothing else is between them
    #[arg(long, value_name = "SOCKET", requires = "address", conflicts_with = "ccnic")]
    as_nic: Option<PathBuf>,
    /// With --ccnic and --as-nic: address of this program, and its network's prefix: 10.9.0.2/24
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    address: Option<String>,
    /// With --ccnic: the largest IP packet that is sent in one piece; longer requests go in fragments
    #[arg(long, value_name = "BYTES", default_value_t = 1500, requires = "ccnic")]
    mtu: usize,
    /// What is asked for: Google's ads and geo as in the CC-NIC paper, or YCSB's A, B, C
    #[arg(long, value_enum, default_value_t = Name::Ads)]
    workload: Name,
    /// Bytes of every value instead of the workload's sizes
    #[arg(long, value_name = "BYTES")]
    size: Option<u32>,
    /// The largest value; larger ones are cut to this
    #[arg(long, value_name = "BYTES")]
    largest: Option<u32>,
    /// Objects instead of a million
    #[arg(long)]
    objects: Option<u32>,
    /// The share of gets instead of the workload's, 0 to 1
    #[arg(long)]
    gets: Option<f64>,
    /// Zipf's exponent instead of the workload's; 0 is uniform
    #[arg(long, value_name = "EXPONENT")]
    zipf: Option<f64>,
    /// What all draws begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Requests a second, sent whatever the answers do [default: a closed loop]
    #[arg(long)]
    rate: Option<f64>,
    /// With --rate: equal distances in time instead of a Poisson process
    #[arg(long, requires = "rate")]
    even: bool,
    /// Requests in flight, at most [default: 16 in a closed loop, 4096 with --rate]
    #[arg(long, value_name = "REQUESTS")]
    inflight: Option<usize>,
    /// Connections of tcp: and unix:, which send in turn; with more requests in flight than connections, they are pipelined
    #[arg(long, default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    connections: usize,
    /// Server threads of rpc:, each with its own port from PORT on
    #[arg(long, default_value_t = 1, value_name = "THREADS", value_parser = clap::value_parser!(u16).range(1..))]
    shards: u16,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds to send before that
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    warmup: f64,
    /// Seconds after which a datagram is lost
    #[arg(long, default_value_t = 0.2, value_name = "SECONDS")]
    timeout: f64,
    /// Seconds after which a store that answers nothing, or takes no connection, is given up (exit status 2); at least --timeout; 0: never
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    connection_timeout: f64,
    /// Do not write the objects first
    #[arg(long)]
    no_preload: bool,
    /// Ask the server for its `stats` before and after, at tcp:HOST:PORT or unix:PATH, and tell the differences (with --json). pid:PID: how
    /// long that process has run
    #[arg(long, value_name = "WHERE")]
    stats: Option<Source>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Name {
    /// 61 % of the values below 100 bytes
    Ads,
    /// 13 % below 100 bytes
    Geo,
    /// As geo, with smaller values
    GeoSmall,
    /// Half gets
    YcsbA,
    /// 95 % gets
    YcsbB,
    /// Gets only
    YcsbC,
}

/// Where the store is.
#[derive(Debug, Clone)]
enum Server {
    Tcp(String),
    Udp(String),
    Rpc(String),
    Unix(PathBuf),
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Server, String> {
        let wrong = || format!("{text:?} is none of tcp:HOST:PORT, udp:HOST:PORT, rpc:HOST:PORT, unix:PATH");
        let (scheme, rest) = text.split_once(':').ok_or_else(wrong)?;
        match scheme {
            "tcp" => Ok(Server::Tcp(rest.to_owned())),
            "udp" => Ok(Server::Udp(rest.to_owned())),
            "rpc" => Ok(Server::Rpc(rest.to_owned())),
            "unix" => Ok(Server::Unix(rest.into())),
            _ => Err(wrong()),
        }
    }
}

/// What a run has shown, and what the server has added to its `stats`.
type Measured = (Outcome, Option<Figures>);

impl Args {
    fn workload(&self) -> Workload {
        let named = match self.workload {
            Name::Ads => Workload::of_the_paper(Sizes::Ads),
            Name::Geo => Workload::of_the_paper(Sizes::Geo),
            Name::GeoSmall => Workload::of_the_paper(Sizes::GeoSmall),
            Name::YcsbA => Workload::of_ycsb(0.5),
            Name::YcsbB => Workload::of_ycsb(0.95),
            Name::YcsbC => Workload::of_ycsb(1.0),
        };
        Workload {
            objects: self.objects.unwrap_or(named.objects),
            gets: self.gets.unwrap_or(named.gets),
            zipf: self.zipf.unwrap_or(named.zipf),
            sizes: self.size.map_or(named.sizes, Sizes::Fixed),
            largest: self.largest.unwrap_or(named.largest),
            seed: self.seed,
        }
    }

    fn load(&self) -> anyhow::Result<Load> {
        let seconds = |option, value: f64| {
            Duration::try_from_secs_f64(value)
                .ok()
                .filter(|time| time.as_secs() <= 86_400)
                .with_context(|| format!("{option} is {value}; choose 0 to 86400 seconds"))
        };
        let pace = self.rate.map_or(Pace::Closed, |rate| Pace::Open { rate, poisson: !self.even });
        let run = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_micros() as u32);
        Ok(Load {
            pace,
            inflight: self.inflight.unwrap_or(if pace == Pace::Closed { 16 } else { 4096 }),
            measured: seconds("--seconds", self.seconds)?,
            warmup: seconds("--warmup", self.warmup)?,
            timeout: seconds("--timeout", self.timeout)?,
            patience: Some(seconds("--connection-timeout", self.connection_timeout)?)
                .filter(|time| !time.is_zero()),
            preload: !self.no_preload,
            run,
        })
    }

    /// The outcome, and what the server has added to its `stats`.
    fn run(&self, transport: impl Transport, plan: &Plan, load: &Load) -> anyhow::Result<Measured> {
        let (mut before, mut added) = (Figures::new(), None);
        let outcome = run_between(transport, plan, load, |edge| {
            if let Some(source) = &self.stats {
                let read = source.read()?;
                match edge {
                    Edge::Begin => before = read,
                    Edge::End => added = Some(between(&before, &read)),
                }
            }
            Ok(())
        })?;
        Ok((outcome, added))
    }

    fn measure(&self, plan: &Plan, load: &Load) -> anyhow::Result<Measured> {
        let reached = || format!("could not reach the store at {}", self.server_text());
        match &self.server {
            Server::Tcp(at) => self.run(
                Streams::tcp(address(at)?, self.connections, load.patience).with_context(reached)?,
                plan,
                load,
            ),
            Server::Unix(path) => self.run(
                Streams::unix(path, self.connections, load.patience).with_context(reached)?,
                plan,
                load,
            ),
            Server::Udp(at) => self.measure_datagrams(at, Speech::Text, plan, load),
            Server::Rpc(at) => self.measure_datagrams(at, Speech::Rpc { shards: self.shards }, plan, load),
        }
    }

    fn measure_datagrams(
        &self,
        at: &str,
        speech: Speech,
        plan: &Plan,
        load: &Load,
    ) -> anyhow::Result<Measured> {
        let at = address(at)?;
        let (Some(nic), Some(own)) = (self.ccnic.as_ref().or(self.as_nic.as_ref()), &self.address) else {
            let sockets = Datagrams::connect(at, speech);
            return self.run(
                sockets.with_context(|| format!("could not reach the store at {at}"))?,
                plan,
                load,
            );
        };
        if self.as_nic.is_some() {
            fits(plan, AsNic::LARGEST, "--as-nic")?;
            eprintln!("ccnic-kv-load: waits for a server at {}", nic.display());
            return self.run(AsNic::listen(nic, own, at, speech)?, plan, load);
        }
        fits(plan, Attached::LARGEST, "a ccnic NIC")?;
        self.run(Attached::open(nic, own, at, speech, self.mtu, load.patience)?, plan, load)
    }

    /// Loads the store of `rpc:` or `udp:` over a transport of the caller's, called `name`, whose datagrams hold values of at most `largest` bytes;
    /// prints, and returns false when an answer was wrong.
    ///
    /// # Errors
    /// When the options do not go together, and those of `connect`.
    pub fn run_over<T: Transport>(
        &self,
        name: &str,
        largest: usize,
        connect: impl FnOnce(SocketAddr, Speech) -> anyhow::Result<T>,
    ) -> anyhow::Result<bool> {
        let (at, speech) = match &self.server {
            Server::Udp(at) => (address(at)?, Speech::Text),
            Server::Rpc(at) => (address(at)?, Speech::Rpc { shards: self.shards }),
            _ => anyhow::bail!("{name} carries udp: and rpc: only"),
        };
        let own = self.ccnic.is_none() && self.as_nic.is_none();
        anyhow::ensure!(own, "--ccnic and --as-nic are other ways than {name}");
        report(self, &format!("{at} over {name}"), |plan, load| {
            fits(plan, largest, name)?;
            self.run(connect(at, speech)?, plan, load)
        })
    }

    fn server_text(&self) -> String {
        let over = match (&self.ccnic, &self.as_nic) {
            (Some(_), _) => "ccnic",
            (_, Some(_)) => "ccnic, as its NIC",
            _ => "the kernel",
        };
        match &self.server {
            Server::Tcp(at) => format!("TCP, {at}, {}", count(self.connections, "connection")),
            Server::Unix(path) => {
                format!("Unix socket, {}, {}", path.display(), count(self.connections, "connection"))
            }
            Server::Udp(at) => format!("UDP over {over}, {at}"),
            Server::Rpc(at) => {
                format!("RPC over UDP over {over}, {at}, {}", count(self.shards.into(), "server thread"))
            }
        }
    }
}

/// Whether every value fits into a packet.
fn fits(plan: &Plan, most: usize, of: &str) -> anyhow::Result<()> {
    let largest = plan.largest();
    anyhow::ensure!(
        largest <= most,
        "a value has {largest} bytes, and a packet of {of} holds one of {most}; give --largest {most}"
    );
    Ok(())
}

fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let mut all = text.to_socket_addrs().with_context(|| format!("{text:?} is no HOST:PORT"))?;
    all.next().with_context(|| format!("{text} has no address"))
}

/// Measures and prints; false when an answer was wrong.
///
/// # Errors
/// When the options do not go together, or the store cannot be reached.
pub fn measure(args: &Args) -> anyhow::Result<bool> {
    let datagrams = matches!(args.server, Server::Udp(_) | Server::Rpc(_));
    let on_nic = args.ccnic.is_some() || args.as_nic.is_some();
    anyhow::ensure!(!on_nic || datagrams, "--ccnic and --as-nic carry udp: and rpc: only");
    anyhow::ensure!(on_nic || args.address.is_none(), "--address is for --ccnic and --as-nic");
    report(args, &args.server_text(), |plan, load| args.measure(plan, load))
}

/// Measures by `run`, and prints.
fn report(
    args: &Args,
    server: &str,
    run: impl FnOnce(&Plan, &Load) -> anyhow::Result<Measured>,
) -> anyhow::Result<bool> {
    let (workload, load) = (args.workload(), args.load()?);
    load.check()?;
    let plan = Plan::draw(&workload)?;
    let (outcome, server_stats) = run(&plan, &load)?;
    let asked = format!(
        "{} objects ({} MB), {:.1} % gets, Zipf {}",
        workload.objects,
        plan.bytes() / 1_000_000,
        workload.gets * 100.0,
        workload.zipf
    );
    let sent = match load.pace {
        Pace::Closed => format!("closed loop, {} in flight", load.inflight),
        Pace::Open { rate, poisson } => {
            format!("{rate} requests/s, {}", if poisson { "Poisson" } else { "evenly" })
        }
    };
    let report = Report { server_stats, ..Report::new(server.to_owned(), asked, sent, &outcome) };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{}", report.text());
    }
    Ok(report.is_right())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn a_silent_store_is_waited_for_as_long_as_is_said() {
        let patience = |words: &[&str]| {
            let words = ["ccnic-kv-load", "tcp:[::1]:1"].iter().chain(words);
            Args::try_parse_from(words).unwrap().load().map(|load| load.patience)
        };
        assert_eq!(patience(&[]).unwrap(), Some(Duration::from_secs(5)));
        assert_eq!(patience(&["--connection-timeout", "0"]).unwrap(), None);
        assert!(patience(&["--connection-timeout=-1"]).unwrap_err().to_string().contains("0 to 86400"));
    }
}
