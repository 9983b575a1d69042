//! What is going to happen, in order of time.
//!
//! Nearly everything happens within some hundred nanoseconds, so events wait in a ring of short spans of time, and only the far
//! future in a heap. The next event stands apart: whoever runs ahead asks for its time at each step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::kernel::time::Ps;

/// Something that happens at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A request reaches the home agent of its core's socket.
    Arrive(u32),
    /// A request reaches its line's home in the other socket.
    AtHome(u32),
    /// A snoop for a transaction reaches a core.
    Snoop(u32, u8),
    /// Data, or ownership, reaches the core that asked.
    Fill(u32),
    /// A core's hint to move a line towards its readers reaches the home agent.
    Demote(u32, u8),
    /// A core goes on.
    Resume(u8),
    /// Something that is on its way to, from or within a device, by number.
    Device(u32),
}

impl Event {
    /// In one word: what is stored in parts and read as a whole is slow.
    #[inline]
    fn pack(self) -> u64 {
        let (kind, core, number) = match self {
            Event::Arrive(txn) => (0, 0, txn),
            Event::AtHome(txn) => (1, 0, txn),
            Event::Snoop(txn, core) => (2, core, txn),
            Event::Fill(txn) => (3, 0, txn),
            Event::Demote(line, core) => (4, core, line),
            Event::Resume(core) => (5, core, 0),
            Event::Device(number) => (6, 0, number),
        };
        kind << 40 | u64::from(core) << 32 | u64::from(number)
    }

    /// Back again.
    #[inline]
    fn unpack(word: u64) -> Event {
        let (core, number) = ((word >> 32) as u8, word as u32);
        match word >> 40 {
            0 => Event::Arrive(number),
            1 => Event::AtHome(number),
            2 => Event::Snoop(number, core),
            3 => Event::Fill(number),
            4 => Event::Demote(number, core),
            5 => Event::Resume(core),
            _ => Event::Device(number),
        }
    }
}

/// When an event happens, what decides at the same time, and the event. In order.
type Entry = (Ps, u64, u64);

/// Spans of the ring: 512 ns.
const SPANS: usize = 8192;
/// Length of a span, as a power of two of picoseconds.
const SPAN: u32 = 6;
/// No event.
const NEVER: Entry = (Ps::MAX, u64::MAX, 0);
/// Nothing follows.
const END: u32 = u32::MAX;

/// Events in order of time; at the same time messages before cores, cores by number, messages by age.
#[derive(Debug)]
pub struct Events {
    /// The next event; at the end of time when there is none.
    next: Entry,
    /// For each span the first of its events, which are in no order.
    spans: Box<[u32; SPANS]>,
    /// Which spans have events.
    taken: [u64; SPANS / 64],
    /// Events in spans, each with the one that follows it; and those that have no event.
    entries: Vec<(Entry, u32)>,
    free: u32,
    /// Events beyond the ring.
    far: BinaryHeap<Reverse<Entry>>,
    /// Nothing in the ring is earlier.
    now: Ps,
    sent: u64,
}

impl Default for Events {
    fn default() -> Events {
        Events {
            next: NEVER,
            spans: Box::new([END; SPANS]),
            taken: [0; SPANS / 64],
            entries: Vec::new(),
            free: END,
            far: BinaryHeap::new(),
            now: 0,
            sent: 0,
        }
    }
}

