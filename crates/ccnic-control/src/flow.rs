//! Flow rules in messages: which packets a rule is about, and what becomes of them. What comes from the other side is checked
//! ([`FlowRule::check`]) before anybody follows it.
//!
//! A field that a release does not know is refused, never ignored: a rule about fewer fields is another rule.

use std::fmt;
use std::net::IpAddr;

use ccnic_frame::headers::{IPV4, IPV6, TAGS};
/// Protocols with ports.
pub use ccnic_frame::headers::{SCTP, TCP, UDP};
use serde::{Deserialize, Serialize};

/// The version of these messages: [`FlowAbility::version`].
pub const FLOW_VERSION: u32 = 1;
/// The first number of the operator's rules. Those of a program are below.
pub const FIRST_OF_OPERATOR: u32 = 1 << 31;
/// The first number of those rules of the operator that stand in the NIC's configuration: its place among the flow rules there is added.
pub const FIRST_OF_CONFIGURATION: u32 = 3 << 30;

/// Below, the field is the length of an IEEE 802.3 frame.
const FIRST_ETHER_TYPE: u16 = 0x0600;
/// The highest VLAN number.
const VLAN_MAX: u16 = 4094;

/// Which packets a rule is about: those whose fields have these values. A field that is left out may have any value, or be
/// missing in the packet; one that is named must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowMatch {
    /// Destination address of the frame, in the order of the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_mac: Option<[u8; 6]>,
    /// Source address of the frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_mac: Option<[u8; 6]>,
    /// VLAN number of the outermost tag, in the frame or beside it: 0 to 4094. Frames without a tag have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// EtherType behind all tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ether_type: Option<u16>,
    /// Protocol of an IP packet that is no fragment, behind extension headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Source address of an IP packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_ip: Option<IpAddr>,
    /// Destination address of an IP packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_ip: Option<IpAddr>,
    /// Source port. Only with a protocol that has ports: TCP, UDP or SCTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_port: Option<u16>,
    /// Destination port, as the source port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<u16>,
}

impl FlowMatch {
    /// The EtherType that packets must have: the one named, or that of the IP addresses.
    pub fn any_ether_type(&self) -> Option<u16> {
        let of = |ip: IpAddr| if ip.is_ipv4() { IPV4 } else { IPV6 };
        self.ether_type.or_else(|| self.src_ip.or(self.dst_ip).map(of))
    }

    fn check(&self) -> Result<(), String> {
        let FlowMatch { vlan, ether_type, protocol, src_ip, dst_ip, .. } = self;
        if let Some(vlan) = vlan.filter(|vlan| *vlan > VLAN_MAX) {
            return Err(format!("vlan is {vlan}; choose 0 to {VLAN_MAX}"));
        }
        if let Some(kind) = ether_type.filter(|kind| *kind < FIRST_ETHER_TYPE || TAGS.contains(kind)) {
            return Err(format!(
                "ether_type is {kind:#06x}, a length or a VLAN tag; give the type behind the tags, such as 0x0800, and the tag as vlan"
            ));
        }
        if let (Some(src), Some(dst)) = (src_ip, dst_ip)
            && src.is_ipv4() != dst.is_ipv4()
        {
            return Err(format!("src_ip is {src} and dst_ip is {dst}; give addresses of one IP version"));
        }
        if let (Some(kind), Some(ip)) = (ether_type, src_ip.or(*dst_ip))
            && *kind != if ip.is_ipv4() { IPV4 } else { IPV6 }
        {
            return Err(format!(
                "ether_type is {kind:#06x}, which has no address {ip}; leave one of them out"
            ));
        }
        if let (Some(kind), Some(protocol)) = (ether_type, protocol)
            && ![IPV4, IPV6].contains(kind)
        {
            return Err(format!(
                "protocol is {protocol}, but ether_type {kind:#06x} is not IP; leave one of them out"
            ));
        }
        let ports = [("src_port", self.src_port), ("dst_port", self.dst_port)];
        let port = ports.iter().find_map(|(name, port)| Some((name, (*port)?)));
        if let Some((name, port)) = port
            && !protocol.is_some_and(|protocol| [TCP, UDP, SCTP].contains(&protocol))
        {
            return Err(format!(
                "{name} is {port} without a protocol that has ports; add protocol {TCP} (TCP), {UDP} (UDP) or {SCTP} (SCTP)"
            ));
        }
        Ok(())
    }
}

