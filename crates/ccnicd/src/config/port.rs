//! A port that is no program, as an operator writes it: `--port KIND:NAME,...`, or a table of the file.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::policy::{PolicyConfig, checked};
use crate::ports::PortOptions;

/// A port that is no program, and what it may do.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "PortTable", into = "PortTable")]
pub struct PortConfig {
    /// As the operator has written it.
    table: PortTable,
    /// What it is.
    pub options: PortOptions,
}

/// A port that is no program.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PortTable {
    /// What kind of port: tap, xdp or pcap (docs/ports.md).
    kind: String,
    /// Its name, as its kind has it: of a network interface, or a file.
    name: String,
    /// What its kind lets one choose, as --port: numbers, words, true and false for on and off; lists for what can be said several times.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    options: BTreeMap<String, toml::Value>,
    /// What it may do.
    #[serde(default, deserialize_with = "checked", skip_serializing_if = "PolicyConfig::is_empty")]
    policy: PolicyConfig,
}

impl PortConfig {
    /// `--port`.
    ///
    /// # Errors
    /// What is wrong, on one line: of an error with causes, clap would print the first.
    pub fn from_flag(text: &str) -> Result<PortConfig, String> {
        let options = PortOptions::from_str(text).map_err(|e| format!("{e:#}"))?;
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (name, rest) = rest.split_once(',').map_or((rest, None), |(name, rest)| (name, Some(rest)));
        let mut table = PortTable {
            kind: kind.to_owned(),
            name: name.to_owned(),
            options: BTreeMap::new(),
            policy: PolicyConfig::default(),
        };
        for (key, text) in rest.into_iter().flat_map(|rest| rest.split(',')).filter_map(|p| p.split_once('='))
        {
            let value = value(text);
            match table.options.get_mut(key) {
                None => drop(table.options.insert(key.to_owned(), value)),
                Some(toml::Value::Array(values)) => values.push(value),
                Some(one) => *one = toml::Value::Array(vec![one.clone(), value]),
            }
        }
        Ok(PortConfig { table, options })
    }

    /// What it is called: `KIND:NAME`.
    pub fn name(&self) -> String {
        self.options.name()
    }

    /// What it may do.
    pub fn policy(&self) -> &PolicyConfig {
        &self.table.policy
    }

    /// The same port with other values of some keys, those of its options or of its policy: `mtu`, `vlan`, `send.bits`. `None`: what is said
    /// of the key goes.
    ///
    /// # Errors
    /// What is wrong with which key, and what would be right.
    pub fn with(&self, values: &BTreeMap<String, Option<toml::Value>>) -> anyhow::Result<PortConfig> {
        let mut table = toml::Table::try_from(&self.table)?;
        let (name, options) = (self.name(), self.options.keys());
        for (key, value) in values {
            let first = key.split('.').next().unwrap_or_default();
            let of_policy = POLICY_KEYS.contains(&first);
            ensure!(
                of_policy || options.split(", ").any(|option| option == first),
                "port {name}: there is no key {key}; the keys are {options}, and of its policy {}",
                POLICY_KEYS.join(", ")
            );
            set(&mut table, if of_policy { "policy" } else { "options" }, key, value.as_ref())?;
        }
        let text = toml::to_string(&table)?;
        let wrong = |e: toml::de::Error| {
            let port = format!("port {name}: "); // as what is wrong with its options begins
            anyhow::anyhow!("{port}{}", e.message().trim_start_matches(&port))
        };
        toml::from_str(&text).map_err(wrong)
    }
}

/// The keys of a policy.
const POLICY_KEYS: [&str; 11] = [
    "vlan",
    "trunk",
    "native",
    "macs",
    "addresses",
    "isolated",
    "storm",
    "send",
    "receive",
    "static",
    "mirror",
];

/// Sets a key of a part of a port's table, or one of a table within (`send.bits`).
fn set(port: &mut toml::Table, part: &str, key: &str, value: Option<&toml::Value>) -> anyhow::Result<()> {
    let mut within = port;
    let mut keys: Vec<&str> = std::iter::once(part).chain(key.split('.')).collect();
    let last = keys.pop().unwrap_or_default();
    for outer in keys {
        let inner = within.entry(outer).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        within = inner.as_table_mut().with_context(|| format!("{key}: {outer} has no keys of its own"))?;
    }
    match value {
        Some(value) => drop(within.insert(last.to_owned(), value.clone())),
        None => drop(within.remove(last)),
    }
    Ok(())
}

