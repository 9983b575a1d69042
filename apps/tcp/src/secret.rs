//! Numbers that nobody else can compute: initial sequence numbers, SYN cookies, ports of connections to others, identifications of fragments.
//!
//! All are a keyed hash (SipHash-2-4) of the ends of the connection, whose key is drawn anew for each stack. A host has one address of each
//! kind, so the kind says the local one.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use siphasher::sip::SipHasher24;

use crate::connections::Tuple;
use crate::engine::Micros;

/// The purpose of a hash, so that none says anything about another.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Isn = 1,
    Cookie = 2,
    Port = 3,
    Step = 4,
    Ident = 5,
}

/// Segment sizes that a cookie can name; a larger one is cut to the next of them, which are those of the usual links and of tunnels on them.
/// The first is the least that the engine sends.
const SIZES: [u16; 8] = [48, 536, 1220, 1360, 1400, 1440, 1460, 8940];
/// Microseconds of a cookie's period, as a shift: 16.8 s. A cookie is good in its own and in the next one.
const PERIOD: u32 = 24;
/// The longest time for which a cookie is good.
pub(crate) const LIFETIME: Micros = 2 << PERIOD;
/// Between the last sequence number of a connection and the first of its successor between the same ends.
const APART: u32 = 65_536;

/// The key of a stack.
#[derive(Clone, Copy)]
pub(crate) struct Secret([u64; 2]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret") // a log is no place for a key
    }
}

impl Secret {
    pub(crate) fn new(key: [u64; 2]) -> Secret {
        Secret(key)
    }

    fn hash(&self, purpose: Purpose, tuple: &Tuple, more: [u32; 2]) -> u64 {
        let mut bytes = [0; 33];
        bytes[..24].copy_from_slice(&tuple.bytes());
        bytes[24..28].copy_from_slice(&more[0].to_le_bytes());
        bytes[28..32].copy_from_slice(&more[1].to_le_bytes());
        bytes[32] = purpose as u8;
        SipHasher24::new_with_keys(self.0[0], self.0[1]).hash(&bytes)
    }

    /// The initial sequence number of a connection (RFC 6528 section 3): a clock of 4 us and a hash of its ends. `after` is the last number of
    /// its predecessor between the same ends, which may have sent faster than that clock runs (RFC 9293 section 3.6.1).
    pub(crate) fn isn(&self, now: Micros, tuple: &Tuple, after: Option<u32>) -> u32 {
        let isn = ((now >> 2) as u32).wrapping_add(self.hash(Purpose::Isn, tuple, [0; 2]) as u32);
        match after {
            Some(last) if (isn.wrapping_sub(last) as i32) < APART as i32 => last.wrapping_add(APART),
            _ => isn,
        }
    }

    fn cookie_base(&self, period: u64, tuple: &Tuple, remote_isn: u32) -> u32 {
        self.hash(Purpose::Cookie, tuple, [remote_isn, period as u32]) as u32
    }

    /// The initial sequence number that answers a SYN without keeping anything of it (RFC 4987 section 3.6): it says the peer's segment
    /// size, and when it was made.
    pub(crate) fn cookie(&self, now: Micros, tuple: &Tuple, remote_isn: u32, size: u16) -> u32 {
        let size = SIZES.iter().rposition(|s| *s <= size).unwrap_or(0);
        self.cookie_base(now >> PERIOD, tuple, remote_isn).wrapping_add(size as u32)
    }

    /// The segment size that a cookie says; `None` for what is none, or an old one. A guess is right once in 2^28 times.
    pub(crate) fn read_cookie(
        &self,
        now: Micros,
        tuple: &Tuple,
        remote_isn: u32,
        cookie: u32,
    ) -> Option<u16> {
        let period = now >> PERIOD;
        [Some(period), period.checked_sub(1)].into_iter().flatten().find_map(|period| {
            let size = cookie.wrapping_sub(self.cookie_base(period, tuple, remote_isn));
            SIZES.get(size as usize).copied()
        })
    }

    /// The first port to try for a connection to `remote` (RFC 6056 section 3.3.3): another one for each of them.
    pub(crate) fn port(&self, local: IpAddr, remote: SocketAddr) -> u64 {
        self.hash(Purpose::Port, &Tuple::between(SocketAddr::new(local, 0), remote), [0; 2])
    }

