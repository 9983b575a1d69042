//! Dataplanes: what is done with the bursts of a port that is not joined to others. A dataplane decides where packets go.
//!
//! Packets go back to the program that sent them: by the queue that they were sent on ([`loopback`]), or spread over all its queues
//! ([`rss`]). Ports that are joined belong to a [`switch`](crate::switch).

pub mod loopback;
pub mod rss;
#[cfg(test)]
mod tests;

use ccnic_control::messages::QueueStatus;
use rustix::event::PollFd;

use crate::poll::{Client, Closing, Poll, Steer};
use crate::ports::{Doze, Notify, Port, Statistics};
use crate::switch::TableLimits;

/// What programs are connected to, as the operator chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataplaneKind {
    /// Back to the program, in a receive buffer that the NIC allocates and copies into.
    Loopback,
    /// Back to the program in the same buffer, without a copy.
    Reflect,
    /// To other programs, by their addresses.
    Switch(TableLimits),
}

impl DataplaneKind {
    /// The name in the status and in the log.
    pub fn name(self) -> &'static str {
        match self {
            DataplaneKind::Loopback => "loopback",
            DataplaneKind::Reflect => "loopback --reflect",
            DataplaneKind::Switch(_) => "switch",
        }
    }
}

/// What one worker does with the bursts of one port. Belongs to the worker's thread.
pub trait Dataplane<P: Port>: Send {
    /// See [`Poll::poll`].
    fn poll(&mut self, port: &mut P) -> usize;

    /// See [`Poll::round`].
    fn round(&self) -> usize {
        1
    }

    /// See [`Poll::sweep`].
    fn sweep(&self) -> usize {
        1
    }

    /// See [`Poll::waits`].
    fn waits(&self) -> bool {
        false
    }

    /// True when it has no packets in its hands: then its worker may sleep, if somebody calls when there are some.
    fn may_doze(&self) -> bool {
        false
    }

    /// See [`Poll::awoke`].
    fn awoke(&mut self) {}

    /// True when another worker, which calls then, has handed packets over.
    fn has_work(&self) -> bool {
        false
    }

    /// One step towards the end: gets packets out of this worker's hands. Never called before the last [`poll`](Dataplane::poll).
    fn close(&mut self, _port: &mut P) -> Closing {
        Closing::Done
    }

    /// Its way to be told of RSS, if it has one.
    fn steer(&mut self) -> Option<&mut dyn Steer> {
        None
    }
}

/// A port, and the dataplane that its packets go through: what a worker polls.
#[derive(Debug)]
pub struct Attachment<P, D> {
    port: P,
    dataplane: D,
}

impl<P: Port, D: Dataplane<P>> Attachment<P, D> {
    /// Both belong to one thread from now on.
    pub fn new(port: P, dataplane: D) -> Attachment<P, D> {
        Attachment { port, dataplane }
    }
}

impl<P: Port, D: Dataplane<P>> Poll for Attachment<P, D> {
    fn poll(&mut self) -> usize {
        self.spin(1)
    }

    /// What moves packets is inlined here, so that it uses the registers that `Vectors::run` compiles it for.
    fn spin(&mut self, polls: usize) -> usize {
        let (_, mem) = self.port.queues();
        mem.vectors().run(
            #[inline(always)]
            || {
                for _ in 0..polls {
                    let moved = self.dataplane.poll(&mut self.port);
                    if moved > 0 {
                        return moved;
                    }
                }
                0
            },
        )
    }

    fn round(&self) -> usize {
        self.dataplane.round()
    }

    fn sweep(&self) -> usize {
        self.dataplane.sweep()
    }

    fn backlog(&self) -> usize {
        self.port.backlog()
    }

    fn waits(&self) -> bool {
        self.dataplane.waits()
    }

    fn awoke(&mut self) {
        self.dataplane.awoke();
    }

    fn close(&mut self) -> Closing {
        match self.dataplane.close(&mut self.port) {
            Closing::Done if self.port.retire() => Closing::Working,
            step => step,
        }
    }
}

/// The port's users call, and other workers.
impl<P: Port, D: Dataplane<P>> Doze for Attachment<P, D> {
    fn arm(&self) -> bool {
        !self.dataplane.has_work() && self.port.doze().is_some_and(Doze::arm)
    }

    fn has_work(&self) -> bool {
        self.dataplane.has_work() || self.port.doze().is_none_or(Doze::has_work)
    }

    fn calls<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        self.port.doze().into_iter().for_each(|port| port.calls(to));
    }

    fn disarm(&self, answered: &[PollFd<'_>]) {
        self.port.doze().into_iter().for_each(|port| port.disarm(answered));
    }
}

impl<P: Port + Statistics, D> Statistics for Attachment<P, D> {
    fn report(&self) -> Vec<QueueStatus> {
        self.port.report()
    }
}

impl<P: Port + Statistics, D: Dataplane<P>> Client for Attachment<P, D> {
    fn notify(&mut self) -> Option<&mut dyn Notify> {
        self.port.notify()
    }

    fn doze(&self) -> Option<&dyn Doze> {
        if self.dataplane.may_doze() && self.port.doze().is_some() { Some(self) } else { None }
    }

    fn steer(&mut self) -> Option<&mut dyn Steer> {
        self.dataplane.steer()
    }
}
