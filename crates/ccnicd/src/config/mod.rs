//! The configuration: what an operator says in a file, by flags, or by both. Flags come first.
//!
//! | file | contents |
//! |---|---|
//! | `values.rs` | addresses, numbers with a range, users |
//! | `policy.rs` | what a port or program may do |
//! | `port.rs` | ports that are no programs |
//! | `flow.rs` | flow rules |
//! | `settings.rs` | what a configuration comes to: [`DaemonOptions`](crate::DaemonOptions) |
//! | `file.rs` | a file is read, and written |
//! | `finding.rs` | what is wrong with it, as JSON |
//! | `difference.rs` | what differs between two configurations |
//! | `change.rs` | [`Running`]: what a configuration is after a change that an operator wants |
//!
//! [`Config`] is both the file and the flags, so that there is one name, one range and one text for each thing. `docs/configuration.md` is for
//! operators, `docs/ccnicd.example.toml` has everything that can be said.

mod change;
mod difference;
mod file;
mod finding;
mod flow;
mod policy;
mod port;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sandbox::{LaterPort, SandboxOptions};

pub use change::Running;
use file::Source;
pub use finding::Finding;
pub use flow::FlowConfig;
pub use policy::{MirrorConfig, PolicyConfig, RateConfig};
pub use port::PortConfig;
pub use values::{All, At, FileMode, Text, Trunk, User, VlanId, Within, Written};

/// MiB that a number of bytes can have.
const MIB_MAX: u64 = u64::MAX >> 20;
/// The most of what is counted in 32 bits.
const U32_MAX: u64 = u32::MAX as u64;
/// The largest address table.
const TABLE_MAX: u64 = 1 << 20;
/// Ten seconds, in microseconds.
const SLEEP_MAX: u64 = 10_000_000;
/// Regions have 32-bit offsets.
const REGION_MAX: u64 = 4095;

/// What programs are connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WireName {
    /// Back to the program that sent it
    #[default]
    Loopback,
    /// To the program that has the packet's destination address, or to all others (docs/switch.md)
    Switch,
}

/// How to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// A JSON object in each line
    Json,
}

/// What becomes of frames to 01:80:c2:00:00:00 to :0f, as one writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReservedName {
    /// They are dropped (drop_reserved), as by any bridge
    #[default]
    Drop,
    /// They go to all other ports, as those to other groups
    Forward,
}

