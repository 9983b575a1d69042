//! A flow through a cube (CNI section 4.2, appbt): five values in each cell, each processor has a subcube. Cells at its boundaries are
//! shared memory, kept coherent by messages: a block of 128 bytes is asked for where it is at home, and before its home changes it the
//! copy is invalidated.
//!
//! A step gives every cell new values from its six neighbours: five equations whose coefficients depend on the cell. The paper's program
//! solves them along lines through the cube; this one cell by cell, with the same blocks at the boundaries.

use std::rc::Rc;

use super::cube::{Division, Face, inside, place, processors_as_box};
use super::micro::MicroError;
use super::nodes::{Outcome, on_all};
use crate::bus::buses::Cycle;
use crate::platform::BusPlatform;
use crate::systems::cni::Interface;
use crate::systems::cni::endpoint::{Endpoint, Received};
use crate::systems::cni::layout::USER;

/// Values of a cell.
const VALUES: usize = 5;
type Cell = [f64; VALUES];
const CELL: usize = 8 * VALUES;

/// Values of a block of 128 bytes (CNI section 5.2).
const BLOCK: usize = 16;
/// Cycles of a multiplication and an addition with their loads, as in `gauss`.
const MULTIPLY_ADD: Cycle = 5;
/// Cycles of a division.
const DIVISION: Cycle = 20;
/// Multiplications and divisions of a cell: the differences to six neighbours, the matrix, its elimination and both substitutions.
const CELL_CYCLES: Cycle = MULTIPLY_ADD * (6 * 5 + 25 + 40 + 20) + DIVISION * 10;
/// Cycles of what a processor does for a block that is asked for, invalidated or confirmed: its directory entry.
const DIRECTORY: Cycle = 20;
/// A step of time.
const STEP: f64 = 0.1;

/// What is computed.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Cells along an edge of the cube.
    pub edge: usize,
    /// Steps.
    pub steps: u32,
}

impl Size {
    /// 24 x 24 x 24 cells, 4 iterations (CNI table 3).
    pub const PAPER: Size = Size { edge: 24, steps: 4 };
}

/// Blocks of a face.
fn blocks(division: Division, face: Face) -> usize {
    (division.cells(face).len() * VALUES).div_ceil(BLOCK)
}

/// Bytes of the largest face.
fn face_bytes(division: Division) -> usize {
    Face::ALL.map(|face| blocks(division, face)).into_iter().max().unwrap_or(0) * BLOCK * 8
}

/// The values at the beginning, of a cell of the cube.
fn start(at: [usize; 3]) -> Cell {
    let [x, y, z] = at.map(|i| i as f64);
    [1.0 + 0.01 * x, 0.02 * y, 0.03 * z, 0.1 * (x - y), 2.0 + 0.01 * (x * y + z)]
}

/// A cell's new values: `(I + step * A(cell)) * change = step * (sum of differences)`, solved by elimination. A neighbour outside of the
/// cube has the cell's own values.
fn new_values(cell: Cell, neighbours: [Option<Cell>; 6]) -> Cell {
    let mut change = [0.0; VALUES];
    for neighbour in neighbours.into_iter().flatten() {
        (0..VALUES).for_each(|v| change[v] += STEP * (neighbour[v] - cell[v]));
    }
    let mut matrix = [[0.0; VALUES]; VALUES];
    for (i, row) in matrix.iter_mut().enumerate() {
        for (j, element) in row.iter_mut().enumerate() {
            *element = if i == j { 1.0 + STEP } else { 0.0 } + STEP * 0.01 * cell[i] * cell[j];
        }
    }
    for pivot in 0..VALUES {
        for below in pivot + 1..VALUES {
            let factor = matrix[below][pivot] / matrix[pivot][pivot];
            (pivot..VALUES).for_each(|j| matrix[below][j] -= factor * matrix[pivot][j]);
            change[below] -= factor * change[pivot];
        }
    }
    for row in (0..VALUES).rev() {
        let known: f64 = (row + 1..VALUES).map(|j| matrix[row][j] * change[j]).sum();
        change[row] = (change[row] - known) / matrix[row][row];
    }
    [0, 1, 2, 3, 4].map(|v| cell[v] + change[v])
}

/// The cube after all steps, by one processor.
fn sequential(size: Size) -> Vec<Cell> {
    let extent = [size.edge; 3];
    let mut cells: Vec<Cell> = (0..size.edge.pow(3)).map(|i| start(place(i, extent))).collect();
    for _ in 0..size.steps {
        let new =
            |i: usize| new_values(cells[i], Face::ALL.map(|face| inside(i, face, extent).map(|j| cells[j])));
        cells = (0..cells.len()).map(new).collect();
    }
    cells
}

