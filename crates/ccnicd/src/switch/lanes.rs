//! A port on several workers: one polls it, its *home*; all others have a [`Guest`] of it. A packet for a port of another worker is handed
//! over as a reference: that worker copies it out of the sender's memory, and the sender's descriptors stay where they are until it has.
//!
//! ```text
//!   home of A                                             worker of B
//!   fetch ─► destination ─► B, which is polled there
//!                            │
//!      held: [A's packets, in order]  ── Item {where, B} ──►  guest of A: copy from A's memory into B's, publish
//!               ▲                                              │
//!               └────────── done, as the hand-off queue says ◄─┘
//!      complete from the front: units and buffers go back to A
//! ```
//!
//! There is a hand-off queue ([`handoff()`]) from a port's home to each other worker. They belong to the port: no other port's packets lie in
//! them, and what the other worker does with them is charged to the port there. No more packets are out than four bursts, and a queue has room
//! for all of them, so a port whose receivers' worker is slow waits, as it would on one worker. What does not fit nevertheless (copies for
//! mirrors) is dropped and counted.

use std::sync::Arc;

use ccnic::Desc;
use ccnic::nic::{FETCH, Origin};
use ccnic_control::ClientId;
use ccnic_control::messages::QueueStatus;
use ccnic_handoff::{HandoffConsumer, HandoffProducer, Item, handoff};
use ccnic_shm::NativeMemory;
use rustix::event::PollFd;

use super::places::Place;
use super::policy::Rules;
use super::port::{Accepting, SwitchPort};
use super::{PortId, Sending};
use crate::poll::sleep::Caller;
use crate::ports::Doze;

/// Descriptors of a port that may be held, at most: four bursts.
const HELD: usize = 4 * FETCH;

/// Items of a hand-off queue: all that is held, once for its receivers and once for a mirror.
const CAPACITY: usize = 2 * HELD;

/// A client's mark in what is handed over. A place in the switch may have gone to another client meanwhile.
pub(super) fn mark(client: ClientId) -> u32 {
    (client as u32) << 1 | u32::from(client >> 32 != 0)
}

/// Bytes that the hand-off queues of a port take, on so many workers.
pub fn lane_bytes(workers: usize) -> usize {
    workers.saturating_sub(1) * CAPACITY * size_of::<Item>()
}

/// Makes the hand-off queues of a port whose home is `home`, to all other `workers`: the home's ends, and by worker the other ones.
pub(crate) fn lanes(home: usize, workers: &[Caller]) -> (Lanes, Vec<(usize, HandoffConsumer)>) {
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    for (worker, caller) in workers.iter().enumerate() {
        out.push((worker != home).then(|| {
            let (queue, end) = handoff(CAPACITY);
            ends.push((worker, end));
            Lane { queue, caller: caller.clone() }
        }));
    }
    (Lanes { out: out.into(), held: Held::new(), queue: 0 }, ends)
}

/// A port's hand-off queue to one other worker.
#[derive(Debug)]
struct Lane {
    queue: HandoffProducer,
    caller: Caller,
}

/// A port's hand-off queues to all other workers, and the packets that it has dealt with. Belongs to the thread of its home.
#[derive(Debug)]
pub struct Lanes {
    /// By worker; none to itself.
    out: Box<[Option<Lane>]>,
    held: Held,
    /// The queue of the port that is being polled.
    queue: u16,
}

impl Lanes {
    /// What is dealt with from now on comes from this queue of the port. False when no burst may be fetched now: too many are held.
    pub(super) fn begin(&mut self, queue: u16) -> bool {
        self.queue = queue;
        self.held.room() >= FETCH
    }

    /// True when all packets have been completed.
    pub(super) fn is_settled(&self) -> bool {
        self.held.is_empty()
    }

