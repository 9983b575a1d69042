//! CC-NIC (ASPLOS '24): the NIC is software on cores, host and NIC exchange packets through coherent memory. Each pair of a host core
//! and a NIC core has a queue pair. The interface, the NIC's loopback and the load generator are those of the real machine.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::desc::DESC;
use ccnic::memory::LINE;
use ccnic::nic::{Fetched, NicQueue, Pipeline, loopback};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Design, Layout, SharedMemory};

use super::host::{self, Built, Results, Work};
use super::plan::{Options, Plan, RunError};
use super::regions::Regions;
use crate::machine::agent::Agent;
use crate::machine::sim::Sim;
use crate::machine::{Machine, Seat};
use crate::platform::Platform;

/// Builds the machine, the host side and the NIC side for the plan's ring design.
///
/// # Errors
/// When the platform has not so many cores, or the configuration is invalid.
pub fn build(platform: &Platform, plan: &Plan, options: Options) -> Result<Built, RunError> {
    plan.config.design.dispatch(BuildRing { platform, plan, options })
}

/// [`build_ring`] for the ring type of the plan's design.
struct BuildRing<'a> {
    platform: &'a Platform,
    plan: &'a Plan,
    options: Options,
}

impl RingVisitor for BuildRing<'_> {
    type Output = Result<Built, RunError>;

    fn visit<R: Ring>(self) -> Self::Output {
        build_ring::<R>(self.platform, self.plan, self.options)
    }
}

fn build_ring<R: Ring>(platform: &Platform, plan: &Plan, options: Options) -> Result<Built, RunError> {
    let queues = plan.config.queues;
    let (host, nic) = (platform.topology.host_cores.get(), platform.topology.nic_cores.get());
    if queues == 0 || u32::from(queues) > host.min(nic) {
        return Err(RunError::Cores { asked: queues, host, nic });
    }
    let regions = Regions::new(&plan.config, options.shared)?;
    let seats: Vec<Seat> =
        (0..2).flat_map(|side| std::iter::repeat_n((side as u8, side), usize::from(queues))).collect();
    let mut machine = Machine::new(platform, regions.bytes(), &seats)?;
    regions.home(&mut machine);
    if let Some(trace) = options.trace {
        regions.name_in(trace, &mut machine);
    }
    let mut sim = Sim::new(machine);
    regions.lay_out(&sim);
    let results = Rc::new(RefCell::new(Results::new(queues, options.sweep)));
    let [work, nic_work] = Work::of(platform, &plan.config)?;
    for core in 0..queues {
        let (layout, (base, queue)) = (regions.layout, regions.of_core(core));
        let (results, load) = (Rc::clone(&results), plan.load.of_thread(core, queues));
        sim.spawn(core as u8, move |agent| {
            host::program::<R>(agent.at(base), &layout, queue, load, work, &results);
        })?;
        sim.spawn((queues + core) as u8, move |agent| {
            nic_program::<R>(agent.at(base), &layout, queue, nic_work);
        })?;
    }
    Ok(Built { sim, results, nic_cores: queues })
}

/// Descriptors that the NIC of the E810's interface writes back, and reports in its registers, together: a line of them, which is what
/// CC-NIC section 5.6 counts requests by. The device does the same (`device.rx_writeback` of the platform icx-e810; a test compares).
const WRITE_BACK: usize = (LINE / DESC) as usize;

/// A poll of the E810's interface: sends a burst back in parts, each with its registers.
fn write_back_in_parts<'a, R: Ring>(
    nic: &mut NicQueue<Agent<'a>, R>,
    fetched: &mut Fetched,
    agent: &Agent<'a>,
) -> usize {
    let mut sent = 0;
    if fetched.is_empty() {
        nic.fetch(fetched);
    }
    while !fetched.is_empty() {
        let rest = fetched.rest();
        let whole = |n: &usize| rest.get(n - 1).is_some_and(|desc| !desc.more());
        let end = (WRITE_BACK.min(rest.len())..rest.len()).find(whole).unwrap_or(rest.len());
        let n = nic.send_back(agent, rest.get(..end).unwrap_or_default(), &[]);
        fetched.advance(n);
        nic.flush();
        if n == 0 {
            break;
        }
        sent += n;
    }
    sent
}

/// The NIC side: sends received packets back, until the simulation ends.
fn nic_program<R: Ring>(agent: Agent<'_>, layout: &Layout, queue: u16, work: Work) {
    let Ok(mut nic) = NicQueue::<_, R>::new(agent, layout, queue) else { return };
    let (mut pipeline, mut fetched) = (Pipeline::default(), Fetched::default());
    let Some(rings) = layout.queue(queue) else { return };
    work.begin(&agent, layout, rings.tx, rings.rx);
    loop {
        let n = match R::DESIGN {
            Design::Doorbell => write_back_in_parts(&mut nic, &mut fetched, &agent),
            _ => loopback(&mut nic, &mut pipeline, &agent, false),
        };
        if n == 0 {
            agent.relax();
        } else {
            work.spend(&agent, n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_descriptors_is_written_back_as_by_the_device() {
        let device = Platform::named("icx-e810").ok().and_then(|p| p.device).map(|d| d.rx_writeback.get());
        assert_eq!(device, Some(WRITE_BACK as u32));
    }
}
