//! Packets from the interface.
//!
//! A packet that a virtual interface gets from the same machine may lack its checksum: the sending kernel leaves it to the NIC
//! (`CHECKSUM_PARTIAL`), there is no NIC, and AF_XDP does not say so. But its field contains the sum of the pseudo header then, and
//! completing a checksum whose field contains that is right whoever has put it there: of a packet that has its checksum already, it gives
//! the same checksum.

use ccnic::SharedMemory;
use ccnic_frame::{Headers, Sum, checksum};
use ccnic_shm::NativeMemory;
use ccnic_shm::xdp::FRAME;

use super::lane::Lane;
use crate::ports::outside::Gathered;

/// The most pieces of a packet: 64 KiB in frames of which the kernel leaves 256 bytes free, and its headers.
const PIECES: usize = 18;
/// Descriptors that are looked at in one turn.
const LOOKS: u32 = 64;

/// A packet in the ring.
struct Packet {
    pieces: [(u32, u32); PIECES],
    len: usize,
    /// Its descriptors, also those that name no bytes.
    descriptors: u32,
    /// One of them names something that is no frame of the queue, or there are too many.
    bad: bool,
}

impl Lane {
    /// The next burst, and how many packets were dropped whose descriptors make no sense. All of the burst before has been dealt with: its
    /// frames go back to the kernel.
    pub(super) fn receive(&mut self, mem: &NativeMemory, fill: bool) -> (Gathered, u64) {
        self.recycle();
        let (mut burst, mut dropped) = (Gathered::new(), 0);
        let available = self.socket.rx.available();
        let mut taken = 0;
        while taken < LOOKS {
            let Some(packet) = self.peek(taken, available) else { break };
            let pieces = packet.pieces.get(..packet.len).unwrap_or_default();
            if packet.bad || pieces.is_empty() {
                dropped += 1;
            } else if !burst.push(pieces, 0) {
                break;
            } else if fill {
                complete(mem, pieces);
            }
            self.hold(taken, packet.descriptors);
            taken += packet.descriptors;
        }
        self.socket.rx.release(taken);
        (burst, dropped)
    }

    /// Gives the frames of the last burst back to the kernel.
    #[inline(always)]
    fn recycle(&mut self) {
        let fill = &mut self.socket.fill;
        // (There is room for all frames that the queue has.)
        if !self.held.is_empty() {
            self.held.drain(..).for_each(|frame| _ = fill.push(frame));
            fill.publish();
        }
        if fill.needs_wakeup() {
            self.socket.wake_for_receiving();
        }
    }

    /// The packet whose first descriptor lies so far behind; `None` where there is none, or not all of it yet.
    #[inline(always)]
    fn peek(&self, behind: u32, available: u32) -> Option<Packet> {
        let mut packet = Packet { pieces: [(0, 0); PIECES], len: 0, descriptors: 0, bad: false };
        loop {
            let Some(desc) = self.socket.rx.peek(behind + packet.descriptors) else {
                // A packet that fills the ring will never be complete.
                packet.bad = true;
                return (packet.descriptors > 0
                    && packet.descriptors >= available.min(self.ring)
                    && available >= self.ring)
                    .then_some(packet);
            };
            packet.descriptors += 1;
            match (self.place(desc.addr, desc.len), packet.pieces.get_mut(packet.len)) {
                (Some(_), _) if desc.len == 0 => {}
                (Some(at), Some(slot)) => {
                    *slot = (at, desc.len);
                    packet.len += 1;
                }
                _ => packet.bad = true,
            }
            if !desc.more() {
                return Some(packet);
            }
        }
    }

    #[inline(always)]
    fn place(&self, addr: u64, len: u32) -> Option<u32> {
        place(self.ring, addr, len).map(|at| self.base + at)
    }

    /// Keeps the frames of so many descriptors until the burst has been dealt with. What is no frame is lost.
    #[inline(always)]
    fn hold(&mut self, from: u32, descriptors: u32) {
        for at in from..from + descriptors {
            let Some(desc) = self.socket.rx.peek(at) else { return };
            if self.place(desc.addr, 0).is_some() && self.held.len() < self.ring as usize {
                self.held.push(desc.addr - desc.addr % u64::from(FRAME));
            }
        }
    }
}

/// Where in a queue's memory bytes lie that the kernel says it has received: within one frame of those to receive into.
#[inline(always)]
fn place(ring: u32, addr: u64, len: u32) -> Option<u32> {
    let addr = u32::try_from(addr).ok().filter(|addr| *addr < ring * FRAME)?;
    (len <= FRAME - addr % FRAME).then_some(addr)
}

