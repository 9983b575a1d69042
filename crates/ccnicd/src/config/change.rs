//! The configuration that a daemon runs with, and what it is after a change.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use ccnic_control::messages::{Change, PortAdd, PortDel, PortSet};
use serde_json::Value as Json;

use super::{Config, PortConfig};

/// The configuration of a daemon that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    /// They come before what any file says.
    flags: Config,
    now: Config,
}

impl Running {
    /// Of flags and a file, if there is one.
    pub fn new(flags: Config, file: Option<Config>) -> Running {
        let now = flags.clone().or(file.unwrap_or_default());
        Running { flags, now }
    }

    /// As it is now.
    pub fn now(&self) -> &Config {
        &self.now
    }

    /// As it is after a change, if that is possible while the daemon runs. Opens and changes nothing.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn after(&self, change: &Change) -> anyhow::Result<Running> {
        let now = match change {
            Change::File { name, text, .. } => {
                self.flags.clone().or(Config::parse(Path::new(name), text.clone())?)
            }
            Change::PortAdd(add) => self.with_port(add)?,
            Change::PortDel(del) => self.without_port(del)?,
            Change::PortSet(set) => self.with_other_port(set)?,
        };
        self.now.check_reload(&now)?;
        Ok(Running { now, flags: self.flags.clone() })
    }

    fn with_port(&self, add: &PortAdd) -> anyhow::Result<Config> {
        let PortAdd { port, set, .. } = add;
        let port = PortConfig::from_flag(port).map_err(|e| anyhow::anyhow!("port {port}: {e}"))?;
        let port = if set.is_empty() { port } else { port.with(&values(set)?)? };
        let there = self.now.ports.iter().any(|other| other.name() == port.name());
        ensure!(!there, "port {} is given twice: there is one; change it by `ccnic port set`", port.name());
        let mut now = self.now.clone();
        now.ports.push(port);
        Ok(now)
    }

    fn without_port(&self, del: &PortDel) -> anyhow::Result<Config> {
        let at = self.find(&del.name)?;
        let mut now = self.now.clone();
        now.ports.remove(at);
        Ok(now)
    }

    fn with_other_port(&self, set: &PortSet) -> anyhow::Result<Config> {
        let PortSet { name, set, .. } = set;
        let at = self.find(name)?;
        ensure!(
            !set.is_empty(),
            "nothing is said of port {name}: write KEY=VALUE, or KEY= to take back what was said"
        );
        let mut now = self.now.clone();
        let port = now.ports.get_mut(at).context("the port has gone")?;
        *port = port.with(&values(set)?)?;
        Ok(now)
    }

    /// The place of a port.
    fn find(&self, name: &str) -> anyhow::Result<usize> {
        let names: Vec<_> = self.now.ports.iter().map(PortConfig::name).collect();
        let at = names.iter().position(|port| port == name);
        let there = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        at.with_context(|| format!("there is no port {name:?}: name one of those there are ({there})"))
    }
}

/// Values of keys in JSON as those of a file.
fn values(set: &BTreeMap<String, Json>) -> anyhow::Result<BTreeMap<String, Option<toml::Value>>> {
    let value = |(key, value): (&String, &Json)| {
        let value = match value {
            Json::Null => None,
            value => Some(value_of(value).with_context(|| format!("{key} = {value}"))?),
        };
        Ok((key.clone(), value))
    };
    set.iter().map(value).collect()
}

