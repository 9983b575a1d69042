//! The command line: memcached's options for what both have.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use ccnic_client::Design;
use clap::Parser;

use crate::store::LARGEST_ITEM;

/// From how many bytes on a value is kept where a NIC reads it, where that is asked for. Copies are as fast or faster (README.md).
const KEPT_FROM: usize = 2000;

/// The most connections: more than there can be open files by default (fs.nr_open).
const CONNECTIONS: usize = 1 << 24;

/// An in-memory key-value store that memcached's clients speak to.
#[derive(Clone, Debug, Parser)]
#[command(name = "ccnic-kv", version)]
pub struct Options {
    /// TCP port; 0: none
    #[arg(short = 'p', long, value_name = "NUM", default_value_t = 11211)]
    pub port: u16,
    /// UDP port for text commands; 0: none. Senders can be forged: not for networks where that matters (README.md)
    #[arg(short = 'U', long, value_name = "NUM", default_value_t = 0)]
    pub udp_port: u16,
    /// UDP ports for the binary get and set of README.md: this one and those behind it, one for each thread; 0: none
    #[arg(long, value_name = "NUM", default_value_t = 0)]
    pub rpc_port: u16,
    /// Unix socket; then there is no TCP and no UDP
    #[arg(short = 's', long, value_name = "FILE")]
    pub unix_socket: Option<PathBuf>,
    /// Access mask of the Unix socket, in octal
    #[arg(short = 'a', long, value_name = "MASK", default_value = "700")]
    pub unix_mask: String,
    /// Clients may end the server by the command `shutdown`
    #[arg(short = 'A', long)]
    pub enable_shutdown: bool,
    /// Addresses to listen on, separated by commas; the default is all of them
    #[arg(short = 'l', long, value_name = "ADDR", value_delimiter = ',')]
    pub listen: Vec<String>,
    /// Run in the background; then relative paths are those of the folder that it was started in
    #[arg(short = 'd', long)]
    pub daemon: bool,
    /// Become this user, when started as root
    #[arg(short = 'u', long, value_name = "USER")]
    pub user: Option<String>,
    /// Write the process id to this file
    #[arg(short = 'P', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Lock all memory of the process, also what it gets later
    #[arg(short = 'k', long)]
    pub lock_memory: bool,
    /// Memory for items, in mebibytes
    #[arg(short = 'm', long, value_name = "NUM", default_value_t = 64)]
    pub memory_limit: usize,
    /// An error instead of an eviction when memory is used up
    #[arg(short = 'M', long)]
    pub disable_evictions: bool,
    /// Refuse flush_all
    #[arg(short = 'F', long)]
    pub disable_flush_all: bool,
    /// Clients may change -m by the command `cache_memlimit`
    #[arg(long)]
    pub enable_cache_memlimit: bool,
    /// Simultaneous connections
    #[arg(short = 'c', long, value_name = "NUM", default_value_t = 1024)]
    pub conn_limit: usize,
    /// Server threads
    #[arg(short = 't', long, value_name = "NUM", default_value_t = 4)]
    pub threads: usize,
    /// Commands of one client before the others have their turn; without it: what has arrived, 64 KiB at a time
    #[arg(short = 'R', long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_reqs_per_event: Option<u32>,
    /// No CAS ids: items are 8 bytes smaller, and flush_all takes what is stored in the same second
    #[arg(short = 'C', long)]
    pub disable_cas: bool,
    /// Connections that wait to be accepted
    #[arg(short = 'b', long, value_name = "NUM", default_value_t = 1024)]
    pub listen_backlog: u16,
    /// Protocol: auto and ascii are the same, since binary is not spoken here
    #[arg(short = 'B', long, value_name = "NAME", value_parser = ["auto", "ascii", "binary"], default_value = "auto")]
    pub protocol: String,
    /// The largest item: bytes, or with k or m behind them
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m")]
    pub max_item_size: String,
    /// Seconds after which a client that sends nothing is disconnected; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub idle_timeout: u32,
    /// The store as a file: loaded at the start, written at the end and on SIGUSR1
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Write it also every so many seconds
    #[arg(long, value_name = "SECONDS", requires = "snapshot", value_parser = clap::value_parser!(u32).range(1..))]
    pub snapshot_every: Option<u32>,
    /// Control socket of a ccnic NIC: then -p, -U and --rpc-port are ports of --address there, each thread has a queue pair, and of the
    /// kernel's sockets there is at most the one of -s
    #[arg(long, value_name = "SOCKET", requires = "address")]
    pub ccnic: Option<PathBuf>,
    /// Address and prefix of the server on that NIC, for example 10.9.0.2/24; a second one may be of the other version of IP
    #[arg(long, value_name = "ADDR/BITS", value_delimiter = ',', requires = "ccnic")]
    pub address: Vec<String>,
    /// Where packets for other networks go; a second one may be of the other version of IP
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "ccnic")]
    pub gateway: Vec<IpAddr>,
    /// The largest IP packet that is sent in one piece on that NIC: no more than all clients' ports take, 9586 between programs. Longer answers
    /// of --rpc-port go in fragments
    #[arg(long, value_name = "BYTES", default_value_t = 1500, requires = "ccnic")]
    pub mtu: usize,
    /// With --ccnic: a thread sleeps when no frame has come for so many microseconds; 0: never
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50, requires = "ccnic")]
    pub sleep_after: u64,
    /// With --ccnic: memory beside -m for values that the NIC reads where they are stored, in mebibytes; 0: all replies are copies
    #[arg(long, value_name = "NUM", default_value_t = 0, requires = "ccnic", value_parser = clap::value_parser!(u32).range(..=1024))]
    pub kept_memory: u32,
    /// Values from this length on are moved there when they are sent a second time
    #[arg(long, value_name = "BYTES", default_value_t = KEPT_FROM, requires = "ccnic")]
    pub kept_from: usize,
    /// Ring design of the region on that NIC: ccnic, paper, packed, padded or e810
    #[arg(long, value_name = "DESIGN", default_value_t, requires = "ccnic")]
    pub design: Design,
    /// Say what happens; twice: also each connection
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Options {
    /// Bytes of each thread's memory for values that a NIC reads.
    pub fn kept_memory(&self) -> usize {
        ((self.kept_memory as usize) << 20) / self.threads
    }

    /// The largest item in bytes.
    pub fn item_size(&self) -> anyhow::Result<usize> {
        let text = self.max_item_size.to_ascii_lowercase();
        let (digits, unit) = match text.strip_suffix(['k', 'm']) {
            Some(digits) => (digits, if text.ends_with('k') { 1 << 10 } else { 1 << 20 }),
            None => (&text[..], 1),
        };
        let number: usize =
            digits.parse().with_context(|| format!("-I {text}: not a size; say 1m or 4096"))?;
        let size = number.saturating_mul(unit);
        if !(1024..=LARGEST_ITEM).contains(&size) {
            bail!("-I {text}: an item can be between 1k and 1024m large");
        }
        Ok(size)
    }

    /// How many shards the store has: one for each thread, but each must hold some of the largest items.
    pub fn shards(&self, item: usize) -> usize {
        ((self.memory_limit << 20) / (2 * item)).clamp(1, self.threads)
    }

    /// Whether the values go together.
    pub fn check(&self) -> anyhow::Result<()> {
        let item = self.item_size()?;
        if !(1..=1024).contains(&self.threads) {
            bail!("-t {}: between 1 and 1024 threads", self.threads);
        }
        if !(1..=CONNECTIONS).contains(&self.conn_limit) {
            bail!("-c {}: between 1 and {CONNECTIONS} connections", self.conn_limit);
        }
        if self.memory_limit == 0 || self.memory_limit > usize::MAX >> 20 {
            bail!("-m {}: at least 1 mebibyte", self.memory_limit);
        }
        if item > (self.memory_limit << 20) / 2 {
            bail!(
                "-I {}: two of the largest items must fit into the memory (-m {})",
                self.max_item_size,
                self.memory_limit
            );
        }
        if self.protocol == "binary" {
            bail!("-B binary: this server speaks memcached's text and meta protocol only; leave -B out");
        }
        if self.user.as_ref().is_some_and(String::is_empty) {
            bail!("-u: a user's name is missing");
        }
        self.socket_mode()?;
        Ok(())
    }

    /// The mode of the Unix socket.
    pub fn socket_mode(&self) -> anyhow::Result<u32> {
        let mode = u32::from_str_radix(&self.unix_mask, 8).ok().filter(|mode| *mode <= 0o777);
        mode.with_context(|| format!("-a {}: not an octal number up to 777", self.unix_mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item_size(text: &str) -> Option<usize> {
        Options::parse_from(["ccnic-kv", "-I", text]).item_size().ok()
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(item_size("4096"), Some(4096));
        assert_eq!(item_size("2m"), Some(2 << 20));
        assert_eq!(item_size("100K"), Some(100 << 10));
        assert_eq!((item_size("1g"), item_size("1"), item_size("2000m")), (None, None, None));
    }

    #[test]
    fn what_does_not_go_together_is_told() {
        let error = |args: &[&str]| {
            Options::parse_from([&["ccnic-kv"], args].concat()).check().err().map(|e| e.to_string())
        };
        assert_eq!(error(&[]), None);
        assert!(error(&["-m", "4", "-I", "4m"]).is_some_and(|text| text.contains("must fit")));
        assert!(error(&["-t", "0"]).is_some() && error(&["-c", "0"]).is_some());
        assert!(error(&["-B", "binary"]).is_some_and(|text| text.contains("text and meta")));
        assert!(Options::try_parse_from(["ccnic-kv", "-R", "0"]).is_err());
        assert_eq!(Options::parse_from(["ccnic-kv", "-m", "5"]).shards(1 << 20), 2);
    }
}
