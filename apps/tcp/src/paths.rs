//! What is known of the paths to other hosts: the length of a packet that reaches them (RFC 1191, RFC 8201).

use std::collections::HashMap;
use std::net::IpAddr;

use crate::engine::Micros;

/// Hosts that are remembered.
const MOST: usize = 1024;
/// After this time longer packets are tried anew (RFC 1191 section 6.3).
pub(crate) const LIFETIME: Micros = 600_000_000;

/// Paths that carry less than the own link.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Bytes of the longest IP packet, and until when that is believed.
    known: HashMap<IpAddr, (usize, Micros)>,
}

impl Paths {
    pub(crate) fn new() -> Paths {
        Paths { known: HashMap::new() }
    }

    /// The path to this host carries so much; false when it was known to carry no more. Where there is no room, the one that would be forgotten
    /// first is: whoever makes errors up keeps no true one out.
    pub(crate) fn learn(&mut self, now: Micros, to: IpAddr, mtu: usize) -> bool {
        if self.known.len() >= MOST {
            self.known.retain(|_, (_, until)| *until > now);
        }
        let lower = self.known(now, to).is_none_or(|(known, _)| mtu < known);
        if !lower {
            return false;
        }
        if self.known.len() >= MOST && !self.known.contains_key(&to) {
            let first = self.known.iter().min_by_key(|(_, (_, until))| *until).map(|(host, _)| *host);
            first.and_then(|host| self.known.remove(&host));
        }
        self.known.insert(to, (mtu, now.saturating_add(LIFETIME)));
        true
    }

    /// Nothing was ever learnt.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What the path carries, and until when that is believed, if that is known.
    #[inline]
    pub(crate) fn known(&self, now: Micros, to: IpAddr) -> Option<(usize, Micros)> {
        self.known.get(&to).copied().filter(|(_, until)| *until > now)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn paths_are_bounded_in_number_and_time() {
        let host = |n: u32| IpAddr::from(n.to_be_bytes());
        let mut paths = Paths::new();
        assert_eq!(paths.known(0, host(0)), None);
        assert!((0..MOST as u32).all(|n| paths.learn(u64::from(n > 9), host(n), 1400)));
        assert!(paths.learn(1, host(5000), 1400), "one makes room");
        assert_eq!(paths.known.len(), MOST);
        assert_eq!((0..10).filter(|n| paths.known(1, host(*n)).is_none()).count(), 1, "of the first");
        assert!(
            !paths.learn(1, host(500), 1400)
                && !paths.learn(1, host(500), 1401)
                && paths.learn(1, host(500), 1300)
        );
        assert_eq!(paths.known(2, host(500)), Some((1300, LIFETIME + 1)));
        assert_eq!(paths.known(LIFETIME, host(6)), None);
        assert!(paths.learn(2 * LIFETIME, host(6000), 1400), "the old ones make room");
        assert_eq!(paths.known.len(), 1);
    }
}
