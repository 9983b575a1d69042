//! The buses of a node: which transaction occupies which bus, from when, until when. Each bus carries one transaction at a time, and
//! transactions are granted in the order in which they are asked for.

use crate::platform::BusPlatform;

/// A time, or a span of time, in cycles of the processor.
pub type Cycle = u64;

/// Where the network interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attachment {
    /// On the processor's cache bus: registers only.
    CacheBus,
    /// On the memory bus.
    MemoryBus,
    /// On the I/O bus, behind the bridge.
    IoBus,
}

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The processor loads a register of the device.
    Load,
    /// The processor stores to one.
    Store,
    /// A block from the device to a processor's cache.
    FromDevice,
    /// A block from a processor's cache to the device.
    ToDevice,
    /// A block from memory, or from one processor's cache to another's.
    Memory,
    /// A processor invalidates every other copy of a block of memory.
    Invalidate,
    /// The same for a block that the device may have.
    InvalidateAtDevice,
    /// The device invalidates the processors' copies.
    DeviceInvalidates,
    /// A block to memory.
    WriteBack,
    /// A block to the device that is its home.
    WriteBackToDevice,
}

/// When a transaction is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// The requester goes on.
    pub end: Cycle,
    /// The other side has seen it: later than `end` when the bridge buffers it.
    pub seen: Cycle,
}

/// One bus.
#[derive(Debug, Clone, Copy, Default)]
struct Bus {
    free: Cycle,
    busy: Cycle,
}

impl Bus {
    /// Occupies it from `start` on.
    fn take(&mut self, start: Cycle, cycles: Cycle) -> Cycle {
        self.busy += cycles;
        self.free = start + cycles;
        self.free
    }
}

/// A processor that polls a register and finds nothing new: its loads are not simulated one by one.
#[derive(Debug, Clone, Copy)]
struct Polling {
    /// When the next load begins, if the bus is free then.
    next: Cycle,
    /// When the last one was over.
    last_end: Cycle,
    /// Between the end of a load and the next one.
    pause: Cycle,
}

/// Occupancies, from the platform.
#[derive(Debug, Clone, Copy)]
struct Costs {
    load: [Cycle; 3],
    store: [Cycle; 3],
    from_device: [Cycle; 3],
    to_device: [Cycle; 3],
    invalidate: [Cycle; 3],
    memory: Cycle,
    write_back: Cycle,
    buffers: Cycle,
}

/// The buses of a node.
#[derive(Debug)]
pub struct Buses {
    attachment: Attachment,
    costs: Costs,
    memory: Bus,
    io: Bus,
    polling: Option<Polling>,
}

impl Buses {
    /// The buses of a platform's node.
    pub fn new(platform: &BusPlatform, attachment: Attachment) -> Buses {
        let (cache, memory, io) = (&platform.cache_bus, &platform.memory_bus, &platform.io_bus);
        let all = |of: [u32; 3]| of.map(Cycle::from);
        let costs = Costs {
            load: all([cache.load.get(), memory.load.get(), io.load.get()]),
            store: all([cache.store.get(), memory.store.get(), io.store.get()]),
            from_device: all([0, memory.from_ni.get(), io.from_ni.get()]),
            to_device: all([0, memory.to_ni.get(), io.to_ni.get()]),
            invalidate: all([0, memory.invalidate.get(), io.invalidate.get()]),
            memory: memory.memory.get().into(),
            write_back: memory.write_back.get().into(),
            buffers: io.buffers.get().into(),
        };
        let (memory, io) = (Bus::default(), Bus::default());
        Buses { attachment, costs, memory, io, polling: None }
    }

    /// Where the device is.
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// Cycles that the memory bus has been occupied.
    pub fn memory_busy(&self) -> Cycle {
        self.memory.busy
    }

    /// Cycles that the I/O bus has been occupied.
    pub fn io_busy(&self) -> Cycle {
        self.io.busy
    }

