//! What is compared: servers, and the protocols that they are asked in.

use ccnic::Design;
use serde::Serialize;

use crate::bench::peers::Driver;

/// Bytes of the longest frame of net_memif.
const MEMIF_FRAME: u32 = 1518;
/// Of Ethernet, IPv4, UDP and the RPC, and room for a key.
const HEADERS_AND_KEY: u32 = 118;

/// A server and what carries its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// ccnic-kv on a queue pair of a design, whose NIC is the generator.
    Ccnic(Design),
    /// The store of ccnic-kv as a program of DPDK, on a port of a driver, whose other side is the generator.
    Dpdk(Driver),
    /// ccnic-kv on the kernel's sockets.
    KvOnKernel,
    /// memcached on the kernel's sockets.
    Memcached,
}

/// How requests are written, and what carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The paper's RPC over UDP.
    Rpc,
    /// memcached's text over UDP.
    Udp,
    /// memcached's text over TCP.
    Tcp,
}

impl Server {
    /// All, in the order of the table.
    const ALL: [Server; 8] = [
        Server::Ccnic(Design::GroupedEpoch),
        Server::Ccnic(Design::GroupedClear),
        Server::Ccnic(Design::Doorbell),
        Server::Dpdk(Driver::CcnicNic),
        Server::Dpdk(Driver::VirtioPacked),
        Server::Dpdk(Driver::Memif),
        Server::KvOnKernel,
        Server::Memcached,
    ];

    /// As the table shows it.
    pub fn name(self) -> &'static str {
        match self {
            Server::Ccnic(design) => design.name(),
            Server::Dpdk(Driver::CcnicNic) => "net_ccnic",
            Server::Dpdk(Driver::VirtioPacked) => "vhost",
            Server::Dpdk(driver) => driver.name(),
            Server::KvOnKernel => "kernel",
            Server::Memcached => "memcached",
        }
    }

    /// True where the time that the server spends in the interface is taken apart from the store's.
    pub fn tells_time(self) -> bool {
        matches!(self, Server::Ccnic(_) | Server::Dpdk(_))
    }

    /// Bytes of the longest frame, of those that are asked for: net_memif's have at most [`MEMIF_FRAME`].
    pub fn frame(self, asked: u32) -> u32 {
        if self == Server::Dpdk(Driver::Memif) { asked.min(MEMIF_FRAME) } else { asked }
    }

    /// Bytes of the largest value that such a frame holds, besides headers and a key.
    pub fn largest(self, frame: u32) -> usize {
        match self {
            Server::Dpdk(_) => frame.saturating_sub(HEADERS_AND_KEY) as usize,
            _ => 9500,
        }
    }
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Rpc, Protocol::Udp, Protocol::Tcp];

    /// As the table shows it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Rpc => "rpc",
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
        }
    }
}

/// The names of all servers.
pub const NAMES: [&str; 8] = ["ccnic", "paper", "e810", "net_ccnic", "vhost", "memif", "kernel", "memcached"];

/// The servers of these names, or without names all, each with its protocols.
pub fn pairs(names: &[String]) -> Vec<(Server, Protocol)> {
    let asked = |server: &Server| names.is_empty() || names.iter().any(|name| name == server.name());
    let protocols = |server: Server| {
        let all: &[Protocol] = match server {
            Server::Ccnic(_) => &[Protocol::Rpc, Protocol::Udp],
            Server::Dpdk(_) => &[Protocol::Rpc],
            Server::KvOnKernel | Server::Memcached => &[Protocol::Udp, Protocol::Tcp],
        };
        all.iter().map(move |protocol| (server, *protocol))
    };
    Server::ALL.into_iter().filter(asked).flat_map(protocols).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_a_server() {
        assert_eq!(Server::ALL.map(Server::name), NAMES);
        let asked = ["e810".to_owned(), "vhost".to_owned(), "memcached".to_owned()];
        let expected = [
            (Server::Ccnic(Design::Doorbell), Protocol::Rpc),
            (Server::Ccnic(Design::Doorbell), Protocol::Udp),
            (Server::Dpdk(Driver::VirtioPacked), Protocol::Rpc),
            (Server::Memcached, Protocol::Udp),
            (Server::Memcached, Protocol::Tcp),
        ];
        assert_eq!(pairs(&asked), expected);
        assert_eq!(pairs(&[]), pairs(&NAMES.map(str::to_owned)));
    }
}