/// Computes the checksum of the transport layer, if its field says that the sender has not.
fn complete(mem: &NativeMemory, pieces: &[(u32, u32)]) {
    let Some(((at, len), rest)) = pieces.split_first() else { return };
    let total: u32 = pieces.iter().map(|(_, len)| len).sum();
    mem.with_mut(*at, *len, |start| {
        let headers = Headers::parse(start, total as usize);
        if !checksum::is_pseudo(start, &headers) {
            return;
        }
        let Ok(mut sum) = checksum::l4_sum(start, &headers) else { return };
        let mut left = headers.l4_end.saturating_sub(start.len());
        for (at, len) in rest {
            let n = left.min(*len as usize);
            sum.add_sum(mem.with(*at, n as u32, Sum::of));
            left -= n;
        }
        checksum::store_l4(start, &headers, sum);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::RegionMemory;
    use crate::testing::udp;
    use ccnic_shm::{Pages, Region};

    #[test]
    fn what_is_received_lies_within_one_frame_of_those_to_receive_into() {
        let last = 63 * u64::from(FRAME);
        for (addr, len, expected) in [
            (0, FRAME, Some(0)),
            (256, FRAME - 256, Some(256)),
            (256, FRAME - 255, None),
            (last + 4095, 1, Some(last as u32 + 4095)),
            (last + 4095, 2, None),
            (last + 4095, u32::MAX, None),
            (last + 4096, 0, None), // the first frame to send from
            (1 << 32, 1, None),
            (u64::MAX, 1, None),
        ] {
            assert_eq!(place(64, addr, len), expected, "{addr} {len}");
        }
    }

    /// UDP over IPv4 with these bytes of payload, its checksum left out as a kernel does.
    fn partial(payload: usize) -> Vec<u8> {
        let payload: Vec<u8> = (0..payload).map(|i| (i * 7 % 251) as u8).collect();
        let mut frame = udp(&payload);
        let headers = Headers::parse(&frame, frame.len());
        checksum::store_pseudo(&mut frame, &headers).unwrap();
        frame
    }

    /// The frame after it has been received in pieces of so many bytes.
    fn completed(frame: &[u8], piece: usize) -> Vec<u8> {
        let mem = Region::create(1 << 20, Pages::Small).unwrap().memory();
        let place = |(i, bytes): (usize, &[u8])| {
            let at = FRAME * i as u32 + 256;
            mem.write(at, bytes);
            (at, bytes.len() as u32)
        };
        let pieces: Vec<_> = frame.chunks(piece).enumerate().map(place).collect();
        complete(&mem, &pieces);
        let mut got = vec![0; frame.len()];
        for ((at, _), to) in pieces.iter().zip(got.chunks_mut(piece)) {
            mem.read(*at, to);
        }
        got
    }

    #[test]
    fn missing_checksums_are_computed_across_pieces_and_others_left_as_they_are() {
        for payload in [0, 1, 2, 1000, 8972] {
            for piece in [64, 999, 3840] {
                let mut frame = partial(payload);
                frame.extend([0xee; 3]); // padding, which is in no checksum
                let got = completed(&frame, piece);
                let headers = Headers::parse(&got, got.len());
                assert_eq!(
                    checksum::verify_l4(&got, &headers, []),
                    Ok(true),
                    "{payload} bytes in pieces of {piece}"
                );
                assert_eq!(completed(&got, piece), got, "a complete one stays");
                let mut wrong = got.clone();
                wrong[40] ^= 1;
                assert_eq!(completed(&wrong, piece), wrong, "and so does a wrong one");
            }
        }
        for frame in [vec![], vec![1; 13], vec![0xff; 64]] {
            assert_eq!(completed(&frame, 3840), frame);
        }
    }

    /// The payload is such that the checksum is the sum of the pseudo header.
    #[test]
    fn a_complete_packet_that_looks_like_an_incomplete_one_stays() {
        let mut frame = partial(4);
        let headers = Headers::parse(&frame, frame.len());
        let field = frame[40..42].to_vec();
        let found = (0..=u16::MAX).find(|tail| {
            frame[44..46].copy_from_slice(&tail.to_be_bytes());
            checksum::verify_l4(&frame, &headers, []) == Ok(true)
        });
        assert!(found.is_some() && frame[40..42] == field && checksum::is_pseudo(&frame, &headers));
        assert_eq!(completed(&frame, 100), frame);
    }
}
