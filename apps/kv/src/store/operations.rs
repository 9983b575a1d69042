//! What commands do to the item of a key, with memcached's rules.

use std::sync::Arc;

use super::classes::class;
use super::shard::Shard;
use super::slot::{ACTIVE, BINARY_KEY, FETCHED, STALE, Slot, TOKEN_SENT, footprint, total};

/// How a value meets what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the commands of these names")]
pub enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
}

/// A value to store.
#[derive(Clone, Debug)]
pub struct Update<'a> {
    /// Its key, of at most 250 bytes.
    pub key: &'a [u8],
    /// Without CRLF.
    pub value: &'a [u8],
    /// How it meets what is there.
    pub mode: Mode,
    /// Flags of the client.
    pub flags: u32,
    /// Unix time, 0: never.
    pub expires: u32,
    /// The CAS id that the item must have; 0: any.
    pub compare: u64,
    /// Where the CAS id is lower than the item's: stored all the same, and marked stale.
    pub or_stale: bool,
    /// The CAS id that the item gets, if not the next one.
    pub new_cas: Option<u64>,
    /// The key came in base64.
    pub binary_key: bool,
}

impl<'a> Update<'a> {
    /// A plain set.
    pub fn set(key: &'a [u8], value: &'a [u8]) -> Update<'a> {
        Update {
            key,
            value,
            mode: Mode::Set,
            flags: 0,
            expires: 0,
            compare: 0,
            or_stale: false,
            new_cas: None,
            binary_key: false,
        }
    }
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is stored, with this CAS id.
    Yes(u64),
    /// Its mode forbids it.
    No,
    /// The item has another CAS id.
    Exists,
    /// There is no item to compare the CAS id of.
    NotFound,
    /// There is no memory that could be freed for it.
    OutOfMemory,
}

/// A number to add to an item's.
#[derive(Clone, Copy, Debug)]
pub struct Delta {
    /// Subtract instead, down to 0.
    pub down: bool,
    /// How much.
    pub by: u64,
    /// The CAS id that the item must have; 0: any.
    pub compare: u64,
    /// The CAS id that the item gets, if not the next one.
    pub new_cas: Option<u64>,
}

/// What became of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The item is now this number.
    Number(u64, u32),
    /// The item is not a number.
    NotNumeric,
    /// There is no item.
    NotFound,
    /// The item has another CAS id.
    Exists,
    /// There is no memory that could be freed for it.
    OutOfMemory,
}

/// A number as decimal text.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    text: [u8; 20],
    from: u8,
}

impl Decimal {
    /// The text of a number.
    pub fn new(mut number: u64) -> Decimal {
        let (mut text, mut from) = ([0; 20], 20);
        loop {
            from -= 1;
            text[from] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Decimal { text, from: from as u8 };
            }
        }
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[usize::from(self.from)..]
    }
}

impl Shard {
    /// Stores a value, as its mode and what is there allow it. `largest`: the limit on an item's size.
    pub(crate) fn update(&mut self, hash: u64, update: &Update<'_>, largest: usize, now: u32) -> Stored {
        let class = class(total(self.has_cas, update.key.len(), update.flags, update.value.len()));
        self.class_counters(class).cmd_set += 1;
        self.store(hash, update, largest, now)
    }

    /// [`Shard::update`] on behalf of another command: it does not count as a set.
    pub(crate) fn store(&mut self, hash: u64, update: &Update<'_>, largest: usize, now: u32) -> Stored {
        let found = self.find(hash, update.key, now);
        let compare = if self.has_cas { update.compare } else { 0 };
        let mut new = Slot {
            flags: update.flags,
            expires: update.expires,
            time: now,
            bits: if update.binary_key { BINARY_KEY } else { 0 },
            ..Slot::FREE
        };
        match (found, update.mode) {
            (Some(id), Mode::Add) => {
                self.bump_quietly(id, now);
                return Stored::No;
            }
            (None, Mode::Cas) => {
                self.counters.cas_misses += 1;
                return Stored::NotFound;
            }
            (None, Mode::Replace | Mode::Append | Mode::Prepend) => return Stored::No,
            (Some(id), Mode::Cas) => {
                let old = self.slot(id);
                if compare == 0 || compare != old.cas {
                    if !(update.or_stale && compare != 0 && compare < old.cas) {
                        self.counters_of(id).cas_badval += 1;
                        return Stored::Exists;
                    }
                    new.expires = old.expires;
                    new.bits |= STALE | old.bits & TOKEN_SENT;
                }
                self.counters_of(id).cas_hits += 1;
            }
            (Some(id), Mode::Append | Mode::Prepend) => {
                self.bring_back(id);
                let old = self.slot(id);
                if compare != 0 && compare != old.cas {
                    return Stored::Exists;
                }
                (new.flags, new.expires) = (old.flags, old.expires);
                let len = old.value().len() + update.value.len();
                if total(self.has_cas, update.key.len(), old.flags, len) > largest {
                    return Stored::No;
                }
            }
            (_, Mode::Set | Mode::Replace | Mode::Add) => {}
        }
        new.cas = self.cas_id(update.new_cas);
        let cas = new.cas;
        let joined = matches!(update.mode, Mode::Append | Mode::Prepend);
        if self.write(found, hash, update, new, now).is_none() {
            return if joined { Stored::No } else { Stored::OutOfMemory };
        }
        self.counters.total_items += 1;
        Stored::Yes(cas)
    }

