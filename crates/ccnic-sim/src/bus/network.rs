//! Messages between nodes: a fixed latency, no topology, and a window of messages under way to each destination (CNI section 4.1).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::buses::Cycle;

/// Bytes of a network message (CNI section 4.1).
pub const MESSAGE: usize = 256;

/// A network message: its bytes, the header included.
#[derive(Clone)]
pub struct Message {
    /// The node it goes to.
    pub to: usize,
    /// The node it comes from.
    pub from: usize,
    /// How many of the bytes are used.
    pub len: usize,
    /// The bytes.
    pub bytes: [u8; MESSAGE],
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Message { to, from, len, .. } = self;
        f.debug_struct("Message")
            .field("to", to)
            .field("from", from)
            .field("len", len)
            .finish_non_exhaustive()
    }
}

/// What can happen to a node from outside its processor.
#[derive(Debug)]
pub enum Event {
    /// A message arrives.
    Arrived(Box<Message>),
    /// A message to this node was taken off the network there.
    Acknowledged(usize),
    /// The processor's store to a register reaches the device.
    Stored(u32, u64),
    /// The device sees that a processor gets ready to write a block.
    Snooped(u32),
}

/// Events in order of time, those of one time in the order in which they were added.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<Pending>>,
    added: u64,
}

#[derive(Debug)]
struct Pending(Cycle, u64, Event);

impl PartialEq for Pending {
    fn eq(&self, other: &Pending) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Pending) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Pending) -> Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl Events {
    /// Adds one.
    pub fn push(&mut self, at: Cycle, event: Event) {
        self.added += 1;
        self.heap.push(Reverse(Pending(at, self.added, event)));
    }

    /// When the next one happens.
    pub fn next_at(&self) -> Cycle {
        self.heap.peek().map_or(Cycle::MAX, |Reverse(pending)| pending.0)
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<(Cycle, Event)> {
        self.heap.pop().map(|Reverse(Pending(at, _, event))| (at, event))
    }
}

/// A node's end of the network.
#[derive(Debug)]
pub struct NetworkPort {
    /// Messages under way to each node.
    sent: Vec<u32>,
    window: u32,
    latency: Cycle,
    /// What leaves for other nodes: node, time of arrival, event.
    pub(super) outbox: Vec<(usize, Cycle, Event)>,
    /// What has arrived and was not taken yet.
    pub(super) inbox: std::collections::VecDeque<Box<Message>>,
}

impl NetworkPort {
    /// An end of a network of so many nodes.
    pub fn new(nodes: usize, window: u32, latency: Cycle) -> NetworkPort {
        NetworkPort { sent: vec![0; nodes], window, latency, outbox: Vec::new(), inbox: Default::default() }
    }

    /// Another message may be sent there.
    pub fn may_send(&self, to: usize) -> bool {
        self.sent[to] < self.window
    }

    /// Sends a message whose last byte leaves at `at`.
    pub fn send(&mut self, at: Cycle, message: Message) {
        self.sent[message.to] += 1;
        self.outbox.push((message.to, at + self.latency, Event::Arrived(Box::new(message))));
    }

    /// Takes the first message that has arrived off the network; its sender is told.
    pub fn take(&mut self, node: usize, at: Cycle) -> Option<Box<Message>> {
        let message = self.inbox.pop_front()?;
        self.outbox.push((message.from, at + self.latency, Event::Acknowledged(node)));
        Some(message)
    }

    /// The first message that has arrived.
    pub fn first(&self) -> Option<&Message> {
        self.inbox.front().map(|m| &**m)
    }

    /// A message that was sent there has been taken.
    pub fn acknowledged(&mut self, node: usize) {
        self.sent[node] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_closes_and_opens() {
        let mut port = NetworkPort::new(2, 4, 100);
        let message = Message { to: 1, from: 0, len: 20, bytes: [7; MESSAGE] };
        for at in 0..4 {
            assert!(port.may_send(1));
            port.send(at, message.clone());
        }
        assert!(!port.may_send(1) && port.may_send(0));
        assert_eq!(port.outbox.iter().map(|o| o.1).collect::<Vec<_>>(), [100, 101, 102, 103]);
        port.acknowledged(1);
        assert!(port.may_send(1));
    }

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut events = Events::default();
        for (at, block) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            events.push(at, Event::Snooped(block));
        }
        let mut order = Vec::new();
        while let Some((_, Event::Snooped(block))) = events.pop() {
            order.push(block);
        }
        assert_eq!((order, events.next_at()), (vec![1, 3, 0, 2], Cycle::MAX));
    }
}
