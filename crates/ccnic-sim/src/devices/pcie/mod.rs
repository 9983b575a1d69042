//! A PCIe device: what cores do to its registers, its link, what it does to memory, and the NICs that CC-NIC is compared with.
//!
//! Reading order: `costs.rs` (what the platform's numbers are made of), `link.rs` (bytes in two directions), `mmio.rs` (cores
//! reach the device), `dma.rs` and `root.rs` (the device reaches memory, through the caches), `nic.rs` and `flow.rs` (a NIC that
//! understands the rings of [`Doorbell`](ccnic::ring::Doorbell)), `loopback.rs` (runs), [`probes`] (measurements).

pub(crate) mod costs;
pub(crate) mod dma;
pub(crate) mod flow;
pub(crate) mod link;
pub(crate) mod mmio;
pub(crate) mod nic;
pub(crate) mod root;
#[cfg(test)]
mod tests;

use ccnic::Layout;

use crate::kernel::events::Event;
use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::core::Core;
use crate::machine::costs::Prefetch;
use crate::platform::Platform;

pub use link::{Lane, Traffic};
pub use nic::NicCounts;

use costs::Costs;
use dma::Dma;
use link::Direction;
use mmio::Gate;
use nic::Nic;
use root::Root;

/// The link of a machine's device, and what is on its way.
#[derive(Debug)]
pub struct Pcie {
    costs: Costs,
    up: Direction,
    down: Direction,
    /// By core.
    gates: Vec<Gate>,
    /// The number under which the root complex takes part in coherence.
    core: u8,
    pub(crate) root: Root,
    pub(crate) dma: Dma,
    nic: Option<Nic>,
    /// What happens later, by the number in its event.
    actions: Vec<Option<Action>>,
    free_actions: Vec<u32>,
    /// Stores that have reached the device: when, where, what. Kept for probes alone.
    pub(crate) seen: Option<Vec<(Ps, u32, u64)>>,
    /// Reads of measurements: when they were done, and what they brought.
    pub(crate) reads: Option<Vec<(Ps, Vec<u8>)>>,
}

/// Something on its way.
#[derive(Debug)]
enum Action {
    /// A core's access reaches the root complex.
    Down(Down),
    /// The root complex has accepted a core's uncached store.
    Accepted(u8),
    /// The root complex has accepted a core's write-combining buffer.
    Drained(u8),
    /// A word reaches a register of the device.
    Register { at: u32, value: u64 },
    /// A core's read reaches the device.
    ReadRegister { core: u8, at: u32, bytes: u32 },
    /// The device answers a core's read.
    Answer { core: u8, at: u32, bytes: u32 },
    /// The completion of a core's read reaches the core.
    ReadBack { core: u8, value: u64 },
    /// A packet from the device reaches the root complex.
    Up(root::Packet),
    /// A completion with so many bytes of a read request reaches the device.
    Data { request: u32, bytes: u32 },
    /// The NIC's engine has done a packet.
    Engine,
    /// A packet comes back from the NIC's wire.
    Received { queue: u16, packet: nic::Packet },
    /// The link has sent what was before a queue's receive descriptors.
    WriteBack(u16),
}

/// A core's access to the device.
#[derive(Debug, Clone, Copy)]
enum Down {
    /// An uncached store.
    Word { core: u8, at: u32, value: u64 },
    /// A write-combining buffer.
    Combined { core: u8, mask: u64 },
    /// An uncached read.
    Read { core: u8, at: u32, bytes: u32 },
}

impl World {
    /// Puts a device's link into the machine, as the platform describes it; without, nothing happens. Before programs are
    /// put on cores.
    pub fn attach(&mut self, platform: &Platform) {
        let Some(costs) = Costs::of(platform) else { return };
        let core = self.cores.len() as u8;
        self.cores.push(Core::new(platform, 0, Prefetch::default()));
        self.pcie = Some(Box::new(Pcie {
            costs,
            core,
            root: Root::default(),
            dma: Dma::default(),
            nic: None,
            reads: None,
            up: Direction::default(),
            down: Direction::default(),
            gates: self.cores.iter().map(|_| Gate::default()).collect(),
            actions: Vec::new(),
            free_actions: Vec::new(),
            seen: None,
        }));
    }

    /// Puts the platform's NIC at the end of the link. Each of its queues is one of a region of this layout: where the region
    /// begins, and which.
    pub(crate) fn attach_nic(
        &mut self,
        platform: &Platform,
        layout: &Layout,
        queues: impl Iterator<Item = (u32, u16)>,
    ) {
        let Some(device) = &platform.device else { return };
        let nic = Nic::new(device, layout, queues);
        nic.registers().for_each(|at| self.map_device(at));
        if let Some(pcie) = &mut self.pcie {
            pcie.nic = Some(nic);
        }
    }

