//! An attached program as a port of a switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ccnic::Desc;
use ccnic::nic::{Loss, Origin, Receivers, spread_copies};
use ccnic::ring::Ring;
use ccnic::rss::Spreader;
use ccnic_control::capture::Reason;
use ccnic_control::messages::QueueStatus;
use ccnic_frame::vlan::TAG;
use ccnic_frame::{Meta, Takes};
use ccnic_shm::NativeMemory;

use super::govern::first;
use super::places::Place;
use super::policy::Rules;
use super::port::{Accepting, SwitchPort};
use super::{Completer, PortId, Sending, Switch};
use crate::ports::latency::Latency;
use crate::ports::program::ProgramPort;
use crate::ports::{Accepts, Doze, InTurn, Losses, Notify, Port, Statistics};

/// All queue pairs of a program.
///
/// What it receives goes to its first queue, as in any NIC without RSS: a program that looks at one queue only gets everything. One that
/// looks at all of them asks for RSS.
#[derive(Debug)]
pub struct SwitchedProgram<R: Ring> {
    port: ProgramPort<R>,
    queues: InTurn,
    /// By index of the queue.
    sending: Vec<Sending>,
    spreader: Option<Arc<Spreader>>,
    /// Until it joins a switch.
    rules: Option<Box<Rules>>,
    /// What becomes of packets with requests that the program does not take; `None`: it gets them as they are.
    completion: Option<Completion>,
    _place: Arc<Place>,
}

/// See [`SwitchedProgram::complete_for`].
#[derive(Debug)]
struct Completion {
    /// [`Takes::bits`], stored by the control thread.
    takes: Arc<AtomicU32>,
    /// Packets that were dropped: what their senders had requested cannot be done.
    refused: u64,
}

impl Completion {
    fn takes(&self) -> Takes {
        Takes::from_bits(self.takes.load(Ordering::Relaxed))
    }
}

impl<R: Ring> SwitchedProgram<R> {
    /// `port` has all of the program's queues: there are `queues`. `rules` are what the operator has decided for it. The port keeps `place`
    /// for as long as it exists, so that its owner can count ports.
    pub fn new(
        port: ProgramPort<R>,
        queues: usize,
        rules: Option<Box<Rules>>,
        place: Arc<Place>,
    ) -> SwitchedProgram<R> {
        let sending = (0..queues).map(|_| Sending::default()).collect();
        let queues = InTurn::new(queues);
        let (spreader, completion) = (None, None);
        SwitchedProgram { port: port.joined(), queues, sending, spreader, rules, completion, _place: place }
    }

    /// Has everything done for the program that others request and it does not take: what it takes now, and whenever that changes.
    pub fn complete_for(&mut self, takes: Arc<AtomicU32>) {
        self.completion = Some(Completion { takes, refused: 0 });
    }

    /// Shows there how long packets that the program sends take, by samples.
    pub fn show_latency(&mut self, to: Arc<Latency>) {
        self.queues.show_latency(to);
    }

    #[inline(always)]
    fn poll(&mut self, at: PortId, switch: &mut Switch, others: bool) -> usize {
        if others {
            self.settle(at, switch);
        }
        let SwitchedProgram { port, queues, sending, .. } = self;
        let holds_pool = !port.shared_pool();
        let moved = queues.poll(
            port,
            #[inline(always)]
            |port, pipeline, queue| {
                let (queues, _) = port.queues();
                let (Some(from), Some(sending)) = (queues.get_mut(queue), sending.get_mut(queue)) else {
                    return 0;
                };
                if others && !begins(switch, at, queue, holds_pool) {
                    return 0;
                }
                from.forward_open(
                    pipeline,
                    #[inline(always)]
                    |origin, packets, ahead| switch.forward(at, sending, origin, packets, ahead),
                )
            },
        );
        if moved > 0 && others {
            self.settle(at, switch);
        }
        moved
    }

    #[inline(always)]
    fn deliver(
        &mut self,
        from: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
        lost: &mut Losses<'_>,
    ) {
        let lost = |packets: &[Desc], why: Loss| lost(packets, reason(why));
        let (queues, mem) = self.port.queues();
        if let Some(by) = &self.spreader {
            let mut receivers = Receivers::default();
            mem.vectors().run(
                #[inline(always)]
                || spread_copies(queues, from, packets, ahead, by, &mut receivers, lost),
            );
            self.watch(&mut receivers);
        } else if let Some(first) = queues.first_mut() {
            mem.vectors().run(
                #[inline(always)]
                || first.take_copies(from, packets, ahead, lost),
            );
            if self.port.notifies(0) {
                self.queues.touch(0);
            }
        }
    }

    /// The same, compiled once for all who deliver part of a burst.
    #[inline(never)]
    fn deliver_few(&mut self, from: &Origin<'_, NativeMemory>, packets: &[Desc], lost: &mut Losses<'_>) {
        if !packets.is_empty() {
            self.deliver(from, packets, &[], lost);
        }
    }

