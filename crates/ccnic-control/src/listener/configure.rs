//! What operators ask: the configuration in pages, and changes of it, which may come in parts.

use super::client::{Client, Stop};
use crate::connection::Peer;
use crate::inbox::Event;
use crate::messages::{CONFIG_MAX, Change, ConfigPart, Reply, TextPage};

/// What a connection keeps of its requests for the next one.
#[derive(Debug, Default)]
pub(super) struct Configuring {
    /// The parts of a configuration that have come.
    parts: String,
    /// The configuration whose pages are asked for.
    pages: String,
}

impl Client {
    /// A part of a configuration; with the last one, all of it.
    pub(super) fn apply(&mut self, part: ConfigPart) -> Result<Reply, Stop> {
        self.check_operator("read or change the NIC's configuration")?;
        let ConfigPart { text, more, name, check } = part;
        let parts = &mut self.configuring.parts;
        if parts.len() + text.len() > CONFIG_MAX {
            parts.clear();
            return Err(format!(
                "the configuration has more than {CONFIG_MAX} bytes: leave out what is said twice, or put it into [defaults]"
            )
            .into());
        }
        parts.push_str(&text);
        if more {
            return Ok(Reply::Done);
        }
        let text = std::mem::take(parts);
        self.change(Change::File {
            name: name.unwrap_or_else(|| "the configuration".to_owned()),
            text,
            check,
        })
    }

    /// A page of the running configuration.
    pub(super) fn config(&mut self, from: u32) -> Result<Reply, Stop> {
        self.check_operator("read or change the NIC's configuration")?;
        if from == 0 {
            match self.ask(Event::Config)? {
                Reply::Config(TextPage { text, .. }) => self.configuring.pages = text,
                other => return Ok(other),
            }
        }
        let page = TextPage::of(&self.configuring.pages, from);
        if page.next.is_none() {
            self.configuring.pages = String::new();
        }
        Ok(Reply::Config(page))
    }

    /// Has the NIC changed, or told what would change.
    pub(super) fn change(&mut self, change: Change) -> Result<Reply, Stop> {
        self.check_operator("read or change the NIC's configuration")?;
        let (check, Peer { pid, uid }) = (change.is_check(), self.peer);
        let reply = self.ask(Event::Change(Box::new(change)))?;
        if !check {
            tracing::info!(pid, uid, "an operator has changed the configuration");
        }
        Ok(reply)
    }

    /// Whether its user may do `what` is an operator's.
    pub(super) fn check_operator(&self, what: &str) -> Result<(), Stop> {
        let (uid, operators) = (self.peer.uid, &self.shared.account.limits().operators);
        if operators.contains(&uid) {
            return Ok(());
        }
        Err(format!(
            "user {uid} may not {what}: be one of the users {operators:?}, or add it to `operators` (ccnicd --operators) and restart the NIC"
        )
        .into())
    }
}
