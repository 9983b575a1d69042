//! Messages by which an operator reads and changes the configuration of a NIC that runs (docs/control-protocol.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{is_false, is_zero};
use crate::connection::MESSAGE_MAX;

/// The longest configuration, in bytes.
pub const CONFIG_MAX: usize = 1 << 20;
/// Bytes of a text that a message has room for, however JSON escapes them (`\u001b` is the longest way to say a byte).
pub const TEXT_MAX: usize = (MESSAGE_MAX - 1024) / 6;
/// Bytes of JSON that the lists of [`Applied`] may have.
const LISTS_MAX: usize = MESSAGE_MAX - 1024;

/// A part of a configuration file. The NIC answers `Done` to each part but the last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConfigPart {
    /// The next piece of the file's text.
    pub text: String,
    /// There is more of it: the next part follows on the same connection.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    /// What errors call the file. That of the last part counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only say what would change. That of the last part counts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub check: bool,
}

/// A port that is to be opened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PortAdd {
    /// The port as `ccnicd --port` has it: `tap:NAME,mtu=9000`.
    pub port: String,
    /// Values of further keys, as in [`PortSet`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
    /// Only say what would change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub check: bool,
}

/// A port that is to be closed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PortDel {
    /// What the status calls it: `tap:NAME`.
    pub name: String,
    /// Only say what would change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub check: bool,
}

/// A port of which something is to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PortSet {
    /// What the status calls it: `tap:NAME`.
    pub name: String,
    /// Keys of its options or its policy with their new values, as in the configuration file; `null`: what is said of the key goes.
    pub set: BTreeMap<String, Value>,
    /// Only say what would change.
    #[serde(default, skip_serializing_if = "is_false")]
    pub check: bool,
}

/// What an operator wants changed, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// To be as this file says.
    File {
        /// What errors call it.
        name: String,
        /// What is in it.
        text: String,
        /// Only say what would change.
        check: bool,
    },
    /// One more port.
    PortAdd(PortAdd),
    /// One port less.
    PortDel(PortDel),
    /// A port that is otherwise.
    PortSet(PortSet),
}

impl Change {
    /// True when nothing is to be changed.
    pub fn is_check(&self) -> bool {
        match self {
            Change::File { check, .. } => *check,
            Change::PortAdd(add) => add.check,
            Change::PortDel(del) => del.check,
            Change::PortSet(set) => set.check,
        }
    }
}

/// What has changed, or would.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Applied {
    /// The difference of the two configurations, key by key.
    pub changes: Vec<KeyChange>,
    /// Ports that are opened.
    pub opened: Vec<Affected>,
    /// Ports that are closed.
    pub closed: Vec<Affected>,
    /// Ports of which an option changes while they are open.
    pub set: Vec<Affected>,
    /// Ports and programs whose policy is another.
    pub governed: Vec<Affected>,
    /// Programs for which the configuration has other flow rules.
    #[serde(default)]
    pub steered: Vec<Affected>,
    /// Programs that are refused from now on, and lose their connection.
    pub detached: Vec<Affected>,
    /// Entries that there was no room for in the message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// A key of the configuration that has another value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyChange {
    /// Where it is: `port tap:up0 policy.vlan`, `defaults.storm`.
    pub key: String,
    /// Its value before, as TOML; none where nothing was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Its value now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A port or program that a change concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affected {
    /// Its `id` in the status.
    pub id: u64,
    /// Its name, as in the status: a program's is not fit to print.
    pub name: String,
}

impl Applied {
    /// True when nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Applied::default()
    }

    /// Leaves out what does not fit a message, from the end of each list.
    #[must_use]
    pub fn fit(mut self) -> Applied {
        fn keep<T: Serialize>(list: &mut Vec<T>, room: &mut usize) -> usize {
            let all = list.len();
            let bytes = |entry: &T| serde_json::to_vec(entry).map_or(LISTS_MAX, |json| json.len() + 1);
            let fits = list.iter().take_while(|entry| match room.checked_sub(bytes(entry)) {
                Some(left) => {
                    *room = left;
                    true
                }
                None => false,
            });
            let fits = fits.count();
            list.truncate(fits);
            all - fits
        }
        let mut room = LISTS_MAX;
        for list in [
            &mut self.opened,
            &mut self.closed,
            &mut self.set,
            &mut self.detached,
            &mut self.governed,
            &mut self.steered,
        ] {
            self.left_out += keep(list, &mut room);
        }
        self.left_out += keep(&mut self.changes, &mut room);
        self
    }
}

