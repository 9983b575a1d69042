//! A network interface whose packets are in lines (PIO section 5.3, figure 7c).
//!
//! In each direction two control lines A and B, whose roles change with every packet, and after them lines for what does not fit:
//!
//! ```text
//! control line    length (8 bytes; 0: no packet) | ... | 64: the first 64 bytes of the packet
//! next lines      the rest
//! ```
//!
//! *Receiving* is the protocol of figure 4b: the core waits at a control line; the packet is the answer. The core loads the other lines
//! one by one. Its next load says that it has read everything: the device takes these lines back, then the control line. *Transmitting*
//! is that of figure 4a: the core writes everything and loads the other control line; the device takes the control line, then, knowing the
//! length, the others, and answers when the packet has gone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ccnic::SharedMemory;

use super::PioError;
use super::protocol::{CpuSide, DeviceSide, Initiator, OnLoad, Rules};
use crate::eci::{Agent, Device, EciPort, LINE, Sim};
use crate::kernel::time::{Ps, ns, ps};
use crate::platform::PioPlatform;

/// Where the packet begins in a control line, and how much of it fits.
const INLINE: u32 = 64;
/// Control lines, and where the others begin.
const CONTROL: [u32; 2] = [0, LINE];
const REST: u32 = 2 * LINE;
/// The longest packet.
pub const LARGEST: usize = 9600;
/// Between two packets.
const GAP: Ps = 3_000_000;

/// Lines of a packet besides its control line.
fn rest(len: usize) -> u32 {
    (len as u32).saturating_sub(INLINE).div_ceil(LINE)
}

/// What is shared with whoever measures: when packets arrive and leave, and their bytes.
#[derive(Debug, Default)]
struct Wire {
    arrived: Cell<Ps>,
    left: RefCell<Vec<(Ps, Vec<u8>)>>,
}

struct EciNic {
    side: DeviceSide,
    initiator: Initiator,
    /// A cycle of the NIC's logic.
    cycle: Ps,
    /// The packet to be received, once it has arrived, and how many are still to come.
    packet: Option<Vec<u8>>,
    to_come: u32,
    len: usize,
    /// Lines of the last packet that are still to come back.
    fetching: u32,
    wire: Rc<Wire>,
}

impl EciNic {
    fn is_control(line: u32) -> Option<usize> {
        CONTROL.iter().position(|at| at / LINE == line)
    }

    fn fetch_rest(&mut self, port: &mut EciPort<'_>) {
        self.fetching = rest(self.len);
        (0..self.fetching).for_each(|i| port.fetch(REST / LINE + i));
    }

    /// The control line of the packet that the core has read or written.
    fn old_control(&self) -> u32 {
        CONTROL[self.side.holds().map_or(0, |held| 1 - held)]
    }

    fn deliver(&mut self, port: &mut EciPort<'_>) {
        let Some(control) = self.side.may_answer() else { return };
        let Some(packet) = self.packet.take() else { return };
        self.len = packet.len();
        let at = CONTROL[control];
        let head = packet.len().min(INLINE as usize);
        port.bytes_mut(at, 8).copy_from_slice(&(packet.len() as u64).to_le_bytes());
        port.bytes_mut(at + INLINE, head).copy_from_slice(&packet[..head]);
        port.bytes_mut(REST, packet.len() - head).copy_from_slice(&packet[head..]);
        port.give(at / LINE, true, 2 * self.cycle);
        self.side.answered(true);
    }

    /// The packet is complete: it leaves, 64 bytes with each cycle.
    fn transmit(&mut self, port: &mut EciPort<'_>) {
        let at = self.old_control();
        let head = self.len.min(INLINE as usize);
        let mut packet = port.bytes(at + INLINE, head).to_vec();
        packet.extend_from_slice(port.bytes(REST, self.len - head));
        let sending = self.cycle * (self.len as Ps).div_ceil(64);
        self.wire.left.borrow_mut().push((port.now() + sending, packet));
        if let Some(control) = self.side.may_answer() {
            port.give(CONTROL[control] / LINE, true, sending);
            self.side.answered(true);
        }
    }
}

impl Device for EciNic {
    fn wanted(&mut self, port: &mut EciPort<'_>, line: u32) {
        let Some(control) = EciNic::is_control(line) else {
            port.give(line, true, 0); // the rest of a packet that is there
            return;
        };
        match self.side.load(control) {
            OnLoad::Fetch(old) if self.initiator == Initiator::Cpu => port.fetch(CONTROL[old] / LINE),
            OnLoad::Fetch(old) => {
                self.fetch_rest(port);
                if self.fetching == 0 {
                    port.fetch(CONTROL[old] / LINE);
                }
            }
            OnLoad::Repeat => port.give(line, true, 0),
            OnLoad::Hold => {}
        }
    }

