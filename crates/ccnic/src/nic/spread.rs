//! The loopback wire with receive-side scaling: packets go back to their program, each to the queue of its flow.
//!
//! No queue waits for another: what has no room on its own is dropped and counted, as NICs do it. A program may then poll some of
//! its queues only, and one that is slow holds up no flow of the others.

use crate::desc::Desc;
use crate::memory::{LINE, SharedMemory};
use crate::ring::Ring;
use crate::rss::{START, Spreader};

use super::deliver::Busy;
use super::wire::Pipeline;
use super::{FETCH, NicQueue};

/// Where the packets of a burst go.
struct Plan {
    /// With the metadata that they are received with.
    descs: [Desc; FETCH],
    /// A queue for each.
    to: [u16; FETCH],
    /// One bit for each that has not been picked.
    left: u32,
}

impl Plan {
    #[inline(always)]
    fn new<M: SharedMemory>(mem: &M, spreader: &Spreader, packets: &[Desc]) -> Plan {
        let mut plan = Plan { descs: [Desc::default(); FETCH], to: [0; FETCH], left: 0 };
        let (mut to, mut meta, mut inside) = (0, 0, false);
        let mut bytes = [0; START];
        for (i, desc) in packets.iter().enumerate().take(FETCH) {
            if !inside {
                let hash = spreader.hash(start(mem, packets.get(i..).unwrap_or_default(), &mut bytes));
                (to, meta) = (spreader.queue(hash), spreader.meta(desc.meta, hash));
            }
            if let (Some(slot), Some(queue)) = (plan.descs.get_mut(i), plan.to.get_mut(i)) {
                (*slot, *queue) = (desc.with_meta(meta), to);
            }
            inside = desc.more();
            plan.left |= 1 << i;
        }
        plan
    }

    /// The next queue and all packets for it, in order; returns their number.
    #[inline(always)]
    fn pick(&mut self, picked: &mut [Desc; FETCH]) -> Option<(u16, usize)> {
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

/// The first bytes of the first packet, copied out: a program may change them meanwhile.
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

/// The same for a packet of several segments.
#[cold]
#[inline(never)]
fn gather<M: SharedMemory>(mem: &M, packets: &[Desc], bytes: &mut [u8; START]) -> usize {
    let mut done = 0;
    for desc in packets {
        let end = START.min(done + usize::from(desc.len()));
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

/// One turn of the loopback for queue `from` of a program's `queues`: fetches a burst, delivers each packet to the queue that
/// `spreader` says, publishes. Returns the segments dealt with.
///
/// All `queues` are of one region, in order, and `spreader`'s table names no others.
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
        return 0;
    }
    let idle = source.idle;
    let Pipeline { current, next } = pipeline;
    let n = current.rest().len();
    let mut ahead = next.rest();
    let mut plan = Plan::new(mem, spreader, current.rest());
    let mut picked = [Desc::default(); FETCH];
    while let Some((to, n)) = plan.pick(&mut picked) {
        let packets = picked.get(..n).unwrap_or_default();
        let (now, later) = ahead.split_at(ahead.len().min(n));
        ahead = later;
        // The table was checked when it was set.
        let Some(queue) = queues.get_mut(usize::from(to)) else { continue };
        queue.idle = idle;
        queue.deliver_or_drop(mem, packets, now, reflect);
    }
    current.advance(n);
    if let Some(source) = queues.get_mut(from) {
        source.done(n);
        source.flush();
    }
    n
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Delivers packets that a queue of the same region has fetched, and publishes them; what there is no room for is dropped.
    /// Their buffers are this queue's to free: the next to be received into are then warm.
    #[inline(always)]
    fn deliver_or_drop(&mut self, mem: &M, packets: &[Desc], ahead: &[Desc], reflect: bool) {
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
    fn count_dropped(&mut self, rest: &[Desc], why: Busy) {
        let packets = rest.iter().filter(|desc| !desc.more()).count() as u64;
        match why {
            Busy::RingFull => self.counters.dropped_ring_full += packets,
            Busy::NoBuffer => self.counters.dropped_no_buffer += packets,
        }
        self.mem.store(self.rx_dropped, self.mem.load(self.rx_dropped).wrapping_add(packets));
    }
}