    /// Completes what all receivers have their copies of, from the front: calls `complete` with a queue of the port and descriptors that it has
    /// fetched. Returns the packets that workers which have stopped never took.
    pub(super) fn settle(&mut self, complete: impl FnMut(u16, &[Desc])) -> u64 {
        let mut lost = 0;
        let Lanes { out, held, .. } = self;
        if held.is_empty() {
            return 0;
        }
        for lane in out.iter_mut().flatten() {
            lane.queue.completed(|item| held.back(item.from));
            lane.queue.take_back(|item| {
                held.back(item.from);
                lost += u64::from(!item.desc.more());
            });
        }
        held.settle(complete);
        lost
    }

    /// Hands a packet over to `worker`, for a port of its own (`to`, with the client's mark) or to be flooded. `at` is its place among the
    /// packets that are [held](Lanes::hold) next. False when there is no room.
    pub(super) fn hand_over(&mut self, worker: u16, packet: &[Desc], at: usize, to: u16, mark: u32) -> bool {
        let Some(Some(lane)) = self.out.get_mut(usize::from(worker)) else { return false };
        if lane.queue.room() < packet.len() {
            return false;
        }
        let held = &mut self.held;
        let items = packet.iter().enumerate().map(|(i, desc)| Item {
            desc: *desc,
            from: held.lend(at + i),
            to,
            mark,
        });
        lane.queue.push(items);
        true
    }

    /// These have been dealt with: they are completed when no other worker needs them any more. Shows what has been handed over.
    pub(super) fn hold(&mut self, packets: &[Desc]) {
        self.held.push(self.queue, packets);
        for lane in self.out.iter_mut().flatten() {
            if lane.queue.publish() {
                lane.caller.call();
            }
        }
    }

    /// Nothing more is handed over.
    pub(super) fn close(&mut self) {
        self.out.iter_mut().flatten().for_each(|lane| {
            lane.queue.close();
            lane.caller.call();
        });
    }
}

/// Descriptors in the order in which they were fetched, each with the number of workers that have yet to copy what it names.
#[derive(Debug)]
struct Held {
    descs: [Desc; HELD],
    /// The queue of the port that has fetched it.
    queues: [u16; HELD],
    out: [u16; HELD],
    /// Positions; they count on and wrap.
    head: u32,
    tail: u32,
}

impl Held {
    fn new() -> Held {
        Held { descs: [Desc::default(); HELD], queues: [0; HELD], out: [0; HELD], head: 0, tail: 0 }
    }

    fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn room(&self) -> usize {
        HELD - self.len()
    }

    /// One more worker is to copy the descriptor that is pushed as number `ahead` from now; returns its place.
    fn lend(&mut self, ahead: usize) -> u16 {
        let at = (self.tail as usize).wrapping_add(ahead) % HELD;
        self.out.get_mut(at).into_iter().for_each(|out| *out += 1);
        at as u16
    }

    /// A worker is done with the descriptor at that place.
    fn back(&mut self, at: u16) {
        self.out.get_mut(usize::from(at)).into_iter().for_each(|out| *out = out.saturating_sub(1));
    }

    /// Adds descriptors of a queue; there is room for them.
    fn push(&mut self, queue: u16, descs: &[Desc]) {
        for desc in descs {
            let at = self.tail as usize % HELD;
            if let (Some(slot), Some(of)) = (self.descs.get_mut(at), self.queues.get_mut(at)) {
                (*slot, *of) = (*desc, queue);
            }
            self.tail = self.tail.wrapping_add(1);
        }
    }

    /// Takes from the front what nobody copies any more.
    fn settle(&mut self, mut complete: impl FnMut(u16, &[Desc])) {
        loop {
            let at = self.head as usize % HELD;
            let most = self.len().min(HELD - at);
            let Some(&queue) = self.queues.get(at) else { return };
            let rest = self.out.iter().zip(&self.queues).skip(at).take(most);
            let run = rest.take_while(|(out, of)| **out == 0 && **of == queue).count();
            if run == 0 {
                return;
            }
            complete(queue, self.descs.get(at..at + run).unwrap_or_default());
            self.head = self.head.wrapping_add(run as u32);
        }
    }
}

const _: () = assert!(HELD.is_power_of_two() && HELD <= 1 << 16);

