//! Timing, order and limits of a device's link, seen from inside.

mod dma;
mod mmio;
mod nic;

use std::ops::{Deref, DerefMut};

use super::costs::Costs;
use super::{Pcie, Port, Purpose, attach};
use crate::kernel::time::Ps;
use crate::machine::sim::Sim;
use crate::machine::{Machine, Seat};
use crate::observe::counters::{NicCounts, PcieTraffic};
use crate::platform::Platform;

fn platform() -> Platform {
    Platform::named("icx-e810").unwrap()
}

fn costs() -> Costs {
    Costs::of(&platform()).unwrap()
}

/// A simulation with a device, which is the first one.
struct Rig(Sim);

impl Rig {
    /// Cores and a device, and so many bytes of memory.
    fn new(platform: &Platform, bytes: u32, seats: &[Seat]) -> Rig {
        let mut machine = Machine::new(platform, bytes, seats).unwrap();
        assert_eq!(attach(&mut machine, platform, 0).unwrap(), Some(0));
        Rig(Sim::new(machine))
    }

    fn device<R>(&self, f: impl FnOnce(&mut Pcie, &mut Port<'_>) -> R) -> R {
        let untouched = "the first device is the PCIe device";
        self.0.machine_cell().borrow_mut().with_device(0, f).expect(untouched)
    }

    fn dma_write(&self, at: u32, data: &[u8], scale: u32) {
        self.device(|pcie, port| pcie.dma_write(port, at, data, scale));
    }

    fn dma_read(&self, at: u32, len: u32) {
        self.device(|pcie, port| pcie.dma_read(port, at, len, 1, Purpose::Probe));
    }

    /// Runs to the end; returns the reads since the last time.
    fn finish(&mut self) -> Vec<(Ps, Vec<u8>)> {
        self.run(Ps::MAX);
        self.machine().audit().unwrap();
        assert_eq!(self.device(|pcie, _| pcie.root.waiting()), 0);
        self.device(|pcie, _| std::mem::take(&mut pcie.reads))
    }

    fn traffic(&self) -> PcieTraffic {
        self.device(|pcie, _| pcie.traffic())
    }

    fn nic_counts(&self) -> NicCounts {
        self.device(|pcie, _| pcie.nic_counts())
    }
}

impl Deref for Rig {
    type Target = Sim;

    fn deref(&self) -> &Sim {
        &self.0
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut Sim {
        &mut self.0
    }
}
