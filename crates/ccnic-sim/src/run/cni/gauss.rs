//! Gaussian elimination (CNI section 4.2): rows go round the nodes; the owner of a pivot row sends it to every other node, one after the
//! other, and all subtract it from the rows below that they have.

use std::collections::BTreeMap;

use super::micro::MicroError;
use super::nodes::{Outcome, on_all};
use crate::bus::buses::Cycle;
use crate::platform::BusPlatform;
use crate::systems::cni::Interface;
use crate::systems::cni::endpoint::Endpoint;
use crate::systems::cni::layout::USER;
use crate::systems::cni::message::PAYLOAD;

/// Rows and columns (CNI table 3). A row has 4 bytes per column: 2 KB.
pub const SIZE: usize = 512;
/// Cycles of an element: two loads, a multiplication, a subtraction, a store on a processor that issues two instructions at a time.
const ELEMENT: Cycle = 5;
/// Cycles of a division.
const DIVISION: Cycle = 20;

/// A row: its elements, and its right side.
type Row = Vec<f32>;

/// The matrix, and the right side as its last column. Its diagonal is the largest of each row, so that no pivots are searched.
fn matrix(size: usize) -> Vec<Row> {
    let mut seed = 1u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 24) as f32
    };
    let mut rows: Vec<Row> = (0..size).map(|_| (0..=size).map(|_| next()).collect()).collect();
    rows.iter_mut().enumerate().for_each(|(i, row)| row[i] += size as f32);
    rows
}

/// Subtracts a pivot row from another one, so that its column `pivot` becomes 0.
fn eliminate(row: &mut Row, from: &[f32], pivot: usize) {
    let factor = row[pivot] / from[pivot];
    row[pivot..].iter_mut().zip(&from[pivot..]).for_each(|(x, p)| *x -= factor * p);
}

/// The same by one processor without time.
fn sequential(size: usize) -> Vec<Row> {
    let mut rows = matrix(size);
    for pivot in 0..size {
        let (above, below) = rows.split_at_mut(pivot + 1);
        below.iter_mut().for_each(|row| eliminate(row, &above[pivot], pivot));
    }
    rows
}

/// Runs it, and compares every element with the sequential program's.
///
/// # Errors
/// When the interface cannot be there, or an element is another one.
pub fn run(platform: &BusPlatform, interface: Interface, size: usize) -> Result<Outcome, MicroError> {
    let nodes = platform.nodes.get() as usize;
    let memory = (size.div_ceil(nodes) + 1) * bytes(size);
    let (outcome, results) = on_all(platform, interface, memory as u32, move |end| node(end, nodes, size))?;
    let right = sequential(size);
    let same = |(i, row): (usize, &Row)| results[i % nodes][i / nodes] == *row;
    if right.iter().enumerate().all(same) { Ok(outcome) } else { Err(MicroError::Wrong("gauss")) }
}

/// Bytes of a row in a node's memory, in whole blocks.
fn bytes(size: usize) -> usize {
    (4 * (size + 1)).next_multiple_of(64)
}

/// A node's part: returns its rows.
fn node(end: &mut Endpoint<'_>, nodes: usize, size: usize) -> Vec<Row> {
    let me = end.cpu.node();
    let mut rows: Vec<Row> = matrix(size).into_iter().skip(me).step_by(nodes).collect();
    let mut coming = BTreeMap::new();
    for pivot in 0..size {
        let row = if pivot % nodes == me {
            let row = rows[pivot / nodes].clone();
            send(end, nodes, pivot, &row);
            row
        } else {
            receive(end, pivot, size, &mut coming)
        };
        // Rows below the pivot; the blocks of a row that it changes are loaded and stored to.
        let first = (pivot + nodes - me) / nodes;
        let (from, len) = (4 * pivot, 4 * (size + 1 - pivot));
        for (i, own) in rows.iter_mut().enumerate().skip(first) {
            eliminate(own, &row, pivot);
            end.cpu.touch_blocks(place(0, size) + from as u32, len as u32, false);
            end.cpu.touch_blocks(place(i + 1, size) + from as u32, len as u32, true);
            end.cpu.work(DIVISION + ELEMENT * (size + 1 - pivot) as Cycle);
        }
    }
    rows
}

/// Where a row lies: the pivot row first.
fn place(i: usize, size: usize) -> u32 {
    USER + (i * bytes(size)) as u32
}

/// Sends a row to every other node, the next one first. A message's tag has the pivot and the part.
fn send(end: &mut Endpoint<'_>, nodes: usize, pivot: usize, row: &[f32]) {
    let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
    let me = end.cpu.node();
    for to in (1..nodes).map(|i| (me + i) % nodes) {
        for (part, bytes) in bytes.chunks(PAYLOAD).enumerate() {
            end.send(to, 0, (pivot * 16 + part) as u32, bytes);
        }
    }
}

/// Rows that have come in part: bytes, and how many of them are there.
type Coming = BTreeMap<usize, (Vec<u8>, usize)>;

/// Waits for a row. Others may come before it, since they have other senders.
fn receive(end: &mut Endpoint<'_>, pivot: usize, size: usize, coming: &mut Coming) -> Row {
    let whole = 4 * (size + 1);
    while coming.get(&pivot).is_none_or(|(_, there)| *there < whole) {
        let message = end.wait();
        let (of, part) = (message.header.tag as usize / 16, message.header.tag as usize % 16);
        let (bytes, there) = coming.entry(of).or_insert_with(|| (vec![0; whole], 0));
        let at = part * PAYLOAD;
        bytes[at..at + message.payload.len()].copy_from_slice(&message.payload);
        *there += message.payload.len();
    }
    let (bytes, _) = coming.remove(&pivot).unwrap_or_default();
    end.cpu.touch_blocks(place(0, size), whole as u32, true);
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

#[cfg(test)]
mod tests {
    use super::super::nodes::by_every_interface;
    use super::*;

    /// The solution of what is left fulfils the equations.
    #[test]
    fn the_sequential_program_solves_the_equations() {
        const SIZE: usize = 64;
        let (rows, mut x) = (sequential(SIZE), vec![0f32; SIZE]);
        for i in (0..SIZE).rev() {
            let known: f32 = (i + 1..SIZE).map(|j| rows[i][j] * x[j]).sum();
            x[i] = (rows[i][SIZE] - known) / rows[i][i];
        }
        for row in matrix(SIZE) {
            let left: f32 = (0..SIZE).map(|j| row[j] * x[j]).sum();
            assert!((left - row[SIZE]).abs() < 1e-4, "{left} {}", row[SIZE]);
        }
    }

    #[test]
    fn every_interface_computes_the_same() {
        for outcome in by_every_interface(|platform, interface| run(platform, interface, 48)) {
            assert_eq!(outcome.messages, 48 * 3);
        }
    }
}
