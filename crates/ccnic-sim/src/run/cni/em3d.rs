//! Electromagnetic waves (CNI section 4.2): a bipartite graph; in each half of an iteration the nodes of one kind get new values from
//! their neighbours of the other kind, and send them to the processors that need them, 12 bytes each: a place and a value.

use std::rc::Rc;

use super::micro::MicroError;
use super::nodes::{Outcome, Random, on_all, place_and_value, placed};
use crate::bus::buses::Cycle;
use crate::platform::BusPlatform;
use crate::systems::cni::Interface;
use crate::systems::cni::endpoint::Endpoint;
use crate::systems::cni::layout::USER;

/// Cycles of an edge: loads of the neighbour's value and of the coefficient, a multiplication, a subtraction.
const EDGE: Cycle = 8;
/// Cycles of a graph node besides its edges.
const NODE: Cycle = 10;

/// A graph, before it is made.
#[derive(Debug, Clone, Copy)]
pub struct Graph {
    /// Nodes of both kinds together.
    pub nodes: usize,
    /// Neighbours that a node's value depends on.
    pub degree: usize,
    /// Of a thousand edges, how many lead to another processor.
    pub remote: u32,
    /// How many processors away at most, half on each side.
    pub span: usize,
    /// Iterations.
    pub iterations: u32,
}

impl Graph {
    /// CNI table 3.
    pub const PAPER: Graph = Graph { nodes: 1024, degree: 5, remote: 100, span: 6, iterations: 10 };
}

/// An edge into a graph node: the neighbour that its value depends on, and the coefficient.
#[derive(Debug, Clone, Copy)]
struct Edge {
    from: usize,
    coefficient: f64,
}

/// The graph: for each kind the edges into each of its nodes. Node `n` of a kind belongs to processor `n / share`.
#[derive(Debug)]
struct Made {
    edges: [Vec<Vec<Edge>>; 2],
    share: usize,
    iterations: u32,
}

fn make(graph: Graph, processors: usize) -> Made {
    let share = graph.nodes / 2 / processors;
    let mut random = Random::new(7);
    let mut next = |below: usize| random.below(below);
    let mut kind = || -> Vec<Vec<Edge>> {
        (0..share * processors)
            .map(|n| {
                let mut edge = || {
                    let remote = next(1000) < graph.remote as usize;
                    let away = 1 + next((graph.span / 2).clamp(1, processors.div_ceil(2).max(2) - 1));
                    let away = if next(2) == 0 { away } else { processors - away % processors };
                    let owner = (n / share + if remote { away } else { 0 }) % processors;
                    let from = owner * share + next(share);
                    Edge { from, coefficient: next(1000) as f64 / 1e5 }
                };
                (0..graph.degree).map(|_| edge()).collect()
            })
            .collect()
    };
    Made { edges: [kind(), kind()], share, iterations: graph.iterations }
}

impl Made {
    fn owner(&self, node: usize) -> usize {
        node / self.share
    }

    fn start(&self, kind: usize) -> Vec<f64> {
        (0..self.edges[kind].len()).map(|n| 1.0 + (n + kind) as f64 / 100.0).collect()
    }

    fn new_value(&self, kind: usize, node: usize, old: f64, others: &[f64]) -> f64 {
        self.edges[kind][node].iter().fold(old, |value, edge| value - edge.coefficient * others[edge.from])
    }

    /// The processors besides its owner that need the value of a node of a kind, each once.
    fn readers(&self, kind: usize, node: usize) -> Vec<usize> {
        let needs = |to: &usize| self.edges[1 - kind][*to].iter().any(|edge| edge.from == node);
        let mut readers: Vec<usize> =
            (0..self.edges[1 - kind].len()).filter(needs).map(|to| self.owner(to)).collect();
        readers.dedup();
        readers.retain(|reader| *reader != self.owner(node));
        readers
    }

    fn sequential(&self) -> [Vec<f64>; 2] {
        let mut values = [self.start(0), self.start(1)];
        for half in 0..2 * self.iterations as usize {
            let kind = half % 2;
            let new = |n: usize| self.new_value(kind, n, values[kind][n], &values[1 - kind]);
            values[kind] = (0..values[kind].len()).map(new).collect();
        }
        values
    }
}

