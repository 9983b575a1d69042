//! Packets from simulated programs through a PCIe NIC and back: the host's side of the interface is the code that runs on a
//! coherent NIC, with the doorbell ring and the host-managed pool (CC-NIC section 5.1).

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::pool::Pool;
use ccnic::ring::Doorbell;
use ccnic::{Config, Design, Layout};

use crate::agent::Sim;
use crate::lines::PAGE;
use crate::loopback::{Options, Plan, Results, Run, RunError, finish, host_program, trace_regions};
use crate::platform::Platform;
use crate::world::World;

/// Simulates a loopback through the platform's PCIe NIC: one device and one link, a queue pair for each host core, in a region
/// of its own or in one for all.
pub(crate) fn loopback(platform: &Platform, plan: &Plan, options: Options) -> Result<Run, RunError> {
    let shared = options.shared;
    let (config, queues) = (plan.config, plan.config.queues);
    let cores = platform.topology.host_cores.get();
    if queues == 0 || u32::from(queues) > cores {
        return Err(RunError::Cores { asked: queues, host: cores, nic: cores });
    }
    if platform.device.is_none() || config.design != Design::Doorbell || config.shared_pool {
        return Err(RunError::Device);
    }
    let (sharing, regions) = if shared { (queues, 1) } else { (1, queues) };
    let layout = Layout::new(&Config { queues: sharing, ..config })?;
    let size = layout.size().next_multiple_of(PAGE);
    let bytes = size.checked_mul(regions.into()).ok_or(RunError::Memory { regions, size })?;
    let places = move |core: u16| if shared { (0, core) } else { (u32::from(core) * size, 0) };
    let sides: Vec<(u8, usize)> = (0..queues).map(|_| (0, 0)).collect();
    let mut world = World::new(platform, bytes, &sides);
    world.attach(platform);
    world.attach_nic(platform, &layout, (0..queues).map(places));
    if let Some(trace) = options.trace {
        trace_regions(&mut world, trace, &layout, size, regions);
    }
    let mut sim = Sim::new(world);
    for region in 0..u32::from(regions) {
        Pool::fill(&sim.untimed(region * size), &layout);
        layout.store(&sim.untimed(region * size));
    }
    let results = Rc::new(RefCell::new(Results::default()));
    let packet = platform.software.packet.get();
    for core in 0..queues {
        let (results, load, (base, queue)) = (Rc::clone(&results), plan.load, places(core));
        sim.spawn(core as u8, move |agent| {
            host_program::<Doorbell>(agent.at(base), &layout, queue, load, packet, &results);
        })?;
    }
    finish(&mut sim, plan, &results)
}
