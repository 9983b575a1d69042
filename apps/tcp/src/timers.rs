//! When connections want to be looked at again.
//!
//! A connection's deadline moves with nearly every packet, usually to later. So the queue holds a time that is not later than the deadline;
//! when that time has come the connection says its deadline of then, and is looked at or queued again. A connection that is busy is so
//! queued once in its retransmission time, not once for each packet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::connections::Conn;
use crate::engine::Micros;

/// The times at which connections are to be asked for their deadline.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BinaryHeap<Reverse<(Micros, Conn)>>,
}

impl Timers {
    /// Asks for this connection at this time.
    pub(crate) fn add(&mut self, at: Micros, conn: Conn) {
        self.queue.push(Reverse((at, conn)));
    }

    /// A connection whose time has come.
    pub(crate) fn due(&mut self, now: Micros) -> Option<Conn> {
        let Reverse((at, conn)) = *self.queue.peek()?;
        if at > now {
            return None;
        }
        self.queue.pop();
        Some(conn)
    }

    /// The next time.
    #[inline]
    pub(crate) fn next(&self) -> Option<Micros> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// Times that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn times_come_in_order() {
        let mut timers = Timers::default();
        let conns = [3, 1, 2].map(|i| (i, Conn::new(i as u32, 0)));
        conns.iter().for_each(|(at, conn)| timers.add(*at, *conn));
        assert_eq!((timers.next(), timers.due(0)), (Some(1), None));
        let order: Vec<_> = std::iter::from_fn(|| timers.due(2)).collect();
        assert_eq!(order, [conns[1].1, conns[2].1]);
        assert_eq!(timers.len(), 1);
    }
}