/// Runs it, and compares every value with the sequential program's.
///
/// # Errors
/// When the interface cannot be there, or a value is another one.
pub fn run(platform: &BusPlatform, interface: Interface, graph: Graph) -> Result<Outcome, MicroError> {
    let processors = platform.nodes.get() as usize;
    let made = Rc::new(make(graph, processors));
    let memory = (2 * graph.nodes * 8 + made.share * 2 * graph.degree * 16) as u32;
    let shared = Rc::clone(&made);
    let (outcome, results) = on_all(platform, interface, memory, move |end| processor(end, &shared))?;
    let right = made.sequential();
    let same = |(me, values): (usize, &[Vec<f64>; 2])| {
        let own = me * made.share..(me + 1) * made.share;
        (0..2).all(|kind| values[kind][own.clone()] == right[kind][own.clone()])
    };
    if results.iter().enumerate().all(same) { Ok(outcome) } else { Err(MicroError::Wrong("em3d")) }
}

/// A processor's part: returns the values as it knows them.
fn processor(end: &mut Endpoint<'_>, made: &Made) -> [Vec<f64>; 2] {
    let me = end.cpu.node();
    let own = me * made.share..(me + 1) * made.share;
    let mut values = [made.start(0), made.start(1)];
    let readers = [0, 1].map(|kind| own.clone().map(|n| made.readers(kind, n)).collect::<Vec<_>>());
    let awaited = [0, 1].map(|kind| {
        let others = (0..values[kind].len()).filter(|n| made.owner(*n) != me);
        others.filter(|n| made.readers(kind, *n).contains(&me)).count()
    });
    // What has come for halves that this processor has not begun.
    let mut early: Vec<(usize, usize, f64)> = Vec::new();
    for half in 0..2 * made.iterations as usize {
        let kind = half % 2;
        for (i, node) in own.clone().enumerate() {
            let value = made.new_value(kind, node, values[kind][node], &values[1 - kind]);
            let edges = made.edges[kind][node].len();
            end.cpu.touch_blocks(place(made, kind, i), 16 * edges as u32, false);
            made.edges[kind][node].iter().for_each(|edge| {
                end.cpu.touch_blocks(USER + ((1 - kind) * values[0].len() + edge.from) as u32 * 8, 8, false);
            });
            end.cpu.touch_blocks(USER + (kind * values[0].len() + node) as u32 * 8, 8, true);
            end.cpu.work(NODE + EDGE * edges as Cycle);
            values[kind][node] = value;
            for to in &readers[kind][i] {
                end.send(*to, 0, half as u32, &placed(node, value));
            }
        }
        let mut come = 0;
        for (_, node, value) in early.extract_if(.., |(of, ..)| *of == half) {
            values[kind][node] = value;
            come += 1;
        }
        while come < awaited[kind] {
            let message = end.wait();
            let (node, value) = place_and_value(&message.payload);
            let of = message.header.tag as usize;
            if of == half {
                values[kind][node] = value;
                end.cpu.touch_blocks(USER + (kind * values[0].len() + node) as u32 * 8, 8, true);
                come += 1;
            } else {
                early.push((of, node, value));
            }
        }
    }
    values
}

/// Where the edges of a processor's own node lie, behind all values.
fn place(made: &Made, kind: usize, i: usize) -> u32 {
    let degree = made.edges[0][0].len();
    USER + (2 * made.edges[0].len() * 8 + (kind * made.share + i) * degree * 16) as u32
}

#[cfg(test)]
mod tests {
    use super::super::nodes::by_every_interface;
    use super::*;

    #[test]
    fn the_graph_is_the_papers() {
        let made = make(Graph::PAPER, 16);
        let edges: Vec<(usize, Edge)> =
            made.edges.iter().flatten().flatten().enumerate().map(|(i, e)| (i, *e)).collect();
        assert_eq!(edges.len(), 1024 * 5);
        let remote = edges.iter().filter(|(i, e)| made.owner(i / 5 % 512) != made.owner(e.from)).count();
        assert!((400..620).contains(&remote), "{remote} of 5120 edges are remote");
    }

    #[test]
    fn every_interface_computes_the_same() {
        let graph = Graph { nodes: 128, iterations: 3, remote: 300, ..Graph::PAPER };
        for outcome in by_every_interface(|platform, interface| run(platform, interface, graph)) {
            assert!(outcome.messages > 100, "{outcome:?}");
        }
    }
}
