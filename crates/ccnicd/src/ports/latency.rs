//! How long packets take through the NIC, by samples.
//!
//! One burst in 64 or so is followed through the hands of its worker. What is measured begins with the look at its queue *before* the one
//! that found it: that one has not seen its packets, so a packet that came when the ring was empty was published after it. The sample
//! ends when the last packet of the burst was delivered, dropped, or handed over to another worker. So it is an upper bound of what the
//! NIC adds, wait for the worker's attention included. Under load a packet also waits in its ring, for those before it: that is the
//! program's own backlog, and no part of it.
//!
//! ```text
//!        look: nothing new            look: finds a burst              dealt with
//!   ───────┬────────────── published ─────────┬────────────────────────────┬────►
//!          └────────────────────────── the sample ─────────────────────────┘
//! ```
//!
//! A burst that is not followed costs a decrement, a look at a queue a comparison. While one is followed the clock is read at each look.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ccnic::nic::Pipeline;
use ccnic_control::latency::{CLASSES, LatencyStatus, class};
use ccnic_shm::timestamp;

/// Bursts between two that are followed: at least so many, and at most three times as many. Which one is drawn by chance, so that no rhythm
/// of the traffic hides from it.
const APART: u32 = 32;

/// Bursts of other queues, while one of the chosen queue is waited for, after which another queue is chosen.
const OTHERS: u32 = 64;

/// Samples of one program, from all workers that poll queues of it. Whoever reads them asks nothing of the workers.
#[derive(Debug)]
pub struct Latency {
    classes: [AtomicUsize; CLASSES],
    sum_ns: AtomicUsize,
    /// Ticks of the clock.
    microsecond: u64,
}

impl Latency {
    /// Of a clock of so many ticks in a microsecond.
    pub fn new(microsecond: u64) -> Latency {
        let (classes, sum_ns) = Default::default();
        Latency { classes, sum_ns, microsecond: microsecond.max(1) }
    }

    fn add(&self, ticks: u64) {
        let ns = ticks.saturating_mul(1000) / self.microsecond;
        self.sum_ns.fetch_add(ns as usize, Relaxed);
        self.classes.get(class(ns)).into_iter().for_each(|count| _ = count.fetch_add(1, Relaxed));
    }

    /// What there is so far.
    pub fn status(&self) -> LatencyStatus {
        let mut status =
            LatencyStatus { sum_ns: self.sum_ns.load(Relaxed) as u64, ..LatencyStatus::default() };
        status.classes.iter_mut().zip(&self.classes).for_each(|(to, count)| *to = count.load(Relaxed) as u64);
        status
    }
}

/// What a worker follows of the queues of one port.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Not [`State::Resting`].
    active: bool,
    /// Bursts until one is followed.
    left: u32,
    random: u32,
    state: State,
    /// The look that has begun: when, and what was in hand of the queue.
    look: (u64, usize),
    to: Option<Arc<Latency>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Resting,
    /// The next burst of this queue is to be followed. `looked`: when the last look began.
    Waiting {
        queue: usize,
        looked: Option<u64>,
        others: u32,
    },
    /// A burst is under way; after so many descriptors it has been dealt with.
    Following {
        queue: usize,
        from: u64,
        left: usize,
    },
}

impl Sampler {
    /// Follows nothing until it is told [where](Sampler::show) samples go.
    pub(super) fn new() -> Sampler {
        Sampler { active: false, left: APART, random: 1, state: State::Resting, look: (0, 0), to: None }
    }

    /// Samples go there from now on.
    pub(super) fn show(&mut self, to: Arc<Latency>) {
        self.to = Some(to);
    }

    /// A queue is about to be looked at.
    #[inline(always)]
    pub(super) fn begin(&mut self, in_hand: &Pipeline) {
        if self.active {
            self.begin_look(timestamp(), in_hand.waiting());
        }
    }

    /// It was looked at, and `moved` descriptors were dealt with.
    #[inline(always)]
    pub(super) fn end(&mut self, queue: usize, moved: usize, in_hand: &Pipeline) {
        if self.active {
            self.end_look(timestamp(), queue, moved, in_hand.waiting());
        } else if moved > 0 {
            self.left = self.left.wrapping_sub(1);
            if self.left == 0 {
                self.wait_for(queue);
            }
        }
    }