/// Runs it, and compares every value with the sequential program's.
///
/// # Errors
/// When the interface cannot be there, or a value is another one.
pub fn run(platform: &BusPlatform, interface: Interface, size: Size) -> Result<Outcome, MicroError> {
    let division = Division { edge: size.edge, sides: processors_as_box(platform.nodes.get() as usize) };
    let cells: usize = division.extent().iter().product();
    // Old and new cells, and the neighbours' faces.
    let memory = 2 * cells * CELL + 6 * face_bytes(division);
    let (outcome, results) =
        on_all(platform, interface, memory as u32, move |end| Processor::new(end, division).run(size.steps))?;
    let right = sequential(size);
    let same = |(processor, cells): (usize, &Vec<Cell>)| {
        cells.iter().enumerate().all(|(i, cell)| {
            let [x, y, z] = division.in_cube(processor, i);
            right[x + size.edge * (y + size.edge * z)] == *cell
        })
    };
    if results.iter().enumerate().all(same) { Ok(outcome) } else { Err(MicroError::Wrong("appbt")) }
}

// What a message is for. Its tag has the face, as its home calls it, and the block; nothing else is in a message but a block's data.
const ASK: u8 = 0;
const DATA: u8 = 1;
const INVALIDATE: u8 = 2;
const CONFIRM: u8 = 3;
const ARRIVED: u8 = 4;
const GO_ON: u8 = 5;

/// A processor at work.
struct Processor<'e, 'a> {
    end: &'e mut Endpoint<'a>,
    division: Division,
    cells: Vec<Cell>,
    /// Its faces' cells.
    faces: [Rc<Vec<usize>>; 6],
    /// The neighbours' cells beyond each face.
    beyond: [Vec<f64>; 6],
    /// By face and block: the neighbour has a copy.
    copied: [Vec<bool>; 6],
    /// Answers that have come: blocks, confirmations, arrivals at the barrier (at processor 0), barriers passed.
    come: [u32; 4],
}

/// What a processor waits for: an index of `come`.
#[derive(Debug, Clone, Copy)]
enum Awaited {
    Data,
    Confirmed,
    Arrived,
    GoOn,
}

impl<'e, 'a> Processor<'e, 'a> {
    fn new(end: &'e mut Endpoint<'a>, division: Division) -> Self {
        let (me, cells) = (end.cpu.node(), division.extent().iter().product());
        Processor {
            end,
            division,
            cells: (0..cells).map(|i| start(division.in_cube(me, i))).collect(),
            faces: Face::ALL.map(|face| Rc::new(division.cells(face))),
            beyond: Face::ALL.map(|face| vec![0.0; blocks(division, face) * BLOCK]),
            copied: Face::ALL.map(|face| vec![false; blocks(division, face)]),
            come: [0; 4],
        }
    }

    fn neighbour(&self, face: Face) -> Option<usize> {
        self.division.neighbour(self.end.cpu.node(), face)
    }

    /// Returns its cells.
    fn run(mut self, steps: u32) -> Vec<Cell> {
        for _ in 0..steps {
            self.read_beyond();
            let new = self.step();
            // Nobody changes a cell that somebody still reads.
            self.barrier();
            self.invalidate();
            self.cells = new;
            self.end.cpu.touch_blocks(USER, (self.cells.len() * CELL) as u32, true);
            self.barrier();
        }
        self.cells
    }

    /// Loads the cells beyond its faces: each block is a miss, which the processor waits for.
    fn read_beyond(&mut self) {
        for face in Face::ALL {
            let Some(home) = self.neighbour(face) else { continue };
            for block in 0..blocks(self.division, face) {
                self.end.cpu.work(DIRECTORY);
                self.end.send(home, ASK, tag(face.opposite(), block), &[]);
                self.await_one(Awaited::Data);
            }
        }
    }

    fn step(&mut self) -> Vec<Cell> {
        let extent = self.division.extent();
        let bytes = (self.cells.len() * CELL) as u32;
        self.end.cpu.touch_blocks(USER, bytes, false);
        self.end.cpu.touch_blocks(USER + bytes, bytes, true);
        let mut new = Vec::with_capacity(self.cells.len());
        for i in 0..self.cells.len() {
            let neighbours = Face::ALL.map(|face| match inside(i, face, extent) {
                Some(j) => Some(self.cells[j]),
                None => self.neighbour(face).map(|_| self.cell_beyond(face, i)),
            });
            new.push(new_values(self.cells[i], neighbours));
            self.end.cpu.work(CELL_CYCLES);
            // Between rows it looks for messages, so that neighbours that ask do not wait for all of its work.
            if (i + 1).is_multiple_of(extent[0])
                && let Some(message) = self.end.poll()
            {
                self.serve(&message);
            }
        }
        new
    }

