//! A PCIe device: its registers, its link, its DMA through the host's caches, and the NICs that CC-NIC is compared with.
//!
//! Reading order: `costs.rs` (what the platform's numbers are made of), `link.rs` (packets in two directions), here (cores reach the
//! device), `dma.rs` with `reads.rs` and `ddio.rs` with `root.rs` (the device reaches memory through the caches), `flow.rs` with
//! `nic.rs` (a NIC that serves the rings of [`Doorbell`](ccnic::ring::Doorbell)).

mod costs;
mod ddio;
mod dma;
mod flow;
mod link;
mod nic;
mod peer;
mod reads;
mod root;
#[cfg(test)]
mod tests;
mod wire;

use ccnic::Layout;

use super::{Device, Port};
use crate::kernel::slab::Slab;
use crate::kernel::time::Ps;
use crate::machine::caches::mask::WayMask;
use crate::machine::ids::{AgentId, DeviceId, SocketId, TxnId};
use crate::machine::uncached::{Access, AccessKind};
use crate::machine::{Attachment, Machine, MachineError};
use crate::observe::counters::{NicCounts, PcieTraffic};
use crate::platform::Platform;
use crate::protocols::table::Request;

use costs::Costs;
use link::Direction;
use nic::{PcieNic, Purpose};
pub use peer::{Answers, Peer};
use reads::Dma;
use root::Root;

/// A device behind a PCIe link. Its port to the machine is the root complex.
#[derive(Debug)]
pub struct Pcie {
    costs: Costs,
    up: Direction,
    down: Direction,
    root: Root,
    dma: Dma,
    nic: Option<PcieNic>,
    /// What is on its way, under the number of its event.
    actions: Slab<Action>,
    /// Stores that have reached the device: when, where, what. Kept if a probe asks for it.
    stores: Option<Vec<(Ps, u32, u64)>>,
    /// Reads by probes: when they were done, and what they brought.
    reads: Vec<(Ps, Vec<u8>)>,
}

/// Something on its way.
#[derive(Debug)]
enum Action {
    /// The root complex has accepted a core's uncached store.
    Accepted(AgentId),
    /// The root complex has accepted a core's write-combining buffer.
    Combined(AgentId),
    /// A word reaches a register of the device.
    Register { at: u32, value: u64 },
    /// A core's read reaches the device.
    ReadRegister { core: AgentId, at: u32, bytes: u32 },
    /// The device answers a core's read.
    Answer { core: AgentId, at: u32, bytes: u32 },
    /// The completion of a core's read reaches the core.
    ReadBack { core: AgentId, value: u64 },
    /// A packet from the device reaches the root complex.
    Up(root::Packet),
    /// A completion with so many bytes of a read request reaches the device.
    Data { request: u32, bytes: u32 },
    /// The NIC's engine is free for the next packet.
    Engine,
    /// A packet comes back from the NIC's wire.
    Received { queue: u16, packet: nic::Packet },
    /// The link has sent what was before a queue's receive descriptors.
    WriteBack(u16),
}

/// Adds the PCIe link of a platform to a socket of a machine, with nothing but registers at its end; `None` if the platform has none.
///
/// # Errors
/// When the machine has no room for it.
pub fn attach(
    machine: &mut Machine,
    platform: &Platform,
    socket: SocketId,
) -> Result<Option<DeviceId>, MachineError> {
    let Some(costs) = Costs::of(platform) else { return Ok(None) };
    let attachment = Attachment { socket, latency: costs.to_root, ways: WayMask::first(costs.ddio_ways) };
    let device = Pcie {
        costs,
        up: Direction::default(),
        down: Direction::default(),
        root: Root::default(),
        dma: Dma::default(),
        nic: None,
        actions: Slab::default(),
        stores: None,
        reads: Vec::new(),
    };
    machine.add_device(Box::new(device), attachment).map(Some)
}

/// Puts the platform's NIC at the end of a link. Each of its queues is one of a region of this layout: where the region begins,
/// and its number there.
pub fn attach_nic(
    machine: &mut Machine,
    device: DeviceId,
    platform: &Platform,
    layout: &Layout,
    queues: impl Iterator<Item = (u32, u16)>,
) {
    let Some(numbers) = &platform.device else { return };
    let nic = PcieNic::new(numbers, layout, queues);
    nic.registers().for_each(|at| machine.map_registers(at, device));
    machine.with_device(device, |pcie: &mut Pcie, _| pcie.nic = Some(nic));
}

impl Pcie {
    /// What is at the other end of the NIC's wire, instead of a loopback, sends its first packets, one after the other.
    pub fn set_peer(&mut self, port: &mut Port<'_>, mut peer: Box<dyn Peer>) {
        let Some(nic) = &mut self.nic else { return };
        let first: Vec<(u16, Vec<u8>)> = peer.begin();
        nic.peer = Some(peer);
        for (queue, data) in first {
            let Some(nic) = &mut self.nic else { return };
            let Some(q) = nic.queues.get_mut(queue as usize) else { continue };
            q.inside += 1;
            let at = nic.arrives(port.now(), data.len());
            self.later(port, at, Action::Received { queue, packet: nic::Packet { data, meta: 0 } });
        }
    }

