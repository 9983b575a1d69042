//! The two encodings of a signal inside a descriptor line.
//!
//! The signal is the top byte of a unit's first word, stored last with release (ordering diagram, A).

use crate::desc::SIGNAL_SHIFT;
use crate::layout::RingLayout;
use crate::memory::SharedMemory;

use super::Slots;

/// In a signal: how many descriptors the unit holds.
pub(super) const COUNT: u8 = 0x07;
/// Clear: this unit is ready. (The count alone would do; a bit of its own is easier to see in a memory dump.)
const READY: u8 = 0x80;
/// Clear: the parity of the lap. Only a successor needs it, to tell a unit that its predecessor left from one
/// that was published since.
const LAP: u8 = 0x08;
/// Epoch: the parity of the lap. The first lap's is 1, so that fresh zeroed memory is not ready.
const PARITY: u8 = 0x80;

/// How a published unit differs from a free one, and how units are handed back to the producer.
pub trait Signal: Send + 'static {
    /// True when a unit stays ready until it is handed back: then a consumer must not read a lap ahead, where
    /// it would find units that it has taken already.
    const STAYS: bool;
    /// True when rings with this signal may have areas.
    const AREAS: bool;

    /// The signal of `count` descriptors in lap `lap`.
    fn encode(count: u8, lap: u64) -> u8;

    /// The number of descriptors that `signal` announces in lap `lap`; 0 when the unit is not ready.
    fn ready_count(signal: u8, lap: u64) -> u8;

    /// True when `signal` was written in lap `lap`, and not in the one before or after. For successors.
    fn is_of(signal: u8, lap: u64) -> bool;

    /// Consumer: hands back the units `from..to`, whose signals are `bytes` apart. Returns the position up to
    /// which units are handed back: `from` when that is postponed.
    fn hand_back<M: SharedMemory>(mem: &M, slots: &Slots, head: u32, bytes: u32, from: u64, to: u64) -> u64;

    /// As `hand_back`, never postponed.
    #[inline(always)]
    fn hand_back_now<M: SharedMemory>(
        mem: &M,
        slots: &Slots,
        head: u32,
        bytes: u32,
        from: u64,
        to: u64,
    ) -> u64 {
        Self::hand_back(mem, slots, head, bytes, from, to)
    }

    /// Producer: the position up to which units are free. Those before `known` are; the producer wants to
    /// write all units before `want`, and could write those before `most`, one lap after its position.
    fn credit<M: SharedMemory>(
        mem: &M,
        slots: &Slots,
        head: u32,
        bytes: u32,
        known: u64,
        want: u64,
        most: u64,
    ) -> u64;

    /// Successor of a dead consumer: makes sure that everything before `taken` has been handed back.
    fn recover<M: SharedMemory>(mem: &M, layout: &RingLayout, bytes: u32, taken: u64);
}

/// *Epoch*: the signal carries the parity of the lap (the sense reverse of Mukherjee et al. 1996, section
/// 2.3), so the consumer never writes the ring. It publishes its position every quarter lap, in a line of its
/// own that the producer reads when its credit is used up.
#[derive(Debug)]
pub struct Epoch;

impl Signal for Epoch {
    const STAYS: bool = false; // the parity is that of the lap before
    const AREAS: bool = true;

    #[inline(always)]
    fn encode(count: u8, lap: u64) -> u8 {
        count | if lap & 1 == 0 { PARITY } else { 0 }
    }

    #[inline(always)]
    fn ready_count(signal: u8, lap: u64) -> u8 {
        if (signal ^ Self::encode(0, lap)) & PARITY == 0 { signal & COUNT } else { 0 }
    }

    fn is_of(signal: u8, lap: u64) -> bool {
        Self::ready_count(signal, lap) > 0
    }

    #[inline(always)]
    fn hand_back<M: SharedMemory>(mem: &M, slots: &Slots, head: u32, _: u32, from: u64, to: u64) -> u64 {
        if to - from < slots.count() / 4 {
            return from;
        }
        Self::hand_back_now(mem, slots, head, 0, from, to)
    }

    #[inline(always)]
    fn hand_back_now<M: SharedMemory>(mem: &M, _: &Slots, head: u32, _: u32, _: u64, to: u64) -> u64 {
        mem.store_release(head, to); // C1
        to
    }

    #[inline(always)]
    fn credit<M: SharedMemory>(
        mem: &M,
        slots: &Slots,
        head: u32,
        _: u32,
        known: u64,
        _: u64,
        most: u64,
    ) -> u64 {
        let seen = mem.load_acquire(head).wrapping_add(slots.count()); // C2
        // A broken peer may move its position back, or beyond what has been published: then keep the old value.
        if (known..=most).contains(&seen) { seen } else { known }
    }

