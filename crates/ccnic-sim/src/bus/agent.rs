//! A program's view of its node: the simulated [`SharedMemory`] of the machine with buses.

use std::cell::RefCell;

use ccnic::SharedMemory;
use ccnic::memory::lines;

use super::buses::Cycle;
use super::machine::Machine;
use super::network::Message;
use super::node::Node;
use crate::kernel::coroutines::Suspend;
use crate::protocols::snooping::Access;

/// A program's hold on its node.
#[derive(Clone, Copy)]
pub struct Agent<'a> {
    machine: &'a RefCell<Machine>,
    suspend: &'a Suspend,
    node: usize,
    seat: usize,
    /// What a double word costs that is copied; nothing for a device.
    copy: Cycle,
    /// What a poll's loop costs.
    poll: Cycle,
}

impl std::fmt::Debug for Agent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("node", &self.node).field("seat", &self.seat).finish_non_exhaustive()
    }
}

impl<'a> Agent<'a> {
    pub(super) fn new(
        machine: &'a RefCell<Machine>,
        suspend: &'a Suspend,
        (node, seat): (usize, usize),
        (copy, poll): (Cycle, Cycle),
    ) -> Agent<'a> {
        Agent { machine, suspend, node, seat, copy, poll }
    }

    fn on<R>(&self, f: impl FnOnce(&mut Node) -> R) -> R {
        f(&mut self.machine.borrow_mut().nodes[self.node])
    }

    /// Lets everything happen that happens before this agent's time.
    fn settle(&self) {
        while self.on(|node| node.must_wait(self.seat)) {
            self.suspend.suspend(());
        }
    }

    fn suspended(&self, begin: impl FnOnce(&mut Node)) {
        self.on(begin);
        self.suspend.suspend(());
    }

    fn touch(&self, at: u32, access: Access) {
        self.settle();
        if self.on(|node| node.access(self.seat, at, access)) {
            self.settle();
        }
    }

    /// The node that it is part of.
    pub fn node(&self) -> usize {
        self.node
    }

    /// Its time.
    pub fn now(&self) -> Cycle {
        self.on(|node| node.clock(self.seat))
    }

    /// Spends time in the program's own instructions.
    pub fn work(&self, cycles: Cycle) {
        self.on(|node| node.spend(self.seat, cycles));
    }

    /// Loads (or stores to) every block of a range, whose contents are not looked at.
    pub fn touch_blocks(&self, at: u32, len: u32, store: bool) {
        let access = if store { Access::Store } else { Access::Load };
        lines(at, len).for_each(|block| self.touch(block, access));
    }

    /// Loads a register of the network interface, uncached.
    pub fn load_register(&self, register: u32) -> u64 {
        self.settle();
        self.on(|node| node.begin_load(self.seat));
        self.settle();
        self.on(|node| node.register(self.seat, register))
    }

    /// Stores to a register, uncached: it is buffered.
    pub fn store_register(&self, register: u32, value: u64) {
        self.settle();
        self.on(|node| node.store_register(self.seat, register, value));
    }

    /// Loads a register until it has one of the bits of a mask; returns its value.
    pub fn poll_register(&self, register: u32, mask: u64) -> u64 {
        let mut value = self.load_register(register);
        while value & mask == 0 {
            self.suspended(|node| node.poll_register(self.seat, self.poll));
            self.settle();
            value = self.on(|node| node.register(self.seat, register));
        }
        value
    }

    /// Waits until a word at one of at most three addresses may have changed, as a loop that polls them: while they are cached, nothing
    /// happens on the bus.
    pub fn poll_words(&self, at: &[u32]) {
        self.settle();
        let period = self.poll + at.len() as Cycle;
        if self.on(|node| node.poll_blocks(self.seat, at, period)) {
            self.suspend.suspend(());
        }
    }

    /// A device's engine: waits until its node's processor or the network concerns the device.
    pub fn sleep(&self) {
        self.suspended(|node| node.sleep(self.seat));
    }

    /// A device's engine: its registers show something new.
    pub fn changed(&self) {
        self.settle();
        self.on(|node| node.device_changed(node.clock(self.seat)));
    }

    /// A device's engine: sends a message, if the window to its destination is open.
    pub fn send(&self, message: &Message) -> bool {
        self.settle();
        self.on(|node| node.send(self.seat, message))
    }

    /// A device's engine: takes the first message that has arrived off the network.
    pub fn take(&self) -> Option<Box<Message>> {
        self.settle();
        self.on(|node| node.take(self.seat))
    }

    /// A device's engine: a message has arrived.
    pub fn has_arrived(&self) -> bool {
        self.settle();
        self.on(|node| node.port.first().is_some())
    }

    /// The machine, to look at.
    #[cfg(test)]
    pub fn with_machine<R>(&self, f: impl FnOnce(&Machine) -> R) -> R {
        f(&self.machine.borrow())
    }

    fn copied(&self, len: usize) {
        self.work(self.copy * (len as Cycle).div_ceil(8));
    }
}

impl SharedMemory for Agent<'_> {
    type Adopt = ();

    fn load(&self, at: u32) -> u64 {
        self.touch(at, Access::Load);
        self.work(u64::from(self.copy > 0));
        self.on(|node| node.ram.word(at))
    }

    fn store(&self, at: u32, value: u64) {
        self.touch(at, Access::Store);
        self.work(u64::from(self.copy > 0));
        self.on(|node| node.ram.set_word(at, value));
    }

    fn load_acquire(&self, at: u32) -> u64 {
        self.load(at)
    }

    fn store_release(&self, at: u32, value: u64) {
        self.store(at, value);
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.touch(at, Access::Store);
        self.on(|node| node.ram.swap_word(at, current, new))
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        let end = at + to.len() as u32;
        for block in lines(at, to.len() as u32) {
            self.touch(block, Access::Load);
            let (from, until) = (at.max(block), end.min(block + ccnic::memory::LINE));
            let part = &mut to[(from - at) as usize..(until - at) as usize];
            self.on(|node| part.copy_from_slice(node.ram.bytes(from, part.len())));
            self.copied(part.len());
        }
    }

    /// A device writes whole blocks; a processor reads what it does not write of a block.
    fn write(&self, at: u32, from: &[u8]) {
        let access = if self.copy > 0 { Access::Store } else { Access::StoreBlock };
        let end = at + from.len() as u32;
        for block in lines(at, from.len() as u32) {
            self.touch(block, access);
            let (begin, until) = (at.max(block), end.min(block + ccnic::memory::LINE));
            let part = &from[(begin - at) as usize..(until - at) as usize];
            self.on(|node| node.ram.bytes_mut(begin, part.len()).copy_from_slice(part));
            self.copied(part.len());
        }
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        self.touch_blocks(at, len, false);
        self.on(|node| f(node.ram.bytes(at, len as usize)))
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.touch_blocks(at, len, true);
        self.on(|node| f(node.ram.bytes_mut(at, len as usize)))
    }

    // This processor has no prefetch instructions (CNI section 5.1.2 names them among "more aggressive assumptions").
    fn prefetch_read(&self, _: u32) {}
    fn prefetch_own(&self, _: u32) {}
    fn demote(&self, _: u32) {}

    fn relax(&self) {
        self.work(self.poll.max(1));
    }
}
