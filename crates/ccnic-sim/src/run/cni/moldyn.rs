//! Molecular dynamics (CNI section 4.2, moldyn): every processor computes forces between its particles and their neighbours, which may
//! be anyone's; the forces are then summed up by a bulk reduction. In as many rounds as there are processors, each sends a share of the
//! forces, 1.5 KB, to the same neighbour, until every share has come round to its owner.
//!
//! The owner moves its particles, and positions go round the same ring.

use std::rc::Rc;

use super::cube::place;
use super::micro::MicroError;
use super::nodes::{Outcome, Random, on_all};
use crate::bus::buses::Cycle;
use crate::platform::BusPlatform;
use crate::systems::cni::Interface;
use crate::systems::cni::endpoint::Endpoint;
use crate::systems::cni::layout::USER;

/// Cycles of a pair of neighbours: a distance, whether it is near enough, a division, the force, and six sums.
const PAIR: Cycle = 40;
/// Cycles of a particle besides its pairs: its velocity and its place.
const PARTICLE: Cycle = 60;
/// Cycles to add a received force component to one's own: two loads, an addition, a store.
const SUM: Cycle = 4;
/// Particles per volume, the distance up to which they act on each other, and that up to which they are in a list of neighbours.
const DENSITY: f32 = 0.83;
const CUTOFF: f32 = 3.0;
const LISTED: f32 = 3.3;
/// A step of time.
const STEP: f32 = 0.002;

/// A vector.
type Vector = [f32; 3];
/// Bytes of one.
const VECTOR: usize = 12;

/// What is computed.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Particles along an edge of the box.
    pub edge: [usize; 3],
    /// Iterations.
    pub iterations: u32,
}

impl Size {
    /// 2048 particles, 30 iterations (CNI table 3).
    pub const PAPER: Size = Size { edge: [16, 16, 8], iterations: 30 };

    fn particles(&self) -> usize {
        self.edge.iter().product()
    }
}

/// The particles at the beginning, and who is near whom.
#[derive(Debug)]
struct Liquid {
    size: Size,
    /// The box's edges: at its ends it begins anew.
    edges: Vector,
    places: Vec<Vector>,
    velocities: Vec<Vector>,
    /// By particle: half of its neighbours, so that each pair is in one list, and lists are about as long as each other. Thirty steps
    /// are too few for others to come near.
    neighbours: Vec<Vec<u16>>,
}

impl Liquid {
    fn new(size: Size) -> Liquid {
        let mut random = Random::new(5);
        let apart = (1.0 / DENSITY).cbrt();
        let edges = size.edge.map(|n| n as f32 * apart);
        let mut vector = |of: f32| [0; 3].map(|_| (random.fraction() as f32 - 0.5) * of);
        let at = |i: usize| place(i, size.edge).map(|n| n as f32 * apart);
        let shaken = |i: usize, off: Vector| [0, 1, 2].map(|d| at(i)[d] + off[d]);
        let places: Vec<Vector> = (0..size.particles()).map(|i| shaken(i, vector(0.1))).collect();
        let velocities = places.iter().map(|_| vector(2.0)).collect();
        let near = |i: usize, j: &usize| square(between(places[i], places[*j], edges)) < LISTED * LISTED;
        let listed = |i: usize, j: &usize| i != *j && (i < *j) == (i + j).is_multiple_of(2) && near(i, j);
        let neighbours = (0..places.len())
            .map(|i| (0..places.len()).filter(|j| listed(i, j)).map(|j| j as u16).collect())
            .collect();
        Liquid { size, edges, places, velocities, neighbours }
    }

    /// Particles of a processor.
    fn own(&self, processor: usize, processors: usize) -> std::ops::Range<usize> {
        let n = self.places.len();
        processor * n / processors..(processor + 1) * n / processors
    }

    /// Forces between these particles and their neighbours, on all particles.
    fn forces(&self, own: std::ops::Range<usize>, places: &[Vector]) -> Vec<Vector> {
        let mut forces = vec![[0.0; 3]; places.len()];
        for i in own {
            for &j in &self.neighbours[i] {
                let j = usize::from(j);
                let apart = between(places[i], places[j], self.edges);
                let square = square(apart);
                if square > CUTOFF * CUTOFF {
                    continue;
                }
                // The force of Lennard-Jones: strong repulsion nearby, weak attraction farther away.
                let inverse = 1.0 / square;
                let sixth = inverse * inverse * inverse;
                let force = 24.0 * inverse * sixth * (2.0 * sixth - 1.0);
                for d in 0..3 {
                    forces[i][d] += force * apart[d];
                    forces[j][d] -= force * apart[d];
                }
            }
        }
        forces
    }

