//! Round trips and bandwidth between two processes, by the size of messages (CNI section 5.1).

use std::cell::Cell;
use std::rc::Rc;

use crate::bus::buses::Cycle;
use crate::bus::{End, Sim};
use crate::platform::BusPlatform;
use crate::systems::cni::endpoint::Endpoint;
use crate::systems::cni::message::{ENTRY, Header, PAYLOAD};
use crate::systems::cni::queue::{Publish, Receiver, Sender, Shape};
use crate::systems::cni::{BuildError, Interface, build};

/// Round trips before those that are measured: more than a lap of the largest queue.
const WARM: u32 = 150;
const ROUNDS: u32 = 150;

/// Network messages before those that are measured, and those that are.
const STREAM: usize = 400;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum MicroError {
    /// The interface cannot be there.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// No program could go on.
    #[error("the programs wait for each other")]
    Stuck,
    /// A program's result is not that of the sequential one: a defect of the simulator.
    #[error("{0} computed something else than the sequential program")]
    Wrong(&'static str),
}

fn two_nodes(platform: &BusPlatform) -> BusPlatform {
    // The built-in number of nodes is not less than two, so the platform stays valid.
    platform.overridden("machine.nodes", 2.0).unwrap_or_else(|_| platform.clone())
}

fn finish(mut sim: Sim) -> Result<(), MicroError> {
    if sim.run() == End::Done { Ok(()) } else { Err(MicroError::Stuck) }
}

/// A message to the other process: as many network messages as it takes, and all of them received.
fn receive(end: &mut Endpoint<'_>, bytes: usize) {
    let mut left = bytes;
    while left > 0 {
        left -= end.wait().payload.len();
    }
}

/// Nanoseconds of a round trip of messages of so many bytes, on average.
///
/// # Errors
/// When the interface cannot be there.
pub fn round_trip_ns(platform: &BusPlatform, interface: Interface, bytes: usize) -> Result<f64, MicroError> {
    let found = Rc::new(Cell::new(0));
    let sim = build(&two_nodes(platform), interface, 0, |node| {
        let found = Rc::clone(&found);
        Box::new(move |mut end: Endpoint<'_>| {
            let message = vec![node as u8; bytes];
            let mut begun = 0;
            for round in 0..WARM + ROUNDS {
                if round == WARM {
                    begun = end.cpu.now();
                }
                if node == 0 {
                    end.send_bytes(1, 0, 0, &message);
                }
                receive(&mut end, bytes);
                if node == 1 {
                    end.send_bytes(0, 0, 0, &message);
                }
            }
            if node == 0 {
                found.set(end.cpu.now() - begun);
            }
        })
    })?;
    finish(sim)?;
    Ok(ns(platform, found.get()) / f64::from(ROUNDS))
}

/// Megabytes (10^6) per second of payload from one process to another, in messages of so many bytes.
///
/// # Errors
/// When the interface cannot be there.
pub fn bandwidth(platform: &BusPlatform, interface: Interface, bytes: usize) -> Result<f64, MicroError> {
    let parts = bytes.div_ceil(PAYLOAD);
    let messages = STREAM.div_ceil(parts);
    let found = Rc::new(Cell::new(0));
    let sim = build(&two_nodes(platform), interface, 0, |node| {
        let found = Rc::clone(&found);
        Box::new(move |mut end: Endpoint<'_>| {
            let message = vec![7; bytes];
            if node == 0 {
                (0..2 * messages).for_each(|_| end.send_bytes(1, 0, 0, &message));
                return;
            }
            (0..messages).for_each(|_| receive(&mut end, bytes));
            let begun = end.cpu.now();
            (0..messages).for_each(|_| receive(&mut end, bytes));
            found.set(end.cpu.now() - begun);
        })
    })?;
    finish(sim)?;
    Ok((messages * bytes) as f64 * 1e3 / ns(platform, found.get()))
}

/// Megabytes per second between two processors on one memory bus, by a cachable queue: the limit that CNI section 5.1.2 relates
/// bandwidths to.
///
/// # Errors
/// When there is no memory for a program's stack.
pub fn local_queue(platform: &BusPlatform) -> Result<f64, MicroError> {
    let shape = Shape { base: 0, head: 512 * 64, entries: 512 * 64 / ENTRY };
    let one = platform.overridden("machine.nodes", 1.0).unwrap_or_else(|_| platform.clone());
    let mut sim = Sim::new(&one, 2, 1 << 17, |_| None);
    let software = &platform.software;
    let (send, receive) = (Cycle::from(software.send.get()), Cycle::from(software.receive.get()));
    sim.spawn(0, 0, move |cpu| {
        let mut queue = Sender::new(shape);
        for tag in 0..2 * STREAM as u32 {
            cpu.work(send);
            while !queue.has_room(&cpu) {
                cpu.poll_words(&[shape.head]);
            }
            let header = Header { handler: 0, from: 0, to: 0, len: PAYLOAD, tag };
            queue.send(&cpu, header, &[1; PAYLOAD], Publish::Valid);
        }
    })
    .map_err(BuildError::Memory)?;
    let found = Rc::new(Cell::new(0));
    let result = Rc::clone(&found);
    sim.spawn(0, 1, move |cpu| {
        let (mut queue, mut payload, mut begun) = (Receiver::new(shape), Vec::new(), 0);
        for number in 0..2 * STREAM {
            if number == STREAM {
                begun = cpu.now();
            }
            let header = loop {
                match queue.has(&cpu, 0) {
                    Some(header) => break header,
                    None => cpu.poll_words(&[queue.valid_word(0)]),
                }
            };
            queue.take(&cpu, header, &mut payload);
            cpu.work(receive);
        }
        result.set(cpu.now() - begun);
    })
    .map_err(BuildError::Memory)?;
    finish(sim)?;
    Ok((STREAM * PAYLOAD) as f64 * 1e3 / ns(platform, found.get()))
}

/// Cycles in nanoseconds.
pub fn ns(platform: &BusPlatform, cycles: Cycle) -> f64 {
    cycles as f64 / platform.processor.frequency.get()
}
