//! The depot as DPDK's memory pool has it: a ring of the free buffers, first in, first out, with all of them in it at first (`rte_mempool`
//! over `rte_ring`). For comparison: a buffer comes back after all others, when no cache holds it any more.
//!
//! One agent puts and one gets at a time, as with `RTE_RING_SYNC_MT_HTS` (head and tail in one word, changed by a compare-exchange). Who
//! finds another at it tries again for a while and then gives up: DPDK's would wait for a dead one. A side that dies in the middle leaves
//! the ring to recovery, which makes it anew.
//!
//! It lies where the stack's links would, which do not exist then. So no other offset of the region depends on it.
//!
//! ```text
//! links:  small's puts | small's gets | large's puts | large's gets | large's slots | small's slots       (each begins a line)
//! puts, gets:  63                    1      0          slot: the offset of a buffer, as 8 bytes, like DPDK's pointers
//!              |  buffers so far     | busy |
//! ```

use crate::layout::{LARGE_BUF, PoolLayout, SMALL_BUF};
use crate::memory::{LINE, SharedMemory};

use super::Class;
use super::depot::{BATCH, Batch, Range};

/// Attempts to begin to change an end of the ring: longer than another agent needs for a batch. No end of waiting for a dead or hostile one.
const ATTEMPTS: usize = 1024;
/// Set while an agent changes this end of the ring.
const BUSY: u64 = 1;
/// Words of a line.
const LINE_WORDS: u32 = LINE / 8;
/// Words before the slots.
const POSITIONS: u32 = 4 * LINE_WORDS;

/// The ring of one class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fifo {
    /// Word: how many buffers have been put.
    puts: u32,
    /// Word: how many have been taken.
    gets: u32,
    /// First slot.
    slots: u32,
    /// Slots: as many as there can be buffers of the class.
    count: u32,
    range: Range,
}

impl Fifo {
    pub(super) fn new(layout: &PoolLayout, class: Class, range: Range) -> Fifo {
        let bytes = layout.end - layout.buffers;
        let large = (bytes / LARGE_BUF).next_multiple_of(LINE_WORDS);
        // All words that are left: no more than half of the large buffers are ever subdivided.
        let (line, first, count) = match class {
            Class::Small => (0, POSITIONS + large, bytes / SMALL_BUF - POSITIONS - large),
            Class::Large => (2, POSITIONS, large),
        };
        let puts = layout.links + line * LINE;
        Fifo { puts, gets: puts + LINE, slots: layout.links + first * 8, count, range }
    }

    /// Puts a batch at the end. False when others kept changing it; the buffers are then still the caller's. There is room for every buffer
    /// of the class: what finds none is there twice, since a peer is broken, and is left to recovery.
    pub(super) fn push<M: SharedMemory>(&self, mem: &M, batch: &Batch) -> bool {
        let buffers = batch.as_slice();
        if buffers.is_empty() {
            return true;
        }
        let Some(at) = enter(mem, self.puts) else { return false };
        let gets = mem.load_acquire(self.gets) >> 1; // F4
        let room = u64::from(self.count).saturating_sub(at.wrapping_sub(gets));
        let done = room.min(buffers.len() as u64) as usize;
        let mut words = [0; BATCH];
        words.iter_mut().zip(buffers).for_each(|(word, buffer)| *word = u64::from(*buffer));
        self.each_line(at, done, |slot, i, n| {
            mem.store_many(slot, words.get(i..i + n).unwrap_or_default());
        });
        leave(mem, self.puts, at, done); // F3
        true
    }

    /// Takes up to `most` buffers, those that were put first.
    pub(super) fn pop<M: SharedMemory>(&self, mem: &M, most: usize) -> Option<Batch> {
        if mem.load_acquire(self.puts) >> 1 == mem.load(self.gets) >> 1 {
            return None;
        }
        let at = enter(mem, self.gets)?;
        let puts = mem.load_acquire(self.puts) >> 1; // F4
        let n = puts.wrapping_sub(at).min(most.min(BATCH) as u64) as usize;
        let batch = self.open(mem, at, n);
        leave(mem, self.gets, at, n); // F3
        (n > 0).then_some(batch)
    }

