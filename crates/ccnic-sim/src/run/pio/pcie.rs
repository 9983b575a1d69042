//! Calls and packets over PCIe: by loads and stores, and by DMA.

use std::cell::RefCell;
use std::rc::Rc;

use crate::eci::{Agent, LINE, Sim};
use crate::kernel::time::{Ps, ns};
use crate::platform::PioPlatform;
use crate::systems::pio::pcie::{Completion, Pcie};
use crate::systems::pio::{PioError, finish};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A request there, an answer back (PIO listing 1).
    Call,
    /// A packet comes: until the core has it in its registers.
    Receive,
    /// A packet goes: until the device has all of it.
    Transmit,
}

/// By what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Loads and stores.
    Programmed,
    /// The DMA engine.
    Dma(Completion),
}

const ROUNDS: u64 = 101;

/// Nanoseconds of each of some acts with so many bytes.
pub fn times(platform: &PioPlatform, act: Act, by: By, bytes: usize) -> Result<Vec<f64>, PioError> {
    let times = Rc::new(RefCell::new(Vec::new()));
    let mut sim = Sim::new(platform, LINE, |_| 0, None);
    let (found, platform) = (Rc::clone(&times), platform.clone());
    sim.spawn(0, move |cpu| {
        let mut pcie = Pcie::new(&platform, bytes + 64);
        for round in 0..ROUNDS {
            found.borrow_mut().push(ns(one(&cpu, &mut pcie, &platform, (act, by), bytes, round)));
        }
    })?;
    finish(sim)?;
    Ok(times.take())
}

fn one(
    cpu: &Agent<'_>,
    pcie: &mut Pcie,
    platform: &PioPlatform,
    (act, by): (Act, By),
    bytes: usize,
    round: u64,
) -> Ps {
    let mut data = vec![round as u8; bytes];
    let (begun, call) = (cpu.now(), platform.core.call.get());
    let word = platform.pcie.read_width.get() as usize;
    cpu.work(call);
    match (act, by) {
        (Act::Call, By::Programmed) => {
            pcie.write(cpu, 0, &data);
            pcie.read(cpu, 0, &mut data, word);
        }
        (Act::Call, By::Dma(completion)) => {
            pcie.dma(cpu, bytes, true, completion);
            pcie.dma(cpu, bytes, false, completion);
        }
        (Act::Transmit, By::Programmed) => {
            // The length comes last: the doorbell.
            pcie.write(cpu, 64, &data);
            return pcie.write(cpu, 0, &[0; 8]) - begun;
        }
        (Act::Transmit, By::Dma(completion)) => return pcie.dma(cpu, bytes, true, completion) - begun,
        (Act::Receive, By::Programmed) => {
            // The core polls the length; a packet arrives at any moment of a poll, which finds it if its load has not been answered yet.
            let mut length = [0; 8];
            let poll = cpu.now();
            pcie.read(cpu, 0, &mut length, word);
            let read = cpu.now() - poll;
            pcie.read(cpu, 64, &mut data, word);
            // Half of a read is the way there, so that it finds what arrives until then; on average it has begun half a read ago.
            return cpu.now() - begun - read + read / 2 + read * round / ROUNDS;
        }
        (Act::Receive, By::Dma(completion)) => {
            pcie.dma(cpu, bytes, false, completion);
        }
    }
    cpu.now() - begun
}
