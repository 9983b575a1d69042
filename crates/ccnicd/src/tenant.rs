//! One program's queues on a polling thread.
//!
//! Programs share a polling core by bursts: each round serves one burst of each program, however many queues it has. A
//! program that leaves is served a last time in the same measure, so that its end delays nobody.

use std::sync::mpsc::Sender;

use ccnic_shm::control::QueueStatus;
use ccnic_shm::nic::{Bell, ProgramId};

use crate::served::Serve;

/// A program and the queues of it that this thread serves; at least one.
pub(crate) struct Tenant {
    pub(crate) program: ProgramId,
    queues: Vec<Box<dyn Serve>>,
    /// The queue to look at first.
    next: usize,
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
    pub(crate) fn new(program: ProgramId, queue: Box<dyn Serve>) -> Tenant {
        Tenant { program, queues: vec![queue], next: 0, leaving: None }
    }

    pub(crate) fn add(&mut self, queue: Box<dyn Serve>) {
        self.queues.push(queue);
    }

    /// Has a queue wake the program by `bell`.
    pub(crate) fn notify(&mut self, number: u16, bell: Bell) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.number() == number) {
            queue.notify(bell);
        }
    }

    /// The program has gone: its queues go to `done` when they have been served.
    pub(crate) fn leave(&mut self, done: Sender<Box<dyn Serve>>) {
        let turns = self.queues.iter().map(|queue| queue.bursts()).sum();
        self.leaving = Some(Leaving { turns, done });
    }

    /// True when the program has gone and all its queues have been let go.
    pub(crate) fn has_left(&self) -> bool {
        self.queues.is_empty()
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
        for _ in 0..self.queues.len() {
            let at = self.next;
            self.next = if at + 1 < self.queues.len() { at + 1 } else { 0 };
            let moved = self.queues.get_mut(at).map_or(0, |queue| queue.turn());
            if moved > 0 {
                return moved;
            }
        }
        0
    }

    /// One of the turns of a program that leaves: serves a burst, or lets go of a queue.
    fn last_turn(&mut self) -> usize {
        if self.leaving.as_ref().is_some_and(|l| l.turns > 0) {
            let moved = self.serve();
            if let Some(leaving) = &mut self.leaving {
                leaving.turns = if moved > 0 { leaving.turns - 1 } else { 0 };
            }
            return moved;
        }
        let Some(mut queue) = self.queues.pop() else { return 0 };
        queue.retire();
        self.next = 0;
        if let Some(leaving) = &self.leaving {
            let _ = leaving.done.send(queue); // when nobody waits for it, it is dropped here
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
    pub(crate) fn report(&self) -> impl Iterator<Item = (ProgramId, QueueStatus)> {
        self.queues.iter().map(|queue| (self.program, queue.status()))
    }
}
