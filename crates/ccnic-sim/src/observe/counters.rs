//! What a run counts: accesses by where they were answered, traffic, and what cores waited for.

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
    /// The other socket's last-level cache.
    RemoteLlc,
    /// A core of the other socket.
    RemoteCore,
    /// The memory of the other socket.
    RemoteMemory,
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
    /// Those among them that crossed the link.
    pub remote_reads: u64,
    /// Requests to own a line.
    pub owns: u64,
    /// Those among them that crossed the link.
    pub remote_owns: u64,
    /// Lines stored around the caches.
    pub stores_around: u64,
    /// Requests by hardware prefetchers (also counted as reads).
    pub prefetches: u64,
    /// Requests by [`Source`].
    pub answered: [u64; 7],
    /// Times that another agent asked this core for a line.
    pub snoops: u64,
    /// Time in software: instructions, as far as they do not overlap with waiting.
    pub software: Ps,
    /// Time waiting for a load that decides, or an exchange.
    pub load_stall: Ps,
    /// Time waiting because the reorder buffer, or the load queue, was full.
    pub window_stall: Ps,
    /// Time waiting because the store buffer was full.
    pub store_stall: Ps,
    /// Time in polling loops that found nothing.
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
            stores_around: self.stores_around - before.stores_around,
            prefetches: self.prefetches - before.prefetches,
            answered,
            snoops: self.snoops - before.snoops,
            software: self.software - before.software,
            load_stall: self.load_stall - before.load_stall,
            window_stall: self.window_stall - before.window_stall,
            store_stall: self.store_stall - before.store_stall,
            idle: self.idle - before.idle,
            buffers_full: self.buffers_full - before.buffers_full,
        }
    }
}

/// Counters of one direction of the link, by the socket that sends, and of that socket's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Lines sent.
    pub lines: u64,
    /// Control messages sent.
    pub controls: u64,
    /// Time that the direction was taken.
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
