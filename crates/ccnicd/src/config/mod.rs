//! The configuration: what an operator says in a file, by flags, or by both. Flags come first.
//!
//! | file | contents |
//! |---|---|
//! | `values.rs` | addresses, numbers with a range, users |
//! | `policy.rs` | what a port or program may do |
//! | `port.rs` | ports that are no programs |
//! | `settings.rs` | [`Settings`]: what a configuration comes to |
//!
//! [`Config`] is both the file and the flags, so that there is one name, one range and one text for each thing. `docs/configuration.md` is for
//! operators, `docs/ccnicd.example.toml` has everything that can be said.

mod policy;
mod port;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::sandbox::{LaterPort, SandboxOptions};

pub use policy::{MirrorConfig, PolicyConfig, RateConfig};
pub use port::PortConfig;
pub use settings::Settings;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WireName {
    /// Back to the program that sent it
    #[default]
    Loopback,
    /// To the program that has the packet's destination address, or to all others (docs/switch.md)
    Switch,
}

/// The configuration of ccnicd.
#[allow(rustdoc::broken_intra_doc_links, reason = "brackets are what --help prints")]
#[derive(Debug, Clone, PartialEq, Default, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// Where programs connect [default: /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// CPUs that poll, such as 1 or 2,3 [default: the last one this process may use]
    #[arg(long, value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// What programs are connected to [default: loopback]
    #[arg(long, value_enum)]
    pub wire: Option<WireName>,
    /// Loopback: hand the same buffer back, without a copy
    #[arg(long)]
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
    /// Switch: a port that is no program (may be given several times): tap:NAME[,mtu=N][,address=IP/PREFIX]...[,mac=MAC][,queues=N][,offload=off]
    /// is a network interface of this kernel; xdp:IFACE[,queues=N][,mode=auto|native|generic][,zero-copy=auto|on|off][,ring=N][,checksum=auto|fill|keep]
    /// an interface whose packets bypass the kernel; pcap:FILE[,rate=recorded|asap|N][,loop=N][,start=now|packet][,record=FILE] files of packets
    /// (docs/ports.md)
    #[arg(long = "port", value_name = "KIND:NAME[,...]", value_parser = PortConfig::from_flag)]
    #[serde(rename = "port")]
    pub ports: Vec<PortConfig>,
    /// Switch: what programs may do. A program gets the policy of the first entry that fits its name and user.
    #[arg(skip)]
    #[serde(rename = "program")]
    pub programs: Vec<ProgramConfig>,
    /// Switch: what ports and programs may do where nothing else is said of them.
    #[arg(skip)]
    #[serde(deserialize_with = "policy::checked")]
    pub defaults: PolicyConfig,
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
    pub trusted_users: Vec<String>,
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
    pub later_ports: Vec<LaterPort>,
    /// Directories of files that pcap ports which are added while ccnicd runs may replay and record
    #[arg(long, value_name = "DIRECTORY", value_delimiter = ',')]
    pub later_paths: Vec<PathBuf>,
    /// What to log: error, warn, info, debug or trace [default: info]
    #[arg(long)]
    pub log: Option<String>,
    /// The file that it comes from, to say where in it something is wrong.
    #[arg(skip)]
    #[serde(skip)]
    source: Option<Source>,
}

/// Programs that are alike, by the name that they give themselves, by the user that they run as, or by both.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ProgramConfig {
    /// Programs of this name; without: of any.
    pub name: Option<String>,
    /// Programs of this user, by name or uid; without: of any.
    #[schemars(with = "Option<String>")]
    pub user: Option<Text<User>>,
    /// They may not attach.
    pub refuse: bool,
    /// What they may do.
    #[serde(deserialize_with = "policy::checked")]
    pub policy: PolicyConfig,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
