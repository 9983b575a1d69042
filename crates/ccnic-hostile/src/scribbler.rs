//! What a hostile program writes into its region while the NIC serves it: anything anywhere, and the things that an
//! attacker would choose.

use std::ops::Range;
use std::os::fd::AsFd;

use crate::memory::RegionMemory;
use anyhow::Context;
use ccnic::desc::{FLAG_KEPT, FLAG_MORE, FLAG_SMALL, SIGNAL_SHIFT};
use ccnic::host;
use ccnic::layout::{QueueLayout, RingLayout};
use ccnic::{Design, LINE, Layout, SharedMemory};
use ccnic_shm::{NativeMemory, Region};
use rustix::fs::{FallocateFlags, fallocate};

use crate::Random;

/// Writes into a region what does not belong there.
#[derive(Debug)]
pub struct Scribbler {
    mem: NativeMemory,
    layout: Layout,
    queue: QueueLayout,
    random: Random,
    /// The position that was moved last: where, to what, from what.
    moved: (u32, u64, u64),
}

impl Scribbler {
    /// One with its own way into the memory of `region`; it writes to the rings of the first queue.
    ///
    /// # Errors
    /// When the region has no queue.
    pub fn new(region: &Region, layout: &Layout, random: Random) -> anyhow::Result<Scribbler> {
        let queue = layout.queue(0).context("the region has no queue")?;
        Ok(Scribbler { mem: region.memory(), layout: *layout, queue, random, moved: (0, 0, 0) })
    }

    /// Goes on with the rings of another queue.
    ///
    /// # Errors
    /// When the region has no such queue.
    pub fn turn_to(&mut self, queue: u16) -> anyhow::Result<()> {
        self.queue = self.layout.queue(queue).with_context(|| format!("the region has no queue {queue}"))?;
        Ok(())
    }

    fn design(&self) -> Design {
        self.layout.config().design
    }

    /// The parts of the region, so that the small ones are hit as often as the buffers.
    fn zones(&self) -> [Range<u32>; 12] {
        let (pool, q) = (self.layout.pool(), &self.queue);
        let ring = |r: RingLayout| r.units..r.units + r.count * self.design().unit();
        let nic_lines = self.layout.nic_segment().start;
        [
            0..64,
            64..4096,
            4096..pool.small,
            pool.small..pool.links,
            pool.links..pool.kinds,
            pool.kinds..pool.kinds + 8 * self.layout.config().buffers,
            ring(q.tx),
            ring(if self.layout.config().shared_pool { q.tx } else { q.fill }),
            pool.buffers..pool.end,
            nic_lines..nic_lines + 5 * LINE,
            ring(q.rx),
            0..self.layout.size(),
        ]
    }

    /// A byte, a word or a line of random values anywhere.
    pub fn scribble(&mut self) {
        let zones = self.zones();
        let zone = &zones[self.random.below(zones.len() as u64) as usize];
        let at = zone.start + self.random.below(u64::from(zone.end - zone.start)) as u32;
        let (word, line) = (self.random.word(), at & !(LINE - 1));
        match self.random.below(4) {
            0 => self.mem.write(at, &[word as u8]),
            1 => self.mem.store(at & !7, word),
            // Small numbers pass more checks.
            2 => self.mem.store(at & !7, word & 0xff),
            _ => (0..8).for_each(|i| {
                let word = self.random.word();
                self.mem.store(line + 8 * i, word);
            }),
        }
    }

    /// One of the things that look right and are not.
    pub fn aim(&mut self) {
        match self.random.below(100) {
            0..40 => self.forge_descriptors(),
            40..45 => self.endless_chain(),
            45..60 => self.poison_depot(),
            60..75 => self.move_positions(),
            75..80 => self.change_pool(),
            80..85 => self.change_header(),
            85..90 => self.scribble(),
            90..95 => self.sleep(),
            _ => self.take_all(),
        }
    }

