//! A program on all nodes at once, and what a run of it shows.

use std::cell::RefCell;
use std::rc::Rc;

use super::micro::MicroError;
use crate::bus::End;
use crate::bus::buses::Cycle;
use crate::platform::BusPlatform;
use crate::systems::cni::endpoint::Endpoint;
use crate::systems::cni::{Interface, build};

/// What a run shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Until the last node was done.
    pub cycles: Cycle,
    /// Cycles that memory buses were occupied, all nodes together.
    pub memory_bus: Cycle,
    /// The same of I/O buses.
    pub io_bus: Cycle,
    /// Network messages.
    pub messages: u64,
    /// Messages that processors had to keep in their memory, because they could not send.
    pub kept: u64,
}

/// What the nodes of a run leave: results, the time at which the last was done, kept messages.
struct Left<R> {
    /// By node, in the order in which they were done.
    results: Vec<(usize, R)>,
    cycles: Cycle,
    kept: u64,
}

/// Runs `program(node, endpoint)` on all nodes; returns what it has measured, and what the programs have returned, in order of nodes.
///
/// # Errors
/// When the interface cannot be there, or the programs wait for each other.
pub fn on_all<R: 'static>(
    platform: &BusPlatform,
    interface: Interface,
    memory: u32,
    program: impl Fn(&mut Endpoint<'_>) -> R + 'static,
) -> Result<(Outcome, Vec<R>), MicroError> {
    let left = Rc::new(RefCell::new(Left { results: Vec::new(), cycles: 0, kept: 0 }));
    let program = Rc::new(program);
    let mut sim = build(platform, interface, memory, |node| {
        let (left, program) = (Rc::clone(&left), Rc::clone(&program));
        Box::new(move |mut end: Endpoint<'_>| {
            let result = program(&mut end);
            let mut left = left.borrow_mut();
            left.results.push((node, result));
            left.cycles = left.cycles.max(end.cpu.now());
            left.kept += end.kept_in_all;
        })
    })?;
    if sim.run() != End::Done {
        return Err(MicroError::Stuck);
    }
    let mut left = left.borrow_mut();
    let mut outcome = Outcome { cycles: left.cycles, memory_bus: 0, io_bus: 0, messages: 0, kept: left.kept };
    for node in 0..platform.nodes.get() as usize {
        let counts = sim.node(node).counts();
        outcome.memory_bus += counts.memory_bus;
        outcome.io_bus += counts.io_bus;
        outcome.messages += counts.messages;
    }
    left.results.sort_by_key(|(node, _)| *node);
    Ok((outcome, std::mem::take(&mut left.results).into_iter().map(|(_, result)| result).collect()))
}

/// Numbers that look random and are the same in every run.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// From 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 31) as f64
    }

    /// A whole number below another one.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// The 12 bytes of a message with a place and a value.
pub fn placed(place: usize, value: f64) -> [u8; 12] {
    let mut payload = [0; 12];
    payload[..4].copy_from_slice(&(place as u32).to_le_bytes());
    payload[4..].copy_from_slice(&value.to_le_bytes());
    payload
}

/// The place and the value of such a message.
pub fn place_and_value(payload: &[u8]) -> (usize, f64) {
    let (mut place, mut value) = ([0; 4], [0; 8]);
    place.copy_from_slice(&payload[..4]);
    value.copy_from_slice(&payload[4..12]);
    (u32::from_le_bytes(place) as usize, f64::from_le_bytes(value))
}

/// What a program does on four nodes, by each kind of interface on the memory bus.
#[cfg(test)]
pub fn by_every_interface(
    run: impl Fn(&BusPlatform, Interface) -> Result<Outcome, MicroError>,
) -> Vec<Outcome> {
    use crate::bus::buses::Attachment;
    use crate::systems::cni::layout::Kind;
    let platform = BusPlatform::named("cni-1996").unwrap().overridden("machine.nodes", 4.0).unwrap();
    let interface = |kind| Interface { kind, attachment: Attachment::MemoryBus, snarfing: false };
    Kind::ALL.into_iter().map(|kind| run(&platform, interface(kind)).unwrap()).collect()
}