    /// The worker has slept: the last look says nothing of when packets came.
    pub(super) fn awoke(&mut self) {
        if let State::Waiting { looked, .. } = &mut self.state {
            *looked = None;
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_look(&mut self, now: u64, in_hand: usize) {
        self.look = (now, in_hand);
    }

    #[cold]
    #[inline(never)]
    fn end_look(&mut self, now: u64, at: usize, moved: usize, in_hand: usize) {
        let (start, before) = self.look;
        let fetched = (in_hand + moved).saturating_sub(before);
        match &mut self.state {
            State::Resting => self.active = false,
            State::Waiting { queue, others, .. } if *queue != at => {
                *others += u32::from(moved > 0);
                if *others >= OTHERS {
                    self.rest();
                }
            }
            State::Waiting { queue, looked, .. } => match *looked {
                Some(from) if fetched > 0 && in_hand == 0 => self.sample(now.saturating_sub(from)),
                Some(from) if fetched > 0 => {
                    self.state = State::Following { queue: *queue, from, left: in_hand };
                }
                _ => *looked = Some(start),
            },
            State::Following { queue, from, left } if *queue == at => {
                *left = left.saturating_sub(moved);
                if *left == 0 {
                    let ticks = now.saturating_sub(*from);
                    self.sample(ticks);
                }
            }
            State::Following { .. } => {}
        }
    }

    fn sample(&mut self, ticks: u64) {
        self.to.iter().for_each(|to| to.add(ticks));
        self.rest();
    }

    fn rest(&mut self) {
        // A linear congruential generator (Numerical Recipes); its upper bits.
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.active, self.state, self.left) = (false, State::Resting, APART + (self.random >> 26));
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&mut self, queue: usize) {
        if self.to.is_none() {
            return self.rest();
        }
        (self.active, self.state) = (true, State::Waiting { queue, looked: None, others: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sampler that waits for a burst of queue 0, and what it has found, by a clock of 1000 ticks in a microsecond.
    fn waiting() -> (Sampler, Arc<Latency>) {
        let (mut sampler, to) = (Sampler::new(), Arc::new(Latency::new(1000)));
        sampler.show(Arc::clone(&to));
        sampler.wait_for(0);
        (sampler, to)
    }

    /// A look from `start` to `end`, which finds `before` descriptors in hand and leaves `after`.
    fn look(
        sampler: &mut Sampler,
        (start, end): (u64, u64),
        queue: usize,
        before: usize,
        moved: usize,
        after: usize,
    ) {
        sampler.begin_look(start, before);
        sampler.end_look(end, queue, moved, after);
    }

    /// Samples, and their sum.
    fn sum(to: &Latency) -> (u64, u64) {
        (to.status().samples(), to.status().sum_ns)
    }

    #[test]
    fn a_lone_packet_is_measured_from_the_look_before() {
        let (mut sampler, to) = waiting();
        look(&mut sampler, (100, 110), 0, 0, 0, 0);
        look(&mut sampler, (120, 130), 0, 0, 0, 0);
        look(&mut sampler, (140, 190), 0, 0, 1, 0);
        assert_eq!(sum(&to), (1, 70), "from 120");
        assert!(!sampler.active && (APART..3 * APART).contains(&sampler.left));
    }

    #[test]
    fn a_burst_that_was_fetched_ahead_is_followed_until_it_is_dealt_with() {
        let (mut sampler, to) = waiting();
        look(&mut sampler, (100, 150), 0, 32, 32, 32); // finds 32, but there was no look before
        assert_eq!(sampler.state, State::Waiting { queue: 0, looked: Some(100), others: 0 });
        look(&mut sampler, (160, 210), 0, 32, 32, 32);
        assert_eq!(sampler.state, State::Following { queue: 0, from: 100, left: 32 });
        look(&mut sampler, (220, 230), 1, 0, 8, 0); // another queue
        look(&mut sampler, (240, 250), 0, 32, 16, 48); // a part of it
        look(&mut sampler, (260, 300), 0, 48, 16, 32);
        assert_eq!(sum(&to), (1, 200));
    }

    #[test]
    fn what_is_left_of_an_older_burst_is_no_find() {
        let (mut sampler, to) = waiting();
        look(&mut sampler, (100, 110), 0, 20, 10, 10);
        look(&mut sampler, (120, 130), 0, 10, 10, 0);
        assert_eq!(sampler.state, State::Waiting { queue: 0, looked: Some(120), others: 0 });
        assert_eq!(sum(&to), (0, 0));
    }

    #[test]
    fn a_sleep_is_no_latency() {
        let (mut sampler, to) = waiting();
        look(&mut sampler, (100, 110), 0, 0, 0, 0);
        sampler.awoke();
        look(&mut sampler, (9000, 9050), 0, 0, 1, 0);
        assert_eq!(sum(&to), (0, 0));
        look(&mut sampler, (9060, 9100), 0, 0, 1, 0);
        assert_eq!(sum(&to), (1, 100));
    }

    #[test]
    fn a_queue_that_has_fallen_silent_is_given_up() {
        let (mut sampler, to) = waiting();
        (0..OTHERS).for_each(|_| look(&mut sampler, (1, 2), 3, 0, 5, 0));
        assert!(!sampler.active);
        assert_eq!(sum(&to), (0, 0));
    }

    #[test]
    fn one_burst_in_64_is_followed() {
        let (mut sampler, to) = waiting();
        let pipeline = Pipeline::default();
        (0..64_000).for_each(|_| {
            sampler.begin(&pipeline);
            sampler.end(0, 1, &pipeline);
        });
        let samples = to.status().samples();
        assert!((900..1050).contains(&samples), "{samples}");
        let mut nobody = Sampler::new();
        (0..1000).for_each(|_| nobody.end(0, 1, &pipeline));
        assert!(!nobody.active);
    }
}
