//! The fast path of a TCP service that serves echo calls, as far as packets go (CC-NIC section 5.7: TAS): a segment comes, its connection's
//! state is looked up and changed, its data are copied out, and an answer of the same size is sent. What the service computes is
//! instructions only: a simulator charges them.

use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic::{Burst, SharedMemory};

use super::packets;

/// Bytes of a call's segment: Ethernet, IPv4, TCP with time stamps, and 64 of data.
pub const SEGMENT: usize = 14 + 20 + 32 + 64;

/// A thread of the fast path, on its queue pair.
pub struct FastPath<M: SharedMemory, R: Ring> {
    pair: QueuePair<M, R>,
    segments: Burst,
    answers: Burst,
    /// Segments that have been taken and have no buffer for their answer yet.
    owed: usize,
    bytes: Vec<u8>,
}

impl<M: SharedMemory, R: Ring> FastPath<M, R> {
    /// A thread on this queue pair.
    pub fn new(pair: QueuePair<M, R>) -> FastPath<M, R> {
        FastPath { pair, segments: Burst::new(), answers: Burst::new(), owed: 0, bytes: Vec::new() }
    }

    /// Answers up to `max` segments; returns how many have come. `connection` is called with the bytes of each: a simulator makes the
    /// accesses to its state there.
    #[inline]
    pub fn poll(&mut self, max: usize, mut connection: impl FnMut(&[u8])) -> usize {
        let FastPath { pair, segments, answers, owed, bytes } = self;
        let mut come = 0;
        // No room before: what comes waits in the ring until there is.
        if answers.is_empty() && *owed == 0 && pair.rx_burst(segments, max.min(Burst::CAPACITY)) > 0 {
            packets(pair, segments, bytes, |bytes, _| {
                come += 1;
                connection(bytes);
            });
            pair.free(segments);
            *owed = come;
        }
        if *owed > 0 {
            let had = answers.len();
            *owed -= pair.alloc(SEGMENT as u16, (*owed).min(answers.space()), answers);
            answers.iter_mut().skip(had).for_each(|answer| {
                pair.write(answer, 0, &[0; SEGMENT]);
            });
        }
        if !answers.is_empty() {
            pair.tx_burst(answers);
        }
        come
    }

    /// The queue pair: to wait for packets.
    pub fn pair(&self) -> &QueuePair<M, R> {
        &self.pair
    }
}

#[cfg(test)]
mod tests {
    use ccnic::ring::GroupedClear;
    use ccnic::testing::{Sides, config};

    use super::*;

    #[test]
    fn each_segment_is_answered_once() {
        let Sides { host, mut nic, .. } = Sides::<GroupedClear>::new(&config::<GroupedClear>());
        let mut service = FastPath::new(host);
        for _ in 0..5 {
            assert!(nic.deliver_bytes(&[&[7; SEGMENT]], 0));
        }
        nic.flush();
        let mut seen = 0;
        assert_eq!(service.poll(3, |bytes| seen += usize::from(bytes == [7; SEGMENT])), 3);
        assert_eq!(service.poll(32, |_| seen += 1), 2);
        assert_eq!((seen, service.poll(32, |_| {})), (5, 0));
        let mut fetched = ccnic::nic::Fetched::default();
        assert_eq!(nic.fetch(&mut fetched), 5);
        assert!(fetched.rest().iter().all(|desc| usize::from(desc.len()) == SEGMENT));
    }
}
