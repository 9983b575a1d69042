//! Values of the configuration that are more than numbers and words: each says what is wrong with it, and what would be right.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::control::users::uid_of;
use crate::sandbox::SandboxOptions;
use crate::switch::policy::{Prefix, VLANS};
use crate::switch::{Mac, Station};

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u64")]
pub struct Within<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Within<MIN, MAX> {
    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> TryFrom<u64> for Within<MIN, MAX> {
    type Error = String;

    fn try_from(n: u64) -> Result<Self, String> {
        let wrong = || match MAX {
            u64::MAX => format!("{n} is not in {MIN}.."),
            _ => format!("{n} is not in {MIN}..={MAX}"),
        };
        (MIN..=MAX).contains(&n).then_some(Within(n)).ok_or_else(wrong)
    }
}

impl<const MIN: u64, const MAX: u64> FromStr for Within<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<u64>().map_err(|e| e.to_string())?.try_into()
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Within<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Within{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match MAX {
            u64::MAX => json_schema!({ "type": "integer", "minimum": MIN }),
            _ => json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX }),
        }
    }
}

/// The number of a VLAN.
pub type VlanId = Within<{ *VLANS.start() as u64 }, { *VLANS.end() as u64 }>;

/// The VLANs of a trunk: all of them, or those in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Trunk {
    /// Each VLAN that there can be.
    All(All),
    /// These.
    These(Vec<VlanId>),
}

/// `"all"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum All {
    /// All of them.
    All,
}

impl<'de> Deserialize<'de> for Trunk {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Trunk, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Trunk;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\" or a list of VLANs, such as [10, 20]")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Trunk, E> {
                let unknown = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
                (text == "all").then_some(Trunk::All(All::All)).ok_or_else(unknown)
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, list: A) -> Result<Trunk, A::Error> {
                Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(list)).map(Trunk::These)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A text that stands for something: how it is read, and an example.
pub trait Written: Sized {
    /// What the schema calls it.
    const NAME: &'static str;
    /// A regular expression that it matches, roughly.
    const PATTERN: &'static str;

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    fn read(text: &str) -> anyhow::Result<Self>;

    /// Writes it, so that it is read as the same.
    fn write(&self) -> String;
}

/// A value that is written as a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<'de, T: Written> Deserialize<'de> for Text<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Text<T>, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        T::read(&text).map(Text).map_err(|e| serde::de::Error::custom(format!("{e:#}")))
    }
}

impl<T: Written> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.write())
    }
}

impl<T: Written> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": T::PATTERN })
    }
}

impl<T: Written> FromStr for Text<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Text<T>, String> {
        T::read(text).map(Text).map_err(|e| format!("{e:#}"))
    }
}

impl Written for Mac {
    const NAME: &'static str = "Mac";
    const PATTERN: &'static str = "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$";

    fn read(text: &str) -> anyhow::Result<Mac> {
        let byte = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes: Option<[u8; 6]> = bytes.and_then(|bytes| bytes.try_into().ok());
        let wrong = || format!("{text:?} is no MAC address, such as \"02:00:00:00:00:01\"");
        let mac = Mac::new(bytes.with_context(wrong)?);
        ensure!(
            mac.is_station(),
            "{text:?} is the address of a group or of nobody: nobody may speak from it"
        );
        Ok(mac)
    }

    fn write(&self) -> String {
        self.bytes().map(|byte| format!("{byte:02x}")).join(":")
    }
}

/// An address at a port, in a VLAN: `"02:00:00:00:00:01"`, `"02:00:00:00:00:01@10"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    mac: Mac,
    vlan: Option<u16>,
}

impl At {
    /// The address, in the VLAN `untagged` if it names none.
    pub fn station(self, untagged: u16) -> Station {
        Station::new(self.mac, self.vlan.unwrap_or(untagged))
    }

    /// The VLAN that it names.
    pub fn vlan(self) -> Option<u16> {
        self.vlan
    }
}

impl Written for At {
    const NAME: &'static str = "Station";
    const PATTERN: &'static str = "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(@[0-9]+)?$";

    fn read(text: &str) -> anyhow::Result<At> {
        let Some((mac, vlan)) = text.split_once('@') else {
            return Ok(At { mac: Mac::read(text)?, vlan: None });
        };
        let number = vlan.parse().ok().filter(|vlan| VLANS.contains(vlan));
        let wrong = || format!("{vlan:?} is no VLAN of {} to {}", VLANS.start(), VLANS.end());
        Ok(At { mac: Mac::read(mac)?, vlan: Some(number.with_context(wrong)?) })
    }

    fn write(&self) -> String {
        let mac = self.mac.write();
        self.vlan.map_or_else(|| mac.clone(), |vlan| format!("{mac}@{vlan}"))
    }
}

impl Written for Prefix {
    const NAME: &'static str = "Prefix";
    const PATTERN: &'static str = "^[0-9A-Fa-f.:]+(/[0-9]+)?$";

    fn read(text: &str) -> anyhow::Result<Prefix> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let wrong = || format!("{text:?} is no IP address or network, such as \"10.0.0.1\" or \"fd00::/64\"");
        let address: IpAddr = address.parse().ok().with_context(wrong)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = len.map_or(Some(most), |len| len.parse().ok()).with_context(wrong)?;
        Prefix::new(address, len).with_context(|| format!("{text:?}: a prefix has {most} bits at most"))
    }

    fn write(&self) -> String {
        let (address, len) = self.parts();
        format!("{address}/{len}")
    }
}

/// A user of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User(pub u32);