    /// The same by one processor, which adds up shares in the order in which they come round.
    fn sequential(&self, processors: usize) -> Vec<Vector> {
        let (mut places, mut velocities) = (self.places.clone(), self.velocities.clone());
        for _ in 0..self.size.iterations {
            let parts: Vec<_> =
                (0..processors).map(|p| self.forces(self.own(p, processors), &places)).collect();
            for p in 0..processors {
                for i in self.own(p, processors) {
                    let force = (1..processors).fold(parts[p][i], |sum, step| {
                        let next = parts[(p + step) % processors][i];
                        [0, 1, 2].map(|d| sum[d] + next[d])
                    });
                    advance(&mut places[i], &mut velocities[i], force, self.edges);
                }
            }
        }
        places
    }
}

/// From `b` to `a`, the shorter way.
fn between(a: Vector, b: Vector, edges: Vector) -> Vector {
    [0, 1, 2].map(|d| {
        let apart = a[d] - b[d];
        apart - edges[d] * (apart / edges[d]).round()
    })
}

fn square(a: Vector) -> f32 {
    a.iter().map(|x| x * x).sum()
}

fn advance(place: &mut Vector, velocity: &mut Vector, force: Vector, edges: Vector) {
    for d in 0..3 {
        velocity[d] += STEP * force[d];
        place[d] = (place[d] + STEP * velocity[d]).rem_euclid(edges[d]);
    }
}

/// Runs it, and compares every place with the sequential program's.
///
/// # Errors
/// When the interface cannot be there, or a particle is elsewhere.
pub fn run(platform: &BusPlatform, interface: Interface, size: Size) -> Result<Outcome, MicroError> {
    let processors = platform.nodes.get() as usize;
    let liquid = Rc::new(Liquid::new(size));
    let shared = Rc::clone(&liquid);
    // Places and forces of all, velocities of its own.
    let memory = (3 * size.particles() * VECTOR) as u32;
    let (outcome, results) =
        on_all(platform, interface, memory, move |end| Processor::new(end, &shared, processors).run())?;
    let right = liquid.sequential(processors);
    if results.iter().all(|places| *places == right) { Ok(outcome) } else { Err(MicroError::Wrong("moldyn")) }
}

/// A processor at work.
struct Processor<'e, 'a, 'l> {
    end: &'e mut Endpoint<'a>,
    liquid: &'l Liquid,
    processors: usize,
    places: Vec<Vector>,
    velocities: Vec<Vector>,
    /// What has come from the processor before this one and is not used yet.
    come: Vec<u8>,
}

impl<'e, 'a, 'l> Processor<'e, 'a, 'l> {
    fn new(end: &'e mut Endpoint<'a>, liquid: &'l Liquid, processors: usize) -> Self {
        let (places, velocities) = (liquid.places.clone(), liquid.velocities.clone());
        Processor { end, liquid, processors, places, velocities, come: Vec::new() }
    }

    /// The owner of what this processor sends in a round.
    fn share_of(&self, round: usize) -> usize {
        (self.end.cpu.node() + self.processors - round % self.processors) % self.processors
    }

    /// Returns the places of all particles.
    fn run(mut self) -> Vec<Vector> {
        let me = self.end.cpu.node();
        let own = self.liquid.own(me, self.processors);
        for _ in 0..self.liquid.size.iterations {
            let mut forces = self.forces(own.clone());
            self.reduce(&mut forces);
            for i in own.clone() {
                self.end.cpu.work(PARTICLE);
                advance(&mut self.places[i], &mut self.velocities[i], forces[i], self.liquid.edges);
            }
            self.tell_places();
        }
        self.places
    }

    /// Forces as far as this processor computes them. All places and forces are used many times; they fit in the cache together.
    fn forces(&mut self, own: std::ops::Range<usize>) -> Vec<Vector> {
        let bytes = (self.places.len() * VECTOR) as u32;
        self.end.cpu.touch_blocks(USER, bytes, false);
        self.end.cpu.touch_blocks(USER + bytes, bytes, true);
        let pairs: usize = own.clone().map(|i| self.liquid.neighbours[i].len()).sum();
        self.end.cpu.work(PAIR * pairs as Cycle);
        self.liquid.forces(own, &self.places)
    }

