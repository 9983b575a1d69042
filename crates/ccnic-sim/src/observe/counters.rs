//! Counters of a run: accesses by where they were answered, traffic, and what cores waited for.

use crate::kernel::time::Ps;

/// Where a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// Ownership alone: no data was needed.
    #[default]
    Nowhere,
    /// The last-level cache of the requester's socket.
    LocalLlc,
    /// Another core of the socket.
    LocalCore,
    /// The memory of the socket.
    LocalMemory,
    /// Another socket's last-level cache.
    RemoteLlc,
    /// A core of another socket.
    RemoteCore,
    /// The memory of another socket.
    RemoteMemory,
}

impl Source {
    /// The same, seen from another socket.
    pub(crate) fn remote(self) -> Source {
        match self {
            Source::LocalLlc => Source::RemoteLlc,
            Source::LocalCore => Source::RemoteCore,
            Source::LocalMemory => Source::RemoteMemory,
            other => other,
        }
    }
}

/// Counters of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Accesses answered by the first-level cache.
    pub l1_hits: u64,
    /// Accesses answered by the second-level cache.
    pub l2_hits: u64,
    /// Requests to read a line.
    pub reads: u64,
    /// Those among them that crossed a link.
    pub remote_reads: u64,
    /// Requests to own a line.
    pub owns: u64,
    /// Those among them that crossed a link.
    pub remote_owns: u64,
    /// Non-temporal stores and flushes of lines.
    pub non_temporal: u64,
    /// Requests by hardware prefetchers (also counted as reads).
    pub prefetches: u64,
    /// Requests by [`Source`].
    pub answered: [u64; 7],
    /// Snoops answered.
    pub snoops: u64,
    /// Lines lost because the snoop filter had no room for them.
    pub back_invalidations: u64,
    /// Time in software: instructions, as far as they do not overlap with waiting.
    pub software: Ps,
    /// Time waiting for a control-dependent load, an address, or a compare-and-exchange.
    pub load_stall: Ps,
    /// Time waiting because the reorder buffer, or the load queue, was full.
    pub window_stall: Ps,
    /// Time waiting because the store buffer was full.
    pub store_stall: Ps,
    /// Time in empty polls.
    pub idle: Ps,
    /// Time during which every fill buffer was taken.
    pub buffers_full: Ps,
}

impl Counters {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Counters) -> Counters {
        let mut answered = self.answered;
        answered.iter_mut().zip(before.answered).for_each(|(a, b)| *a -= b);
        Counters {
            l1_hits: self.l1_hits - before.l1_hits,
            l2_hits: self.l2_hits - before.l2_hits,
            reads: self.reads - before.reads,
            remote_reads: self.remote_reads - before.remote_reads,
            owns: self.owns - before.owns,
            remote_owns: self.remote_owns - before.remote_owns,
            non_temporal: self.non_temporal - before.non_temporal,
            prefetches: self.prefetches - before.prefetches,
            answered,
            snoops: self.snoops - before.snoops,
            back_invalidations: self.back_invalidations - before.back_invalidations,
            software: self.software - before.software,
            load_stall: self.load_stall - before.load_stall,
            window_stall: self.window_stall - before.window_stall,
            store_stall: self.store_stall - before.store_stall,
            idle: self.idle - before.idle,
            buffers_full: self.buffers_full - before.buffers_full,
        }
    }
}

/// Counters of the links that leave a socket, and of that socket's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Lines sent.
    pub lines: u64,
    /// Control messages sent.
    pub controls: u64,
    /// Time that those links were taken.
    pub link_busy: Ps,
    /// Lines read from memory.
    pub memory_reads: u64,
    /// Lines written to memory.
    pub memory_writes: u64,
    /// Time that memory was taken.
    pub memory_busy: Ps,
}

impl Traffic {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Traffic) -> Traffic {
        Traffic {
            lines: self.lines - before.lines,
            controls: self.controls - before.controls,
            link_busy: self.link_busy - before.link_busy,
            memory_reads: self.memory_reads - before.memory_reads,
            memory_writes: self.memory_writes - before.memory_writes,
            memory_busy: self.memory_busy - before.memory_busy,
        }
    }
}

/// What has gone through one direction of a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PcieLane {
    /// Transaction-layer packets.
    pub packets: u64,
    /// Their bytes, headers and framing included.
    pub bytes: u64,
    /// Time that the direction was taken.
    pub busy: Ps,
}

impl PcieLane {
    fn since(&self, before: &PcieLane) -> PcieLane {
        PcieLane {
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
            busy: self.busy - before.busy,
        }
    }
}

/// What has gone through a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PcieTraffic {
    /// From the device to the host.
    pub up: PcieLane,
    /// From the host to the device.
    pub down: PcieLane,
}

impl PcieTraffic {
    /// The traffic since `before`.
    #[must_use]
    pub fn since(&self, before: &PcieTraffic) -> PcieTraffic {
        PcieTraffic { up: self.up.since(&before.up), down: self.down.since(&before.down) }
    }
}

/// What a NIC that is a device has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicCounts {
    /// Packets looped back.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Stores to tail registers that moved the tail.
    pub doorbells: u64,
    /// Reads of descriptors.
    pub fetches: u64,
    /// Write-backs of receive descriptors.
    pub writebacks: u64,
    /// Packets that waited because the host had posted no receive buffer.
    pub no_buffer: u64,
    /// Packets and receive buffers dropped because a descriptor named no buffer, or more bytes than the MTU; invalid tails.
    pub bad: u64,
}

impl NicCounts {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &NicCounts) -> NicCounts {
        NicCounts {
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
            doorbells: self.doorbells - before.doorbells,
            fetches: self.fetches - before.fetches,
            writebacks: self.writebacks - before.writebacks,
            no_buffer: self.no_buffer - before.no_buffer,
            bad: self.bad - before.bad,
        }
    }
}
