//! A queue pair of any design behind one type.

use std::time::Duration;

use ccnic::host::{HostDrops, NotSmall, Pool, QueuePair};
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic::{Burst, Desc, Design};
use ccnic_client::{Error, Program, Waiter, Woken};
use ccnic_shm::NativeMemory;

use crate::design::{ByDesign, by_design, of_any_design};

type Native<R> = QueuePair<NativeMemory, R>;

/// A queue pair of one of the five designs.
pub(crate) type Pair =
    ByDesign<Native<GroupedEpoch>, Native<GroupedClear>, Native<Packed>, Native<Padded>, Native<Doorbell>>;

impl Pair {
    pub(crate) fn new(program: &mut Program, queue: u16) -> Result<Pair, Error> {
        Ok(by_design!(program.layout().config().design, program.queue_pair(queue)?))
    }

    #[inline(always)]
    pub(crate) fn alloc(&mut self, len: u16, packets: usize, burst: &mut Burst) -> usize {
        of_any_design!(self, pair => pair.alloc(len, packets, burst))
    }

    /// Adopts and frees buffers; returns how many were adopted.
    #[inline(always)]
    pub(crate) fn free(&mut self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> usize {
        of_any_design!(self, pair => {
            let n = pair.adopt_to_free(descs, burst);
            pair.free(burst);
            n
        })
    }

    /// Adopts and transmits; returns how many were adopted and how many the ring took. The burst is empty after it.
    #[inline(always)]
    pub(crate) fn transmit(
        &mut self,
        descs: impl Iterator<Item = Desc>,
        burst: &mut Burst,
    ) -> (usize, usize) {
        of_any_design!(self, pair => {
            let n = pair.adopt(descs, burst);
            let sent = pair.tx_burst(burst);
            let _ = burst.disown(); // the caller still holds what the ring has not taken
            (n, sent)
        })
    }

    #[inline(always)]
    pub(crate) fn receive(&mut self, burst: &mut Burst, max: usize) -> usize {
        of_any_design!(self, pair => pair.rx_burst(burst, max))
    }

    /// As `QueuePair::tx_small`.
    #[inline(always)]
    pub(crate) fn transmit_small<'a>(
        &mut self,
        longest: u16,
        packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>,
        burst: &mut Burst,
    ) -> usize {
        of_any_design!(self, pair => pair.tx_small(longest, packets, burst))
    }

    /// As `QueuePair::tx_room`.
    pub(crate) fn tx_room(&mut self) -> usize {
        of_any_design!(self, pair => pair.tx_room())
    }

    /// As `QueuePair::rx_small`.
    #[inline(always)]
    pub(crate) fn receive_small(
        &mut self,
        max: usize,
        read: impl FnMut(usize, &[u8], u64),
    ) -> Result<usize, NotSmall> {
        of_any_design!(self, pair => pair.rx_small(max, read))
    }

    /// Adopts buffers, calls `read` with each and frees it.
    pub(crate) fn read_and_free(
        &mut self,
        descs: impl Iterator<Item = Desc>,
        burst: &mut Burst,
        mut read: impl FnMut(usize, &[u8], u64),
    ) {
        of_any_design!(self, pair => {
            pair.adopt(descs, burst);
            for (i, buf) in burst.as_slice().iter().enumerate() {
                pair.with(buf, |bytes| read(i, bytes, buf.meta()));
            }
            pair.free(burst);
        });
    }

    pub(crate) fn rx_ready(&self) -> usize {
        of_any_design!(self, pair => pair.rx_ready())
    }

    /// Requests a notification; false, and no request, if there is something to receive.
    pub(crate) fn arm(&mut self, waiter: &Waiter) -> Result<bool, Error> {
        of_any_design!(self, pair => waiter.arm(pair))
    }

    pub(crate) fn disarm(&mut self) {
        of_any_design!(self, pair => pair.disarm());
    }

    /// Blocks until there is something to receive.
    pub(crate) fn wait(&mut self, waiter: &Waiter, timeout: Option<Duration>) -> Result<Woken, Error> {
        of_any_design!(self, pair => waiter.wait(pair, timeout))
    }

    pub(crate) fn tx_waiting(&self) -> usize {
        of_any_design!(self, pair => pair.tx_waiting())
    }

    pub(crate) fn relax(&self) {
        of_any_design!(self, pair => pair.relax());
    }

    pub(crate) fn drops(&self) -> HostDrops {
        of_any_design!(self, pair => pair.drops())
    }

    pub(crate) fn retire(&mut self) {
        of_any_design!(self, pair => pair.retire());
    }
}

/// Attaches to the successor of a NIC that has ended, with all queue pairs and pools of the program.
pub(crate) fn reconnect<'a>(
    program: &mut Program,
    pairs: impl Iterator<Item = &'a mut Pair>,
    pools: &mut [&mut Pool<NativeMemory>],
) -> Result<usize, Error> {
    fn with<'a, R: Ring>(
        program: &mut Program,
        pairs: impl Iterator<Item = &'a mut Pair>,
        pools: &mut [&mut Pool<NativeMemory>],
        of: impl Fn(&'a mut Pair) -> Option<&'a mut Native<R>>,
    ) -> Result<usize, Error> {
        // All pairs of a region have its design, so `of` leaves none out.
        program.reconnect_all(&mut pairs.filter_map(of).collect::<Vec<_>>(), pools)
    }
    macro_rules! with {
        ($variant:ident) => {
            with(
                program,
                pairs,
                pools,
                |pair| if let Pair::$variant(pair) = pair { Some(pair) } else { None },
            )
        };
    }
    match program.layout().config().design {
        Design::GroupedEpoch => with!(Epoch),
        Design::GroupedClear => with!(Clear),
        Design::Packed => with!(Packed),
        Design::Padded => with!(Padded),
        Design::Doorbell => with!(Doorbell),
    }
}
