//! The side that answers: the paper's device.

use crate::memory::SharedMemory;
use crate::tuning::Tuning;

use super::error::{CallError, Malformed};
use super::layout::CallLayout;
use super::message::{self, Kind, answer_slot, request_slot};
use super::wait;

/// The server's end of a channel. Belongs to one thread. [The module](super) has an example.
#[derive(Debug)]
pub struct Server {
    layout: CallLayout,
    slots: [u32; 2],
    tuning: Tuning,
    /// The number of the call that is under way, or of the next one.
    call: u64,
    /// A request has been taken, and not been answered.
    answering: bool,
    /// What the request's word holds until the request comes: this side's answer to the call before.
    quiet: u64,
}

impl Server {
    /// For a new channel.
    pub fn new(layout: &CallLayout) -> Server {
        Server {
            layout: *layout,
            slots: layout.slots(),
            tuning: Tuning::default(),
            call: 0,
            answering: false,
            quiet: 0,
        }
    }

    /// As after `call` calls of a channel whose slots are as they are now.
    #[cfg(test)]
    pub(super) fn start_at(&mut self, call: u64) {
        (self.call, self.answering) = (call, false);
    }

    /// Applies a tuning: how lines are requested, and whether those that have been written are demoted.
    pub fn set_tuning(&mut self, tuning: Tuning) {
        self.tuning = tuning;
    }

    /// The most bytes of a request or an answer.
    pub fn capacity(&self) -> u32 {
        self.layout.capacity()
    }

    /// Takes the request if there is one: copies it, or as much of it as `request` holds, and returns its length. `None` while there is
    /// none.
    ///
    /// # Errors
    /// When the caller has written what it must not.
    #[inline]
    pub fn take<M: SharedMemory>(&mut self, mem: &M, request: &mut [u8]) -> Result<Option<usize>, Malformed> {
        let Some(len) = self.look(mem)? else { return Ok(None) };
        message::fetch(mem, request_slot(self.slots, self.call), len, request, &self.tuning);
        self.answering = true;
        Ok(Some(len as usize))
    }

    /// True when [`take`](Server::take) would take a request, or fail.
    #[inline]
    pub fn ready<M: SharedMemory>(&self, mem: &M) -> bool {
        !matches!(self.look(mem), Ok(None))
    }

    #[inline(always)]
    fn look<M: SharedMemory>(&self, mem: &M) -> Result<Option<u32>, Malformed> {
        if self.answering {
            return Ok(None);
        }
        let (slot, due) = (request_slot(self.slots, self.call), (Kind::Request, self.call));
        message::look(mem, slot, self.quiet, due, self.layout.capacity())
    }

    /// Answers the request that was taken. Afterwards [`caller_sleeps`](Server::caller_sleeps) says whether the caller has to be woken.
    ///
    /// # Errors
    /// When the answer is too long, or no request was taken. Nothing has been sent then.
    #[inline]
    pub fn answer<M: SharedMemory>(&mut self, mem: &M, answer: &[u8]) -> Result<(), CallError> {
        if !self.answering {
            return Err(CallError::OutOfTurn);
        }
        let len = message::check_length(answer.len(), self.layout.capacity())?;
        // The next request comes where this answer lies.
        self.quiet = message::word(Kind::Answer, self.call, len);
        message::publish(mem, answer_slot(self.slots, self.call), answer, self.quiet, &self.tuning);
        self.answering = false;
        self.call += 1;
        Ok(())
    }

    /// After [`answer`](Server::answer): true when the caller sleeps and has to be woken.
    #[inline]
    pub fn caller_sleeps<M: SharedMemory>(&self, mem: &M) -> bool {
        let [event, _] = self.layout.events();
        wait::sleeps(mem, event)
    }

    /// Says that this side is going to sleep until there is a request. A server of several channels does so in all of them, executes one
    /// [`heavy_barrier`](SharedMemory::heavy_barrier), and sleeps if none of them is [`ready`](Server::ready).
    pub fn announce_sleep<M: SharedMemory>(&self, mem: &M) {
        let [_, event] = self.layout.events();
        wait::announce(mem, event, true);
    }

    /// Says that this side is awake.
    pub fn disarm<M: SharedMemory>(&self, mem: &M) {
        let [_, event] = self.layout.events();
        wait::announce(mem, event, false);
    }
}