/// What a worker has of a port that another one polls: the packets which that one hands over.
#[derive(Debug)]
pub struct Guest {
    /// The worker that polls the port.
    pub(super) home: u16,
    /// See [`SwitchPort::accepts`].
    pub(super) accepts: Accepting,
    /// The memory that the port's packets lie in.
    mem: NativeMemory,
    /// No packet of the port has more bytes.
    mtu: u16,
    incoming: HandoffConsumer,
    pub(super) sending: Sending,
    /// Until it joins a switch.
    pub(super) rules: Option<Box<Rules>>,
    _place: Arc<Place>,
}

/// A burst that a port's home has handed over.
pub(super) struct Handed {
    items: [Item; FETCH],
    descs: [Desc; FETCH],
    pub(super) len: usize,
}

impl Handed {
    pub(super) fn descs(&self) -> &[Desc] {
        self.descs.get(..self.len).unwrap_or_default()
    }

    /// Where a descriptor goes, and the mark of the client there.
    #[inline(always)]
    pub(super) fn to(&self, at: usize) -> (PortId, u32) {
        self.items.get(at).map_or((PortId::MAX, 0), |item| (item.to, item.mark))
    }
}

impl Guest {
    /// Of a port that worker `home` polls, at the other end of its hand-off queue.
    pub fn new(home: usize, port: &dyn SwitchPort, incoming: HandoffConsumer, place: Arc<Place>) -> Guest {
        let (mem, mtu) = port.lends();
        let accepts = port.accepts();
        let (home, sending) = (home as u16, Sending::default());
        Guest { home, accepts, mem, mtu, incoming, sending, rules: None, _place: place }
    }

    /// What its part of the switch is held to: the same as at home.
    pub fn with_rules(self, rules: Option<Box<Rules>>) -> Guest {
        Guest { rules, ..self }
    }

    /// The memory that the port's packets lie in. `few` have come: their receivers probably wait for them.
    pub(super) fn origin(&self, few: bool) -> Origin<'_, NativeMemory> {
        Origin { mem: &self.mem, mtu: self.mtu, idle: few }
    }

    /// The next whole packets that were handed over, if there are any. They stay there until they are [taken](Guest::taken).
    pub(super) fn incoming(&mut self) -> Option<Handed> {
        if !self.incoming.is_ready() {
            return None;
        }
        let mut items = [Item::default(); FETCH];
        let n = self.incoming.peek(&mut items);
        let whole = items.get(..n)?.iter().rposition(|item| !item.desc.more())? + 1;
        Some(Handed { descs: items.map(|item| item.desc), items, len: whole })
    }

    /// Done with so many descriptors.
    pub(super) fn taken(&mut self, descs: usize) {
        self.incoming.advance(descs);
    }

    /// True when nothing is left, and nothing more comes.
    pub(super) fn is_finished(&mut self) -> bool {
        self.incoming.is_finished()
    }

    /// What was counted here, as if of the port's first queue.
    pub(crate) fn report(&self) -> QueueStatus {
        let mut queue = QueueStatus::default();
        self.sending.counters.add_to(&mut queue);
        queue
    }
}