    /// As `deliver`, for packets some of which request what the program may not take.
    #[cold]
    #[inline(never)]
    fn receive_completed(
        &mut self,
        from: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        lost: &mut Losses<'_>,
        completer: &mut Completer,
    ) {
        let Some(mut completion) = self.completion.take() else { return };
        let takes = completion.takes();
        let (mut run, mut at) = (0, 0);
        while let Some(packet) = first(packets, at) {
            let meta = Meta::from_word(packet.first().map_or(0, |desc| desc.meta));
            if !takes.covers(meta) {
                self.deliver_few(from, packets.get(run..at).unwrap_or_default(), lost);
                run = at + packet.len();
                let mut why = None; // of any of its segments
                if self.misses() {
                    why = Some(Reason::RingFull);
                } else {
                    let done = completer.complete(from, packet, takes, |from, packets| {
                        self.deliver_few(from, packets, &mut |_, reason| why = Some(reason));
                    });
                    if done.is_err() {
                        completion.refused += 1;
                        why = Some(Reason::BadOffload);
                    }
                }
                why.into_iter().for_each(|why| lost(packet, why));
            }
            at += packet.len();
        }
        self.deliver_few(from, packets.get(run..at).unwrap_or_default(), lost);
        self.completion = Some(completion);
    }

    /// True when the ring has no room for any packet: it has counted one as dropped, before anything was done for it. Of a program with RSS
    /// the ring is known when the packet has been looked at.
    fn misses(&mut self) -> bool {
        let (queues, _) = self.port.queues();
        let Some(first) = queues.first_mut() else { return false };
        let misses = self.spreader.is_none() && first.is_full();
        if misses {
            first.count_missed(1);
        }
        misses
    }

    /// Queues that have received packets are looked at soon: their program may be waiting for a notification.
    #[cold]
    #[inline(never)]
    fn watch(&mut self, receivers: &mut Receivers) {
        let SwitchedProgram { port, queues, .. } = self;
        receivers.take().filter(|at| port.notifies(*at)).for_each(|at| queues.touch(at));
    }
}

/// The reason whose counter [counts](Statistics::report) it.
fn reason(why: Loss) -> Reason {
    match why {
        Loss::TooLong => Reason::OverMtu,
        Loss::ByRule => Reason::FlowRule,
        Loss::RingFull => Reason::RingFull,
        Loss::NoBuffer => Reason::NoBuffer,
    }
}

/// Beside other workers: whether a burst of this queue may be fetched now. A program that manages its pool may use a buffer again when its
/// descriptor is handed back, so each of its bursts is completed before the next is fetched.
#[cold]
#[inline(never)]
fn begins(switch: &mut Switch, at: PortId, queue: usize, holds_pool: bool) -> bool {
    switch.begin(at, queue as u16) && (!holds_pool || switch.is_settled(at))
}

impl<R: Ring> SwitchPort for SwitchedProgram<R> {
    fn spin(&mut self, at: PortId, polls: usize, switch: &mut Switch) -> usize {
        let others = switch.has_others();
        let (_, mem) = self.port.queues();
        mem.vectors().run(
            #[inline(always)]
            || {
                for _ in 0..polls {
                    let moved = self.poll(at, switch, others);
                    if moved > 0 {
                        return moved;
                    }
                }
                0
            },
        )
    }

    fn receive(
        &mut self,
        from: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
        lost: &mut Losses<'_>,
        completer: &mut Completer,
    ) {
        if let Some(completion) = &self.completion {
            let said = packets.iter().fold(0, |said, desc| said | desc.meta);
            if said & completion.takes().others() != 0 {
                return self.receive_completed(from, packets, lost, completer);
            }
        }
        self.deliver(from, packets, ahead, lost);
    }

    fn accepts(&self) -> Accepting {
        let Some(completion) = &self.completion else { return Accepting::Always(Accepts::COMPLETE) };
        // A tag may make it longer on its way.
        let longest = u32::from(self.port.lends().1).saturating_sub(TAG as u32);
        Accepting::Program { takes: Arc::clone(&completion.takes), longest }
    }

    fn lends(&self) -> (NativeMemory, u16) {
        self.port.lends()
    }

    #[cold]
    #[inline(never)]
    fn settle(&mut self, at: PortId, switch: &mut Switch) {
        let (queues, _) = self.port.queues();
        let lost = switch.settle_handed(at, |queue, packets| {
            if let Some(queue) = queues.get_mut(usize::from(queue)) {
                queue.complete(packets);
                queue.flush();
            }
        });
        self.sending.iter_mut().take(1).for_each(|first| first.counters.not_handed += lost);
    }

    fn take_rules(&mut self) -> Option<Box<Rules>> {
        self.rules.take()
    }

    fn round(&self) -> usize {
        self.queues.round()
    }

    fn sweep(&self) -> usize {
        self.queues.sweep()
    }

    fn backlog(&self) -> usize {
        self.port.backlog()
    }

    fn awoke(&mut self) {
        self.queues.awoke();
    }

    fn retire(&mut self) -> bool {
        self.port.retire()
    }

    fn doze(&self) -> Option<&dyn Doze> {
        if self.queues.is_idle() { self.port.doze() } else { None }
    }

    fn notify(&mut self) -> Option<&mut dyn Notify> {
        self.port.notify()
    }

    fn set_rss(&mut self, spreader: Option<Arc<Spreader>>) {
        self.spreader = spreader;
    }
}

impl<R: Ring> Statistics for SwitchedProgram<R> {
    fn report(&self) -> Vec<QueueStatus> {
        let mut queues = self.port.report();
        queues.iter_mut().zip(&self.sending).for_each(|(queue, sending)| sending.counters.add_to(queue));
        if let (Some(first), Some(completion)) = (queues.first_mut(), &self.completion) {
            first.drop_bad_offload = completion.refused;
        }
        queues
    }
}
