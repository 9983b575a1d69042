//! What a configuration needs at run time: the least that its ports, and those that may come later, work with.

use std::path::{Component, Path, PathBuf};

use clap::ValueEnum;
use rustix::thread::CapabilitySet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::calls::Calls;
use super::paths::{Access, Grant};
use super::resolved;
use crate::ports::PortOptions;

/// Kinds of ports that can be added while the daemon runs, if what they take is kept. (Of files: `--later-paths`.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LaterPort {
    /// TAP interfaces
    Tap,
    /// TAP interfaces, also in other network namespaces
    Netns,
    /// Interfaces by AF_XDP
    Xdp,
}

/// What the daemon does from now on.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    /// The configuration file, which is read again.
    pub config: Option<PathBuf>,
    /// The ports that there are.
    pub ports: Vec<PortOptions>,
    /// Kinds of ports that may come.
    pub later_ports: Vec<LaterPort>,
    /// Directories of files that ports which may come replay and record.
    pub later_paths: Vec<PathBuf>,
}

/// What a process keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grants {
    pub(super) capabilities: CapabilitySet,
    pub(super) paths: Vec<Grant>,
    pub(super) calls: Calls,
}

/// Of an AF_XDP port without a helper, which binds its interface again when that returns: to set it up and attach a program (NET_ADMIN), to open sockets of
/// AF_XDP and have the interface give all packets (NET_RAW), to load the program (BPF).
pub(super) const OF_XDP: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::BPF);

/// Of TAP ports that are added later: to make the interface and configure it. One that there is needs nothing.
pub(super) const OF_LATER_TAP: CapabilitySet = CapabilitySet::NET_ADMIN;

/// Of TAP ports that are added later in another network namespace: to enter it, too.
pub(super) const OF_LATER_NETNS: CapabilitySet = OF_LATER_TAP.union(CapabilitySet::SYS_ADMIN);

/// What is read by any daemon: for how long a polling thread had to wait, the nodes of memory and CPUs, the numbers of users
/// and groups, and whose uids are subordinate.
const ALWAYS: [(&str, Access); 5] = [
    ("/proc", Access::Read),
    ("/sys/devices/system", Access::Read),
    ("/etc/passwd", Access::Read),
    ("/etc/group", Access::Read),
    ("/etc/subuid", Access::Read),
];

/// Of a TAP port that is added later: where the kernel counts what it drops there.
const INTERFACES: [&str; 2] = ["/sys/class/net", "/sys/devices/virtual/net"];

/// The network namespaces that have names; others are below /proc.
const NAMESPACES: &str = "/run/netns";

impl Needs {
    /// The least that does.
    pub(super) fn grants(&self) -> Grants {
        let xdp = self.later_ports.contains(&LaterPort::Xdp)
            || self.ports.iter().any(|port| matches!(port, PortOptions::Xdp(xdp) if xdp.helper.is_none()));
        let netns = self.later_ports.contains(&LaterPort::Netns);
        let tap = netns || self.later_ports.contains(&LaterPort::Tap);
        let mut capabilities = CapabilitySet::empty();
        capabilities |= if xdp { OF_XDP } else { CapabilitySet::empty() };
        capabilities |= if tap { OF_LATER_TAP } else { CapabilitySet::empty() };
        capabilities |= if netns { OF_LATER_NETNS } else { CapabilitySet::empty() };
        Grants { capabilities, paths: self.paths(tap, netns), calls: Calls { tap, netns, xdp } }
    }

    fn paths(&self, tap: bool, netns: bool) -> Vec<Grant> {
        let grant = |path: PathBuf, access| Grant { path, access };
        let mut paths: Vec<_> = ALWAYS.map(|(path, access)| grant(path.into(), access)).into();
        // A file that is replaced is another one: Landlock knows its directory only.
        paths.extend(self.config.iter().map(|file| grant(directory_of(file), Access::Read)));
        for port in &self.ports {
            if let PortOptions::Pcap(options) = port {
                paths.extend(options.replay.iter().map(|file| grant(file.clone(), Access::Read)));
                paths.extend(options.record.iter().map(|file| grant(directory_of(file), Access::Record)));
            }
        }
        let later = self.later_paths.iter();
        paths.extend(
            later.flat_map(|path| [Access::Read, Access::Record].map(|access| grant(path.clone(), access))),
        );
        if tap {
            paths.push(grant("/dev/net/tun".into(), Access::Device));
            paths.extend(INTERFACES.map(|path| grant(path.into(), Access::Read)));
        }
        if netns {
            paths.push(grant(NAMESPACES.into(), Access::Read));
        }
        paths.iter_mut().for_each(|grant| grant.path = resolved(&grant.path));
        paths
    }
}

impl Grants {
    /// True when a file there can be opened.
    pub(super) fn may_read(&self, file: &Path) -> bool {
        self.covers(&resolved(file), Access::Read)
    }

    /// True when a file there can be made and written.
    pub(super) fn may_record(&self, file: &Path) -> bool {
        self.covers(&directory_of(file), Access::Record)
    }

    fn covers(&self, path: &Path, access: Access) -> bool {
        // What is not there could not be resolved.
        let goes_up = path.components().any(|part| part == Component::ParentDir);
        let below = |grant: &Grant| grant.access == access && path.starts_with(&grant.path);
        !goes_up && self.paths.iter().any(below)
    }
}

/// The directory that a file is in, or would be.
pub(super) fn directory_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    resolved(parent.unwrap_or(Path::new(".")))
}
