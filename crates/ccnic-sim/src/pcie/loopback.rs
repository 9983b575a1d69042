//! Packets from simulated programs through a PCIe NIC and back: the host's side of the interface is the code that runs on a
//! coherent NIC, with the doorbell ring and the host-managed pool (CC-NIC section 5.1).

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::pool::Pool;
use ccnic::ring::Doorbell;
use ccnic::{Design, Layout};

use crate::agent::Sim;
use crate::loopback::{Plan, Results, Run, RunError, finish, host_program};
use crate::platform::Platform;
use crate::world::World;

/// Simulates a loopback through the platform's PCIe NIC: one device and one link, a queue pair for each host core.
///
/// # Errors
/// When the platform has no such NIC or not so many cores, the configuration is not one that it understands, or nothing comes
/// back.
pub fn run(platform: &Platform, plan: &Plan) -> Result<Run, RunError> {
    let config = plan.config;
    let cores = platform.topology.host_cores.get();
    if config.queues == 0 || u32::from(config.queues) > cores {
        return Err(RunError::Cores { asked: config.queues, host: cores, nic: cores });
    }
    if platform.device.is_none() || config.design != Design::Doorbell || config.shared_pool {
        return Err(RunError::Device);
    }
    let layout = Layout::new(&config)?;
    let sides: Vec<(u8, usize)> = (0..config.queues).map(|_| (0, 0)).collect();
    let mut world = World::new(platform, layout.size(), &sides);
    world.attach(platform);
    world.attach_nic(platform, &layout);
    let mut sim = Sim::new(world);
    Pool::fill(&sim.untimed(), &layout);
    layout.store(&sim.untimed());
    let results = Rc::new(RefCell::new(Results::default()));
    let packet = platform.software.packet.get();
    for queue in 0..config.queues {
        let (results, load) = (Rc::clone(&results), plan.load);
        sim.spawn(queue as u8, move |agent| {
            host_program::<Doorbell>(agent, &layout, queue, load, packet, &results);
        })?;
    }
    finish(&mut sim, plan, &results)
}
