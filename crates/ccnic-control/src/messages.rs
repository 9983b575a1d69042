//! The messages of the control socket: JSON, one per packet of the socket.

use ccnic::Tuning;
use serde::{Deserialize, Serialize};

use crate::capture::CaptureRequest;
use crate::error::Error;
use crate::flow::{FlowAbility, FlowReply, FlowRequest};
use crate::latency::LatencyStatus;
use crate::offloads::{Offloads, Taken};
use crate::rss::RssMessage;

mod configure;

pub use crate::counters::QueueStatus;
pub use crate::memory::{MemoryStatus, Share};
pub use configure::{
    Affected, Applied, CONFIG_MAX, Change, ConfigPart, KeyChange, PortAdd, PortDel, PortSet, TEXT_MAX,
    TextPage,
};

/// The version of these messages, in [`Hello::protocol`]: it counts up with each request that is new. Requests and fields stay what they are.
pub const PROTOCOL: u32 = 1;

/// The longest name of a program, in bytes.
pub const NAME_MAX: usize = 255;

/// A request of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Asks for the NIC's version and abilities.
    Hello,
    /// Attaches the region whose descriptor comes with this message, until the connection ends.
    Attach {
        /// A name for the status display, of at most [`NAME_MAX`] bytes.
        name: String,
        /// The program's MAC address, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mac: Option<[u8; 6]>,
        /// How received packets are spread over its queues, from the first packet on. Only where [`Hello::rss`] says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rss: Option<RssMessage>,
    },
    /// Spreads received packets over the queues like this from now on; `None`: each comes back on the queue pair that it was sent on.
    Rss(Option<RssMessage>),
    /// The program takes packets of which this is requested as they are, from now on, and no others. At first it takes complete packets
    /// only. Only where [`Hello::offloads`] says something.
    Takes(Vec<Taken>),
    /// Asks for notifications of a queue pair by the socket that comes with this message, a connected stream socket of the Unix
    /// family: one byte whenever the program has armed the queue pair (`ccnic::notify`) and there are packets for it. The NIC confirms
    /// with one more byte, on that socket, as soon as it does so. There is no reply on this connection, where a program that waits
    /// watches for the end only. A program that has no confirmation must not rely on notifications.
    Notify {
        /// Queue number.
        queue: u16,
        /// The program sends a byte on the same socket when the NIC has armed the queue pair and it has sent packets: so a NIC may sleep
        /// ([`Hello::sleeps`]).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        wakes: bool,
    },
    /// Asks for the NIC's state: as much of it as goes into a message.
    Status,
    /// Asks for more of it ([`Status::next`]).
    StatusFrom(Cursor),
    /// Asks a switch for the addresses that it has learned: from 0, then from [`AddressPage::next`] on.
    MacTable(u32),
    /// Asks a switch for copies of packets on the stream socket that comes with this message, until that is closed
    /// ([`capture`](crate::capture)). An operator's, as those from `Apply` on.
    Capture(CaptureRequest),
    /// Changes or shows flow rules. Only where [`Hello::flow`] says so.
    Flow(FlowRequest),
    /// Has the NIC be as a configuration file says. An operator's, as those below.
    Apply(ConfigPart),
    /// Asks for the configuration that the NIC runs with: from 0, then from [`TextPage::next`] on.
    Config(u32),
    /// Opens a port.
    PortAdd(PortAdd),
    /// Closes a port.
    PortDel(PortDel),
    /// Changes a port.
    PortSet(PortSet),
}

impl Request {
    /// What is asked for, in words for a log.
    pub fn what(&self) -> &'static str {
        match self {
            Request::Hello => "a greeting",
            Request::Attach { .. } => "a program",
            Request::Rss(_) => "a program's RSS",
            Request::Takes(_) => "what a program takes",
            Request::Notify { .. } => "notifications",
            Request::Status | Request::StatusFrom(_) => "to show the status",
            Request::MacTable(_) => "to show addresses",
            Request::Capture(_) => "a capture",
            Request::Flow(_) => "flow rules",
            Request::Apply(_) => "a configuration",
            Request::Config(_) => "to show the configuration",
            Request::PortAdd(_) => "a new port",
            Request::PortDel(_) => "to close a port",
            Request::PortSet(_) => "to change a port",
        }
    }
}

