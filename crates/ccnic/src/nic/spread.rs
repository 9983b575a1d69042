//! Loopback with receive-side scaling: a program's packets go back to it, each to the receive queue of its
//! flow.
//!
//! No queue waits for another: a packet that has no room on its receive queue is dropped and counted, as NICs
//! do it. A program may therefore poll some of its queues only, and a slow queue does not delay the flows of
//! the others.

use crate::config::Config;
use crate::desc::Desc;
use crate::memory::{LINE, SharedMemory};
use crate::ring::Ring;
use crate::rss::{START, Spreader};

use super::deliver::Busy;
use super::fetched::first;
use super::loopback::Pipeline;
use super::{FETCH, NicQueue};

/// Indices of queues that packets were delivered to: their programs may wait to be notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receivers([u64; Config::MAX_QUEUES as usize / 64]);

impl Receivers {
    #[inline(always)]
    pub(super) fn insert(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    /// Takes out the indices, in ascending order.
    #[inline]
    pub fn take(&mut self) -> impl Iterator<Item = usize> {
        let words = core::mem::take(self).0.into_iter().enumerate();
        words.flat_map(|(at, mut word)| {
            core::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(64 * at + bit)
            })
        })
    }
}

/// A burst of descriptors with the receive queue that each goes to, taken out again queue by queue.
#[derive(Debug)]
pub struct Steered {
    /// With the metadata that they are received with.
    descs: [Desc; FETCH],
    /// A queue number for each.
    to: [u16; FETCH],
    len: usize,
    /// One bit for each descriptor that has not been picked.
    left: u32,
    /// The queues that [`deliver_handed`](super::deliver_handed()) has delivered to.
    pub(super) receivers: Receivers,
}

impl Default for Steered {
    #[inline(always)]
    fn default() -> Steered {
        Steered {
            descs: [Desc::default(); FETCH],
            to: [0; FETCH],
            len: 0,
            left: 0,
            receivers: Receivers::default(),
        }
    }
}

/// Where packets go that a flow rule drops, in place of a queue number.
pub(super) const DROP: u16 = u16::MAX;

impl Steered {
    /// The queue of each of `packets`, which lie in `mem`, as `spreader` says; at most [`FETCH`] descriptors. Those of packets to be
    /// dropped have [`DROP`]; those that neither a rule nor a hash is for have `home`.
    #[inline(always)]
    pub(super) fn new<M: SharedMemory>(mem: &M, spreader: &Spreader, packets: &[Desc], home: u16) -> Steered {
        if spreader.has_rules() {
            return Steered::by_rules(mem, spreader, packets, home);
        }
        let mut steered = Steered::default();
        let (mut to, mut meta, mut inside) = (0, 0, false);
        let mut bytes = [0; START];
        for (i, desc) in packets.iter().enumerate().take(FETCH) {
            if !inside {
                let hash = spreader.hash(start(mem, packets.get(i..).unwrap_or_default(), &mut bytes));
                (to, meta) = (spreader.queue(hash), spreader.meta(desc.meta, hash));
            }
            // Not `push`: with the index as it is, the loop is a tenth shorter.
            if let (Some(slot), Some(queue)) = (steered.descs.get_mut(i), steered.to.get_mut(i)) {
                (*slot, *queue) = (desc.with_meta(meta), to);
            }
            steered.left |= 1 << i;
            inside = desc.more();
        }
        steered.len = packets.len().min(FETCH);
        steered
    }

    /// `new` where there are flow rules. Out of line: without them it stays short.
    #[inline(never)]
    fn by_rules<M: SharedMemory>(mem: &M, spreader: &Spreader, packets: &[Desc], home: u16) -> Steered {
        let mut steered = Steered::default();
        let mut bytes = [0; START];
        let mut rest = packets.get(..packets.len().min(FETCH)).unwrap_or_default();
        while !rest.is_empty() {
            let (packet, others) = rest.split_at(first(rest).len());
            let len = packet.iter().map(|desc| u32::from(desc.len())).sum();
            let sent = packet.first().map_or(0, |desc| desc.meta);
            let (to, meta) = spreader.decide(start(mem, packet, &mut bytes), len, sent, home);
            packet.iter().for_each(|desc| _ = steered.push(desc.with_meta(meta), to.unwrap_or(DROP)));
            rest = others;
        }
        steered
    }

