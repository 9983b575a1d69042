//! A port that is no program, as an operator writes it: `--port KIND:NAME,...`, or a table of the file.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{bail, ensure};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use super::policy::{PolicyConfig, checked};
use crate::ports::PortOptions;

/// A port that is no program, and what it may do.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "PortTable")]
pub struct PortConfig {
    /// What it is.
    pub options: PortOptions,
    /// What it may do.
    pub policy: PolicyConfig,
}

/// A port that is no program.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PortTable {
    /// What kind of port: tap, xdp or pcap.
    kind: String,
    /// Its name, as its kind has it: of a network interface, say.
    name: String,
    /// What its kind lets one choose, as --port: numbers, words, true and false for on and off; lists for what can be said several times.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    options: BTreeMap<String, toml::Value>,
    /// What it may do.
    #[serde(default, deserialize_with = "checked")]
    policy: PolicyConfig,
}

impl PortConfig {
    /// `--port`.
    ///
    /// # Errors
    /// What is wrong, on one line: of an error with causes, clap would print the first.
    pub fn from_flag(text: &str) -> Result<PortConfig, String> {
        let options = PortOptions::from_str(text).map_err(|e| format!("{e:#}"))?;
        Ok(PortConfig { options, policy: PolicyConfig::default() })
    }
}

impl TryFrom<PortTable> for PortConfig {
    type Error = String;

    fn try_from(table: PortTable) -> Result<PortConfig, String> {
        let PortTable { kind, name, options, policy } = table;
        let flag = as_flag(&kind, &name, &options).map_err(|e| format!("{e:#}"))?;
        let options = PortOptions::from_str(&flag).map_err(|e| format!("port {kind}:{name}: {e:#}"))?;
        Ok(PortConfig { options, policy })
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
    ensure!(!kind.contains([':', ',']), "kind = {kind:?} is no kind of port: write tap");
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
