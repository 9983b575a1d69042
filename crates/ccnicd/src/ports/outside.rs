//! Ports that are no programs: their packets come from outside the daemon, and go there.
//!
//! Such a port has memory of its own, which nobody else writes, for what it has read; and sends what lies in other ports' memory from
//! there.

use ccnic::Desc;
use ccnic::nic::{FETCH, Fetched, Origin, gather};
use ccnic::rss::{Rss, START, Spreader};
use ccnic_frame::Takes;
use ccnic_shm::NativeMemory;

use super::{Doze, Losses, Statistics};

/// What the receivers of a packet take as it is, all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// Requests of its metadata.
    pub takes: Takes,
    /// Bytes of the longest packet.
    pub longest: u32,
}

impl Accepts {
    /// Complete packets.
    pub const COMPLETE: Accepts = Accepts { takes: Takes::NONE, longest: u32::MAX };
    /// Anything.
    pub const ALL: Accepts = Accepts { takes: Takes::ALL, longest: u32::MAX };

    /// Only what both take.
    #[must_use]
    pub fn and(self, other: Accepts) -> Accepts {
        Accepts { takes: self.takes.and(other.takes), longest: self.longest.min(other.longest) }
    }
}

/// A port to somewhere outside. Belongs to its worker's thread.
pub trait OutsidePort: Statistics + Send {
    /// Its queues: at least one.
    fn queues(&self) -> usize;

    /// The memory that the packets lie in which it has fetched.
    fn memory(&self) -> &NativeMemory;

    /// Looks at one queue and fetches a bounded burst into `burst`, whose packets have all been dealt with; returns how many packets it
    /// has read, also those that it has dropped and counted. Packets that are fetched lie in [`memory`](OutsidePort::memory) until the next
    /// call.
    ///
    /// A packet whose metadata request something (`ccnic_frame::Meta`) is alone in its burst, or with others that it was cut into, and
    /// `accepts`, called with its bytes, has said that all its receivers take such packets.
    fn fetch(&mut self, burst: &mut Burst, accepts: &dyn Fn(&[u8]) -> Accepts) -> usize;

    /// Sends packets of another port, whole ones. Never waits: what cannot be sent is dropped and counted, and `lost` is told.
    ///
    /// What is dropped later, by the kernel or by a disk that is too slow, has been sent.
    fn send(&mut self, from: &Origin<'_, NativeMemory>, packets: &[Desc], lost: &mut Losses<'_>);

    /// True when a look at a queue costs no system call: then it is looked at in every turn. Otherwise a port that has nothing is looked at
    /// less and less often.
    fn looks_are_cheap(&self) -> bool {
        false
    }

    /// Its way to let its worker sleep, if it has one.
    fn doze(&self) -> Option<&dyn Doze> {
        None
    }

    /// True when it takes packets whose metadata request something, and does all of that itself. Any other port is sent complete packets.
    fn takes_offloads(&self) -> bool {
        false
    }
}

/// Which queue of such a port a packet is sent on: that of its flow.
#[derive(Debug)]
pub(super) struct ByFlow(Option<Spreader>);

impl ByFlow {
    /// Over so many queues.
    pub(super) fn new(queues: u16) -> ByFlow {
        ByFlow((queues > 1).then(|| Spreader::new(Rss::new(queues))))
    }

    /// The queue of a packet that lies in `mem`.
    pub(super) fn queue(&self, mem: &NativeMemory, packet: &[Desc]) -> usize {
        let Some(spreader) = &self.0 else { return 0 };
        let mut start = [0; START];
        let n = gather(mem, packet, &mut start);
        spreader.queue(spreader.hash(start.get(..n).unwrap_or_default())).into()
    }
}

/// Packets that an [`OutsidePort`] has fetched.
#[derive(Debug, Default)]
pub struct Burst {
    /// Those that have not been dealt with.
    pub packets: Fetched,
    /// The queue that they came to.
    pub queue: usize,
    /// Bytes of the longest; `u16::MAX` for all that are longer.
    pub longest: u16,
}

/// Packets on their way into a [`Burst`].
#[derive(Debug)]
pub(super) struct Gathered {
    descs: [Desc; FETCH],
    len: usize,
    longest: u32,
    /// Packets, and their bytes.
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Gathered {
    pub(super) fn new() -> Gathered {
        Gathered { descs: [Desc::default(); FETCH], len: 0, longest: 0, packets: 0, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == FETCH
    }

    /// Adds a packet of these pieces (offset, bytes; none of them empty), each of which becomes segments of at most a large buffer, as
    /// receivers expect. False, and nothing done, where there is no room for all of it.
    pub(super) fn push(&mut self, pieces: &[(u32, u32)], meta: u64) -> bool {
        let most = ccnic::layout::LARGE_BUF;
        let needed: u32 = pieces.iter().map(|(_, len)| len.div_ceil(most)).sum();
        let Some(room) = self.descs.get_mut(self.len..self.len + needed as usize) else { return false };
        let mut room = room.iter_mut().peekable();
        for &(at, len) in pieces {
            for done in (0..len).step_by(most as usize) {
                let Some(slot) = room.next() else { break };
                let part = most.min(len - done) as u16;
                *slot = Desc::new(at + done, part, 0).with_meta(meta).with_more(room.peek().is_some());
            }
        }
        let bytes = pieces.iter().map(|(_, len)| len).sum();
        self.len += needed as usize;
        self.longest = self.longest.max(bytes);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        true
    }

    /// Moves them into `burst`, which has none left.
    pub(super) fn into(self, burst: &mut Burst, queue: usize) {
        burst.packets.refill(self.descs.get(..self.len).unwrap_or_default());
        burst.queue = queue;
        burst.longest = u16::try_from(self.longest).unwrap_or(u16::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_become_segments_of_a_buffer_each_and_fit_or_do_not() {
        let mut gathered = Gathered::new();
        assert!(gathered.push(&[(64, 60), (0, 0)], 0));
        assert!(gathered.push(&[(0, 54), (1000, 9000)], 7));
        assert!(gathered.push(&[(20_000, 65_550), (0, 0)], 0));
        assert_eq!((gathered.packets, gathered.bytes), (3, 60 + 9054 + 65_550));
        assert!(!gathered.push(&[(0, 54), (0, 10 << 12)], 0), "eleven more, where there is room for ten");
        assert!(!gathered.is_full() && gathered.push(&[(0, 9 << 12), (0, 1)], 0) && gathered.is_full());
        let mut burst = Burst::default();
        gathered.into(&mut burst, 3);
        let descs = burst.packets.rest();
        let seen = |desc: &Desc| (desc.offset(), desc.len(), desc.meta, desc.more());
        assert_eq!(
            descs.iter().take(5).map(seen).collect::<Vec<_>>(),
            [
                (64, 60, 0, false),
                (0, 54, 7, true),
                (1000, 4096, 7, true),
                (5096, 4096, 7, true),
                (9192, 808, 7, false),
            ]
        );
        assert_eq!(descs.iter().filter(|desc| !desc.more()).count(), 4);
        assert_eq!((burst.queue, burst.longest), (3, u16::MAX));
    }
}
