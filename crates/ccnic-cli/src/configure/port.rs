//! `ccnic port`: the ports of a NIC that runs which are no programs.

use std::collections::BTreeMap;

use anyhow::Context;
use ccnic_control::messages::{PortAdd, PortDel, PortSet, Request, Status};
use ccnic_control::printable;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::NicArgs;
use crate::print::{self, Column, Table};

/// `port`'s commands. What they change is the running configuration, not a file: `ccnic config` prints it
#[derive(Debug, Subcommand)]
pub enum PortCommand {
    /// Show the ports that are no programs, with their options and policies
    List(ListArgs),
    /// Open a port, as ccnicd --port does
    Add(AddArgs),
    /// Close a port, once what has come from it has been served
    Del(DelArgs),
    /// Change keys of a port: its mtu (TAP), and all of its policy (docs/configuration.md)
    Set(SetArgs),
}

/// Options of `port list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    nic: NicArgs,
}

/// Options of `port add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The port, as ccnicd --port has it, such as tap:uplink0,mtu=9000
    #[arg(value_name = "KIND:NAME[,...]")]
    port: String,
    /// Its policy: keys of the configuration file with their values, such as vlan=10 or send.bits=1000000
    #[arg(value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, Value)>,
    /// Say what would change, and change nothing
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    nic: NicArgs,
}

/// Options of `port del`.
#[derive(Debug, Args)]
pub struct DelArgs {
    /// The port, as `ccnic port list` has it, such as tap:uplink0
    #[arg(value_name = "KIND:NAME")]
    name: String,
    /// Say what would change, and change nothing
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    nic: NicArgs,
}

/// Options of `port set`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The port, as `ccnic port list` has it, such as tap:uplink0
    #[arg(value_name = "KIND:NAME")]
    name: String,
    /// Keys with their values as in the configuration file, such as mtu=9000, trunk=all, macs='["02:00:00:00:00:01"]'; KEY= takes back what is
    /// said of a key
    #[arg(value_name = "KEY=VALUE", value_parser = key_value, required = true)]
    set: Vec<(String, Value)>,
    /// Say what would change, and change nothing
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    nic: NicArgs,
}

/// `ccnic port`.
pub fn port(command: &PortCommand) -> anyhow::Result<()> {
    match command {
        PortCommand::List(args) => list(&args.nic),
        PortCommand::Add(AddArgs { port, set, check, nic }) => {
            let add = PortAdd { port: port.clone(), set: map(set)?, check: *check };
            nic.print(&nic.open()?.change(&Request::PortAdd(add))?, *check)
        }
        PortCommand::Del(DelArgs { name, check, nic }) => {
            let del = PortDel { name: name.clone(), check: *check };
            nic.print(&nic.open()?.change(&Request::PortDel(del))?, *check)
        }
        PortCommand::Set(SetArgs { name, set, check, nic }) => {
            let set = PortSet { name: name.clone(), set: map(set)?, check: *check };
            nic.print(&nic.open()?.change(&Request::PortSet(set))?, *check)
        }
    }
}

/// `KEY=VALUE`, the value as TOML has it or else a text; `KEY=`.
fn key_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, or KEY= to take back what is said")?;
    if value.is_empty() {
        return Ok((key.to_owned(), Value::Null));
    }
    let toml = toml::from_str::<toml::Table>(&format!("v = {value}")).ok();
    let toml = toml.filter(|table| table.len() == 1).and_then(|mut table| table.remove("v"));
    // A date or a number that JSON lacks is no value of a configuration, but may be a name.
    let value = match toml {
        Some(toml::Value::Float(_) | toml::Value::Datetime(_)) | None => value.into(),
        Some(toml) => serde_json::to_value(toml).map_err(|e| e.to_string())?,
    };
    Ok((key.to_owned(), value))
}

fn map(set: &[(String, Value)]) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut map = BTreeMap::new();
    for (key, value) in set {
        anyhow::ensure!(map.insert(key.clone(), value.clone()).is_none(), "{key} is given twice");
    }
    Ok(map)
}

/// A port, as `--json` prints it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    /// `KIND:NAME`.
    name: String,
    /// Its `id` in the status; none when it has just gone.
    id: Option<u64>,
    /// How it runs: `tap`, `xdp-native` ...
    design: Option<String>,
    queues: usize,
    /// As in the configuration file.
    options: Value,
    policy: Value,
}

fn list(nic: &NicArgs) -> anyhow::Result<()> {
    let connection = nic.open()?;
    let rows = rows(&connection.config()?, &connection.status()?)?;
    print::result(nic.json, &rows, || table(&rows).text())
}

