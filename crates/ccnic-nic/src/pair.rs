//! The NIC's side of a queue pair of any design behind one type.

use ccnic::nic::{BadPacket, Fetched, NicCounters, NicQueue};
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded};
use ccnic::{Desc, Design, Layout, QueueError, SharedMemory, Tuning};
use ccnic_control::Notifier;
use ccnic_shm::{NativeMemory, Region};

use crate::error::BurstError;

type Native<R> = NicQueue<NativeMemory, R>;

/// The NIC's side of a queue pair of one of the five designs. Each call branches on the design once per burst.
#[derive(Debug)]
pub(crate) enum NicPair {
    GroupedEpoch(Native<GroupedEpoch>),
    GroupedClear(Native<GroupedClear>),
    Packed(Native<Packed>),
    Padded(Native<Padded>),
    Doorbell(Native<Doorbell>),
}

/// Evaluates `$body` with `$queue` as the queue of the pair's design.
macro_rules! each {
    ($self:expr, $queue:ident => $body:expr) => {
        match $self {
            NicPair::GroupedEpoch($queue) => $body,
            NicPair::GroupedClear($queue) => $body,
            NicPair::Packed($queue) => $body,
            NicPair::Padded($queue) => $body,
            NicPair::Doorbell($queue) => $body,
        }
    };
}

/// As `each`, with `$body` in the widest registers of the machine: see `Vectors`.
macro_rules! each_in_vectors {
    ($self:expr, $queue:ident => $body:expr) => {
        each!($self, $queue => {
            let vectors = $queue.memory().vectors();
            vectors.run(
                #[inline(always)]
                || $body,
            )
        })
    };
}

impl NicPair {
    pub(crate) fn new(region: &Region, layout: &Layout, queue: u16) -> Result<NicPair, QueueError> {
        #[expect(unsafe_code, reason = "the types of this crate keep the contract")]
        // SAFETY: the layout is the one that the region's header says, which has been checked against its size; `Program::queue` gives
        // each queue out once. All that the program says is checked against the layout (`ccnic::nic`), and payload is only copied, by
        // calls that check its descriptor first. The memory does not leave this crate.
        let mem = unsafe { region.agent() };
        Ok(match layout.config().design {
            Design::GroupedEpoch => NicPair::GroupedEpoch(Native::new(mem, layout, queue)?),
            Design::GroupedClear => NicPair::GroupedClear(Native::new(mem, layout, queue)?),
            Design::Packed => NicPair::Packed(Native::new(mem, layout, queue)?),
            Design::Padded => NicPair::Padded(Native::new(mem, layout, queue)?),
            Design::Doorbell => NicPair::Doorbell(Native::new(mem, layout, queue)?),
        })
    }

    pub(crate) fn set_tuning(&mut self, tuning: Tuning) {
        each!(self, queue => queue.set_tuning(tuning));
    }

