//! Configurations that are read, and what is said of wrong ones.

use std::path::Path;

use super::*;
use crate::DaemonOptions;
use crate::dataplane::DataplaneKind;
use crate::switch::policy::{Mirror, Policies, Policy, Rate, Vlans};
use crate::switch::{Mac, Station, TableLimits};
use ccnic_control::{Quota, UserLimits};
use proptest::prelude::*;

const EXAMPLE: &str = include_str!("../../../../docs/ccnicd.example.toml");

fn parse(text: &str) -> anyhow::Result<Config> {
    Config::parse(Path::new("nic.toml"), text.to_owned())
}

#[track_caller]
fn settled(text: &str) -> DaemonOptions {
    parse(text).unwrap().settle().unwrap()
}

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let why = format!("{:#}", parse(text).and_then(|config| config.settle()).unwrap_err());
    for expected in expected {
        assert!(why.contains(expected), "{text}\n{why}\ndoes not say {expected:?}");
    }
}

#[test]
fn the_example_can_be_used_and_is_complete() {
    let settings = settled(EXAMPLE);
    assert!(matches!(settings.dataplane, DataplaneKind::Switch(_)));
    assert!(
        settings.ports.len() > 1 && settings.policies.of_program("web", u32::MAX) != Some(&Policy::default())
    );
    // Everything that can be said is in it, if only behind a #.
    let schema = Config::schema();
    let objects = std::iter::once(&schema).chain(schema["$defs"].as_object().unwrap().values());
    for property in objects.filter_map(|object| object["properties"].as_object()).flatten() {
        assert!(EXAMPLE.contains(property.0.as_str()), "{} is missing", property.0);
    }
    let without_remarks: String = EXAMPLE
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(without_remarks.len() < EXAMPLE.len());
    let all = parse(&without_remarks).unwrap();
    assert!(all.mac_port.is_some() && all.user_memory.is_some() && all.tuning.is_some());
}

#[test]
fn nothing_said_is_the_default_and_flags_come_before_the_file() {
    let settings = settled("");
    assert!(settings.dataplane == DataplaneKind::Loopback && settings.ports.is_empty());
    assert_eq!(settings.policies, Policies::default());
    assert_eq!((settings.limits.user.queues, settings.limits.region_max), (UserLimits::QUEUES, 1280 << 20));
    let file = parse(
        "socket = '/a'\ncores = [1]\nwire = 'switch'\nmac-table = 7\nlog = 'warn'\nport = [{ kind = 'tap', name = 'a' }]",
    );
    let flags = Config {
        socket: Some("/b".into()),
        mac_port: Some(9.try_into().unwrap()),
        ports: vec![PortConfig::from_flag("tap:b").unwrap()],
        ..Config::default()
    };
    let both = flags.or(file.unwrap());
    assert_eq!((both.log(), both.cores.as_slice()), ("warn", &[1][..]));
    let settings = both.settle().unwrap();
    let limits = TableLimits { addresses: 7, per_port: 9, ..TableLimits::default() };
    assert!(settings.dataplane == DataplaneKind::Switch(limits) && settings.socket == Path::new("/b"));
    assert_eq!(settings.ports.iter().map(|port| port.name()).collect::<Vec<_>>(), ["tap:a", "tap:b"]);
}

/// `ccnic config > nic.toml; ccnic apply nic.toml` changes nothing, also of a daemon whose lists came from flags.
#[test]
fn a_file_that_says_what_flags_say_adds_nothing() {
    let flags = || Config {
        ports: vec![
            PortConfig::from_flag("tap:a,mtu=1400").unwrap(),
            PortConfig::from_flag("tap:b").unwrap(),
        ],
        later_paths: vec!["/tmp".into()],
        ..parse("wire = 'switch'\nlater-ports = ['tap']").unwrap()
    };
    let now = flags();
    let said = parse(&now.to_toml().unwrap()).unwrap();
    let again = flags().or(said);
    now.check_reload(&again).unwrap();
    assert_eq!(now.difference(&again).unwrap(), []);
    assert_eq!(again.settle().unwrap().ports.len(), 2);
}

