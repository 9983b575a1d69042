//! The table of connections: by the handle that the program has, and by the addresses that frames carry.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use crate::engine::{Micros, NEVER};

/// A connection, as the program names it. A handle of a connection that has been closed names no other one.
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

    pub(crate) fn remote(&self) -> (IpAddr, u16) {
        (self.remote.to_canonical(), self.ports[0])
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
}

impl<T> Connections<T> {
    pub(crate) fn new() -> Connections<T> {
        Connections { slots: Vec::new(), free: Vec::new(), by_tuple: HashMap::new() }
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

    #[inline]
    pub(crate) fn find(&self, tuple: &Tuple) -> Option<Conn> {
        self.by_tuple.get(tuple).copied()
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
    fn a_tuple_says_what_it_was_made_of() {
        for address in ["10.0.0.1", "fd00::1"] {
            let remote: IpAddr = address.parse().unwrap();
            let tuple = Tuple::new(remote, 5, 6);
            assert_eq!((tuple.remote(), tuple.local_port()), ((remote, 5), 6));
        }
    }
}