/// Where a page of the status begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// The program ([`ProgramStatus::id`]), or the next one that there is.
    pub program: u64,
    /// The first of its queues.
    pub queue: u16,
}

/// A reply of the NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To `Hello`.
    Hello(Hello),
    /// To `Attach`: the queue pairs are being polled.
    Attached,
    /// To `Rss`, and to `Capture`: it is in force for all packets sent from now on. To a part of `Apply`: it waits for the rest.
    Done,
    /// To `Status`.
    Status(Box<Status>),
    /// To `MacTable`.
    MacTable(AddressPage),
    /// To `Flow`.
    Flow(FlowReply),
    /// To `Apply`, `PortAdd`, `PortDel` and `PortSet`.
    Applied(Box<Applied>),
    /// To `Config`.
    Config(TextPage),
    /// The request was refused.
    Refused {
        /// Why, and what to do about it.
        reason: String,
    },
}

/// What a program must know of a NIC before it makes a region.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the daemon.
    pub version: String,
    /// Version of the messages ([`PROTOCOL`]); 0 from a NIC that did not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub protocol: u32,
    /// The NUMA node of the polling cores: the NIC segment of a region is homed there.
    pub node: u32,
    /// The NIC spreads received packets over queues (RSS).
    #[serde(default)]
    pub rss: bool,
    /// The NIC sleeps when there is nothing to do, if all programs wake it ([`Request::Notify`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sleeps: bool,
    /// The NIC knows segments in buffers that stay the program's (`FLAG_KEPT`). Do not send any to one that does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// What becomes of requests in the metadata of packets. A NIC that says nothing may not know them: do not make any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offloads: Option<Offloads>,
    /// What it found best on this machine ([`Tuning::word`]). A program that knows no such tuning uses the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<u32>,
    /// What it can do with flow rules, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowAbility>,
}

/// The state of a NIC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Of each of them, in the same order: nanoseconds since the start that it spent in polls that found packets, an estimate where it
    /// polls for one program only. Empty from a NIC that does not measure it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy_ns: Vec<u64>,
    /// What it tells programs of the machine, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningStatus>,
    /// What it may not do, if it has confined itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxStatus>,
    /// Attached programs, by their `id`.
    pub programs: Vec<ProgramStatus>,
    /// Where the rest begins, if this is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

impl Status {
    /// Adds the page that was asked for by [`next`](Status::next).
    ///
    /// # Errors
    /// When that page does not go on: a NIC that repeats itself would be asked for ever.
    pub fn append(&mut self, page: Status) -> Result<(), Error> {
        if page.next.is_some_and(|next| Some(next) <= self.next) {
            return Err(Error::Protocol { what: "a page of the status leads back".to_owned() });
        }
        self.next = page.next;
        let mut programs = page.programs.into_iter().peekable();
        if let (Some(last), Some(first)) = (self.programs.last_mut(), programs.peek_mut())
            && last.id == first.id
        {
            last.queues.append(&mut first.queues);
            programs.next();
        }
        self.programs.extend(programs);
        Ok(())
    }
}

/// A part of a switch's address table, which changes meanwhile: an address that is there all the time is on one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPage {
    /// In no order.
    pub addresses: Vec<LearnedAddress>,
    /// Where the rest begins, if this is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

