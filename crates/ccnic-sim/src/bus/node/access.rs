//! Accesses to memory, by the protocol's table: which transaction they need, what the other caches do, where the block comes from.

use super::{BLOCK, Node};
use crate::bus::buses::{Cycle, Granted, Operation};
use crate::bus::network::Event;
use crate::protocols::snooping::{Access, Next, State, Transaction};

impl Node {
    /// An access to a block; true if it took a transaction, so that its bytes are to be looked at later.
    pub fn access(&mut self, agent: usize, at: u32, access: Access) -> bool {
        let (block, cache) = (at / BLOCK, self.seats[agent].cache);
        let state = self.caches[cache].state(block);
        let row = *self.protocol.access_row(state, access);
        let Some(transaction) = row.transaction else {
            if let Next::Is(next) = row.next
                && next != state
            {
                self.caches[cache].change(block, next);
            }
            return false;
        };
        self.replace(agent, cache, block);
        let end = self.transact(agent, cache, block, transaction, row.next);
        let moved = matches!(transaction, Transaction::Read | Transaction::ReadInvalidate);
        let miss = if moved && !self.is_device(cache) { self.miss } else { 0 };
        self.seats[agent].clock = end + miss;
        true
    }

    /// Writes back the block that has to leave for another one.
    fn replace(&mut self, agent: usize, cache: usize, block: u32) {
        let Some(victim) = self.caches[cache].victim(block) else { return };
        self.caches[cache].change(victim, State::Invalid);
        let to_device = self.is_home(victim);
        if to_device && self.is_device(cache) {
            return; // its own memory
        }
        let operation = if to_device { Operation::WriteBackToDevice } else { Operation::WriteBack };
        let clock = self.seats[agent].clock;
        let granted = self.buses.grant(operation, clock);
        self.counts.write_backs += 1;
        // On the way to what replaces it: a buffer for blocks that are written back would hide this (CNI section 5.1.1).
        self.seats[agent].clock = granted.end;
        for other in (0..self.caches.len()).filter(|other| *other != cache) {
            let row = self.protocol.snoop_row(self.caches[other].state(victim), Transaction::WriteBack);
            self.caches[other].change(victim, row.next);
            let snarfs = self.wiring.as_ref().is_some_and(|w| w.snarfing) && !self.is_device(other);
            if snarfs && self.caches[other].has_tag(victim) && !self.caches[other].state(victim).readable() {
                self.caches[other].change(victim, self.protocol.snarfed);
                self.counts.snarfed += 1;
            }
        }
    }

    fn is_home(&self, block: u32) -> bool {
        self.wiring.as_ref().is_some_and(|w| w.home.contains(&(block * BLOCK)))
    }

    fn transact(
        &mut self,
        agent: usize,
        cache: usize,
        block: u32,
        transaction: Transaction,
        next: Next,
    ) -> Cycle {
        let by_device = self.is_device(cache);
        let clock = self.seats[agent].clock;
        let (mut supplier, mut held, mut gone) = (None, false, 0u32);
        for other in (0..self.caches.len()).filter(|other| *other != cache) {
            let state = self.caches[other].state(block);
            let row = self.protocol.snoop_row(state, transaction);
            held |= state.readable();
            supplier = if row.supplies { Some(other) } else { supplier };
            if row.next != state {
                self.caches[other].change(block, row.next);
                gone |= u32::from(!row.next.readable()) << other;
            }
        }
        let state = match next {
            Next::Is(state) => state,
            Next::ByShared if held => State::Shared,
            Next::ByShared => State::Exclusive,
        };
        let home = self.is_home(block);
        // The device is home and no cache has the block: it needs no bus.
        let granted = if by_device && home && supplier.is_none() && !held {
            Granted { end: clock, seen: clock }
        } else {
            let operation = self.operation(by_device, home, supplier, transaction);
            match transaction {
                Transaction::Invalidate => self.counts.invalidations += 1,
                _ => self.counts.reads += 1,
            }
            self.buses.grant(operation, clock)
        };
        self.caches[cache].install(block, state);
        for other in (0..self.caches.len()).filter(|other| gone >> other & 1 == 1) {
            self.invalidated(other, block, granted.seen);
        }
        let at = block * BLOCK;
        if !by_device
            && transaction != Transaction::Read
            && self.wiring.as_ref().is_some_and(|w| w.watched.contains(&at))
        {
            self.add_event(granted.seen, Event::Snooped(block));
        }
        granted.end
    }

    fn operation(&self, by_device: bool, home: bool, supplier: Option<usize>, t: Transaction) -> Operation {
        let from_device = supplier.map_or(home, |cache| self.is_device(cache));
        match (t, by_device) {
            (Transaction::Invalidate, true) => Operation::DeviceInvalidates,
            (Transaction::Invalidate, false) if home => Operation::InvalidateAtDevice,
            (Transaction::Invalidate, false) => Operation::Invalidate,
            (_, true) if supplier.is_some() || home => Operation::ToDevice,
            (_, false) if from_device => Operation::FromDevice,
            _ => Operation::Memory,
        }
    }
}