impl Events {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Ps, event: Event) {
        let tie = match event {
            Event::Resume(core) => 1 << 63 | u64::from(core),
            _ => {
                self.sent += 1;
                self.sent
            }
        };
        let (entry, next) = ((at, tie, event.pack()), self.next);
        if (at, tie) < (next.0, next.1) {
            self.next = entry;
            if next.0 != Ps::MAX {
                self.put(next);
            }
        } else {
            self.put(entry);
        }
    }

    /// Puts an event into the ring, or beyond.
    #[inline]
    fn put(&mut self, entry: Entry) {
        let span = (entry.0.max(self.now) >> SPAN) as usize;
        if span - (self.now >> SPAN) as usize >= SPANS {
            self.far.push(Reverse(entry));
            return;
        }
        let span = span % SPANS;
        let following = std::mem::replace(&mut self.spans[span], self.free);
        match self.entries.get_mut(self.free as usize) {
            Some(place) => self.free = std::mem::replace(place, (entry, following)).1,
            None => {
                self.spans[span] = self.entries.len() as u32;
                self.entries.push((entry, following));
            }
        }
        self.taken[span / 64] |= 1 << (span % 64);
    }

    /// The next event, if it happens by then.
    #[inline]
    pub fn pop_until(&mut self, until: Ps) -> Option<(Ps, Event)> {
        let (at, _, event) = self.next;
        if at > until || at == Ps::MAX {
            return None;
        }
        self.now = self.now.max(at);
        self.take_first();
        Some((at, Event::unpack(event)))
    }

    /// When the next event happens.
    #[inline]
    pub fn next_at(&self) -> Option<Ps> {
        (self.next.0 != Ps::MAX).then_some(self.next.0)
    }

    /// Takes the earliest event out of the ring, or from beyond it: the next one.
    #[inline]
    fn take_first(&mut self) {
        let Some(span) = self.first_span() else {
            self.next = self.far.pop().map_or(NEVER, |Reverse(far)| far);
            return;
        };
        // The earliest of the span, and the one before it in the list.
        let first = self.spans[span];
        let (mut best, mut before_best, mut before) = (first, END, first);
        let ((mut time, mut tie, _), mut at) = self.entries[first as usize];
        let mut following = at;
        while at != END {
            let ((t, u, _), next) = self.entries[at as usize];
            if (t, u) < (time, tie) {
                (best, before_best, time, tie, following) = (at, before, t, u, next);
            }
            (before, at) = (at, next);
        }
        if let Some(Reverse(far)) = self.far.peek()
            && (far.0, far.1) < (time, tie)
        {
            self.next = self.far.pop().map_or(NEVER, |Reverse(far)| far);
            return;
        }
        self.next = (time, tie, self.entries[best as usize].0.2);
        if before_best != END {
            self.entries[before_best as usize].1 = following;
        } else {
            self.spans[span] = following;
            if following == END {
                self.taken[span / 64] &= !(1 << (span % 64));
            }
        }
        self.entries[best as usize].1 = std::mem::replace(&mut self.free, best);
    }

    /// The first span from now on that has events.
    fn first_span(&self) -> Option<usize> {
        let from = (self.now >> SPAN) as usize % SPANS;
        let (word, bit) = (from / 64, from % 64);
        const WORDS: usize = SPANS / 64;
        let rest = self.taken[word] >> bit << bit;
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        // All around, to the part of the first word that is left.
        (1..=WORDS).map(|i| (word + i) % WORDS).find(|w| self.taken[*w] != 0).map(|w| {
            let bits = self.taken[w];
            w * 64 + bits.trailing_zeros() as usize
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a sorted list has them, whatever the distances.
    #[test]
    fn events_come_in_order() {
        let (mut events, mut expected) = (Events::default(), Vec::new());
        let (mut now, mut x, mut popped) = (0, 1u64, 0);
        for round in 0..20_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let distance =
                [0, 3, 300, 40_000, 520_000, 524_287, 524_288, 600_000, 90_000_000][(x >> 33) as usize % 9];
            if x >> 60 < 8 && round < 15_000 {
                let at = now + (x >> 40) % (distance + 1);
                let event =
                    if x >> 50 & 1 == 0 { Event::Resume((x >> 20) as u8) } else { Event::Fill(round as u32) };
                events.push(at, event);
                let tie =
                    if let Event::Resume(core) = event { 1 << 63 | u64::from(core) } else { events.sent };
                expected.push((at, tie, event.pack()));
            } else {
                expected.sort_unstable_by(|a, b| b.cmp(a));
                let next = expected.last().map(|e| e.0);
                assert_eq!(events.next_at(), next);
                let until = if x & 1 == 0 { now } else { Ps::MAX };
                let due = next.is_some_and(|at| at <= until);
                let first = if due { expected.pop().map(|e| (e.0, Event::unpack(e.2))) } else { None };
                assert_eq!(events.pop_until(until), first);
                now = first.map_or(now, |e| e.0);
                popped += u32::from(due);
            }
        }
        assert!(popped > 5_000);
    }
}
