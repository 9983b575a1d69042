//! TAP ports: a network interface of this kernel, which talks with the kernel as a cable to a NIC does.
//!
//! | file | contents |
//! |---|---|
//! | `options.rs` | [`TapOptions`]: `--port tap:NAME,...` |
//! | `device.rs` | opens the device, and configures its interface (`ports/link.rs`) |
//! | `incoming.rs` | packets from the kernel: checksums, segmentation |
//! | `outgoing.rs` | packets to the kernel |
//! | `join.rs` | segments of TCP on their way to the kernel, joined to super-packets |
//! | `mtu.rs` | [`Mtu`], which can change |
//! | `missed.rs` | packets that the kernel drops before the port reads them |

mod device;
mod incoming;
#[cfg(test)]
mod incoming_tests;
mod join;
#[cfg(test)]
mod join_tests;
mod missed;
mod mtu;
pub(super) mod options;
mod outgoing;
#[cfg(test)]
mod outgoing_tests;

use std::cell::Cell;
use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;

use anyhow::Context;
use ccnic::Desc;
use ccnic::nic::Origin;
use ccnic_control::messages::QueueStatus;
use ccnic_shm::NativeMemory;
use rustix::event::{PollFd, PollFlags};

pub use mtu::Mtu;
pub use options::TapOptions;

use super::outside::ByFlow;
use super::unsent::BEYOND_MTU;
use super::{Burst, Doze, Losses, OutsidePort, Statistics};
use device::Device;
use incoming::{Incoming, ReadCounters};
use join::Run;
use missed::Missed;
use outgoing::{send, send_run};

/// A queue of the device.
#[derive(Debug)]
struct Queue {
    fd: OwnedFd,
    /// It is a queue of no interface any more: it would be readable for ever.
    dead: Cell<bool>,
    read: ReadCounters,
    /// All but what the switch counts. `tx` is from the kernel, `rx` to it.
    counters: QueueStatus,
}

/// A TAP device. Its interface goes with it, unless somebody has made it persistent.
#[derive(Debug)]
pub struct TapPort {
    queues: Vec<Queue>,
    incoming: Incoming,
    /// The queue that is read next.
    next: usize,
    mtu: Mtu,
    missed: Missed,
    /// With several queues: which flow is written to which. The kernel has the flow's other direction come from the same one.
    flows: ByFlow,
}

/// Whether the interface could be made, or taken over: it is not made.
///
/// # Errors
/// What is in the way, and what to do.
pub(super) fn check(options: &TapOptions) -> anyhow::Result<()> {
    device::check(options)
}

impl TapPort {
    /// Opens the device and configures its interface.
    ///
    /// # Errors
    /// Which step failed, and what to do.
    pub fn open(options: &TapOptions) -> anyhow::Result<TapPort> {
        let device = Device::open(options)?;
        let incoming = Incoming::new().context("no memory for packets")?;
        let queue = |(number, fd)| Queue {
            fd,
            dead: Cell::default(),
            read: ReadCounters::default(),
            counters: QueueStatus { queue: number, ..QueueStatus::default() },
        };
        Ok(TapPort {
            queues: (0..).zip(device.queues).map(queue).collect(),
            incoming,
            next: 0,
            mtu: device.mtu,
            missed: device.missed,
            flows: ByFlow::new(options.queues),
        })
    }

    /// Its MTU, to be changed by another thread.
    pub fn mtu(&self) -> Mtu {
        self.mtu.clone()
    }
}

impl OutsidePort for TapPort {
    fn queues(&self) -> usize {
        self.queues.len()
    }

    fn memory(&self) -> &NativeMemory {
        self.incoming.memory()
    }

    fn fetch(&mut self, burst: &mut Burst, accepts: &dyn Fn(&[u8]) -> crate::ports::Accepts) -> usize {
        let TapPort { queues, incoming, next, .. } = self;
        if !incoming.holds() {
            *next = (*next + 1) % queues.len().max(1);
        }
        let Some(Queue { fd, read, counters, .. }) = queues.get_mut(*next) else { return 0 };
        let dropped = read.packets();
        let read_one = |header: &mut incoming::Header, room: &mut [u8]| {
            // Whatever the error: there is nothing to read. A device that is down says so for each packet that is sent to it.
            rustix::io::readv(&*fd, &mut [IoSliceMut::new(header), IoSliceMut::new(room)]).ok()
        };
        let gathered = incoming.gather(read, read_one, accepts);
        let dropped = read.packets() - dropped;
        counters.tx_packets += gathered.packets + dropped;
        counters.tx_bytes += gathered.bytes;
        let packets = gathered.packets + dropped;
        gathered.into(burst, *next);
        packets as usize
    }

    fn send(&mut self, from: &Origin<'_, NativeMemory>, packets: &[Desc], lost: &mut Losses<'_>) {
        let mtu = self.mtu.get();
        let mut rest = packets;
        while let Some(packet) = rest.split_inclusive(|desc| !desc.more()).next() {
            let at = self.flows.queue(from.mem, packet);
            let Some(Queue { fd, counters, .. }) = self.queues.get_mut(at) else { return };
            let (number, descriptors, outcome) = match Run::of(from.mem, rest, mtu as usize + BEYOND_MTU) {
                Some(run) => (run.packets, run.descriptors, send_run(fd.as_fd(), from.mem, &run)),
                None => (1, packet.len(), send(fd.as_fd(), mtu, from.mem, packet)),
            };
            match outcome {
                Ok(bytes) => {
                    counters.rx_packets += number;
                    counters.rx_bytes += bytes;
                }
                Err(why) => why.lose(counters, rest.get(..descriptors).unwrap_or_default(), lost),
            }
            rest = rest.get(descriptors..).unwrap_or_default();
        }
    }

    fn doze(&self) -> Option<&dyn Doze> {
        Some(self)
    }

    fn takes_offloads(&self) -> bool {
        true
    }
}

/// The kernel calls by making its queues readable: also for what came before it was asked.
impl Doze for TapPort {
    fn arm(&self) -> bool {
        !self.has_work()
    }

    fn has_work(&self) -> bool {
        self.incoming.holds()
    }

    fn calls<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        let alive = self.queues.iter().filter(|queue| !queue.dead.get());
        to.extend(alive.map(|queue| PollFd::new(&queue.fd, PollFlags::IN)));
    }

    fn disarm(&self, answered: &[PollFd<'_>]) {
        let alive = self.queues.iter().filter(|queue| !queue.dead.get());
        for (queue, answer) in alive.zip(answered) {
            queue.dead.set(answer.revents().intersects(PollFlags::ERR | PollFlags::NVAL));
        }
    }
}

impl Statistics for TapPort {
    fn report(&self) -> Vec<QueueStatus> {
        let report = |queue: &Queue| {
            let mut status = queue.counters;
            status.drop_bad_offload += queue.read.bad_offload;
            status.drop_too_long += queue.read.too_long;
            status
        };
        let mut report: Vec<_> = self.queues.iter().map(report).collect();
        report.first_mut().into_iter().for_each(|first| first.missed += self.missed.get()); // the kernel counts all queues together
        report
    }
}