struct Source {
    path: PathBuf,
    text: String,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// Where in it what is wrong, and what would be right. Nothing of such a file is used.
    pub fn read(path: &Path) -> anyhow::Result<Config> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
        Config::parse(path, text)
    }

    /// The contents of a file.
    ///
    /// # Errors
    /// As [`read`](Config::read).
    pub fn parse(path: &Path, text: String) -> anyhow::Result<Config> {
        let config: Config =
            toml::from_str(&text).with_context(|| format!("{} is not used", path.display()))?;
        Ok(Config { source: Some(Source { path: path.to_owned(), text }), ..config })
    }

    /// What `self` (the flags) leaves out is as in `file`. Ports are those of both.
    pub fn or(self, file: Config) -> Config {
        let list = |first: Vec<_>, second: Vec<_>| if first.is_empty() { second } else { first };
        Config {
            socket: self.socket.or(file.socket),
            cores: list(self.cores, file.cores),
            wire: self.wire.or(file.wire),
            reflect: self.reflect || file.reflect,
            mac_ageing: self.mac_ageing.or(file.mac_ageing),
            mac_table: self.mac_table.or(file.mac_table),
            mac_port: self.mac_port.or(file.mac_port),
            ports: file.ports.into_iter().chain(self.ports).collect(),
            programs: file.programs.into_iter().chain(self.programs).collect(),
            defaults: self.defaults.or(&file.defaults),
            region_max: self.region_max.or(file.region_max),
            memory_max: self.memory_max.or(file.memory_max),
            user_connections: self.user_connections.or(file.user_connections),
            user_programs: self.user_programs.or(file.user_programs),
            user_queues: self.user_queues.or(file.user_queues),
            user_memory: self.user_memory.or(file.user_memory),
            trusted_users: if self.trusted_users.is_empty() {
                file.trusted_users
            } else {
                self.trusted_users
            },
            sleep_after: self.sleep_after.or(file.sleep_after),
            tuning: self.tuning.or(file.tuning),
            user: self.user.or(file.user),
            socket_mode: self.socket_mode.or(file.socket_mode),
            socket_owner: self.socket_owner.or(file.socket_owner),
            socket_group: self.socket_group.or(file.socket_group),
            sandbox: self.sandbox.or(file.sandbox),
            later_ports: file.later_ports.into_iter().chain(self.later_ports).collect(),
            later_paths: file.later_paths.into_iter().chain(self.later_paths).collect(),
            log: self.log.or(file.log),
            source: file.source,
        }
    }

    /// Whether a daemon that was started with this configuration can go over to `new` while it runs: ports and policies may differ.
    ///
    /// # Errors
    /// What may not.
    pub fn check_reload(&self, new: &Config) -> anyhow::Result<()> {
        let same = [
            ("socket", self.socket == new.socket),
            ("cores", self.cores == new.cores),
            ("wire", self.wire == new.wire && self.reflect == new.reflect),
            ("mac-ageing", self.mac_ageing == new.mac_ageing),
            ("mac-table", self.mac_table == new.mac_table),
            ("mac-port", self.mac_port == new.mac_port),
            ("region-max", self.region_max == new.region_max),
            ("memory-max", self.memory_max == new.memory_max),
            ("user-connections", self.user_connections == new.user_connections),
            ("user-programs", self.user_programs == new.user_programs),
            ("user-queues", self.user_queues == new.user_queues),
            ("user-memory", self.user_memory == new.user_memory),
            ("trusted-users", self.trusted_users == new.trusted_users),
            ("sleep-after", self.sleep_after == new.sleep_after),
            ("tuning", self.tuning == new.tuning),
            ("user", self.user == new.user),
            ("socket-mode", self.socket_mode == new.socket_mode),
            ("socket-owner", self.socket_owner == new.socket_owner),
            ("socket-group", self.socket_group == new.socket_group),
            ("sandbox", self.sandbox == new.sandbox),
            ("later-ports", self.later_ports == new.later_ports),
            ("later-paths", self.later_paths == new.later_paths),
            ("log", self.log == new.log),
        ];
        let other = same.into_iter().find(|(_, same)| !same).map(|(key, _)| key);
        anyhow::ensure!(
            other.is_none(),
            "{} cannot change while ccnicd runs: leave it as it was, or restart ccnicd",
            other.unwrap_or_default()
        );
        Ok(())
    }

    /// The JSON schema of the file (draft 2020-12), for editors and other programs.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Config).to_value()
    }

    /// `--log`.
    pub fn log(&self) -> &str {
        self.log.as_deref().unwrap_or("info")
    }

    /// Where in the file that is: "FILE, line N: ", or nothing.
    fn place(&self, at: usize) -> String {
        let line = |source: &Source| 1 + source.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        self.source
            .as_ref()
            .map_or_else(String::new, |source| format!("{}, line {}: ", source.path.display(), line(source)))
    }
}
