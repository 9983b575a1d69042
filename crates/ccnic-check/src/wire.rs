//! How the NIC of a rig handles the packets that it fetches: one poll of each kind of wire.

use ccnic::desc::CHAIN_MAX;
use ccnic::layout::LARGE_BUF;
use ccnic::nic::NicQueue;
use ccnic::ring::Ring;
use ccnic::{Desc, SharedMemory};

use crate::oracle::Cut;

/// How the NIC handles the packets that it fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Sends a copy back, or the same buffers when it has none.
    Loopback,
    /// Sends a copy back, which passes through its own memory.
    Bytes,
    /// Sends a copy back, in buffers that it allocates and writes itself. (Not with the host-managed pool,
    /// where it cannot.)
    Own,
    /// Sends the same buffers back. (Not with the host-managed pool, whose host frees what it has sent.)
    Reflect,
    /// Drops them.
    Sink,
}

impl Wire {
    /// How packets that come back are cut into buffers; `starved`: the NIC has been without a buffer.
    pub fn cut(self, starved: bool) -> Cut {
        match self {
            Wire::Reflect => Cut::Same,
            Wire::Loopback if starved => Cut::Either,
            _ => Cut::Anew,
        }
    }

    /// Handles `packets`, whose bytes it reads through `copies`; returns the number of descriptors that it has
    /// completed and not yet published.
    pub fn serve<S: SharedMemory, R: Ring>(
        self,
        nic: &mut NicQueue<S, R>,
        copies: &S,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> usize {
        let n = match self {
            Wire::Loopback => return nic.send_back(copies, packets, ahead),
            Wire::Bytes => one_by_one(packets, |packet| bytes(nic, copies, packet)),
            Wire::Own => one_by_one(packets, |packet| own(nic, copies, packet)),
            Wire::Reflect => return nic.reflect(packets),
            Wire::Sink => packets.len(),
        };
        nic.complete(packets.get(..n).unwrap_or_default());
        n
    }
}

/// Handles packets until one has to wait.
fn one_by_one(packets: &[Desc], mut deal: impl FnMut(&[Desc]) -> bool) -> usize {
    let mut n = 0;
    for packet in packets.split_inclusive(|desc| !desc.more()) {
        if !deal(packet) {
            break;
        }
        n += packet.len();
    }
    n
}

fn content<S: SharedMemory>(copies: &S, packet: &[Desc]) -> Vec<u8> {
    let mut all = Vec::new();
    for desc in packet {
        let mut bytes = vec![0; usize::from(desc.len())];
        copies.read(desc.offset(), &mut bytes);
        all.extend(bytes);
    }
    all
}

/// The packet in one part, or in several of lengths that differ from those of buffers.
fn bytes<S: SharedMemory, R: Ring>(nic: &mut NicQueue<S, R>, copies: &S, packet: &[Desc]) -> bool {
    let (all, meta) = (content(copies, packet), packet.first().map_or(0, |desc| desc.meta));
    if all.len() % 3 == 0 {
        return nic.deliver_bytes(&[&all], meta);
    }
    let (head, rest) = all.split_at(all.len() / 3);
    let (middle, tail) = rest.split_at(rest.len() / 2);
    nic.deliver_bytes(&[head, &[], middle, tail], meta)
}

fn own<S: SharedMemory, R: Ring>(nic: &mut NicQueue<S, R>, copies: &S, packet: &[Desc]) -> bool {
    let (all, meta) = (content(copies, packet), packet.first().map_or(0, |desc| desc.meta));
    let mut descs = [Desc::default(); CHAIN_MAX];
    let segments = all.len().div_ceil(LARGE_BUF as usize);
    let n = nic.alloc(all.len() as u16, &mut descs[..segments]);
    if n == 0 {
        return false;
    }
    let mut rest = all.as_slice();
    for desc in &mut descs[..n] {
        let (part, later) = rest.split_at(desc.len().into());
        nic.memory().write(desc.offset(), part);
        *desc = desc.with_meta(meta);
        rest = later;
    }
    assert!(rest.is_empty(), "{} bytes have no buffer", rest.len());
    let descs = &descs[..n];
    assert_eq!(nic.whole_packets(descs), (n, None));
    let sent = nic.send_buffers(descs);
    assert!(sent == 0 || sent == n, "{sent} of {n} buffers of a packet");
    if sent == 0 {
        nic.give_back(descs);
    }
    sent == n
}
