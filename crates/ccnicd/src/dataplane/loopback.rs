//! Loopback: packets go back by the queue that they were sent on. Works for every kind of port.

use ccnic::nic::{Pipeline, loopback};

use super::Dataplane;
use super::turns::{Looks, Turns};
use crate::ports::Port;

/// The loopback of one port on one worker.
#[derive(Debug)]
pub struct Loopback {
    /// By index of the queue: packets fetched and not delivered yet.
    pipelines: Vec<Pipeline>,
    turns: Turns,
    reflect: bool,
}

impl Loopback {
    /// For so many queues. With `reflect` packets go back in their own buffers where the port can do that.
    pub fn new(queues: usize, reflect: bool) -> Loopback {
        Loopback {
            pipelines: (0..queues).map(|_| Pipeline::default()).collect(),
            turns: Turns::new(queues),
            reflect,
        }
    }

    /// True when packets go back in their own buffers.
    pub(super) fn reflects(&self) -> bool {
        self.reflect
    }

    /// Which queue is next.
    pub(super) fn turns(&mut self) -> &mut Turns {
        &mut self.turns
    }

    /// Calls `forward` for a few queues, one after the other, until one has moved something; returns how much. Arguments: the port, the
    /// queue's packets in hand, its index, whether to reflect.
    #[inline(always)]
    pub(super) fn poll_queues<P: Port>(
        &mut self,
        port: &mut P,
        mut forward: impl FnMut(&mut P, &mut Pipeline, usize, bool) -> usize,
    ) -> usize {
        let single = self.turns.single();
        let mut looks = Looks::default();
        let mut at = if single { Some(0) } else { self.turns.first(&mut looks) };
        while let Some(queue) = at {
            let Some(pipeline) = self.pipelines.get_mut(queue) else { return 0 };
            let moved = forward(port, pipeline, queue, self.reflect);
            port.polled(queue);
            if single {
                return moved;
            }
            if moved > 0 {
                self.turns.found(queue);
                return moved;
            }
            self.turns.missed(queue);
            at = self.turns.next(&mut looks);
        }
        0
    }
}

impl<P: Port> Dataplane<P> for Loopback {
    #[inline(always)]
    fn poll(&mut self, port: &mut P) -> usize {
        self.poll_queues(
            port,
            #[inline(always)]
            |port, pipeline, at, reflect| {
                let (queues, mem) = port.queues();
                let Some(queue) = queues.get_mut(at) else { return 0 };
                loopback(queue, pipeline, mem, reflect)
            },
        )
    }

    fn round(&self) -> usize {
        self.turns.round()
    }

    fn sweep(&self) -> usize {
        self.pipelines.len()
    }
}
