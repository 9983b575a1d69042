//! For a NIC with packets of its own, such as a program in C: buffers that it holds, and packets in its own
//! memory.
//!
//! Such a NIC holds descriptors. Each that it gives back is checked like those of the other side, since it
//! may make mistakes.

use crate::desc::{CHAIN_MAX, Desc, FLAG_MORE};
use crate::memory::{Fetch, SharedMemory, prefetch_payload};
use crate::pool::{Class, data_offset};
use crate::ring::{Producer, Ring};

use super::NicQueue;
use super::deliver::Busy;
use super::fetched::first;

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// True when a descriptor names bytes inside one buffer of the pool.
    #[inline(always)]
    pub fn names_buffer(&self, desc: Desc) -> bool {
        self.holds(desc)
    }

    /// Allocates buffers for packets of `len` bytes, as many whole packets as fit into `out`; returns the
    /// number of buffers. Their lines are prefetched for writing. Returns 0 with the host-managed pool, where
    /// the host decides which buffer comes next.
    #[inline(always)]
    pub fn alloc(&mut self, len: u16, out: &mut [Desc]) -> usize {
        if !self.config.shared_pool {
            return 0;
        }
        let mut n = 0;
        while let Some(rest) = out.get_mut(n..).filter(|rest| !rest.is_empty()) {
            match self.alloc_packet(len, rest) {
                0 => break,
                segments => n += segments,
            }
        }
        n
    }

    /// Buffers for one packet, or none.
    #[inline(always)]
    fn alloc_packet(&mut self, len: u16, out: &mut [Desc]) -> usize {
        let (mut left, mut n) = (u32::from(len), 0);
        while let Some(slot) = out.get_mut(n).filter(|_| n < CHAIN_MAX) {
            let Some((at, class)) = self.pool.alloc(&self.mem, self.pool.class(left)) else { break };
            let part = left.min(class.size());
            left -= part;
            let flags = class.flag() | if left > 0 { FLAG_MORE } else { 0 };
            let at = data_offset(at, part, class);
            *slot = Desc::new(at, part as u16, flags);
            prefetch_payload(&self.mem, at, part, Fetch::Write);
            n += 1;
            if left == 0 {
                return n;
            }
        }
        for desc in out.iter().take(n).rev() {
            self.free(*desc);
        }
        0
    }

    /// Delivers a packet that lies in `parts` in the caller's memory; false when there is no room or no
    /// buffer for all of it. The program sees it after [`flush`](NicQueue::flush).
    ///
    /// The caller makes sure that the packet is no longer than the MTU.
    #[inline(always)]
    pub fn deliver_bytes(&mut self, parts: &[&[u8]], meta: u64) -> bool {
        if self.has_areas()
            && let [bytes] = parts
            && bytes.len() <= self.inline_max() as usize
        {
            self.publish(false);
            let Some(at) = self.rx.place(&self.mem, bytes.len() as u32) else {
                self.counters.ring_full += 1;
                return false;
            };
            self.mem.write(at, bytes);
            self.add_inline(at, bytes.len() as u32, meta);
            return true;
        }
        if let [bytes] = parts
            && bytes.len() <= Class::Large.size() as usize
            && self.room(1) == 1
            && let Some((at, class)) = self.take_buffer(bytes.len() as u32)
        {
            if bytes.len() <= class.size() as usize {
                self.mem.write(at, bytes);
                self.stage(at, bytes.len() as u16, class, false, meta);
                self.counters.rx_packets += 1;
                self.counters.rx_bytes += bytes.len() as u64;
                return true;
            }
            self.put_back(at, class);
        }
        self.deliver_parts(parts, meta)
    }

    /// `deliver_bytes` for several parts or buffers, and the reasons not to deliver.
    #[cold]
    #[inline(never)]
    fn deliver_parts(&mut self, parts: &[&[u8]], meta: u64) -> bool {
        let total = parts.iter().map(|part| part.len() as u32).sum();
        let mut buffers = [(0, Class::Large); CHAIN_MAX];
        let n = match self.take_room(total, &mut buffers) {
            Ok(n) => n,
            Err(Busy::RingFull) => {
                self.counters.ring_full += 1;
                return false;
            }
            Err(Busy::NoBuffer) => {
                self.counters.no_buffer += 1;
                return false;
            }
        };
        let mut bytes = parts.iter().copied();
        let (mut left, mut from): (u32, &[u8]) = (total, &[]);
        for &(at, class) in buffers.get(..n).unwrap_or_default() {
            let part = left.min(class.size());
            let mut done = 0;
            while done < part {
                if from.is_empty() {
                    let Some(next) = bytes.next() else { break };
                    from = next;
                    continue;
                }
                let (now, later) = from.split_at(from.len().min((part - done) as usize));
                self.mem.write(at + done, now);
                done += now.len() as u32;
                from = later;
            }
            left -= part;
            self.stage(at, part as u16, class, left > 0, meta);
        }
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += u64::from(total);
        true
    }

    /// How many of the first descriptors make whole packets that the program may be given without a copy:
    /// buffers of its pool, with data, within the MTU. The second value says what is wrong with the packet
    /// after them.
    #[inline(always)]
    pub fn whole_packets(&self, descs: &[Desc]) -> (usize, Option<BadPacket>) {
        if descs.iter().fold(true, |ok, d| ok & !d.borrowed() & self.plain(*d)) {
            return (descs.len(), None);
        }
        self.whole_packets_one_by_one(descs)
    }

    #[cold]
    #[inline(never)]
    fn whole_packets_one_by_one(&self, descs: &[Desc]) -> (usize, Option<BadPacket>) {
        let mut n = 0;
        loop {
            let packet = first(descs.get(n..).unwrap_or_default());
            let Some(last) = packet.last() else { return (n, None) };
            let len = packet.iter().map(|d| u32::from(d.len())).sum::<u32>();
            let bad = if !packet.iter().all(|d| !d.borrowed() && self.legal(*d)) {
                Some(BadPacket::NoBuffer)
            } else if packet.len() > CHAIN_MAX || len > u32::from(self.config.mtu) {
                Some(BadPacket::TooLong)
            } else if last.more() {
                Some(BadPacket::NoEnd)
            } else {
                None
            };
            if bad.is_some() {
                return (n, bad);
            }
            n += packet.len();
        }
    }

    /// Frees buffers that this side holds, fetched or allocated. With the host-managed pool the host frees
    /// them when the ring hands their units back.
    #[inline(always)]
    pub fn give_back(&mut self, descs: &[Desc]) {
        debug_assert!(descs.iter().all(|d| self.pool.holds(d.offset(), 0, Class::of(*d))));
        if !self.has_areas() {
            self.done(descs.len());
        }
        self.free_all(descs);
    }
}

