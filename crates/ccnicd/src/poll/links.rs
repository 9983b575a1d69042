//! The hand-off queues of one program whose queues several workers poll: one in each direction between any two of them.
//!
//! The queues belong to the program, not to the workers: a program that floods its own can make none of another's packets drop.

use ccnic::Desc;
use ccnic::nic::{FETCH, OtherCores, Steered};
use ccnic_handoff::{HandoffConsumer, HandoffProducer, Item, handoff};

use super::sleep::Caller;

/// Items of a hand-off queue: full bursts for sixteen polls of the other worker.
pub const CAPACITY: usize = 512;

/// Items that a call of [`Links::settle`] deals with, at most: more than a poll hands over.
const SETTLE: usize = 2 * FETCH;

/// Where a queue of the program is polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// By this worker: the queue's index here.
    Here(u16),
    /// By another one: its index among the producers.
    There(u16),
}

/// A program's hand-off queues as one worker sees them. Belongs to that worker's thread.
#[derive(Debug)]
pub struct Links {
    /// By queue number.
    routes: Box<[Route]>,
    /// One for each other worker.
    out: Box<[HandoffProducer]>,
    /// By producer: the worker at its other end, and how it is woken if it may sleep.
    others: Box<[(usize, Option<Caller>)]>,
    incoming: Box<[HandoffConsumer]>,
    /// The consumer to look at first.
    next: usize,
    /// The producer to settle first.
    unsettled: usize,
    /// Whether it has to be known which packets other workers are done with.
    completions: bool,
    /// Another worker has been found to have stopped: what it has not taken is to be taken back.
    lost: bool,
}

/// Bytes that the hand-off queues between so many workers take, but for a few for each queue.
pub fn mesh_bytes(workers: usize) -> usize {
    workers * workers.saturating_sub(1) * CAPACITY * size_of::<Item>()
}

/// Links all workers that poll queues of a program; `workers` names the worker of each queue. Gives the links of each worker.
pub fn mesh(workers: &[usize]) -> Vec<(usize, Links)> {
    let mut ids = workers.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let mut out: Vec<Vec<HandoffProducer>> = ids.iter().map(|_| Vec::new()).collect();
    let mut incoming: Vec<Vec<HandoffConsumer>> = ids.iter().map(|_| Vec::new()).collect();
    for (a, out) in out.iter_mut().enumerate() {
        for (_, incoming) in incoming.iter_mut().enumerate().filter(|(b, _)| *b != a) {
            let (producer, consumer) = handoff(CAPACITY);
            out.push(producer);
            incoming.push(consumer);
        }
    }
    let links = ids.iter().enumerate().zip(out).zip(incoming).map(|(((at, id), out), incoming)| {
        let mut here = 0;
        let route = |worker: &usize| {
            let other = ids.iter().position(|id| id == worker).unwrap_or(at);
            if other == at {
                here += 1;
                return Route::Here(here - 1);
            }
            Route::There(if other < at { other } else { other - 1 } as u16) // none to itself
        };
        let routes = workers.iter().map(route).collect();
        let others = ids.iter().filter(|other| **other != *id).map(|other| (*other, None)).collect();
        let (out, incoming) = (out.into(), incoming.into());
        (*id, Links { routes, out, others, incoming, next: 0, unsettled: 0, completions: false, lost: false })
    });
    links.collect()
}

impl Links {
    /// Says how each of the other workers is woken.
    pub(crate) fn set_callers(&mut self, caller: impl Fn(usize) -> Option<Caller>) {
        self.others.iter_mut().for_each(|(worker, slot)| *slot = caller(*worker));
    }

    /// True when another worker has handed something over. Remembers nothing.
    pub fn has_incoming(&self) -> bool {
        self.incoming.iter().any(HandoffConsumer::waits)
    }

    /// Says whether [`settle`](Links::settle) has to show which packets other workers are done with. Before the first hand-off.
    pub fn track_completions(&mut self, track: bool) {
        self.completions = track;
    }

    /// Reads the next burst that another worker has handed over into `steered`, which must be empty. Returns the descriptors, and which
    /// of the workers it is: both go to [`taken`](Links::taken) when the burst has been delivered.
    #[inline(always)]
    pub fn incoming(&mut self, steered: &mut Steered) -> Option<(usize, usize)> {
        for _ in 0..self.incoming.len() {
            let at = self.next;
            self.next = if at + 1 < self.incoming.len() { at + 1 } else { 0 };
            let consumer = self.incoming.get_mut(at)?;
            if !consumer.is_ready() {
                continue;
            }
            let mut items = [Item::default(); FETCH];
            let n = consumer.peek(&mut items);
            // Packets are handed over whole; the burst may end inside one.
            let whole = items.get(..n)?.iter().rposition(|item| !item.desc.more()).map_or(0, |last| last + 1);
            if whole > 0 {
                items.iter().take(whole).for_each(|item| _ = steered.push(item.desc, item.to));
                return Some((at, whole));
            }
        }
        None
    }

