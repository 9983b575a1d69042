//! A message in its slot: the control word, and the bytes behind it.

use crate::config::Demote;
use crate::memory::{Fetch, LINE, SharedMemory, prefetch_payload, read_packet, write_packet};
use crate::tuning::{FetchMode, Tuning};

use super::error::{CallError, Malformed};

/// The most bytes of a message that is one line.
pub const INLINE_MESSAGE: u32 = LINE - 8;

/// What a message is. Zero is none of them: an empty slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Request = 1,
    Answer = 2,
}

/// The control word of a message of `len` bytes.
pub(super) fn word(kind: Kind, call: u64, len: u32) -> u64 {
    u64::from(len) | u64::from(kind as u8) << 32 | call << 40
}

/// That a message of this length can be sent.
pub(super) fn check_length(len: usize, capacity: u32) -> Result<u32, CallError> {
    let too_long = CallError::TooLong { len, capacity };
    u32::try_from(len).ok().filter(|&len| len <= capacity).ok_or(too_long)
}

/// Copies a message into its slot and publishes it with `word`.
#[inline(always)]
pub(super) fn publish<M: SharedMemory>(mem: &M, slot: u32, bytes: &[u8], word: u64, tuning: &Tuning) {
    let (first, rest) = bytes.split_at(bytes.len().min(INLINE_MESSAGE as usize));
    // The lines behind the first, on line boundaries; the first last, since the reader polls it.
    if !rest.is_empty() {
        prefetch_payload(mem, slot + LINE, rest.len() as u32, Fetch::Write);
        write_packet(mem, slot + LINE, rest);
    }
    write_packet(mem, slot + 8, first);
    mem.store_release(slot, word); // J1, K1
    // The reader waits for it (the ring's producer demotes in this case only).
    if tuning.demote != Demote::Off {
        mem.demote(slot);
    }
}

/// The length of the message that is due in `slot`, if it is there. `quiet` is what the word holds until then.
#[inline(always)]
pub(super) fn look<M: SharedMemory>(
    mem: &M,
    slot: u32,
    quiet: u64,
    due: (Kind, u64),
    capacity: u32,
) -> Result<Option<u32>, Malformed> {
    let found = mem.load_acquire(slot); // J2, K2
    if found == quiet {
        return Ok(None);
    }
    let len = found as u32;
    if found != word(due.0, due.1, len) || len > capacity {
        return Err(Malformed { word: found, call: due.1 });
    }
    Ok(Some(len))
}

/// Copies the message of `len` bytes in `slot`, or as much of it as `to` holds. Its lines are requested with ownership: this side writes
/// the next message there.
#[inline(always)]
pub(super) fn fetch<M: SharedMemory>(mem: &M, slot: u32, len: u32, to: &mut [u8], tuning: &Tuning) {
    let own = tuning.fetch == FetchMode::Own;
    if own {
        mem.prefetch_own(slot);
    }
    let n = to.len().min(len as usize);
    let (first, rest) = to.split_at_mut(n.min(INLINE_MESSAGE as usize));
    let rest = rest.get_mut(..n - first.len()).unwrap_or_default();
    if !rest.is_empty() {
        let what = if own { Fetch::Own } else { Fetch::Read };
        prefetch_payload(mem, slot + LINE, rest.len() as u32, what);
    }
    read_packet(mem, slot + 8, first);
    if !rest.is_empty() {
        read_packet(mem, slot + LINE, rest);
    }
}
