//! Accesses to devices (CC-NIC section 2.2): uncached loads, uncached stores, write-combining stores.
//!
//! | access | what it does |
//! |---|---|
//! | uncached load | after all stores, one at a time; the core waits for the answer |
//! | uncached store | posted, in order with other stores; it stays at the head of the store buffer until the device's side of the interconnect has accepted it, so that one is under way |
//! | write-combining store | goes into a buffer of 64 bytes; a full one is sent at once; when a store finds all taken, the oldest is sent, and the store waits for a free one |
//!
//! A load or store of a line that is mapped to a device's registers is uncached: ring code runs unchanged where a register lies in
//! a device. Accesses to a line that is not mapped have no effect.

use std::task::Poll;

use ccnic::memory::LINE;

use super::store_buffer::{Store, Stored};
use super::{Core, Wait};
use crate::kernel::time::Ps;
use crate::machine::event::Event;
use crate::machine::ids::DeviceId;
use crate::machine::uncached::{Access, AccessKind};
use crate::machine::uncore::Uncore;

impl Core {
    /// Sends an access to a device at a time.
    fn send(&self, u: &mut Uncore, device: DeviceId, kind: AccessKind, at: Ps) {
        let access = u.accesses.add(Access { core: self.id, kind });
        let arrival = at + u.device_latency[device as usize];
        u.events.push(arrival, Event::Access(access, device));
    }

    /// Stores a word to a device.
    pub fn store_device(&mut self, u: &mut Uncore, at: u32, value: u64) -> Poll<()> {
        if !u.address_map.is_register(at / LINE) {
            return Poll::Ready(());
        }
        if !self.can_dispatch(u) || !self.has_store_room(u) {
            return Poll::Pending;
        }
        self.close(u);
        self.one_instruction(u);
        let store = Store { line: at / LINE, what: Stored::Uncached(at, value), position: self.position };
        let first = self.stores.is_empty() && store.position < self.oldest_load;
        self.stores.push_back(store);
        if first {
            self.post(u, at, value, self.clock);
        }
        Poll::Ready(())
    }

    /// Sends the store at the head of the store buffer to its device, unless it has been sent.
    pub(super) fn post(&mut self, u: &mut Uncore, at: u32, value: u64, when: Ps) {
        if let Some(device) = u.address_map.registers_of(at / LINE)
            && !std::mem::replace(&mut self.uncached.posted, true)
        {
            self.send(u, device, AccessKind::Store { at, value }, when);
        }
    }

    /// The device's side has accepted the store at the head of the store buffer.
    pub fn store_accepted(&mut self, u: &mut Uncore) {
        self.uncached.posted = false;
        self.stores.pop_front();
        self.drain(u);
    }

    /// Loads 8 bytes, or 64, from a device; returns the first word.
    pub fn read_device(&mut self, u: &mut Uncore, at: u32, bytes: u32) -> Poll<u64> {
        if let Some(Ok(value)) = self.completed.take() {
            return Poll::Ready(value);
        }
        let Some(device) = u.address_map.registers_of(at / LINE) else { return Poll::Ready(u.ram.word(at)) };
        if !self.can_dispatch(u) {
            return Poll::Pending;
        }
        self.close(u);
        if !self.stores.is_empty() {
            self.wait_for(u, Wait::Stores(true));
            return Poll::Pending;
        }
        if self.flush_combining(u) {
            self.wait_for(u, Wait::Device);
            return Poll::Pending;
        }
        self.one_instruction(u);
        let bytes = if bytes > 8 { LINE } else { 8 };
        self.send(u, device, AccessKind::Read { at, bytes }, self.clock);
        self.wait_for(u, Wait::Device);
        Poll::Pending
    }

    /// The answer to an uncached load has come.
    pub fn read_answered(&mut self, u: &mut Uncore, value: u64) {
        self.completed = Some(Ok(value));
        self.wake(u, u.now);
    }

    /// Stores the bytes of a line that the mask has into a write-combining buffer.
    pub fn store_combining(&mut self, u: &mut Uncore, line: u32, mask: u64) -> Poll<()> {
        if !u.address_map.is_register(line) {
            return Poll::Ready(());
        }
        if !self.can_dispatch(u) {
            return Poll::Pending;
        }
        self.close(u);
        let buffers = &mut self.uncached.combining;
        let i = match buffers.iter().position(|(open, _)| *open == line) {
            Some(i) => i,
            None if buffers.len() + self.uncached.draining < u.costs.wc_buffers => {
                buffers.push((line, 0));
                buffers.len() - 1
            }
            None => {
                if self.uncached.draining == 0 {
                    self.send_combining(u, 0);
                }
                self.wait_for(u, Wait::Device);
                return Poll::Pending;
            }
        };
        self.uncached.combining[i].1 |= mask;
        let full = self.uncached.combining[i].1 == u64::MAX;
        if mask == u64::MAX {
            self.dispatch(u, self.code.line);
        } else {
            self.dispatch_for(u.costs.wc_store, 1);
        }
        if full {
            self.send_combining(u, i);
        }
        Poll::Ready(())
    }

    /// Sends a write-combining buffer to its device.
    fn send_combining(&mut self, u: &mut Uncore, i: usize) {
        let (line, mask) = self.uncached.combining.remove(i);
        if let Some(device) = u.address_map.registers_of(line) {
            self.uncached.draining += 1;
            self.send(u, device, AccessKind::Combined { line, mask }, self.clock);
        }
    }

    /// The device's side has accepted a write-combining buffer: it is free again.
    pub fn combined_accepted(&mut self, u: &mut Uncore) {
        self.uncached.draining -= 1;
        if self.wait == Wait::Device {
            self.wake(u, u.now);
        }
    }

    /// Sends all write-combining buffers; true when some are not free yet.
    fn flush_combining(&mut self, u: &mut Uncore) -> bool {
        while !self.uncached.combining.is_empty() {
            self.send_combining(u, 0);
        }
        self.uncached.draining > 0
    }

    /// Waits until write-combining buffers and non-temporal stores have reached their homes (SFENCE). Other stores are in order anyway.
    pub fn store_fence(&mut self, u: &mut Uncore) -> Poll<()> {
        if !self.can_dispatch(u) {
            return Poll::Pending;
        }
        self.close(u);
        if self.flush_combining(u) {
            self.wait_for(u, Wait::Device);
            return Poll::Pending;
        }
        if self.mshrs.iter().chain(&self.queued).any(|m| m.non_temporal) {
            return self.load_fence(u);
        }
        self.one_instruction(u);
        Poll::Ready(())
    }
}
