//! How a plan names a network interface of the CNI paper.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::bus::buses::Attachment;
use crate::systems::cni;
use crate::systems::cni::layout;

/// A network interface of the CNI paper: `{ kind = "cni512q", bus = "io" }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Which one.
    #[serde(deserialize_with = "kind_by_name")]
    kind: layout::Kind,
    /// Where it is.
    bus: Bus,
    /// Processors' caches take in what it writes back.
    #[serde(default)]
    snarfing: bool,
}

/// Where a network interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Bus {
    Cache,
    Memory,
    Io,
}

impl Interface {
    /// The interface itself.
    pub fn interface(self) -> cni::Interface {
        let attachment = match self.bus {
            Bus::Cache => Attachment::CacheBus,
            Bus::Memory => Attachment::MemoryBus,
            Bus::Io => Attachment::IoBus,
        };
        cni::Interface { kind: self.kind, attachment, snarfing: self.snarfing }
    }
}

fn kind_by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<layout::Kind, D::Error> {
    let name = String::deserialize(deserializer)?;
    let names = layout::Kind::ALL.map(layout::Kind::name).join(", ");
    let found = layout::Kind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| {
        D::Error::custom(format!("{name:?}: there is no such interface; choose one of {names}"))
    })
}
