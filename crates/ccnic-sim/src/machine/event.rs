//! What can happen in a machine.

use super::ids::{AgentId, DeviceId, TxnId};
use crate::kernel::events::Event as Packed;

/// Something that happens at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request reaches the home agent of its requester's socket.
    Arrive(TxnId),
    /// A request reaches its line's home agent in another socket.
    AtHome(TxnId),
    /// A snoop for a transaction reaches an agent.
    Snoop(TxnId, AgentId),
    /// Data, or ownership, reaches the agent that asked.
    Fill(TxnId),
    /// A core's hint to demote a line reaches the home agent.
    Demote(u32, AgentId),
    /// A line that has left its socket's snoop filter has to leave a core.
    BackInvalidate(u32, AgentId),
    /// A core goes on with its program.
    Resume(AgentId),
    /// The time of something that a device has scheduled, under the device's own number.
    Device(u32, DeviceId),
    /// A core's uncached access, under its number, reaches a device.
    Access(u32, DeviceId),
    /// A request for data of a line that a device is home of reaches the device.
    Read(TxnId, DeviceId),
    /// A line that a device is home of has been written back to it.
    WriteBack(u32, DeviceId),
}

impl Packed for Event {
    #[inline]
    fn pack(self) -> u64 {
        let (kind, agent, number) = match self {
            Event::Arrive(txn) => (0, 0, txn),
            Event::AtHome(txn) => (1, 0, txn),
            Event::Snoop(txn, agent) => (2, agent, txn),
            Event::Fill(txn) => (3, 0, txn),
            Event::Demote(line, agent) => (4, agent, line),
            Event::Resume(agent) => (5, agent, 0),
            Event::Device(number, device) => (6, device, number),
            Event::Access(number, device) => (7, device, number),
            Event::Read(txn, device) => (8, device, txn),
            Event::WriteBack(line, device) => (9, device, line),
            Event::BackInvalidate(line, agent) => (10, agent, line),
        };
        kind << 40 | u64::from(agent) << 32 | u64::from(number)
    }

    #[inline]
    fn unpack(word: u64) -> Event {
        let (agent, number) = ((word >> 32) as u8, word as u32);
        match word >> 40 {
            0 => Event::Arrive(number),
            1 => Event::AtHome(number),
            2 => Event::Snoop(number, agent),
            3 => Event::Fill(number),
            4 => Event::Demote(number, agent),
            5 => Event::Resume(agent),
            6 => Event::Device(number, agent),
            7 => Event::Access(number, agent),
            8 => Event::Read(number, agent),
            9 => Event::WriteBack(number, agent),
            _ => Event::BackInvalidate(number, agent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_packing() {
        let (n, a) = (0xdead_beef, 0xa5);
        let all = [
            Event::Arrive(n),
            Event::AtHome(n),
            Event::Snoop(n, a),
            Event::Fill(n),
            Event::Demote(n, a),
            Event::Resume(a),
            Event::Device(n, a),
            Event::Access(n, a),
            Event::Read(n, a),
            Event::WriteBack(n, a),
            Event::BackInvalidate(n, a),
        ];
        assert!(all.into_iter().all(|event| Event::unpack(event.pack()) == event));
    }
}
