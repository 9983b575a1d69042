//! Which of a client's queues a poll looks at.
//!
//! A poll looks at [`LOOKS`] queues at most, for a look costs time whether or not there are packets, and a program may have 256 queues
//! and use one. Queues that had packets lately are *busy* and are looked at in turn. Of the others a poll looks at one, when it has
//! found nothing in the busy ones, and in every [`IDLE_EVERY`]th poll before them; when none is busy, at [`LOOKS`].

/// Queues that a poll looks at, at most.
pub(super) const LOOKS: usize = 4;

/// One poll in so many begins with an idle queue: a busy one that always has packets keeps none of the others waiting for ever.
const IDLE_EVERY: u32 = 8;

/// Polls since it had packets last after which a queue is no longer busy.
const BUSY_POLLS: u32 = 512;

/// The order in which queues are looked at.
#[derive(Debug)]
pub(super) struct Turns {
    /// Indices of queues: `busy` that are busy, then the idle ones.
    order: Box<[u16]>,
    /// By index of the queue: its place in `order`.
    places: Box<[u16]>,
    /// By index of the queue: the poll in which it had packets last.
    last: Box<[u32]>,
    busy: usize,
    /// Places in `order` of the next busy and the next idle queue.
    next_busy: usize,
    next_idle: usize,
    polls: u32,
}

/// What a poll may still look at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Looks {
    busy: usize,
    idle: usize,
    idle_first: bool,
}

impl Turns {
    /// For so many queues, none of which is busy.
    pub(super) fn new(queues: usize) -> Turns {
        Turns {
            order: (0..queues).map(|at| at as u16).collect(),
            places: (0..queues).map(|at| at as u16).collect(),
            last: vec![0; queues].into(),
            busy: 0,
            next_busy: 0,
            next_idle: 0,
            polls: 0,
        }
    }

    /// There is one queue only: all the rest is beside the point.
    #[inline(always)]
    pub(super) fn single(&self) -> bool {
        self.order.len() == 1
    }

    /// Polls that look at every busy queue once.
    pub(super) fn round(&self) -> usize {
        self.busy.div_ceil(LOOKS - 1).max(1)
    }

    /// Begins a poll; gives the index of the first queue to look at, and what may be looked at after it.
    pub(super) fn first(&mut self, looks: &mut Looks) -> Option<usize> {
        self.polls = self.polls.wrapping_add(1);
        let others = self.order.len() - self.busy;
        *looks = Looks {
            busy: self.busy.min(LOOKS - 1),
            idle: others.min(if self.busy == 0 { LOOKS } else { 1 }),
            idle_first: self.polls.is_multiple_of(IDLE_EVERY),
        };
        self.next(looks)
    }

    /// The index of the next queue to look at in this poll.
    pub(super) fn next(&mut self, looks: &mut Looks) -> Option<usize> {
        let idle = looks.idle > 0 && (looks.idle_first || looks.busy == 0);
        let place = if idle {
            looks.idle -= 1;
            looks.idle_first = false;
            in_turn(&mut self.next_idle, self.busy, self.order.len())
        } else if looks.busy > 0 {
            looks.busy -= 1;
            in_turn(&mut self.next_busy, 0, self.busy)
        } else {
            None
        };
        place.and_then(|place| self.order.get(place)).map(|at| usize::from(*at))
    }

    /// The queue had packets.
    #[inline(always)]
    pub(super) fn found(&mut self, at: usize) {
        self.touch(at);
    }

    /// The queue had none.
    #[inline(always)]
    pub(super) fn missed(&mut self, at: usize) {
        if self.place(at) < self.busy && self.idles(at) {
            self.demote(at);
        }
    }

    /// The queue is busy from now on.
    pub(super) fn touch(&mut self, at: usize) {
        if let Some(last) = self.last.get_mut(at) {
            *last = self.polls;
        }
        let place = self.place(at);
        if place >= self.busy && place < self.order.len() {
            // The first idle queue takes its place: one that has had its turn, unless this one is the first.
            self.swap(place, self.busy);
            self.busy += 1;
        }
    }

    fn idles(&self, at: usize) -> bool {
        self.last.get(at).is_some_and(|last| self.polls.wrapping_sub(*last) > BUSY_POLLS)
    }

    /// The queue is idle from now on: the first of them, whose turn is over.
    fn demote(&mut self, at: usize) {
        let place = self.place(at);
        self.busy -= 1;
        self.swap(place, self.busy);
        self.next_busy = place; // of the one that has come here
    }

    fn place(&self, at: usize) -> usize {
        self.places.get(at).map_or(usize::MAX, |place| usize::from(*place))
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        for place in [a, b] {
            if let Some(slot) = self.order.get(place).and_then(|at| self.places.get_mut(usize::from(*at))) {
                *slot = place as u16;
            }
        }
    }
}