    fn recover<M: SharedMemory>(mem: &M, layout: &RingLayout, _: u32, taken: u64) {
        mem.store_release(layout.head, taken); // C1
    }
}

/// *Clear*: non-zero is ready; the consumer writes zero to hand the unit back, and the producer sees a full
/// ring by finding a signal still set (CC-NIC section 3.2).
#[derive(Debug)]
pub struct Clear;

impl Signal for Clear {
    const STAYS: bool = true;
    const AREAS: bool = false;

    #[inline(always)]
    fn encode(count: u8, lap: u64) -> u8 {
        count | READY | if lap & 1 == 0 { LAP } else { 0 }
    }

    #[inline(always)]
    fn ready_count(signal: u8, _: u64) -> u8 {
        signal & COUNT
    }

    fn is_of(signal: u8, lap: u64) -> bool {
        signal & COUNT > 0 && signal == Self::encode(signal & COUNT, lap)
    }

    #[inline(always)]
    fn hand_back<M: SharedMemory>(mem: &M, slots: &Slots, _: u32, bytes: u32, from: u64, to: u64) -> u64 {
        for position in from..to {
            mem.store_release(slots.at(position, bytes), 0); // B1
        }
        to
    }

    #[inline(always)]
    fn credit<M: SharedMemory>(
        mem: &M,
        slots: &Slots,
        _: u32,
        bytes: u32,
        known: u64,
        want: u64,
        most: u64,
    ) -> u64 {
        let clear = |position| mem.load_acquire(slots.at(position, bytes)) >> SIGNAL_SHIFT == 0; // B2
        // Units are cleared in order: when one is clear, so are those before it. Each read takes a line from
        // the consumer, so try an eighth of a lap ahead first.
        let far = (known + slots.count() / 8).min(most).max(want);
        for last in [far, want] {
            if last > known && clear(last - 1) {
                return last;
            }
        }
        let mut free = known;
        while free < want && clear(free) {
            free += 1;
        }
        free
    }

    fn recover<M: SharedMemory>(mem: &M, layout: &RingLayout, bytes: u32, taken: u64) {
        let slots = Slots::new(layout);
        let stands = |position: u64| {
            let word = mem.load_acquire(slots.at(position, bytes)); // A2
            Self::is_of((word >> SIGNAL_SHIFT) as u8, slots.lap(position))
        };
        let oldest = taken.saturating_sub(slots.count());
        let mut first = taken;
        while first > oldest && stands(first - 1) {
            first -= 1;
        }
        // In order, since the producer concludes from a clear unit that those before it are clear.
        Self::hand_back(mem, &slots, layout.head, bytes, first, taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::HeapMemory;
    use crate::memory::LINE;

    #[test]
    fn an_epoch_signal_is_ready_in_its_own_lap_only() {
        for lap in 0..4 {
            let signal = Epoch::encode(3, lap);
            assert_eq!(Epoch::ready_count(signal, lap), 3);
            assert_eq!(Epoch::ready_count(signal, lap + 1), 0);
        }
        assert_eq!(Epoch::ready_count(0, 0), 0, "zeroed memory is not ready in the first lap");
    }

    #[test]
    fn credit_ends_a_lap_after_the_position_whatever_the_peer_stores() {
        let layout = RingLayout { units: 4096, areas: 0, count: 16, tail: 0, head: 64, taken: 128 };
        let (mem, slots) = (HeapMemory::new(8192), Slots::new(&layout));
        // Published up to 20, of which 10 are known to be handed back: 26 units may be written in all, 36 at most.
        let (known, want, most) = (26, 30, 36);
        let epoch = |head| {
            mem.store(layout.head, head);
            Epoch::credit(&mem, &slots, layout.head, LINE, known, want, most)
        };
        assert_eq!([10, 12, 20].map(epoch), [26, 28, 36], "up to all that has been published");
        assert_eq!([9, 21, 30, 36, 1000, u64::MAX].map(epoch), [26; 6], "not back, not beyond");
        // All units are clear, as a consumer leaves them that clears what it was not given.
        assert_eq!(Clear::credit(&mem, &slots, layout.head, LINE, known, want, most), want);
        assert_eq!(Clear::credit(&mem, &slots, layout.head, LINE, known, most, most), most);
    }

    #[test]
    fn a_cleared_signal_is_not_ready() {
        assert_eq!(Clear::ready_count(0, 5), 0);
        assert_eq!(Clear::ready_count(Clear::encode(4, 5), 6), 4);
    }
}