    /// What has gone to the peer so far.
    pub fn answers(&self) -> Answers {
        self.nic.as_ref().map(|nic| nic.answers).unwrap_or_default()
    }

    /// What the NIC has done.
    pub fn nic_counts(&self) -> NicCounts {
        self.nic.as_ref().map(|n| n.counts).unwrap_or_default()
    }

    /// What has gone over the link.
    pub fn traffic(&self) -> PcieTraffic {
        PcieTraffic { up: self.up.lane, down: self.down.lane }
    }

    /// Reads memory for a measurement; see [`probe_reads`](Pcie::probe_reads).
    pub fn probe_read(&mut self, port: &mut Port<'_>, at: u32, len: u32) {
        self.dma_read(port, at, len, 1, Purpose::Probe);
    }

    /// The reads for measurements so far: when they were done, and what they brought.
    pub fn probe_reads(&self) -> &[(Ps, Vec<u8>)] {
        &self.reads
    }

    /// Writes memory for a measurement; see [`last_write`](Pcie::last_write).
    pub fn probe_write(&mut self, port: &mut Port<'_>, at: u32, data: &[u8]) {
        self.dma_write(port, at, data, 1);
    }

    /// When cores could see the last line written.
    pub fn last_write(&self) -> Ps {
        self.root.last
    }

    /// Does something later.
    fn later(&mut self, port: &mut Port<'_>, at: Ps, action: Action) {
        let number = self.actions.add(action);
        port.schedule(at, number);
    }

    /// A word reaches a register.
    fn register(&mut self, port: &mut Port<'_>, at: u32, value: u64) {
        port.set_word(at, value);
        if let Some(stores) = &mut self.stores {
            stores.push((port.now(), at, value));
        }
        self.doorbell(port, at, value);
    }

    fn answer_read(&mut self, port: &mut Port<'_>, core: AgentId, at: u32, bytes: u32) {
        let value = port.word(at);
        let sent = self.up.send(port.now(), self.costs.completion_header + bytes, &self.costs);
        let arrival = sent + self.costs.up;
        self.later(port, arrival, Action::Up(root::Packet::Completion { core, value }));
    }
}

impl Device for Pcie {
    fn agent_name(&self) -> &'static str {
        "root complex"
    }

    /// A core's access has reached the root complex, and goes over the link.
    fn access(&mut self, port: &mut Port<'_>, access: Access) {
        let (now, core, costs) = (port.now(), access.core, &self.costs);
        // The core learns of it after the time that the root complex takes, and not before the link has room.
        let accepted = |sent: Ps| (now - costs.to_root + costs.accept).max(sent + costs.to_root);
        match access.kind {
            AccessKind::Store { at, value } => {
                let sent = self.down.send(now, costs.write_header + costs::WORD, costs);
                let (arrival, accepted) = (sent + costs.down, accepted(sent));
                // While the NIC is busy with other doorbells, the link has no credits for more.
                let nic = self.nic.as_mut().filter(|nic| nic.registers().any(|register| register == at));
                let (waited, taken) = nic.map_or((0, arrival), |nic| nic.ring(arrival));
                self.later(port, taken, Action::Register { at, value });
                self.later(port, accepted + waited, Action::Accepted(core));
            }
            AccessKind::Combined { mask, .. } => {
                // Each run of bytes is a packet of its own.
                let mut sent = now;
                let (mut rest, mut first) = (mask, 0);
                while rest != 0 {
                    first += rest.trailing_zeros();
                    let run = (mask >> first).trailing_ones();
                    sent = self.down.send(now, costs.write_header + run, costs);
                    first += run;
                    rest = mask.checked_shr(first).unwrap_or(0);
                }
                let accepted = accepted(sent);
                self.later(port, accepted, Action::Combined(core));
            }
            AccessKind::Read { at, bytes } => {
                let arrival = self.down.send(now, costs.read_header, costs) + costs.down;
                self.later(port, arrival, Action::ReadRegister { core, at, bytes });
            }
        }
    }

    fn filled(&mut self, port: &mut Port<'_>, txn: TxnId, line: u32, request: Request) {
        if request == Request::ReadCurrent {
            self.line_read(port, txn, line);
        } else {
            self.write_in_order(port);
        }
    }

    fn event(&mut self, port: &mut Port<'_>, number: u32) {
        let Some(action) = self.actions.take(number) else { return };
        match action {
            Action::Accepted(core) => port.accept_store(core),
            Action::Combined(core) => port.accept_combined(core),
            Action::Register { at, value } => self.register(port, at, value),
            Action::ReadRegister { core, at, bytes } => {
                let answered = port.now() + self.costs.read_time(bytes);
                self.later(port, answered, Action::Answer { core, at, bytes });
            }
            Action::Answer { core, at, bytes } => self.answer_read(port, core, at, bytes),
            Action::ReadBack { core, value } => port.answer_read(core, value),
            Action::Up(packet) => self.reach_root(port, packet),
            Action::Data { request, bytes } => self.data_arrived(port, request, bytes),
            Action::Engine => self.engine_free(port),
            Action::Received { queue, packet } => self.received(port, queue, packet),
            Action::WriteBack(queue) => self.write_back_due(port, queue),
        }
    }
}
