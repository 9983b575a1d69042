//! What an operator does with a NIC that runs: `ccnic apply`, `ccnic config`, `ccnic port`.

mod apply;
mod port;

use std::path::PathBuf;

use ccnic_control::messages::{Affected, Applied};
use ccnic_control::{Connection, Error, printable};
use clap::Args;

use crate::print;

pub use apply::{ApplyArgs, ConfigArgs, apply, config};
pub use port::{PortCommand, port};

/// Which NIC, and how to print.
#[derive(Debug, Clone, Args)]
pub struct NicArgs {
    /// The NIC's socket [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl NicArgs {
    fn open(&self) -> Result<Connection, Error> {
        Connection::open(&self.socket.clone().unwrap_or_else(ccnicd::default_socket))
    }

    /// Prints what has changed, or what would.
    fn print(&self, applied: &Applied, check: bool) -> anyhow::Result<()> {
        print::result(self.json, applied, || lines(applied, check).join("\n"))
    }
}

/// What has changed, or what would, for people.
fn lines(applied: &Applied, check: bool) -> Vec<String> {
    if applied.is_empty() {
        return vec!["Nothing changes.".to_owned()];
    }
    let mut lines = vec![if check { "This would change:" } else { "Changed:" }.to_owned()];
    for change in &applied.changes {
        let key = printable(&change.key);
        let value = |value: &Option<String>| value.as_deref().map(printable);
        lines.push(match (value(&change.before), value(&change.after)) {
            (Some(before), Some(after)) => format!("  {key}: {before} -> {after}"),
            (None, Some(after)) => format!("  + {key}: {after}"),
            (Some(before), None) => format!("  - {key}: {before}"),
            (None, None) => format!("  {key}"),
        });
    }
    let tense = |done: &'static str, would: &'static str| if check { would } else { done };
    for (list, what) in [
        (&applied.opened, tense("Opened", "Would open")),
        (&applied.closed, tense("Closed", "Would close")),
        (&applied.set, tense("Set while open", "Would set while open")),
        (&applied.governed, tense("Another policy for", "Another policy would be for")),
        (&applied.steered, tense("Other flow rules for", "Other flow rules would be for")),
        (&applied.detached, tense("Refused and detached", "Would refuse and detach")),
    ] {
        if !list.is_empty() {
            lines.push(format!("{what}: {}", names(list)));
        }
    }
    if applied.left_out > 0 {
        lines.push(format!("and {} more, which the answer had no room for", applied.left_out));
    }
    lines
}

fn names(list: &[Affected]) -> String {
    let name = |one: &Affected| format!("{} (id {})", printable(&one.name), one.id);
    list.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic_control::messages::KeyChange;

    #[test]
    fn what_changes_is_said_in_lines_that_cannot_reach_the_terminal() {
        let change = |before: Option<&str>, after: Option<&str>| KeyChange {
            key: "port tap:a\u{1b}[2J".into(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        };
        let affected = |name: &str| vec![Affected { id: 7, name: name.to_owned() }];
        let applied = Applied {
            changes: vec![change(None, Some("there")), change(Some("1"), None), change(Some("1"), Some("2"))],
            opened: affected("tap:a"),
            detached: affected("vm\u{1b}[2J"),
            left_out: 3,
            ..Applied::default()
        };
        assert_eq!(
            lines(&applied, false),
            [
                "Changed:",
                "  + port tap:a\\u{1b}[2J: there",
                "  - port tap:a\\u{1b}[2J: 1",
                "  port tap:a\\u{1b}[2J: 1 -> 2",
                "Opened: tap:a (id 7)",
                "Refused and detached: vm\\u{1b}[2J (id 7)",
                "and 3 more, which the answer had no room for",
            ]
        );
        assert!(lines(&applied, true).contains(&"Would open: tap:a (id 7)".to_owned()));
        assert_eq!(lines(&Applied::default(), true), ["Nothing changes."]);
    }
}
