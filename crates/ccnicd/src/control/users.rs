//! Users of this machine by name.

use anyhow::{Context, bail, ensure};
use ccnic_control::files;

/// The databases of users and groups. Those of other sources (LDAP, say) are named by their number.
const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";
/// Bytes of such a file at most.
const LONGEST: u64 = 64 << 20;

/// The uid that `user`, a name or a number, stands for.
///
/// # Errors
/// When there is no such user.
pub fn uid_of(user: &str) -> anyhow::Result<u32> {
    match user.parse() {
        Ok(uid) => somebody(uid),
        Err(_) => user_of(user).map(|(uid, _)| uid),
    }
}

/// The uid that `user`, a name or a number, stands for, and the group of its own. A number that the database does not know has none.
///
/// # Errors
/// When there is no such user.
pub fn user_of(user: &str) -> anyhow::Result<(u32, Option<u32>)> {
    let passwd = read(PASSWD)?;
    let number = user.parse().ok();
    match find(&passwd, user, number) {
        Some((uid, group)) => Ok((somebody(uid)?, group.filter(|gid| *gid != u32::MAX))),
        None => match number {
            Some(uid) => Ok((somebody(uid)?, None)),
            None => bail!("there is no user {user:?} in {PASSWD}; give a name from there, or a uid"),
        },
    }
}

/// The gid that `group`, a name or a number, stands for.
///
/// # Errors
/// When there is no such group.
pub fn gid_of(group: &str) -> anyhow::Result<u32> {
    if let Ok(gid) = group.parse() {
        return somebody(gid);
    }
    match find(&read(GROUP)?, group, None) {
        Some((gid, _)) => somebody(gid),
        None => bail!("there is no group {group:?} in {GROUP}; give a name from there, or a gid"),
    }
}

/// A uid or gid that the kernel takes for one. To chown(2) and setresuid(2), the largest number says "leave it as it is": a daemon that
/// were to become that user would stay root.
fn somebody(id: u32) -> anyhow::Result<u32> {
    ensure!(id != u32::MAX, "{id} is nobody's number: give one below it, or a name");
    Ok(id)
}

fn read(file: &str) -> anyhow::Result<String> {
    files::read_text(file.as_ref(), LONGEST).with_context(|| {
        format!("could not read {file} (a daemon that runs cannot, once it was replaced: give a number, or restart ccnicd)")
    })
}

/// The number of an entry, and the one behind it, by name or by number, in a file of the form of `passwd(5)` or `group(5)`.
fn find(entries: &str, name: &str, number: Option<u32>) -> Option<(u32, Option<u32>)> {
    let mut entries = entries.lines().map(|line| line.split(':'));
    entries.find_map(|mut fields| {
        let named = fields.next() == Some(name);
        let found = fields.nth(1)?.parse().ok().filter(|found| named || Some(*found) == number)?;
        Some((found, fields.next().and_then(|next| next.parse().ok())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\n\nbroken\ndpdk:x:998:997::/:/sbin/nologin\nodd:x:none:1\n";
        let named = |name| find(passwd, name, None);
        assert_eq!((named("root"), named("dpdk")), (Some((0, Some(0))), Some((998, Some(997)))));
        for name in ["dpd", "", "broken", "odd"] {
            assert_eq!(named(name), None, "{name}");
        }
        assert_eq!(find(passwd, "998", Some(998)), Some((998, Some(997))));
        assert_eq!(find("a:x:5:user,other\nb:x:6:", "b", None), Some((6, None)), "a group");
        assert_eq!(uid_of("4294967294").unwrap(), 4_294_967_294);
        let why = uid_of("-1").unwrap_err().to_string();
        assert!(why.contains("no user \"-1\""), "{why}");
        for why in [
            uid_of("4294967295").unwrap_err(),
            gid_of("4294967295").unwrap_err(),
            user_of("4294967295").unwrap_err(),
        ] {
            assert!(why.to_string().contains("4294967295 is nobody's number"), "{why}");
        }
        assert!(uid_of("4294967296").is_err());
    }
}