fn value_of(json: &Json) -> anyhow::Result<toml::Value> {
    Ok(match json {
        Json::Bool(yes) => (*yes).into(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(number)) => number.into(),
            (None, None) => bail!("the number is too large"),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(list) => list.iter().map(value_of).collect::<anyhow::Result<Vec<_>>>()?.into(),
        Json::Object(table) => {
            let pair = |(key, value): (&String, &Json)| anyhow::Ok((key.clone(), value_of(value)?));
            table.iter().map(pair).collect::<anyhow::Result<toml::Table>>()?.into()
        }
        Json::Null => bail!("null is for a whole key: leave it out here"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str =
        "wire = 'switch'\n[[port]]\nkind = 'tap'\nname = 'up'\n[[port]]\nkind = 'tap'\nname = 'mon'\n";

    fn running() -> Running {
        let flags =
            Config { ports: vec![PortConfig::from_flag("pcap:record=a").unwrap()], ..Config::default() };
        Running::new(flags, Some(Config::parse(Path::new("nic.toml"), FILE.to_owned()).unwrap()))
    }

    fn file(text: &str) -> Change {
        Change::File { name: "other.toml".into(), text: text.into(), check: false }
    }

    fn set(name: &str, set: Json) -> Change {
        let set = set.as_object().unwrap().clone().into_iter().collect();
        Change::PortSet(PortSet { name: name.into(), set, check: false })
    }

    /// What a change comes to.
    #[track_caller]
    fn after(running: &Running, change: &Change) -> Running {
        let after = running.after(change).unwrap();
        after.now().settle().unwrap();
        after
    }

    #[track_caller]
    fn refused(change: &Change, expected: &[&str]) {
        let why = running().after(change).and_then(|after| after.now().settle());
        let why = format!("{:#}", why.unwrap_err());
        for expected in expected {
            assert!(why.contains(expected), "{change:?}: {why}\ndoes not say {expected:?}");
        }
    }

    fn names(running: &Running) -> Vec<String> {
        running.now().ports.iter().map(PortConfig::name).collect()
    }

    #[test]
    fn ports_come_and_go_and_a_file_says_which_there_are() {
        let add = PortAdd {
            port: "tap:new,mtu=9000".into(),
            set: BTreeMap::from([("vlan".into(), json!(10)), ("mirror.to".into(), json!("tap:mon"))]),
            check: false,
        };
        let more = after(&running(), &Change::PortAdd(add));
        assert_eq!(names(&more), ["tap:up", "tap:mon", "pcap:record=a", "tap:new"]);
        let options = more.now().settle().unwrap();
        assert_eq!(options.policies.of_port(3).mirror.unwrap().to, (1 << 32) + 1);
        let less = after(&more, &Change::PortDel(PortDel { name: "tap:up".into(), check: false }));
        assert_eq!(names(&less), ["tap:mon", "pcap:record=a", "tap:new"]);
        let file = after(&less, &file(FILE));
        assert_eq!(file.now().ports, running().now().ports, "and those of flags");
    }

    #[test]
    fn keys_of_options_and_policies_are_set_and_taken_back() {
        let set = |running: &Running, values: Json| after(running, &set("tap:up", values));
        let one = set(
            &running(),
            json!({ "mtu": 1400, "trunk": [1, 2], "native": 2, "send.bits": 1000, "send.burst-ms": 5, "macs": ["02:00:00:00:00:01"] }),
        );
        let text = one.now().to_toml().unwrap();
        for expected in
            ["mtu = 1400", "trunk = [1, 2]", "native = 2", "bits = 1000", "burst-ms = 5", "02:00:00:00:00:01"]
        {
            assert!(text.contains(expected), "{text}");
        }
        let two = set(&one, json!({ "trunk": null, "native": null, "vlan": 7, "send": { "packets": 9 } }));
        let text = two.now().to_toml().unwrap();
        assert!(text.contains("vlan = 7") && text.contains("packets = 9"), "{text}");
        assert!(!text.contains("trunk") && !text.contains("bits"), "{text}");
        let back = set(&two, json!({ "mtu": null, "vlan": null, "send": null, "macs": null }));
        assert_eq!(back.now().ports, running().now().ports);
    }

    #[test]
    fn what_is_wrong_is_said_with_a_remedy() {
        refused(&file("wire = 'switch'\nmac-table = 7\n"), &["mac-table cannot change"]);
        refused(&file("wire = 'switch'\nvlan = 7\n"), &["other.toml", "line 2", "unknown field `vlan`"]);
        let add = |port: &str, key: &str, value: Json| {
            Change::PortAdd(PortAdd {
                port: port.into(),
                set: BTreeMap::from([(key.into(), value)]),
                check: false,
            })
        };
        refused(&add("tap:new,speed=1", "vlan", json!(1)), &["port tap:new,speed=1", "the keys are mtu"]);
        refused(&add("tap:new", "vlan", json!(4095)), &["port tap:new", "4095 is not in 1..=4094"]);
        refused(&add("tap:up", "vlan", json!(1)), &["tap:up is given twice"]);
        refused(&add("tap:new", "vlan", json!([null])), &["vlan = [null]", "null is for a whole key"]);
        refused(&add("tap:new", "mirror.to", json!("tap:x")), &["mirror.to = \"tap:x\" is no port"]);
        let none = Change::PortDel(PortDel { name: "up".into(), check: false });
        refused(&none, &["no port \"up\"", "tap:up, tap:mon, pcap:record=a"]);
        refused(&set("tap:up", json!({})), &["nothing is said of port tap:up"]);
        refused(
            &set("tap:up", json!({ "speed": 1 })),
            &["port tap:up: there is no key speed", "the keys are mtu"],
        );
        refused(&set("tap:up", json!({ "speed": 1 })), &["offload, netns, and of its policy vlan, trunk"]);
        refused(&set("tap:up", json!({ "mtu": 1.5 })), &["mtu = 1.5 is neither"]);
        refused(&set("tap:up", json!({ "mtu.max": 1 })), &["port tap:up", "mtu"]);
        let why = running().after(&set("tap:up", json!({ "mtu": 1 }))).unwrap_err().to_string();
        assert!(why.starts_with("port tap:up: mtu=1: "), "the port is named once: {why}");
        refused(&set("tap:up", json!({ "vlan": 1, "vlan.x": 1 })), &["vlan has no keys of its own"]);
        refused(&set("tap:up", json!({ "send": {} })), &["send limits nothing"]);
    }
}
