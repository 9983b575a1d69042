//! Receive-side scaling: packets go back to their program, each by the queue of its flow. Off until a program asks for it; then the
//! plain loopback, at the price of one comparison a poll.
//!
//! Where one worker polls all queues of the program, it delivers into all their rings. Where several do, each keeps its queues, for a
//! ring has one producer: a packet for a queue of another worker is handed over to that worker, which copies it from the sender's
//! buffer. See [`ccnic::nic::spread_across()`] for whose buffers are freed by whom.

use std::sync::Arc;

use ccnic::nic::{
    NicQueue, OtherCores, Pipeline, Receivers, Steered, deliver_handed, loopback, spread, spread_across,
};
use ccnic::ring::Ring;
use ccnic::rss::Spreader;
use ccnic_shm::NativeMemory;

use super::Dataplane;
use super::loopback::Loopback;
use crate::poll::links::Links;
use crate::poll::{Closing, Steer};
use crate::ports::Port;
use crate::ports::latency::Latency;
use crate::ports::program::ProgramPort;

/// Loopback, and RSS for programs that ask for it.
#[derive(Debug)]
pub struct RssLoopback {
    loopback: Loopback,
    steering: Option<Box<Steering>>,
    /// Descriptors are handed back when other workers are done with their packets: see [`Links::track_completions`].
    holds_units: bool,
}

#[derive(Debug)]
struct Steering {
    /// `None`: packets go back by the queue that they were sent on.
    spreader: Option<Arc<Spreader>>,
    /// To the other workers that poll queues of this program, if there are any.
    links: Option<Links>,
    /// The last look was at packets that were handed over, not at this worker's own queues.
    handed_last: bool,
}

impl RssLoopback {
    /// For the queues of one program on one worker: there are `queues`.
    pub fn new<R: Ring>(port: &ProgramPort<R>, queues: usize, reflect: bool) -> RssLoopback {
        // The host frees what it has sent when it manages the pool: a buffer must not come back to it by another way.
        let reflect = reflect && port.shared_pool();
        RssLoopback {
            loopback: Loopback::new(queues, reflect),
            steering: None,
            holds_units: port.holds_units(),
        }
    }

    /// Shows there how long packets take, by samples.
    pub fn show_latency(&mut self, to: Arc<Latency>) {
        self.loopback.show_latency(to);
    }

    fn steering(&mut self) -> &mut Steering {
        let new = || Box::new(Steering { spreader: None, links: None, handed_last: false });
        self.steering.get_or_insert_with(new)
    }

    /// Out of line: the loop without RSS stays short.
    #[inline(never)]
    fn poll_steering<R: Ring>(&mut self, port: &mut ProgramPort<R>) -> usize {
        let Some(steering) = &mut self.steering else { return 0 };
        match &steering.links {
            None => return steering.forward(port, &mut self.loopback),
            Some(links) if links.must_settle() => steering.settle(port),
            Some(_) => {}
        }
        // One burst a poll, by turns from other workers and from here, so that neither can keep the other waiting.
        for _ in 0..2 {
            steering.handed_last = !steering.handed_last;
            let moved = if steering.handed_last {
                steering.deliver_handed(port, &mut self.loopback)
            } else {
                steering.forward(port, &mut self.loopback)
            };
            if moved > 0 {
                return moved;
            }
        }
        if let Some(links) = &mut steering.links {
            links.look();
        }
        0
    }
}

impl Steering {
    /// Moves one burst of this worker's own queues.
    #[inline(always)]
    fn forward<R: Ring>(&mut self, port: &mut ProgramPort<R>, own: &mut Loopback) -> usize {
        let Steering { spreader, links, .. } = self;
        let mut receivers = Receivers::default();
        let moved = own.poll_queues(port, |port, pipeline, at, reflect| {
            let (queues, mem) = port.queues();
            let moved = match (&*spreader, &mut *links) {
                (None, _) => queues.get_mut(at).map_or(0, |queue| loopback(queue, pipeline, mem, reflect)),
                (Some(by), None) => spread_here(queues, at, pipeline, mem, by, reflect),
                (Some(by), Some(links)) => spread_on(queues, at, pipeline, mem, by, reflect, links),
            };
            receivers = std::mem::take(pipeline.receivers());
            moved
        });
        if moved > 0 {
            watch(port, own, &mut receivers);
        }
        moved
    }

    /// Delivers one burst that another worker has handed over.
    #[inline(never)]
    fn deliver_handed<R: Ring>(&mut self, port: &mut ProgramPort<R>, own: &mut Loopback) -> usize {
        let Some(links) = &mut self.links else { return 0 };
        let mut steered = Steered::default();
        let Some((from, n)) = links.incoming(&mut steered) else { return 0 };
        let (queues, mem) = port.queues();
        mem.vectors().run(
            #[inline(always)]
            || deliver_handed(queues, |queue| links.local(queue), mem, &mut steered, own.reflects()),
        );
        links.taken(from, n);
        watch(port, own, steered.receivers());
        n
    }

