//! What differs between two configurations, key by key.

use std::collections::BTreeMap;

use anyhow::ensure;
use ccnic_control::messages::KeyChange;
use toml::{Table, Value};

use super::Config;

/// What can change while the daemon runs.
const CHANGEABLE: [&str; 4] = ["port", "program", "defaults", "flow"];

impl Config {
    /// Whether a daemon with this configuration can go over to `new` while it runs: ports, programs, defaults and flow rules may differ.
    ///
    /// # Errors
    /// What may not.
    pub fn check_reload(&self, new: &Config) -> anyhow::Result<()> {
        let (old, new) = (Table::try_from(self)?, Table::try_from(new)?);
        let differs = |key: &&String| !CHANGEABLE.contains(&key.as_str()) && old.get(*key) != new.get(*key);
        let other = old.keys().chain(new.keys()).find(differs);
        ensure!(
            other.is_none(),
            "{} cannot change while ccnicd runs: leave it as it was, or restart ccnicd",
            other.map_or("", String::as_str)
        );
        Ok(())
    }

    /// What `new` says otherwise: keys in alphabetical order; a port's by its name, and a program's by what it is recognised by, wherever they are
    /// in the file. Where their order counts and differs, that is a change, too.
    ///
    /// # Errors
    /// When one of them cannot be said in TOML.
    pub fn difference(&self, new: &Config) -> anyhow::Result<Vec<KeyChange>> {
        let (old, new) = (self.flat()?, new.flat()?);
        let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let change = |key: &String| KeyChange {
            key: key.clone(),
            before: old.get(key).cloned(),
            after: new.get(key).cloned(),
        };
        Ok(keys.into_iter().map(change).filter(|change| change.before != change.after).collect())
    }

    /// Each key that says something, with its value as TOML.
    fn flat(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut flat = BTreeMap::new();
        for (key, value) in Table::try_from(self)? {
            match (key.as_str(), &value) {
                ("port", Value::Array(ports)) => {
                    let name = |port: &Table| format!("{}:{}", text(port, "kind"), text(port, "name"));
                    named("port", ports, name, &["kind", "name"], &mut flat);
                }
                ("program", Value::Array(programs)) => {
                    let order = named("program", programs, program_name, &["name", "user"], &mut flat);
                    flat.insert("programs, in this order".to_owned(), order.join("; "));
                }
                ("flow", Value::Array(flows)) => {
                    let order = named("flow", flows, flow_name, &FLOW_NAME, &mut flat);
                    flat.insert("flow rules, in this order".to_owned(), order.join("; "));
                }
                _ => leaves(&key, &value, &mut flat),
            }
        }
        Ok(flat)
    }
}

/// What programs an entry is for.
fn program_name(program: &Table) -> String {
    match (program.get("name"), program.get("user")) {
        (Some(name), Some(user)) => format!("{name} of user {user}"),
        (Some(name), None) => name.to_string(),
        (None, Some(user)) => format!("of user {user}"),
        (None, None) => "any".to_owned(),
    }
}

/// What a flow rule is recognised by: whose it is, and which packets it is about.
const FLOW_NAME: [&str; 11] = [
    "program",
    "user",
    "dst-mac",
    "src-mac",
    "vlan",
    "ether-type",
    "protocol",
    "src-ip",
    "dst-ip",
    "src-port",
    "dst-port",
];

fn flow_name(flow: &Table) -> String {
    let said: Vec<_> =
        FLOW_NAME.iter().filter_map(|key| Some(format!("{key}={}", flow.get(*key)?))).collect();
    if said.is_empty() { "of all packets".to_owned() } else { said.join(" ") }
}

fn text<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Adds the entries of a list by what `name` makes of each, less the keys `by` that are in the name; returns the names. The second of a name is
/// `NAME #2`.
fn named(
    what: &str,
    list: &[Value],
    name: impl Fn(&Table) -> String,
    by: &[&str],
    flat: &mut BTreeMap<String, String>,
) -> Vec<String> {
    let (mut names, mut seen) = (Vec::new(), BTreeMap::<String, usize>::new());
    for entry in list.iter().filter_map(Value::as_table) {
        let mut named = name(entry);
        let times = seen.entry(named.clone()).and_modify(|times| *times += 1).or_insert(1);
        if *times > 1 {
            named.push_str(&format!(" #{times}"));
        }
        flat.insert(format!("{what} {named}"), "there".to_owned());
        for (key, value) in entry.iter().filter(|(key, _)| !by.contains(&key.as_str())) {
            leaves(&format!("{what} {named} {key}"), value, flat);
        }
        names.push(named);
    }
    names
}