    /// Where the identifications of fragments to a host begin (RFC 7739 section 5.3).
    pub(crate) fn ident(&self, to: IpAddr, protocol: u8) -> u64 {
        self.hash(
            Purpose::Ident,
            &Tuple::between(SocketAddr::new(to, 0), SocketAddr::new(to, protocol.into())),
            [0; 2],
        )
    }

    /// Steps by which the counter of ports goes on after so many steps: 1 to 8 (RFC 6056 section 3.3.5).
    pub(crate) fn step(&self, counter: u64) -> u64 {
        let nobody = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        let nobody = Tuple::between(nobody, nobody);
        1 + self.hash(Purpose::Step, &nobody, [counter as u32, (counter >> 32) as u32]) % 8
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use std::collections::HashSet;

    use super::*;

    fn tuple(port: u16) -> Tuple {
        Tuple::between("10.9.0.1:7".parse().unwrap(), SocketAddr::new("10.9.0.77".parse().unwrap(), port))
    }

    /// RFC 6528 section 3: between the same ends the numbers follow a clock of 4 us.
    #[test]
    fn numbers_between_the_same_ends_go_up_with_the_clock() {
        let secret = Secret::new([1, 2]);
        let first = secret.isn(0, &tuple(1), None);
        assert_eq!(secret.isn(4_000_000, &tuple(1), None), first.wrapping_add(1_000_000));
        assert_eq!(secret.isn(4 << 32, &tuple(1), None), first, "in 4.8 hours they are used up");
        // A predecessor that has sent more than a byte in 4 us.
        let last = first.wrapping_add(1 << 30);
        assert_eq!(secret.isn(1000, &tuple(1), Some(last)), last.wrapping_add(65_536));
        assert_eq!(secret.isn(4_000_000, &tuple(1), Some(first)), first.wrapping_add(1_000_000));
    }

    /// Those of one's own connections say nothing about others': neither the differences of two ports are the same in two places, nor do
    /// they repeat.
    #[test]
    fn numbers_between_other_ends_have_nothing_in_common() {
        let secrets = [Secret::new([1, 2]), Secret::new([1, 3])];
        let mut differences = HashSet::new();
        for (secret, port) in secrets.iter().flat_map(|s| (1..1000).map(move |port| (s, port))) {
            let [one, next] = [port, port + 1].map(|port| secret.isn(0, &tuple(port), None));
            differences.insert(next.wrapping_sub(one));
        }
        assert!(differences.len() >= 1990, "{} of 1998", differences.len());
    }

    #[test]
    fn a_cookie_says_the_segment_size_for_a_while() {
        let secret = Secret::new([3, 4]);
        let now = 1_000_000_000;
        for (size, said) in [
            (0, 48),
            (48, 48),
            (535, 48),
            (536, 536),
            (1399, 1360),
            (1460, 1460),
            (8960, 8940),
            (u16::MAX, 8940),
        ] {
            let cookie = secret.cookie(now, &tuple(1), 99, size);
            let read = |later| secret.read_cookie(now + later, &tuple(1), 99, cookie);
            assert_eq!([0, 16_000_000].map(read), [Some(said); 2]);
            assert_eq!(read(LIFETIME), None);
            // Whoever else's it is, it is none.
            assert_eq!(secret.read_cookie(now, &tuple(2), 99, cookie), None);
            assert_eq!(secret.read_cookie(now, &tuple(1), 98, cookie), None);
            assert_eq!(Secret::new([4, 3]).read_cookie(now, &tuple(1), 99, cookie), None);
        }
    }

    /// Of a million guesses that miss, none is taken: eight values in two periods are good, of 2^32.
    #[test]
    fn a_cookie_is_hardly_guessed() {
        let (secret, now) = (Secret::new([5, 6]), 1_000_000_000);
        let good = |guess: u32| secret.read_cookie(now, &tuple(1), 1, guess).is_some();
        let guesses = (0..1_000_000u32).map(|guess| guess.wrapping_mul(0x9e37_79b1));
        assert_eq!(guesses.filter(|guess| good(*guess)).count(), 0);
        let cookie = secret.cookie(now, &tuple(1), 1, 0);
        let near = (0..16).filter(|more| good(cookie.wrapping_sub(4).wrapping_add(*more)));
        assert_eq!(near.count(), 8);
    }
}
