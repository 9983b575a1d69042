//! Which objects a preload has still to write, and when it gives one up.

use std::collections::{HashMap, HashSet};

use crate::workload::Plan;

/// A write that was lost so often, and for as long as a store may be silent, will not be answered while others are.
const TRIES: u32 = 25;

/// The objects of a plan, each of which is written until the store has answered.
pub(crate) struct Writes<'a> {
    plan: &'a Plan,
    /// The first object that was not written yet.
    next: u32,
    /// Objects whose writes were lost.
    again: Vec<u32>,
    /// How often each was lost, and since when in ticks.
    lost: HashMap<u32, (u32, u64)>,
    /// Writes that were sent again.
    pub(crate) repeated: u64,
}

impl<'a> Writes<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Writes<'a> {
        Writes { plan, next: 0, again: Vec::new(), lost: HashMap::new(), repeated: 0 }
    }

    /// The object to be written next.
    pub(crate) fn next(&self) -> Option<u32> {
        let fresh = (self.next < self.plan.objects()).then_some(self.next);
        self.again.last().copied().or(fresh)
    }

    /// That one was sent.
    pub(crate) fn sent(&mut self) {
        if self.again.pop().is_some() {
            self.repeated += 1;
        } else {
            self.next += 1;
        }
    }

    /// A write was lost.
    pub(crate) fn lost(&mut self, object: u32, now: u64) {
        self.again.push(object);
        self.lost.entry(object).or_insert((0, now)).0 += 1;
    }

    /// An object that the store does not take: its writes are lost since `limit` ticks.
    pub(crate) fn hopeless(&self, now: u64, limit: u64) -> Option<u32> {
        let object = *self.again.last()?;
        let (times, since) = *self.lost.get(&object)?;
        (times >= TRIES && now.saturating_sub(since) >= limit).then_some(object)
    }

    /// What the writes that are not answered have in common, when `waiting` are in flight: they are longer than all that are.
    pub(crate) fn hint(&self, waiting: impl Iterator<Item = u32>) -> String {
        let open: HashSet<u32> = self.again.iter().copied().chain(waiting).collect();
        let size = |object: &u32| self.plan.size(*object);
        let shortest = open.iter().map(size).min();
        let longest =
            (0..self.next).filter(|object| !open.contains(object)).map(|object| size(&object)).max();
        match (longest, shortest) {
            (Some(longest), Some(shortest)) if !self.lost.is_empty() && longest < shortest => format!(
                "; values of up to {longest} bytes are answered and none of {shortest} or more, whose datagrams may be \
                 too long for the way: give --largest {longest}"
            ),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Sizes, Workload};

    fn plan() -> Plan {
        Plan::draw(&Workload { objects: 500, ..Workload::of_the_paper(Sizes::Geo) }).unwrap()
    }

    #[test]
    fn what_is_lost_is_written_again_until_it_is_hopeless() {
        let plan = plan();
        let mut writes = Writes::new(&plan);
        for n in 0..500 {
            assert_eq!(writes.next(), Some(n));
            writes.sent();
        }
        assert_eq!(writes.next(), None);
        for n in 0..u64::from(TRIES) {
            assert_eq!(writes.hopeless(n * 10, 200), None);
            writes.lost(7, n * 10);
            assert_eq!(writes.next(), Some(7));
            if n + 1 < u64::from(TRIES) {
                writes.sent();
            }
        }
        // Lost 25 times since tick 0: not for as long as 500 ticks, but for 200.
        assert_eq!((writes.hopeless(240, 500), writes.hopeless(240, 200)), (None, Some(7)));
        assert_eq!(writes.repeated, u64::from(TRIES) - 1);
    }

    #[test]
    fn long_values_that_are_lost_are_told_from_chance() {
        let plan = plan();
        let mut writes = Writes::new(&plan);
        (0..500).for_each(|_| writes.sent());
        assert_eq!(writes.hint([].into_iter()), "");
        let long: Vec<u32> = (0..500).filter(|object| plan.size(*object) > 1400).collect();
        let (waiting, lost) = long.split_at(5);
        lost.iter().for_each(|object| writes.lost(*object, 1));
        let hint = writes.hint(waiting.iter().copied());
        let longest = (0..500).map(|object| plan.size(object)).filter(|size| *size <= 1400).max().unwrap();
        assert!(hint.ends_with(&format!("give --largest {longest}")), "{hint}");
        let short = (0..500).find(|object| plan.size(*object) < longest).unwrap();
        writes.lost(short, 1);
        assert_eq!(writes.hint(waiting.iter().copied()), "");
    }
}
