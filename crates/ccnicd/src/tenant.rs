//! One program's queues on a polling thread.
//!
//! Programs share a polling core by bursts: each round serves one burst of each program, however many queues it has. A
//! program that leaves is served a last time in the same measure, so that its end delays nobody.

use std::sync::mpsc::Sender;

use ccnic_control::messages::QueueStatus;
use ccnic_control::{ClientId, Notifier};

use crate::served::Serve;

/// A program and the queues of it that this thread serves.
pub(crate) struct Tenant {
    pub(crate) program: ClientId,
    /// Until they are let go.
    queues: Option<Box<dyn Serve>>,
    leaving: Option<Leaving>,
}

/// A program that has gone.
struct Leaving {
    /// Turns in which what it had submitted is served: as many as its rings can hold bursts, for a program that lives on may
    /// submit more all the time.
    turns: usize,
    /// Where its queues go when they are done. Dropping the last of them unmaps the region, which takes its time.
    done: Sender<Box<dyn Serve>>,
}

impl Tenant {
    pub(crate) fn new(program: ClientId, queues: Box<dyn Serve>) -> Tenant {
        Tenant { program, queues: Some(queues), leaving: None }
    }

    /// Has a queue wake the program by `notifier`.
    pub(crate) fn notify(&mut self, number: u16, notifier: Notifier) {
        if let Some(queues) = &mut self.queues {
            queues.notify(number, notifier);
        }
    }

    /// The program has gone: its queues go to `done` when they have been served.
    pub(crate) fn leave(&mut self, done: Sender<Box<dyn Serve>>) {
        let turns = self.queues.as_ref().map_or(0, |queues| queues.bursts());
        self.leaving = Some(Leaving { turns, done });
    }

    /// Lets go of the queues at once, with what is on its way in them: they move to another thread.
    pub(crate) fn take(&mut self) -> Option<Box<dyn Serve>> {
        self.queues.take()
    }

    /// True when all queues have been let go.
    pub(crate) fn has_left(&self) -> bool {
        self.queues.is_none()
    }

    /// Serves one burst, of the next queue that has one; returns the packets moved.
    #[inline]
    pub(crate) fn turn(&mut self) -> usize {
        if self.leaving.is_some() {
            return self.last_turn();
        }
        self.serve()
    }

    #[inline]
    fn serve(&mut self) -> usize {
        self.queues.as_mut().map_or(0, |queues| queues.turn())
    }

    /// One of the turns of a program that leaves: serves a burst, or retires a queue, or lets go of all.
    fn last_turn(&mut self) -> usize {
        if self.leaving.as_ref().is_some_and(|l| l.turns > 0) {
            let moved = self.serve();
            if let Some(leaving) = &mut self.leaving {
                leaving.turns = if moved > 0 { leaving.turns - 1 } else { 0 };
            }
            return moved;
        }
        if self.queues.as_mut().is_some_and(|queues| queues.retire()) {
            return 1;
        }
        if let (Some(leaving), Some(queues)) = (&self.leaving, self.queues.take()) {
            let _ = leaving.done.send(queues); // when nobody waits for them, they are dropped here
        }
        1
    }

    /// Serves what has been submitted, at the thread's end.
    pub(crate) fn finish(mut self) {
        let (done, _) = std::sync::mpsc::channel();
        self.leave(done);
        while !self.has_left() {
            self.turn();
        }
    }

    /// Counters of every queue.
    pub(crate) fn report(&self) -> impl Iterator<Item = (ClientId, QueueStatus)> {
        let queues = self.queues.iter().flat_map(|queues| queues.report());
        queues.map(|queue| (self.program, queue))
    }
}