    /// Carries out an operation that is asked for at `at`.
    pub fn grant(&mut self, operation: Operation, at: Cycle) -> Granted {
        self.polled_until(at);
        let costs = self.costs;
        let place = self.attachment as usize;
        let memory_part = |all: [Cycle; 3]| (all[1], all[place].saturating_sub(all[1]));
        match operation {
            Operation::Load if self.attachment == Attachment::CacheBus => once(at + costs.load[0]),
            Operation::Store if self.attachment == Attachment::CacheBus => once(at + costs.store[0]),
            Operation::Load => self.blocking(at, memory_part(costs.load)),
            Operation::Store => self.posted(at, memory_part(costs.store)),
            Operation::FromDevice => self.blocking(at, memory_part(costs.from_device)),
            Operation::InvalidateAtDevice => self.posted(at, memory_part(costs.invalidate)),
            Operation::WriteBackToDevice => {
                let (_, across) = memory_part(costs.from_device);
                self.posted(at, (costs.write_back, across))
            }
            Operation::Memory => self.only_memory(at, costs.memory),
            Operation::Invalidate => self.only_memory(at, costs.invalidate[1]),
            Operation::WriteBack => self.only_memory(at, costs.write_back),
            Operation::ToDevice => self.fetched(at, memory_part(costs.to_device)),
            Operation::DeviceInvalidates => self.announced(at, memory_part(costs.invalidate)),
        }
    }

    fn only_memory(&mut self, at: Cycle, cycles: Cycle) -> Granted {
        once(self.memory.take(at.max(self.memory.free), cycles))
    }

    /// The processor reads across the bridge, which blocks: the memory bus is occupied to the end.
    fn blocking(&mut self, at: Cycle, (memory, across): (Cycle, Cycle)) -> Granted {
        let start = at.max(self.memory.free);
        if across == 0 {
            return self.only_memory(at, memory);
        }
        // The I/O bus is reached after the memory bus's own part; until it is free, the memory bus waits.
        let io = (start + memory).max(self.io.free);
        let end = self.io.take(io, across);
        self.memory.take(start, end - start);
        once(end)
    }

    /// The processor writes across the bridge, which buffers.
    fn posted(&mut self, at: Cycle, (memory, across): (Cycle, Cycle)) -> Granted {
        if across == 0 {
            return self.only_memory(at, memory);
        }
        // Buffers are full while more than so many are still to be carried.
        let room = self.io.free.saturating_sub(across * self.costs.buffers);
        let end = self.memory.take(at.max(self.memory.free).max(room), memory);
        let seen = self.io.take(end.max(self.io.free), across);
        Granted { end, seen }
    }

    /// The device reads a block of a processor's cache: first the I/O bus, then, while that is held, the memory bus. While a transaction of
    /// the processor is on its way across the bridge, that refuses the device's (CNI section 4.1): it waits as long as for the bus.
    fn fetched(&mut self, at: Cycle, (memory, across): (Cycle, Cycle)) -> Granted {
        if across == 0 {
            return self.only_memory(at, memory);
        }
        let start = at.max(self.io.free);
        let from = (start + across).max(self.memory.free);
        let end = self.memory.take(from, memory);
        self.io.take(start, end - start);
        once(end)
    }

    /// The device invalidates: the bridge buffers it for the memory bus.
    fn announced(&mut self, at: Cycle, (memory, across): (Cycle, Cycle)) -> Granted {
        if across == 0 {
            return self.only_memory(at, memory);
        }
        let room = self.memory.free.saturating_sub(memory * self.costs.buffers);
        let start = at.max(self.io.free).max(room);
        let end = self.io.take(start, across);
        let seen = self.memory.take(end.max(self.memory.free), memory);
        Granted { end, seen }
    }

    /// The processor polls a register from now on, with a pause after each load.
    pub fn begin_polling(&mut self, at: Cycle, pause: Cycle) {
        self.polling = Some(Polling { next: at, last_end: 0, pause });
    }

    /// Carries out the loads of a polling processor that begin before `at`.
    fn polled_until(&mut self, at: Cycle) {
        let Some(mut polling) = self.polling else { return };
        let load = self.costs.load[self.attachment as usize];
        let on_bus = self.attachment != Attachment::CacheBus;
        let free = if on_bus { self.memory.free } else { 0 };
        polling.next = polling.next.max(free);
        if polling.next < at {
            let period = load + polling.pause;
            let loads = (at - polling.next).div_ceil(period);
            polling.last_end = polling.next + (loads - 1) * period + load;
            polling.next = polling.last_end + polling.pause;
            if on_bus {
                self.memory.free = polling.last_end;
                self.memory.busy += loads * load;
            }
            if self.attachment == Attachment::IoBus {
                self.io.free = self.io.free.max(polling.last_end);
                self.io.busy += loads * (load - self.costs.load[Attachment::MemoryBus as usize]);
            }
        }
        self.polling = Some(polling);
    }

    /// The register may have changed at `at`: when the first load is over that sees it.
    pub fn end_polling(&mut self, at: Cycle) -> Cycle {
        self.polled_until(at);
        let Some(polling) = self.polling.take() else { return at };
        if polling.last_end >= at {
            return polling.last_end;
        }
        self.grant(Operation::Load, polling.next).end
    }
}

