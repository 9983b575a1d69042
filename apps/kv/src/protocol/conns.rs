//! Who is connected and what is listened to: `stats conns` asks from any thread, so the threads write it where all can read.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stats::put;
use super::{Context, Next};
use crate::store::work::KEY;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A UDP port.
    Udp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// The client's end of a Unix socket.
    Unnamed,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, address) = match self {
            Endpoint::Unix(path) => return write!(f, "unix:{}", path.display()),
            Endpoint::Unnamed => return f.write_str("?:<AF 0>"),
            Endpoint::Tcp(address) => ("tcp", address),
            Endpoint::Udp(address) => ("udp", address),
        };
        // A client of a socket for both versions of IP is shown as what it is.
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        write!(f, "{name}{}:{address}", if address.is_ipv6() { "6" } else { "" })
    }
}

/// What a connection does, in memcached's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "memcached's states of these names")]
pub enum Activity {
    Listening,
    Read,
    ParseCmd,
    Nread,
    Swallow,
    Mwrite,
}

/// By number.
const NAMES: [&str; 6] =
    ["conn_listening", "conn_read", "conn_parse_cmd", "conn_nread", "conn_swallow", "conn_mwrite"];

#[derive(Debug)]
struct Entry {
    address: Endpoint,
    /// The server's end; none for what is listened to.
    server: Option<Endpoint>,
    activity: AtomicU8,
    /// When it was last heard of, Unix time.
    heard: AtomicU32,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Connections {
    entries: Mutex<BTreeMap<usize, Arc<Entry>>>,
    next: AtomicUsize,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection at this Unix time, or with no server's end something that is listened to. It is there until what is returned is
    /// dropped.
    pub fn add(self: &Arc<Self>, address: Endpoint, server: Option<Endpoint>, now: u32) -> Listed {
        let listening = server.is_none() && matches!(address, Endpoint::Tcp(_) | Endpoint::Unix(_));
        let activity = if listening { Activity::Listening } else { Activity::Read };
        let (activity, heard) = (AtomicU8::new(activity as u8), AtomicU32::new(now));
        let entry = Arc::new(Entry { address, server, activity, heard });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, entry.clone());
        Listed { all: self.clone(), number, entry }
    }
}

/// A connection's place in the list.
#[derive(Debug)]
pub struct Listed {
    all: Arc<Connections>,
    number: usize,
    entry: Arc<Entry>,
}

impl Listed {
    /// It does this now.
    pub fn does(&self, activity: Activity) {
        self.entry.activity.store(activity as u8, Ordering::Relaxed);
    }

    /// It was heard of at this Unix time.
    pub fn heard(&self, now: u32) {
        self.entry.heard.store(now, Ordering::Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.all.lock().remove(&self.number);
    }
}

/// Connections that are told of in one step.
const AT_ONCE: usize = 64;

/// `stats conns`, from this number on. The numbers before the colons are where memcached has file descriptors: connections through a NIC have none.
pub(super) fn conns(mut from: usize, context: &mut Context<'_, '_>) -> Next {
    loop {
        let list = context.server.connections.lock();
        let next: Vec<_> =
            list.range(from..).take(AT_ONCE).map(|(number, entry)| (*number, entry.clone())).collect();
        drop(list);
        let Some((last, _)) = next.last() else { return context.answer(false, "END") };
        from = last + 1;
        context.session.charge(next.len() * KEY);
        next.iter().for_each(|(number, entry)| conn(*number, entry, context));
        if context.is_enough() {
            return Next::More(from);
        }
    }
}

/// One connection.
fn conn(number: usize, entry: &Entry, context: &mut Context<'_, '_>) {
    let activity = entry.activity.load(Ordering::Relaxed);
    let since = context.session.now.saturating_sub(entry.heard.load(Ordering::Relaxed));
    if matches!(entry.address, Endpoint::Udp(_)) {
        put(context, &format!("{number}:UDP"), "UDP");
    }
    put(context, &format!("{number}:addr"), &entry.address);
    if let Some(server) = &entry.server {
        put(context, &format!("{number}:listen_addr"), server);
    }
    put(context, &format!("{number}:state"), NAMES[usize::from(activity) % NAMES.len()]);
    put(context, &format!("{number}:secs_since_last_cmd"), since);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_written_as_memcached_writes_them() {
        let tcp = |text: &str| Endpoint::Tcp(text.parse().unwrap()).to_string();
        assert_eq!(tcp("10.0.0.1:11211"), "tcp:10.0.0.1:11211");
        assert_eq!(tcp("[::1]:80"), "tcp6:[::1]:80");
        assert_eq!(tcp("[::ffff:10.0.0.1]:80"), "tcp:10.0.0.1:80");
        assert_eq!(Endpoint::Udp("[::]:1".parse().unwrap()).to_string(), "udp6:[::]:1");
        assert_eq!(Endpoint::Unix("/run/kv".into()).to_string(), "unix:/run/kv");
    }
}