/// For people: `vlan 5, udp, dst 10.0.0.1 port 53`.
impl fmt::Display for FlowMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        let side = |name: &str, of: Option<[u8; 6]>, ip: Option<IpAddr>, port: Option<u16>| {
            let parts = [of.map(mac), ip.map(|ip| ip.to_string()), port.map(|port| format!("port {port}"))];
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| format!("{name} {}", parts.join(" ")))
        };
        let protocol = |protocol| match protocol {
            TCP => "tcp".to_owned(),
            UDP => "udp".to_owned(),
            SCTP => "sctp".to_owned(),
            other => format!("protocol {other}"),
        };
        let parts = [
            self.vlan.map(|vlan| format!("vlan {vlan}")),
            self.ether_type.map(|kind| format!("type {kind:#06x}")),
            self.protocol.map(protocol),
            side("src", self.src_mac, self.src_ip, self.src_port),
            side("dst", self.dst_mac, self.dst_ip, self.dst_port),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "all" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// Where packets go that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowTarget {
    /// Where they go without rules: by the hash, or, without RSS, where they are.
    #[default]
    Rss,
    /// To this receive queue.
    Queue(u16),
    /// Nowhere: they are dropped and counted (`drop_flow_rule`).
    Drop,
}

/// For people.
impl fmt::Display for FlowTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowTarget::Rss => f.write_str("rss"),
            FlowTarget::Queue(queue) => write!(f, "queue {queue}"),
            FlowTarget::Drop => f.write_str("drop"),
        }
    }
}

/// A flow rule: what becomes of some of the packets that a program receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRule {
    /// Of several rules about a packet the one with the lowest number is followed; among equals, the one with the lowest id. All
    /// rules of the operator come before all of the program.
    #[serde(default)]
    pub priority: u32,
    /// The packets.
    #[serde(rename = "match", default)]
    pub matches: FlowMatch,
    /// Where they go.
    pub to: FlowTarget,
    /// The mark that they have in their metadata (`ccnic_frame::Meta::mark`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u16>,
}

impl FlowRule {
    /// Checks every field, for a program with so many queues.
    ///
    /// # Errors
    /// The first field that is wrong, and what it may be.
    pub fn check(&self, queues: u16) -> Result<(), String> {
        self.matches.check()?;
        match (self.to, self.mark) {
            (FlowTarget::Queue(queue), _) if queue >= queues => {
                Err(format!("to is queue {queue}; the program has queues 0 to {}", queues.saturating_sub(1)))
            }
            (FlowTarget::Drop, Some(mark)) => {
                Err(format!("mark is {mark} for packets that are dropped; leave it out, or choose a queue"))
            }
            _ => Ok(()),
        }
    }
}

/// What a NIC can do with flow rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowAbility {
    /// [`FLOW_VERSION`] of the NIC.
    pub version: u32,
    /// The most rules that a program may have.
    pub rules: u32,
    /// The most different sets of fields that they may name.
    pub field_sets: u32,
}