    /// The reduction: each share begins at its owner, gets what every other processor adds to it, and comes back.
    fn reduce(&mut self, forces: &mut [Vector]) {
        let mut sums: Vec<Vector> = forces[self.liquid.own(self.end.cpu.node(), self.processors)].to_vec();
        for round in 0..self.processors {
            self.send(&sums);
            let share = self.share_of(round + 1);
            let own = self.liquid.own(share, self.processors);
            sums = self.receive(own.len());
            let at = USER + ((self.places.len() + own.start) * VECTOR) as u32;
            self.end.cpu.touch_blocks(at, (own.len() * VECTOR) as u32, true);
            if share == self.end.cpu.node() {
                forces[own].copy_from_slice(&sums);
                return;
            }
            self.end.cpu.work(SUM * 3 * own.len() as Cycle);
            for (sum, part) in sums.iter_mut().zip(&forces[own]) {
                (0..3).for_each(|d| sum[d] += part[d]);
            }
        }
    }

    /// The new places go round.
    fn tell_places(&mut self) {
        for round in 0..self.processors - 1 {
            let sent = self.liquid.own(self.share_of(round), self.processors);
            let places = self.places[sent].to_vec();
            self.send(&places);
            let come = self.liquid.own(self.share_of(round + 1), self.processors);
            let at = USER + (come.start * VECTOR) as u32;
            self.end.cpu.touch_blocks(at, (come.len() * VECTOR) as u32, true);
            let places = self.receive(come.len());
            self.places[come].copy_from_slice(&places);
        }
    }

    fn send(&mut self, vectors: &[Vector]) {
        let bytes: Vec<u8> = vectors.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        let next = (self.end.cpu.node() + 1) % self.processors;
        self.end.send_bytes(next, 0, 0, &bytes);
    }

    /// So many vectors from the processor before this one: nobody else sends here, so they come in order.
    fn receive(&mut self, vectors: usize) -> Vec<Vector> {
        while self.come.len() < vectors * VECTOR {
            let message = self.end.wait();
            self.come.extend_from_slice(&message.payload);
        }
        let bytes: Vec<u8> = self.come.drain(..vectors * VECTOR).collect();
        let component = |x: &[u8]| f32::from_le_bytes([x[0], x[1], x[2], x[3]]);
        bytes.chunks_exact(VECTOR).map(|v| [0, 4, 8].map(|at| component(&v[at..]))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::nodes::by_every_interface;
    use super::*;
    use crate::systems::cni::message::PAYLOAD;

    /// Network messages of a run: rounds of a reduction, and of telling places, in parts.
    fn messages(size: Size, processors: usize) -> u64 {
        let bytes = size.particles() / processors * VECTOR;
        let rounds = processors * (2 * processors - 1) * size.iterations as usize;
        (rounds * bytes.div_ceil(PAYLOAD)) as u64
    }

    #[test]
    fn a_share_of_the_forces_is_as_large_as_the_papers() {
        assert_eq!(Size::PAPER.particles(), 2048);
        assert_eq!(2048 / 16 * VECTOR, 1536);
    }

    /// What one particle gains, another loses; and nobody moves farther than lists of neighbours allow.
    #[test]
    fn momentum_is_kept() {
        let liquid = Liquid::new(Size { edge: [8, 8, 8], iterations: 1 });
        let forces = liquid.forces(0..512, &liquid.places);
        let all = [0, 1, 2].map(|d| forces.iter().map(|f| f[d]).sum::<f32>());
        let largest = forces.iter().flatten().fold(0f32, |most, x| most.max(x.abs()));
        assert!(
            largest > 1.0 && all.iter().all(|x| x.abs() < 1e-4 * largest * 512.0),
            "{all:?} of {largest}"
        );
        let liquid = Liquid::new(Size { edge: [8, 8, 8], iterations: 30 });
        let moved = liquid.sequential(1);
        let far = moved.iter().zip(&liquid.places).map(|(a, b)| square(between(*a, *b, liquid.edges)));
        let farthest = far.fold(0f32, f32::max).sqrt();
        assert!(farthest > 0.0 && 2.0 * farthest < LISTED - CUTOFF, "{farthest}");
    }

    #[test]
    fn every_interface_computes_the_same() {
        let size = Size { edge: [8, 8, 4], iterations: 2 };
        for outcome in by_every_interface(|platform, interface| run(platform, interface, size)) {
            assert_eq!(outcome.messages, messages(size, 4));
        }
    }
}