    fn got(&mut self, port: &mut EciPort<'_>, line: u32) {
        if EciNic::is_control(line).is_some() {
            self.side.fetched();
            if self.initiator == Initiator::Device {
                if self.packet.is_none() && self.to_come > 0 {
                    self.to_come -= 1;
                    port.after(GAP + Ps::from(self.to_come % 7) * 480, self.to_come);
                }
                self.deliver(port);
                return;
            }
            let word = port.bytes(self.old_control(), 8).try_into().unwrap_or_default();
            self.len = (u64::from_le_bytes(word) as usize).min(LARGEST);
            self.fetch_rest(port);
            if self.fetching == 0 {
                self.transmit(port);
            }
            return;
        }
        self.fetching -= 1;
        if self.fetching == 0 {
            if self.initiator == Initiator::Cpu {
                self.transmit(port);
            } else {
                port.fetch(self.old_control() / LINE);
            }
        }
    }

    fn due(&mut self, port: &mut EciPort<'_>, number: u32) {
        self.wire.arrived.set(port.now());
        self.packet = Some(contents(self.len, number));
        self.deliver(port);
    }
}

/// The bytes of a packet by its number.
fn contents(len: usize, number: u32) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(7).wrapping_add(number) as u8).collect()
}

fn machine(
    platform: &PioPlatform,
    initiator: Initiator,
    len: usize,
    packets: u32,
) -> Result<(Sim, Rc<Wire>), PioError> {
    let device = super::part(platform, "device", &platform.device)?;
    let wire = Rc::new(Wire::default());
    let nic = EciNic {
        side: DeviceSide::new(initiator, Rules::default()),
        initiator,
        cycle: ps(1.0 / device.nic.get()),
        packet: None,
        to_come: packets,
        len: if initiator == Initiator::Device { len } else { 0 },
        fetching: 0,
        wire: Rc::clone(&wire),
    };
    let bytes = REST + rest(LARGEST) * LINE;
    let mut sim = Sim::new(platform, bytes, |_| 1, Some(Box::new(nic)));
    if initiator == Initiator::Cpu {
        sim.place_remote(CONTROL[0]);
    }
    Ok((sim, wire))
}

/// Nanoseconds from a packet's arrival until the core has all of it in its registers.
///
/// # Errors
/// When the platform has no coherent device.
pub fn receive_times(platform: &PioPlatform, len: usize, packets: u32) -> Result<Vec<f64>, PioError> {
    let (mut sim, wire) = machine(platform, Initiator::Device, len, packets)?;
    let (times, wrong) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(false)));
    let (found, failed, call) = (Rc::clone(&times), Rc::clone(&wrong), platform.core.call.get());
    sim.spawn(0, move |cpu| {
        let mut side = CpuSide::new(Initiator::Device);
        for number in (0..packets).rev() {
            cpu.barrier();
            let at = CONTROL[side.waits_at()];
            let mut packet = vec![0; (cpu.load(at) as usize).min(LARGEST)];
            side.took(true);
            cpu.work(call);
            let (head, tail) = packet.split_at_mut(len.min(INLINE as usize));
            cpu.read(at + INLINE, head);
            cpu.read(REST, tail);
            found.borrow_mut().push(ns(cpu.now() - wire.arrived.get()));
            failed.set(failed.get() || packet != contents(len, number));
            side.wrote();
        }
    })?;
    super::finish(sim)?;
    if wrong.get() { Err(PioError::Wrong("receiving")) } else { Ok(times.take()) }
}

/// Nanoseconds from a packet in the core's registers until its last byte leaves the device.
///
/// # Errors
/// When the platform has no coherent device.
pub fn transmit_times(platform: &PioPlatform, len: usize, packets: u32) -> Result<Vec<f64>, PioError> {
    let (mut sim, wire) = machine(platform, Initiator::Cpu, len, 0)?;
    let begun = Rc::new(RefCell::new(Vec::new()));
    let (times, call) = (Rc::clone(&begun), platform.core.call.get());
    sim.spawn(0, move |cpu| transmit(&cpu, len, packets, call, &mut times.borrow_mut()))?;
    super::finish(sim)?;
    let left = wire.left.take();
    let right = left.len() == packets as usize
        && left.iter().zip(0..).all(|((_, packet), number)| *packet == contents(len, number));
    if !right {
        return Err(PioError::Wrong("transmitting"));
    }
    Ok(left.iter().zip(begun.take()).map(|((left, _), begun)| ns(left - begun)).collect())
}

fn transmit(cpu: &Agent<'_>, len: usize, packets: u32, call: u32, begun: &mut Vec<Ps>) {
    let mut side = CpuSide::new(Initiator::Cpu);
    for number in 0..packets {
        let packet = contents(len, number);
        cpu.work(number % 7);
        begun.push(cpu.now());
        cpu.work(call);
        let at = CONTROL[side.writes_at()];
        let (head, tail) = packet.split_at(len.min(INLINE as usize));
        cpu.store(at, len as u64);
        cpu.write(at + INLINE, head);
        cpu.write(REST, tail);
        cpu.barrier();
        cpu.load(CONTROL[side.waits_at()]);
        side.took(true);
    }
}
