//! The table of addresses: which port a MAC address, of a VLAN, was last seen at.
//!
//! A hash table of buckets of four entries, one cache line each. An address may lie in either of two buckets, and goes into the emptier
//! one when it is learned; so a look-up reads two lines at most, and at half the entries used hardly a bucket pair is ever full. Entries
//! never move. The hash is keyed with secret random numbers, since programs choose addresses.
//!
//! **Nobody is pushed out.** An address leaves the table when it was not seen for the ageing time, or when its port goes. What has no
//! room is not learned, and packets to it are flooded:
//! * A port may have so many addresses at most.
//! * The table may have so many; the first address of a port is learned beyond that, so ports that fill the table with addresses
//!   take no other's one.
//!
//! **Fixed entries** are the operator's: they stay as long as their port, and no frame moves them.
//!
//! **Other workers** have tables of their own ([`news`](super::news)). What is learned here they are told; what they have seen, and
//! tell, is in here, too, and a little longer than an address that was learned here.
//!
//! **Time** is a count of seconds that the caller has ([`MacTable::tick`]). A tick looks at one bucket and forgets what is too old, so
//! the whole table is looked at once in as many ticks as it has buckets, some tens of milliseconds.

#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::PortId;
use super::frame::Station;

/// Entries of a bucket: a cache line.
const WAYS: usize = 4;

/// What the table may hold, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLimits {
    /// Addresses, but for the first one of each port.
    pub addresses: usize,
    /// Addresses of one port.
    pub per_port: u32,
    /// Seconds after which an address that was not seen is forgotten.
    pub ageing: u32,
}

impl Default for TableLimits {
    /// 4096 addresses, 256 of a port, 300 seconds.
    fn default() -> TableLimits {
        TableLimits { addresses: 4096, per_port: 256, ageing: 300 }
    }
}

/// An address and where it is. Four of them fill a cache line.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The address; [`EMPTY`] for none.
    key: u64,
    /// The second that it was last seen in.
    seen: u32,
    port: PortId,
    /// It neither ages nor moves.
    fixed: bool,
    /// What other workers know of it: [`UNTOLD`], a part of the ageing time in which they were told, or [`HEARD`] from one of them.
    told: u8,
}

const UNTOLD: u8 = 0;
const HEARD: u8 = u8::MAX;

/// Addresses that were learned and have yet to be told, at most. What has no room waits for the next look through the table.
const FRESH: usize = 64;

/// No address has so many bits.
const EMPTY: u64 = u64::MAX;

const NO_ENTRY: Entry = Entry { key: EMPTY, seen: 0, port: 0, fixed: false, told: UNTOLD };

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket([Entry; WAYS]);

/// Where an entry lies. It stays there for as long as the table [has not changed](MacTable::changes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    bucket: u32,
    way: u8,
}

/// What became of an address that a frame came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learned {
    /// It is known to be at that port now.
    At(Place),
    /// There is no room for it, or for one more of this port; or it is fixed at another.
    Refused,
}

/// An address, its port, and how long ago it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// The address, in its VLAN.
    pub station: Station,
    /// Its port.
    pub port: PortId,
    /// Seconds since it was last seen; 0 of a fixed one.
    pub age: u32,
    /// The operator has said that it is there.
    pub fixed: bool,
}

/// The table. Belongs to one thread; allocates nothing after it was made.
#[derive(Debug)]
pub struct MacTable {
    /// A power of two of them.
    buckets: Box<[Bucket]>,
    keys: [u64; 2],
    limits: TableLimits,
    /// By port: its addresses.
    counts: Box<[u32]>,
    len: usize,
    now: u32,
    /// The bucket that the next tick looks at.
    next: u32,
    changes: u64,
    /// Learned lately, where there are others to tell: then it has room for [`FRESH`], otherwise for none.
    fresh: Vec<Place>,
}

impl MacTable {
    /// An empty table for so many ports.
    pub fn new(ports: usize, limits: TableLimits) -> MacTable {
        let most = limits.addresses.saturating_add(ports);
        let buckets = (most * 2).div_ceil(WAYS).next_power_of_two().max(1);
        let key = || RandomState::new().hash_one(0);
        MacTable {
            buckets: vec![Bucket([NO_ENTRY; WAYS]); buckets].into(),
            keys: [key(), key()],
            limits,
            counts: vec![0; ports].into(),
            len: 0,
            now: 0,
            next: 0,
            changes: 0,
            fresh: Vec::new(),
        }
    }

    /// There are tables of other workers, which are told of what is learned here.
    pub(super) fn with_others(self) -> MacTable {
        MacTable { fresh: Vec::with_capacity(FRESH), ..self }
    }

    /// Addresses in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Changes whenever an address is learned, moves or is forgotten: what was looked up before may be wrong then.
    #[inline(always)]
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Both buckets that an address may lie in.
    #[inline(always)]
    fn homes(&self, key: u64) -> [u32; 2] {
        let product = u128::from(key ^ self.keys[0]) * u128::from(self.keys[1] | 1);
        let hash = (product as u64) ^ (product >> 64) as u64;
        let mask = self.buckets.len() as u64 - 1;
        [hash & mask, hash >> 32 & mask].map(|home| home as u32)
    }