/// The ports of a configuration, with what the status says of them.
fn rows(config: &str, status: &Status) -> anyhow::Result<Vec<Row>> {
    let config: toml::Table = toml::from_str(config).context("the NIC's configuration is no TOML")?;
    let row = |port: &toml::Value| {
        let text = |key: &str| port.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        let name = format!("{}:{}", text("kind"), text("name"));
        let there = status.programs.iter().find(|there| there.id >= FIRST_PORT && there.name == name);
        let part =
            |key: &str| port.get(key).map_or(Ok(Value::Object(serde_json::Map::new())), serde_json::to_value);
        Ok(Row {
            id: there.map(|there| there.id),
            design: there.map(|there| there.design.clone()),
            queues: there.map_or(0, |there| there.queues.len()),
            options: part("options")?,
            policy: part("policy")?,
            name,
        })
    };
    config.get("port").and_then(toml::Value::as_array).into_iter().flatten().map(row).collect()
}

/// Programs have smaller ids: one may call itself as a port is called.
const FIRST_PORT: u64 = 1 << 32;

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("port"),
        Column::text("runs as"),
        Column::number("queues"),
        Column::prose("options and policy"),
    ];
    let mut table = Table::new(format!("Ports: {}", rows.len()), columns);
    for row in rows {
        let said: Vec<String> = [&row.options, &row.policy].into_iter().flat_map(said).collect();
        let said = if said.is_empty() { "-".to_owned() } else { printable(&said.join(", ")) };
        let design = row.design.clone().unwrap_or_else(|| "has gone".to_owned());
        table.row([printable(&row.name), design, row.queues.to_string(), said]);
    }
    table.note("Of the running configuration, which `ccnic config` prints in whole. Policies also have what [defaults] says.");
    table
}

/// The keys of a table with their values.
fn said(table: &Value) -> Vec<String> {
    let pair = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}={text}"),
        value => format!("{key}={value}"),
    };
    table.as_object().into_iter().flatten().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic_control::messages::ProgramStatus;
    use serde_json::json;

    #[test]
    fn values_are_tomls_or_texts() {
        for (text, value) in [
            ("mtu=9000", json!(9000)),
            ("isolated=true", json!(true)),
            ("trunk=all", json!("all")),
            ("trunk=[1, 2]", json!([1, 2])),
            ("macs=['02:00:00:00:00:01']", json!(["02:00:00:00:00:01"])),
            ("send={ bits = 1000 }", json!({ "bits": 1000 })),
            ("mirror.to=tap:mon", json!("tap:mon")),
            ("vlan=", Value::Null),
            ("x=1.5", json!("1.5")),
            ("x=nan", json!("nan")),
            ("x=12:00:00", json!("12:00:00")),
            ("x=1\ny=2", json!("1\ny=2")),
            ("x==", json!("=")),
        ] {
            assert_eq!(key_value(text).unwrap().1, value, "{text}");
        }
        assert!(key_value("mtu").unwrap_err().contains("KEY=VALUE"));
        let twice = [("a".to_owned(), json!(1)), ("a".to_owned(), json!(2))];
        assert!(map(&twice).unwrap_err().to_string().contains("a is given twice"));
    }

    #[test]
    fn ports_have_what_configuration_and_status_say() {
        let program = |id, name: &str| ProgramStatus {
            id,
            name: name.to_owned(),
            pid: 1,
            design: "tap".to_owned(),
            rss: None,
            latency: None,
            memory: None,
            queues: Vec::new(),
        };
        let status = Status {
            version: "1".to_owned(),
            pid: 1,
            uptime_s: 1.0,
            wire: "switch".to_owned(),
            cores: vec![1],
            programs: vec![program(1, "tap:a"), program(FIRST_PORT, "tap:a")],
            ..Status::default()
        };
        let config = "wire = 'switch'\n[[port]]\nkind = 'tap'\nname = 'a'\noptions = { mtu = 9000 }\npolicy = { trunk = 'all' }\n\
                      [[port]]\nkind = 'pcap'\nname = \"b\\u001b\"\n";
        let rows = rows(config, &status).unwrap();
        assert_eq!(
            (rows[0].id, rows[1].id, &rows[0].policy["trunk"]),
            (Some(FIRST_PORT), None, &json!("all"))
        );
        let text = table(&rows).in_width(80);
        assert!(text.contains("mtu=9000, trunk=all") && text.contains("pcap:b\\u{1b}"), "{text}");
        assert!(super::rows("", &status).unwrap().is_empty());
    }
}
