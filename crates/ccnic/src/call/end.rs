//! What both ends of a channel have: where in the sequence of messages they stand, and how they send and take one.

use crate::memory::SharedMemory;
use crate::tuning::Tuning;

use super::error::{CallError, Malformed};
use super::layout::CallLayout;
use super::message::{self, Kind};

/// One end of a channel.
#[derive(Debug)]
pub(super) struct End {
    pub(super) layout: CallLayout,
    slots: [u32; 2],
    pub(super) tuning: Tuning,
    /// The number of the call that is under way, or of the next one.
    pub(super) call: u64,
    /// What the word that this side waits at holds until the other side's message comes: this side's message of the call before.
    pub(super) quiet: u64,
}

impl End {
    /// Of a new channel.
    pub(super) fn new(layout: &CallLayout) -> End {
        End { layout: *layout, slots: layout.slots(), tuning: Tuning::default(), call: 0, quiet: 0 }
    }

    /// The request of a call lies in `slots[call % 2]`, its answer in the other one.
    #[inline(always)]
    fn slot(&self, kind: Kind) -> u32 {
        let [a, b] = self.slots;
        if self.call.is_multiple_of(2) == (kind == Kind::Request) { a } else { b }
    }

    /// Sends this call's message; returns its word.
    #[inline(always)]
    pub(super) fn publish<M: SharedMemory>(
        &self,
        mem: &M,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<u64, CallError> {
        let len = message::check_length(bytes.len(), self.layout.capacity())?;
        let word = message::word(kind, self.call, len);
        message::publish(mem, self.slot(kind), bytes, word, &self.tuning);
        Ok(word)
    }

    /// The length of this call's message of the other side, if it is there.
    #[inline(always)]
    pub(super) fn look<M: SharedMemory>(&self, mem: &M, kind: Kind) -> Result<Option<u32>, Malformed> {
        message::look(mem, self.slot(kind), self.quiet, (kind, self.call), self.layout.capacity())
    }

    /// Copies this call's message of the other side, of `len` bytes, or as much of it as `to` holds.
    #[inline(always)]
    pub(super) fn fetch<M: SharedMemory>(&self, mem: &M, kind: Kind, len: u32, to: &mut [u8]) {
        message::fetch(mem, self.slot(kind), len, to, &self.tuning);
    }
}
