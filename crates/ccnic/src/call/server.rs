//! The side that answers: the paper's device.

use crate::memory::SharedMemory;
use crate::tuning::Tuning;

use super::end::End;
use super::error::{CallError, Malformed};
use super::layout::CallLayout;
use super::message::Kind;
use super::wait;

/// The server's end of a channel. Belongs to one thread. [The module](super) has an example.
#[derive(Debug)]
pub struct Server {
    end: End,
    /// A request has been taken, and not been answered.
    answering: bool,
}

impl Server {
    /// For a new channel.
    pub fn new(layout: &CallLayout) -> Server {
        Server { end: End::new(layout), answering: false }
    }

    /// As after `call` calls of a channel whose slots are as they are now.
    #[cfg(test)]
    pub(super) fn start_at(&mut self, call: u64) {
        (self.end.call, self.answering) = (call, false);
    }

    /// Applies a tuning: how lines are requested, and whether those that have been written are demoted.
    pub fn set_tuning(&mut self, tuning: Tuning) {
        self.end.tuning = tuning;
    }

    /// The most bytes of a request or an answer.
    pub fn capacity(&self) -> u32 {
        self.end.layout.capacity()
    }

    /// Takes the request if there is one: copies it, or as much of it as `request` holds, and returns its length. `None` while there is
    /// none.
    ///
    /// # Errors
    /// When the caller has written what it must not.
    #[inline]
    pub fn take<M: SharedMemory>(&mut self, mem: &M, request: &mut [u8]) -> Result<Option<usize>, Malformed> {
        let Some(len) = self.look(mem)? else { return Ok(None) };
        self.end.fetch(mem, Kind::Request, len, request);
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
        if self.answering { Ok(None) } else { self.end.look(mem, Kind::Request) }
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
        // The next request comes where this answer lies.
        self.end.quiet = self.end.publish(mem, Kind::Answer, answer)?;
        self.answering = false;
        self.end.call += 1;
        Ok(())
    }

    /// After [`answer`](Server::answer): true when the caller sleeps and has to be woken.
    #[inline]
    pub fn caller_sleeps<M: SharedMemory>(&self, mem: &M) -> bool {
        let [event, _] = self.end.layout.events();
        wait::sleeps(mem, event)
    }

    /// Says that this side is going to sleep until there is a request. A server of several channels does so in all of them, executes one
    /// [`heavy_barrier`](SharedMemory::heavy_barrier), and sleeps if none of them is [`ready`](Server::ready).
    pub fn announce_sleep<M: SharedMemory>(&self, mem: &M) {
        let [_, event] = self.end.layout.events();
        wait::announce(mem, event, true);
    }

    /// Says that this side is awake.
    pub fn disarm<M: SharedMemory>(&self, mem: &M) {
        let [_, event] = self.end.layout.events();
        wait::announce(mem, event, false);
    }
}
