//! `ccnic flow`: the flow rules of a running NIC's programs, for its operator.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use ccnic_control::flow::{
    FIRST_OF_CONFIGURATION, FIRST_OF_OPERATOR, FlowEntry, FlowMatch, FlowReply, FlowRequest, FlowRule,
    FlowTarget, SCTP, TCP, UDP,
};
use ccnic_control::messages::{ProgramStatus, Reply, Request, Status};
use ccnic_control::{Connection, printable};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::print::{self, Column, Table};

/// What to do with flow rules.
#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Show the flow rules of all programs, or of one, with their counters
    List(ListArgs),
    /// Add a rule of the operator about a program's packets: it comes before the program's own (only operators may: by default root and
    /// the user that the NIC runs as)
    Add(Box<AddArgs>),
    /// Remove a rule of the operator, or all of them (only operators may: by default root and the user that the NIC runs as)
    Del(DelArgs),
}

/// Where the NIC is, and how to answer.
#[derive(Debug, Args)]
struct Common {
    /// The NIC's socket [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `flow list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only this program: its id in the status, or its name
    program: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Options of `flow add`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("target").required(true).args(["queue", "drop", "rss"])))]
pub struct AddArgs {
    /// The program that receives the packets: its id in the status, or its name
    program: String,
    /// The rule with the lowest priority is followed
    #[arg(long, default_value_t = 0)]
    priority: u32,
    /// Destination address of the frame
    #[arg(long, value_name = "MAC", value_parser = mac, help_heading = "Which packets")]
    dst_mac: Option<[u8; 6]>,
    /// Source address of the frame
    #[arg(long, value_name = "MAC", value_parser = mac, help_heading = "Which packets")]
    src_mac: Option<[u8; 6]>,
    /// VLAN number of the outermost tag, 0 to 4094
    #[arg(long, value_name = "N", help_heading = "Which packets")]
    vlan: Option<u16>,
    /// EtherType behind all tags, such as 0x0800
    #[arg(long, value_name = "N", value_parser = ether_type, help_heading = "Which packets")]
    ether_type: Option<u16>,
    /// tcp, udp, sctp, or the number of an IP protocol
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol, help_heading = "Which packets")]
    protocol: Option<u8>,
    /// Source address of the IP packet
    #[arg(long, value_name = "IP", help_heading = "Which packets")]
    src_ip: Option<IpAddr>,
    /// Destination address of the IP packet
    #[arg(long, value_name = "IP", help_heading = "Which packets")]
    dst_ip: Option<IpAddr>,
    /// Source port
    #[arg(long, value_name = "PORT", help_heading = "Which packets")]
    src_port: Option<u16>,
    /// Destination port
    #[arg(long, value_name = "PORT", help_heading = "Which packets")]
    dst_port: Option<u16>,
    /// They go to this receive queue
    #[arg(long, value_name = "N", help_heading = "What becomes of them")]
    queue: Option<u16>,
    /// They are dropped
    #[arg(long, help_heading = "What becomes of them")]
    drop: bool,
    /// They go where they go without rules
    #[arg(long, help_heading = "What becomes of them")]
    rss: bool,
    /// They have this mark in their metadata
    #[arg(long, value_name = "N", conflicts_with = "drop", help_heading = "What becomes of them")]
    mark: Option<u16>,
    #[command(flatten)]
    common: Common,
}

/// Options of `flow del`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["id", "all"])))]
pub struct DelArgs {
    /// The program: its id in the status, or its name
    program: String,
    /// The rule's number in `ccnic flow list`
    id: Option<u32>,
    /// All rules of the operator about this program's packets
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: Common,
}

/// A rule, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Row {
    /// The program whose packets it is about: its `id` in the status.
    program: u64,
    /// The program's name.
    name: String,
    /// `operator`, `config` (the operator, in the configuration) or `program`.
    by: &'static str,
    #[serde(flatten)]
    entry: FlowEntry,
}

/// What `add` has added, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Added {
    program: u64,
    id: u32,
}

/// Asks a running NIC.
pub fn run(command: &FlowCommand) -> anyhow::Result<()> {
    match command {
        FlowCommand::List(args) => list(args),
        FlowCommand::Add(args) => add(args),
        FlowCommand::Del(args) => del(args),
    }
}