    /// A hole in the file: its pages go, and come back as zeros when they are touched.
    ///
    /// # Errors
    /// When the NIC has sealed the region against that.
    pub fn punch_hole(&mut self, region: &Region) -> rustix::io::Result<()> {
        let pages = u64::from(self.layout.size() / 4096);
        let first = self.random.below(pages);
        let count = 1 + self.random.below(pages - first);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(region.as_fd(), flags, first * 4096, count * 4096)
    }

    /// The header as it was: a region that can be attached again, whatever the rest of it holds.
    pub fn restore_header(&self) {
        self.layout.store(&self.mem);
    }

    /// The region as it was when it was made.
    pub fn start_afresh(&mut self) {
        let nic = self.layout.nic_segment();
        for part in [0..self.layout.pool().buffers, nic] {
            self.mem.write(part.start, &vec![0; part.len()]);
        }
        host::format(&self.mem, &self.layout);
        self.moved = (0, 0, 0);
    }

    /// Takes what the NIC has delivered, as a program would: the ring is empty again.
    fn take_all(&mut self) {
        let ring = self.queue.rx;
        if matches!(self.design(), Design::GroupedEpoch | Design::Doorbell) {
            self.mem.store_release(ring.head, self.mem.load_acquire(ring.tail));
        } else {
            (0..ring.count).for_each(|i| self.mem.store(ring.units + i * self.design().unit(), 0));
        }
    }

    fn offset(&mut self) -> u32 {
        let pool = *self.layout.pool();
        let inside = pool.buffers + self.random.below(u64::from(pool.end - pool.buffers)) as u32;
        let aligned = inside & !4095;
        let (end, size) = (pool.end, self.layout.size());
        self.random.pick(&[
            inside,
            aligned,
            aligned,
            aligned + 128,
            aligned + 4095,
            aligned + 4032,
            pool.buffers - 1,
            end,
            end - 1,
            end - 64,
            end - 4096,
            0,
            size,
            size - 1,
            size.wrapping_sub(4096),
            u32::MAX,
            u32::MAX - 4095,
        ])
    }

    fn descriptor(&mut self) -> u64 {
        let len: u64 =
            self.random.pick(&[0, 1, 63, 64, 65, 127, 128, 129, 1500, 4095, 4096, 4097, 9600, 65535]);
        let flags: u8 = self.random.pick(&[
            0,
            0,
            0,
            FLAG_SMALL,
            FLAG_MORE,
            FLAG_MORE | FLAG_SMALL,
            FLAG_KEPT,
            FLAG_MORE | FLAG_KEPT,
            0xff,
        ]);
        u64::from(self.offset()) | len << 32 | u64::from(flags) << 48
    }

    /// Publishes `count` descriptors in units from the consumer's position on, as its producer would.
    fn publish(&mut self, ring: &RingLayout, count: u64, mut descriptor: impl FnMut(&mut Scribbler) -> u64) {
        let (unit, per) = (self.design().unit(), u64::from(self.design().per_unit()));
        let doorbell = self.design() == Design::Doorbell;
        let taken = self.mem.load(ring.taken);
        let first = if doorbell { taken } else { taken >> 3 };
        let bits = ring.count.trailing_zeros();
        for unit_number in (0..count.div_ceil(per)).map(|i| first.wrapping_add(i)).rev() {
            let at = ring.units + (unit_number as u32 & (ring.count - 1)) * unit;
            let even = (unit_number >> bits) & 1 == 0;
            let said = 1 + self.random.below(per.max(1)) as u8;
            let signal = match self.design() {
                Design::Doorbell => 0,
                Design::GroupedEpoch => said | if even { 0x80 } else { 0 },
                _ => said | 0x80 | if even { 8 } else { 0 },
            };
            for i in (0..per as u32).rev() {
                let word = descriptor(self) | if i == 0 { u64::from(signal) << SIGNAL_SHIFT } else { 0 };
                let meta = self.random.word();
                self.mem.store(at + 16 * i + 8, meta);
                self.mem.store_release(at + 16 * i, word);
            }
        }
        if doorbell {
            self.mem.store_release(ring.tail, first.wrapping_add(count));
        }
    }