/// What a value of `--port` is in a file.
fn value(text: &str) -> toml::Value {
    match (text, text.parse::<i64>()) {
        ("on", _) => true.into(),
        ("off", _) => false.into(),
        (_, Ok(number)) if number.to_string() == text => number.into(),
        _ => text.into(),
    }
}

impl TryFrom<PortTable> for PortConfig {
    type Error = String;

    fn try_from(table: PortTable) -> Result<PortConfig, String> {
        let PortTable { kind, name, options, .. } = &table;
        let flag = as_flag(kind, name, options).map_err(|e| format!("{e:#}"))?;
        let options = PortOptions::from_str(&flag).map_err(|e| format!("port {kind}:{name}: {e:#}"))?;
        Ok(PortConfig { table, options })
    }
}

impl From<PortConfig> for PortTable {
    fn from(port: PortConfig) -> PortTable {
        port.table
    }
}

impl JsonSchema for PortConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Port".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        PortTable::json_schema(generator)
    }
}

/// The same port as `--port` has it: kinds of ports have one parser for their options.
fn as_flag(kind: &str, name: &str, options: &BTreeMap<String, toml::Value>) -> anyhow::Result<String> {
    ensure!(!kind.contains([':', ',']), "kind = {kind:?} is no kind of port: write tap, xdp or pcap");
    ensure!(!name.contains(','), "name = {name:?} has a comma in it: options belong into options");
    let mut flag = format!("{kind}:{name}");
    for (key, value) in options {
        let values = match value {
            toml::Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let text = match value {
                toml::Value::String(text) if text.contains(',') => {
                    bail!("{key} = {text:?} has a comma in it: of several, make a list")
                }
                toml::Value::String(text) if key != "record" && text.parse::<i64>().is_ok() => {
                    bail!("{key} = {text:?} is a text, and a number is wanted: write {key} = {text}")
                }
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(true) => "on".to_owned(),
                toml::Value::Boolean(false) => "off".to_owned(),
                other => bail!("{key} = {other} is neither a number nor a text nor true or false"),
            };
            flag.push_str(&format!(",{key}={text}"));
        }
    }
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_same_port_as_a_flag() {
        let table = "kind = 'tap'\nname = 'up0'\n[options]\nmtu = 9000\naddress = ['10.0.0.1/24', 'fd00::1/64']\noffload = false\n\
                     mac = '02:00:00:00:00:01'";
        let port: PortConfig = toml::from_str(table).unwrap();
        let flag =
            "tap:up0,mtu=9000,address=10.0.0.1/24,address=fd00::1/64,offload=off,mac=02:00:00:00:00:01";
        assert_eq!(port, PortConfig::from_flag(flag).unwrap());
        for (table, expected) in [
            ("kind = 'tap'\nname = 'up0,mtu=9000'", "comma"),
            ("kind = 'tap'\nname = 'up0'\noptions = { mtu = '9000,queues=2' }", "make a list"),
            ("kind = 'tap'\nname = 'up0'\noptions = { mtu = 1.5 }", "mtu = 1.5 is neither"),
            ("kind = 'tap'\nname = 'up0'\noptions = { mtu = '9000' }", "write mtu = 9000"),
            ("kind = 'tap'\nname = 'up0'\noptions = { mtu = 1 }", "port tap:up0: mtu=1"),
            ("kind = 'tap'\nname = 'up0'\noptions = { speed = 1 }", "the keys are"),
            ("kind = 'tap'\nname = 'up0'\noption = { }", "unknown field `option`, expected one of"),
            ("kind = 'tap:up0'\nname = ''", "write tap"),
            ("name = 'up0'", "missing field `kind`"),
        ] {
            let why = toml::from_str::<PortConfig>(table).unwrap_err().to_string();
            assert!(why.contains(expected), "{table}: {why}");
        }
    }
}