    /// Reads the `n` buffers from position `at` on.
    fn open<M: SharedMemory>(&self, mem: &M, at: u64, n: usize) -> Batch {
        let (mut words, mut batch) = ([0; BATCH], Batch::new());
        self.each_line(at, n, |slot, i, n| {
            mem.load_many(slot, words.get_mut(i..i + n).unwrap_or_default());
        });
        for buffer in words.iter().take(n).filter_map(|word| u32::try_from(*word).ok()) {
            if self.range.holds(buffer) {
                batch.push(buffer);
            }
        }
        batch
    }

    /// Calls `f` for the slots of `n` positions from `at` on, a line of them at a time: its first, how many came before, how many they are.
    fn each_line(&self, at: u64, n: usize, mut f: impl FnMut(u32, usize, usize)) {
        let (mut slot, mut done) = ((at % u64::from(self.count)) as u32, 0);
        while done < n {
            let line = (LINE_WORDS - slot % LINE_WORDS).min(self.count - slot).min((n - done) as u32);
            f(self.slots + slot * 8, done, line as usize);
            done += line as usize;
            slot = if slot + line == self.count { 0 } else { slot + line };
        }
    }

    /// Empties it. For recovery, while no agent uses it.
    pub(super) fn clear<M: SharedMemory>(&self, mem: &M) {
        mem.store_release(self.puts, 0);
        mem.store_release(self.gets, 0);
    }

    /// Calls `see` for every buffer in it. For recovery, while no agent changes it.
    pub(super) fn walk<M: SharedMemory>(&self, mem: &M, mut see: impl FnMut(u32)) {
        let (mut at, puts) = (mem.load_acquire(self.gets) >> 1, mem.load_acquire(self.puts) >> 1);
        let mut left = puts.wrapping_sub(at).min(self.count.into()); // a broken peer may have written anything
        while left > 0 {
            let n = left.min(BATCH as u64);
            self.open(mem, at, n as usize).as_slice().iter().copied().for_each(&mut see);
            (at, left) = (at.wrapping_add(n), left - n);
        }
    }
}

/// Begins to change an end of the ring; its position. `None` while others keep at it.
fn enter<M: SharedMemory>(mem: &M, end: u32) -> Option<u64> {
    for _ in 0..ATTEMPTS {
        let word = mem.load_acquire(end);
        if word & BUSY == 0 && mem.compare_exchange(end, word, word | BUSY).is_ok() {
            return Some(word >> 1);
        }
        // Not `relax`: that ends an empty poll, and the caller's is not over.
        core::hint::spin_loop();
    }
    None
}

