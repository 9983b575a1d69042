//! Conservative lookahead: how far an agent's clock may run ahead of the simulation's time.
//!
//! An agent may handle its own accesses without an event as long as no message can reach it in between: up to the arrival of
//! the first message that is on its way to it, and, since others may send one from now on, up to the shortest delay of a message.

use super::time::Ps;

/// What bounds one agent.
#[derive(Debug, Default)]
pub struct Lookahead {
    /// No message reaches the agent before this time.
    limit: Ps,
    /// When the messages that are on their way to it arrive.
    arrivals: Vec<Ps>,
}

impl Lookahead {
    /// A message will arrive at `at`.
    #[inline]
    pub fn expect(&mut self, at: Ps) {
        self.arrivals.push(at);
        self.limit = self.limit.min(at);
    }

    /// A message that was expected at `at` has arrived.
    #[inline]
    pub fn arrived(&mut self, at: Ps) {
        if let Some(i) = self.arrivals.iter().position(|arrival| *arrival == at) {
            self.arrivals.swap_remove(i);
        }
    }

    /// Sets the limit anew: a message that is sent from now on arrives at `soonest` at the earliest.
    #[inline]
    pub fn extend(&mut self, soonest: Ps) {
        self.limit = self.arrivals.iter().copied().min().unwrap_or(soonest).min(soonest);
    }

    /// True when an agent at `clock` has to let others go first.
    #[inline]
    pub fn is_reached(&self, clock: Ps) -> bool {
        clock >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_runs_up_to_the_first_message() {
        let mut l = Lookahead::default();
        assert!(l.is_reached(0), "nothing is known before the first event");
        l.extend(20_000);
        assert!(!l.is_reached(19_999) && l.is_reached(20_000));
        l.expect(15_000);
        l.expect(12_000);
        assert!(!l.is_reached(11_999) && l.is_reached(12_000));
        l.arrived(12_000);
        l.extend(32_000);
        assert!(!l.is_reached(14_999) && l.is_reached(15_000), "the other message is still on its way");
        l.arrived(15_000);
        l.extend(35_000);
        assert!(!l.is_reached(34_999) && l.is_reached(35_000));
    }
}