    /// Completes what other workers are done with; drops what workers that have stopped never took.
    #[cold]
    fn settle<R: Ring>(&mut self, port: &mut ProgramPort<R>) {
        let Some(links) = &mut self.links else { return };
        let (queues, _) = port.queues();
        let (mut back, mut run) = (Vec::new(), (0, 0));
        let mut hand_over = |(from, descs): (usize, usize)| {
            queues.get_mut(from).filter(|_| descs > 0).into_iter().for_each(|queue| queue.handed_over(descs));
        };
        links.settle(
            |from| {
                if from != run.0 {
                    hand_over(run);
                    run = (from, 0);
                }
                run.1 += 1;
            },
            |from, desc| back.push((from, desc)),
        );
        hand_over(run);
        for (from, desc) in back {
            queues.get_mut(from).into_iter().for_each(|queue| queue.take_back(&[desc]));
        }
    }
}

/// Queues that have received packets are looked at soon, though nothing is sent on them: their program may be waiting for a
/// notification.
#[inline(always)]
fn watch<R: Ring>(port: &ProgramPort<R>, own: &mut Loopback, receivers: &mut Receivers) {
    receivers.take().filter(|at| port.notifies(*at)).for_each(|at| own.queues().touch(at));
}

// Each in a function of its own: together they need more registers than there are.

#[inline(never)]
fn spread_here<R: Ring>(
    queues: &mut [NicQueue<NativeMemory, R>],
    at: usize,
    pipeline: &mut Pipeline,
    mem: &NativeMemory,
    by: &Spreader,
    reflect: bool,
) -> usize {
    mem.vectors().run(
        #[inline(always)]
        || spread(queues, at, pipeline, mem, by, reflect),
    )
}

#[inline(never)]
fn spread_on<R: Ring>(
    queues: &mut [NicQueue<NativeMemory, R>],
    at: usize,
    pipeline: &mut Pipeline,
    mem: &NativeMemory,
    by: &Spreader,
    reflect: bool,
    links: &mut Links,
) -> usize {
    mem.vectors().run(
        #[inline(always)]
        || spread_across(queues, at, pipeline, mem, by, reflect, links),
    )
}

impl<R: Ring> Dataplane<ProgramPort<R>> for RssLoopback {
    #[inline(always)]
    fn poll(&mut self, port: &mut ProgramPort<R>) -> usize {
        if self.steering.is_some() {
            return self.poll_steering(port);
        }
        self.loopback.poll(port)
    }

    fn round(&self) -> usize {
        Dataplane::<ProgramPort<R>>::round(&self.loopback)
    }

    fn sweep(&self) -> usize {
        Dataplane::<ProgramPort<R>>::sweep(&self.loopback)
    }

    fn awoke(&mut self) {
        Dataplane::<ProgramPort<R>>::awoke(&mut self.loopback);
    }

    /// Other workers call when they hand packets over, and do not when they are done with what was handed to them.
    fn may_doze(&self) -> bool {
        let waits = Dataplane::<ProgramPort<R>>::waits(self);
        !waits && Dataplane::<ProgramPort<R>>::may_doze(&self.loopback)
    }

    fn has_work(&self) -> bool {
        let links = self.steering.as_ref().and_then(|steering| steering.links.as_ref());
        links.is_some_and(Links::has_incoming)
    }

    fn waits(&self) -> bool {
        let links = self.steering.as_ref().and_then(|steering| steering.links.as_ref());
        links.is_some_and(Links::waits)
    }

    fn close(&mut self, port: &mut ProgramPort<R>) -> Closing {
        let Some(steering) = &mut self.steering else { return Closing::Done };
        let Some(links) = &mut steering.links else { return Closing::Done };
        links.close();
        if steering.deliver_handed(port, &mut self.loopback) > 0 {
            return Closing::Working;
        }
        steering.settle(port);
        if !steering.links.as_mut().is_none_or(Links::is_finished) {
            return Closing::Waiting;
        }
        steering.links = None;
        Closing::Working
    }

    fn steer(&mut self) -> Option<&mut dyn Steer> {
        Some(self)
    }
}

impl Steer for RssLoopback {
    fn set_rss(&mut self, spreader: Option<Arc<Spreader>>) {
        self.steering().spreader = spreader;
        // Without links there is nothing that another worker could have handed over: back to the plain loopback.
        if self.steering.as_ref().is_some_and(|s| s.spreader.is_none() && s.links.is_none()) {
            self.steering = None;
        }
    }

    fn link(&mut self, mut links: Links) {
        links.track_completions(self.holds_units);
        self.steering().links = Some(links);
    }
}