    /// Fetches the next packets, and completes those fetched before.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, into: &mut Fetched) -> usize {
        each_in_vectors!(self, queue => {
            let n = queue.fetch(into);
            queue.flush();
            n
        })
    }

    /// Makes descriptors of buffers of those that were fetched; returns how many, from the first, are.
    #[inline(always)]
    pub(crate) fn copy_to_pool(&mut self, fetched: &mut Fetched) -> usize {
        each!(self, queue => queue.copy_to_pool(fetched))
    }

    /// Sends packets in the program's own buffers, as many whole ones as the ring has room for. Returns the number of their
    /// descriptors, the number that could have been sent, and what is wrong with the packet after those.
    #[inline(always)]
    pub(crate) fn reflect(&mut self, descs: &[Desc]) -> (usize, usize, Option<BadPacket>) {
        each_in_vectors!(self, queue => {
            let (whole, bad) = queue.whole_packets(descs);
            let sent = queue.send_buffers(descs.get(..whole).unwrap_or_default());
            (sent, whole, bad)
        })
    }

    /// Receives packets of one segment as copies.
    #[inline(always)]
    pub(crate) fn receive_copies<'a>(
        &mut self,
        fetched: &mut Fetched,
        max: usize,
        longest: u16,
        room: impl FnMut(usize, Desc) -> &'a mut [u8],
    ) -> usize {
        each_in_vectors!(self, queue => queue.receive_copies(fetched, max, longest, room))
    }

    /// Delivers packets of one segment, of `shortest` to `longest` bytes.
    #[inline(always)]
    pub(crate) fn deliver_slices<'a>(
        &mut self,
        shortest: u32,
        longest: u32,
        packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>,
    ) -> usize {
        each_in_vectors!(self, queue => queue.deliver_slices(shortest, longest, packets))
    }

    /// Delivers a packet of any number of parts.
    #[inline(always)]
    pub(crate) fn deliver_bytes(&mut self, parts: &[&[u8]], meta: u64) -> bool {
        each!(self, queue => queue.deliver_bytes(parts, meta))
    }

    #[inline(always)]
    pub(crate) fn alloc(&mut self, len: u16, out: &mut [Desc]) -> usize {
        each!(self, queue => queue.alloc(len, out))
    }

    /// Frees buffers up to the first handle that names none; returns how many.
    #[inline(always)]
    pub(crate) fn free(&mut self, descs: &[Desc]) -> usize {
        each!(self, queue => {
            let good = descs.iter().position(|d| !queue.names_buffer(*d)).unwrap_or(descs.len());
            queue.give_back(descs.get(..good).unwrap_or_default());
            good
        })
    }

    /// Copies bytes out of a buffer, from its byte `at` on.
    pub(crate) fn read(&self, desc: Desc, at: u16, to: &mut [u8]) -> Result<(), BurstError> {
        each!(self, queue => {
            let start = within(queue.names_buffer(desc), desc, at, to.len())?;
            queue.memory().read(start, to);
        });
        Ok(())
    }

    /// Copies bytes into a buffer, from its byte `at` on.
    pub(crate) fn write(&mut self, desc: Desc, at: u16, from: &[u8]) -> Result<(), BurstError> {
        each!(self, queue => {
            let start = within(queue.names_buffer(desc), desc, at, from.len())?;
            queue.memory().write(start, from);
        });
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn flush(&mut self) {
        each!(self, queue => queue.flush());
    }

    /// Notifies the program if it waits for a notification and packets were published.
    #[inline(always)]
    pub(crate) fn notify_if_armed(&mut self, notifier: &mut Notifier) {
        each!(self, queue => notifier.notify_if_armed(queue));
    }

    /// Before the NIC sleeps: has the program wake it when it sends. False when there is a packet already. The request, the fence and
    /// the look in this order, or a wake-up is lost (I in the ordering diagram; `ccnic::notify`).
    pub(crate) fn arm(&self) -> bool {
        each!(self, queue => queue.arm());
        ccnic_shm::heavy_barrier();
        !self.tx_waits()
    }

    pub(crate) fn disarm(&self) {
        each!(self, queue => queue.disarm());
    }

    /// True when the program has sent what has not been fetched.
    pub(crate) fn tx_waits(&self) -> bool {
        each!(self, queue => queue.tx_waits())
    }

    /// True when the program waits for a notification of what it has been sent.
    pub(crate) fn needs_notification(&self) -> bool {
        each!(self, queue => queue.needs_notification().is_some())
    }

    pub(crate) fn count_missed(&mut self, packets: u64) {
        each!(self, queue => queue.count_missed(packets));
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> NicCounters {
        each!(self, queue => queue.counters())
    }

    pub(crate) fn retire(&mut self) {
        each!(self, queue => queue.retire());
    }
}

/// Where byte `at` of a buffer's data is, if so many bytes of them follow.
fn within(names_buffer: bool, desc: Desc, at: u16, bytes: usize) -> Result<u32, BurstError> {
    let within = usize::from(at) + bytes <= usize::from(desc.len());
    if within && names_buffer { Ok(desc.offset() + u32::from(at)) } else { Err(BurstError::BadBuffer) }
}
