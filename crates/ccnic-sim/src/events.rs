//! What is going to happen, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::time::Ps;

/// Something that happens at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A request reaches the home agent of its core's socket.
    Arrive(u32),
    /// A request reaches its line's home in the other socket.
    AtHome(u32),
    /// A snoop for a transaction reaches a core.
    Snoop(u32, u8),
    /// Data, or ownership, reaches the core that asked.
    Fill(u32),
    /// A core's hint to move a line towards its readers reaches the home agent.
    Demote(u32, u8),
    /// A core goes on.
    Resume(u8),
    /// Something that is on its way to, from or within a device, by number.
    Device(u32),
}

/// Events in order of time; at the same time messages before cores, cores by number, messages by age.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Ps, u64, Event)>>,
    sent: u64,
}

impl Events {
    /// Adds an event.
    pub fn push(&mut self, at: Ps, event: Event) {
        let tie = match event {
            Event::Resume(core) => 1 << 63 | u64::from(core),
            _ => {
                self.sent += 1;
                self.sent
            }
        };
        self.heap.push(Reverse((at, tie, event)));
    }

    /// The next event, if it happens by then.
    pub fn pop_until(&mut self, until: Ps) -> Option<(Ps, Event)> {
        let next = self.heap.peek_mut().filter(|next| next.0.0 <= until)?;
        let Reverse((at, _, event)) = PeekMut::pop(next);
        Some((at, event))
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Ps> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}