/// Adds the values in a value, each under its own key.
fn leaves(key: &str, value: &Value, flat: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(inner, value)| leaves(&format!("{key}.{inner}"), value, flat));
        }
        value => drop(flat.insert(key.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(Path::new("nic.toml"), text.to_owned()).unwrap()
    }

    fn difference(old: &str, new: &str) -> Vec<String> {
        let (old, new) = (parse(old), parse(new));
        assert!(old.difference(&old).unwrap().is_empty() && new.difference(&new).unwrap().is_empty());
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let line = |change: &KeyChange| {
            format!("{}: {} -> {}", change.key, value(&change.before), value(&change.after))
        };
        old.difference(&new).unwrap().iter().map(line).collect()
    }

    #[test]
    fn every_key_is_named_with_both_values() {
        let port = "[[port]]\nkind = 'tap'\nname = 'up'\noptions = { mtu = 1500 }\n";
        assert_eq!(
            difference(
                port,
                &format!(
                    "[defaults]\nstorm = 7\n{}[port.policy]\nsend = {{ bits = 1000 }}",
                    port.replace("1500", "9000")
                )
            ),
            [
                "defaults.storm: - -> 7",
                "port tap:up options.mtu: 1500 -> 9000",
                "port tap:up policy.send.bits: - -> 1000",
            ]
        );
        let other = "[[port]]\nkind = 'pcap'\nname = 'a'\n";
        assert_eq!(
            difference(&format!("{port}{other}"), &format!("{other}{port}")),
            [""; 0],
            "their order does not count"
        );
        assert_eq!(
            difference(port, other),
            ["port pcap:a: - -> there", "port tap:up: there -> -", "port tap:up options.mtu: 1500 -> -"]
        );
        assert_eq!(difference("log = 'info'", "log = 'warn'"), ["log: \"info\" -> \"warn\""]);
    }

    #[test]
    fn programs_are_named_by_what_they_are_recognised_by_and_have_an_order() {
        let (web, any) = ("[[program]]\nname = 'web'\nuser = '0'\n", "[[program]]\nrefuse = true\n");
        assert_eq!(
            difference(&format!("{web}{any}"), &format!("{any}{web}")),
            ["programs, in this order: \"web\" of user \"0\"; any -> any; \"web\" of user \"0\""]
        );
        assert_eq!(
            difference(&format!("{any}{any}"), &format!("{any}[[program]]\n")),
            ["program any #2 refuse: true -> -"]
        );
    }

    #[test]
    fn flow_rules_are_named_by_their_packets() {
        let one = "[[flow]]\nprogram = 'kv'\nprotocol = 'udp'\ndst-port = 53\n";
        assert_eq!(
            difference(&format!("{one}queue = 1"), &format!("{one}queue = 2\nmark = 7")),
            [
                "flow program=\"kv\" protocol=\"udp\" dst-port=53 mark: - -> 7",
                "flow program=\"kv\" protocol=\"udp\" dst-port=53 queue: 1 -> 2"
            ]
        );
        let more = difference("[[flow]]\ndrop = true", "");
        assert!(more.contains(&"flow of all packets: there -> -".to_owned()), "{more:?}");
    }

    #[test]
    fn all_but_ports_programs_flow_rules_and_defaults_stays() {
        let old = parse("wire = 'switch'\nmac-table = 7\nlog = 'info'\n");
        old.check_reload(&parse(
            "wire = 'switch'\nmac-table = 7\nlog = 'info'\n[defaults]\nvlan = 1\n[[program]]\n[[flow]]\ndrop = true\n",
        ))
        .unwrap();
        for (new, key) in [
            ("wire = 'switch'\nmac-table = 8\nlog = 'info'\n", "mac-table"),
            ("wire = 'switch'\nmac-table = 7\n", "log"),
            ("wire = 'switch'\nmac-table = 7\nlog = 'info'\nsleep-after = 0", "sleep-after"),
            ("wire = 'switch'\nmac-table = 7\nlog = 'info'\noperators = []", "operators"),
        ] {
            let why = old.check_reload(&parse(new)).unwrap_err().to_string();
            assert!(why.starts_with(&format!("{key} cannot change while ccnicd runs")), "{why}");
        }
    }
}