/// A part of the running configuration, which is as it was when the first part was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPage {
    /// TOML.
    pub text: String,
    /// Where the rest begins, if this is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl TextPage {
    /// The part of `text` that begins at `from`, or just before where that is within a character.
    pub fn of(text: &str, from: u32) -> TextPage {
        let begin = text.floor_char_boundary(from as usize);
        let end = text.floor_char_boundary(begin + TEXT_MAX);
        let next = u32::try_from(end).ok().filter(|_| end < text.len());
        TextPage { text: text.get(begin..end).unwrap_or_default().to_owned(), next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Reply, Request};

    #[track_caller]
    fn is(message: &Request, text: &str) {
        assert_eq!(serde_json::to_string(message).unwrap(), text);
        assert_eq!(&serde_json::from_str::<Request>(text).unwrap(), message);
    }

    #[test]
    fn requests_are_this_json() {
        let part = |text: &str, more| ConfigPart { text: text.into(), more, ..ConfigPart::default() };
        is(&Request::Apply(part("wire", true)), r#"{"apply":{"text":"wire","more":true}}"#);
        let last = ConfigPart { name: Some("nic.toml".into()), check: true, ..part(" = 'switch'\n", false) };
        is(&Request::Apply(last), r#"{"apply":{"text":" = 'switch'\n","name":"nic.toml","check":true}}"#);
        is(&Request::Config(7), r#"{"config":7}"#);
        let set = BTreeMap::from([("mtu".to_owned(), Value::from(9000)), ("vlan".to_owned(), Value::Null)]);
        is(
            &Request::PortAdd(PortAdd { port: "tap:a".into(), set: set.clone(), check: false }),
            r#"{"port-add":{"port":"tap:a","set":{"mtu":9000,"vlan":null}}}"#,
        );
        is(
            &Request::PortDel(PortDel { name: "tap:a".into(), check: true }),
            r#"{"port-del":{"name":"tap:a","check":true}}"#,
        );
        is(
            &Request::PortSet(PortSet { name: "tap:a".into(), set, check: false }),
            r#"{"port-set":{"name":"tap:a","set":{"mtu":9000,"vlan":null}}}"#,
        );
    }

    #[test]
    fn what_has_changed_fits_a_message_and_says_what_it_leaves_out() {
        let affected = |id| Affected { id, name: "\u{1b}".repeat(255) };
        let change = |n: u32| KeyChange { key: format!("{n}"), before: None, after: Some("\"\\\"\"".into()) };
        let applied = Applied {
            changes: (0..9000).map(change).collect(),
            detached: (0..30).map(affected).collect(),
            ..Applied::default()
        };
        let fitted = applied.clone().fit();
        let bytes = serde_json::to_vec(&Reply::Applied(Box::new(fitted.clone()))).unwrap().len();
        assert!(bytes <= MESSAGE_MAX && bytes > MESSAGE_MAX / 2, "{bytes}");
        assert_eq!(fitted.detached, applied.detached);
        assert_eq!(fitted.left_out, 9000 - fitted.changes.len());
        assert!(Applied::default().fit().is_empty());
    }

    #[test]
    fn pages_of_a_text_go_on_where_the_last_one_ended() {
        let text = "\u{1b}é".repeat(TEXT_MAX);
        let (mut all, mut from, mut pages) = (String::new(), Some(0), 0);
        while let Some(at) = from {
            let page = TextPage::of(&text, at);
            let bytes = serde_json::to_vec(&Reply::Config(page.clone())).unwrap().len();
            assert!(bytes <= MESSAGE_MAX && page.next.is_none_or(|next| next > at), "{bytes}");
            (from, pages) = (page.next, pages + 1);
            all.push_str(&page.text);
        }
        assert!(all == text && pages >= 3);
        assert_eq!(TextPage::of("é", 1), TextPage { text: "é".into(), next: None });
        assert_eq!(TextPage::of("é", u32::MAX), TextPage { text: String::new(), next: None });
    }
}
