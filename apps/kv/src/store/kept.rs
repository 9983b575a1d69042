//! Values in memory that a NIC reads, so that replies are sent without a copy of them.
//!
//! An item begins on the heap. When a thread on a NIC has sent its value a second time, it may move the value to memory of its queue pair
//! ([`Session::keep`]): then a reply is a header and the item's own buffer. Such an item has the bit `KEPT`, and its
//! body holds the number of its value here. Each shard's values lie in the memory of one thread, its own.
//!
//! * All other readers, and other threads, copy it from there ([`Content::lend`], `Shard::whole`); commands that change a value bring it
//!   back to the heap first.
//! * An item that is overwritten, deleted, evicted or over gives its value up. Other threads can do that, so it waits in `gone` until its
//!   thread frees it ([`Session::free_gone`]); [`KeptMemory`] gives the memory to another value when the NIC has let go of the last reply.
//! * Where the memory is full, a clock's hand looks for values that were not sent since it passed last, and brings them back.
//! * Items count to the store's memory as on the heap; this memory is bounded by itself.

#[cfg(feature = "server")]
use std::sync::Arc;

use super::Session;
use super::ahead::prefetch;
use super::shard::Shard;
#[cfg(feature = "server")]
use super::slot::body_of_kept;
use super::slot::{Content, KEPT, KEPT_SENT};

#[cfg(feature = "server")]
pub use ccnic_tcp::kept::Places;
#[cfg(feature = "server")]
pub use ccnic_tcp::{Kept, KeptMemory};

#[cfg(not(feature = "server"))]
pub use without::{Kept, Places};

/// Without a NIC no value is kept.
#[cfg(not(feature = "server"))]
mod without {
    /// There is none.
    #[derive(Debug)]
    pub enum Kept {}

    /// There are none.
    #[derive(Debug)]
    pub enum Places {}

    impl Places {
        /// Never called.
        pub fn read(&self, _: impl FnMut(&[u8])) {
            match *self {}
        }
    }
}

/// One value that finds no memory in so many moves the hand: a move costs two copies.
#[cfg(feature = "server")]
const MOVES_ONE_OF: u32 = 16;
/// Values that the hand passes at once.
#[cfg(feature = "server")]
const STEPS: usize = 8;

/// A value in memory that a NIC reads.
#[derive(Debug)]
pub struct KeptValue {
    kept: Kept,
    places: Places,
    /// The item's slot.
    slot: u32,
}

impl KeptValue {
    /// The value as its stack knows it.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Lends the bytes, piece by piece.
    pub fn lend(&self, f: impl FnMut(&[u8])) {
        self.places.read(f);
    }
}

/// The values of a shard that are kept, by number.
#[derive(Debug, Default)]
pub(super) struct KeptValues {
    values: Vec<Option<KeptValue>>,
    free: Vec<u32>,
    /// Values that no item has any more, until the thread whose memory it is frees them.
    gone: Vec<Kept>,
    #[cfg(feature = "server")]
    hand: usize,
    /// Values that have found no memory.
    #[cfg(feature = "server")]
    unkept: u32,
}

impl KeptValues {
    pub(super) fn get(&self, number: u32) -> Option<&KeptValue> {
        self.values.get(number as usize)?.as_ref()
    }

    /// Hint: it will be sent.
    pub(super) fn prefetch(&self, number: u32) {
        self.values.get(number as usize).inspect(|value| prefetch(*value));
    }

    #[cfg(feature = "server")]
    fn add(&mut self, value: KeptValue) -> u32 {
        if let Some(number) = self.free.pop() {
            self.values[number as usize] = Some(value);
            return number;
        }
        self.values.push(Some(value));
        self.values.len() as u32 - 1
    }

    /// No item has it any more.
    pub(super) fn give_up(&mut self, number: u32) {
        if let Some(value) = self.values.get_mut(number as usize).and_then(Option::take) {
            self.free.push(number);
            self.gone.push(value.kept);
        }
    }

    /// How many items have a value here, each of which it names to `f`.
    pub(super) fn check(&self, mut f: impl FnMut(u32, u32)) -> usize {
        let values = (0..).zip(&self.values).filter_map(|(number, value)| Some((number, value.as_ref()?)));
        values.inspect(|(number, value)| f(*number, value.slot)).count()
    }
}