#[test]
fn frames_for_the_next_bridge_are_dropped_unless_it_is_said() {
    use crate::switch::Reserved;
    assert_eq!(settled("wire = 'switch'").reserved, Reserved::Drop);
    assert_eq!(settled("wire = 'switch'\nreserved = 'forward'").reserved, Reserved::Forward);
    refused("reserved = 'flood'", &["line 1", "forward"]);
}

#[test]
fn the_user_that_the_daemon_becomes_is_an_operator() {
    let operators = |text: &str| settled(text).limits.operators;
    assert_eq!(operators("user = '4242:4343'"), [0, 4242]);
    assert_eq!(operators("user = '0:0'"), [0]);
    assert_eq!(operators("user = '4242:4343'\noperators = ['7']"), [7]);
}

/// What is said of defaults is what they are.
#[test]
fn texts_name_the_defaults() {
    let schema = Config::schema();
    let table = TableLimits::default();
    for (key, default) in [
        ("mac-ageing", table.ageing as usize),
        ("mac-table", table.addresses),
        ("mac-port", table.per_port as usize),
        ("region-max", settled("").limits.region_max as usize >> 20),
        ("user-connections", UserLimits::CONNECTIONS as usize),
        ("user-programs", UserLimits::PROGRAMS as usize),
        ("user-queues", UserLimits::QUEUES as usize),
    ] {
        let text = schema["properties"][key]["description"].as_str().unwrap();
        assert!(text.contains(&format!("[default: {default}]")), "{key}: {text}");
    }
}

#[test]
fn quotas_of_memory_by_name_and_user_need_no_switch() {
    let text = "[[program]]\nname = 'web'\nuser = '33'\nmemory = 64\n[[program]]\nuser = '33'\nrefuse = true\n[[program]]\nmemory = 8";
    let settings = settled(text);
    let quota = |name: Option<&str>, uid, mib: Option<u64>| Quota {
        name: name.map(str::to_owned),
        uid,
        memory: mib.map(|mib| mib << 20),
    };
    let expected =
        [quota(Some("web"), Some(33), Some(64)), quota(None, Some(33), None), quota(None, None, Some(8))];
    assert_eq!(settings.limits.quotas, expected);
    assert!(!settings.policies.need_a_switch() && settings.policies.of_program("x", 33).is_none());
    let (before, after) = (parse(text).unwrap(), parse(&text.replace("64", "65")).unwrap());
    assert!(before.check_reload(&after).is_ok());
    let changes = before.difference(&after).unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].key, "program \"web\" of user \"33\" memory");
}