/// The configuration of ccnicd.
#[allow(rustdoc::broken_intra_doc_links, reason = "brackets are what --help prints")]
#[derive(Debug, Clone, PartialEq, Default, clap::Args, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// Where programs connect [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// CPUs that poll, such as 1 or 2,3 [default: the last one this process may use]
    #[arg(long, value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
    /// What programs are connected to [default: loopback]
    #[arg(long, value_enum)]
    pub wire: Option<WireName>,
    /// Loopback: hand the same buffer back, without a copy
    #[arg(long)]
    #[serde(skip_serializing_if = "is_false")]
    pub reflect: bool,
    /// Switch: forget an address from which no packet has come for so long [default: 300]
    #[arg(long, value_name = "SECONDS")]
    pub mac_ageing: Option<Within<1, U32_MAX>>,
    /// Switch: addresses that it learns; packets to others go to all ports [default: 4096]
    #[arg(long, value_name = "N")]
    pub mac_table: Option<Within<1, TABLE_MAX>>,
    /// Switch: addresses that it learns of one program [default: 256]
    #[arg(long, value_name = "N")]
    pub mac_port: Option<Within<1, U32_MAX>>,
    /// Switch: frames to 01:80:c2:00:00:00 to :0f (spanning trees, PAUSE, LACP, LLDP), which end at the next bridge [default: drop]
    #[arg(long, value_enum)]
    pub reserved: Option<ReservedName>,
    /// Switch: a port that is no program (may be given several times): tap:NAME[,mtu=N][,address=IP/PREFIX]...[,mac=MAC][,queues=N][,offload=off]
    /// is a network interface of this kernel; xdp:IFACE[,queues=N][,mode=auto|native|generic][,zero-copy=auto|on|off][,ring=N][,checksum=auto|fill|keep]
    /// an interface whose packets bypass the kernel; pcap:FILE[,rate=recorded|asap|N][,loop=N][,start=now|packet][,record=FILE] files of packets
    /// (docs/ports.md)
    #[arg(long = "port", value_name = "KIND:NAME[,...]", value_parser = PortConfig::from_flag)]
    #[serde(rename = "port", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortConfig>,
    /// What programs may do on a switch, what memory they may take, and which may not attach: the first entry that fits a program's name
    /// and user counts.
    #[arg(skip)]
    #[serde(rename = "program", skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramConfig>,
    /// Switch: what ports and programs may do where nothing else is said of them.
    #[arg(skip)]
    #[serde(deserialize_with = "policy::checked", skip_serializing_if = "PolicyConfig::is_empty")]
    pub defaults: PolicyConfig,
    /// Flow rules: what becomes of some of the packets that programs receive.
    #[arg(skip)]
    #[serde(rename = "flow", deserialize_with = "flow::checked", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<FlowConfig>")]
    pub flows: Vec<toml::Spanned<FlowConfig>>,
    /// The largest region that a program may bring, in MiB [default: 1280]
    #[arg(long, value_name = "MIB")]
    pub region_max: Option<Within<1, REGION_MAX>>,
    /// What all programs' regions together may take, in MiB [default: half of the memory that machine and control group leave]
    #[arg(long, value_name = "MIB")]
    pub memory_max: Option<Within<1, MIB_MAX>>,
    /// Connections that the programs of one user may have [default: 512]
    #[arg(long, value_name = "N")]
    pub user_connections: Option<Within<1, U32_MAX>>,
    /// Programs that one user may have attached [default: 256]
    #[arg(long, value_name = "N")]
    pub user_programs: Option<Within<1, U32_MAX>>,
    /// Queue pairs that the programs of one user may have together [default: 1024]
    #[arg(long, value_name = "N")]
    pub user_queues: Option<Within<1, U32_MAX>>,
    /// What the regions of one user's programs may take together, in MiB [default: three quarters of --memory-max]
    #[arg(long, value_name = "MIB")]
    pub user_memory: Option<Within<1, MIB_MAX>>,
    /// Users, by name or uid, whose programs are trusted not to punch holes into their regions: those are not sealed, so that a program
    /// need not copy its region when ccnicd is restarted
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trusted_users: Vec<String>,
    /// Users, by name or uid, who may read and change the configuration while ccnicd runs, capture packets, and change flow rules of others:
    /// ccnic apply, port, config, capture, flow [default: root and the user that ccnicd runs as]
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub operators: Option<Vec<String>>,
    /// Sleep when no packet has come for so many microseconds, 100 to 10000000, until a program, an interface or an operator wants
    /// something; 0: never, poll all the time [default: 1000]
    #[arg(long, value_name = "MICROSECONDS")]
    pub sleep_after: Option<Within<0, SLEEP_MAX>>,
    /// How the machine is used, such as fetch=own,ahead=0,demote=auto,idle=pause: fields that are left out, and all without this option,
    /// are measured once for each CPU model; default: measure nothing
    #[arg(long, value_name = "FIELD=VALUE,...")]
    pub tuning: Option<String>,
    /// Become this user, and this group [default: the user's own], when everything is set up; ccnicd is started as root then
    #[arg(long, value_name = "USER[:GROUP]")]
    pub user: Option<String>,
    /// Permissions of the socket, such as 0660: who may write to it may connect [default: as for any new file]
    #[arg(long, value_name = "MODE")]
    pub socket_mode: Option<Text<FileMode>>,
    /// The user that the socket belongs to, by name or uid [default: the user that ccnicd runs as]
    #[arg(long, value_name = "USER")]
    pub socket_owner: Option<String>,
    /// The group that the socket belongs to, by name or gid
    #[arg(long, value_name = "GROUP")]
    pub socket_group: Option<String>,
    /// What ccnicd does to itself when everything is set up (docs/security.md): on, require (do not start where the kernel lacks a part) or
    /// off; behind on and require what to leave out: capabilities=off, landlock=off, seccomp=off [default: on]
    #[arg(long, value_name = "on|require|off[,PART=off]...")]
    pub sandbox: Option<Text<SandboxOptions>>,
    /// Kinds of ports that may be added while ccnicd runs: what these take is kept
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later_ports: Vec<LaterPort>,
    /// Directories of files that pcap ports which are added while ccnicd runs may replay and record
    #[arg(long, value_name = "DIRECTORY", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later_paths: Vec<PathBuf>,
    /// What to log: error, warn, info, debug or trace; of a part of ccnicd more or less, as in warn,ccnicd::metrics=debug [default: info]
    #[arg(long)]
    pub log: Option<String>,
    /// How to log [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Answer Prometheus at this address, such as 127.0.0.1:9184: GET /metrics (docs/operations.md). Whoever reaches it reads the names and
    /// counters of all programs
    #[arg(long, value_name = "ADDRESS:PORT")]
    #[schemars(with = "Option<String>")]
    pub metrics: Option<SocketAddr>,
    /// The file that it comes from, to say where in it something is wrong.
    #[arg(skip)]
    #[serde(skip)]
    source: Option<Source>,
}

