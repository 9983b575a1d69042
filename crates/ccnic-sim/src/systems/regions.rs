//! The interface's regions in a machine's memory: one for each queue pair, or one for all.

use ccnic::host;
use ccnic::{Config, Layout};

use super::plan::RunError;
use crate::machine::Machine;
use crate::machine::directory::PAGE;
use crate::machine::ids::SocketId;
use crate::machine::sim::Sim;
use crate::observe::trace::Trace;

/// The regions of a run.
#[derive(Debug, Clone, Copy)]
pub struct Regions {
    /// The layout of each.
    pub layout: Layout,
    /// Where the first begins.
    start: u32,
    size: u32,
    count: u32,
    shared: bool,
}

impl Regions {
    /// A region for each queue of `config`, or one with all.
    pub fn new(config: &Config, shared: bool) -> Result<Regions, RunError> {
        let (queues, count) = if shared { (config.queues, 1) } else { (1, config.queues) };
        let layout = Layout::new(&Config { queues, ..*config })?;
        let size = layout.size().next_multiple_of(PAGE);
        if size.checked_mul(count.into()).is_none() {
            return Err(RunError::Memory { regions: count, size });
        }
        Ok(Regions { layout, start: 0, size, count: count.into(), shared })
    }

    /// The same behind other memory.
    #[must_use]
    pub fn behind(self, start: u32) -> Regions {
        Regions { start, ..self }
    }

    /// Homes all of them in a socket.
    pub fn home_in(&self, machine: &mut Machine, socket: SocketId) {
        machine.set_home(self.start, self.bytes(), socket);
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u32 {
        self.size * self.count
    }

    fn bases(&self) -> impl Iterator<Item = u32> + use<> {
        let (start, size) = (self.start, self.size);
        (0..self.count).map(move |region| start + region * size)
    }

    /// Where the region of a core's queue begins, and the queue's number in it.
    pub fn of_core(&self, core: u16) -> (u32, u16) {
        if self.shared { (self.start, core) } else { (self.start + u32::from(core) * self.size, 0) }
    }

    /// Homes what the NIC writes in the NIC's socket (CC-NIC section 3.2).
    pub fn home(&self, machine: &mut Machine) {
        let segment = self.layout.nic_segment();
        self.bases().for_each(|base| machine.set_home(base + segment.start, segment.len() as u32, 1));
    }

    /// Traces a machine; the regions have names in the trace.
    pub fn name_in(&self, mut trace: Trace, machine: &mut Machine) {
        for (i, base) in self.bases().enumerate() {
            let label = if self.count == 1 { String::new() } else { format!("pair {i}: ") };
            trace.name_region(&self.layout, base, &label);
        }
        machine.set_trace(trace);
    }

    /// Fills the pools and writes the headers.
    pub fn lay_out(&self, sim: &Sim) {
        for base in self.bases() {
            host::format(&sim.untimed(base), &self.layout);
        }
    }
}
