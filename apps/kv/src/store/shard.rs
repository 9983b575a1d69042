//! One shard: the items of a part of the keys, found by an index, in one list ordered by use.
//!
//! A get marks its item and moves nothing. An item that has been read since it was last at the tail gets a second lap when memory is
//! short, so what is in use stays, as in memcached's segmented lists; a get writes one line, and only when its marks change.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Limits;
use super::classes::{CLASSES, class};
use super::index::Index;
use super::kept::KeptValues;
use super::operations::{Mode, Update};
use super::slot::{ACTIVE, FETCHED, NONE, Slot, Value, footprint};
use super::stats::{ClassCounters, ClassTotals, Counters, Sizes, Totals};
use super::work::{KEY, LOOK};

/// How many items that are still in use are given a second lap before one has to go all the same.
const SECOND_LAPS: usize = 64;

/// How many slots a store that does not evict looks at for items that are over, when a new one needs their memory.
const SWEEP_WHEN_FULL: usize = 256;

/// Values up to this length need the memory of some hundred items at most: they are made room for when they are stored.
const SHORT: usize = 64 << 10;
/// Items that are evicted at once beyond those that a value needs, at most: of more in use than a lowered limit permits.
const EVICTIONS: usize = 1024;
/// Values that a reply has referred to, of which so many are looked at when memory is short.
const LINGERING_LOOKS: usize = 64;

/// Why an item is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Another one needs its memory.
    Needed,
    /// Its time is over, and somebody looked.
    Time,
}

#[derive(Debug)]
pub(crate) struct Shard {
    index: Index,
    slots: Vec<Slot>,
    free: u32,
    head: u32,
    tail: u32,
    /// Memory of the items and of what lingers.
    used: usize,
    limit: usize,
    /// Valid items may be evicted.
    evicts: bool,
    /// Items have CAS ids.
    pub(crate) has_cas: bool,
    /// Bytes of items that are gone and that a reply still refers to.
    lingering: VecDeque<Arc<[u8]>>,
    /// Their memory.
    lingering_bytes: usize,
    /// Work done since the shard was locked: `work.rs`.
    pub(super) work: usize,
    /// Memory that was used when the limit was last lowered: as much may still be.
    shrinks_from: usize,
    pub(super) kept: KeptValues,
    /// CAS ids: the shard's number, then steps of the number of shards, so that no two items of a store have the same.
    next_cas: u64,
    cas_step: u64,
    /// `flush_all`: from that second on, what was used last before it, or stored under a lower CAS id, is gone.
    flushed_before: u32,
    flushed_cas: u64,
    pub(crate) counters: Counters,
    classes: [ClassTotals; CLASSES],
    /// `stats sizes`, where it is asked for.
    pub(super) sizes: Option<Sizes>,
    times_sized: u32,
    /// Where the search for expired items goes on.
    sweep: u32,
    /// Where key and value are put together.
    pub(super) scratch: Vec<u8>,
}

impl Shard {
    pub(super) fn new(number: usize, shards: usize, limit: usize, items: usize, limits: &Limits) -> Shard {
        let mut slots = Vec::new();
        // Address space for as many items as there can be: to move them all when one more comes takes long. Memory it takes as it is used.
        if slots.try_reserve_exact(limit / footprint(1)).is_err() {
            slots = Vec::with_capacity(items);
        }
        Shard {
            index: Index::with_capacity(items),
            slots,
            free: NONE,
            head: NONE,
            tail: NONE,
            used: 0,
            limit,
            evicts: limits.evict,
            has_cas: limits.cas,
            lingering: VecDeque::new(),
            lingering_bytes: 0,
            work: 0,
            shrinks_from: 0,
            kept: KeptValues::default(),
            next_cas: number as u64 + 1,
            cas_step: shards as u64,
            flushed_before: 0,
            flushed_cas: 0,
            counters: Counters::default(),
            classes: [ClassTotals::default(); CLASSES],
            sizes: None,
            times_sized: 0,
            sweep: 0,
            scratch: Vec::new(),
        }
    }

