//! Stores: they wait in order in the store buffer until their lines are owned. Ownership is requested as soon as the words of a line
//! are known.

use std::task::Poll;

use ccnic::memory::LINE;

use super::prefetch::Access;
use super::store_buffer::{Store, Stored};
use super::{Core, Wait};
use crate::machine::event::Event;
use crate::machine::uncore::Uncore;
use crate::protocols::table::{Request, State};

impl Core {
    /// Stores a line of payload, all of it or (`whole` is false) a part.
    pub fn write_line(&mut self, u: &mut Uncore, line: u32, whole: bool) -> Poll<()> {
        self.charge.write(line, &self.code.stages);
        if !self.can_access(u, line) || !self.has_store_room(u) {
            return Poll::Pending;
        }
        self.close(u);
        self.dispatch_line(u);
        if !self.buffer_store(u, line, Stored::Payload) {
            self.fetch_to_write(u, line, whole);
        }
        Poll::Ready(())
    }

    /// Stores a word.
    pub fn store(&mut self, u: &mut Uncore, at: u32, value: u64) -> Poll<()> {
        if u.address_map.is_register(at / LINE) {
            return self.store_device(u, at, value);
        }
        let (line, bit) = (at / LINE, 1u8 << (at / 8 % 8));
        self.charge.store(at, &self.code.stages);
        if !self.can_access(u, line) || !self.has_store_room(u) {
            return Poll::Pending;
        }
        self.one_instruction(u);
        if self.coalescing.is_some_and(|(open, _)| open != line) {
            self.close(u);
        }
        if !self.buffer_store(u, line, Stored::Word(at, value)) {
            self.coalescing = Some((line, self.coalescing.map_or(0, |(_, mask)| mask) | bit));
        }
        Poll::Ready(())
    }

    /// A hint to move a line towards its reader, after the stores before it.
    pub fn demote(&mut self, u: &mut Uncore, line: u32) -> Poll<()> {
        if !u.costs.demote {
            return Poll::Ready(());
        }
        if !self.can_dispatch(u) || !self.has_store_room(u) {
            return Poll::Pending;
        }
        self.close(u);
        self.one_instruction(u);
        if self.stores.is_empty() {
            self.send_demote(u, line);
        } else {
            self.stores.push_back(Store { line, what: Stored::Demote, position: self.position });
        }
        Poll::Ready(())
    }

    pub(super) fn has_store_room(&mut self, u: &mut Uncore) -> bool {
        let room = self.stores.len() < u.costs.store_queue;
        if !room {
            self.wait_for(u, Wait::Stores(false));
        }
        room
    }

    /// Commits a store at once if none is before it and the line is owned; otherwise puts it into the store buffer. True when the line
    /// is owned.
    fn buffer_store(&mut self, u: &mut Uncore, line: u32, what: Stored) -> bool {
        let store = Store { line, what, position: self.position };
        let owned = self.caches.access(line).is_some_and(|(state, _)| state.writable());
        if owned {
            self.counters.l1_hits += 1;
        }
        if self.stores.is_empty() && owned && store.position < self.oldest_load {
            self.commit(u, store);
            return true;
        }
        self.stores.push_back(store);
        owned
    }

    fn commit(&mut self, u: &mut Uncore, store: Store) {
        self.caches.set_state(store.line, State::Modified);
        if let Stored::Word(at, value) = store.what {
            u.commit_word(self.id, self.socket, at, value);
        }
    }

    /// The value that this core's own stores under way give a word.
    #[inline]
    pub(super) fn forwarded(&self, at: u32) -> Option<u64> {
        self.stores.iter().rev().find_map(|s| match s.what {
            Stored::Word(word, value) if word == at => Some(value),
            _ => None,
        })
    }

    /// Asks for ownership of a line; without data, if all of it is written.
    fn fetch_to_write(&mut self, u: &mut Uncore, line: u32, whole: bool) {
        let dataless = whole && u.costs.dataless;
        self.ask(u, Access::Store, line, if dataless { Request::OwnNoData } else { Request::ReadOwn });
    }

    /// The words of a line have been stored: asks for its ownership.
    #[inline]
    pub(super) fn close(&mut self, u: &mut Uncore) {
        if let Some((line, mask)) = self.coalescing.take() {
            self.fetch_to_write(u, line, mask == u8::MAX);
        }
    }

    /// Commits the stores at the head of the store buffer whose lines are owned, as long as no older load is under way (x86-TSO:
    /// instructions retire in order, and stores reach the cache after they have retired).
    pub(super) fn drain(&mut self, u: &mut Uncore) {
        while let Some(store) = self.stores.front().copied() {
            if store.position >= self.oldest_load {
                break;
            }
            match store.what {
                Stored::Demote => {
                    self.stores.pop_front();
                    self.send_demote(u, store.line);
                    continue;
                }
                Stored::Uncached(at, value) => {
                    self.post(u, at, value, u.now);
                    break;
                }
                Stored::Payload | Stored::Word(..) => {}
            }
            if self.state(store.line).writable() {
                self.stores.pop_front();
                self.commit(u, store);
                continue;
            }
            // Not asked for yet, or taken away again.
            if self.coalescing.is_none_or(|(open, _)| open != store.line) {
                self.fetch(u, store.line, Request::ReadOwn);
            }
            break;
        }
        let wakes = match self.wait {
            Wait::Stores(true) => self.stores.is_empty(),
            Wait::Stores(false) => self.stores.len() < u.costs.store_queue,
            _ => false,
        };
        if wakes {
            self.wake(u, u.now);
        }
    }

    fn send_demote(&mut self, u: &mut Uncore, line: u32) {
        let at = u.now.max(self.clock) + u.costs.mesh;
        u.events.push(at, Event::Demote(line, self.id));
    }
}
