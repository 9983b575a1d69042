//! All nodes, and which program goes on: each node runs alone through a span as long as the network's latency.

use super::buses::Cycle;
use super::node::Node;

/// Every node, and the time.
#[derive(Debug)]
pub struct Machine {
    pub(super) nodes: Vec<Node>,
    latency: Cycle,
    /// The end of the span that nodes run through.
    end: Cycle,
    /// The node that runs.
    current: usize,
    /// Programs of processors that have not ended.
    pub(super) running: usize,
}

impl Machine {
    /// A machine whose nodes have no programs yet.
    pub(super) fn new(nodes: Vec<Node>, latency: Cycle) -> Machine {
        Machine { nodes, latency, end: 0, current: usize::MAX, running: 0 }
    }

    /// The next agent to be resumed; none when every processor's program has ended, or nothing happens any more.
    pub(super) fn step(&mut self) -> Option<(usize, usize)> {
        while self.running > 0 {
            if let Some(node) = self.nodes.get_mut(self.current) {
                match node.next(self.end) {
                    Some(agent) => return Some((self.current, agent)),
                    None => self.current += 1,
                }
                continue;
            }
            for from in 0..self.nodes.len() {
                for (to, at, event) in std::mem::take(&mut self.nodes[from].port.outbox) {
                    self.nodes[to].events.push(at, event);
                }
            }
            let next = self.nodes.iter().map(Node::next_at).min().filter(|at| *at != Cycle::MAX)?;
            (self.end, self.current) = (next + self.latency, 0);
        }
        None
    }
}
