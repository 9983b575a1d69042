//! The table of connections: by the handle that the program has, and by the addresses that frames carry.
//!
//! Peers choose their addresses and ports, so the table of these is hashed with a secret key (SipHash, as the standard library does it):
//! nobody can choose many that fall together. That took 268 of the 743 instructions that the stack itself spent on a segment. So a look into
//! a small array comes first: by a few bits of the addresses, without a key, it says which connection was found last. Where the guess is
//! wrong, also because a peer has chosen its ports so, the table is asked as before, and nothing but the guess is lost.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use crate::engine::{Micros, NEVER};

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

/// What tells a connection from all others of a host that has one address of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    remote: Ipv6Addr,
    ports: [u16; 2],
}

impl Tuple {
    pub(crate) fn new(remote: IpAddr, remote_port: u16, local_port: u16) -> Tuple {
        let remote = match remote {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Tuple { remote, ports: [remote_port, local_port] }
    }

    /// A number that differs for most of the connections of a busy host.
    #[inline]
    fn mixed(&self) -> usize {
        let address = u128::from(self.remote);
        let [remote, local] = self.ports.map(u64::from);
        let bits = (address as u64) ^ (address >> 64) as u64 ^ remote << 32 ^ local << 48;
        (bits.wrapping_mul(SPREAD) >> (64 - GUESSES.trailing_zeros())) as usize
    }

    pub(crate) fn remote(&self) -> (IpAddr, u16) {
        (self.remote.to_canonical(), self.ports[0])
    }

    /// All of it, for a hash.
    pub(crate) fn bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(&self.remote.octets());
        bytes[16..18].copy_from_slice(&self.ports[0].to_be_bytes());
        bytes[18..].copy_from_slice(&self.ports[1].to_be_bytes());
        bytes
    }

    pub(crate) fn local_port(&self) -> u16 {
        self.ports[1]
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
        Entry::new(0, Tuple::new("10.0.0.1".parse().unwrap(), port, 7), Holder::Program, NEVER)
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
            let tuple = Tuple::new(remote, 5, 6);
            assert_eq!((tuple.remote(), tuple.local_port()), ((remote, 5), 6));
        }
    }
}
