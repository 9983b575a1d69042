//! The book of requests in flight and of what was written: whether each answer is right, and how long it took.

use hdrhistogram::Histogram;

use crate::protocol::Reply;
use crate::transport::{MOST_INFLIGHT, Number};
use crate::value::{self, Version};
use crate::workload::{Draw, Plan};

/// Places for requests in flight, by the last bits of their numbers.
const PLACES: usize = 2 * MOST_INFLIGHT;
/// Latencies are kept up to this, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// What is known of an object.
#[derive(Debug, Clone, Copy, Default)]
struct Object {
    /// The latest write that was begun.
    begun: u32,
    /// Older writes than this one are overwritten for certain.
    floor: u32,
    /// Writes in flight; one that was lost stays in it, since it may still be done.
    writing: u32,
}

/// A request in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    number: Number,
    live: bool,
    draw: Draw,
    /// Of a set, the write. Of a get, the oldest write that may answer it.
    write: u32,
    /// Of a set: no other write of the object was in flight when it began.
    alone: bool,
    /// When it should have been sent, and when it was, in ticks.
    intended: u64,
    sent: u64,
}

/// What was counted. Everything but `gets`, `sets`, `hits` and the latencies counts during the warm-up, too.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Gets answered in the time that is measured.
    pub gets: u64,
    /// Sets answered in it.
    pub sets: u64,
    /// Gets among them that found their object.
    pub hits: u64,
    /// Requests answered in all, in and out of that time.
    pub answered: u64,
    /// Requests that the store refused.
    pub refused: u64,
    /// What it said, the first time.
    pub refusal: Option<String>,
    /// Values that are not what was written, and answers that do not fit their request.
    pub corrupt: u64,
    /// Values that were overwritten before they were asked for.
    pub stale: u64,
    /// Requests without an answer in time.
    pub lost: u64,
    /// From the time when each request was due, in nanoseconds.
    pub latencies: Histogram<u64>,
}

impl Tally {
    fn new() -> anyhow::Result<Tally> {
        let latencies = Histogram::new_with_bounds(1, LONGEST, 3)?;
        let refusal = None;
        let (gets, sets, hits, answered) = (0, 0, 0, 0);
        let (refused, corrupt, stale, lost) = (0, 0, 0, 0);
        Ok(Tally { gets, sets, hits, answered, refused, refusal, corrupt, stale, lost, latencies })
    }

    /// True when no answer was wrong.
    pub fn is_right(&self) -> bool {
        self.corrupt + self.stale == 0
    }
}

/// The book.
#[derive(Debug)]
pub struct Book<'a> {
    plan: &'a Plan,
    /// The number of this run in versions.
    run: u32,
    /// All objects were written by this run: nothing older may be read.
    preloaded: bool,
    objects: Vec<Object>,
    places: Box<[Pending]>,
    /// No request before this one is in flight.
    oldest: Number,
    next: Number,
    inflight: usize,
    /// Requests that were due in this time are counted: ticks.
    window: (u64, u64),
    /// What was counted.
    pub tally: Tally,
}