#[test]
fn policies_by_port_and_program() {
    let settings = settled(
        "wire = 'switch'\n\
         [defaults]\nvlan = 10\nisolated = true\nstorm = 1000\n\
         [[port]]\nkind = 'tap'\nname = 'up'\npolicy = { trunk = 'all', native = 1, isolated = false, static = ['02:00:00:00:00:09'] }\n\
         [[port]]\nkind = 'tap'\nname = 'mon'\n\
         [[program]]\nname = 'web'\nuser = '0'\n[program.policy]\nvlan = 20\nmacs = ['02:00:00:00:00:01']\n\
         addresses = ['10.0.0.0/24', 'fd00::1']\nsend = { packets = 1000, bits = 1_000_000, burst-ms = 5 }\n\
         receive = { bits = 1_000_000_000 }\nmirror = { to = 'tap:mon', received = false }\n\
         [[program]]\nuser = '77'\nrefuse = true\n\
         [[program]]\nname = 'plain'\npolicy = { isolated = false }",
    );
    let policies = &settings.policies;
    let up = policies.of_port(0);
    assert!(matches!(&up.vlans, Vlans::Trunk { carried, native: 1 } if carried.has(1) && carried.has(4094)));
    assert_eq!((up.isolated, up.storm), (false, Some(1000)));
    assert_eq!(up.fixed, [Station::new(Mac::new([2, 0, 0, 0, 0, 9]), 1)], "in the native VLAN");
    let web = policies.of_program("web", 0).unwrap();
    assert_eq!(
        (&web.vlans, web.isolated, web.macs.len(), web.addresses.len()),
        (&Vlans::Access(20), true, 1, 2)
    );
    let burst = std::time::Duration::from_millis(5);
    assert_eq!(web.sends, Rate { packets: Some(1000), bits: Some(1_000_000), burst });
    assert_eq!(
        (web.mirror, web.receives),
        (
            Some(Mirror { to: (1 << 32) + 1, sent: true, received: false }),
            Rate { bits: Some(1_000_000_000), burst: std::time::Duration::from_millis(300), ..Rate::NONE }
        )
    );
    assert_eq!(policies.of_program("web", 77), None, "by its user");
    let other = Policy { vlans: Vlans::Access(10), isolated: true, storm: Some(1000), ..Policy::default() };
    assert_eq!((policies.of_program("web", 5), policies.of_port(1)), (Some(&other), &other));
    assert_eq!(policies.of_program("plain", 5), Some(&Policy { isolated: false, ..other }));
}

#[test]
fn flow_rules_by_program() {
    let settings = settled(
        "[[flow]]\nprogram = 'kv'\nuser = '0'\npriority = 7\ndst-mac = 'ff:ff:ff:ff:ff:ff'\nvlan = 0\nprotocol = 'sctp'\n\
         src-ip = 'fe80::1'\ndst-port = 53\nqueue = 2\nmark = 9\n\
         [[flow]]\nether-type = 0x0806\nrss = true\n[[flow]]\nprotocol = 89\ndrop = true\n",
    );
    let ids = |name, uid| {
        settings.flows.of_program(name, uid, 8).0.iter().map(|(id, _)| id & 0xff).collect::<Vec<_>>()
    };
    assert_eq!((ids("kv", 0), ids("kv", 1), ids("web", 0)), (vec![0, 1, 2], vec![1, 2], vec![1, 2]));
    let said = |at: usize| settings.flows.0[at].rule;
    assert_eq!((said(0).priority, said(0).mark, said(0).to.to_string().as_str()), (7, Some(9), "queue 2"));
    assert_eq!(said(0).matches.to_string(), "vlan 0, sctp, src fe80::1, dst ff:ff:ff:ff:ff:ff port 53");
    assert_eq!((said(1).to.to_string(), said(1).matches.to_string()), ("rss".into(), "type 0x0806".into()));
    assert_eq!((said(2).to.to_string(), said(2).matches.to_string()), ("drop".into(), "protocol 89".into()));
}

