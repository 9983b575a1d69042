//! The side that calls.

use crate::memory::SharedMemory;
use crate::tuning::Tuning;

use super::end::End;
use super::error::{CallError, Malformed};
use super::layout::CallLayout;
use super::message::Kind;
use super::wait;

/// The caller's end of a channel. Belongs to one thread. [The module](super) has an example.
#[derive(Debug)]
pub struct Caller {
    end: End,
    /// The request has been sent, and its answer has not been taken.
    waiting: bool,
    /// The word of this side's last request.
    sent: u64,
}

impl Caller {
    /// For a new channel.
    pub fn new(layout: &CallLayout) -> Caller {
        Caller { end: End::new(layout), waiting: false, sent: 0 }
    }

    /// As after `call` calls of a channel whose slots are as they are now.
    #[cfg(test)]
    pub(super) fn start_at(&mut self, call: u64) {
        (self.end.call, self.waiting) = (call, false);
    }

    /// Applies a tuning: how lines are requested, and whether those that have been written are demoted.
    pub fn set_tuning(&mut self, tuning: Tuning) {
        self.end.tuning = tuning;
    }

    /// The most bytes of a request or an answer.
    pub fn capacity(&self) -> u32 {
        self.end.layout.capacity()
    }

    /// True between a request and its answer.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Sends a request. Afterwards [`server_sleeps`](Caller::server_sleeps) says whether the server has to be woken.
    ///
    /// # Errors
    /// When the request is too long, or the last answer has not been taken. Nothing has been sent then.
    #[inline]
    pub fn send<M: SharedMemory>(&mut self, mem: &M, request: &[u8]) -> Result<(), CallError> {
        if self.waiting {
            return Err(CallError::OutOfTurn);
        }
        let word = self.end.publish(mem, Kind::Request, request)?;
        // The answer comes where the request of the call before lies.
        (self.end.quiet, self.sent) = (self.sent, word);
        self.waiting = true;
        Ok(())
    }

    /// Takes the answer if it is there: copies it, or as much of it as `answer` holds, and returns its length. `None` while there is
    /// none.
    ///
    /// # Errors
    /// When the server has written what it must not.
    #[inline]
    pub fn take<M: SharedMemory>(&mut self, mem: &M, answer: &mut [u8]) -> Result<Option<usize>, Malformed> {
        let Some(len) = self.look(mem)? else { return Ok(None) };
        self.end.fetch(mem, Kind::Answer, len, answer);
        self.waiting = false;
        self.end.call += 1;
        Ok(Some(len as usize))
    }

    /// True when [`take`](Caller::take) would take an answer, or fail.
    #[inline]
    pub fn ready<M: SharedMemory>(&self, mem: &M) -> bool {
        !matches!(self.look(mem), Ok(None))
    }

    #[inline(always)]
    fn look<M: SharedMemory>(&self, mem: &M) -> Result<Option<u32>, Malformed> {
        if self.waiting { self.end.look(mem, Kind::Answer) } else { Ok(None) }
    }

    /// After [`send`](Caller::send): true when the server sleeps and has to be woken.
    #[inline]
    pub fn server_sleeps<M: SharedMemory>(&self, mem: &M) -> bool {
        let [_, event] = self.end.layout.events();
        wait::sleeps(mem, event)
    }

    /// Says that this side is going to sleep until there is an answer. False when there is one already: then it is not said.
    pub fn arm<M: SharedMemory>(&self, mem: &M) -> bool {
        let [event, _] = self.end.layout.events();
        wait::announce(mem, event, true);
        mem.heavy_barrier();
        let sleeps = !self.ready(mem);
        if !sleeps {
            self.disarm(mem);
        }
        sleeps
    }

    /// Says that this side is awake.
    pub fn disarm<M: SharedMemory>(&self, mem: &M) {
        let [event, _] = self.end.layout.events();
        wait::announce(mem, event, false);
    }
}