/// An address that a switch has learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LearnedAddress {
    /// The MAC address, in the order of the wire.
    pub mac: [u8; 6],
    /// The program that packets to it go to ([`ProgramStatus::id`]).
    pub program: u64,
    /// Seconds since a packet came from it.
    pub age_s: u32,
    /// Its VLAN; 0: that of the ports without VLANs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vlan: u16,
    /// The operator has said that it is there: it stays.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fixed: bool,
}

fn is_zero<N: PartialEq + Default>(n: &N) -> bool {
    *n == N::default()
}

fn is_false(fixed: &bool) -> bool {
    !fixed
}

/// The tuning of a NIC, for people: nothing here is fit to print (see [`printable`](crate::printable)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningStatus {
    /// How payload is requested: `own` or `read`.
    pub fetch: String,
    /// Units that are requested ahead.
    pub ahead: u8,
    /// When lines are demoted: `auto`, `on` or `off`.
    pub demote: String,
    /// What a side does between empty polls: `pause` or `spin`.
    pub idle: String,
    /// The longest packet that is put inline while its reader waits, in lines.
    pub inline: u8,
    /// The same under load.
    pub loaded: u8,
    /// Where it is from: `measured`, `cached`, `option` or `default`.
    pub source: String,
}

impl TuningStatus {
    /// The names of a tuning's values.
    pub fn new(tuning: Tuning, source: &str) -> TuningStatus {
        TuningStatus {
            fetch: tuning.fetch.name().to_owned(),
            ahead: tuning.ahead,
            demote: tuning.demote.name().to_owned(),
            idle: tuning.idle.name().to_owned(),
            inline: tuning.inline,
            loaded: tuning.loaded,
            source: source.to_owned(),
        }
    }
}

/// How a NIC's process has confined itself, for people: nothing here is fit to print (see [`printable`](crate::printable)).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SandboxStatus {
    /// The user that it runs as.
    pub uid: u32,
    /// `dropped`: it has the capabilities that are listed and no way to others; `off`: it has dropped none.
    pub capabilities: String,
    /// Those that it has kept, such as `cap_net_admin`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Landlock: `full`; `partial` or `none` where the kernel has less; `off`.
    pub landlock: String,
    /// The filter of system calls: `on`; `none` where the kernel has none; `off`.
    pub seccomp: String,
}

