//! The configuration: files that an operator writes, and changes that an operator asks for on the control socket.

use std::path::Path;

use ccnic_control::messages::{Applied, Change, KeyChange, Request, TextPage};
use ccnicd::config::{Config, Running};

/// What there is before the first change.
const BEFORE: &str = "wire = 'switch'\nmemory-max = 64\n[defaults]\nisolated = true\n\
    [[port]]\nkind = 'tap'\nname = 'up'\noptions = { mtu = 1500, address = ['10.0.0.1/24', 'fd00::1/64'] }\npolicy = { trunk = 'all' }\n\
    [[port]]\nkind = 'tap'\nname = 'mon'\n\
    [[program]]\nname = 'web'\nuser = '0'\npolicy = { vlan = 10, mirror = { to = 'tap:mon' } }\n";

/// The fuzz target of files: the text of one, and behind a zero byte that of the one that follows it.
pub fn configuration(bytes: &[u8]) {
    let mut texts = bytes.splitn(2, |byte| *byte == 0).map(String::from_utf8_lossy);
    let (Some(first), second) = (texts.next(), texts.next()) else { return };
    let Some(before) = read(&first) else { return };
    let after = second.and_then(|text| read(&text)).or_else(|| read(BEFORE));
    if let Some(after) = after {
        compare(&before, &after);
        let running = Running::new(Config::default(), Some(before));
        apply(&running, &Change::File { name: "next".to_owned(), text: printed(&after), check: false });
    }
}

/// The fuzz target of changes: requests as on the control socket, a line each.
pub fn changes(bytes: &[u8]) {
    let mut running = Running::new(Config::default(), read(BEFORE));
    for line in bytes.split(|byte| *byte == b'\n').take(8) {
        let Ok(request) = serde_json::from_slice::<Request>(line) else { continue };
        let change = match request {
            Request::Apply(part) => {
                let name = part.name.unwrap_or_default();
                Change::File { name, text: part.text, check: part.check }
            }
            Request::PortAdd(add) => Change::PortAdd(add),
            Request::PortDel(del) => Change::PortDel(del),
            Request::PortSet(set) => Change::PortSet(set),
            Request::Config(from) => {
                pages(&printed(running.now()), from);
                continue;
            }
            _ => continue,
        };
        if let Some(after) = apply(&running, &change) {
            running = after;
        }
    }
}

/// A file that can be read, which says the same when it is printed and read again, and what it comes to.
fn read(text: &str) -> Option<Config> {
    let mut config = match Config::parse(Path::new("nic.toml"), text.to_owned()) {
        Ok(config) => config,
        Err(why) => {
            assert!(format!("{why:#}").contains("nic.toml"), "{why:#}");
            return None;
        }
    };
    // Asking the machine for its memory takes longer than all else.
    if config.memory_max.is_none() {
        config.memory_max = 64.try_into().ok();
    }
    let again = Config::parse(Path::new("printed"), printed(&config)).expect("what is printed can be read");
    assert_eq!(printed(&again), printed(&config), "and says the same");
    assert!(config.difference(&again).expect("both can be written").is_empty());
    match (config.settle(), again.settle()) {
        (Ok(one), Ok(other)) => {
            assert_eq!((one.ports, one.policies), (other.ports, other.policies));
            assert_eq!(
                (one.limits, one.sleep_after, one.socket),
                (other.limits, other.sleep_after, other.socket)
            );
        }
        (Err(_), Err(_)) => {}
        (one, other) => panic!("one of them can be used: {one:?} {other:?}"),
    }
    Some(config)
}

fn printed(config: &Config) -> String {
    config.to_toml().expect("what was read is text")
}

/// Each key that differs is named, with both values, whichever comes first.
fn compare(before: &Config, after: &Config) {
    let there = before.difference(after).expect("both can be written");
    let back = after.difference(before).expect("both can be written");
    let turned = |change: &KeyChange| KeyChange {
        key: change.key.clone(),
        before: change.after.clone(),
        after: change.before.clone(),
    };
    assert_eq!(there.iter().map(turned).collect::<Vec<_>>(), back);
    assert!(there.iter().all(|change| change.before != change.after));
    let message = Applied { changes: there.clone(), ..Applied::default() }.fit();
    assert_eq!(message.changes.len() + message.left_out, there.len());
    assert_eq!(before.check_reload(after).is_ok(), after.check_reload(before).is_ok());
}

/// What a change comes to, if it is accepted.
fn apply(running: &Running, change: &Change) -> Option<Running> {
    let after = running.after(change).ok()?;
    let config = after.now();
    running.now().check_reload(config).expect("nothing else may differ");
    read(&printed(config)).expect("what was accepted can be kept");
    compare(running.now(), config);
    config.settle().is_ok().then_some(after)
}

/// The pages of a text from any place on end, and are all that is behind that place.
fn pages(text: &str, from: u32) {
    let (mut at, mut all) = (Some(from), String::new());
    while let Some(from) = at {
        let page = TextPage::of(text, from);
        assert!(page.next.is_none_or(|next| next > from));
        all.push_str(&page.text);
        at = page.next;
    }
    assert_eq!(text.get(text.floor_char_boundary(from as usize)..), Some(all.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic_control::messages::{PortAdd, PortDel};

    /// What the target is about is reached: files are read, and changes accepted and refused.
    #[test]
    fn inputs_get_as_far_as_a_changed_configuration() {
        let running = Running::new(Config::default(), read(BEFORE));
        let add = PortAdd { port: "tap:new".to_owned(), ..PortAdd::default() };
        let more = apply(&running, &Change::PortAdd(add.clone())).unwrap();
        assert_eq!(more.now().ports.len(), 3);
        assert!(apply(&more, &Change::PortAdd(add)).is_none());
        // A mirror that others need.
        let mirror = Change::PortDel(PortDel { name: "tap:mon".to_owned(), check: false });
        assert!(apply(&more, &mirror).is_none() && read("vlan = 1").is_none());
    }
}