fn connect(common: &Common) -> anyhow::Result<Connection> {
    Ok(Connection::open(&common.socket.clone().unwrap_or_else(ccnicd::default_socket))?)
}

fn ask(connection: &Connection, request: FlowRequest) -> anyhow::Result<FlowReply> {
    match connection.ask(&Request::Flow(request), None)? {
        Reply::Flow(reply) => Ok(reply),
        other => bail!("{other:?} in answer to a flow rule; use the same release on both sides"),
    }
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let connection = connect(&args.common)?;
    let status = connection.status()?;
    let only = args.program.as_deref().map(|name| find(&status, name)).transpose()?.map(|program| program.id);
    let mut rows = Vec::new();
    for program in status.programs.iter().filter(|program| only.is_none_or(|id| id == program.id)) {
        let rules = match rules(&connection, program.id) {
            Err(why) if only.is_some() => return Err(why),
            // A program that has gone meanwhile has no rules, nor has a port that is no program.
            rules => rules.unwrap_or_default(),
        };
        rows.extend(rules.into_iter().map(|entry| Row {
            program: program.id,
            name: program.name.clone(),
            by: by(entry.id),
            entry,
        }));
    }
    print::result(args.common.json, &rows, || table(&rows).text())
}

/// Who has made a rule.
fn by(id: u32) -> &'static str {
    match id {
        FIRST_OF_CONFIGURATION.. => "config",
        FIRST_OF_OPERATOR.. => "operator",
        _ => "program",
    }
}

/// All rules about a program's packets.
fn rules(connection: &Connection, program: u64) -> anyhow::Result<Vec<FlowEntry>> {
    let (mut all, mut from) = (Vec::new(), Some(0));
    while let Some(first) = from {
        let request = FlowRequest::List { program: Some(program), from: first };
        let FlowReply::Rules(page) = ask(connection, request)? else {
            bail!("no rules in answer to a list of them")
        };
        ensure!(page.next.is_none_or(|next| next > first), "a page of the flow rules leads back");
        all.extend(page.rules);
        from = page.next;
    }
    Ok(all)
}

fn add(args: &AddArgs) -> anyhow::Result<()> {
    let connection = connect(&args.common)?;
    let program = find(&connection.status()?, &args.program)?.id;
    let request = FlowRequest::Create { program: Some(program), id: None, rule: args.rule() };
    let FlowReply::Created(id) = ask(&connection, request)? else {
        bail!("no number in answer to a new rule")
    };
    print::result(args.common.json, &Added { program, id }, || {
        format!("flow rule {id} of program {program}\n")
    })
}

impl AddArgs {
    fn rule(&self) -> FlowRule {
        let AddArgs {
            dst_mac, src_mac, vlan, ether_type, protocol, src_ip, dst_ip, src_port, dst_port, ..
        } = *self;
        let matches =
            FlowMatch { dst_mac, src_mac, vlan, ether_type, protocol, src_ip, dst_ip, src_port, dst_port };
        let to = match self.queue {
            Some(queue) => FlowTarget::Queue(queue),
            None if self.drop => FlowTarget::Drop,
            None => FlowTarget::Rss,
        };
        FlowRule { priority: self.priority, matches, to, mark: self.mark }
    }
}

fn del(args: &DelArgs) -> anyhow::Result<()> {
    let connection = connect(&args.common)?;
    let program = Some(find(&connection.status()?, &args.program)?.id);
    let request = match args.id {
        Some(id) => FlowRequest::Destroy { program, id },
        None => FlowRequest::Flush { program },
    };
    ask(&connection, request)?;
    print::result(args.common.json, &serde_json::json!({}), String::new)
}

