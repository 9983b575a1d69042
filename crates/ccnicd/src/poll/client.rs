//! One client in a worker's schedule.
//!
//! A client that leaves is served its last bursts, and makes the steps of its end, as a client of the schedule like any other: its end
//! delays nobody.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use ccnic::nic::FETCH;
use ccnic::rss::Spreader;
use ccnic_control::ClientId;
use ccnic_control::messages::QueueStatus;

use super::links::Links;
use super::schedule::Polled;
use super::{Client, Closing};
use crate::ports::{Doze, Notify};
use crate::switch::policy::Rules;
use crate::switch::{Member, PortId, Switch, SwitchPort};

/// What one worker polls of a client, on its way to the worker and back.
pub(crate) enum Part {
    /// By itself, with a dataplane of its own.
    Apart(Box<dyn Client>),
    /// A port of the switch, with this place in it, or what this worker has of it.
    Joined(PortId, Member),
}

impl Part {
    /// Spreads packets by `spreader`, with `links` to the workers of the other queues where there are any.
    pub(crate) fn steer(&mut self, links: Option<Links>, spreader: Option<Arc<Spreader>>) {
        match self {
            Part::Apart(client) => steer(&mut **client, links, spreader),
            Part::Joined(_, Member::Home(port, _)) => port.set_rss(spreader),
            Part::Joined(_, Member::Guest(_)) => {}
        }
    }
}

fn steer(client: &mut dyn Client, links: Option<Links>, spreader: Option<Arc<Spreader>>) {
    if let Some(dataplane) = client.steer() {
        links.into_iter().for_each(|links| dataplane.link(links));
        dataplane.set_rss(spreader);
    }
}

/// Where a client's part is.
enum Place {
    Apart(Box<dyn Client>),
    /// In the switch.
    Joined(PortId),
    /// It was in the switch.
    Left(PortId, Member),
    Gone,
}

/// A client, until it has left.
pub(crate) struct Scheduled {
    pub(crate) id: ClientId,
    place: Place,
    leaving: Option<Leaving>,
}

/// A client whose program has gone, or whose worker stops.
struct Leaving {
    /// Descriptors of what it had sent that are served still, at most.
    descs: usize,
    /// Polls in a row that moved nothing.
    empty: usize,
    /// It stays in its place when they are over, since others may have packets for it.
    stays: bool,
    /// Where it goes when it is done. Dropping the last part of a client unmaps its region and closes its sockets, which can take long.
    done: Sender<Part>,
}

impl Scheduled {
    /// A port joins `switch`, which has room for it: the control thread counts.
    pub(crate) fn new(id: ClientId, part: Part, switch: &mut Switch) -> Scheduled {
        let place = match part {
            Part::Apart(client) => Place::Apart(client),
            Part::Joined(at, member) => match switch.join(id, at, member) {
                Ok(()) => Place::Joined(at),
                Err(member) => Place::Left(at, member),
            },
        };
        Scheduled { id, place, leaving: None }
    }

    /// Its way to be told of notifiers, if it has one.
    pub(crate) fn notify<'a>(&'a mut self, switch: &'a mut Switch) -> Option<&'a mut dyn Notify> {
        match &mut self.place {
            Place::Apart(client) => client.notify(),
            Place::Joined(at) => switch.port_mut(*at)?.notify(),
            Place::Left(..) | Place::Gone => None,
        }
    }

    /// Its way to let the worker sleep, if it has one and there is nothing to do.
    pub(crate) fn doze<'a>(&'a self, switch: &'a Switch) -> Option<&'a dyn Doze> {
        match &self.place {
            _ if self.leaving.is_some() => None,
            Place::Apart(client) => client.doze(),
            Place::Joined(at) => switch.doze(*at),
            Place::Left(..) | Place::Gone => None,
        }
    }

    /// See [`Part::steer`].
    pub(crate) fn steer(
        &mut self,
        links: Option<Links>,
        spreader: Option<Arc<Spreader>>,
        switch: &mut Switch,
    ) {
        match &mut self.place {
            Place::Apart(client) => steer(&mut **client, links, spreader),
            Place::Joined(at) => {
                switch.port_mut(*at).into_iter().for_each(|port| port.set_rss(spreader.clone()))
            }
            Place::Left(..) | Place::Gone => {}
        }
    }

    /// See [`Switch::set_rules`]. Gives `rules` back where it is no port.
    pub(crate) fn govern(&mut self, rules: Option<Box<Rules>>, switch: &mut Switch) -> Option<Box<Rules>> {
        match &self.place {
            Place::Joined(at) => switch.set_rules(*at, rules),
            Place::Apart(_) | Place::Left(..) | Place::Gone => rules,
        }
    }

    /// Serves what has been sent, then hands the client to `done`.
    pub(crate) fn leave(&mut self, done: Sender<Part>, switch: &Switch) {
        let bursts = match &self.place {
            Place::Apart(client) => client.backlog(),
            Place::Joined(at) => switch.port(*at).map_or(0, SwitchPort::backlog),
            Place::Left(..) | Place::Gone => 0,
        };
        self.leaving = Some(Leaving { descs: bursts * FETCH, empty: 0, stays: false, done });
    }

    /// As `leave`, but stays where others reach it until it is let go.
    pub(crate) fn leave_last(&mut self, done: Sender<Part>, switch: &Switch) {
        self.leave(done, switch);
        self.leaving.iter_mut().for_each(|leaving| leaving.stays = true);
    }