/// Has changed an end of the ring: it is `n` buffers further.
fn leave<M: SharedMemory>(mem: &M, end: u32, at: u64, n: usize) {
    mem.store_release(end, at.wrapping_add(n as u64) << 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::heap::HeapMemory;
    use crate::ring::GroupedEpoch;
    use crate::testing::{config, region};

    /// The two rings of a new region of 64 large buffers, the one of the large ones emptied, and a batch of the buffers from..from + n.
    fn rings() -> (HeapMemory, [Fifo; 2], PoolLayout) {
        let (mem, layout) = region(&Config { mempool: true, ..config::<GroupedEpoch>() });
        let pool = *layout.pool();
        let ring = |class| Fifo::new(&pool, class, Range::new(&pool, class));
        let rings = [Class::Small, Class::Large].map(ring);
        rings[1].clear(&mem);
        (mem, rings, pool)
    }

    fn buffers(pool: &PoolLayout, numbers: impl IntoIterator<Item = u32>, size: u32) -> Batch {
        let mut batch = Batch::new();
        numbers.into_iter().for_each(|i| batch.push(pool.buffers + i * size));
        batch
    }

    #[test]
    fn what_was_put_first_is_taken_first_for_many_laps() {
        let (mem, [small, large], pool) = rings();
        let (mut put, mut taken) = (0, 0);
        for n in (1..=32).cycle().take(1000) {
            // With up to 64 in it, and so at every slot of a line.
            while put - taken + n <= 64 {
                assert!(large.push(&mem, &buffers(&pool, (put..put + n).map(|i| i % 64), LARGE_BUF)));
                put += n;
            }
            let batch = large.pop(&mem, n as usize).unwrap();
            let expected = buffers(&pool, (taken..taken + n).map(|i| i % 64), LARGE_BUF);
            assert_eq!(batch.as_slice(), expected.as_slice());
            taken += n;
        }
        assert!(taken > 64 * 100 && small.pop(&mem, 32).is_none(), "the other ring has nothing of it");
    }

    #[test]
    fn no_more_is_taken_than_there_is_and_than_was_asked_for() {
        let (mem, [small, _], pool) = rings();
        assert!(small.pop(&mem, 32).is_none() && small.push(&mem, &Batch::new()));
        assert!(small.push(&mem, &buffers(&pool, 0..20, SMALL_BUF)));
        assert_eq!(small.pop(&mem, 7).unwrap().as_slice().len(), 7);
        let mut seen = 0;
        small.walk(&mem, |_| seen += 1);
        assert_eq!((seen, small.pop(&mem, 1000).unwrap().as_slice().len()), (13, 13));
        assert!(small.pop(&mem, 1).is_none());
    }

    #[test]
    fn all_buffers_of_a_class_have_room_and_lie_in_words_of_their_own() {
        for chunks in [16, 17, 63, 64, 1000] {
            let (mem, layout) =
                region(&Config { mempool: true, buffers: chunks, ..config::<GroupedEpoch>() });
            let pool = layout.pool();
            let [small, large] =
                [Class::Small, Class::Large].map(|c| Fifo::new(pool, c, Range::new(pool, c)));
            assert!(large.count >= chunks && small.count >= chunks / 2 * (LARGE_BUF / SMALL_BUF));
            assert_eq!((large.slots, small.slots % LINE), (pool.links + 4 * LINE, pool.links % LINE));
            assert!(
                large.slots + large.count * 8 <= small.slots && small.slots + small.count * 8 <= pool.kinds
            );
            let mut seen = 0;
            large.walk(&mem, |_| seen += 1);
            assert_eq!(seen, chunks, "a new region's ring is full");
        }
    }

    #[test]
    fn while_an_end_is_held_the_other_one_goes_on() {
        let (mem, [small, _], pool) = rings();
        assert!(small.push(&mem, &buffers(&pool, 0..3, SMALL_BUF)));
        let at = enter(&mem, small.puts).unwrap();
        assert!(!small.push(&mem, &buffers(&pool, 3..4, SMALL_BUF)), "its batch stays the caller's");
        assert_eq!(small.pop(&mem, 8).unwrap().as_slice().len(), 3);
        leave(&mem, small.puts, at, 0);
        assert!(small.push(&mem, &buffers(&pool, 3..4, SMALL_BUF)));
        let at = enter(&mem, small.gets).unwrap();
        assert!(small.pop(&mem, 1).is_none());
        leave(&mem, small.gets, at, 1);
        small.clear(&mem);
        assert!(small.pop(&mem, 1).is_none() && small.push(&mem, &buffers(&pool, 0..3, SMALL_BUF)));
    }

    #[test]
    fn what_finds_no_room_is_left_to_recovery() {
        let (mem, [_, large], pool) = rings();
        let put = |n| large.push(&mem, &buffers(&pool, 0..n, LARGE_BUF));
        assert!(
            put(32) && put(20) && put(32) && put(1),
            "its caller never keeps what a full ring cannot take"
        );
        let mut seen = 0;
        large.walk(&mem, |_| seen += 1);
        assert_eq!(seen, large.count);
    }

    #[test]
    fn a_damaged_ring_yields_no_foreign_buffer_and_has_an_end() {
        let (mem, [small, large], pool) = rings();
        assert!(large.push(&mem, &buffers(&pool, 0..4, LARGE_BUF)));
        mem.store(large.slots, u64::from(pool.end));
        mem.store(large.slots + 8, u64::from(pool.buffers + SMALL_BUF));
        mem.store(large.slots + 16, 1 << 32 | u64::from(pool.buffers));
        assert_eq!(large.pop(&mem, 32).unwrap().as_slice(), [pool.buffers + 3 * LARGE_BUF]);
        for (puts, gets) in [(u64::MAX << 1, 0), (0, 8), (4, u64::MAX << 1), (1 << 40, 0)] {
            mem.store(small.puts, puts);
            mem.store(small.gets, gets);
            let mut seen = 0;
            small.walk(&mem, |_| seen += 1);
            assert!(seen <= small.count);
            assert!(small.pop(&mem, 32).is_none_or(|batch| batch.as_slice().is_empty()));
            _ = small.push(&mem, &buffers(&pool, 0..4, SMALL_BUF));
        }
    }
}
