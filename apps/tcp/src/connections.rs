//! The table of connections: by the handle that the program has, and by the addresses that frames carry.
//!
//! Peers choose their addresses and ports, so the table of these is hashed with a secret key (SipHash, as the standard library does it):
//! nobody can choose many that fall together. That took 268 of the 743 instructions that the stack itself spent on a segment. So a look into
//! a small array comes first: by a few bits of the addresses, without a key, it says which connection was found last. Where the guess is
//! wrong, also because a peer has chosen its ports so, the table is asked as before, and nothing but the guess is lost.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::engine::{Micros, NEVER};
use crate::local::Kind;

/// Places of the array of guesses.
const GUESSES: usize = 4096;
/// An odd number near 2^64 divided by the golden ratio: a product with it has the differences of all bits in its highest ones (Knuth,
/// volume 3, section 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A connection, as the program names it. A handle of a connection that has been closed names no other one.
/// Example: [`Stack::connect`](crate::Stack::connect).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn {
    pub(crate) index: u32,
    generation: u32,
}

impl Conn {
    pub(crate) const fn new(index: u32, generation: u32) -> Conn {
        Conn { index, generation }
    }

    /// A small number, different for each connection that is open, and used again after it is closed: an index for a program's own table.
    ///
    /// ```no_run
    /// # let mut stack = ccnic_tcp::Stack::open("/tmp/nic.sock", &ccnic_tcp::Options::new("10.9.0.2/24".parse()?))?;
    /// # let listener = stack.listen(7, 16)?;
    /// let mut bytes_of = Vec::new(); // what each connection has sent
    /// while let Some(conn) = stack.accept(listener) {
    ///     bytes_of.resize(bytes_of.len().max(conn.index() + 1), 0);
    ///     bytes_of[conn.index()] = 0; // the place of one that is closed
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// What tells a connection from all others of a host that has one address of each kind: of the own one that kind, which a peer may choose
/// freely between the two of IPv6. In words, since each segment's is compared with that of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    /// The remote address; of IPv4 as one of IPv6.
    remote: [u64; 2],
    /// The kind, the remote port and the local one, from the highest bits on.
    ends: u64,
}

impl Tuple {
    /// Of a connection at the own address of this kind.
    #[inline]
    pub(crate) fn new(kind: Kind, local_port: u16, remote: SocketAddr) -> Tuple {
        let words = match remote {
            SocketAddr::V4(remote) => [0, 0xffff << 32 | u64::from(u32::from(*remote.ip()))],
            SocketAddr::V6(remote) => {
                let bits = u128::from(*remote.ip());
                [(bits >> 64) as u64, bits as u64]
            }
        };
        let ends = (kind as u64) << 32 | u64::from(remote.port()) << 16 | u64::from(local_port);
        Tuple { remote: words, ends }
    }

    pub(crate) fn between(local: SocketAddr, remote: SocketAddr) -> Tuple {
        Tuple::new(Kind::of(local.ip()), local.port(), remote)
    }

    /// A number that differs for most of the connections of a busy host.
    #[inline]
    fn mixed(&self) -> usize {
        let bits = self.remote[0] ^ self.remote[1] ^ self.ends << 32;
        (bits.wrapping_mul(SPREAD) >> (64 - GUESSES.trailing_zeros())) as usize
    }

    pub(crate) fn remote(&self) -> (IpAddr, u16) {
        let [high, low] = self.remote.map(u128::from);
        let address = Ipv6Addr::from(high << 64 | low);
        let is_ipv4 = self.ends >> 32 == Kind::Ipv4 as u64;
        (if is_ipv4 { address.to_canonical() } else { address.into() }, (self.ends >> 16) as u16)
    }

    /// All of it, for a hash.
    pub(crate) fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let words = [self.remote[0], self.remote[1], self.ends];
        bytes.chunks_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_be_bytes()));
        bytes
    }

    pub(crate) fn local_port(&self) -> u16 {
        self.ends as u16
    }
}

/// Who holds a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nobody yet: its handshake with this listener is under way.
    Handshake(u16),
    /// This listener's queue of connections to be accepted.
    Queue(u16),
    /// The program.
    Program,
    /// Nobody any more: the program has closed it, and its last segments are under way.
    Nobody,
}

