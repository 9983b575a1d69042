//! The messages of the control socket: JSON, one per packet of the socket.

use serde::{Deserialize, Serialize};

use crate::rss::RssMessage;

/// What a program asks of the NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Who are you?
    Hello,
    /// Serve the region whose descriptor comes with this message, until the connection ends.
    Attach {
        /// A name for the status display.
        name: String,
        /// The address that the program goes by, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mac: Option<[u8; 6]>,
        /// How received packets are spread over its queues, from the first packet on. Only where [`Hello::rss`] says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rss: Option<RssMessage>,
    },
    /// Spread received packets like this from now on; `None`: each comes back on the queue pair that it was sent on.
    Rss(Option<RssMessage>),
    /// Wake me by the socket that comes with this message, a connected stream socket of the Unix family: a byte for every sleep of
    /// this queue pair of my region (`ccnic::notify`), and one as soon as you do. That byte is the only answer: on this connection the
    /// end alone is news to a program that sleeps. Without it the program does not rely on being woken.
    Notify {
        /// Queue number.
        queue: u16,
    },
    /// What are you doing?
    Status,
}

/// What the NIC answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To `Hello`.
    Hello(Hello),
    /// To `Attach`: the queue pairs are being polled.
    Attached,
    /// To `Rss`: so it is.
    Done,
    /// To `Status`.
    Status(Status),
    /// The request was refused.
    Refused {
        /// Why, and what to do about it.
        reason: String,
    },
}

/// What a program must know before it makes a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the daemon.
    pub version: String,
    /// The NUMA node whose cores poll: the NIC segment is homed there.
    pub node: u32,
    /// The NIC spreads received packets over queues (RSS).
    #[serde(default)]
    pub rss: bool,
}

/// The state of a NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Process of the daemon.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// What programs are connected to.
    pub wire: String,
    /// CPUs that poll.
    pub cores: Vec<usize>,
    /// Attached programs.
    pub programs: Vec<ProgramStatus>,
}

/// One attached program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// The ring design that it chose.
    pub design: String,
    /// What its packets are spread over its queues by, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<RssMessage>,
    /// Its queue pairs.
    pub queues: Vec<QueueStatus>,
}

/// Counters of one queue pair since it was attached. Packets and bytes that were not delivered count under their reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Queue number.
    pub queue: u16,
    /// CPU that polls it.
    pub core: usize,
    /// Packets from the program.
    pub tx_packets: u64,
    /// Bytes from the program.
    pub tx_bytes: u64,
    /// Packets to the program.
    pub rx_packets: u64,
    /// Bytes to the program.
    pub rx_bytes: u64,
    /// Dropped: a descriptor named no bytes of the pool.
    pub drop_bad_descriptor: u64,
    /// Dropped: a chain of too many segments.
    pub drop_bad_chain: u64,
    /// Dropped: longer than the MTU.
    pub drop_too_long: u64,
    /// Dropped, with RSS: the receive ring was full.
    #[serde(default)]
    pub drop_ring_full: u64,
    /// Dropped, with RSS: the pool had no buffer.
    #[serde(default)]
    pub drop_no_buffer: u64,
    /// Waited: the receive ring was full.
    pub wait_ring_full: u64,
    /// Waited: the pool had no buffer.
    pub wait_no_buffer: u64,
}