    /// The index, and the slots that it names.
    pub(super) fn looked_up(&self) -> (&Index, &[Slot]) {
        (&self.index, &self.slots)
    }

    pub(crate) fn slot(&self, id: u32) -> &Slot {
        &self.slots[id as usize]
    }

    pub(crate) fn slot_mut(&mut self, id: u32) -> &mut Slot {
        &mut self.slots[id as usize]
    }

    /// The counters of a class of sizes.
    pub(crate) fn class_counters(&mut self, class: u8) -> &mut ClassCounters {
        &mut self.classes[usize::from(class)].counters
    }

    /// The counters of an item's class.
    pub(crate) fn counters_of(&mut self, id: u32) -> &mut ClassCounters {
        self.class_counters(self.slot(id).class)
    }

    /// The next CAS id; 0 where items have none.
    pub(super) fn new_cas(&mut self) -> u64 {
        if !self.has_cas {
            return 0;
        }
        let cas = self.next_cas;
        self.next_cas += self.cas_step;
        cas
    }

    /// The item of a key, if it is still valid. One that is not goes away.
    pub(crate) fn find(&mut self, hash: u64, key: &[u8], now: u32) -> Option<u32> {
        let slots = &self.slots;
        let (found, lines) = self.index.find(hash, |id| {
            let slot = &slots[id as usize];
            slot.hash == hash && slot.key() == key
        });
        self.work += KEY + (lines - 1) * LOOK;
        let id = found?;
        if self.is_flushed(id, now) {
            self.counters.get_flushed += 1;
        } else if self.is_expired(id, now) {
            self.counters.get_expired += 1;
        } else {
            return Some(id);
        }
        self.remove(id);
        None
    }

    fn is_expired(&self, id: u32, now: u32) -> bool {
        let expires = self.slot(id).expires;
        expires != 0 && expires <= now
    }

    fn is_flushed(&self, id: u32, now: u32) -> bool {
        let slot = self.slot(id);
        self.flushed_before != 0
            && self.flushed_before <= now
            && (slot.time <= self.flushed_before || slot.cas < self.flushed_cas)
    }

    /// What was there until `at` is gone from then on; `at` may be in the future.
    pub(super) fn flush(&mut self, at: u32, now: u32) {
        // Without CAS ids nobody can tell what was stored in this second before and after.
        self.flushed_before = at.saturating_sub(u32::from(self.has_cas));
        if self.flushed_before <= now {
            self.flushed_cas = self.new_cas();
        }
    }

    /// An item was read.
    pub(crate) fn bump(&mut self, id: u32, now: u32) {
        let slot = self.slot_mut(id);
        if slot.bits & (FETCHED | ACTIVE) != FETCHED | ACTIVE || slot.time != now {
            slot.bits |= FETCHED | ACTIVE;
            slot.time = now;
        }
    }

    /// Sets the bytes and the meaning of an item, anew or in place of `id`. There must be room for it.
    pub(super) fn put(&mut self, id: Option<u32>, hash: u64, key_len: u8, body: Arc<[u8]>, new: Slot) -> u32 {
        let id = if let Some(id) = id {
            self.uncount(id);
            self.unlink(id);
            let old = std::mem::replace(self.slot_mut(id), Slot::FREE);
            self.let_go(old);
            id
        } else {
            self.take_slot(hash)
        };
        let slot = &mut self.slots[id as usize];
        *slot = Slot { hash, key_len, body: Some(body), ..new };
        slot.class = class(slot.total(self.has_cas));
        let totals = &mut self.classes[usize::from(slot.class)];
        totals.items += 1;
        totals.used = true;
        totals.bytes += slot.total(self.has_cas) as u64;
        if let Some(sizes) = &mut self.sizes {
            slot.sized = sizes.add(slot.total(self.has_cas));
        }
        self.used += slot.footprint();
        self.push_front(id);
        id
    }