    /// Done with `n` descriptors of the worker `from`.
    #[inline(always)]
    pub fn taken(&mut self, from: usize, n: usize) {
        if let Some(consumer) = self.incoming.get_mut(from) {
            consumer.advance(n);
        }
    }

    /// True when [`settle`](Links::settle) has something to do, or may have.
    #[inline(always)]
    pub fn must_settle(&self) -> bool {
        self.completions || self.lost
    }

    /// Shows what other workers are done with (`done`: only when completions are tracked, and a bounded number of items a call) and what
    /// workers that have stopped never took (`back`), by the index of the queue that fetched it.
    pub fn settle(&mut self, mut done: impl FnMut(usize), mut back: impl FnMut(usize, Desc)) {
        self.lost = false;
        let mut left = SETTLE;
        for _ in 0..self.out.len() {
            let Some(producer) = self.out.get_mut(self.unsettled) else { return };
            if self.completions {
                left -= producer.completed_of(left, |item| done(item.from.into()));
                if left == 0 {
                    return; // there may be more of this one, which comes before what is taken back
                }
            } else {
                producer.release();
            }
            producer.take_back(|item| back(item.from.into(), item.desc));
            self.unsettled = if self.unsettled + 1 < self.out.len() { self.unsettled + 1 } else { 0 };
        }
    }

    /// When this worker has nothing to do: looks whether another one has stopped with packets of this one. (Under load a full queue
    /// tells.)
    pub fn look(&mut self) {
        for producer in self.out.iter_mut().filter(|producer| !producer.is_settled()) {
            if !self.completions {
                producer.release();
            }
            self.lost |= producer.consumer_gone();
        }
    }

    /// True when other workers, as far as is known, still have packets of this one.
    pub fn waits(&self) -> bool {
        self.completions && !self.out.iter().all(HandoffProducer::is_settled)
    }

    /// Says that nothing more is handed over from here.
    pub fn close(&mut self) {
        self.out.iter_mut().for_each(HandoffProducer::close);
    }

    /// True when nothing is on its way in either direction, and nothing more comes. After [`close`](Links::close) and
    /// [`settle`](Links::settle).
    pub fn is_finished(&mut self) -> bool {
        self.out.iter().all(HandoffProducer::is_settled)
            && self.incoming.iter_mut().all(HandoffConsumer::is_finished)
    }
}

impl OtherCores for Links {
    #[inline(always)]
    fn local(&self, queue: u16) -> Option<usize> {
        match self.routes.get(usize::from(queue)) {
            Some(Route::Here(at)) => Some(usize::from(*at)),
            _ => None,
        }
    }

    #[inline(always)]
    fn hand_off(&mut self, from: usize, to: u16, packets: &[Desc]) -> usize {
        let Some(Route::There(at)) = self.routes.get(usize::from(to)) else { return 0 };
        let Some(producer) = self.out.get_mut(usize::from(*at)) else { return 0 };
        if producer.room() < packets.len() && !self.completions {
            producer.release();
        }
        self.lost |= producer.consumer_gone();
        let room = packets.get(..packets.len().min(producer.room())).unwrap_or_default();
        let n = room.iter().rposition(|desc| !desc.more()).map_or(0, |last| last + 1);
        producer.push(room.iter().take(n).map(|desc| Item { desc: *desc, from: from as u16, to, mark: 0 }))
    }