/// A request about flow rules: of the program of this connection, or, for an operator
/// ([`Limits::operators`](crate::Limits::operators)),
/// of another `program` by its id in the status.
///
/// A program may create rules before it attaches: they are in force from the first packet on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FlowRequest {
    /// Adds a rule: in force, when the answer comes, for all packets sent from then on.
    Create {
        /// Whose.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<u64>,
        /// Its number, below [`FIRST_OF_OPERATOR`], if the program wants to choose it. The operator's are chosen by the NIC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u32>,
        /// The rule.
        rule: FlowRule,
    },
    /// Removes a rule.
    Destroy {
        /// Whose.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<u64>,
        /// Its number.
        id: u32,
    },
    /// Removes all rules that who asks may remove: the program's own, or the operator's.
    Flush {
        /// Whose.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<u64>,
    },
    /// Asks for a rule and its counters.
    Query {
        /// Whose. Anybody may ask.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<u64>,
        /// Its number.
        id: u32,
    },
    /// Asks for all rules: from number 0, then from [`FlowPage::next`] on.
    List {
        /// Whose. Anybody may ask.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<u64>,
        /// The first number.
        from: u32,
    },
}

impl FlowRequest {
    /// The program asked about, if it is not that of the connection.
    pub fn program(&self) -> Option<u64> {
        match self {
            FlowRequest::Create { program, .. }
            | FlowRequest::Destroy { program, .. }
            | FlowRequest::Flush { program }
            | FlowRequest::Query { program, .. }
            | FlowRequest::List { program, .. } => *program,
        }
    }

    /// True when it changes nothing.
    pub fn only_reads(&self) -> bool {
        matches!(self, FlowRequest::Query { .. } | FlowRequest::List { .. })
    }
}

/// The reply to a [`FlowRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowReply {
    /// To `Create`: the number of the rule.
    Created(u32),
    /// To `Destroy` and `Flush`.
    Done,
    /// To `Query` and `List`.
    Rules(FlowPage),
}

/// Some of a program's rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowPage {
    /// By number.
    pub rules: Vec<FlowEntry>,
    /// Where the rest begins, if this is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

/// A rule that is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEntry {
    /// Its number: from [`FIRST_OF_OPERATOR`] on, the operator's; from [`FIRST_OF_CONFIGURATION`] on, those of the configuration.
    pub id: u32,
    /// The rule.
    pub rule: FlowRule,
    /// Packets for which it was followed, since it was created.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A rule and its number, on its way to the NIC with a program that attaches.