    /// Adds a descriptor for queue `to`; false when the burst is full. All segments of a packet go to one
    /// queue, one after the other.
    #[inline(always)]
    pub fn push(&mut self, desc: Desc, to: u16) -> bool {
        let (Some(slot), Some(queue)) = (self.descs.get_mut(self.len), self.to.get_mut(self.len)) else {
            return false;
        };
        (*slot, *queue) = (desc, to);
        self.left |= 1 << self.len;
        self.len += 1;
        true
    }

    /// The indices of the queues that the burst has been delivered to.
    pub fn receivers(&mut self) -> &mut Receivers {
        &mut self.receivers
    }

    /// The descriptors added, in order.
    #[inline(always)]
    pub(super) fn descs(&self) -> &[Desc] {
        self.descs.get(..self.len).unwrap_or_default()
    }

    /// Takes out all descriptors, queue by queue: calls `deal` with each queue, its packets in order, and those of `ahead`, the packets of
    /// the next burst, that are to be prefetched meanwhile.
    #[inline(always)]
    pub fn deal(&mut self, mut ahead: &[Desc], mut deal: impl FnMut(u16, &[Desc], &[Desc])) {
        let mut picked = [Desc::default(); FETCH];
        while let Some((to, n)) = self.pick(&mut picked) {
            let (now, later) = ahead.split_at(ahead.len().min(n));
            ahead = later;
            deal(to, picked.get(..n).unwrap_or_default(), now);
        }
    }

    /// Takes out the descriptors of the next queue, in order; returns the queue and their number.
    #[inline(always)]
    pub(super) fn pick(&mut self, picked: &mut [Desc; FETCH]) -> Option<(u16, usize)> {
        let to = *self.to.get(self.left.trailing_zeros() as usize)?;
        let same = self.to.iter().enumerate().fold(0, |same, (i, queue)| same | u32::from(*queue == to) << i);
        let mut now = self.left & same;
        self.left &= !same;
        let mut n = 0;
        while let (Some(desc), Some(slot)) =
            (self.descs.get(now.trailing_zeros() as usize), picked.get_mut(n))
        {
            *slot = *desc;
            n += 1;
            now &= now - 1;
        }
        Some((to, n))
    }
}

/// The first bytes of the first packet, copied out once: a program may change them at any time.
#[inline(always)]
fn start<'a, M: SharedMemory>(mem: &M, packets: &[Desc], bytes: &'a mut [u8; START]) -> &'a [u8] {
    let Some(desc) = packets.first() else { return &[] };
    let len = if desc.more() {
        gather(mem, packets, bytes)
    } else {
        let len = START.min(desc.len().into());
        let (lines, tail) = bytes.get_mut(..len).unwrap_or_default().as_chunks_mut::<{ LINE as usize }>();
        let mut at = desc.offset();
        for line in lines {
            mem.read(at, line);
            at = at.wrapping_add(LINE);
        }
        if !tail.is_empty() {
            mem.read(at, tail);
        }
        len
    };
    bytes.get(..len).unwrap_or_default()
}

/// Copies the first bytes of the first packet, which may have several segments, into `bytes`; returns how many there were.
#[cold]
#[inline(never)]
pub fn gather<M: SharedMemory>(mem: &M, packets: &[Desc], bytes: &mut [u8]) -> usize {
    let mut done = 0;
    for desc in packets {
        let end = bytes.len().min(done + usize::from(desc.len()));
        if let Some(part) = bytes.get_mut(done..end).filter(|part| !part.is_empty()) {
            mem.read(desc.offset(), part);
        }
        done = end;
        if !desc.more() {
            break;
        }
    }
    done
}

