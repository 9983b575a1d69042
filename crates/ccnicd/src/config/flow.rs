//! A flow rule, as an operator writes it (`docs/steering.md`).

use std::fmt;
use std::net::IpAddr;

use anyhow::{Context, ensure};
use ccnic_control::flow::{FlowMatch, FlowRule, FlowTarget, SCTP, TCP, UDP};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{Text, User, Within, Written};
use crate::flow::ConfiguredFlow;

/// What becomes of some of the packets that a program receives: of those that have all fields which are named, with these values.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct FlowConfig {
    /// Programs of this name; without: of any.
    pub program: Option<String>,
    /// Programs of this user, by name or uid; without: of any.
    #[schemars(with = "Option<String>")]
    pub user: Option<Text<User>>,
    /// Of several rules about a packet the one with the lowest priority is followed, then the one that stands first [default: 0].
    pub priority: Option<u32>,
    /// Destination address of the frame.
    pub dst_mac: Option<Text<AnyMac>>,
    /// Source address of the frame.
    pub src_mac: Option<Text<AnyMac>>,
    /// VLAN number of the outermost tag.
    pub vlan: Option<Within<0, 4094>>,
    /// EtherType behind all tags, such as 0x0806.
    pub ether_type: Option<Within<0x600, 0xffff>>,
    /// "tcp", "udp", "sctp", or the number of an IP protocol.
    pub protocol: Option<Protocol>,
    /// Source address of the IP packet.
    #[schemars(with = "Option<String>")]
    pub src_ip: Option<IpAddr>,
    /// Destination address of the IP packet.
    #[schemars(with = "Option<String>")]
    pub dst_ip: Option<IpAddr>,
    /// Source port; with a protocol that has ports.
    pub src_port: Option<Within<0, 0xffff>>,
    /// Destination port; with a protocol that has ports.
    pub dst_port: Option<Within<0, 0xffff>>,
    /// The packets go to this receive queue. A program without it does not get the rule.
    pub queue: Option<Within<0, 0xffff>>,
    /// The packets are dropped.
    #[serde(skip_serializing_if = "super::is_false")]
    pub drop: bool,
    /// The packets go where they go without rules.
    #[serde(skip_serializing_if = "super::is_false")]
    pub rss: bool,
    /// The packets have this mark in their metadata.
    pub mark: Option<Within<0, 0xffff>>,
}

impl FlowConfig {
    /// What it says.
    pub(super) fn settle(&self) -> anyhow::Result<ConfiguredFlow> {
        Ok(ConfiguredFlow {
            name: self.program.clone(),
            uid: self.user.map(|Text(User(uid))| uid),
            rule: self.rule()?,
        })
    }

    /// True when it is about each packet that `other` is about.
    pub(super) fn is_about_all_of(&self, other: &FlowConfig) -> bool {
        fn any<T: PartialEq>(mine: &Option<T>, other: &Option<T>) -> bool {
            mine.is_none() || mine == other
        }
        any(&self.program, &other.program)
            && any(&self.user, &other.user)
            && any(&self.dst_mac, &other.dst_mac)
            && any(&self.src_mac, &other.src_mac)
            && any(&self.vlan, &other.vlan)
            && any(&self.ether_type, &other.ether_type)
            && any(&self.protocol, &other.protocol)
            && any(&self.src_ip, &other.src_ip)
            && any(&self.dst_ip, &other.dst_ip)
            && any(&self.src_port, &other.src_port)
            && any(&self.dst_port, &other.dst_port)
    }

    /// # Errors
    /// What does not go together, and what to do.
    fn rule(&self) -> anyhow::Result<FlowRule> {
        let number = |n: Within<0, 0xffff>| n.get() as u16;
        let targets = usize::from(self.queue.is_some()) + usize::from(self.drop) + usize::from(self.rss);
        ensure!(
            targets == 1,
            "what becomes of the packets is said {targets} times: say one of queue = N, drop = true and rss = true"
        );
        let to = match self.queue {
            Some(queue) => FlowTarget::Queue(number(queue)),
            None if self.drop => FlowTarget::Drop,
            None => FlowTarget::Rss,
        };
        let matches = FlowMatch {
            dst_mac: self.dst_mac.map(|Text(AnyMac(mac))| mac),
            src_mac: self.src_mac.map(|Text(AnyMac(mac))| mac),
            vlan: self.vlan.map(|vlan| vlan.get() as u16),
            ether_type: self.ether_type.map(|kind| kind.get() as u16),
            protocol: self.protocol.map(Protocol::number),
            src_ip: self.src_ip,
            dst_ip: self.dst_ip,
            src_port: self.src_port.map(number),
            dst_port: self.dst_port.map(number),
        };
        let rule =
            FlowRule { priority: self.priority.unwrap_or(0), matches, to, mark: self.mark.map(number) };
        // Whatever the program's number of queues. Messages have names with an underscore where the file has a hyphen.
        rule.check(u16::MAX).map_err(|why| anyhow::anyhow!(why.replace('_', "-")))?;
        Ok(rule)
    }
}

/// Reads rules that go together, each by itself: what is wrong with one is said of its place in the file.
pub(super) fn checked<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<toml::Spanned<FlowConfig>>, D::Error> {
    #[derive(Deserialize)]
    struct Checked(#[serde(deserialize_with = "one")] FlowConfig);
    fn one<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<FlowConfig, D::Error> {
        let flow = FlowConfig::deserialize(deserializer)?;
        flow.rule().context("flow").map_err(|e| serde::de::Error::custom(format!("{e:#}")))?;
        Ok(flow)
    }
    let flows = Vec::<toml::Spanned<Checked>>::deserialize(deserializer)?;
    let plain = |flow: toml::Spanned<Checked>| toml::Spanned::new(flow.span(), flow.into_inner().0);
    Ok(flows.into_iter().map(plain).collect())
}

/// Any MAC address, a group's, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnyMac(pub [u8; 6]);

impl Written for AnyMac {
    const NAME: &'static str = "AnyMac";
    const PATTERN: &'static str = "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$";

    fn read(text: &str) -> anyhow::Result<AnyMac> {
        let byte = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(AnyMac)
            .with_context(|| format!("{text:?} is no MAC address, such as \"02:00:00:00:00:01\""))
    }

    fn write(&self) -> String {
        self.0.map(|byte| format!("{byte:02x}")).join(":")
    }
}

/// A protocol of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Protocol {
    /// One with ports.
    Named(ProtocolName),
    /// Any.
    Number(u8),
}

/// A protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    /// 6
    Tcp,
    /// 17
    Udp,
    /// 132
    Sctp,
}

impl Protocol {
    fn number(self) -> u8 {
        match self {
            Protocol::Named(ProtocolName::Tcp) => TCP,
            Protocol::Named(ProtocolName::Udp) => UDP,
            Protocol::Named(ProtocolName::Sctp) => SCTP,
            Protocol::Number(number) => number,
        }
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Protocol, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Protocol;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"tcp\", \"udp\", \"sctp\" or a number from 0 to 255")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Protocol, E> {
                match text {
                    "tcp" => Ok(Protocol::Named(ProtocolName::Tcp)),
                    "udp" => Ok(Protocol::Named(ProtocolName::Udp)),
                    "sctp" => Ok(Protocol::Named(ProtocolName::Sctp)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Protocol, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(number), &self);
                u8::try_from(number).map(Protocol::Number).map_err(wrong)
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Protocol, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self);
                u8::try_from(number).map(Protocol::Number).map_err(wrong)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