    fn take_slot(&mut self, hash: u64) -> u32 {
        let id = if self.free == NONE {
            self.slots.push(Slot::FREE);
            self.slots.len() as u32 - 1
        } else {
            let id = self.free;
            self.free = self.slot(id).next;
            id
        };
        let slots = &self.slots;
        self.index.insert(hash, id, |id| slots[id as usize].hash);
        id
    }

    /// Takes an item out. Its bytes stay as long as replies refer to them.
    pub(crate) fn remove(&mut self, id: u32) {
        let hash = self.slot(id).hash;
        self.index.remove(hash, id);
        self.uncount(id);
        self.unlink(id);
        let free = self.free;
        let old = std::mem::replace(self.slot_mut(id), Slot { next: free, ..Slot::FREE });
        self.free = id;
        self.let_go(old);
    }

    /// Key, value and CRLF of an item, a copy where the value is kept.
    pub(super) fn whole(&self, id: u32) -> Option<Arc<[u8]>> {
        let slot = self.slot(id);
        let Some(value) = slot.kept().and_then(|number| self.kept.get(number)) else {
            return slot.body.clone();
        };
        let mut bytes = Vec::with_capacity(slot.key().len() + slot.value_len() + 2);
        bytes.extend_from_slice(slot.key());
        value.lend(|part| bytes.extend_from_slice(part));
        bytes.extend_from_slice(b"\r\n");
        Some(bytes.into())
    }

    /// A reference to the value for a reply that copies it later, or never. A kept value is copied.
    pub(crate) fn share(&self, id: u32) -> Option<Value> {
        Some(Value::new(self.whole(id)?, self.slot(id).key_len))
    }

    fn uncount(&mut self, id: u32) {
        let slot = &self.slots[id as usize];
        let totals = &mut self.classes[usize::from(slot.class)];
        totals.items -= 1;
        totals.bytes -= slot.total(self.has_cas) as u64;
        if let Some(sizes) = &mut self.sizes {
            sizes.remove(slot.total(self.has_cas), slot.sized);
        }
        self.used -= slot.footprint();
    }

    /// What an item was, which has another value now, or is gone.
    fn let_go(&mut self, old: Slot) {
        if let Some(number) = old.kept() {
            self.kept.give_up(number);
        }
        // Only the holder of the shard adds references, so a count of one stays one.
        let Some(body) = old.body else { return };
        if Arc::strong_count(&body) > 1 {
            self.used += footprint(body.len());
            self.lingering_bytes += footprint(body.len());
            self.lingering.push_back(body);
        }
    }

    /// Looks at the next values that replies have referred to, and lets go of those that no reply does any more.
    fn drop_unused(&mut self) {
        for _ in 0..self.lingering.len().min(LINGERING_LOOKS) {
            let Some(body) = self.lingering.pop_front() else { return };
            self.work += LOOK;
            if Arc::strong_count(&body) > 1 {
                self.lingering.push_back(body);
            } else {
                self.used -= footprint(body.len());
                self.lingering_bytes -= footprint(body.len());
            }
        }
    }

    /// Makes room for a value of `len` bytes, if it is a long one, until so much work is done. False: it is to be called again.
    pub(super) fn prepare(
        &mut self,
        hash: u64,
        update: &Update<'_>,
        len: usize,
        now: u32,
        work: usize,
    ) -> bool {
        let joined = matches!(update.mode, Mode::Append | Mode::Prepend);
        if !self.evicts || (len <= SHORT && !joined) {
            return true;
        }
        let found = self.find(hash, update.key, now);
        let old = found.filter(|_| joined).map_or(0, |id| self.slot(id).value_len());
        let need = footprint(update.key.len() + old + len + 2);
        match (found, update.mode) {
            // It will not be stored.
            (Some(_), Mode::Add) | (None, Mode::Replace | Mode::Append | Mode::Prepend | Mode::Cas) => true,
            _ => need <= SHORT || self.evict_for(need, found, now, work).is_some(),
        }
    }