/// One poll of queue `from` of a program: fetches a burst, delivers each packet to the queue that `spreader`
/// says, publishes. Returns the descriptors dealt with.
///
/// `queues` are all queues of one region, in order, and `spreader`'s table names no others. Where several
/// cores poll them, see [`spread_across`](super::spread_across()).
#[inline(always)]
pub fn spread<M: SharedMemory, R: Ring>(
    queues: &mut [NicQueue<M, R>],
    from: usize,
    pipeline: &mut Pipeline,
    mem: &M,
    spreader: &Spreader,
    reflect: bool,
) -> usize {
    let Some(source) = queues.get_mut(from) else { return 0 };
    if !pipeline.fill(source) {
        return pipeline.nothing(source);
    }
    let (idle, home) = (source.idle, source.number);
    let (current, next, receivers) = pipeline.parts();
    let part = current.part();
    let n = part.len();
    Steered::new(mem, spreader, part, home).deal(
        next.beyond(current),
        #[inline(always)]
        |to, packets, ahead| {
            // Table and rules name existing queues only: that was checked when they were set.
            let Some(queue) = queues.get_mut(usize::from(to)) else {
                queues.get_mut(from).into_iter().for_each(|source| source.drop_by_rule(packets));
                return;
            };
            queue.idle = idle;
            queue.deliver_or_drop(mem, packets, ahead, reflect);
            receivers.insert(usize::from(to));
        },
    );
    current.advance(n);
    if let Some(source) = queues.get_mut(from) {
        source.done(n);
        source.flush();
    }
    n
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Delivers packets that a queue of the same region has fetched, and publishes them; what there is no
    /// room for is dropped. Their buffers are freed to this queue's magazine, so that the buffers received
    /// into next are still in this core's cache.
    #[inline(always)]
    pub(super) fn deliver_or_drop(&mut self, mem: &M, packets: &[Desc], ahead: &[Desc], reflect: bool) {
        if reflect {
            let n = self.reflect_most(packets);
            let rest = packets.get(n..).unwrap_or_default();
            self.free_all(rest);
            self.count_dropped(rest, Busy::RingFull);
        } else {
            let (n, busy) = self.deliver_most(mem, packets, ahead);
            self.free_all(packets);
            if let Some(busy) = busy {
                self.count_dropped(packets.get(n..).unwrap_or_default(), busy);
            }
        }
        self.flush();
    }

    #[cold]
    #[inline(never)]
    pub(super) fn count_dropped(&mut self, rest: &[Desc], why: Busy) {
        let packets = count_packets(rest);
        match why {
            Busy::RingFull => self.counters.dropped_ring_full += packets,
            Busy::NoBuffer => self.counters.dropped_no_buffer += packets,
        }
        self.publish_dropped(packets);
    }

    /// Frees and counts packets of this region that a rule of its program drops. The program wants none of them: they are not among those
    /// that it has missed.
    #[cold]
    #[inline(never)]
    pub(super) fn drop_by_rule(&mut self, packets: &[Desc]) {
        self.free_all(packets);
        self.counters.dropped_by_rule += count_packets(packets);
    }

    /// Counts packets that another one has dropped because this queue had no room for them, for the NIC and for the program.
    #[cold]
    #[inline(never)]
    pub fn count_missed(&mut self, packets: u64) {
        self.counters.dropped_ring_full += packets;
        self.publish_dropped(packets);
    }

    /// Adds to the count of dropped packets that the program reads.
    pub(super) fn publish_dropped(&mut self, packets: u64) {
        self.mem.store(self.rx_dropped, self.mem.load(self.rx_dropped).wrapping_add(packets));
    }
}