/// Why a packet cannot be given to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadPacket {
    /// A descriptor names no bytes of the pool, or none.
    NoBuffer,
    /// Longer than the MTU, or more segments than a chain may have.
    TooLong,
    /// Its last descriptor has the flag MORE.
    NoEnd,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::desc::FLAG_MORE;
    use crate::layout::LARGE_BUF;
    use crate::ring::GroupedEpoch;
    use crate::testing::{Sides, config};

    #[test]
    fn packets_in_parts_become_as_many_buffers_as_they_need() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let (one, two) = ([1; 5000], [1; 100]);
        assert!(sides.nic.deliver_bytes(&[&two], 0));
        assert!(sides.nic.deliver_bytes(&[&two, &[], &one], 0));
        sides.nic.flush();
        let mut lens = [0; 3].into_iter();
        let mut sum = 0;
        let n = sides.receive(32, |len, byte| {
            lens.next();
            sum += u32::from(len);
            assert_eq!(byte, Some(1));
        });
        assert_eq!((n, sum, lens.next()), (3, 100 + 5100, None));
    }

    #[test]
    fn whole_packets_may_be_given_and_bad_ones_have_a_reason() {
        let sides = Sides::<GroupedEpoch>::new(&Config { mtu: 6000, ..config::<GroupedEpoch>() });
        let at = sides.layout.pool().buffers;
        let (one, more) = (Desc::new(at, 4000, 0), Desc::new(at, 4000, FLAG_MORE));
        let ask = |descs: &[Desc]| sides.nic.whole_packets(descs);
        assert_eq!(ask(&[one, one]), (2, None));
        assert_eq!(ask(&[one, more.with_len(2000), one]), (3, None));
        assert_eq!(ask(&[one, more, one]), (1, Some(BadPacket::TooLong)));
        assert_eq!(ask(&[one, more]), (1, Some(BadPacket::NoEnd)));
        assert_eq!(ask(&[Desc::new(at + LARGE_BUF - 1, 2, 0)]), (0, Some(BadPacket::NoBuffer)));
        assert_eq!(ask(&[one.with_len(0)]), (0, Some(BadPacket::NoBuffer)));
        assert_eq!(ask(&[more.with_len(1); 9]), (0, Some(BadPacket::TooLong)));
    }

    #[test]
    fn allocated_buffers_are_whole_packets_and_go_back() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut descs = [Desc::default(); 8];
        assert_eq!(sides.nic.alloc(9000, &mut descs), 6);
        assert!(descs[..6].iter().all(|desc| sides.nic.names_buffer(*desc)));
        assert!(descs[..6].iter().map(|desc| desc.more()).eq([true, true, false, true, true, false]));
        let kept = sides.nic.pool.kept();
        sides.nic.give_back(&descs[..6]);
        assert_eq!(sides.nic.pool.kept(), kept + 6);
        let mut managed =
            Sides::<GroupedEpoch>::new(&Config { shared_pool: false, ..config::<GroupedEpoch>() });
        assert_eq!(managed.nic.alloc(64, &mut descs), 0);
    }
}