    /// True when the root complex has asked for what a transaction brings.
    pub(crate) fn is_for_device(&self, txn: u32) -> bool {
        self.is_device(self.txns[txn as usize].core)
    }

    /// True for the number under which the root complex takes part in coherence.
    pub(crate) fn is_device(&self, core: u8) -> bool {
        self.pcie.as_ref().is_some_and(|p| p.core == core)
    }

    /// What the device's NIC has done.
    pub fn nic_counts(&self) -> Option<NicCounts> {
        self.pcie.as_ref()?.nic.as_ref().map(|n| n.counts)
    }

    /// What went over the device's link.
    pub fn pcie_traffic(&self) -> Option<Traffic> {
        self.pcie.as_ref().map(|p| Traffic { up: p.up.lane, down: p.down.lane })
    }

    /// Does something later.
    fn later(&mut self, at: Ps, action: Action) {
        let Some(pcie) = &mut self.pcie else { return };
        let i = match pcie.free_actions.pop() {
            Some(i) => i,
            None => {
                pcie.actions.push(None);
                pcie.actions.len() as u32 - 1
            }
        };
        pcie.actions[i as usize] = Some(action);
        self.events.push(at, Event::Device(i));
    }

    /// The time of an action has come.
    pub(crate) fn device(&mut self, i: u32) {
        let Some(pcie) = &mut self.pcie else { return };
        pcie.free_actions.push(i);
        let Some(action) = pcie.actions[i as usize].take() else { return };
        match action {
            Action::Down(access) => self.go_down(access),
            Action::Accepted(core) => self.accepted(core),
            Action::Drained(core) => self.drained(core),
            Action::Register { at, value } => self.register(at, value),
            Action::ReadRegister { core, at, bytes } => {
                let at_device = self.now + pcie.costs.turn(bytes);
                self.later(at_device, Action::Answer { core, at, bytes });
            }
            Action::Answer { core, at, bytes } => self.answer_read(core, at, bytes),
            Action::ReadBack { core, value } => self.read_back(core, value),
            Action::Up(packet) => self.reach_root(packet),
            Action::Data { request, bytes } => self.data_arrived(request, bytes),
            Action::Engine => self.wake_engine(),
            Action::Received { queue, packet } => self.received(queue, packet),
            Action::WriteBack(queue) => self.write_back_due(queue),
        }
    }

    /// A core's access goes over the link.
    fn go_down(&mut self, access: Down) {
        let Some(pcie) = &mut self.pcie else { return };
        let (now, costs) = (self.now, &pcie.costs);
        let send = |down: &mut Direction, bytes| down.send(now, bytes, costs);
        // The core hears of it after the time that the root complex takes, and not before the link had room.
        let accepted = |sent: Ps| (now - costs.to_root + costs.accept).max(sent + costs.to_root);
        match access {
            Down::Word { core, at, value } => {
                let sent = send(&mut pcie.down, costs.write_header + costs::WORD);
                let (arrival, accepted) = (sent + costs.down, accepted(sent));
                self.later(arrival, Action::Register { at, value });
                self.later(accepted, Action::Accepted(core));
            }
            Down::Combined { core, mask } => {
                // Each run of bytes is a packet of its own.
                let mut sent = now;
                let (mut rest, mut place) = (mask, 0);
                while rest != 0 {
                    place += rest.trailing_zeros();
                    let run = (mask >> place).trailing_ones();
                    sent = send(&mut pcie.down, costs.write_header + run);
                    place += run;
                    rest = mask.checked_shr(place).unwrap_or(0);
                }
                let accepted = accepted(sent);
                self.later(accepted, Action::Drained(core));
            }
            Down::Read { core, at, bytes } => {
                let sent = send(&mut pcie.down, costs.read_header);
                let arrival = sent + costs.down;
                self.later(arrival, Action::ReadRegister { core, at, bytes });
            }
        }
    }

    /// A word reaches a register.
    fn register(&mut self, at: u32, value: u64) {
        self.set_word(at, value);
        if let Some(seen) = self.pcie.as_mut().and_then(|p| p.seen.as_mut()) {
            seen.push((self.now, at, value));
        }
        self.doorbell(at, value);
    }

    fn answer_read(&mut self, core: u8, at: u32, bytes: u32) {
        let value = self.word(at);
        let Some(pcie) = &mut self.pcie else { return };
        let sent = pcie.up.send(self.now, pcie.costs.completion_header + bytes, &pcie.costs);
        let arrival = sent + pcie.costs.up;
        self.later(arrival, Action::Up(root::Packet::Completion { core, value }));
    }
}
