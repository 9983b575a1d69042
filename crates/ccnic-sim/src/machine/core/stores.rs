//! Stores: they wait in order in the store buffer until their lines are owned, asked for as soon as the words are known.

use std::task::Poll;

use ccnic::memory::LINE;

use crate::kernel::events::Event;
use crate::machine::World;
use crate::machine::core::{Store, Stored, Wait};
use crate::machine::step::UOPS;
use crate::protocols::{Request, State};

impl World {
    /// Stores a line of payload, all of it or (`whole` is false) a part.
    pub fn write_line(&mut self, core: u8, line: u32, whole: bool) -> Poll<()> {
        if !self.ready(core) || !self.store_room(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, self.costs.payload_line, UOPS);
        if !self.stored_at_once(core, line, Stored::Payload) {
            let whole = whole && self.costs.dataless;
            self.fetch(core, line, if whole { Request::OwnWhole } else { Request::Own }, true);
        }
        Poll::Ready(())
    }

    /// Stores a word.
    pub fn store(&mut self, core: u8, at: u32, value: u64) -> Poll<()> {
        if self.is_mapped(at / LINE) {
            return self.store_uncached(core, at, value);
        }
        if !self.ready(core) || !self.store_room(core) {
            return Poll::Pending;
        }
        self.charge(core, self.costs.access, UOPS);
        let (line, bit) = (at / LINE, 1u8 << (at / 8 % 8));
        let opened = self.cores[core as usize].open;
        if opened.is_some_and(|(open, _)| open != line) {
            self.close(core);
        }
        if !self.stored_at_once(core, line, Stored::Word(at, value)) {
            let open = &mut self.cores[core as usize].open;
            *open = Some((line, open.map_or(0, |(_, mask)| mask) | bit));
        }
        Poll::Ready(())
    }

    /// A hint to move a line towards its reader, after the stores before it.
    pub fn demote(&mut self, core: u8, line: u32) -> Poll<()> {
        if !self.costs.demote {
            return Poll::Ready(());
        }
        if !self.ready(core) || !self.store_room(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, self.costs.access, 1);
        let c = &mut self.cores[core as usize];
        if c.stores.is_empty() {
            self.send_demote(core, line);
        } else {
            let position = c.position;
            c.stores.push_back(Store { line, what: Stored::Demote, position });
        }
        Poll::Ready(())
    }

    pub(crate) fn store_room(&mut self, core: u8) -> bool {
        let room = self.cores[core as usize].stores.len() < self.costs.store_queue;
        if !room {
            self.wait(core, Wait::Stores(false));
        }
        room
    }

    /// Stores when nothing is before it and the line is owned; otherwise it waits in the store buffer.
    pub(crate) fn stored_at_once(&mut self, core: u8, line: u32, what: Stored) -> bool {
        let c = &mut self.cores[core as usize];
        let store = Store { line, what, position: c.position };
        let owned = c.caches.find(store.line).is_some_and(|(state, _)| state.owned());
        if owned {
            c.counters.l1_hits += 1;
        }
        if c.stores.is_empty() && owned && store.position < c.oldest {
            self.commit(core, store);
            return true;
        }
        c.stores.push_back(store);
        owned
    }

    fn commit(&mut self, core: u8, store: Store) {
        self.cores[core as usize].caches.set_state(store.line, State::Modified);
        if let Stored::Word(at, value) = store.what {
            self.commit_word(core, at, value);
        }
    }

    /// The words of a line have been stored: asks for its ownership; without data, if it was all of them.
    pub(crate) fn close(&mut self, core: u8) {
        let Some((line, mask)) = self.cores[core as usize].open.take() else { return };
        let whole = mask == u8::MAX && self.costs.dataless;
        self.fetch(core, line, if whole { Request::OwnWhole } else { Request::Own }, true);
    }

    /// Stores what is at the front of the store buffer, owned, and after no load that is still under way (x86-TSO: instructions
    /// retire in order, and stores reach the cache after they have retired).
    pub(crate) fn drain(&mut self, core: u8) {
        while let Some(store) = self.cores[core as usize].stores.front().copied() {
            let c = &mut self.cores[core as usize];
            if store.position >= c.oldest {
                break;
            }
            if store.what == Stored::Demote {
                c.stores.pop_front();
                self.send_demote(core, store.line);
                continue;
            }
            if let Stored::Uncached(at, value) = store.what {
                self.post(core, at, value, self.now);
                break;
            }
            if c.state(store.line).owned() {
                c.stores.pop_front();
                self.commit(core, store);
                continue;
            }
            // Asked for and lost again, or never asked for.
            if c.open.is_none_or(|(open, _)| open != store.line) {
                self.fetch(core, store.line, Request::Own, true);
            }
            break;
        }
        let (room, c) = (self.costs.store_queue, &self.cores[core as usize]);
        let wakes = match c.wait {
            Wait::Stores(true) => c.stores.is_empty(),
            Wait::Stores(false) => c.stores.len() < room,
            _ => false,
        };
        if wakes {
            self.wake(core, self.now);
        }
    }

    fn send_demote(&mut self, core: u8, line: u32) {
        let at = self.now.max(self.cores[core as usize].clock) + self.costs.mesh;
        self.events.push(at, Event::Demote(line, core));
    }
}