    fn cell_beyond(&self, face: Face, i: usize) -> Cell {
        let at = self.faces[face.0].partition_point(|cell| *cell < i) * VALUES;
        let mut cell = [0.0; VALUES];
        cell.copy_from_slice(&self.beyond[face.0][at..at + VALUES]);
        cell
    }

    /// Takes the copies of its boundaries back.
    fn invalidate(&mut self) {
        for face in Face::ALL {
            let Some(reader) = self.neighbour(face) else { continue };
            for block in 0..blocks(self.division, face) {
                if std::mem::take(&mut self.copied[face.0][block]) {
                    self.end.cpu.work(DIRECTORY);
                    self.end.send(reader, INVALIDATE, tag(face, block), &[]);
                    self.await_one(Awaited::Confirmed);
                }
            }
        }
    }

    /// Everybody has arrived here.
    fn barrier(&mut self) {
        let [sx, sy, sz] = self.division.sides;
        let processors = sx * sy * sz;
        if self.end.cpu.node() == 0 {
            (1..processors).for_each(|_| self.await_one(Awaited::Arrived));
            (1..processors).for_each(|to| self.end.send(to, GO_ON, 0, &[]));
        } else {
            self.end.send(0, ARRIVED, 0, &[]);
            self.await_one(Awaited::GoOn);
        }
    }

    /// Serves others until what it waits for has come.
    fn await_one(&mut self, what: Awaited) {
        while self.come[what as usize] == 0 {
            let message = self.end.wait();
            self.serve(&message);
        }
        self.come[what as usize] -= 1;
    }

    fn serve(&mut self, message: &Received) {
        let (face, block) = (Face(message.header.tag as usize >> 16), message.header.tag as usize & 0xffff);
        self.end.cpu.work(DIRECTORY);
        match message.header.handler {
            ASK => {
                self.copied[face.0][block] = true;
                let data = self.block(face, block);
                self.end.send(message.header.from, DATA, message.header.tag, &data);
            }
            DATA => {
                let face = face.opposite();
                let beyond = 2 * self.cells.len() * CELL + face.0 * face_bytes(self.division);
                let at = USER + (beyond + block * BLOCK * 8) as u32;
                self.end.cpu.touch_blocks(at, (BLOCK * 8) as u32, true);
                let values = &mut self.beyond[face.0][block * BLOCK..(block + 1) * BLOCK];
                for (value, bytes) in values.iter_mut().zip(message.payload.chunks_exact(8)) {
                    let mut word = [0; 8];
                    word.copy_from_slice(bytes);
                    *value = f64::from_le_bytes(word);
                }
                self.come[Awaited::Data as usize] += 1;
            }
            INVALIDATE => self.end.send(message.header.from, CONFIRM, message.header.tag, &[]),
            CONFIRM => self.come[Awaited::Confirmed as usize] += 1,
            ARRIVED => self.come[Awaited::Arrived as usize] += 1,
            GO_ON => self.come[Awaited::GoOn as usize] += 1,
            _ => {}
        }
    }

    /// A block of a face's cells.
    fn block(&self, face: Face, block: usize) -> Vec<u8> {
        let cells = &self.faces[face.0];
        let value = |n: usize| cells.get(n / VALUES).map_or(0.0, |cell| self.cells[*cell][n % VALUES]);
        let first = block * BLOCK;
        for cell in cells.iter().skip(first / VALUES).take(BLOCK.div_ceil(VALUES) + 1) {
            self.end.cpu.touch_blocks(USER + (cell * CELL) as u32, CELL as u32, false);
        }
        (first..first + BLOCK).flat_map(|n| value(n).to_le_bytes()).collect()
    }
}

fn tag(face: Face, block: usize) -> u32 {
    (face.0 as u32) << 16 | block as u32
}

#[cfg(test)]
mod tests {
    use super::super::nodes::by_every_interface;
    use super::*;

    /// A new value solves its equations: no change where all neighbours are alike.
    #[test]
    fn what_is_even_stays_so() {
        let cell = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(new_values(cell, [Some(cell); 6]), cell);
        let warmer = new_values(cell, [Some(cell.map(|v| v + 1.0)), None, None, None, None, None]);
        assert!(warmer != cell && warmer.iter().zip(cell).all(|(new, old)| (new - old).abs() < 1.0));
    }

    #[test]
    fn every_interface_computes_the_same() {
        let size = Size { edge: 8, steps: 2 };
        for outcome in by_every_interface(|platform, interface| run(platform, interface, size)) {
            // Two faces of 32 cells, 10 blocks, each: a block is asked for, sent, invalidated and confirmed. And two barriers a step.
            assert_eq!(outcome.messages, 2 * (4 * 2 * 10 * 4 + 2 * 2 * 3));
        }
    }
}