/// Programs that are alike, by the name that they give themselves, by the user that they run as, or by both.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ProgramConfig {
    /// Programs of this name; without: of any.
    pub name: Option<String>,
    /// Programs of this user, by name or uid; without: of any.
    #[schemars(with = "Option<String>")]
    pub user: Option<Text<User>>,
    /// They may not attach.
    #[serde(skip_serializing_if = "is_false")]
    pub refuse: bool,
    /// What the regions of those of one user may take together, in MiB, beside user-memory [default: no less than that].
    pub memory: Option<Within<1, MIB_MAX>>,
    /// What they may do.
    #[serde(deserialize_with = "policy::checked", skip_serializing_if = "PolicyConfig::is_empty")]
    pub policy: PolicyConfig,
}

impl Config {
    /// What `self` (the flags) leaves out is as in `file`. Ports are those of both.
    pub fn or(self, file: Config) -> Config {
        fn list<T>(first: Vec<T>, second: Vec<T>) -> Vec<T> {
            if first.is_empty() { second } else { first }
        }
        let source = file.source.map(|source| source.behind(&self));
        Config {
            socket: self.socket.or(file.socket),
            cores: list(self.cores, file.cores),
            wire: self.wire.or(file.wire),
            reflect: self.reflect || file.reflect,
            mac_ageing: self.mac_ageing.or(file.mac_ageing),
            mac_table: self.mac_table.or(file.mac_table),
            mac_port: self.mac_port.or(file.mac_port),
            reserved: self.reserved.or(file.reserved),
            ports: both(file.ports, self.ports),
            programs: file.programs.into_iter().chain(self.programs).collect(),
            defaults: self.defaults.or(&file.defaults),
            flows: file.flows.into_iter().chain(self.flows).collect(),
            region_max: self.region_max.or(file.region_max),
            memory_max: self.memory_max.or(file.memory_max),
            user_connections: self.user_connections.or(file.user_connections),
            user_programs: self.user_programs.or(file.user_programs),
            user_queues: self.user_queues.or(file.user_queues),
            user_memory: self.user_memory.or(file.user_memory),
            trusted_users: list(self.trusted_users, file.trusted_users),
            operators: self.operators.or(file.operators),
            sleep_after: self.sleep_after.or(file.sleep_after),
            tuning: self.tuning.or(file.tuning),
            user: self.user.or(file.user),
            socket_mode: self.socket_mode.or(file.socket_mode),
            socket_owner: self.socket_owner.or(file.socket_owner),
            socket_group: self.socket_group.or(file.socket_group),
            sandbox: self.sandbox.or(file.sandbox),
            later_ports: both(file.later_ports, self.later_ports),
            later_paths: both(file.later_paths, self.later_paths),
            log: self.log.or(file.log),
            log_format: self.log_format.or(file.log_format),
            metrics: self.metrics.or(file.metrics),
            source,
        }
    }

    /// The JSON schema of the file (draft 2020-12), for editors and other programs.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Config).to_value()
    }

    /// `--log`.
    pub fn log(&self) -> &str {
        self.log.as_deref().unwrap_or("info")
    }
}

/// A list of the file and what flags add to it: a file may be what `ccnic config` says of a daemon with those flags.
fn both<T: PartialEq>(file: Vec<T>, flags: Vec<T>) -> Vec<T> {
    let added: Vec<T> = flags.into_iter().filter(|flag| !file.contains(flag)).collect();
    file.into_iter().chain(added).collect()
}

fn is_false(yes: &bool) -> bool {
    !yes
}
