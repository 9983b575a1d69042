//! The cost of accesses to a PCIe device: the paper's microbenchmarks (CC-NIC section 2.2, figures 2 and 3), and DMA probes.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic::memory::LINE;

use crate::devices::pcie::{Pcie, attach};
use crate::kernel::time::{Ps, ns, ps};
use crate::machine::Machine;
use crate::machine::agent::Agent;
use crate::machine::ids::DeviceId;
use crate::machine::sim::Sim;
use crate::platform::Platform;
use crate::systems::plan::RunError;

/// Runs a program alone on a host core of a machine with `bytes` bytes of memory, which are registers of the device if `mapped`, and
/// returns what it returns. `None` if the platform has no PCIe link.
fn alone<T: 'static>(
    platform: &Platform,
    bytes: u32,
    mapped: bool,
    set: impl FnOnce(&mut Machine),
    program: impl FnOnce(Agent<'_>) -> T + 'static,
) -> Result<Option<T>, RunError> {
    let mut machine = Machine::new(platform, bytes, &[(0, 0)])?;
    let Some(device) = attach(&mut machine, platform, 0)? else { return Ok(None) };
    if mapped {
        (0..bytes).step_by(LINE as usize).for_each(|at| machine.map_registers(at, device));
    }
    set(&mut machine);
    let mut sim = Sim::new(machine);
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    sim.spawn(0, move |agent| {
        let value = program(agent);
        *place.borrow_mut() = Some(value);
    })?;
    sim.run(Ps::MAX);
    Ok(result.borrow_mut().take())
}

/// Reads of the latency probes.
const READS: u32 = 101;

/// Median latency in nanoseconds of a core's read of 8 or of 64 bytes of the device (section 2.2).
///
/// # Errors
/// When there is no memory for a stack.
pub fn mmio_read(platform: &Platform, bytes: u32) -> Result<Option<f64>, RunError> {
    let software = ps(platform.instruction_ns());
    alone(
        platform,
        4096,
        true,
        |_| {},
        move |agent| {
            let mut seen: Vec<Ps> = (0..READS)
                .map(|_| {
                    let start = agent.now();
                    agent.mmio_read(0, bytes);
                    (agent.now() - start).saturating_sub(software)
                })
                .collect();
            seen.sort_unstable();
            seen.get(seen.len() / 2).copied().map_or(0.0, ns)
        },
    )
}

/// What figure 2 writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The device, through write-combining buffers.
    Device,
    /// Memory, around the caches.
    WriteCombining,
    /// Memory, as programs write it.
    WriteBack,
}

/// Bytes written in all.
const WRITTEN: u32 = 1 << 20;

/// Write throughput of one core in gigabytes per second, with an SFENCE after every `barrier` bytes (figure 2).
///
/// # Errors
/// When there is no memory for a stack.
pub fn write_throughput(platform: &Platform, target: Target, barrier: u32) -> Result<Option<f64>, RunError> {
    let barrier = barrier.clamp(LINE, WRITTEN);
    // Lines that no cache has come from memory with their data: ownership without data is for lines of the other side's caches.
    let set = |machine: &mut Machine| machine.set_dataless(false);
    alone(platform, WRITTEN, target == Target::Device, set, move |agent| {
        let start = agent.now();
        for at in (0..WRITTEN).step_by(barrier as usize) {
            let len = barrier.min(WRITTEN - at);
            match target {
                Target::Device => agent.mmio_store(at, len),
                Target::WriteCombining => agent.store_non_temporal(at, len),
                Target::WriteBack => agent.write_lines(at, len),
            }
            agent.store_fence();
        }
        agent.fence();
        f64::from(WRITTEN) / ns(agent.now() - start)
    })
}

/// Time in nanoseconds that `n` stores of 32 bits take, each to another line of the device (figure 3).
///
/// # Errors
/// When there is no memory for a stack.
pub fn store_burst(platform: &Platform, n: u32) -> Result<Option<f64>, RunError> {
    alone(
        platform,
        4096,
        true,
        |_| {},
        move |agent| {
            let start = agent.now();
            (0..n).for_each(|i| agent.mmio_store(i * LINE, 4));
            ns(agent.now() - start)
        },
    )
}

/// Where the device finds a line that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// In the last-level cache.
    Llc,
    /// In memory.
    Memory,
    /// Modified in a core's caches.
    Core,
}

/// A machine with a device and one line, the device, and the time at which nothing is under way any more.
fn at_rest(platform: &Platform, found: Found) -> Result<Option<(Sim, DeviceId, Ps)>, RunError> {
    let mut machine = Machine::new(platform, 4096, &[(0, 0)])?;
    let Some(device) = attach(&mut machine, platform, 0)? else { return Ok(None) };
    let mut sim = Sim::new(machine);
    match found {
        Found::Llc => sim.machine_mut().fill_llc(0, 0, true),
        Found::Memory => {}
        Found::Core => sim.spawn(0, |agent| agent.store_release(0, 1))?,
    }
    sim.run(Ps::MAX);
    let now = sim.machine().now();
    Ok(Some((sim, device, now)))
}

/// Latency in nanoseconds of the device's read of a line: from its request to the last byte of the completion.
///
/// # Errors
/// When there is no memory for a stack.
pub fn dma_read(platform: &Platform, found: Found) -> Result<Option<f64>, RunError> {
    let Some((mut sim, device, start)) = at_rest(platform, found)? else { return Ok(None) };
    sim.machine_mut().with_device(device, |pcie: &mut Pcie, port| pcie.probe_read(port, 0, LINE));
    sim.run(Ps::MAX);
    let machine = sim.machine();
    let read = machine.device::<Pcie>(device).and_then(|pcie| pcie.probe_reads().first());
    Ok(read.map(|(end, _)| ns(end - start)))
}

/// Latency in nanoseconds of the device's write of a line, to where `found` says that it is: until cores can see it.
///
/// # Errors
/// When there is no memory for a stack.
pub fn dma_write(platform: &Platform, found: Found) -> Result<Option<f64>, RunError> {
    let Some((mut sim, device, start)) = at_rest(platform, found)? else { return Ok(None) };
    let line = [0x5a; LINE as usize];
    sim.machine_mut().with_device(device, |pcie: &mut Pcie, port| pcie.probe_write(port, 0, &line));
    sim.run(Ps::MAX);
    let end = sim.machine().device::<Pcie>(device).map_or(start, Pcie::last_write);
    Ok(Some(ns(end - start)))
}
