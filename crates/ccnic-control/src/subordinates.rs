//! Whose a uid is: ranges of subordinate uids (subuid(5)).
//!
//! A user to whom `/etc/subuid` gives a range can become each of its 65 536 uids, as containers without root do. Were each of them a user of
//! its own, one user could take what is meant for thousands.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::files;

const SUBUID: &str = "/etc/subuid";
const PASSWD: &str = "/etc/passwd";
/// Bytes of such a file at most, and ranges that are looked at.
const LONGEST: u64 = 4 << 20;
const RANGES: usize = 16_384;
/// Owners of owners of ranges.
const DEPTH: usize = 4;

/// Ranges of uids that belong to other users.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Subordinates(Vec<Owned>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owned {
    first: u32,
    last: u32,
    owner: u32,
}

impl Subordinates {
    /// Of this machine. Ranges that come from elsewhere (LDAP, say) are not known.
    pub(crate) fn of_system() -> io::Result<Subordinates> {
        Subordinates::read(Path::new(SUBUID), Path::new(PASSWD))
    }

    fn read(subuid: &Path, passwd: &Path) -> io::Result<Subordinates> {
        let text = |path: &Path| match files::read_text(path, LONGEST) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            other => {
                other.map_err(|e| io::Error::new(e.kind(), format!("could not read {}: {e}", path.display())))
            }
        };
        let ranges = text(subuid)?;
        // Without ranges there is nobody to look up.
        let users = if ranges.is_empty() { String::new() } else { text(passwd)? };
        Ok(Subordinates::parse(&ranges, &users))
    }

    /// Lines of `OWNER:FIRST:COUNT`, where an owner is a uid or a name of passwd(5). Others are left out, as shadow-utils does.
    pub(crate) fn parse(subuid: &str, passwd: &str) -> Subordinates {
        let uids: HashMap<&str, u32> = passwd
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(':');
                Some((fields.next()?, fields.nth(1)?.parse().ok()?))
            })
            .collect();
        let range = |line: &str| {
            let mut fields = line.trim().split(':');
            let (owner, first, count) = (fields.next()?, fields.next()?, fields.next()?);
            let owner = uids.get(owner).copied().or_else(|| owner.parse().ok())?;
            let (first, count) = (first.parse::<u32>().ok()?, count.parse::<u64>().ok()?);
            let last = u64::from(first).saturating_add(count.checked_sub(1)?);
            let last = u32::try_from(last).unwrap_or(u32::MAX);
            fields.next().is_none().then_some(Owned { first, last, owner })
        };
        Subordinates(subuid.lines().filter_map(range).take(RANGES).collect())
    }

    /// The user that a uid counts as: the owner of the first range that it is in, or itself.
    pub(crate) fn user_of(&self, uid: u32) -> u32 {
        let owner =
            |uid| self.0.iter().find(|range| (range.first..=range.last).contains(&uid)).map(|r| r.owner);
        (0..DEPTH).try_fold(uid, |uid, _| owner(uid).ok_or(uid)).unwrap_or_else(|uid| uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbroken\nbob:x:1001:1001::/:/\n";

    #[test]
    fn uids_of_a_range_are_their_owners() {
        let text = "ann:100000:65536\n1001:165536:65536\n";
        let ranges = Subordinates::parse(text, PASSWD);
        for (uid, user) in [
            (99_999, 99_999),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 1001),
            (231_071, 1001),
            (231_072, 231_072),
            (0, 0),
            (1000, 1000),
        ] {
            assert_eq!(ranges.user_of(uid), user, "{uid}");
        }
    }

    #[test]
    fn what_is_no_range_is_left_out() {
        let text = "# a comment\n\nnobody-known:1:5\nann:1:0\nann:-1:5\nann:4294967296:5\nann:7\nann:7:1:1\nann:x:y\n:9:1\nann:50:1";
        assert_eq!(Subordinates::parse(text, PASSWD).0, [Owned { first: 50, last: 50, owner: 1000 }]);
        let to_the_end = Subordinates::parse("ann:4294967290:18446744073709551615", PASSWD);
        assert_eq!((to_the_end.user_of(u32::MAX), to_the_end.user_of(4_294_967_289)), (1000, 4_294_967_289));
        assert_eq!(Subordinates::parse(&"1:1:1\n".repeat(RANGES + 9), "").0.len(), RANGES);
    }

    #[test]
    fn owners_of_owners_count_and_circles_end() {
        let nested = Subordinates::parse("ann:2000:10\n2005:3000:10", PASSWD);
        assert_eq!(nested.user_of(3001), 1000);
        let circle = Subordinates::parse("5:6:1\n6:5:1\n7:7:1", PASSWD);
        assert!([5, 6].contains(&circle.user_of(5)) && circle.user_of(7) == 7);
    }

    #[test]
    fn a_machine_without_the_file_has_no_ranges_and_a_pipe_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let (missing, pipe) = (directory.path().join("missing"), directory.path().join("pipe"));
        assert_eq!(Subordinates::read(&missing, &missing).unwrap(), Subordinates::default());
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(Subordinates::read(&pipe, &missing).unwrap_err().to_string().contains("no regular file"));
    }
}
