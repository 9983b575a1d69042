//! The queues of a port, looked at in turn, and the packets of each that have been fetched.

use std::sync::Arc;

use ccnic::nic::Pipeline;

use super::Port;
use super::latency::{Latency, Sampler};
use super::turns::{Looks, Turns};

/// What a dataplane keeps for the queues of one port on one worker.
#[derive(Debug)]
pub struct InTurn {
    /// By index of the queue: packets fetched and not delivered yet.
    pipelines: Vec<Pipeline>,
    turns: Turns,
    sampler: Sampler,
}

impl InTurn {
    /// For so many queues.
    pub fn new(queues: usize) -> InTurn {
        let pipelines = (0..queues).map(|_| Pipeline::default()).collect();
        InTurn { pipelines, turns: Turns::new(queues), sampler: Sampler::new() }
    }

    /// Shows there how long packets take, by samples.
    pub fn show_latency(&mut self, to: Arc<Latency>) {
        self.sampler.show(to);
    }

    /// The worker has slept.
    pub fn awoke(&mut self) {
        self.sampler.awoke();
    }

    /// Polls that look at every busy queue once.
    pub fn round(&self) -> usize {
        self.turns.round()
    }

    /// Polls that look at every queue once.
    pub fn sweep(&self) -> usize {
        self.pipelines.len()
    }

    /// True when no queue has packets that were fetched and not delivered.
    pub fn is_idle(&self) -> bool {
        self.pipelines.iter().all(Pipeline::is_empty)
    }

    /// The queue with index `at` is to be looked at soon: it has received packets.
    pub fn touch(&mut self, at: usize) {
        self.turns.touch(at);
    }

    /// Calls `forward` for a few queues, one after the other, until one has moved something; returns how much. Arguments: the port, the
    /// queue's packets in hand, its index.
    #[inline(always)]
    pub fn poll<P: Port>(
        &mut self,
        port: &mut P,
        mut forward: impl FnMut(&mut P, &mut Pipeline, usize) -> usize,
    ) -> usize {
        let single = self.turns.single();
        let mut looks = Looks::default();
        let mut at = if single { Some(0) } else { self.turns.first(&mut looks) };
        while let Some(queue) = at {
            let Some(pipeline) = self.pipelines.get_mut(queue) else { return 0 };
            self.sampler.begin(pipeline);
            let moved = forward(port, pipeline, queue);
            self.sampler.end(queue, moved, pipeline);
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
