//! Pending events, in order of time: a calendar queue.
//!
//! Nearly all events happen within some hundred nanoseconds. They wait in a ring of short spans of time; those of the far future
//! wait in a heap. The next event stands apart, because agents that run ahead ask for its time at each step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;

use super::time::Ps;

/// What happens at a moment. It is stored as one word: what is written in parts and read as a whole is slow.
pub trait Event: Copy {
    /// In one word.
    fn pack(self) -> u64;
    /// Back again.
    fn unpack(word: u64) -> Self;
}

/// The time of an event, its rank among events of the same time, and the event.
type Entry = (Ps, u64, u64);

/// Spans of the ring: 512 ns.
const SPANS: usize = 8192;
/// Length of a span, as a power of two of picoseconds.
const SPAN: u32 = 6;
/// No event.
const NEVER: Entry = (Ps::MAX, u64::MAX, 0);
/// Nothing follows.
const END: u32 = u32::MAX;

/// Events in order of time. At the same time messages come before resumed agents; messages in the order in which they were sent,
/// agents by number.
#[derive(Debug)]
pub struct EventQueue<E> {
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
    kind: PhantomData<E>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue {
            next: NEVER,
            spans: Box::new([END; SPANS]),
            taken: [0; SPANS / 64],
            entries: Vec::new(),
            free: END,
            far: BinaryHeap::new(),
            now: 0,
            sent: 0,
            kind: PhantomData,
        }
    }
}

impl<E: Event> EventQueue<E> {
    /// Adds a message: an event that comes after those sent before it for the same time.
    #[inline]
    pub fn push(&mut self, at: Ps, event: E) {
        self.sent += 1;
        self.insert(at, self.sent, event);
    }

    /// Adds the event that resumes an agent.
    #[inline]
    pub fn push_resume(&mut self, at: Ps, event: E, agent: u8) {
        self.insert(at, 1 << 63 | u64::from(agent), event);
    }

    #[inline]
    fn insert(&mut self, at: Ps, tie: u64, event: E) {
        let (entry, next) = ((at, tie, event.pack()), self.next);
        if (at, tie) < (next.0, next.1) {
            self.next = entry;
            if next.0 != Ps::MAX {
                self.put(next.0, next.1, next.2);
            }
        } else {
            self.put(entry.0, entry.1, entry.2);
        }
    }

    /// Puts an event into the ring, or beyond. Its parts come one by one, in registers: an entry that is passed in memory is read as a
    /// whole there right after it was written in parts.
    #[inline]
    fn put(&mut self, at: Ps, tie: u64, event: u64) {
        let entry = (at, tie, event);
        let span = (at.max(self.now) >> SPAN) as usize;
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
    pub fn pop_until(&mut self, until: Ps) -> Option<(Ps, E)> {
        let (at, _, event) = self.next;
        if at > until || at == Ps::MAX {
            return None;
        }
        self.now = self.now.max(at);
        self.take_first();
        Some((at, E::unpack(event)))
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

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Sample {
        Message(u32),
        Resume(u8),
    }

    impl Event for Sample {
        fn pack(self) -> u64 {
            match self {
                Sample::Message(n) => n.into(),
                Sample::Resume(agent) => 1 << 40 | u64::from(agent),
            }
        }

        fn unpack(word: u64) -> Sample {
            if word >> 40 == 0 { Sample::Message(word as u32) } else { Sample::Resume(word as u8) }
        }
    }

    /// As a sorted list has them, whatever the distances.
    #[test]
    fn events_come_in_order() {
        let (mut events, mut expected) = (EventQueue::default(), Vec::new());
        let (mut now, mut x, mut popped) = (0, 1u64, 0);
        for round in 0..20_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let distance =
                [0, 3, 300, 40_000, 520_000, 524_287, 524_288, 600_000, 90_000_000][(x >> 33) as usize % 9];
            if x >> 60 < 8 && round < 15_000 {
                let at = now + (x >> 40) % (distance + 1);
                let (event, tie) = if x >> 50 & 1 == 0 {
                    let agent = (x >> 20) as u8;
                    events.push_resume(at, Sample::Resume(agent), agent);
                    (Sample::Resume(agent), 1 << 63 | u64::from(agent))
                } else {
                    events.push(at, Sample::Message(round as u32));
                    (Sample::Message(round as u32), events.sent)
                };
                expected.push((at, tie, event.pack()));
            } else {
                expected.sort_unstable_by(|a, b| b.cmp(a));
                let next = expected.last().map(|e| e.0);
                assert_eq!(events.next_at(), next);
                let until = if x & 1 == 0 { now } else { Ps::MAX };
                let due = next.is_some_and(|at| at <= until);
                let first = if due { expected.pop().map(|e| (e.0, Sample::unpack(e.2))) } else { None };
                assert_eq!(events.pop_until(until), first);
                now = first.map_or(now, |e| e.0);
                popped += u32::from(due);
            }
        }
        assert!(popped > 5_000);
    }
}
