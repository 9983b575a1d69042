//! The coherent network interfaces of Mukherjee, Falsafi, Hill and Wood (ISCA '96), on the machine in `bus/`.
//!
//! | file | what |
//! |---|---|
//! | [`layout`] | the interfaces of table 1, and where their queues lie |
//! | [`message`], [`header`] | network messages and their headers |
//! | [`queue`] | the cachable queue, over any memory |
//! | [`device`] | the device's side: registers and engines |
//! | [`endpoint`] | the processor's side: active messages |
//! | [`pair`] | a program and a NIC over two queues, in any memory |

pub mod device;
pub mod endpoint;
pub mod header;
pub mod layout;
pub mod message;
pub mod pair;
pub mod queue;
#[cfg(test)]
mod tests;

use std::io;
use std::rc::Rc;

use crate::bus::Sim;
use crate::bus::agent::Agent;
use crate::bus::buses::Attachment;
use crate::bus::node::Wiring;
use crate::platform::BusPlatform;
use endpoint::Endpoint;
use layout::Kind;

/// An interface and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interface {
    /// Which one.
    pub kind: Kind,
    /// On which bus.
    pub attachment: Attachment,
    /// Processors' caches take in what it writes back.
    pub snarfing: bool,
}

/// Why an interface cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The paper rules it out.
    #[error("{0} cannot be there: {1}")]
    Impossible(&'static str, &'static str),
    /// There is no memory for a program's stack.
    #[error("no memory for a program's stack: {0}")]
    Memory(#[from] io::Error),
}

impl Interface {
    /// CNI section 5: caches on the cache bus snoop nothing, and a device on the I/O bus cannot cache main memory (section 2.3).
    fn check(self) -> Result<(), BuildError> {
        let name = self.kind.name();
        match (self.kind, self.attachment) {
            (Kind::Ni2w, _) | (_, Attachment::MemoryBus) => Ok(()),
            (_, Attachment::CacheBus) => Err(BuildError::Impossible(name, "the cache bus is not coherent")),
            (Kind::Cni16Qm, Attachment::IoBus) => {
                Err(BuildError::Impossible(name, "the I/O bus lets no device cache main memory"))
            }
            _ => Ok(()),
        }
    }
}

/// The platform's nodes with an interface each. Every node's processor runs `program`, which has `user` bytes of memory from
/// [`layout::USER`] on.
///
/// # Errors
/// When the interface cannot be there.
pub fn build(
    platform: &BusPlatform,
    interface: Interface,
    user: u32,
    mut program: impl FnMut(usize) -> Box<dyn FnOnce(Endpoint<'_>)>,
) -> Result<Sim, BuildError> {
    interface.check()?;
    let Interface { kind, attachment, snarfing } = interface;
    let mut states = Vec::new();
    let mut sim = Sim::new(platform, 1, layout::USER + user, |_| {
        let (state, device) = device::new(kind, platform.network.fifo.get() as usize);
        states.push(state);
        let (home, watched) = (layout::home(kind), layout::WATCHED);
        Some(Wiring { attachment, cache: layout::cache(kind), home, watched, snarfing, device })
    });
    for (node, state) in states.iter().enumerate() {
        device::spawn(&mut sim, node, state)?;
        // A program's captures are moved to its stack, which takes little at a time.
        let (program, software) = (program(node), Rc::new(platform.software.clone()));
        sim.spawn(node, 0, move |cpu: Agent<'_>| program(Endpoint::new(cpu, &software, kind)))?;
    }
    Ok(sim)
}
