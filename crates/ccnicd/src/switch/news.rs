//! What the switches of several workers tell each other: at which ports they have seen which addresses.
//!
//! Each worker has an address table of its own, which nobody else reads or writes. It learns from the frames of the ports that it polls, and
//! from what others tell: an address and its port, by a bounded queue from each worker to each. Nothing waits for it. What has no room in a
//! queue is told later, when the table is [looked through](super::table::MacTable::to_tell), and what is seen all the time is told again, four times
//! within the ageing time. So an address that its worker has forgotten, or that was told in error, is forgotten everywhere.
//!
//! A worker tells what it has learned before it hands over a packet, and listens before it takes one. So whoever gets a packet from another
//! worker's port knows where the answer goes.

use ccnic_handoff::{HandoffConsumer, HandoffProducer, Item, handoff};
use rustix::event::PollFd;

use super::PortId;
use super::frame::Station;
use crate::poll::sleep::Caller;
use crate::ports::Doze;

/// Addresses on their way from one worker to another, at most.
const CAPACITY: usize = 256;

/// An address that another worker has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) station: Station,
    pub(super) port: PortId,
    /// [`mark`](super::lanes::mark) of the port's client.
    pub(super) mark: u32,
}

/// One worker's ends of the queues. Belongs to its thread.
#[derive(Debug)]
pub(crate) struct News {
    out: Box<[(HandoffProducer, Caller)]>,
    incoming: Box<[HandoffConsumer]>,
}

/// The queues between all workers, by worker.
pub(crate) fn between(workers: &[Caller]) -> Vec<News> {
    let mut out: Vec<Vec<_>> = workers.iter().map(|_| Vec::new()).collect();
    let mut incoming: Vec<Vec<_>> = workers.iter().map(|_| Vec::new()).collect();
    for (from, out) in out.iter_mut().enumerate() {
        for (to, (incoming, caller)) in incoming.iter_mut().zip(workers).enumerate() {
            if to != from {
                let (producer, consumer) = handoff(CAPACITY);
                out.push((producer, caller.clone()));
                incoming.push(consumer);
            }
        }
    }
    let ends = out.into_iter().zip(incoming);
    ends.map(|(out, incoming)| News { out: out.into(), incoming: incoming.into() }).collect()
}

impl News {
    /// Tells all others. False when there was no room, and nobody is told.
    pub(super) fn tell(&mut self, told: Told) -> bool {
        let Told { station, port, mark } = told;
        for (queue, _) in &mut self.out {
            if queue.room() == 0 {
                queue.release();
            }
        }
        let gone = |queue: &HandoffProducer| queue.consumer_gone();
        if !self.out.iter().all(|(queue, _)| queue.room() > 0 || gone(queue)) {
            return false;
        }
        let desc = ccnic::Desc::default().with_meta(station.bits());
        for (queue, caller) in &mut self.out {
            queue.push([Item { desc, from: 0, to: port, mark }].into_iter());
            if queue.publish() {
                caller.call();
            }
        }
        true
    }

    /// What others have told, at most as much as a queue holds from each.
    pub(super) fn listen(&mut self, mut hear: impl FnMut(Told)) {
        for queue in &mut self.incoming {
            let mut items = [Item::default(); 32];
            for _ in 0..CAPACITY / 32 {
                let n = queue.peek(&mut items);
                if n == 0 {
                    break;
                }
                for Item { desc, to, mark, .. } in items.iter().take(n) {
                    hear(Told { station: Station::from_bits(desc.meta), port: *to, mark: *mark });
                }
                queue.advance(n);
            }
        }
    }

    /// True when another worker has told something.
    #[inline(always)]
    pub(super) fn is_ready(&mut self) -> bool {
        self.incoming.iter_mut().any(HandoffConsumer::is_ready)
    }
}

impl Doze for News {
    fn arm(&self) -> bool {
        !self.has_work()
    }
    fn has_work(&self) -> bool {
        self.incoming.iter().any(HandoffConsumer::waits)
    }
    fn calls<'a>(&'a self, _: &mut Vec<PollFd<'a>>) {}
    fn disarm(&self, _: &[PollFd<'_>]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::Mac;

    fn told(n: u16) -> Told {
        let [hi, lo] = n.to_be_bytes();
        Told { station: Station::new(Mac::new([2, 0, 0, 0, hi, lo]), 7), port: n % 256, mark: n.into() }
    }

    fn heard(news: &mut News) -> Vec<Told> {
        let mut heard = Vec::new();
        news.listen(|told| heard.push(told));
        heard
    }

    #[test]
    fn everybody_is_told_or_nobody() {
        let callers: Vec<_> = (0..3).map(|_| Caller::new().unwrap()).collect();
        let mut news = between(&callers);
        let [a, b, c] = news.as_mut_slice() else { unreachable!() };
        assert!(a.tell(told(1)) && b.tell(told(2)));
        assert!(c.is_ready() && c.has_work() && !c.arm());
        assert_eq!((heard(a), heard(b)), (vec![told(2)], vec![told(1)]));
        assert_eq!(heard(c), [told(1), told(2)]);
        let n = (0..).take_while(|n| a.tell(told(*n))).count();
        assert_eq!(n, CAPACITY);
        assert_eq!(heard(b).len(), n);
        assert!(!a.tell(told(0)), "one of them has not listened");
        assert_eq!((heard(b), heard(c).len(), a.tell(told(9))), (vec![], n, true));
        drop(news.pop());
        let [a, b] = news.as_mut_slice() else { unreachable!() };
        assert!(
            (0..2 * CAPACITY as u16).all(|n| a.tell(told(n)) && !heard(b).is_empty()),
            "one that has stopped is in nobody's way"
        );
    }
}