    /// Makes room for `need` more bytes of memory, at the cost of the items used longest ago, not of `keep`.
    pub(super) fn make_room(&mut self, need: usize, keep: Option<u32>, now: u32) -> bool {
        if !self.evicts && self.used + need > self.limit {
            self.drop_unused();
            self.sweep(SWEEP_WHEN_FULL, now, Cause::Needed);
            return self.used + need <= self.limit;
        }
        let most = need / footprint(0) + EVICTIONS;
        self.evict_for(need, keep, now, most * KEY) == Some(true)
    }

    /// As [`Shard::make_room`], until so much work is done. None: it is to be called again.
    fn evict_for(&mut self, need: usize, keep: Option<u32>, now: u32, work: usize) -> Option<bool> {
        if self.used + need <= self.limit {
            return Some(true);
        }
        let most = self.work.saturating_add(work);
        self.drop_unused();
        let mut laps = SECOND_LAPS;
        while self.used + need > self.limit {
            let id = self.tail;
            if id == NONE || (Some(id) == keep && self.slot(id).prev == NONE) {
                return Some(false);
            }
            if self.work >= most {
                return None;
            }
            self.work += KEY;
            let over = self.is_expired(id, now) || self.is_flushed(id, now);
            let again = !over && laps > 0 && self.slot(id).has(ACTIVE);
            if again || Some(id) == keep {
                laps = laps.saturating_sub(1);
                self.counters_of(id).moves_within_lru += 1;
                self.slot_mut(id).bits &= !ACTIVE;
                self.unlink(id);
                self.push_front(id);
            } else {
                self.evict(id, over, Cause::Needed, now);
            }
        }
        Some(true)
    }

    fn evict(&mut self, id: u32, over: bool, cause: Cause, now: u32) {
        let slot = &self.slots[id as usize];
        let totals = &mut self.classes[usize::from(slot.class)];
        let counters = &mut totals.counters;
        let unfetched = u64::from(!slot.has(FETCHED));
        counters.direct_reclaims += u64::from(cause == Cause::Needed);
        if over {
            *if cause == Cause::Needed {
                &mut counters.reclaimed
            } else {
                &mut counters.crawler_reclaimed
            } += 1;
            counters.expired_unfetched += unfetched;
        } else {
            counters.evicted += 1;
            counters.evicted_nonzero += u64::from(slot.expires != 0);
            counters.evicted_unfetched += unfetched;
            counters.evicted_active += u64::from(slot.has(ACTIVE));
            (totals.evicted_at, totals.evicted_time) = (now, now.saturating_sub(slot.time));
        }
        self.remove(id);
    }

    /// Looks at `count` slots for items that are over, so that their memory is not lost until somebody asks for them.
    pub(super) fn sweep(&mut self, count: usize, now: u32, cause: Cause) {
        for _ in 0..count.min(self.slots.len()) {
            self.sweep = if (self.sweep as usize) < self.slots.len() { self.sweep } else { 0 };
            let id = self.sweep;
            self.sweep += 1;
            self.work += LOOK;
            if self.slot(id).body.is_none() {
                continue;
            }
            self.counters_of(id).crawler_items_checked += u64::from(cause == Cause::Time);
            if self.is_expired(id, now) || self.is_flushed(id, now) {
                self.work += KEY;
                self.evict(id, true, cause, now);
            }
        }
        self.drop_unused();
    }

    /// Another limit; evicts what is beyond it until so much work is done. False: it is to be called again.
    pub(super) fn set_limit(&mut self, limit: usize, now: u32, work: usize) -> bool {
        self.limit = limit;
        self.shrinks_from = self.used;
        self.evict_for(0, None, now, work).is_some()
    }