pub type NumberedRule = (u32, FlowRule);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Reply, Request};

    fn rule(matches: FlowMatch, to: FlowTarget) -> FlowRule {
        FlowRule { priority: 0, matches, to, mark: None }
    }

    const ANY: FlowMatch = FlowMatch {
        dst_mac: None,
        src_mac: None,
        vlan: None,
        ether_type: None,
        protocol: None,
        src_ip: None,
        dst_ip: None,
        src_port: None,
        dst_port: None,
    };

    #[test]
    fn the_format_is_a_promise_to_other_releases() {
        let matches = FlowMatch {
            dst_mac: Some([2, 0, 0, 0, 0, 1]),
            vlan: Some(5),
            protocol: Some(UDP),
            dst_ip: "10.0.0.1".parse().ok(),
            dst_port: Some(53),
            ..ANY
        };
        let rule = FlowRule { priority: 7, matches, to: FlowTarget::Queue(2), mark: Some(9) };
        let text = r#"{"flow":{"create":{"id":3,"rule":{"priority":7,"match":{"dst_mac":[2,0,0,0,0,1],"vlan":5,"protocol":17,"dst_ip":"10.0.0.1","dst_port":53},"to":{"queue":2},"mark":9}}}}"#;
        let request = Request::Flow(FlowRequest::Create { program: None, id: Some(3), rule });
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        assert_eq!(rule.matches.to_string(), "vlan 5, udp, dst 02:00:00:00:00:01 10.0.0.1 port 53");
        let short = r#"{"flow":{"create":{"program":8,"rule":{"to":"drop"}}}}"#;
        let all = FlowRule { to: FlowTarget::Drop, ..FlowRule::default() };
        let expected = Request::Flow(FlowRequest::Create { program: Some(8), id: None, rule: all });
        assert_eq!(serde_json::from_str::<Request>(short).unwrap(), expected);
        let entry = FlowEntry { id: 3, rule, packets: 1, bytes: 64 };
        let page = FlowPage { rules: vec![entry], next: Some(4) };
        for reply in [FlowReply::Created(3), FlowReply::Done, FlowReply::Rules(page)] {
            let reply = Reply::Flow(reply);
            let text = serde_json::to_string(&reply).unwrap();
            assert_eq!(serde_json::from_str::<Reply>(&text).unwrap(), reply, "{text}");
        }
        assert_eq!(serde_json::to_string(&FlowRequest::Flush { program: None }).unwrap(), r#"{"flush":{}}"#);
    }

    #[test]
    fn a_field_that_is_not_known_is_refused_with_its_name() {
        for (text, name) in [
            (r#"{"flow":{"create":{"rule":{"to":"rss","match":{"tos":3}}}}}"#, "tos"),
            (r#"{"flow":{"create":{"rule":{"to":"rss","group":1}}}}"#, "group"),
            (r#"{"flow":{"create":{"rule":{"to":"rss"},"table":1}}}"#, "table"),
            (r#"{"flow":{"create":{"rule":{"to":{"port":1}}}}}"#, "port"),
        ] {
            let why = serde_json::from_str::<Request>(text).unwrap_err().to_string();
            assert!(why.contains(name), "{why}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let v4 = "10.0.0.1".parse().ok();
        let v6 = "fe80::1".parse().ok();
        let queue = FlowTarget::Queue(0);
        for (matches, why) in [
            (FlowMatch { vlan: Some(4095), ..ANY }, "vlan is 4095; choose 0 to 4094"),
            (FlowMatch { ether_type: Some(0x5ff), ..ANY }, "ether_type is 0x05ff, a length"),
            (FlowMatch { ether_type: Some(0x8100), ..ANY }, "and the tag as vlan"),
            (FlowMatch { src_ip: v4, dst_ip: v6, ..ANY }, "src_ip is 10.0.0.1 and dst_ip is fe80::1; give"),
            (FlowMatch { ether_type: Some(IPV6), src_ip: v4, ..ANY }, "which has no address 10.0.0.1"),
            (FlowMatch { ether_type: Some(0x0806), protocol: Some(6), ..ANY }, "ether_type 0x0806 is not IP"),
            (FlowMatch { dst_port: Some(9), ..ANY }, "dst_port is 9 without a protocol"),
            (FlowMatch { src_port: Some(9), protocol: Some(1), ..ANY }, "src_port is 9 without a protocol"),
        ] {
            let said = rule(matches, queue).check(1).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let far = rule(ANY, FlowTarget::Queue(4)).check(4).unwrap_err();
        assert_eq!(far, "to is queue 4; the program has queues 0 to 3");
        let marked = FlowRule { mark: Some(3), ..rule(ANY, FlowTarget::Drop) };
        assert!(marked.check(1).unwrap_err().starts_with("mark is 3 for packets that are dropped"));
        let right =
            FlowMatch { ether_type: Some(IPV4), src_ip: v4, protocol: Some(SCTP), dst_port: Some(0), ..ANY };
        assert_eq!(rule(right, FlowTarget::Queue(3)).check(4), Ok(()));
        assert_eq!(rule(ANY, FlowTarget::Rss).check(1), Ok(()));
    }

    #[test]
    fn rules_of_ip_addresses_are_about_their_ether_type() {
        assert_eq!(FlowMatch { dst_ip: "::1".parse().ok(), ..ANY }.any_ether_type(), Some(IPV6));
        assert_eq!(FlowMatch { src_ip: "1.1.1.1".parse().ok(), ..ANY }.any_ether_type(), Some(IPV4));
        assert_eq!(FlowMatch { ether_type: Some(0x88b5), ..ANY }.any_ether_type(), Some(0x88b5));
        assert_eq!((ANY.any_ether_type(), ANY.to_string()), (None, "all".to_owned()));
    }
}