/// A connection, and what the stack knows about it.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) tcp: T,
    pub(crate) tuple: Tuple,
    pub(crate) holder: Holder,
    /// In the list of those that may have to send.
    pub(crate) dirty: bool,
    /// In the list of those about which the program may have to be told.
    pub(crate) touched: bool,
    /// In the list of those that wait for a neighbour.
    pub(crate) unresolved: bool,
    /// A write was cut short: the program wants to know of room.
    pub(crate) wants_room: bool,
    /// It has been established, which the program has been told.
    pub(crate) opened: bool,
    /// Counted among those in TIME-WAIT.
    pub(crate) waits: bool,
    /// Why it ended, when not by both sides.
    pub(crate) error: Option<io::ErrorKind>,
    /// When it is given up.
    pub(crate) expires: Micros,
    /// When it has to be looked at.
    pub(crate) deadline: Micros,
    /// The earliest time at which the timers ask for it.
    pub(crate) queued: Micros,
}

impl<T> Entry<T> {
    pub(crate) fn new(tcp: T, tuple: Tuple, holder: Holder, expires: Micros) -> Entry<T> {
        Entry {
            tcp,
            tuple,
            holder,
            dirty: false,
            touched: false,
            unresolved: false,
            wants_room: false,
            opened: false,
            waits: false,
            error: None,
            expires,
            deadline: NEVER,
            queued: NEVER,
        }
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    entry: Option<Entry<T>>,
}

/// All connections of a stack.
#[derive(Debug)]
pub(crate) struct Connections<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    by_tuple: HashMap<Tuple, Conn>,
    /// By a tuple's mixed bits, where the connection is in `slots` that was last looked up there.
    guesses: Box<[u32; GUESSES]>,
}

impl<T> Connections<T> {
    pub(crate) fn new() -> Connections<T> {
        let guesses = Box::new([0; GUESSES]);
        Connections { slots: Vec::new(), free: Vec::new(), by_tuple: HashMap::new(), guesses }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_tuple.len()
    }

