//! A thread of the overlay: it polls a queue of the interface that programs use and a queue pair of another NIC, and copies packets between
//! the two in both directions (CC-NIC section 4). Segments stay segments: a header and a value are two for the other NIC, too.

use ccnic::desc::Desc;
use ccnic::host::QueuePair;
use ccnic::nic::{Fetched, NicQueue};
use ccnic::ring::Ring;
use ccnic::{Burst, SharedMemory};

use super::packets;

/// A thread of the overlay.
pub struct Overlay<M: SharedMemory, R: Ring, N: SharedMemory, S: Ring> {
    upper: NicQueue<M, R>,
    lower: QueuePair<N, S>,
    fetched: Fetched,
    out: Burst,
    back: Burst,
    bytes: Vec<u8>,
    /// Packets for which the program's side had no room or no buffer.
    dropped: u64,
}

impl<M: SharedMemory, R: Ring, N: SharedMemory, S: Ring> Overlay<M, R, N, S> {
    /// Between a program's queue and a queue pair of the other NIC.
    pub fn new(upper: NicQueue<M, R>, lower: QueuePair<N, S>) -> Overlay<M, R, N, S> {
        Overlay {
            upper,
            lower,
            fetched: Fetched::default(),
            out: Burst::new(),
            back: Burst::new(),
            bytes: Vec::new(),
            dropped: 0,
        }
    }

    /// Copies what has come on either side; returns the packets from the program and those for it.
    #[inline]
    pub fn poll(&mut self) -> (usize, usize) {
        (self.down(), self.up())
    }

    /// Packets that were dropped since the last call: the program had no room for them.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn down(&mut self) -> usize {
        let Overlay { upper, lower, fetched, out, bytes, .. } = self;
        if fetched.is_empty() {
            upper.fetch(fetched);
        }
        let (mut packets, mut descs) = (0, 0);
        for packet in fetched.rest().split_inclusive(|desc| !desc.more()) {
            if packet.len() > out.space() || !copy(upper.memory(), packet, lower, out, bytes) {
                break;
            }
            (packets, descs) = (packets + 1, descs + packet.len());
        }
        if packets > 0 {
            upper.complete(fetched.rest().get(..descs).unwrap_or_default());
            fetched.advance(descs);
            upper.flush();
        }
        if !out.is_empty() {
            lower.tx_burst(out);
        }
        packets
    }

    fn up(&mut self) -> usize {
        let Overlay { upper, lower, back, bytes, dropped, .. } = self;
        if lower.rx_burst(back, Burst::CAPACITY / 2) == 0 {
            return 0;
        }
        let mut come = 0;
        packets(lower, back, bytes, |bytes, meta| {
            come += 1;
            *dropped += u64::from(!upper.deliver_bytes(&[bytes], meta));
        });
        upper.flush();
        lower.free(back);
        come
    }
}

/// Copies a packet into buffers of the other NIC; false when there are none.
#[inline]
fn copy<M: SharedMemory, N: SharedMemory, S: Ring>(
    from: &M,
    packet: &[Desc],
    lower: &mut QueuePair<N, S>,
    out: &mut Burst,
    bytes: &mut Vec<u8>,
) -> bool {
    let before = out.len();
    for desc in packet {
        if lower.alloc(desc.len(), 1, out) == 0 {
            break;
        }
        let Some(buf) = out.iter_mut().last() else { break };
        bytes.resize(desc.len().into(), 0);
        from.read(desc.offset(), bytes);
        lower.write(buf, 0, bytes);
        buf.set_more(desc.more());
        buf.set_meta(desc.meta);
    }
    if out.len() == before + packet.len() {
        return true;
    }
    while out.len() > before
        && let Some(buf) = out.pop()
    {
        lower.free_one(buf);
    }
    false
}

#[cfg(test)]
mod tests {
    use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch};
    use ccnic::testing::{Sides, config, nic, pair, region};

    use super::*;

    /// Packets go through the overlay, the other NIC's loopback and back; `lengths` are of segments.
    fn there_and_back<R: Ring>(lengths: &[u16]) {
        let (mem, layout) = region(&config::<R>());
        let mut program = pair::<_, R>(mem.clone(), &layout, 0).unwrap();
        let lower = Sides::<Doorbell>::new(&config::<Doorbell>());
        let Sides { host, nic: mut device, mut pipeline, mem: memory, .. } = lower;
        let mut overlay = Overlay::new(nic::<_, R>(mem, &layout, 0).unwrap(), host);
        overlay.poll(); // posts receive buffers
        let mut burst = Burst::new();
        for &len in lengths {
            assert_eq!(program.alloc(len, 1, &mut burst), 1);
        }
        let last = lengths.len() - 1;
        for (i, buf) in burst.iter_mut().enumerate() {
            program.with_mut(buf, |bytes| bytes.fill(i as u8 + 1));
            buf.set_more(i < last);
            buf.set_meta(5);
        }
        assert_eq!(program.tx_burst(&mut burst), lengths.len());
        assert_eq!(overlay.poll(), (1, 0));
        while ccnic::nic::loopback(&mut device, &mut pipeline, &memory, false) > 0 {}
        assert_eq!(overlay.poll(), (0, 1));
        program.rx_burst(&mut burst, 32);
        let mut all = Vec::new();
        packets(&program, &burst, &mut Vec::new(), |bytes, meta| all.push((bytes.to_vec(), meta)));
        let sent: Vec<u8> =
            (1..).zip(lengths).flat_map(|(i, len)| std::iter::repeat_n(i, usize::from(*len))).collect();
        assert_eq!(all, [(sent, 5)]);
        assert_eq!(overlay.take_dropped(), 0);
        program.free(&mut burst);
    }

    #[test]
    fn packets_arrive_as_they_were_sent() {
        for lengths in [&[64][..], &[58, 4000], &[58, 4096, 4096, 1000]] {
            there_and_back::<GroupedEpoch>(lengths);
            there_and_back::<GroupedClear>(lengths);
        }
    }
}
