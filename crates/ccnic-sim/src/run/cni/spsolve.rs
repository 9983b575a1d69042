//! A sparse triangular system, forward and back (CNI section 4.2, spsolve): values go down the edges of a directed acyclic graph as
//! messages of 12 bytes, a place and a product. What a message does is one addition; an unknown whose last summand has come is done,
//! and sends its own.
//!
//! The factor is that of a grid with nine-point stencils: an unknown depends on four before it. Rows of the grid go round the
//! processors, so that three of its four dependents are a neighbour's.

use std::rc::Rc;

use super::micro::MicroError;
use super::nodes::{Outcome, Random, on_all, place_and_value, placed};
use crate::bus::buses::Cycle;
use crate::platform::BusPlatform;
use crate::systems::cni::Interface;
use crate::systems::cni::endpoint::Endpoint;
use crate::systems::cni::layout::USER;

/// Cycles of a message's work: the sum is loaded, added to and stored, and the count of summands that are missing lowered.
const SUMMAND: Cycle = 8;
/// Cycles of an unknown besides its edges: a multiplication by the inverse of the diagonal.
const UNKNOWN: Cycle = 10;
/// Cycles of an edge: the coefficient is loaded and multiplied.
const EDGE: Cycle = 6;
/// How far the result may be from the sequential program's, which adds in another order.
const ROUNDING: f64 = 1e-12;

/// A system, before it is made.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Unknowns in a row of the grid.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
    /// Right sides, solved one after the other.
    pub right_sides: usize,
}

impl Size {
    /// 3720 unknowns (CNI table 3). The paper says neither which matrix it is nor how many iterations.
    pub const PAPER: Size = Size { columns: 62, rows: 60, right_sides: 3 };
}

/// An edge to an unknown that depends on this one.
#[derive(Debug, Clone, Copy)]
struct Edge {
    to: usize,
    coefficient: f64,
}

/// The factor `L`: the inverse of its diagonal, and the edges below it; `back` has the same ones reversed.
#[derive(Debug)]
struct Factor {
    size: Size,
    inverse: Vec<f64>,
    edges: [Vec<Vec<Edge>>; 2],
    right: Vec<Vec<f64>>,
}

/// An unknown of a pass: passes `2 n` go forward through right side `n`, passes `2 n + 1` back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    pass: usize,
    unknown: usize,
}

impl Factor {
    fn new(size: Size) -> Factor {
        let mut random = Random::new(11);
        let n = size.columns * size.rows;
        let mut edges = [vec![Vec::new(); n], vec![Vec::new(); n]];
        for to in 0..n {
            let (x, y) = ((to % size.columns) as isize, (to / size.columns) as isize);
            for (dx, dy) in [(-1, -1), (0, -1), (1, -1), (-1, 0)] {
                let (x, y) = (x + dx, y + dy);
                if !(0..size.columns as isize).contains(&x) || y < 0 {
                    continue;
                }
                let (from, coefficient) = (y as usize * size.columns + x as usize, -random.fraction());
                edges[0][from].push(Edge { to, coefficient });
                edges[1][to].push(Edge { to: from, coefficient });
            }
        }
        let inverse = (0..n).map(|_| 1.0 / (4.0 + random.fraction())).collect();
        let right = (0..size.right_sides).map(|_| (0..n).map(|_| random.fraction()).collect()).collect();
        Factor { size, inverse, edges, right }
    }

    /// Summands that each unknown of a pass waits for. Going back, one of them is the unknown's own value of the pass before.
    fn missing(&self, pass: usize) -> Vec<u32> {
        let mut missing = vec![(pass % 2) as u32; self.inverse.len()];
        self.edges[pass % 2].iter().flatten().for_each(|edge| missing[edge.to] += 1);
        missing
    }

    /// The sums before the first message: the right side, or nothing.
    fn start(&self, pass: usize) -> Vec<f64> {
        if pass.is_multiple_of(2) { self.right[pass / 2].clone() } else { vec![0.0; self.inverse.len()] }
    }

    /// Solves `L y = b` and then the transpose's `L' x = y`, unknown by unknown.
    fn sequential(&self, right_side: usize) -> Vec<f64> {
        let mut sums = self.right[right_side].clone();
        for (direction, edges) in self.edges.iter().enumerate() {
            for i in 0..sums.len() {
                let unknown = if direction == 0 { i } else { sums.len() - 1 - i };
                sums[unknown] *= self.inverse[unknown];
                let value = sums[unknown];
                edges[unknown].iter().for_each(|edge| sums[edge.to] -= edge.coefficient * value);
            }
        }
        sums
    }
}

/// Runs it, and compares the solutions with the sequential program's.
///
/// # Errors
/// When the interface cannot be there, or a value is another one.
pub fn run(platform: &BusPlatform, interface: Interface, size: Size) -> Result<Outcome, MicroError> {
    let factor = Rc::new(Factor::new(size));
    let n = size.columns * size.rows;
    let nodes = platform.nodes.get() as usize;
    // A sum and a count, the inverse and four edges of 16 bytes.
    let shared = Rc::clone(&factor);
    let memory = (n * UNKNOWN_BYTES) as u32;
    let (outcome, results) =
        on_all(platform, interface, memory, move |end| Processor::new(end, &shared, nodes).run())?;
    for right_side in 0..size.right_sides {
        let wanted = factor.sequential(right_side);
        let pass = 2 * right_side + 1;
        let off = |unknown: usize| {
            let ours = results[owner(&size, nodes, unknown)][pass][unknown];
            (ours - wanted[unknown]).abs() > ROUNDING * wanted[unknown].abs()
        };
        if (0..n).any(off) {
            return Err(MicroError::Wrong("spsolve"));
        }
    }
    Ok(outcome)
}