/// Line, field, value, and what would be right.
#[test]
fn wrong_files_are_refused_with_the_place_and_the_remedy() {
    refused(
        "wire = 'switch'\nmac-tabel = 7",
        &["nic.toml", "line 2", "mac-tabel", "expected one of", "`mac-table`"],
    );
    refused("\n\nmac-table = 0", &["line 3", "mac-table = 0", "0 is not in 1..=1048576"]);
    refused("mac-ageing = -1", &["line 1", "-1"]);
    refused("cores = 1", &["line 1", "cores = 1", "sequence"]);
    refused("wire = 'hub'", &["line 1", "hub", "`loopback` or `switch`"]);
    refused("wire = 'switch\n", &["line 1"]);
    refused("wire = 'switch'\nreflect = true", &["line 2: reflect = true", "loopback"]);
    refused("[[port]]\nkind = 'tap'\nname = 'a'", &["line 1: port tap:a", "wire = \"switch\""]);
    refused("[defaults]\nvlan = 10", &["[defaults]", "wire = \"switch\""]);
    refused("[[program]]\npolicy = { vlan = 10 }", &["policy of a [[program]]", "wire = \"switch\""]);
    refused("[[program]]\nmemory = 0", &["line 2", "memory = 0", "0 is not in 1..="]);
    let port = "wire = 'switch'\n[[port]]\nkind = 'tap'\nname = 'a'\n";
    let with = |text: &str| format!("{port}{text}");
    refused(&with("options = { mtu = 1 }"), &["line 2", "tap:a", "mtu=1", "68 to 65521"]);
    refused(&with(&port[16..]), &["tap:a is given twice"]);
    let policy = |text: &str, expected: &[&str]| {
        refused(&with(&format!("[port.policy]\n{text}")), &[expected, &["line"]].concat());
        refused(
            &format!("wire = 'switch'\n[[program]]\n[program.policy]\n{text}"),
            &[expected, &["line"]].concat(),
        );
        refused(&format!("wire = 'switch'\n[defaults]\n{text}"), &[expected, &["line"]].concat());
    };
    policy("vlan = 4095", &["vlan = 4095", "1..=4094"]);
    policy("vlan = 1\ntrunk = [2]", &["leave one of them out"]);
    policy("native = 1", &["add trunk"]);
    policy("trunk = [2, 3]\nnative = 1", &["native = 1", "add it to trunk"]);
    policy("trunk = []", &["add some"]);
    policy("trunk = 'some'", &["some", "\"all\" or a list"]);
    policy("trunk = [0]", &["0 is not in 1..=4094"]);
    policy("macs = ['02:00:00:00:00']", &["02:00:00:00:00", "such as"]);
    policy("macs = ['ff:ff:ff:ff:ff:ff']", &["group"]);
    policy("addresses = ['10.0.0.0/33']", &["10.0.0.0/33", "32 bits"]);
    policy("static = ['02:00:00:00:00:01@7']", &["VLAN 7", "add it to trunk"]);
    policy("trunk = [7]\nstatic = ['02:00:00:00:00:01']", &["ADDRESS@VLAN"]);
    policy("send = { }", &["send limits nothing", "packets or bits"]);
    policy("receive = { bits = 10 }", &["bits = 10", "1000"]);
    policy("send = { packets = 1, burst = 7 }", &["burst", "`burst-ms`"]);
    policy("storm = 0", &["storm = 0", "1..="]);
    policy("mirror = { to = 'tap:b', sent = false, received = false }", &["copies nothing"]);
    policy("mirror = { to = 'tap:b' }", &["mirror.to = \"tap:b\"", "add a [[port]]", "nic.toml, line"]);
    policy(&format!("macs = [{}]", "'02:00:00:00:00:01',".repeat(65)), &["65 entries", "64"]);
    refused(&with("[port.policy]\nmirror = { to = 'tap:a' }"), &["nic.toml, line 6", "is the port itself"]);
    refused("wire = 'switch'\n[[program]]\nuser = 'nobody-has-this-name'", &["line 3", "no user"]);
    let flow = |text: &str, expected: &[&str]| {
        refused(
            &format!("sleep-after = 0\n[[flow]]\ndrop = true\n[[flow]]\n{text}"),
            &[expected, &["line"]].concat(),
        );
    };
    flow("vlan = 1", &["line 4", "is said 0 times", "queue = N, drop = true and rss = true"]);
    flow("queue = 1\ndrop = true", &["is said 2 times"]);
    flow("drop = true\nmark = 3", &["mark is 3 for packets that are dropped"]);
    flow("drop = true\nsrc-port = 3", &["src-port is 3 without a protocol"]);
    flow("drop = true\nvlan = 4095", &["line 6", "vlan = 4095", "0..=4094"]);
    flow("drop = true\nether-type = 0x8100", &["ether-type is 0x8100", "and the tag as vlan"]);
    flow("drop = true\nether-type = 1", &["1 is not in 1536..=65535"]);
    flow(
        "drop = true\nprotocol = 'icmp'",
        &["line 6", "icmp", "\"tcp\", \"udp\", \"sctp\" or a number from 0 to 255"],
    );
    flow("drop = true\nprotocol = 256", &["256", "a number from 0 to 255"]);
    flow("drop = true\ndst-mac = '02:00'", &["02:00", "such as"]);
    flow("drop = true\ndst-ip = '10.0.0.0/8'", &["line 6", "IP address"]);
    flow(
        "drop = true\nsrc-ip = '10.0.0.1'\ndst-ip = 'fe80::1'",
        &["src-ip is 10.0.0.1 and dst-ip is fe80::1"],
    );
    flow("drop = true\ntos = 1", &["tos", "expected one of"]);
    flow(
        "drop = true\nprogram = 'kv'",
        &["nic.toml, line 4: flow: number 1 of the configuration's flow rules has the same"],
    );
    let missing = Config::read(Path::new("/nowhere/nic.toml")).unwrap_err();
    assert!(format!("{missing:#}").contains("could not read /nowhere/nic.toml"));
}

