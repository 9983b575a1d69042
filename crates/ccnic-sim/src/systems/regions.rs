//! The regions of a run's programs in the machine's memory: one for each pair of cores, or one for all.

use ccnic::pool::Allocator;
use ccnic::{Config, Layout};

use crate::machine::World;
use crate::machine::agent::Sim;
use crate::machine::directory::PAGE;
use crate::observe::trace::Trace;
use crate::systems::cc_nic::RunError;

/// Where regions lie.
#[derive(Debug, Clone, Copy)]
pub struct Regions {
    /// What each looks like.
    pub layout: Layout,
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
        Ok(Regions { layout, size, count: count.into(), shared })
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u32 {
        self.size * self.count
    }

    fn bases(&self) -> impl Iterator<Item = u32> + use<> {
        let size = self.size;
        (0..self.count).map(move |region| region * size)
    }

    /// The region of a core's queue, and which of its queues it is.
    pub fn place(&self, core: u16) -> (u32, u16) {
        if self.shared { (0, core) } else { (u32::from(core) * self.size, 0) }
    }

    /// Homes what the NIC writes at the NIC (CC-NIC section 3.2).
    pub fn home(&self, world: &mut World) {
        let segment = self.layout.nic_segment();
        self.bases().for_each(|base| world.set_home(base + segment.start, segment.len() as u32, 1));
    }

    /// Traces a run in which these regions have names.
    pub fn name_in(&self, mut trace: Trace, world: &mut World) {
        for (i, base) in self.bases().enumerate() {
            let label = if self.count == 1 { String::new() } else { format!("pair {i}: ") };
            trace.name_region(&self.layout, base, &label);
        }
        world.set_trace(trace);
    }

    /// Fills the pools and writes the headers.
    pub fn lay_out(&self, sim: &Sim) {
        for base in self.bases() {
            Allocator::fill(&sim.untimed(base), &self.layout);
            self.layout.store(&sim.untimed(base));
        }
    }
}