    #[inline(always)]
    fn find(&self, key: u64, homes: [u32; 2]) -> Option<Place> {
        homes.into_iter().find_map(|bucket| {
            let Bucket(entries) = self.buckets.get(bucket as usize)?;
            let way = entries.iter().position(|entry| entry.key == key)?;
            Some(Place { bucket, way: way as u8 })
        })
    }

    #[inline(always)]
    fn entry(&mut self, place: Place) -> Option<&mut Entry> {
        self.buckets.get_mut(place.bucket as usize)?.0.get_mut(usize::from(place.way))
    }

    /// The port that an address was last seen at.
    #[inline(always)]
    pub fn port_of(&self, station: Station) -> Option<PortId> {
        let place = self.find(station.bits(), self.homes(station.bits()))?;
        self.buckets.get(place.bucket as usize)?.0.get(usize::from(place.way)).map(|entry| entry.port)
    }

    /// A frame has come from this address, of a station, at this port.
    #[inline(always)]
    pub(super) fn learn(&mut self, station: Station, port: PortId) -> Learned {
        let homes = self.homes(station.bits());
        match self.find(station.bits(), homes) {
            Some(place) => self.seen_at(place, port),
            None => self.learn_new(station, port, homes),
        }
    }

    /// The operator says that this address is at that port, until the port goes. Beyond all limits; refused only where both buckets are
    /// full of others, or it is fixed at another port.
    pub(super) fn fix(&mut self, station: Station, port: PortId) -> Learned {
        let homes = self.homes(station.bits());
        if let Some(place) = self.find(station.bits(), homes) {
            if self.entry(place).is_none_or(|entry| entry.fixed && entry.port != port) {
                return Learned::Refused;
            }
            self.remove(place);
        }
        self.insert(Entry { key: station.bits(), seen: self.now, port, fixed: true, told: HEARD }, homes)
    }

    /// The address at this place was seen again, at its port.
    #[inline(always)]
    pub(super) fn seen(&mut self, place: Place) {
        let now = self.now;
        self.entry(place).into_iter().for_each(|entry| entry.seen = now);
    }

    /// A known address was seen: perhaps it has moved. Where it goes there must be room for it.
    #[inline(always)]
    fn seen_at(&mut self, place: Place, port: PortId) -> Learned {
        let now = self.now;
        let Some(entry) = self.entry(place) else { return Learned::Refused };
        if entry.port == port {
            entry.seen = now;
            return Learned::At(place);
        }
        let from = entry.port;
        if entry.fixed || self.count(port) >= self.limits.per_port {
            return Learned::Refused;
        }
        let moved = |entry: &mut Entry| (entry.port, entry.seen, entry.told) = (port, now, UNTOLD);
        self.entry(place).into_iter().for_each(moved);
        self.add_to(from, -1);
        self.add_to(port, 1);
        self.changes += 1;
        self.note(place);
        Learned::At(place)
    }

    #[cold]
    #[inline(never)]
    fn learn_new(&mut self, station: Station, port: PortId, homes: [u32; 2]) -> Learned {
        let count = self.count(port);
        if count >= self.limits.per_port || (self.len >= self.limits.addresses && count > 0) {
            return Learned::Refused;
        }
        let new = Entry { key: station.bits(), seen: self.now, port, fixed: false, told: UNTOLD };
        let learned = self.insert(new, homes);
        if let Learned::At(place) = learned {
            self.note(place);
        }
        learned
    }

    /// Others are to be told of it.
    fn note(&mut self, place: Place) {
        if self.fresh.len() < self.fresh.capacity() {
            self.fresh.push(place);
        }
    }

    /// Another worker has seen this address at a port of its own: as [`learn`](MacTable::learn), and it is not told again from here.
    pub(super) fn hear(&mut self, station: Station, port: PortId) {
        if let Learned::At(place) = self.learn(station, port) {
            self.entry(place).into_iter().for_each(|entry| entry.told = HEARD);
        }
    }

    /// The next address that was learned lately and that others are to be told of.
    #[inline(always)]
    pub(super) fn fresh(&mut self) -> Option<Place> {
        self.fresh.pop()
    }

    /// The bucket that the last tick looked at: what others are to be told of it.
    pub(super) fn to_tell(&self) -> impl Iterator<Item = Place> + use<> {
        let bucket = self.next.wrapping_sub(1) & (self.buckets.len() as u32 - 1);
        (0..WAYS as u8).map(move |way| Place { bucket, way })
    }

