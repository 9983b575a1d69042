//! A PCIe link: a first-in-first-out queue in each direction, and how transfers are cut into packets.
//!
//! Packets arrive in the order in which they were sent. PCIe lets some packets pass others; what it forbids (a posted write or a
//! completion that passes a posted write) does not happen here.

use super::costs::Costs;
use crate::kernel::time::Ps;
use crate::observe::counters::PcieLane;

/// One direction of a link.
#[derive(Debug, Default)]
pub struct Direction {
    /// When the last byte so far will have been sent.
    pub free: Ps,
    pub lane: PcieLane,
}

impl Direction {
    /// Sends a packet of so many bytes, with its header, after all before it; returns when its last byte has left.
    pub fn send(&mut self, now: Ps, bytes: u32, costs: &Costs) -> Ps {
        let service = costs.on_link(bytes);
        self.free = self.free.max(now) + service;
        self.lane.packets += 1;
        self.lane.bytes += u64::from(bytes);
        self.lane.busy += service;
        self.free
    }
}

/// Cuts `len` bytes from `at` into pieces of at most `most` bytes that end on multiples of `boundary`, the last one apart.
/// Returns the length of the first.
pub fn first_piece(at: u32, len: u32, most: u32, boundary: u32) -> u32 {
    let end = at + most;
    if len <= most {
        return len;
    }
    let cut = end - end % boundary;
    if cut > at { cut - at } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platform;

    fn costs() -> Costs {
        Costs::of(&Platform::named("icx-e810").unwrap()).unwrap()
    }

    #[test]
    fn a_direction_is_a_queue() {
        let (costs, mut d) = (costs(), Direction::default());
        let one = costs.on_link(88);
        assert_eq!(one, 3096); // 227.4 Gbit/s
        let sent: Vec<Ps> = (0..100).map(|_| d.send(5000, 88, &costs)).collect();
        assert_eq!((sent[0], sent[99]), (5000 + one, 5000 + 100 * one));
        assert_eq!(d.send(10_000_000, 88, &costs), 10_000_000 + one);
        assert_eq!(d.lane, PcieLane { packets: 101, bytes: 8888, busy: 101 * one });
    }

    #[test]
    fn pieces_end_on_boundaries() {
        let pieces = |mut at: u32, mut len: u32, most, boundary| {
            let mut all = vec![];
            while len > 0 {
                let n = first_piece(at, len, most, boundary);
                all.push(n);
                (at, len) = (at + n, len - n);
            }
            all
        };
        assert_eq!(pieces(0, 1500, 256, 64), [256, 256, 256, 256, 256, 220]);
        assert_eq!(pieces(48, 500, 256, 64), [208, 256, 36]);
        assert_eq!(pieces(48, 64, 256, 64), [64]);
        assert_eq!(pieces(4000, 512, 512, 4096), [512]);
        assert_eq!(pieces(4000, 600, 512, 4096), [96, 504]);
        assert_eq!(pieces(10, 64, 16, 16), [6, 16, 16, 16, 10]);
    }
}
