//! A NIC's wire: when packets leave and arrive, and what comes back.

use super::nic::PcieNic;
use crate::kernel::time::Ps;

/// Bytes of a frame on the wire that no memory has: preamble, check sequence, gap (IEEE 802.3).
const FRAMING: usize = 8 + 4 + 12;

impl PcieNic {
    fn on_wire(&self, bytes: usize) -> Ps {
        ((bytes + FRAMING) as f64 * self.per_byte) as Ps
    }

    /// When a packet that the peer sends now has come; the other direction of the wire.
    pub fn arrives(&mut self, now: Ps, bytes: usize) -> Ps {
        self.wire_in = self.wire_in.max(now) + self.on_wire(bytes);
        self.wire_in
    }

    /// A packet leaves: the packet that comes back, and when. Without a peer it is the same one.
    pub fn leaves(&mut self, now: Ps, queue: u16, data: Vec<u8>) -> Option<(Ps, Vec<u8>)> {
        if self.peer.is_none() {
            self.wire = self.wire.max(now) + (data.len() as f64 * self.per_byte) as Ps;
            return Some((self.wire + self.pipeline, data));
        }
        self.wire = self.wire.max(now) + self.on_wire(data.len());
        self.answers.packets += 1;
        self.answers.bytes += (data.len() + FRAMING) as u64;
        let next = self.peer.as_mut()?.answered(queue, &data)?;
        Some((self.arrives(self.wire + self.pipeline, next.len()), next))
    }
}