    /// True when all that it had sent is served.
    pub(crate) fn is_served(&self) -> bool {
        self.leaving.as_ref().is_none_or(|leaving| leaving.descs == 0)
    }

    /// It need not stay any longer.
    pub(crate) fn let_go(&mut self) {
        self.leaving.iter_mut().for_each(|leaving| leaving.stays = false);
    }

    #[inline(always)]
    fn poll_part(&mut self, polls: usize, switch: &mut Switch) -> usize {
        match &mut self.place {
            Place::Apart(client) => client.spin(polls),
            Place::Joined(at) => switch.spin(*at, polls),
            Place::Left(..) | Place::Gone => 0,
        }
    }

    /// One of the polls of a client that leaves: moves a burst, or makes a step towards its end. Returns 0 when it waits for other
    /// workers.
    fn last_poll(&mut self, switch: &mut Switch) -> usize {
        if self.is_served() {
            let stays = self.leaving.as_ref().is_some_and(|leaving| leaving.stays);
            return if stays { 0 } else { self.close(switch) };
        }
        let moved = self.poll_part(1, switch);
        let waits = matches!(&self.place, Place::Apart(client) if client.waits());
        let sweep = self.sweep(switch);
        let Some(leaving) = &mut self.leaving else { return 0 };
        if moved > 0 {
            let floods = matches!(&self.place, Place::Joined(at) if switch.is_flooding(*at));
            let descs = if floods { 0 } else { moved }; // there are so many polls of a flood as ports, at most
            (leaving.descs, leaving.empty) = (leaving.descs.saturating_sub(descs), 0);
        } else if !waits {
            leaving.empty += 1;
            if leaving.empty >= sweep {
                leaving.descs = 0;
            }
        }
        moved
    }

    /// One step towards the end, after the last poll.
    fn close(&mut self, switch: &mut Switch) -> usize {
        let step = match &mut self.place {
            Place::Apart(client) => client.close(),
            Place::Joined(at) => match switch.close(*at) {
                Closing::Done => {
                    let at = *at;
                    self.place = switch.leave(at).map_or(Place::Gone, |member| Place::Left(at, member));
                    Closing::Working
                }
                step => step,
            },
            Place::Left(_, Member::Home(port, _)) => {
                if port.retire() {
                    Closing::Working
                } else {
                    Closing::Done
                }
            }
            Place::Left(_, Member::Guest(_)) | Place::Gone => Closing::Done,
        };
        match step {
            Closing::Working => return 1,
            Closing::Waiting => return 0,
            Closing::Done => {}
        }
        let part = match std::mem::replace(&mut self.place, Place::Gone) {
            Place::Apart(client) => Part::Apart(client),
            Place::Left(at, member) => Part::Joined(at, member),
            Place::Joined(_) | Place::Gone => return 1,
        };
        if let Some(Err(unsent)) = self.leaving.take().map(|leaving| leaving.done.send(part)) {
            std::mem::forget(unsent); // nobody waits for it: better a leak than a core that stands still
        }
        1
    }

    /// Counters of every queue.
    pub(crate) fn report(&self, switch: &Switch) -> Vec<(ClientId, QueueStatus)> {
        let queues = match &self.place {
            Place::Apart(client) => client.report(),
            Place::Joined(at) => switch.report(*at),
            Place::Left(_, Member::Home(port, _)) => port.report(),
            Place::Left(_, Member::Guest(guest)) => vec![guest.report()],
            Place::Gone => Vec::new(),
        };
        queues.into_iter().map(|queue| (self.id, queue)).collect()
    }
}

impl Polled for Scheduled {
    type Shared = Switch;

    #[inline]
    fn spin(&mut self, polls: usize, switch: &mut Switch) -> usize {
        if self.leaving.is_some() {
            return self.last_poll(switch);
        }
        self.poll_part(polls, switch)
    }

    fn round(&self, switch: &Switch) -> usize {
        match &self.place {
            Place::Apart(client) => client.round(),
            Place::Joined(at) => switch.port(*at).map_or(1, SwitchPort::round),
            Place::Left(..) | Place::Gone => 1,
        }
    }

    fn sweep(&self, switch: &Switch) -> usize {
        match &self.place {
            Place::Apart(client) => client.sweep(),
            Place::Joined(at) => switch.port(*at).map_or(1, SwitchPort::sweep),
            Place::Left(..) | Place::Gone => 1,
        }
    }

    fn awoke(&mut self, switch: &mut Switch) {
        match &mut self.place {
            Place::Apart(client) => client.awoke(),
            Place::Joined(at) => switch.port_mut(*at).into_iter().for_each(SwitchPort::awoke),
            Place::Left(..) | Place::Gone => {}
        }
    }

    fn has_left(&self) -> bool {
        matches!(self.place, Place::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Poll, Steer};
    use crate::ports::Statistics;
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
        let switch = &mut Switch::none();
        let mut client = Scheduled::new(7, Part::Apart(Box::new(fake)), switch);
        let (done, gone) = channel();
        assert_eq!(client.report(switch).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [7, 7]);
        client.leave(done, switch);
        let mut moved = Vec::new();
        while !client.has_left() {
            assert!(gone.try_recv().is_err());
            moved.push(client.spin(1, switch));
            assert!(moved.len() < 100);
        }
        assert!(gone.try_recv().is_ok(), "it is handed over, not dropped on the polling thread");
        assert_eq!((client.spin(1, switch), client.report(switch).len()), (0, 0));
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
