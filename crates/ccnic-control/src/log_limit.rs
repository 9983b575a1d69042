//! Limits on what a program can make a NIC log: a burst, then a few lines a second, with the number of lines left out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Lines of one connection: at once, and a second.
const CLIENT: (u32, u32) = (16, 1);
/// Lines of all connections of a user together: at once, and a second.
const USER: (u32, u32) = (64, 8);
/// Users that are remembered.
const USERS: usize = 1024;

/// A bucket of lines that fills by the second.
#[derive(Debug)]
struct LogLimit {
    burst: u32,
    per_second: u32,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    lines: u32,
    /// When `lines` was right.
    filled: Instant,
    left_out: u64,
}

impl LogLimit {
    fn new((burst, per_second): (u32, u32), now: Instant) -> LogLimit {
        LogLimit { burst, per_second, bucket: Mutex::new(Bucket { lines: burst, filled: now, left_out: 0 }) }
    }

    fn bucket(&self, now: Instant) -> MutexGuard<'_, Bucket> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = now.saturating_duration_since(bucket.filled).as_secs();
        if seconds > 0 {
            let more = seconds.saturating_mul(self.per_second.into());
            let lines = u64::from(bucket.lines).saturating_add(more).min(self.burst.into());
            bucket.lines = u32::try_from(lines).unwrap_or(self.burst);
            bucket.filled = now;
        }
        bucket
    }

    fn admits(&self, now: Instant) -> bool {
        self.bucket(now).lines > 0
    }

    /// Takes a line, if there is one, and the number of those left out before it.
    fn take(&self, now: Instant) -> Option<u64> {
        let mut bucket = self.bucket(now);
        if bucket.lines == 0 {
            bucket.left_out += 1;
            return None;
        }
        bucket.lines -= 1;
        Some(std::mem::take(&mut bucket.left_out))
    }

    fn is_full(&self, now: Instant) -> bool {
        self.bucket(now).lines == self.burst
    }
}

/// The limits of users. Shared by the threads of their connections.
#[derive(Debug, Default)]
pub(crate) struct UserLogs(Mutex<HashMap<u32, Arc<LogLimit>>>);

impl UserLogs {
    fn of(&self, uid: u32, now: Instant) -> Arc<LogLimit> {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= USERS {
            users.retain(|_, limit| !limit.is_full(now));
        }
        Arc::clone(users.entry(uid).or_insert_with(|| Arc::new(LogLimit::new(USER, now))))
    }

    /// A limit for a connection of a user.
    pub(crate) fn client(&self, uid: u32) -> ClientLog {
        let now = Instant::now();
        ClientLog { own: LogLimit::new(CLIENT, now), user: self.of(uid, now) }
    }

    /// Asks for a line about a user without a connection.
    pub(crate) fn line(&self, uid: u32) -> Option<LeftOut> {
        let now = Instant::now();
        self.of(uid, now).take(now).map(LeftOut::new)
    }
}

/// The limit of one connection, which counts against that of its user as well.
#[derive(Debug)]
pub(crate) struct ClientLog {
    own: LogLimit,
    user: Arc<LogLimit>,
}

impl ClientLog {
    /// Asks for a line.
    pub(crate) fn line(&self) -> Option<LeftOut> {
        self.line_at(Instant::now())
    }

    fn line_at(&self, now: Instant) -> Option<LeftOut> {
        if !self.user.admits(now) {
            self.own.bucket(now).left_out += 1;
            return None;
        }
        let left_out = self.own.take(now)?;
        Some(LeftOut::new(left_out + self.user.take(now).unwrap_or(0)))
    }
}

/// Leave to log a line, with the number of lines left out before it: the field `left_out` of the line, if there are any.
#[derive(Debug)]
pub(crate) struct LeftOut(pub(crate) Option<u64>);

impl LeftOut {
    fn new(lines: u64) -> LeftOut {
        LeftOut(Some(lines).filter(|lines| *lines > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_then_a_line_a_second_with_the_number_left_out() {
        let users = UserLogs::default();
        let client = users.client(7);
        let now = Instant::now();
        let lines = (0..100).filter_map(|_| client.line_at(now)).count();
        assert_eq!(lines, CLIENT.0 as usize);
        let later = client.line_at(now + Duration::from_secs(2)).unwrap();
        assert_eq!(later.0, Some(84));
        assert!(client.line_at(now + Duration::from_secs(2)).is_some());
        assert!(client.line_at(now + Duration::from_secs(2)).is_none());
        let rested = now + Duration::from_secs(1000);
        assert_eq!((0..100).filter(|_| client.line_at(rested).is_some()).count(), CLIENT.0 as usize);
    }

    #[test]
    fn new_connections_do_not_renew_the_limit_of_their_user() {
        let users = UserLogs::default();
        let lines = (0..1000).filter(|_| users.client(7).line().is_some()).count();
        assert!((USER.0 as usize..1000).contains(&lines), "{lines}");
        assert!(lines < 500, "{lines}: a burst, and some for each second that this took");
        assert!(users.client(8).line().is_some(), "another user has lines of its own");
        (0..10_000).for_each(|uid| _ = users.client(uid));
        assert!(users.0.lock().unwrap().len() <= USERS);
    }
}