/// The program with this id, or the only one of this name.
fn find<'a>(status: &'a Status, wanted: &str) -> anyhow::Result<&'a ProgramStatus> {
    let id = wanted.parse::<u64>().ok();
    if let Some(program) = status.programs.iter().find(|program| Some(program.id) == id) {
        return Ok(program);
    }
    let mut named = status.programs.iter().filter(|program| program.name == wanted);
    let found = named.next();
    let found = found
        .with_context(|| format!("there is no program {wanted:?}; `ccnic status` shows ids and names"))?;
    ensure!(
        named.next().is_none(),
        "several programs are called {wanted:?}; give an id that `ccnic status` shows"
    );
    Ok(found)
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::number("rule"),
        Column::text("by"),
        Column::number("prio"),
        Column::text("go to"),
        Column::number("mark"),
        Column::number("hits"),
        Column::number("id"),
        Column::prose("program: packets"),
    ];
    let mut table = Table::new(format!("Flow rules: {}", rows.len()), columns);
    for Row { program, name, by, entry: FlowEntry { id, rule, packets, .. } } in rows {
        let mark = rule.mark.map_or_else(|| "-".to_owned(), |mark| mark.to_string());
        table.row([
            id.to_string(),
            (*by).to_owned(),
            rule.priority.to_string(),
            rule.to.to_string(),
            mark,
            packets.to_string(),
            program.to_string(),
            format!("{}: {}", printable(name), rule.matches),
        ]);
    }
    table.note(
        "Of several rules about a packet the operator's come first, then the lowest priority (prio), then the lowest number. id: of the \
         program that receives the packets.",
    );
    table
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    bytes.ok_or_else(|| "give six bytes in hexadecimal, with colons, such as 02:00:00:00:00:01".to_owned())
}

fn ether_type(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "give a number up to 65535, such as 0x0800 for IPv4".to_owned())
}

fn protocol(text: &str) -> Result<u8, String> {
    match text {
        "tcp" => Ok(TCP),
        "udp" => Ok(UDP),
        "sctp" => Ok(SCTP),
        number => number.parse().map_err(|_| "give tcp, udp, sctp, or a number up to 255".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::print::longest_line;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: FlowCommand,
    }

    fn rule(words: &str) -> Result<FlowRule, String> {
        match Line::try_parse_from(words.split(' ')).map_err(|e| e.to_string())?.command {
            FlowCommand::Add(args) => Ok(args.rule()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rule_is_made_of_options_and_one_target() {
        let all = "flow add kv --dst-mac 02:00:00:00:00:ab --vlan 5 --ether-type 0x0800 --protocol udp --dst-ip 10.0.0.1 --src-port 53 \
                   --queue 2 --mark 7 --priority 3";
        let matches = FlowMatch {
            dst_mac: Some([2, 0, 0, 0, 0, 0xab]),
            vlan: Some(5),
            ether_type: Some(0x0800),
            protocol: Some(UDP),
            dst_ip: "10.0.0.1".parse().ok(),
            src_port: Some(53),
            ..FlowMatch::default()
        };
        let expected = FlowRule { priority: 3, matches, to: FlowTarget::Queue(2), mark: Some(7) };
        assert_eq!(rule(all), Ok(expected));
        assert_eq!(rule("flow add 1 --drop"), Ok(FlowRule { to: FlowTarget::Drop, ..FlowRule::default() }));
        for wrong in [
            "flow add 1",
            "flow add 1 --drop --queue 1",
            "flow add 1 --drop --mark 1",
            "flow add 1 --rss --dst-mac 02:00",
        ] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
        for wrong in ["flow del 1", "flow del 1 4 --all"] {
            assert!(Line::try_parse_from(wrong.split(' ')).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_fit_a_terminal_and_names_cannot_reach_it() {
        let matches = FlowMatch {
            protocol: Some(TCP),
            dst_ip: "2001:db8:1234:5678:9abc:def0:1234:5678".parse().ok(),
            dst_port: Some(65535),
            ..FlowMatch::default()
        };
        let rule = FlowRule { priority: 9, matches, to: FlowTarget::Queue(255), mark: Some(65535) };
        let row = |id| Row {
            program: 7,
            name: "vm\u{1b}[2J".to_owned(),
            by: by(id),
            entry: FlowEntry { id, rule, packets: 123_456, bytes: 1 },
        };
        let rows = [row(3), row(FIRST_OF_OPERATOR), row(FIRST_OF_CONFIGURATION + 1)];
        let text = table(&rows).in_width(80);
        assert!(longest_line(&text) <= 80 && text.contains("vm\\u{1b}[2J"), "{text}");
        assert!(text.contains("queue 255") && text.contains("3221225473"), "{text}");
        let json = serde_json::to_value(&rows).unwrap();
        assert_eq!((&json[0]["id"], &json[1]["by"]), (&3.into(), &"operator".into()));
        assert_eq!((&json[2]["id"], &json[2]["by"]), (&3_221_225_473_u32.into(), &"config".into()));
        assert_eq!((&json[0]["rule"]["to"]["queue"], &json[0]["packets"]), (&255.into(), &123_456.into()));
    }
}