    /// Puts the bytes together and stores them. A set without memory for it takes the old value away: it is outdated.
    fn write(
        &mut self,
        found: Option<u32>,
        hash: u64,
        update: &Update<'_>,
        new: Slot,
        now: u32,
    ) -> Option<u32> {
        let old = match (found, update.mode) {
            (Some(id), Mode::Append | Mode::Prepend) => self.slot(id).value().len(),
            _ => 0,
        };
        let len = update.key.len() + old + update.value.len() + 2;
        if !self.make_room(footprint(len), found, now) {
            self.counters.store_no_memory += 1;
            let class = class(total(self.has_cas, update.key.len(), new.flags, old + update.value.len()));
            self.class_counters(class).outofmemory += 1;
            if let Some(id) = found.filter(|_| update.mode == Mode::Set) {
                self.remove(id);
            }
            return None;
        }
        self.work += 2 * len;
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.extend_from_slice(update.key);
        match (found, update.mode) {
            (Some(id), Mode::Append) => {
                bytes.extend_from_slice(self.slot(id).value());
                bytes.extend_from_slice(update.value);
            }
            (Some(id), Mode::Prepend) => {
                bytes.extend_from_slice(update.value);
                bytes.extend_from_slice(self.slot(id).value());
            }
            _ => bytes.extend_from_slice(update.value),
        }
        bytes.extend_from_slice(b"\r\n");
        let body: Arc<[u8]> = Arc::from(&bytes[..]);
        self.scratch = bytes;
        Some(self.put(found, hash, update.key.len() as u8, body, new))
    }

    /// `add` of an item that is there keeps it from being evicted, and does not count as a read.
    fn bump_quietly(&mut self, id: u32, now: u32) {
        let slot = self.slot_mut(id);
        slot.bits |= ACTIVE;
        slot.time = now;
    }

    /// Adds to an item's number. A shorter text is filled with spaces, as memcached does it.
    pub(crate) fn count(&mut self, hash: u64, key: &[u8], delta: Delta, now: u32) -> Counted {
        let Some(id) = self.find(hash, key, now) else { return Counted::NotFound };
        self.bring_back(id);
        let slot = self.slot(id);
        let old = slot.value().len();
        if old == 0 {
            return Counted::NotNumeric;
        }
        if delta.compare != 0 && delta.compare != slot.cas {
            return Counted::Exists;
        }
        let number = crate::number::unsigned(slot.value());
        self.work += old;
        let slot = self.slot(id);
        let Some(number) = number else { return Counted::NotNumeric };
        let number = if delta.down { number.saturating_sub(delta.by) } else { number.wrapping_add(delta.by) };
        let text = Decimal::new(number);
        let grows = text.as_bytes().len() > old;
        let bits = if grows { 0 } else { slot.bits };
        let (flags, expires) = (slot.flags, slot.expires);
        let mut value = Vec::from(text.as_bytes());
        value.resize(old.max(value.len()), b' ');
        let cas = self.cas_id(delta.new_cas);
        let new = Slot { flags, expires, cas, bits, time: now, ..Slot::FREE };
        let update = Update { mode: Mode::Replace, ..Update::set(key, &value) };
        match self.write(Some(id), hash, &update, new, now) {
            None => Counted::OutOfMemory,
            Some(id) => {
                // One that does not grow is the same item, changed.
                self.counters.total_items += u64::from(grows);
                let counters = self.counters_of(id);
                *if delta.down { &mut counters.decr_hits } else { &mut counters.incr_hits } += 1;
                Counted::Number(number, id)
            }
        }
    }

    /// A delta found nothing.
    pub(crate) fn count_miss(&mut self, down: bool) {
        if down {
            self.counters.decr_misses += 1;
        } else {
            self.counters.incr_misses += 1;
        }
    }

    /// The CAS id that a client has asked for, or the next one.
    fn cas_id(&mut self, asked: Option<u64>) -> u64 {
        asked.filter(|_| self.has_cas).unwrap_or_else(|| self.new_cas())
    }

    /// Marks an item stale: the next client that gets it is told to fetch it anew.
    pub(crate) fn invalidate(&mut self, id: u32, new_cas: Option<u64>) {
        let cas = self.cas_id(new_cas);
        let slot = self.slot_mut(id);
        slot.bits = slot.bits & !TOKEN_SENT | STALE;
        slot.cas = cas;
    }

    /// `mg` with `N` that found nothing: an empty item, which its client is to fill.
    pub(crate) fn vivify(
        &mut self,
        hash: u64,
        key: &[u8],
        expires: u32,
        cas: Option<u64>,
        now: u32,
    ) -> Option<u32> {
        let new = Slot { cas: self.cas_id(cas), expires, time: now, ..Slot::FREE };
        self.counters.total_items += 1;
        self.write(None, hash, &Update::set(key, b""), new, now)
    }
}

const _: () = assert!(FETCHED | ACTIVE | STALE | TOKEN_SENT | BINARY_KEY == 31);
