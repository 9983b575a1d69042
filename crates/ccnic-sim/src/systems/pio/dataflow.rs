//! Batches through a graph of operators (PIO section 5.4): filters over records of 8 bytes, all on the processor, or all on the device, with
//! the batch and what is told of its progress carried there and back. A filter leaves a zero where it drops a record.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::PioError;
use super::call::{self, Caller, MESSAGE, Protocol};
use super::pcie::{Completion, Pcie};
use crate::eci::{Agent, Sim};
use crate::kernel::time::{Ps, ns, ps};
use crate::platform::PioPlatform;

/// How a batch gets to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Not at all.
    Cpu,
    /// Line by line, by calls.
    Eci(Lines),
    /// Loads and stores of so many bytes.
    Pcie(usize),
    /// The DMA engine, with interrupts.
    Dma,
}

/// How a batch lies in the lines of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lines {
    /// Bytes of it in a line.
    pub data: usize,
    /// All of it goes there before results come back: a call is for one direction.
    pub one_way: bool,
}

impl Lines {
    /// Requests and answers as in figure 6: each line full, and each call for both directions.
    pub const FULL: Lines = Lines { data: MESSAGE, one_way: false };
}

/// Batches before those that are measured, and those that are.
const WARM: u32 = 2;
const BATCHES: u32 = 9;

/// Operators of the graph (PIO section 5.4).
const OPERATORS: u64 = 31;

/// What the operators leave of a record: each drops one remainder.
fn filtered(record: u64) -> u64 {
    let dropped = (0..OPERATORS).any(|n| record % (2 * n + 41) == n);
    if dropped { 0 } else { record }
}

fn filter(bytes: &mut [u8]) {
    for record in bytes.chunks_exact_mut(8) {
        let value = u64::from_le_bytes((&*record).try_into().unwrap_or_default());
        record.copy_from_slice(&filtered(value).to_le_bytes());
    }
}

fn batch(bytes: usize, number: u32) -> Vec<u8> {
    let mut x = u64::from(number) + 1;
    let record = |_| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((x >> 20) | 1).to_le_bytes()
    };
    (0..bytes / 8).flat_map(record).collect()
}

/// Microseconds of a batch of so many bytes, the median of some.
///
/// # Errors
/// When the platform lacks what it takes, or the results are wrong.
pub fn batch_us(platform: &PioPlatform, carrier: Carrier, bytes: usize) -> Result<f64, PioError> {
    let flow = super::part(platform, "dataflow", &platform.dataflow)?.clone();
    let on_device = flow.fpga.get();
    let times = Rc::new(RefCell::new(Vec::new()));
    // The device filters what lines bring; progress lines go back as they are, and so do lines that only fetch results.
    let compute = Rc::new(Cell::new(true));
    let filters = Rc::clone(&compute);
    let function = move |line: &mut [u8]| -> Ps {
        if !filters.get() {
            return 0;
        }
        filter(line);
        ps(on_device * line.len() as f64)
    };
    let wrong = Rc::new(Cell::new(false));
    let mut sim = match carrier {
        Carrier::Eci(lines) => {
            let device = move |line: &mut [u8]| function(&mut line[..lines.data]);
            call::build(platform, Protocol::PAPER, Box::new(device), 0, &Rc::default())?
        }
        _ => Sim::new(platform, crate::eci::LINE, |_| 0, None),
    };
    let (found, failed, platform) = (Rc::clone(&times), Rc::clone(&wrong), platform.clone());
    sim.spawn(0, move |cpu| {
        let mut way = Way::new(&platform, cpu, carrier, bytes, compute);
        for number in 0..WARM + BATCHES {
            let mut data = batch(bytes, number);
            let mut expected = data.clone();
            filter(&mut expected);
            let begun = cpu.now();
            cpu.spend(ps(flow.scheduler.get() * 1e3));
            way.run(&mut data, (flow.cpu.get(), on_device));
            way.tell(flow.progress.get() as usize);
            if number >= WARM {
                found.borrow_mut().push(ns(cpu.now() - begun) / 1e3);
            }
            failed.set(failed.get() || data != expected);
        }
    })?;
    super::finish(sim)?;
    if wrong.get() {
        return Err(PioError::Wrong("the dataflow"));
    }
    let mut times = times.take();
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// How a batch is processed, from the CPU's side.
struct Way<'a> {
    cpu: Agent<'a>,
    carrier: Carrier,
    caller: Caller<'a>,
    pcie: Pcie,
    /// The device filters what comes.
    compute: Rc<Cell<bool>>,
}

impl<'a> Way<'a> {
    fn new(
        platform: &PioPlatform,
        cpu: Agent<'a>,
        carrier: Carrier,
        bytes: usize,
        compute: Rc<Cell<bool>>,
    ) -> Way<'a> {
        let pcie = Pcie::new(platform, bytes.max(1 << 16));
        Way { cpu, carrier, caller: Caller::new(cpu, platform.core.call.get()), pcie, compute }
    }

    /// A batch; `costs` are nanoseconds for a byte on the CPU and on the device.
    fn run(&mut self, data: &mut [u8], costs: (f64, f64)) {
        let len = data.len();
        let device = |cpu: &Agent<'_>| cpu.spend(ps(costs.1 * len as f64));
        match self.carrier {
            Carrier::Cpu => {
                filter(data);
                self.cpu.spend(ps(costs.0 * len as f64));
            }
            Carrier::Eci(lines) => {
                self.calls(data, lines.data, true);
                if lines.one_way {
                    let mut results = data.to_vec();
                    self.calls(&mut results, lines.data, false);
                }
            }
            Carrier::Pcie(width) => {
                self.pcie.write(&self.cpu, 0, data);
                device(&self.cpu);
                filter(&mut self.pcie.bar[..len]);
                self.pcie.read(&self.cpu, 0, data, width);
            }
            Carrier::Dma => {
                self.pcie.dma(&self.cpu, len, true, Completion::Interrupt);
                device(&self.cpu);
                filter(data);
                self.pcie.dma(&self.cpu, len, false, Completion::Interrupt);
            }
        }
    }

    fn calls(&mut self, data: &mut [u8], each: usize, compute: bool) {
        self.compute.set(compute);
        for part in data.chunks_mut(each) {
            let mut answer = vec![0; part.len()];
            self.caller.call(part, &mut answer);
            part.copy_from_slice(&answer);
        }
    }

    /// What is told of the batch's progress, there and back.
    fn tell(&mut self, bytes: usize) {
        let mut data = vec![1; bytes];
        match self.carrier {
            Carrier::Cpu => {}
            Carrier::Eci(lines) => {
                self.calls(&mut data, lines.data, false);
                if lines.one_way {
                    self.calls(&mut data, lines.data, false);
                }
            }
            Carrier::Pcie(width) => {
                self.pcie.write(&self.cpu, 0, &data);
                self.pcie.read(&self.cpu, 0, &mut data, width);
            }
            Carrier::Dma => {
                self.pcie.dma(&self.cpu, bytes, true, Completion::Interrupt);
                self.pcie.dma(&self.cpu, bytes, false, Completion::Interrupt);
            }
        }
    }
}

/// Offset (microseconds), slope (nanoseconds per byte) and coefficient of determination of a line through points (bytes, microseconds).
pub fn fit(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let n = points.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>();
    let xx = sum(&|p| (p.0 - x) * (p.0 - x));
    let xy = sum(&|p| (p.0 - x) * (p.1 - y));
    let yy = sum(&|p| (p.1 - y) * (p.1 - y));
    let slope = xy / xx;
    (y - slope * x, slope * 1e3, xy * xy / (xx * yy))
}