/// The next place from `first` up to `end`, round and round.
fn in_turn(next: &mut usize, first: usize, end: usize) -> Option<usize> {
    let place = if (first..end).contains(next) { *next } else { first };
    *next = place + 1;
    (place < end).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One poll of queues of which those in `has` have packets; returns what was looked at.
    fn poll(turns: &mut Turns, has: impl Fn(usize) -> bool) -> Vec<usize> {
        let (mut looks, mut looked) = (Looks::default(), Vec::new());
        let mut next = turns.first(&mut looks);
        while let Some(at) = next {
            looked.push(at);
            if has(at) {
                turns.found(at);
                break;
            }
            turns.missed(at);
            next = turns.next(&mut looks);
        }
        looked
    }

    #[test]
    fn one_queue_is_looked_at_once_a_poll() {
        let mut turns = Turns::new(1);
        assert!(turns.single());
        assert_eq!([poll(&mut turns, |_| false), poll(&mut turns, |_| true)], [[0], [0]]);
        assert_eq!(turns.round(), 1);
    }

    #[test]
    fn queues_without_packets_are_looked_at_in_turn() {
        let mut turns = Turns::new(10);
        let looked: Vec<_> = (0..5).flat_map(|_| poll(&mut turns, |_| false)).collect();
        assert_eq!(looked, (0..10).chain(0..10).collect::<Vec<_>>());
    }

    /// One of 256 queues has packets all the time: it is found in the first look of seven polls in eight, the others cost one look in
    /// eight polls.
    #[test]
    fn a_program_that_uses_one_of_many_queues_is_hardly_slower_than_one_with_one() {
        let mut turns = Turns::new(256);
        while poll(&mut turns, |at| at == 77).last() != Some(&77) {}
        let looks: usize = (0..800).map(|_| poll(&mut turns, |at| at == 77)).map(|looked| looked.len()).sum();
        assert_eq!(looks, 800 + 100);
    }

    /// The same program waits for its packets to come back: each poll looks at its one busy queue and one other.
    #[test]
    fn a_queue_stays_busy_for_a_while() {
        let mut turns = Turns::new(256);
        while poll(&mut turns, |at| at == 77).last() != Some(&77) {}
        for _ in 0..BUSY_POLLS {
            let looked = poll(&mut turns, |_| false);
            assert!(looked.len() == 2 && looked.contains(&77), "{looked:?}");
        }
        poll(&mut turns, |_| false);
        assert_eq!((turns.busy, poll(&mut turns, |_| false).len()), (0, LOOKS), "then it is one of many");
    }

    /// It has received packets that were sent on another queue.
    #[test]
    fn a_touched_queue_is_looked_at_soon() {
        let mut turns = Turns::new(256);
        while poll(&mut turns, |at| at == 77).last() != Some(&77) {}
        for touched in [200, 3, 255] {
            turns.touch(touched);
            let looked: Vec<_> = (0..turns.round()).flat_map(|_| poll(&mut turns, |_| false)).collect();
            assert!(looked.contains(&touched), "{touched}: {looked:?}");
        }
    }

    #[test]
    fn busy_queues_take_turns() {
        let mut turns = Turns::new(5);
        (0..100).for_each(|_| _ = poll(&mut turns, |_| true)); // one in eight finds one more
        let mut counts = [0; 5];
        (0..1000).for_each(|_| counts[*poll(&mut turns, |_| true).last().unwrap()] += 1);
        assert_eq!(counts, [200; 5]);
        assert_eq!(turns.round(), 2);
    }

    proptest! {
        /// Whatever the others do: no queue waits longer for a look than a fixed number of polls, and no poll looks more often than it
        /// may, or twice.
        #[test]
        fn no_queue_is_forgotten(queues in 2..40usize, script in prop::collection::vec(any::<u64>(), 2000)) {
            let mut turns = Turns::new(queues);
            let mut waited = vec![0; queues];
            for word in script {
                // Queue 0 never has packets; the others do as the script says.
                let looked = poll(&mut turns, |at| at > 0 && word >> (at % 64) & 1 == 1);
                prop_assert!(looked.len() <= LOOKS);
                prop_assert!((1..looked.len()).all(|i| !looked[..i].contains(&looked[i])));
                waited.iter_mut().for_each(|polls| *polls += 1);
                looked.iter().for_each(|at| waited[*at] = 0);
                // An idle one: a look in eight polls, each of which may also find one that moves ahead of it.
                let most = 2 * queues * IDLE_EVERY as usize;
                prop_assert!(waited.iter().all(|polls| *polls <= most), "{waited:?}");
                let mut order = turns.order.to_vec();
                order.sort_unstable();
                prop_assert!(order.iter().map(|at| usize::from(*at)).eq(0..queues), "a permutation");
                prop_assert!((0..queues).all(|at| usize::from(turns.order[turns.place(at)]) == at));
            }
        }
    }
}