    #[inline(always)]
    fn publish(&mut self) {
        for (producer, (_, caller)) in self.out.iter_mut().zip(&self.others) {
            if producer.publish() {
                caller.iter().for_each(Caller::call);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(n: u32, more: bool) -> Desc {
        Desc::new(n, 64, 0).with_more(more)
    }

    #[test]
    fn every_worker_reaches_every_other() {
        // Queues 0 to 5 of three workers, dealt in no order; a fourth worker polls none.
        let workers = [2, 0, 2, 3, 0, 2];
        let mut links = mesh(&workers);
        assert_eq!(links.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 2, 3]);
        for (id, links) in &mut links {
            for (queue, worker) in (0..).zip(&workers) {
                let index = workers.iter().take(queue.into()).filter(|w| *w == worker).count();
                assert_eq!(links.local(queue), (worker == id).then_some(index), "queue {queue} at {id}");
                let taken = links.hand_off(7, queue, &[desc(u32::from(queue) + 100 * *id as u32, false)]);
                assert_eq!(taken == 1, worker != id);
            }
            links.publish();
        }
        for (id, links) in &mut links {
            let mut got = Vec::new();
            let mut steered = Steered::default();
            while let Some((from, n)) = links.incoming(&mut steered) {
                links.taken(from, n);
                steered = Steered::default();
                got.push(n);
            }
            let mine = workers.iter().filter(|w| *w == id).count();
            assert_eq!(got, [mine, mine], "from each of two others, one for each queue here");
        }
    }

    #[test]
    fn only_whole_packets_are_handed_over() {
        let mut links = mesh(&[0, 1]);
        let (mut b, mut a) = (links.pop().unwrap().1, links.pop().unwrap().1);
        let single = vec![desc(1, false); CAPACITY - 1];
        assert_eq!(a.hand_off(0, 1, &single), CAPACITY - 1);
        assert_eq!(a.hand_off(0, 1, &[desc(2, true), desc(3, false)]), 0, "there is room for half of it");
        assert_eq!(a.hand_off(0, 1, &[desc(4, false), desc(5, true)]), 1);
        a.publish();
        let mut steered = Steered::default();
        let (from, n) = b.incoming(&mut steered).unwrap();
        assert_eq!(n, FETCH);
        b.taken(from, n);
        let chain = [desc(6, true), desc(7, true), desc(8, false)];
        assert_eq!(a.hand_off(0, 1, &chain), 3, "room comes back");
    }

    #[test]
    fn both_sides_end_although_each_waits_for_the_other() {
        let mut links = mesh(&[0, 1]);
        let (mut b, mut a) = (links.pop().unwrap().1, links.pop().unwrap().1);
        a.hand_off(0, 1, &[desc(1, false)]);
        b.hand_off(0, 0, &[desc(2, false)]);
        for links in [&mut a, &mut b] {
            links.close();
            links.settle(|_| {}, |_, _| panic!("nobody has stopped"));
            assert!(!links.is_finished());
        }
        for links in [&mut a, &mut b] {
            let (from, n) = links.incoming(&mut Steered::default()).unwrap();
            links.taken(from, n);
        }
        for links in [&mut a, &mut b] {
            links.settle(|_| {}, |_, _| panic!("nobody has stopped"));
            assert!(links.is_finished());
        }
    }

    /// A call deals with so many items at most, whatever the other worker has done, and none is forgotten.
    #[test]
    fn a_call_settles_a_bounded_number() {
        let mut links = mesh(&[0, 1]);
        let (mut b, mut a) = (links.pop().unwrap().1, links.pop().unwrap().1);
        a.track_completions(true);
        let packets = [desc(1, false); 30];
        (0..10).for_each(|_| assert_eq!(a.hand_off(1, 1, &packets), 30));
        a.publish();
        let mut taken = 0;
        while taken < 200 {
            let (from, n) = b.incoming(&mut Steered::default()).unwrap();
            b.taken(from, n);
            taken += n;
        }
        drop(b);
        let (mut done, mut back, mut calls) = (0, 0, 0);
        while !a.is_finished() {
            let before = done;
            a.settle(|_| done += 1, |_, _| back += 1);
            assert!(done - before <= SETTLE);
            assert!(back == 0 || done == taken, "first what was done");
            calls += 1;
        }
        assert_eq!((done, done + back), (taken, 300));
        assert!(calls >= taken / SETTLE);
    }

    #[test]
    fn what_a_stopped_worker_has_not_taken_comes_back() {
        for completions in [false, true] {
            let mut links = mesh(&[0, 1]);
            let (mut b, mut a) = (links.pop().unwrap().1, links.pop().unwrap().1);
            a.track_completions(completions);
            a.hand_off(3, 1, &[desc(1, false), desc(2, false), desc(3, false)]);
            a.publish();
            let (from, _) = b.incoming(&mut Steered::default()).unwrap();
            b.taken(from, 1);
            assert_eq!(a.waits(), completions);
            drop(b);
            let (mut done, mut back) = (0, Vec::new());
            a.settle(|from| done += from, |from, desc| back.push((from, desc)));
            assert_eq!(done, if completions { 3 } else { 0 });
            assert_eq!(back, [(3, desc(2, false)), (3, desc(3, false))]);
            assert_eq!(a.hand_off(3, 1, &[desc(4, false)]), 0);
            assert!(a.must_settle() && a.is_finished() && !a.waits());
        }
    }
}