    pub(crate) fn add(&mut self, entry: Entry<T>) -> Conn {
        let tuple = entry.tuple;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, entry: None });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.entry = Some(entry);
        let conn = Conn::new(index, slot.generation);
        self.by_tuple.insert(tuple, conn);
        conn
    }

    /// The connection of a frame.
    #[inline]
    pub(crate) fn find(&mut self, tuple: &Tuple) -> Option<Conn> {
        let guess = self.guesses[tuple.mixed()];
        if let Some(Slot { generation, entry: Some(entry) }) = self.slots.get(guess as usize)
            && entry.tuple == *tuple
        {
            return Some(Conn::new(guess, *generation));
        }
        self.look_up(tuple)
    }

    #[inline(never)]
    fn look_up(&mut self, tuple: &Tuple) -> Option<Conn> {
        let conn = self.by_tuple.get(tuple).copied()?;
        self.guesses[tuple.mixed()] = conn.index;
        Some(conn)
    }

    /// Whether there is such a connection.
    pub(crate) fn has(&self, tuple: &Tuple) -> bool {
        self.by_tuple.contains_key(tuple)
    }

    #[inline]
    pub(crate) fn get(&self, conn: Conn) -> Option<&Entry<T>> {
        let slot = self.slots.get(conn.index())?;
        slot.entry.as_ref().filter(|_| slot.generation == conn.generation)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, conn: Conn) -> Option<&mut Entry<T>> {
        let slot = self.slots.get_mut(conn.index())?;
        slot.entry.as_mut().filter(|_| slot.generation == conn.generation)
    }

    /// All connections that one of these holds. Looks at all there are.
    pub(crate) fn held_by(&self, holders: [Holder; 2]) -> Vec<Conn> {
        let held = |conn: &Conn| self.get(*conn).is_some_and(|entry| holders.contains(&entry.holder));
        self.by_tuple.values().copied().filter(held).collect()
    }

    /// Forgets a connection; its handles are worth nothing from now on.
    pub(crate) fn remove(&mut self, conn: Conn) -> Option<Entry<T>> {
        let slot = self.slots.get_mut(conn.index())?;
        if slot.generation != conn.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(conn.index);
        self.by_tuple.remove(&entry.tuple);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    fn entry(port: u16) -> Entry<u8> {
        let remote = SocketAddr::new("10.0.0.1".parse().unwrap(), port);
        Entry::new(0, Tuple::between("10.0.0.2:7".parse().unwrap(), remote), Holder::Program, NEVER)
    }

    #[test]
    fn a_handle_never_names_another_connection() {
        let mut table = Connections::new();
        let first = table.add(entry(1));
        assert_eq!(table.find(&entry(1).tuple), Some(first));
        assert!(table.remove(first).is_some() && table.remove(first).is_none());
        let second = table.add(entry(2));
        assert_eq!(second.index(), first.index());
        assert!(table.get(first).is_none() && table.get(second).is_some());
        assert_eq!((table.len(), table.find(&entry(1).tuple)), (1, None));
    }

    #[test]
    fn tuples_that_fall_on_one_guess_are_found_all_the_same() {
        let mut table = Connections::new();
        let all: Vec<_> = (1..=u16::MAX).map(|port| (port, entry(port).tuple.mixed())).collect();
        let together: Vec<_> =
            all.iter().filter(|(_, mixed)| *mixed == all[0].1).map(|(port, _)| *port).collect();
        assert!(together.len() > 2, "16 of 65535 are to be expected");
        let conns: Vec<_> = together.iter().map(|port| table.add(entry(*port))).collect();
        for _ in 0..2 {
            let found = together.iter().map(|port| table.find(&entry(*port).tuple));
            assert!(found.eq(conns.iter().copied().map(Some)));
        }
        // One whose place another has got is not taken for it.
        table.remove(*conns.last().unwrap()).unwrap();
        let other = table.add(entry(all[1].0));
        assert_eq!(
            (table.find(&entry(*together.last().unwrap()).tuple), other.index()),
            (None, conns.last().unwrap().index())
        );
    }

    #[test]
    fn the_ports_of_a_peer_have_guesses_of_their_own() {
        let mixed: std::collections::HashSet<_> =
            (40_000..40_096).map(|port| entry(port).tuple.mixed()).collect();
        assert_eq!(mixed.len(), 96);
    }

    #[test]
    fn a_tuple_says_what_it_was_made_of() {
        for address in ["10.0.0.1", "fd00::1"] {
            let remote: IpAddr = address.parse().unwrap();
            let local: IpAddr = if remote.is_ipv4() { "10.0.0.2" } else { "fd00::2" }.parse().unwrap();
            let tuple = Tuple::between(SocketAddr::new(local, 6), SocketAddr::new(remote, 5));
            assert_eq!((tuple.remote(), tuple.local_port()), ((remote, 5), 6));
        }
    }

    /// The same remote end, by each address of this host: with IPv6 it may be one that looks like IPv4.
    #[test]
    fn own_addresses_tell_connections_apart() {
        let mut table = Connections::new();
        let ends = [
            ("10.0.0.2:6", "10.0.0.1:5"),
            ("[fd00::2]:6", "[::ffff:10.0.0.1]:5"),
            ("[fe80::2]:6", "[::ffff:10.0.0.1]:5"),
        ];
        let tuples =
            ends.map(|(local, remote)| Tuple::between(local.parse().unwrap(), remote.parse().unwrap()));
        let conns = tuples.map(|tuple| table.add(Entry::new(0u8, tuple, Holder::Program, NEVER)));
        for _ in 0..2 {
            assert_eq!(tuples.map(|tuple| table.find(&tuple)), conns.map(Some));
        }
        let remotes = tuples.map(|tuple| SocketAddr::from(tuple.remote()).to_string());
        assert_eq!(remotes, ends.map(|(_, remote)| remote.to_owned()));
        let bytes: std::collections::HashSet<_> = tuples.iter().map(Tuple::bytes).collect();
        assert_eq!(bytes.len(), 3, "their numbers have nothing in common");
    }
}
