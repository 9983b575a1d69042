//! The policy of a port or program, as an operator writes it.

use anyhow::{Context, bail, ensure};
use ccnic_control::ClientId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use super::values::{At, Text, Trunk, VlanId, Within};
use crate::switch::Mac;
use crate::switch::policy::{Carried, Mirror, Policy, Prefix, Rate, VLANS, Vlans};

/// The most addresses of each kind: a look at a packet compares it with all of them.
const MOST: usize = 64;

/// What a port may do. What is not said is as in `[defaults]`, and anything where these do not say it either.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PolicyConfig {
    /// An access port: frames without tag, in both directions, belong to this VLAN. Those with a tag are dropped.
    pub vlan: Option<VlanId>,
    /// A trunk port: frames have tags of these VLANs, "all" or a list.
    pub trunk: Option<Trunk>,
    /// Of a trunk port: the VLAN, one of the trunk's, whose frames have no tag.
    pub native: Option<VlanId>,
    /// The MAC addresses that it may speak from; [] for any.
    pub macs: Option<Vec<Text<Mac>>>,
    /// The IP addresses and networks that it may speak from, in IP, ARP and neighbour discovery; [] for any.
    pub addresses: Option<Vec<Text<Prefix>>>,
    /// It exchanges nothing with other isolated ports.
    pub isolated: Option<bool>,
    /// Packets a second that may be flooded from it: to groups, and to addresses that are not known.
    pub storm: Option<Within<1, 1_000_000_000>>,
    /// What it may send; more waits in its ring.
    pub send: Option<RateConfig>,
    /// What may be sent to it; more is dropped.
    pub receive: Option<RateConfig>,
    /// Addresses that are at this port, whatever frames say: "02:00:00:00:00:01", or with its VLAN "02:00:00:00:00:01@10".
    #[serde(rename = "static")]
    pub fixed: Option<Vec<Text<At>>>,
    /// Copies of its packets, for another port.
    pub mirror: Option<MirrorConfig>,
}

/// A rate, of packets or bits or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RateConfig {
    /// Packets a second.
    pub packets: Option<Within<1, 1_000_000_000>>,
    /// Bits a second, of frames without checksum and preamble.
    pub bits: Option<Within<1000, 1_000_000_000_000>>,
    /// Milliseconds: after silence, what the rate gives in this time may pass at once [default: 10; of receive 300, and at least 256 KiB].
    pub burst_ms: Option<Within<1, 10_000>>,
}

/// Where copies of packets go.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MirrorConfig {
    /// One of the ports of this file, as kind:name. It takes no other part in the switch.
    #[schemars(with = "String")]
    pub to: toml::Spanned<String>,
    /// What the port sends [default: true].
    #[serde(default = "yes")]
    pub sent: bool,
    /// What is sent to the port [default: true].
    #[serde(default = "yes")]
    pub received: bool,
}

fn yes() -> bool {
    true
}

