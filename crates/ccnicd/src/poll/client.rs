//! One client in a worker's schedule.
//!
//! A client that leaves is served its last bursts, and makes the steps of its end, as a client of the schedule like any other: its end
//! delays nobody.

use std::sync::mpsc::Sender;

use ccnic_control::ClientId;
use ccnic_control::messages::QueueStatus;

use super::schedule::Polled;
use super::{Client, Closing};

/// A client, until it has left.
pub(crate) struct Scheduled {
    pub(crate) id: ClientId,
    /// `None` when it has left.
    client: Option<Box<dyn Client>>,
    leaving: Option<Leaving>,
}

/// A client whose program has gone, or whose worker stops.
struct Leaving {
    /// Polls in which what it had sent is served.
    polls: usize,
    /// Of these, the last in a row that moved nothing.
    empty: usize,
    /// Where it goes when it is done. Dropping the last part of a client unmaps its region and closes its sockets, which can take long.
    done: Sender<Box<dyn Client>>,
}

impl Scheduled {
    pub(crate) fn new(id: ClientId, client: Box<dyn Client>) -> Scheduled {
        Scheduled { id, client: Some(client), leaving: None }
    }

    pub(crate) fn client(&mut self) -> Option<&mut Box<dyn Client>> {
        self.client.as_mut()
    }

    /// Serves what has been sent, then hands the client to `done`.
    pub(crate) fn leave(&mut self, done: Sender<Box<dyn Client>>) {
        let polls = self.client.as_ref().map_or(0, |client| client.backlog());
        self.leaving = Some(Leaving { polls, empty: 0, done });
    }

    /// One of the polls of a client that leaves: moves a burst, or makes a step towards its end. Returns 0 when it waits for other
    /// workers.
    fn last_poll(&mut self) -> usize {
        let (Some(client), Some(leaving)) = (&mut self.client, &mut self.leaving) else { return 0 };
        if leaving.polls > 0 {
            let moved = client.poll();
            if moved > 0 {
                (leaving.polls, leaving.empty) = (leaving.polls - 1, 0);
            } else if !client.waits() {
                leaving.empty += 1;
                if leaving.empty >= client.sweep() {
                    leaving.polls = 0;
                }
            }
            return moved;
        }
        match client.close() {
            Closing::Working => return 1,
            Closing::Waiting => return 0,
            Closing::Done => {}
        }
        if let Some(Err(unsent)) = self.client.take().map(|client| leaving.done.send(client)) {
            std::mem::forget(unsent); // nobody waits for it: better a leak than a core that stands still
        }
        1
    }

    /// Counters of every queue.
    pub(crate) fn report(&self) -> impl Iterator<Item = (ClientId, QueueStatus)> {
        let queues = self.client.iter().flat_map(|client| client.report());
        queues.map(|queue| (self.id, queue))
    }
}

impl Polled for Scheduled {
    #[inline]
    fn spin(&mut self, polls: usize) -> usize {
        if self.leaving.is_some() {
            return self.last_poll();
        }
        self.client.as_mut().map_or(0, |client| client.spin(polls))
    }

    fn round(&self) -> usize {
        self.client.as_ref().map_or(1, |client| client.round())
    }

    fn sweep(&self) -> usize {
        self.client.as_ref().map_or(1, |client| client.sweep())
    }

    fn has_left(&self) -> bool {
        self.client.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Poll, Steer};
    use crate::ports::{Notify, Statistics};
    use std::sync::mpsc::channel;

    /// Has so many bursts waiting, then so many steps to its end; a negative number of steps waits for others first.
    struct Fake {
        bursts: usize,
        refills: bool,
        steps: i32,
    }

    impl Poll for Fake {
        fn poll(&mut self) -> usize {
            if self.bursts == 0 {
                return 0;
            }
            self.bursts -= usize::from(!self.refills);
            32
        }
        fn backlog(&self) -> usize {
            8
        }
        fn close(&mut self) -> Closing {
            self.steps -= self.steps.signum();
            match self.steps {
                0 => Closing::Done,
                1.. => Closing::Working,
                _ => Closing::Waiting,
            }
        }
    }

    impl Statistics for Fake {
        fn report(&self) -> Vec<QueueStatus> {
            vec![QueueStatus::default(); 2]
        }
    }

    impl Client for Fake {
        fn notify(&mut self) -> Option<&mut dyn Notify> {
            None
        }
        fn steer(&mut self) -> Option<&mut dyn Steer> {
            None
        }
    }

    fn polls_until_gone(fake: Fake) -> Vec<usize> {
        let mut client = Scheduled::new(7, Box::new(fake));
        let (done, gone) = channel();
        assert_eq!(client.report().map(|(id, _)| id).collect::<Vec<_>>(), [7, 7]);
        client.leave(done);
        let mut moved = Vec::new();
        while !client.has_left() {
            assert!(gone.try_recv().is_err());
            moved.push(client.spin(1));
            assert!(moved.len() < 100);
        }
        assert!(gone.try_recv().is_ok(), "it is handed over, not dropped on the polling thread");
        assert_eq!((client.spin(1), client.report().count()), (0, 0));
        moved
    }

    #[test]
    fn a_client_that_leaves_is_served_what_it_sent() {
        assert_eq!(polls_until_gone(Fake { bursts: 3, refills: false, steps: 2 }), [32, 32, 32, 0, 1, 1]);
    }

    #[test]
    fn a_client_that_goes_on_sending_is_served_its_backlog_once() {
        let moved = polls_until_gone(Fake { bursts: 1, refills: true, steps: 1 });
        assert_eq!(moved, [32, 32, 32, 32, 32, 32, 32, 32, 1]);
    }

    #[test]
    fn a_client_that_waits_for_other_workers_counts_as_idle() {
        assert_eq!(polls_until_gone(Fake { bursts: 0, refills: false, steps: -3 }), [0, 0, 0, 1]);
    }
}