/// Bytes of an unknown in its owner's memory.
const UNKNOWN_BYTES: usize = 16 + 8 + 4 * 16;

fn owner(size: &Size, nodes: usize, unknown: usize) -> usize {
    unknown / size.columns % nodes
}

/// A processor at work.
struct Processor<'e, 'a, 'f> {
    end: &'e mut Endpoint<'a>,
    factor: &'f Factor,
    nodes: usize,
    /// By pass.
    sums: Vec<Vec<f64>>,
    missing: Vec<Vec<u32>>,
    /// Unknowns whose summands have all come.
    ready: Vec<Place>,
    /// Unknowns of the last pass that are not done.
    left: usize,
}

impl<'e, 'a, 'f> Processor<'e, 'a, 'f> {
    fn new(end: &'e mut Endpoint<'a>, factor: &'f Factor, nodes: usize) -> Self {
        let passes = 2 * factor.size.right_sides;
        let (me, n) = (end.cpu.node(), factor.inverse.len());
        Processor {
            left: (0..n).filter(|unknown| owner(&factor.size, nodes, *unknown) == me).count() * passes,
            end,
            factor,
            nodes,
            sums: (0..passes).map(|pass| factor.start(pass)).collect(),
            missing: (0..passes).map(|pass| factor.missing(pass)).collect(),
            ready: Vec::new(),
        }
    }

    fn is_mine(&self, unknown: usize) -> bool {
        owner(&self.factor.size, self.nodes, unknown) == self.end.cpu.node()
    }

    /// Returns the values as far as they are this processor's.
    fn run(mut self) -> Vec<Vec<f64>> {
        // The only unknown that waits for nothing is the first. Later right sides begin when the one before is done there.
        if self.is_mine(0) {
            self.ready.push(Place { pass: 0, unknown: 0 });
        }
        while self.left > 0 {
            while let Some(place) = self.ready.pop() {
                self.finish(place);
            }
            if self.left > 0 {
                let message = self.end.wait();
                let (unknown, product) = place_and_value(&message.payload);
                self.add(Place { pass: message.header.tag as usize, unknown }, product);
            }
        }
        self.sums
    }

    /// An unknown's summand: the one addition.
    fn add(&mut self, place: Place, summand: f64) {
        let Place { pass, unknown } = place;
        self.end.cpu.touch_blocks(USER + (unknown * UNKNOWN_BYTES) as u32, 16, true);
        self.end.cpu.work(SUMMAND);
        self.sums[pass][unknown] += summand;
        self.missing[pass][unknown] -= 1;
        if self.missing[pass][unknown] == 0 {
            self.ready.push(place);
        }
    }

    /// All summands of an unknown have come: its value, and what depends on it.
    fn finish(&mut self, place: Place) {
        let Place { pass, unknown } = place;
        let factor = self.factor;
        self.end.cpu.touch_blocks(USER + (unknown * UNKNOWN_BYTES) as u32, UNKNOWN_BYTES as u32, false);
        self.end.cpu.work(UNKNOWN);
        let value = self.sums[pass][unknown] * factor.inverse[unknown];
        self.sums[pass][unknown] = value;
        self.left -= 1;
        for edge in &factor.edges[pass % 2][unknown] {
            self.end.cpu.work(EDGE);
            let product = -edge.coefficient * value;
            if self.is_mine(edge.to) {
                self.add(Place { pass, unknown: edge.to }, product);
            } else {
                let to = owner(&factor.size, self.nodes, edge.to);
                self.end.send(to, 0, pass as u32, &placed(edge.to, product));
            }
        }
        if pass.is_multiple_of(2) {
            self.add(Place { pass: pass + 1, unknown }, value);
        } else if unknown == 0 && pass + 1 < self.sums.len() {
            self.ready.push(Place { pass: pass + 1, unknown: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::nodes::by_every_interface;
    use super::*;

    /// `L L' x` is the right side again.
    #[test]
    fn the_sequential_program_solves_the_system() {
        let factor = Factor::new(Size { columns: 9, rows: 7, right_sides: 2 });
        let x = factor.sequential(1);
        let times = |x: &[f64], edges: &[Vec<Edge>]| -> Vec<f64> {
            let mut out: Vec<f64> = x.iter().zip(&factor.inverse).map(|(x, inverse)| x / inverse).collect();
            for (from, edges) in edges.iter().enumerate() {
                edges.iter().for_each(|edge| out[edge.to] += edge.coefficient * x[from]);
            }
            out
        };
        let right = times(&times(&x, &factor.edges[1]), &factor.edges[0]);
        assert!(right.iter().zip(&factor.right[1]).all(|(a, b)| (a - b).abs() < 1e-12), "{right:?}");
    }

    #[test]
    fn the_matrix_is_as_large_as_the_papers() {
        assert_eq!(Factor::new(Size::PAPER).inverse.len(), 3720);
    }

    #[test]
    fn every_interface_computes_the_same() {
        let size = Size { columns: 12, rows: 10, right_sides: 2 };
        for outcome in by_every_interface(|platform, interface| run(platform, interface, size)) {
            // Each of the 9 steps to another row has three edges, two at the ends of a row; forward and back.
            assert_eq!(outcome.messages, 2 * 2 * 9 * (3 * 12 - 2));
        }
    }
}
