//! Calls between two processors that poll each other's lines: FastForward's rings of lines (PIO sections 4.1 and 5.1). A message is a
//! line, written in one go, with a word that says its number. Nobody writes a slot back: the next lap's message overwrites it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ccnic::SharedMemory;

use super::PioError;
use crate::eci::{Agent, LINE, Sim};
use crate::kernel::time::ns;
use crate::platform::PioPlatform;

/// Slots of a ring.
const SLOTS: u32 = 16;
/// Bytes of a message: a line without its number.
const PAYLOAD: usize = LINE as usize - 8;

fn slot(ring: u32, number: u64) -> u32 {
    (ring * SLOTS + (number % u64::from(SLOTS)) as u32) * LINE
}

fn send(cpu: &Agent<'_>, ring: u32, number: u64, payload: &[u8; PAYLOAD]) {
    let mut line = [0; LINE as usize];
    line[..8].copy_from_slice(&(number + 1).to_le_bytes());
    line[8..].copy_from_slice(payload);
    cpu.write(slot(ring, number), &line);
}

fn receive(cpu: &Agent<'_>, ring: u32, number: u64) -> [u8; PAYLOAD] {
    let at = slot(ring, number);
    while cpu.load(at) != number + 1 {
        cpu.relax();
    }
    let mut payload = [0; PAYLOAD];
    cpu.read(at + 8, &mut payload);
    payload
}

/// Nanoseconds of each of so many calls, the first laps left out.
///
/// # Errors
/// When the platform has no second processor.
pub fn times(platform: &PioPlatform, calls: u32) -> Result<Vec<f64>, PioError> {
    super::part(platform, "socket", &platform.socket)?;
    let (times, wrong) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(false)));
    // Each ring's memory is with its receiver.
    let mut sim = Sim::new(platform, 2 * SLOTS * LINE, |line| usize::from(line < SLOTS), None);
    let (found, failed, call) = (Rc::clone(&times), Rc::clone(&wrong), platform.core.call.get());
    let all = u64::from(calls + 2 * SLOTS);
    sim.spawn(0, move |cpu| {
        for number in 0..all {
            let begun = cpu.now();
            cpu.work(call);
            send(&cpu, 0, number, &[number as u8; PAYLOAD]);
            let answer = receive(&cpu, 1, number);
            if number >= u64::from(2 * SLOTS) {
                found.borrow_mut().push(ns(cpu.now() - begun));
            }
            failed.set(failed.get() || answer != [!(number as u8); PAYLOAD]);
        }
    })?;
    sim.spawn(1, move |cpu| {
        for number in 0..all {
            let request = receive(&cpu, 0, number);
            cpu.work(call);
            send(&cpu, 1, number, &request.map(|byte| !byte));
        }
    })?;
    super::finish(sim)?;
    if wrong.get() { Err(PioError::Wrong("FastForward")) } else { Ok(times.take()) }
}