    /// The address at this place and its port, if others are to be told of it: it was learned here, and they do not know it, or may soon
    /// forget it.
    pub(super) fn news(&self, place: Place) -> Option<(Station, PortId)> {
        let entry = self.buckets.get(place.bucket as usize)?.0.get(usize::from(place.way))?;
        let untold = entry.key != EMPTY && entry.told != HEARD && entry.told != self.part_of(entry.seen);
        untold.then(|| (Station::from_bits(entry.key), entry.port))
    }

    /// Others have been told of the address at this place.
    pub(super) fn told(&mut self, place: Place) {
        let part = self.entry(place).map(|entry| entry.seen).map(|seen| self.part_of(seen));
        self.entry(place).zip(part).into_iter().for_each(|(entry, part)| entry.told = part);
    }

    /// The part of the ageing time, a quarter long, that a second is in: neither [`UNTOLD`] nor [`HEARD`].
    fn part_of(&self, second: u32) -> u8 {
        (second / self.quarter() % 254) as u8 + 1
    }

    fn quarter(&self) -> u32 {
        (self.limits.ageing / 4).max(1)
    }

    fn insert(&mut self, new: Entry, homes: [u32; 2]) -> Learned {
        let free = |bucket: u32| {
            let used = self.buckets.get(bucket as usize).map_or(WAYS, |bucket| bucket.used());
            (used, bucket)
        };
        let [a, b] = homes.map(free);
        let (_, bucket) = a.min(b);
        let Some(Bucket(entries)) = self.buckets.get_mut(bucket as usize) else { return Learned::Refused };
        let Some(way) = entries.iter().position(|entry| entry.key == EMPTY) else { return Learned::Refused };
        entries.get_mut(way).into_iter().for_each(|entry| *entry = new);
        self.len += 1;
        self.add_to(new.port, 1);
        self.changes += 1;
        Learned::At(Place { bucket, way: way as u8 })
    }

    fn count(&self, port: PortId) -> u32 {
        self.counts.get(usize::from(port)).copied().unwrap_or(u32::MAX)
    }

    fn add_to(&mut self, port: PortId, addresses: i32) {
        let count = self.counts.get_mut(usize::from(port));
        count.into_iter().for_each(|count| *count = count.saturating_add_signed(addresses));
    }

    /// The time is `now`, in seconds, which never goes back. Looks at the next bucket and forgets what has not been seen for too long.
    pub(super) fn tick(&mut self, now: u32) {
        self.now = now;
        let (bucket, ageing) = (self.next, self.limits.ageing);
        self.next = (bucket + 1) & (self.buckets.len() as u32 - 1);
        // Others tell again after a quarter at the latest, so what was heard is not forgotten before it is where it was learned.
        let heard = ageing.saturating_add(self.quarter() + 1);
        let ageing = |entry: &Entry| if entry.told == HEARD { heard } else { ageing };
        self.forget_in(bucket, |entry| !entry.fixed && now.saturating_sub(entry.seen) >= ageing(entry));
    }

    /// Whatever was looked up before may be wrong now: not the table has changed, but what ports may do.
    pub(super) fn invalidate(&mut self) {
        self.changes += 1;
    }

    fn remove(&mut self, place: Place) {
        let Some(entry) = self.entry(place) else { return };
        let port = entry.port;
        *entry = NO_ENTRY;
        self.add_to(port, -1);
        self.len -= 1;
        self.changes += 1;
    }

    /// Forgets all addresses of a port.
    pub(super) fn forget(&mut self, port: PortId) {
        if self.count(port) > 0 {
            (0..self.buckets.len() as u32)
                .for_each(|bucket| self.forget_in(bucket, |entry| entry.port == port));
        }
    }

    fn forget_in(&mut self, bucket: u32, goes: impl Fn(&Entry) -> bool) {
        let Some(Bucket(entries)) = self.buckets.get_mut(bucket as usize) else { return };
        for entry in entries.iter_mut().filter(|entry| entry.key != EMPTY && goes(entry)) {
            let count = self.counts.get_mut(usize::from(entry.port));
            count.into_iter().for_each(|count| *count = count.saturating_sub(1));
            *entry = NO_ENTRY;
            self.len -= 1;
            self.changes += 1;
        }
    }

    /// The addresses in up to `most` buckets from `from` on, and where to go on, if there is more.
    pub fn page(&self, from: u32, most: u32) -> (Vec<Known>, Option<u32>) {
        let end = from.saturating_add(most).min(self.buckets.len() as u32);
        let buckets = self.buckets.get(from as usize..end as usize).unwrap_or_default();
        let entries = buckets.iter().flat_map(|Bucket(entries)| entries).filter(|entry| entry.key != EMPTY);
        let known = entries.map(|entry| Known {
            station: Station::from_bits(entry.key),
            port: entry.port,
            age: if entry.fixed { 0 } else { self.now.saturating_sub(entry.seen) },
            fixed: entry.fixed,
        });
        (known.collect(), (end < self.buckets.len() as u32).then_some(end))
    }
}

impl Bucket {
    fn used(&self) -> usize {
        self.0.iter().filter(|entry| entry.key != EMPTY).count()
    }
}