fn once(end: Cycle) -> Granted {
    Granted { end, seen: end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buses(attachment: Attachment) -> Buses {
        Buses::new(&BusPlatform::named("cni-1996").unwrap(), attachment)
    }

    /// Table 2 of the paper.
    #[test]
    fn occupancies_are_those_of_table_2() {
        use Operation::{FromDevice, Load, Memory, Store, ToDevice};
        for (attachment, operation, cycles) in [
            (Attachment::CacheBus, Load, 4),
            (Attachment::CacheBus, Store, 4),
            (Attachment::MemoryBus, Load, 28),
            (Attachment::MemoryBus, Store, 12),
            (Attachment::MemoryBus, FromDevice, 42),
            (Attachment::MemoryBus, ToDevice, 42),
            (Attachment::MemoryBus, Memory, 42),
            (Attachment::IoBus, Load, 48),
            (Attachment::IoBus, Store, 32),
            (Attachment::IoBus, FromDevice, 76),
            (Attachment::IoBus, ToDevice, 62),
        ] {
            let granted = buses(attachment).grant(operation, 1000);
            assert_eq!(granted.seen, 1000 + cycles, "{attachment:?} {operation:?}");
        }
    }

    #[test]
    fn one_transaction_at_a_time() {
        let mut b = buses(Attachment::MemoryBus);
        assert_eq!(b.grant(Operation::Memory, 10).end, 52);
        assert_eq!(b.grant(Operation::DeviceInvalidates, 11).end, 64);
        assert_eq!((b.grant(Operation::Load, 100).end, b.memory_busy()), (128, 42 + 12 + 28));
    }

    #[test]
    fn the_bridge_buffers_writes_and_blocks_on_reads() {
        let mut b = buses(Attachment::IoBus);
        assert_eq!(b.grant(Operation::Store, 0), Granted { end: 12, seen: 32 });
        assert_eq!(b.grant(Operation::Store, 12), Granted { end: 24, seen: 52 });
        // The memory bus waits until the stores have been carried.
        assert_eq!(b.grant(Operation::Load, 24).end, 72);
        assert_eq!(b.memory_busy(), 72);
        let before = b.grant(Operation::Memory, 80).end;
        assert_eq!(before, 122, "memory does not need the I/O bus");
        // More than the bridge holds.
        let mut ends = vec![200];
        (0..12).for_each(|_| ends.push(b.grant(Operation::Store, *ends.last().unwrap()).end));
        let times: Vec<Cycle> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!((times[0], times[4]), (12, 12), "as fast as the memory bus at first");
        assert_eq!((times[10], times[11]), (20, 20), "then as fast as the I/O bus");
    }

    #[test]
    fn the_bridge_refuses_the_device_while_the_processor_crosses() {
        let mut b = buses(Attachment::IoBus);
        assert_eq!(b.grant(Operation::Load, 0).end, 48);
        let fetched = b.grant(Operation::ToDevice, 10).end;
        assert_eq!(fetched, 48 + 62);
        assert_eq!(b.io_busy(), 20 + 62, "the I/O bus was taken by the load: the device waited for it");
        let mut b = buses(Attachment::IoBus);
        b.grant(Operation::Store, 0);
        assert_eq!(b.grant(Operation::Store, 12).end, 24);
        assert_eq!(b.grant(Operation::DeviceInvalidates, 60), Granted { end: 80, seen: 92 });
    }

    /// Polls that are not simulated one by one take the bus as those that are.
    #[test]
    fn polls_are_counted() {
        let mut one_by_one = buses(Attachment::MemoryBus);
        let mut at = 5;
        for _ in 0..10 {
            at = one_by_one.grant(Operation::Load, at).end + 6;
        }
        let mut together = buses(Attachment::MemoryBus);
        together.begin_polling(5, 6);
        // 5, 39, 73, ...: the tenth load goes from 311 to 339.
        assert_eq!(together.end_polling(330), 339);
        assert_eq!(together.memory_busy(), one_by_one.memory_busy());
        // A change between two loads is seen by the next.
        let mut between = buses(Attachment::MemoryBus);
        between.begin_polling(5, 6);
        assert_eq!(between.end_polling(36), 39 + 28);
        // A device's transaction waits for the load in flight, and the next load for it.
        let mut device = buses(Attachment::MemoryBus);
        device.begin_polling(0, 6);
        assert_eq!(device.grant(Operation::DeviceInvalidates, 10).end, 40);
        assert_eq!(device.end_polling(41), 68);
    }
}