impl<'a> Book<'a> {
    /// A book without requests, for the run of this number.
    ///
    /// # Errors
    /// When there is no room for the latencies.
    pub fn new(plan: &'a Plan, run: u32) -> anyhow::Result<Book<'a>> {
        Ok(Book {
            plan,
            run,
            preloaded: false,
            objects: vec![Object::default(); plan.objects() as usize],
            places: vec![Pending::default(); PLACES].into(),
            oldest: 0,
            next: 0,
            inflight: 0,
            window: (0, 0),
            tally: Tally::new()?,
        })
    }

    /// The preload is done; what is counted begins anew.
    ///
    /// # Errors
    /// As [`new`](Book::new).
    pub fn loaded(&mut self) -> anyhow::Result<()> {
        self.preloaded = true;
        self.tally = Tally::new()?;
        Ok(())
    }

    /// Counts what is due from now on in this time.
    pub fn measure(&mut self, from: u64, until: u64) {
        self.window = (from, until);
    }

    /// Requests in flight.
    pub fn inflight(&self) -> usize {
        self.inflight
    }

    /// The next request's number, and the version that it writes if it is a set. It is in flight once it was
    /// [sent](Book::sent).
    #[inline]
    pub fn next(&mut self, draw: Draw) -> (Number, Version) {
        // The places of requests that wait long are passed over.
        while self.places[self.next as usize % PLACES].live {
            self.next += 1;
        }
        let write = self.objects[draw.object as usize].begun + u32::from(draw.set);
        (self.next, Version { run: self.run, write })
    }

    /// The preload's version of everything.
    pub fn first(&self) -> Version {
        Version { run: self.run, write: 0 }
    }

    /// The request of [`next`](Book::next) was sent. A preload writes version 0, so that it begins no new one.
    #[inline]
    pub fn sent(&mut self, draw: Draw, intended: u64, now: u64, preload: bool) {
        let object = &mut self.objects[draw.object as usize];
        let (mut write, mut alone) = (object.floor, false);
        if draw.set && !preload {
            object.begun += 1;
            alone = object.writing == 0;
            object.writing += 1;
            write = object.begun;
        }
        let number = self.next;
        self.places[number as usize % PLACES] =
            Pending { number, live: true, draw, write, alone, intended, sent: now };
        self.next += 1;
        self.inflight += 1;
    }

    /// A reply has come: what it answered, or nothing when nobody waits for it any more.
    #[inline]
    pub fn answered(
        &mut self,
        number: Number,
        reply: Reply<'_>,
        now: u64,
        ns: impl Fn(u64) -> u64,
    ) -> Option<Draw> {
        let place = self.places.get_mut(number as usize % PLACES)?;
        if !place.live || place.number != number {
            return None;
        }
        place.live = false;
        let pending = *place;
        self.inflight -= 1;
        self.tally.answered += 1;
        let right = self.judge(&pending, reply);
        let (from, until) = self.window;
        if right && (from..until).contains(&now) {
            let set = pending.draw.set;
            self.tally.sets += u64::from(set);
            self.tally.gets += u64::from(!set);
            self.tally.hits += u64::from(matches!(reply, Reply::Value { .. }));
        }
        if right && (from..until).contains(&pending.intended) {
            self.tally.latencies.saturating_record(ns(now.saturating_sub(pending.intended)).max(1));
        }
        Some(pending.draw)
    }

    /// True when a reply is right; counts what is wrong with it.
    #[inline]
    fn judge(&mut self, pending: &Pending, reply: Reply<'_>) -> bool {
        let Draw { object, set } = pending.draw;
        match (set, reply) {
            (false, Reply::Value { key, data }) => {
                let named = key.is_none_or(|key| *key == value::key(object));
                if !named || data.len() != self.plan.size(object) {
                    self.tally.corrupt += 1;
                    return false;
                }
                self.judge_value(pending, data)
            }
            (false, Reply::Miss) => true,
            (true, Reply::Stored) => {
                self.stored(pending);
                true
            }
            (_, Reply::Refused(why)) => {
                // Nothing was written, but what was there may be gone: a store removes a value that it cannot replace.
                let object = &mut self.objects[object as usize];
                object.writing -= u32::from(set && object.writing > 0);
                self.tally.refused += 1;
                self.tally.refusal.get_or_insert_with(|| why.escape_ascii().to_string());
                false
            }
            _ => {
                self.tally.corrupt += 1;
                false
            }
        }
    }

    #[inline]
    fn judge_value(&mut self, pending: &Pending, data: &[u8]) -> bool {
        let object = pending.draw.object;
        match value::verify(object, data) {
            Ok(None) => true,
            Ok(Some(version)) if version.run == self.run => {
                let stale = version.write < pending.write;
                let unwritten = version.write > self.objects[object as usize].begun;
                self.tally.stale += u64::from(stale);
                self.tally.corrupt += u64::from(unwritten);
                !stale && !unwritten
            }
            // Another run wrote it: right unless this one has overwritten it since.
            Ok(Some(_)) => {
                let stale = self.preloaded || pending.write > 0;
                self.tally.stale += u64::from(stale);
                !stale
            }
            Err(()) => {
                self.tally.corrupt += 1;
                false
            }
        }
    }

    #[inline]
    fn stored(&mut self, set: &Pending) {
        let object = &mut self.objects[set.draw.object as usize];
        if set.write > 0 {
            object.writing = object.writing.saturating_sub(1);
            if set.alone {
                object.floor = object.floor.max(set.write);
            }
        }
    }

    /// Gives up requests that were sent before `limit`, if `forget` lets go of them; `lost` gets each.
    #[inline]
    pub fn expire(&mut self, limit: u64, mut forget: impl FnMut(Number) -> bool, mut lost: impl FnMut(Draw)) {
        while self.oldest < self.next {
            let place = &mut self.places[self.oldest as usize % PLACES];
            if place.live && place.number == self.oldest {
                if place.sent >= limit || !forget(place.number) {
                    return;
                }
                place.live = false;
                self.inflight -= 1;
                self.tally.lost += 1;
                lost(place.draw);
            }
            self.oldest += 1;
        }
    }

    /// When the request was sent that has been in flight longest, after [`expire`](Book::expire).
    #[inline]
    pub fn oldest(&self) -> Option<u64> {
        let place = self.places.get(self.oldest as usize % PLACES)?;
        (self.oldest < self.next && place.live && place.number == self.oldest).then_some(place.sent)
    }

    /// The requests in flight, in no order.
    pub fn waiting(&self) -> impl Iterator<Item = Draw> {
        self.places.iter().filter(|place| place.live).map(|place| place.draw)
    }

    /// Counts what is still in flight as lost, at the end.
    pub fn close(&mut self) {
        self.tally.lost += self.inflight as u64;
        self.inflight = 0;
    }
}

#[cfg(test)]
mod tests;
