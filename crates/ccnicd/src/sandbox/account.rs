//! Becomes another user.

use std::str::FromStr;

use anyhow::Context;
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    Gid, Uid, set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::control::users::{gid_of, user_of};

/// A user and a group: `NAME[:GROUP]`. Without a group it is the user's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// The user.
    pub uid: u32,
    /// Its only group.
    pub gid: u32,
}

impl FromStr for Account {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Account> {
        let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        let (uid, own) = user_of(user)?;
        let gid = match group {
            Some(group) => gid_of(group)?,
            None => own.with_context(|| format!("user {uid} has no group of its own; write {uid}:GROUP"))?,
        };
        Ok(Account { uid, gid })
    }
}

impl Account {
    /// True when this process runs as it already.
    pub(super) fn is_ours(&self) -> bool {
        (geteuid().as_raw(), getegid().as_raw()) == (self.uid, self.gid)
    }

    /// This thread, and those that it starts, belong to it for good, without further groups. Permitted capabilities stay, effective
    /// ones go.
    pub(super) fn become_it(self) -> anyhow::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let become_it = || {
            set_keep_capabilities(true)?;
            set_thread_groups(&[])?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)
        };
        become_it().with_context(|| {
            format!(
                "could not become user {} of group {}: that takes CAP_SETUID and CAP_SETGID; start ccnicd as root, or as that user",
                self.uid, self.gid
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_written_as_elsewhere() {
        let parse = |text: &str| text.parse::<Account>();
        assert_eq!(parse("root").unwrap(), Account { uid: 0, gid: 0 });
        assert_eq!(parse("root:7").unwrap(), Account { uid: 0, gid: 7 });
        assert_eq!(parse("4242:4243").unwrap(), Account { uid: 4242, gid: 4243 });
        for (text, expected) in [
            ("4242", "write 4242:GROUP"),
            ("", "no user"),
            ("nobody-has-this-name", "no user"),
            ("root:no-such-group", "no group"),
            ("root:", "no group"),
            ("4294967295:7", "nobody's number"),
            ("root:4294967295", "nobody's number"),
            ("4294967296:7", "no user"),
        ] {
            let why = format!("{:#}", parse(text).unwrap_err());
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