impl PolicyConfig {
    /// True when it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == PolicyConfig::default()
    }

    /// What `self` leaves out is as in `defaults`.
    pub(super) fn or(&self, defaults: &PolicyConfig) -> PolicyConfig {
        let one = self.clone();
        let says_vlans = self.vlan.is_some() || self.trunk.is_some() || self.native.is_some();
        let vlans = if says_vlans { self } else { defaults }.clone();
        PolicyConfig {
            vlan: vlans.vlan,
            trunk: vlans.trunk,
            native: vlans.native,
            macs: one.macs.or_else(|| defaults.macs.clone()),
            addresses: one.addresses.or_else(|| defaults.addresses.clone()),
            isolated: one.isolated.or(defaults.isolated),
            storm: one.storm.or(defaults.storm),
            send: one.send.or(defaults.send),
            receive: one.receive.or(defaults.receive),
            fixed: one.fixed.or_else(|| defaults.fixed.clone()),
            mirror: one.mirror.or_else(|| defaults.mirror.clone()),
        }
    }

    /// What it says, for a switch whose `mirror` says which port a name is.
    ///
    /// # Errors
    /// What does not go together, and what to do.
    pub(super) fn settle(
        &self,
        mirror: impl Fn(&MirrorConfig) -> anyhow::Result<ClientId>,
    ) -> anyhow::Result<Policy> {
        let vlans = self.vlans()?;
        let mirror = self.mirror.as_ref().map(|config| {
            anyhow::Ok(Mirror { to: mirror(config)?, sent: config.sent, received: config.received })
        });
        let fixed = self.fixed.iter().flatten().map(|Text(at)| at.station(vlans.untagged()));
        Ok(Policy {
            macs: self.macs.iter().flatten().map(|Text(mac)| *mac).collect(),
            addresses: self.addresses.iter().flatten().map(|Text(prefix)| *prefix).collect(),
            isolated: self.isolated.unwrap_or(false),
            storm: self.storm.map(Within::get),
            sends: self.send.map_or(Rate::NONE, |rate| rate.rate(Rate::BURST)),
            receives: self
                .receive
                .map_or(Rate::NONE, |rate| rate.rate(Rate::dropping_burst(rate.bits.map(Within::get)))),
            fixed: fixed.collect(),
            mirror: mirror.transpose()?,
            vlans,
        })
    }

    /// Whether it goes together by itself.
    ///
    /// # Errors
    /// What does not, and what to do.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let vlans = self.vlans()?;
        for at in self.fixed.iter().flatten().map(|Text(at)| at) {
            match at.vlan() {
                Some(vlan) => ensure!(
                    vlans.carries(vlan),
                    "static names VLAN {vlan}, which the port is not in: add it to trunk, or leave it out"
                ),
                None => ensure!(
                    vlans.carries(vlans.untagged()),
                    "static names no VLAN, and the trunk has no native one: write ADDRESS@VLAN"
                ),
            }
        }
        for (rate, name) in [(&self.send, "send"), (&self.receive, "receive")] {
            let empty = rate.is_some_and(|rate| rate.packets.is_none() && rate.bits.is_none());
            ensure!(!empty, "{name} limits nothing: say packets or bits, or both");
        }
        let lengths = [
            ("macs", self.macs.as_ref().map_or(0, Vec::len)),
            ("addresses", self.addresses.as_ref().map_or(0, Vec::len)),
            ("static", self.fixed.as_ref().map_or(0, Vec::len)),
        ];
        if let Some((name, len)) = lengths.into_iter().find(|(_, len)| *len > MOST) {
            bail!("{name} has {len} entries, and {MOST} are the most");
        }
        if let Some(mirror) = &self.mirror {
            ensure!(mirror.sent || mirror.received, "mirror copies nothing: let sent or received be true");
        }
        Ok(())
    }

    fn vlans(&self) -> anyhow::Result<Vlans> {
        let number = |vlan: VlanId| vlan.get() as u16;
        let native = self.native.map(number);
        match (self.vlan, &self.trunk) {
            (Some(_), Some(_)) => {
                bail!("a port has a vlan (without tags) or a trunk (with tags): leave one of them out")
            }
            (_, None) if native.is_some() => {
                bail!("native is a trunk's: add trunk, or say vlan in its place")
            }
            (None, None) => Ok(Vlans::Opaque),
            (Some(vlan), None) => Ok(Vlans::Access(number(vlan))),
            (None, Some(trunk)) => {
                let carried = match trunk {
                    Trunk::All(_) => Carried::of(VLANS),
                    Trunk::These(these) => Carried::of(these.iter().map(|vlan| number(*vlan))),
                };
                let other = native.filter(|native| !carried.has(*native));
                if let Some(native) = other {
                    bail!("native = {native} is not one of the trunk's VLANs: add it to trunk");
                }
                ensure!(*trunk != Trunk::These(Vec::new()), "trunk has no VLAN: add some, or say \"all\"");
                Ok(Vlans::Trunk { carried, native: native.unwrap_or(0) })
            }
        }
    }
}

impl RateConfig {
    /// With that burst, where none is given.
    fn rate(self, burst: Duration) -> Rate {
        Rate {
            packets: self.packets.map(Within::get),
            bits: self.bits.map(Within::get),
            burst: self.burst_ms.map_or(burst, |ms| Duration::from_millis(ms.get())),
        }
    }
}

/// Reads a policy that goes together: what is wrong with it is said of its place in the file.
pub(super) fn checked<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<PolicyConfig, D::Error> {
    let policy = PolicyConfig::deserialize(deserializer)?;
    policy.check().context("policy").map_err(|e| serde::de::Error::custom(format!("{e:#}")))?;
    Ok(policy)
}