impl Written for User {
    const NAME: &'static str = "User";
    const PATTERN: &'static str = ".+";

    fn read(text: &str) -> anyhow::Result<User> {
        if text.is_empty() {
            bail!("the user has no name; give one, or a uid");
        }
        uid_of(text).map(User)
    }

    fn write(&self) -> String {
        self.0.to_string()
    }
}

/// Permissions of a file, as chmod(1) takes them in octal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl Written for FileMode {
    const NAME: &'static str = "FileMode";
    const PATTERN: &'static str = "^0?[0-7]{3}$";

    fn read(text: &str) -> anyhow::Result<FileMode> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| text.len() >= 3 && *mode <= 0o777);
        mode.map(FileMode).with_context(|| format!("{text:?} are no permissions, such as \"0660\""))
    }

    fn write(&self) -> String {
        format!("{:04o}", self.0)
    }
}

impl Written for SandboxOptions {
    const NAME: &'static str = "Sandbox";
    const PATTERN: &'static str = "^(on|require|off)(,(capabilities|landlock|seccomp)=off)*$";

    fn read(text: &str) -> anyhow::Result<SandboxOptions> {
        text.parse()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn why<T: Written + fmt::Debug>(text: &str) -> String {
        format!("{:#}", T::read(text).unwrap_err())
    }

    #[test]
    fn numbers_have_a_range() {
        type Few = Within<1, 10>;
        assert_eq!(("1".parse::<Few>().unwrap().get(), Few::try_from(10).unwrap().get()), (1, 10));
        assert_eq!(Few::try_from(0).unwrap_err(), "0 is not in 1..=10");
        assert_eq!(Within::<1, { u64::MAX }>::try_from(0).unwrap_err(), "0 is not in 1..");
        assert!("many".parse::<Few>().is_err() && "18446744073709551616".parse::<Few>().is_err());
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        fn same<T: Written + PartialEq + fmt::Debug>(text: &str, written: &str) {
            let value = T::read(text).unwrap();
            assert_eq!(value.write(), written);
            assert_eq!(T::read(written).unwrap(), value);
        }
        same::<Mac>("02:00:00:00:0A:fE", "02:00:00:00:0a:fe");
        same::<At>("02:00:00:00:00:01@10", "02:00:00:00:00:01@10");
        same::<At>("02:00:00:00:00:01", "02:00:00:00:00:01");
        same::<Prefix>("10.0.0.5", "10.0.0.5/32");
        same::<Prefix>("10.1.2.3/16", "10.1.0.0/16");
        same::<Prefix>("::ffff:10.0.0.0/104", "10.0.0.0/8");
        same::<Prefix>("::ffff:0:0/95", "::fffe:0:0/95");
        same::<Prefix>("0.0.0.0/0", "0.0.0.0/0");
        same::<Prefix>("::/0", "::/0");
        same::<Prefix>("fd00::1", "fd00::1/128");
        same::<User>("root", "0");
        same::<FileMode>("660", "0660");
        same::<SandboxOptions>("on", "on");
        same::<SandboxOptions>("off", "on,capabilities=off,landlock=off,seccomp=off");
        same::<SandboxOptions>(
            "require,seccomp=off,capabilities=off",
            "require,capabilities=off,seccomp=off",
        );
    }

    #[test]
    fn addresses() {
        assert_eq!(Mac::read("02:00:00:00:00:fE").unwrap(), Mac::new([2, 0, 0, 0, 0, 0xfe]));
        for text in ["02:00:00:00:00", "02:00:00:00:00:1", "02-00-00-00-00-01", "", "2:0:0:0:0:0:1"] {
            assert!(why::<Mac>(text).contains("such as"), "{text}");
        }
        assert!(
            why::<Mac>("ff:ff:ff:ff:ff:ff").contains("group")
                && why::<Mac>("00:00:00:00:00:00").contains("nobody")
        );
        let mac = Mac::new([2, 0, 0, 0, 0, 1]);
        let at = |text| At::read(text).unwrap().station(7);
        assert_eq!(at("02:00:00:00:00:01"), Station::new(mac, 7));
        assert_eq!(at("02:00:00:00:00:01@4094"), Station::new(mac, 4094));
        assert!(
            why::<At>("02:00:00:00:00:01@4095").contains("1 to 4094") && why::<At>("1@2").contains("such as")
        );
    }

    #[test]
    fn networks_and_users() {
        let prefix = |address: &str, len| Prefix::new(address.parse().unwrap(), len).unwrap();
        assert_eq!(Prefix::read("10.1.2.3").unwrap(), prefix("10.1.2.3", 32));
        assert_eq!(Prefix::read("fd00::/8").unwrap(), prefix("fd00::", 8));
        assert!(
            why::<Prefix>("10.0.0.0/33").contains("32 bits") && why::<Prefix>("host/24").contains("such as")
        );
        assert!(why::<Prefix>("10.0.0.0/x").contains("such as") && why::<Prefix>("").contains("such as"));
        assert_eq!(User::read("1234").unwrap(), User(1234));
        assert!(
            why::<User>("nobody-has-this-name").contains("no user") && why::<User>("").contains("no name")
        );
    }

    #[test]
    fn permissions() {
        for (text, mode) in [("0660", 0o660), ("660", 0o660), ("0777", 0o777), ("000", 0)] {
            assert_eq!(FileMode::read(text).unwrap(), FileMode(mode));
        }
        for text in ["", "66", "0888", "rw-rw----", "1777", "-660"] {
            assert!(why::<FileMode>(text).contains("such as \"0660\""), "{text}");
        }
    }
}