    pub(super) fn add_to(&self, totals: &mut Totals, now: u32) {
        totals.add_counters(&self.counters);
        totals.add_classes(&self.classes);
        totals.items += self.index.len() as u64;
        totals.bytes += (self.used - self.lingering_bytes) as u64;
        totals.limit += self.limit as u64;
        totals.index_bytes += self.index.bytes() as u64;
        totals.index_items += self.index.capacity() as u64;
        let age = self.link(self.tail).map_or(0, |id| now.saturating_sub(self.slot(id).time));
        totals.age = totals.age.max(age);
        totals.flushed_before = totals.flushed_before.max(self.flushed_before);
    }

    pub(super) fn track_sizes(&mut self, on: bool) {
        match (on, &self.sizes) {
            (true, None) => {
                self.times_sized += 1;
                // As memcached: the ids that clients see afterwards are the same.
                self.new_cas();
                self.sizes = Some(Sizes::new(self.times_sized));
            }
            (true, Some(_)) => {}
            (false, _) => self.sizes = None,
        }
    }

    pub(super) fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.classes.iter_mut().for_each(ClassTotals::reset);
    }

    /// The item of a slot, if there is one and it is valid.
    pub(super) fn valid(&self, id: u32, now: u32) -> Option<&Slot> {
        let slot = self.slots.get(id as usize).filter(|slot| slot.body.is_some())?;
        (!self.is_expired(id, now) && !self.is_flushed(id, now)).then_some(slot)
    }

    /// Adds the valid items of `count` slots from one on to `all`: when each was used last, and its slot. False: there are no more.
    pub(super) fn list(&self, from: usize, count: usize, now: u32, all: &mut Vec<(u32, u32)>) -> bool {
        let end = self.slots.len().min(from + count);
        let items = (from..end).filter_map(|id| Some((self.valid(id as u32, now)?.time, id as u32)));
        all.extend(items);
        end < self.slots.len()
    }

    fn link(&self, id: u32) -> Option<u32> {
        (id != NONE).then_some(id)
    }

    fn push_front(&mut self, id: u32) {
        let head = self.head;
        let slot = self.slot_mut(id);
        (slot.prev, slot.next) = (NONE, head);
        if head == NONE {
            self.tail = id;
        } else {
            self.slot_mut(head).prev = id;
        }
        self.head = id;
    }

    fn unlink(&mut self, id: u32) {
        let (prev, next) = (self.slot(id).prev, self.slot(id).next);
        if prev == NONE {
            self.head = next;
        } else {
            self.slot_mut(prev).next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            self.slot_mut(next).prev = prev;
        }
    }

    /// What must hold between any two calls.
    pub(super) fn check(&self) {
        let (mut used, mut items, mut last) = (0, 0, NONE);
        let mut id = self.head;
        while id != NONE {
            let slot = self.slot(id);
            assert_eq!(slot.prev, last, "the list goes both ways");
            assert!(
                self.index.find(slot.hash, |found| found == id).0.is_some(),
                "a listed item is in the index"
            );
            (used, items, last, id) = (used + slot.footprint(), items + 1, id, slot.next);
        }
        let kept = self.kept.check(|number, id| {
            assert_eq!(self.slot(id).kept(), Some(number), "a kept value and its item know each other");
        });
        let all = self.slots.iter().filter(|slot| slot.kept().is_some()).count();
        assert_eq!(kept, all, "no item names the value of another one");
        let lingering = self.lingering.iter().map(|body| footprint(body.len())).sum::<usize>();
        assert_eq!(self.lingering_bytes, lingering);
        used += lingering;
        assert_eq!((self.tail, self.index.len()), (last, items));
        assert_eq!(self.used, used, "every byte is counted once");
        assert!(self.used <= self.limit.max(self.shrinks_from), "memory stays within its bound");
    }
}