/// One attached program, or another port of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Identifies it at this NIC. 0 from a NIC of an earlier release, whose status has one page.
    #[serde(default)]
    pub id: u64,
    /// Its name, as it gives it: not fit to print (see [`printable`](crate::printable)). Of a port that is no program, as `--port` has it:
    /// `tap:` or `xdp:` and the name of the interface, `pcap:` and the path of the file.
    pub name: String,
    /// Its process, of a port that is no program the NIC's; 0 when that is in a PID namespace that the NIC does not see.
    pub pid: i32,
    /// The ring design that it chose; `tap` for a TAP interface; `xdp-generic`, `xdp-native` or `xdp-zero-copy` for an interface by AF_XDP;
    /// `pcap` for a file.
    pub design: String,
    /// How its received packets are spread over its queues, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<RssMessage>,
    /// How long the packets that it has sent took through the NIC, of those that were sampled; none of a port that is no
    /// program, or from a NIC that samples none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyStatus>,
    /// What it has taken of the NIC's memory, and what it and others may take; none of a port that is no program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatus>,
    /// Its queue pairs.
    pub queues: Vec<QueueStatus>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::MESSAGE_MAX;
    use ccnic::rss::Rss;
    use ccnic_frame::Takes;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    /// The message is this text, and the text this message: the format is a promise to other releases.
    #[track_caller]
    fn is<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T, text: &str) {
        assert_eq!(serde_json::to_string(message).unwrap(), text);
        assert_eq!(&serde_json::from_str::<T>(text).unwrap(), message);
    }

    #[test]
    fn requests() {
        is(&Request::Hello, r#""hello""#);
        is(&Request::Status, r#""status""#);
        is(
            &Request::StatusFrom(Cursor { program: 7, queue: 8 }),
            r#"{"status-from":{"program":7,"queue":8}}"#,
        );
        is(&Request::Notify { queue: 7, wakes: false }, r#"{"notify":{"queue":7}}"#);
        is(&Request::Notify { queue: 7, wakes: true }, r#"{"notify":{"queue":7,"wakes":true}}"#);
        is(&Request::Rss(None), r#"{"rss":null}"#);
        is(&Request::Takes(vec![]), r#"{"takes":[]}"#);
        is(
            &Request::Takes(Taken::list(Takes::ALL)),
            r#"{"takes":["ip-checksum","l4-checksum","tcp-segments","udp-segments","vlan"]}"#,
        );
        is(&Request::MacTable(64), r#"{"mac-table":64}"#);
        let capture = CaptureRequest { port: None, snap: 128, drops: false, rate: 7 };
        is(&Request::Capture(capture), r#"{"capture":{"snap":128,"rate":7}}"#);
        let capture = CaptureRequest { port: Some(9), snap: 128, drops: true, rate: 0 };
        is(&Request::Capture(capture), r#"{"capture":{"port":9,"snap":128,"drops":true,"rate":0}}"#);
        let name = || "one".to_owned();
        is(&Request::Attach { name: name(), mac: None, rss: None }, r#"{"attach":{"name":"one"}}"#);
        let mac = Some([2, 0, 0, 0, 0, 1]);
        is(
            &Request::Attach { name: name(), mac, rss: None },
            r#"{"attach":{"name":"one","mac":[2,0,0,0,0,1]}}"#,
        );
        let rss = RssMessage { key: vec![1], types: vec!["ipv4".into()], table: vec![0, 1], hash: true };
        is(&Request::Rss(Some(rss)), r#"{"rss":{"key":[1],"types":["ipv4"],"table":[0,1],"hash":true}}"#);
    }

    #[test]
    fn replies() {
        is(&Reply::Attached, r#""attached""#);
        is(&Reply::Done, r#""done""#);
        is(&Reply::Refused { reason: "why".into() }, r#"{"refused":{"reason":"why"}}"#);
        let learned =
            LearnedAddress { mac: [2, 0, 0, 0, 0, 255], program: 7, age_s: 3, vlan: 0, fixed: false };
        is(
            &Reply::MacTable(AddressPage { addresses: vec![learned], next: Some(64) }),
            r#"{"mac-table":{"addresses":[{"mac":[2,0,0,0,0,255],"program":7,"age_s":3}],"next":64}}"#,
        );
        let hello = Hello { version: "1".into(), rss: true, ..Hello::default() };
        is(&Reply::Hello(hello.clone()), r#"{"hello":{"version":"1","node":0,"rss":true}}"#);
        is(
            &Reply::Hello(Hello {
                offloads: Some(Offloads::completed(Takes::NONE.with_vlan())),
                ..hello.clone()
            }),
            r#"{"hello":{"version":"1","node":0,"rss":true,"offloads":{"takes":["vlan"]}}}"#,
        );
        is(
            &Reply::Hello(Hello { tuning: Some(0x0100_0001), ..hello.clone() }),
            r#"{"hello":{"version":"1","node":0,"rss":true,"tuning":16777217}}"#,
        );
        let flow = Some(FlowAbility { version: 1, rules: 256, field_sets: 8 });
        is(
            &Reply::Hello(Hello { flow, ..hello }),
            r#"{"hello":{"version":"1","node":0,"rss":true,"flow":{"version":1,"rules":256,"field_sets":8}}}"#,
        );
        let queue = QueueStatus { queue: 3, core: 1, tx_packets: u64::MAX, ..QueueStatus::default() };
        let program = ProgramStatus {
            id: 1,
            name: "p".into(),
            pid: 7,
            design: "ccnic".into(),
            rss: Some(RssMessage::from(&Rss::new(2))),
            latency: Some(LatencyStatus { sum_ns: 5, ..LatencyStatus::default() }),
            memory: None,
            queues: vec![queue],
        };
        let status = Status {
            version: "1".into(),
            pid: 1,
            uptime_s: 0.5,
            wire: "loopback".into(),
            cores: vec![1],
            busy_ns: vec![7],
            programs: vec![program],
            next: Some(Cursor { program: 2, queue: 0 }),
            ..Status::default()
        };
        let text = serde_json::to_string(&Reply::Status(Box::new(status.clone()))).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&text).unwrap(), Reply::Status(Box::new(status)));
    }

    /// docs/control-protocol.md names every message, and its examples are messages.
    #[test]
    fn the_documentation_is_of_these_messages() {
        let document = include_str!("../../../docs/control-protocol.md");
        let names = |why: String| -> Vec<String> {
            why.split('`').skip(3).step_by(2).map(str::to_owned).collect() // unknown variant `?`, expected one of `hello`, ...
        };
        let requests = names(serde_json::from_str::<Request>(r#""?""#).unwrap_err().to_string());
        let replies = names(serde_json::from_str::<Reply>(r#""?""#).unwrap_err().to_string());
        assert!(requests.len() >= 12 && replies.len() >= 8, "{requests:?} {replies:?}");
        for name in requests
            .iter()
            .map(|name| format!("\n| `{name}` |"))
            .chain(replies.iter().map(|name| format!("`{name}`")))
        {
            assert!(document.contains(&name), "{name} is missing");
        }
        let examples =
            |mark: &str| document.lines().filter_map(|line| line.strip_prefix(mark)).collect::<Vec<_>>();
        let (asked, answered) = (examples("→ "), examples("← "));
        assert!(asked.len() > 5 && answered.len() > 3);
        asked.into_iter().for_each(|text| drop(serde_json::from_str::<Request>(text).expect(text)));
        answered.into_iter().for_each(|text| drop(serde_json::from_str::<Reply>(text).expect(text)));
        assert!(
            document.contains(&format!("\"protocol\":{PROTOCOL},"))
                && document.contains(&format!("{MESSAGE_MAX} bytes"))
        );
    }

    #[test]
    fn a_tuning_has_names() {
        let tuning = TuningStatus::new("fetch=read,ahead=2,idle=spin".parse().unwrap(), "cached");
        is(
            &tuning,
            r#"{"fetch":"read","ahead":2,"demote":"auto","idle":"spin","inline":1,"loaded":0,"source":"cached"}"#,
        );
    }

    #[test]
    fn what_other_releases_leave_out_has_a_default() {
        let old = r#"{"queue":0,"core":0,"tx_packets":1,"tx_bytes":2,"rx_packets":3,"rx_bytes":4,"drop_bad_descriptor":0,
            "drop_bad_chain":0,"drop_too_long":0,"wait_ring_full":0,"wait_no_buffer":0}"#;
        let queue: QueueStatus = serde_json::from_str(old).unwrap();
        assert_eq!((queue.rx_bytes, queue.drop_ring_full, queue.drop_handoff_full), (4, 0, 0));
        assert_eq!((queue.drop_over_mtu, queue.drop_bad_source, queue.flooded), (0, 0, 0));
        let hello: Hello = serde_json::from_str(r#"{"version":"0","node":1}"#).unwrap();
        assert_eq!(hello, Hello { version: "0".into(), node: 1, ..Hello::default() });
        assert!(serde_json::from_str::<Hello>(r#"{"version":"0","node":1,"tuning":4294967296}"#).is_err());
        let status: Status = serde_json::from_str(
            r#"{"version":"0","pid":1,"uptime_s":0,"wire":"w","cores":[],"programs":[]}"#,
        )
        .unwrap();
        assert_eq!((status.tuning, status.busy_ns), (None, vec![]));
        assert!(serde_json::from_str::<Request>(r#""shutdown""#).is_err());
    }
}
