//! Users of this machine by name.

use anyhow::{Context, bail};

/// The user database. Users of other sources (LDAP, say) are named by their number.
const PASSWD: &str = "/etc/passwd";

/// The uid that `user`, a name or a number, stands for.
///
/// # Errors
/// When there is no such user.
pub fn uid_of(user: &str) -> anyhow::Result<u32> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let passwd = std::fs::read_to_string(PASSWD).with_context(|| format!("could not read {PASSWD}"))?;
    match find(&passwd, user) {
        Some(uid) => Ok(uid),
        None => bail!("there is no user {user:?} in {PASSWD}; give a name from there, or a uid"),
    }
}

/// The uid of a user in a file of the form of `passwd(5)`.
fn find(passwd: &str, user: &str) -> Option<u32> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    users.find_map(|mut fields| (fields.next() == Some(user)).then(|| fields.nth(1)).flatten()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\n\nbroken\ndpdk:x:998:997::/:/sbin/nologin\nodd:x:none:1\n";
        assert_eq!((find(passwd, "root"), find(passwd, "dpdk")), (Some(0), Some(998)));
        assert_eq!(
            (find(passwd, "dpd"), find(passwd, ""), find(passwd, "broken"), find(passwd, "odd")),
            (None, None, None, None)
        );
        assert_eq!(uid_of("4294967294").unwrap(), 4_294_967_294);
        let why = uid_of("-1").unwrap_err().to_string();
        assert!(why.contains("no user \"-1\""), "{why}");
    }
}