    fn ring(&mut self) -> RingLayout {
        let q = self.queue;
        let fill = if self.layout.config().shared_pool { q.tx } else { q.fill };
        self.random.pick(&[q.tx, q.tx, q.tx, fill, fill, q.rx])
    }

    fn forge_descriptors(&mut self) {
        let (ring, count) = (self.ring(), 1 + self.random.below(64));
        self.publish(&ring, count, Scribbler::descriptor);
    }

    /// A ring full of descriptors, legal but for one thing: the packet does not end.
    fn endless_chain(&mut self) {
        let ring = self.queue.tx;
        let at = self.layout.pool().buffers;
        let len = self.random.pick(&[1, 64, 128]);
        let full = u64::from(self.layout.config().ring);
        self.publish(&ring, full, |_| u64::from(at) | len << 32 | u64::from(FLAG_MORE) << 48);
    }

    /// Cycles in the free lists, batches that name a buffer many times, or none.
    fn poison_depot(&mut self) {
        let pool = *self.layout.pool();
        let slots = (pool.end - pool.buffers) / 128;
        let (a, b) = (self.random.below(slots.into()) as u32, self.random.below(slots.into()) as u32);
        let (a, b) = if self.random.below(2) == 0 { (a & !31, b & !31) } else { (a, b) };
        let count = self.random.pick(&[0u64, 1, 2, 32, 33, u64::from(u32::MAX)]);
        let next = self.random.pick(&[a + 1, b + 1, 0, slots, slots + 1, u32::MAX]);
        self.mem.store(pool.links + 8 * a, count << 32 | u64::from(b + 1));
        self.mem.store(pool.links + 8 * b, count << 32 | u64::from(next));
        for slot in [a, b] {
            for i in 0..32 {
                let offset = self.offset();
                self.mem.write(pool.buffers + slot * 128 + 4 * i, &offset.to_le_bytes());
            }
        }
        let head = self.random.pick(&[pool.small, pool.large]);
        let tag = if self.random.below(2) == 0 { self.mem.load(head) >> 32 } else { self.random.word() };
        self.mem.store_release(head, tag << 32 | u64::from(a + 1));
    }

    /// Moves a position, and the one before back where it was if nobody else has: with all of them gone, the NIC would
    /// find nothing any more.
    fn move_positions(&mut self) {
        let (at, to, from) = self.moved;
        let _ = self.mem.compare_exchange(at, to, from); // an error says that the NIC has moved it on
        let ring = self.ring();
        let line = self.random.pick(&[ring.tail, ring.head, ring.taken]);
        let (now, count) = (self.mem.load(line), u64::from(ring.count));
        let to = self.random.pick(&[
            u64::MAX,
            u64::MAX - 1,
            0,
            1,
            1 << 63,
            1 << 56,
            (1 << 56) - 1,
            1 << 53,
            now.wrapping_add(1),
            now.wrapping_sub(1),
            now.wrapping_add(count),
            now.wrapping_add(count + 1),
            now.wrapping_sub(count),
            now ^ 7,
        ]);
        self.moved = (line, to, now);
        self.mem.store_release(line, to);
    }

    /// Says that the program sleeps, wherever it may have stopped.
    fn sleep(&mut self) {
        let (at, tail) = (self.queue.rx_event, self.mem.load(self.queue.rx.tail));
        let word = self.random.word();
        let position =
            self.random.pick(&[0, 1, 2, tail, tail.wrapping_sub(1), tail.wrapping_add(1), u64::MAX, word]);
        self.mem.store_release(at, position);
    }

    fn change_pool(&mut self) {
        let pool = *self.layout.pool();
        let chunk = self.random.below(self.layout.config().buffers.into()) as u32;
        let word = self.random.word();
        let value = self.random.pick(&[0, 1, u64::MAX, word]);
        let at = self.random.pick(&[pool.split, pool.kinds + 8 * chunk, pool.small, pool.large]);
        self.mem.store(at, value);
    }

    fn change_header(&mut self) {
        let word = self.random.word();
        let value = self.random.pick(&[0, 1, u64::MAX, word, word & 0xffff]);
        let at = 8 * self.random.below(8) as u32;
        self.mem.store(at, value);
    }
}