impl Shard {
    /// An item's value, where it lies.
    pub(crate) fn content(&self, id: u32) -> Content<'_> {
        let slot = self.slot(id);
        match slot.kept().and_then(|number| self.kept.get(number)) {
            Some(value) => Content::Kept(value),
            None => Content::Heap(slot.value()),
        }
    }

    /// As [`Shard::content`], for a reply: the clock's hand sees that it was sent.
    pub(crate) fn content_to_send(&mut self, id: u32) -> Content<'_> {
        let slot = self.slot_mut(id);
        if slot.has(KEPT) && !slot.has(KEPT_SENT) {
            slot.bits |= KEPT_SENT;
        }
        self.content(id)
    }

    /// Brings a value back to the heap, so that it can be looked at as one piece.
    pub(super) fn bring_back(&mut self, id: u32) {
        let Some(number) = self.slot(id).kept() else { return };
        let body = self.whole(id);
        self.work += body.as_ref().map_or(0, |body| body.len());
        let slot = self.slot_mut(id);
        (slot.body, slot.bits) = (body, slot.bits & !(KEPT | KEPT_SENT));
        self.kept.give_up(number);
    }

    /// Brings all values back.
    fn bring_all_back(&mut self) {
        for number in 0..self.kept.values.len() {
            if let Some(value) = &self.kept.values[number] {
                self.bring_back(value.slot);
            }
        }
    }
}

#[cfg(feature = "server")]
impl Shard {
    /// Moves an item's value to memory that the NIC reads.
    fn keep(&mut self, id: u32, memory: &mut KeptMemory) -> bool {
        let slot = self.slot(id);
        // Bytes that a reply refers to would count twice until it is out.
        let free = slot.body.as_ref().is_some_and(|body| Arc::strong_count(body) == 1);
        if slot.has(KEPT) || !free {
            return slot.has(KEPT);
        }
        let value = slot.value();
        let Some(mut kept) = memory.alloc(value.len()) else {
            self.kept.unkept = self.kept.unkept.wrapping_add(1);
            if self.kept.unkept.is_multiple_of(MOVES_ONE_OF) {
                self.move_hand();
            }
            return false;
        };
        let written = memory.write(&mut kept, 0, value);
        #[expect(unsafe_code, reason = "other threads read the values of this one's stack")]
        // SAFETY: the value is written, once. It is read by whoever has the shard locked, as long as an item has it, and freed after that: it
        // is `gone` first, which takes the lock, too.
        let places = unsafe { memory.places(&kept) };
        let Some(places) = places.filter(|_| written) else {
            memory.free(kept); // it would be in more pieces than a datagram has
            return false;
        };
        let number = self.kept.add(KeptValue { kept, places, slot: id });
        let slot = self.slot(id);
        let body = body_of_kept(slot.key(), number, slot.value().len());
        let slot = self.slot_mut(id);
        slot.bits |= KEPT | KEPT_SENT;
        slot.body = Some(body);
        true
    }

    /// Brings values back that were not sent since the hand passed them last.
    fn move_hand(&mut self) {
        for _ in 0..STEPS.min(self.kept.values.len()) {
            self.kept.hand = (self.kept.hand + 1) % self.kept.values.len();
            let Some(id) = self.kept.values[self.kept.hand].as_ref().map(|value| value.slot) else {
                continue;
            };
            if self.slot(id).has(KEPT_SENT) {
                self.slot_mut(id).bits &= !KEPT_SENT;
            } else {
                self.bring_back(id);
                return;
            }
        }
    }
}

#[cfg(feature = "server")]
impl Session<'_> {
    /// Moves the value of a key to memory that the NIC reads; `memory` is that of the one thread that does so with keys of this shard. False
    /// when there is no such item, or no memory.
    pub fn keep(&mut self, key: &[u8], memory: &mut KeptMemory) -> bool {
        let (place, now) = (self.place(key), self.now);
        let shard = self.shard(place);
        let found = shard.find(place.hash, key, now);
        found.is_some_and(|id| shard.keep(id, memory))
    }

    /// Frees the values of a shard that no item has any more.
    pub fn free_gone(&mut self, shard: usize, memory: &mut KeptMemory) {
        let gone = &mut self.numbered(shard).kept.gone;
        gone.drain(..).for_each(|kept| memory.free(kept));
    }
}

impl Session<'_> {
    /// Brings all values of a shard back to the heap: before the memory ends that they lie in.
    pub fn bring_back(&mut self, shard: usize) {
        self.numbered(shard).bring_all_back();
    }
}