#[test]
fn the_schema_knows_ranges_and_nothing_unknown() {
    let schema = Config::schema();
    let properties = &schema["properties"];
    assert_eq!(schema["additionalProperties"], false);
    assert!(
        properties["mac-table"].to_string().contains("\"maximum\":1048576"),
        "{}",
        properties["mac-table"]
    );
    assert!(properties["port"].to_string().contains("array") && properties["source"].is_null());
    let defs = schema["$defs"].as_object().unwrap();
    let policy = defs.get("PolicyConfig").unwrap();
    assert!(policy["properties"]["static"].is_object() && policy["additionalProperties"] == false);
    assert!(defs.get("Port").unwrap()["properties"]["options"].is_object());
}

/// What is printed is read as the same, and says no more.
#[track_caller]
fn printed(config: &Config) -> String {
    let text = config.to_toml().unwrap();
    let again = parse(&text).unwrap();
    assert_eq!(Config { source: None, ..again }, Config { source: None, ..config.clone() }, "{text}");
    text
}

#[test]
fn what_is_printed_is_read_as_the_same() {
    assert_eq!(printed(&Config::default()), "");
    let all: String =
        EXAMPLE.lines().map(|line| format!("{}\n", line.strip_prefix("#: ").unwrap_or(line))).collect();
    let text = printed(&parse(&all).unwrap());
    assert!(text.contains("mac-ageing = 300") && !text.contains("reflect"), "{text}");
    let flags = Config {
        wire: Some(WireName::Switch),
        ports: [
            "tap:a,address=10.0.0.1/24,address=fd00::1/64,offload=off,mtu=9000",
            "pcap:record=b",
            "xdp:e,zero-copy=on,mode=native",
        ]
        .map(|port| PortConfig::from_flag(port).unwrap())
        .into(),
        ..Config::default()
    };
    let text = printed(&flags);
    let settled = flags.settle().unwrap();
    assert_eq!(settled.ports, parse(&text).unwrap().settle().unwrap().ports);
    assert!(
        text.contains("address = [\"10.0.0.1/24\", \"fd00::1/64\"]") && text.contains("offload = false"),
        "{text}"
    );
}

proptest! {
    /// Whatever somebody does to the example: it is used, or refused with its name.
    #[test]
    fn a_file_with_typing_errors_is_used_or_refused(
        at in 0..EXAMPLE.len(), cut in 0..40usize, typed in "[a-z0-9='\"\\[\\]{}:@/., _\n-]{0,12}",
    ) {
        let (end, mut text) = ((at + cut).min(EXAMPLE.len()), EXAMPLE.to_owned());
        text.replace_range(at..end, &typed);
        if let Err(why) = parse(&text) {
            prop_assert!(why.to_string().contains("nic.toml"));
        } else {
            let config = parse(&text).unwrap();
            let _ = config.settle().map(|settings| settings.policies.of_program("web", 0).cloned());
            printed(&config);
        }
    }
}