/// Its home calls.
impl Doze for Guest {
    fn arm(&self) -> bool {
        !self.incoming.waits()
    }
    fn has_work(&self) -> bool {
        self.incoming.waits()
    }
    fn calls<'a>(&'a self, _: &mut Vec<PollFd<'a>>) {}
    fn disarm(&self, _: &[PollFd<'_>]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descs(from: u32, n: u32) -> Vec<Desc> {
        (from..from + n).map(|at| Desc::new(at, 64, 0)).collect()
    }

    fn settled(lanes: &mut Lanes) -> Vec<(u16, u32)> {
        let mut seen = Vec::new();
        assert_eq!(lanes.settle(|queue, descs| seen.extend(descs.iter().map(|d| (queue, d.offset())))), 0);
        seen
    }

    fn pair() -> (Lanes, HandoffConsumer) {
        let callers: Vec<_> = (0..2).map(|_| Caller::new().unwrap()).collect();
        let (lanes, mut ends) = lanes(0, &callers);
        assert_eq!(ends.len(), 1);
        (lanes, ends.remove(0).1)
    }

    #[test]
    fn packets_are_completed_in_order_when_others_are_done() {
        let (mut lanes, mut end) = pair();
        let burst = descs(0, 6);
        assert!(lanes.begin(3));
        assert!(lanes.hand_over(1, &burst[2..3], 2, 9, 7), "the third");
        lanes.hold(&burst);
        assert_eq!(settled(&mut lanes), [(3, 0), (3, 1)], "those behind it wait");
        assert!(lanes.begin(4));
        lanes.hold(&descs(100, 2));
        assert_eq!(settled(&mut lanes), []);
        let mut items = [Item::default(); 4];
        assert_eq!(end.peek(&mut items), 1);
        assert_eq!((items[0].desc.offset(), items[0].to, items[0].mark), (2, 9, 7));
        end.advance(1);
        assert_eq!(settled(&mut lanes), [(3, 2), (3, 3), (3, 4), (3, 5), (4, 100), (4, 101)]);
        assert!(lanes.is_settled());
    }

    #[test]
    fn a_packet_may_be_with_several_at_once_and_is_completed_after_the_last() {
        let callers: Vec<_> = (0..3).map(|_| Caller::new().unwrap()).collect();
        let (mut lanes, mut ends) = lanes(1, &callers);
        assert_eq!(ends.iter().map(|(worker, _)| *worker).collect::<Vec<_>>(), [0, 2]);
        let chain = [Desc::new(1, 64, 0).with_more(true), Desc::new(2, 64, 0)];
        assert!(lanes.begin(0) && lanes.hand_over(0, &chain, 0, 5, 0) && lanes.hand_over(2, &chain, 0, 5, 0));
        assert!(
            !lanes.hand_over(1, &chain, 0, 5, 0) && !lanes.hand_over(9, &chain, 0, 5, 0),
            "to itself, to nobody"
        );
        lanes.hold(&chain);
        for (left, (_, end)) in [1, 0].into_iter().zip(&mut ends) {
            assert_eq!(end.peek(&mut [Item::default(); 4]), 2);
            end.advance(2);
            assert_eq!(settled(&mut lanes).len(), if left == 0 { 2 } else { 0 });
        }
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let (mut lanes, mut end) = pair();
        let mut bursts = 0;
        while lanes.begin(0) {
            let burst = descs(bursts * 32, 32);
            burst.iter().enumerate().for_each(|(i, desc)| assert!(lanes.hand_over(1, &[*desc], i, 0, 0)));
            lanes.hold(&burst);
            bursts += 1;
        }
        assert_eq!(bursts as usize, HELD / FETCH);
        assert_eq!(end.peek(&mut [Item::default(); FETCH]), FETCH);
        end.advance(FETCH);
        assert_eq!(settled(&mut lanes).len(), FETCH);
        assert!(lanes.begin(0));
    }

    #[test]
    fn what_a_worker_that_has_stopped_never_took_is_lost_once() {
        let (mut lanes, mut end) = pair();
        assert!(lanes.begin(0));
        let burst = descs(0, 3);
        burst.iter().enumerate().for_each(|(i, desc)| assert!(lanes.hand_over(1, &[*desc], i, 0, 0)));
        lanes.hold(&burst);
        assert_eq!(end.peek(&mut [Item::default(); 1]), 1);
        end.advance(1);
        drop(end);
        let mut completed = 0;
        assert_eq!(lanes.settle(|_, descs| completed += descs.len()), 2);
        assert_eq!((completed, lanes.settle(|_, _| unreachable!())), (3, 0));
        assert!(lanes.begin(0) && !lanes.hand_over(1, &burst, 0, 0, 0), "nobody takes it");
    }

    #[test]
    fn marks_tell_programs_and_ports_apart() {
        let outside = crate::control::FIRST_OUTSIDE;
        assert!(mark(5) != mark(outside + 5) && mark(5) != mark(6) && mark(outside) != mark(outside + 1));
    }
}
