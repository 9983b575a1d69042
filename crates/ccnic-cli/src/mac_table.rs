//! `ccnic mac-table`: the addresses that a switch has learned.

use std::path::PathBuf;

use ccnic_control::messages::{LearnedAddress, Status};
use ccnic_control::{Connection, printable};
use clap::Args;
use serde::Serialize;

use crate::print::{self, Column, Table};

/// Options of `mac-table`.
#[derive(Debug, Args)]
pub struct MacTableArgs {
    /// The switch's socket [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An address, as `--json` prints it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    /// Six bytes in hexadecimal, with colons.
    mac: String,
    /// The program that packets to it go to: its `id` in the status.
    program: u64,
    /// The program's name; none when it has just gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Seconds since a packet came from the address.
    age_s: u32,
    /// Its VLAN; 0: that of the ports without VLANs.
    vlan: u16,
    /// The operator has said that it is there.
    fixed: bool,
}

/// Requests the table and prints it.
pub fn run(args: &MacTableArgs) -> anyhow::Result<()> {
    let socket = args.socket.clone().unwrap_or_else(ccnicd::default_socket);
    let connection = Connection::open(&socket)?;
    let rows = rows(&connection.mac_table()?, &connection.status()?);
    print::result(args.json, &rows, || table(&rows).text())
}

fn rows(learned: &[LearnedAddress], status: &Status) -> Vec<Row> {
    let row = |known: &LearnedAddress| Row {
        mac: known.mac.map(|byte| format!("{byte:02x}")).join(":"),
        program: known.program,
        name: status.programs.iter().find(|p| p.id == known.program).map(|p| p.name.clone()),
        age_s: known.age_s,
        vlan: known.vlan,
        fixed: known.fixed,
    };
    learned.iter().map(row).collect()
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("address"),
        Column::number("VLAN"),
        Column::number("age\ns"),
        Column::number("id"),
        Column::prose("program"),
    ];
    let mut table = Table::new(format!("Learned addresses: {}", rows.len()), columns);
    for row in rows {
        let name = row.name.as_deref().map_or_else(|| "has gone".to_owned(), printable);
        let vlan = if row.vlan == 0 { "-".to_owned() } else { row.vlan.to_string() };
        let age = if row.fixed { "static".to_owned() } else { row.age_s.to_string() };
        table.row([row.mac.clone(), vlan, age, row.program.to_string(), name]);
    }
    table.note(
        "Packets to other addresses go to all programs (of the VLAN). age: since a packet came from the address; static: the operator has \
         said that it is there.",
    );
    table
}

#[cfg(test)]
mod tests {
    use ccnic_control::messages::ProgramStatus;

    use super::*;
    use crate::print::longest_line;

    #[test]
    fn addresses_with_their_programs_whose_names_cannot_reach_the_terminal() {
        let program = ProgramStatus {
            id: 7,
            name: "vm\u{1b}[2J\n".to_owned(),
            pid: 1,
            design: "ccnic".to_owned(),
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
            programs: vec![program],
            ..Status::default()
        };
        let learned = [
            LearnedAddress { mac: [2, 0, 0, 0, 0xab, 1], program: 7, age_s: 3, vlan: 0, fixed: false },
            LearnedAddress { mac: [0xfe; 6], program: 8, age_s: 299, vlan: 10, fixed: true },
        ];
        let rows = rows(&learned, &status);
        assert_eq!((rows[0].mac.as_str(), rows[1].name.as_ref()), ("02:00:00:00:ab:01", None));
        let text = table(&rows).in_width(80);
        assert!(longest_line(&text) <= 80 && text.contains("vm\\u{1b}[2J\\n"), "{text}");
        let row = text.lines().find(|line| line.contains("fe:fe:fe:fe:fe:fe")).unwrap();
        assert!(row.contains("static") && row.contains(" 10 ") && row.contains("has gone"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        let json = serde_json::to_value(&rows).unwrap();
        assert_eq!((&json[0]["program"], &json[1]["age_s"]), (&7.into(), &299.into()));
    }
}