/// Packets that end in these descriptors.
#[inline]
pub(super) fn count_packets(descs: &[Desc]) -> u64 {
    descs.iter().filter(|desc| !desc.more()).count() as u64
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::host::QueuePair;
    use crate::ring::GroupedEpoch;
    use crate::rss::{Fate, FlowRules, HASHED, MARKED, Rss};
    use crate::testing::{config, region};
    use std::vec::Vec;

    /// The start of a UDP packet of flow `flow`.
    fn packet(flow: u8) -> [u8; 60] {
        let mut bytes = [0; 60];
        bytes[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
        bytes[29] = flow;
        bytes
    }

    /// Drops flow 0, sends flow 1 to queue 1 with its length as metadata, and leaves all others where they are.
    #[derive(Debug)]
    struct ByFlow;

    impl FlowRules for ByFlow {
        fn decide(&self, start: &[u8], len: u32, _: u64, meta: u64) -> (Fate, u64) {
            match start[29] {
                0 => (Fate::Drop, meta),
                1 => (Fate::Queue(1), len.into()),
                _ => (Fate::Default, meta),
            }
        }
    }

    #[test]
    fn rules_come_before_the_hash_and_what_they_drop_is_freed() {
        for (rss, shared_pool) in [(None, true), (Some(Rss::new(1)), true), (None, false)] {
            let config = Config { queues: 2, buffers: 64, shared_pool, ..config::<GroupedEpoch>() };
            let (mem, layout) = region(&config);
            let hosts = (0..2).map(|q| QueuePair::<_, GroupedEpoch>::new(mem.clone(), &layout, q));
            let mut hosts: Vec<_> = hosts.map(Result::unwrap).collect();
            let nics = (0..2).map(|q| NicQueue::<_, GroupedEpoch>::new(mem.clone(), &layout, q));
            let mut nics: Vec<_> = nics.map(Result::unwrap).collect();
            let home = usize::from(rss.is_none());
            let spreader = Spreader::with_rules(rss, std::boxed::Box::new(ByFlow));
            let (mut pipeline, mut burst) = (Pipeline::default(), crate::Burst::new());
            let mut got = [[0; 3]; 2];
            for round in 0..200u64 {
                let packets = [0, 1, 2].map(packet);
                assert_eq!(
                    hosts[1].tx_small(60, packets.iter().map(|p| (&p[..], 9)), &mut burst),
                    3,
                    "{round}"
                );
                while spread(&mut nics, 1, &mut pipeline, &mem, &spreader, false) > 0 {}
                for (host, got) in hosts.iter_mut().zip(&mut got) {
                    let receive = |_, bytes: &[u8], meta| {
                        assert_eq!(meta, if bytes[29] == 1 { 60 } else { 9 });
                        got[usize::from(bytes[29])] += 1;
                    };
                    host.rx_small(32, receive).unwrap();
                }
            }
            let mut expected = [[0, 0, 0], [0, 200, 0]];
            expected[home][2] = 200; // with RSS of one queue there; without, where it was sent
            assert_eq!(got, expected);
            assert_eq!(nics[1].counters().dropped_by_rule, 200);
            assert_eq!(hosts.iter().map(|host| host.drops().rx_dropped).sum::<u64>(), 0, "it misses none");
        }
    }

    #[test]
    fn a_senders_mark_does_not_take_the_place_of_a_hash() {
        let by = Spreader::new(Rss { hash: true, ..Rss::new(1) });
        for start in [&packet(1)[..], &[0; 60]] {
            let meta = by.meta(MARKED | 0xbeef << 16, by.hash(start));
            assert_eq!(meta & (MARKED | HASHED), if by.hash(start).is_some() { HASHED } else { 0 });
        }
    }

    #[test]
    fn receivers_are_taken_once() {
        let mut receivers = Receivers::default();
        [200, 3, 255, 64, 3, 256, 9999].into_iter().for_each(|at| receivers.insert(at));
        assert_eq!(receivers.take().collect::<Vec<_>>(), [3, 64, 200, 255]);
        assert_eq!(receivers.take().count(), 0);
    }

    #[test]
    fn each_flow_comes_to_its_queue_and_a_full_queue_drops() {
        let (mem, layout) = region(&Config { queues: 2, buffers: 256, ..config::<GroupedEpoch>() });
        let hosts = (0..2).map(|q| QueuePair::<_, GroupedEpoch>::new(mem.clone(), &layout, q));
        let mut hosts: Vec<_> = hosts.map(Result::unwrap).collect();
        let nics = (0..2).map(|q| NicQueue::<_, GroupedEpoch>::new(mem.clone(), &layout, q));
        let mut nics: Vec<_> = nics.map(Result::unwrap).collect();
        let (spreader, mut pipeline) = (Spreader::new(Rss::new(2)), Pipeline::default());
        let of = |flow| spreader.queue(spreader.hash(&packet(flow)));
        let mut burst = crate::Burst::new();
        let mut sent = [0u64; 2];
        for round in 0..32u8 {
            let packets: Vec<_> = (0..8).map(|i| packet(round * 8 + i)).collect();
            let n = hosts[0].tx_small(60, packets.iter().map(|p| (&p[..], 0)), &mut burst);
            assert_eq!(n, 8);
            (0..8).for_each(|i| sent[usize::from(of(round * 8 + i))] += 1);
            while spread(&mut nics, 0, &mut pipeline, &mem, &spreader, false) > 0 {}
            // The program polls its first queue only.
            while hosts[0].rx_small(32, |_, bytes, _| assert_eq!(of(bytes[29]), 0)).unwrap() > 0 {}
        }
        assert!(sent[1] > 100, "{sent:?}");
        assert_eq!(pipeline.receivers().take().collect::<Vec<_>>(), [0, 1]);
        let dropped = nics[1].counters().dropped_ring_full;
        assert_eq!((nics[0].counters().rx_packets, nics[0].counters().dropped_ring_full), (sent[0], 0));
        assert_eq!((nics[1].counters().rx_packets + dropped, dropped > 0), (sent[1], true));
        assert_eq!(hosts[1].drops().rx_dropped, dropped);
        let mut left = 0;
        while let Ok(n @ 1..) = hosts[1].rx_small(32, |_, bytes, _| assert_eq!(of(bytes[29]), 1)) {
            left += n;
        }
        assert_eq!(left as u64 + dropped, sent[1]);
    }
}
