//! What coherent programmed I/O is compared with: programmed I/O over PCIe, and a DMA engine with its driver (PIO sections 3.1 and 5.2).
//!
//! Nothing here shares a cache with anything, so that times are sums: of instructions, of reads that wait for each other, of writes that
//! follow each other on the wire.

use crate::eci::Agent;
use crate::kernel::time::{Ps, ps};
use crate::platform::PioPlatform;

/// The device's memory behind PCIe, and the way there.
#[derive(Debug)]
pub struct Pcie {
    platform: PioPlatform,
    /// The device's memory.
    pub bar: Vec<u8>,
    /// The wire to the device is free again.
    free: Ps,
}

/// Of which the device maps memory for DMA.
const PAGE: usize = 4096;

/// Where a driver learns that a transfer is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Completion {
    /// It polls a word that the engine writes.
    Polled,
    /// By an interrupt.
    Interrupt,
}

impl Pcie {
    /// A device with so much memory.
    pub fn new(platform: &PioPlatform, bytes: usize) -> Pcie {
        Pcie { platform: platform.clone(), bar: vec![0; bytes], free: 0 }
    }

    fn wire(&self, bytes: usize) -> Ps {
        let pcie = &self.platform.pcie;
        ps((bytes as f64 + f64::from(pcie.header.get())) / pcie.gbytes_per_s.get())
    }

    /// The core writes bytes to the device, combined; returns when the last of them is there.
    pub fn write(&mut self, cpu: &Agent<'_>, at: usize, from: &[u8]) -> Ps {
        let gap = ps(self.platform.pcie.write_gap.get());
        for part in from.chunks(self.platform.pcie.write_width.get() as usize) {
            cpu.copied(part.len());
            cpu.spend(gap);
            self.free = self.free.max(cpu.now()) + self.wire(part.len());
        }
        self.bar[at..at + from.len()].copy_from_slice(from);
        self.free.max(cpu.now()) + ps(self.platform.pcie.write.get())
    }

    /// The core reads bytes of the device, at most `width` with each load: each waits for the one before, and for earlier writes.
    pub fn read(&mut self, cpu: &Agent<'_>, at: usize, to: &mut [u8], width: usize) {
        cpu.spend(self.free.saturating_sub(cpu.now()));
        for part in to.chunks(width.min(self.platform.pcie.read_width.get() as usize)) {
            cpu.spend(ps(self.platform.pcie.read.get()));
            cpu.copied(part.len());
        }
        to.copy_from_slice(&self.bar[at..at + to.len()]);
    }

    /// The engine moves bytes between memory and the device; the core is back from its driver after that. `to_device`: the engine has to
    /// read them first. Returns when the data are there.
    pub fn dma(&mut self, cpu: &Agent<'_>, bytes: usize, to_device: bool, completion: Completion) -> Ps {
        let dma = &self.platform.dma;
        let pages = bytes.div_ceil(PAGE).max(1);
        cpu.spend(ps(dma.setup.get() + dma.page.get() * pages as f64 + self.platform.pcie.write.get()));
        let fetch = if to_device { self.platform.pcie.read.get() } else { self.platform.pcie.write.get() };
        cpu.spend(ps(dma.descriptor.get() + fetch) + self.wire(bytes));
        let there = cpu.now();
        let interrupt = if completion == Completion::Interrupt { dma.interrupt.get() } else { 0.0 };
        cpu.spend(ps(dma.complete.get() + interrupt));
        there
    }
}
