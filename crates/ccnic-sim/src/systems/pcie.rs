//! A PCIe NIC, an E810 or a ConnectX-6 (CC-NIC section 5.1): one device and one link, and a queue pair for each host core. The host's
//! side of the interface is the code that runs with a coherent NIC, with the doorbell ring and a host-managed pool.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::Design;
use ccnic::ring::Doorbell;

use super::host::{self, Built, Results, Work};
use super::plan::{Options, Plan, RunError};
use super::regions::Regions;
use crate::devices::pcie::{attach, attach_nic};
use crate::machine::sim::Sim;
use crate::machine::{Machine, Seat};
use crate::platform::Platform;

/// Builds the machine with its device, and the host side.
///
/// # Errors
/// When the platform has not so many cores or no NIC, or the configuration is not the NIC's.
pub fn build(platform: &Platform, plan: &Plan, options: Options) -> Result<Built, RunError> {
    let (config, queues) = (plan.config, plan.config.queues);
    let cores = platform.topology.host_cores.get();
    if queues == 0 || u32::from(queues) > cores {
        return Err(RunError::Cores { asked: queues, host: cores, nic: cores });
    }
    if platform.device.is_none() || config.design != Design::Doorbell || config.shared_pool {
        return Err(RunError::Device);
    }
    let regions = Regions::new(&config, options.shared)?;
    let seats: Vec<Seat> = (0..queues).map(|_| (0, 0)).collect();
    let mut machine = Machine::new(platform, regions.bytes(), &seats)?;
    let Some(device) = attach(&mut machine, platform, 0)? else { return Err(RunError::Device) };
    let places = (0..queues).map(|core| regions.of_core(core));
    attach_nic(&mut machine, device, platform, &regions.layout, places);
    if let Some(trace) = options.trace {
        regions.name_in(trace, &mut machine);
    }
    let mut sim = Sim::new(machine);
    regions.lay_out(&sim);
    let results = Rc::new(RefCell::new(Results::new(queues, options.sweep)));
    let [work, _] = Work::of(platform, &config)?;
    for core in 0..queues {
        let (layout, (base, queue)) = (regions.layout, regions.of_core(core));
        let (results, load) = (Rc::clone(&results), plan.load.of_thread(core, queues));
        sim.spawn(core as u8, move |agent| {
            host::program::<Doorbell>(agent.at(base), &layout, queue, load, work, &results);
        })?;
    }
    Ok(Built { sim, results, nic_cores: 0 })
}
