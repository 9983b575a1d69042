//! The switches of several workers, polled by hand on one thread: as one switch to a test. Port `n` is polled by worker `n` modulo their
//! number.

use std::cell::Cell;
use std::sync::Arc;

use ccnic_control::ClientId;
use ccnic_control::messages::QueueStatus;

use super::lanes::{Guest, lanes};
use super::policy::Rules;
use super::{Member, PortId, Switch, SwitchPort, TableLimits, news};
use crate::poll::Closing;
use crate::poll::sleep::Caller;
use crate::ports::Accepts;

thread_local! {
    static WORKERS: Cell<usize> = const { Cell::new(1) };
}

/// Runs a test, or makes a switch, with so many workers.
pub(super) fn on<T>(workers: usize, test: impl FnOnce() -> T) -> T {
    WORKERS.set(workers);
    let result = test();
    WORKERS.set(1);
    result
}

/// The switches of all workers.
pub(super) struct Workers {
    pub(super) switches: Vec<Switch>,
    callers: Vec<Caller>,
}

impl Workers {
    pub(super) fn new(limits: TableLimits) -> Workers {
        let callers: Vec<_> = (0..WORKERS.get()).map(|_| Caller::new().unwrap()).collect();
        let switches = match callers.len() {
            1 => vec![Switch::new(limits).unwrap()],
            _ => {
                let beside = |news| Switch::beside(limits, news).unwrap();
                news::between(&callers).into_iter().map(beside).collect()
            }
        };
        Workers { switches, callers }
    }

    pub(super) fn home(&self, at: PortId) -> usize {
        usize::from(at) % self.switches.len()
    }

    pub(super) fn set_clock(&mut self, second: u64) {
        self.switches.iter_mut().for_each(|switch| switch.set_clock(second));
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.switches.iter_mut().for_each(|switch| switch.tick(now));
    }

    /// At the first place that is free.
    pub(super) fn join(
        &mut self,
        client: ClientId,
        mut port: Box<dyn SwitchPort>,
    ) -> Result<PortId, Box<dyn SwitchPort>> {
        let free = |at: &PortId| self.switches[0].client(*at).is_none();
        let Some(at) = (0..super::MAX_PORTS as PortId).find(free) else { return Err(port) };
        let (home, rules) = (self.home(at), port.take_rules());
        let mut hand_off = None;
        if self.switches.len() > 1 {
            let (lanes, ends) = lanes(home, &self.callers);
            for (worker, end) in ends {
                let guest = Box::new(Guest::new(home, &*port, end, Arc::default()));
                self.switches[worker].join(client, at, Member::Guest(guest)).unwrap();
            }
            hand_off = Some(Box::new(lanes));
        }
        self.switches[home].join(client, at, Member::Home(port, hand_off)).unwrap();
        self.set_rules(at, rules);
        Ok(at)
    }

    /// A port goes: each worker makes its steps, in turn, until none is left.
    pub(super) fn leave(&mut self, at: PortId) -> Option<Box<dyn SwitchPort>> {
        let mut left = None;
        let mut there: Vec<_> = (0..self.switches.len()).collect();
        for _ in 0..1000 {
            there.retain(|worker| {
                let done = self.switches[*worker].close(at) == Closing::Done;
                if done && let Some(Member::Home(port, _)) = self.switches[*worker].leave(at) {
                    left = Some(port);
                }
                !done
            });
        }
        assert!(there.is_empty(), "a part does not come to its end");
        left
    }

    pub(super) fn set_rules(&mut self, at: PortId, rules: Option<Box<Rules>>) {
        for switch in &mut self.switches {
            let same = rules.as_ref().map(|rules| Rules::new(rules.policy()).unwrap().unwrap());
            switch.set_rules(at, same);
        }
    }

    /// Polls a port at its home, and delivers what it has handed over; returns what the home has moved. All have heard the news before, as
    /// workers do between two turns.
    pub(super) fn spin(&mut self, at: PortId, polls: usize) -> usize {
        let others = self.switches.iter_mut().filter(|switch| switch.has_others());
        others.for_each(Switch::exchange_news);
        let home = self.home(at);
        let moved = self.switches[home].spin(at, polls);
        for worker in (0..self.switches.len()).filter(|worker| *worker != home) {
            while self.switches[worker].spin(at, polls) > 0 {}
        }
        moved
    }

    /// The table of the first worker.
    pub(super) fn table(&self) -> &super::MacTable {
        self.switches[0].table()
    }

    pub(super) fn client(&self, at: PortId) -> Option<ClientId> {
        self.switches[0].client(at)
    }

    pub(super) fn takes_offloads(&self, from: PortId, frame: &[u8]) -> bool {
        self.switches[self.home(from)].accepts(from, frame) == Accepts::ALL
    }

    pub(super) fn port_mut(&mut self, at: PortId) -> Option<&mut (dyn SwitchPort + 'static)> {
        let home = self.home(at);
        self.switches[home].port_mut(at)
    }

    /// Counters of all workers.
    pub(super) fn report(&self, at: PortId) -> Vec<QueueStatus> {
        let home = self.home(at);
        let mut queues = self.switches[home].report(at);
        for (_, switch) in self.switches.iter().enumerate().filter(|(worker, _)| *worker != home) {
            let guest = switch.report(at);
            queues.iter_mut().zip(&guest).for_each(|(queue, guest)| queue.add(guest));
        }
        queues
    }
}
