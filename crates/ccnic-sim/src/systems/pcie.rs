//! Packets from simulated programs through a PCIe NIC and back: the host's side of the interface is the code that runs on a
//! coherent NIC, with the doorbell ring and the host-managed pool (CC-NIC section 5.1).

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::Design;
use ccnic::ring::Doorbell;

use crate::machine::World;
use crate::machine::agent::Sim;
use crate::platform::Platform;
use crate::systems::cc_nic::{Options, Plan, Results, Run, RunError, Work, finish, host_program};
use crate::systems::regions::Regions;

/// Simulates a loopback through the platform's PCIe NIC: one device and one link, a queue pair for each host core, in a region
/// of its own or in one for all.
pub(crate) fn loopback(platform: &Platform, plan: &Plan, options: Options) -> Result<Run, RunError> {
    let (config, queues) = (plan.config, plan.config.queues);
    let cores = platform.topology.host_cores.get();
    if queues == 0 || u32::from(queues) > cores {
        return Err(RunError::Cores { asked: queues, host: cores, nic: cores });
    }
    if platform.device.is_none() || config.design != Design::Doorbell || config.shared_pool {
        return Err(RunError::Device);
    }
    let regions = Regions::new(&config, options.shared)?;
    let sides: Vec<(u8, usize)> = (0..queues).map(|_| (0, 0)).collect();
    let mut world = World::new(platform, regions.bytes(), &sides);
    world.attach(platform);
    world.attach_nic(platform, &regions.layout, (0..queues).map(|core| regions.place(core)));
    if let Some(trace) = options.trace {
        regions.name_in(trace, &mut world);
    }
    let mut sim = Sim::new(world);
    regions.lay_out(&sim);
    let results = Rc::new(RefCell::new(Results::default()));
    let work = Work::host(platform);
    for core in 0..queues {
        let (layout, (base, queue)) = (regions.layout, regions.place(core));
        let (results, load) = (Rc::clone(&results), plan.load.of_thread(core, queues));
        sim.spawn(core as u8, move |agent| {
            host_program::<Doorbell>(agent.at(base), &layout, queue, load, work, &results);
        })?;
    }
    finish(&mut sim, plan, options.events, &results)
}
