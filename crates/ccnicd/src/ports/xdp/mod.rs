//! AF_XDP ports: queues of a network interface, without the kernel's network stack. A veth, or a real NIC as an uplink.
//!
//! | file | contents |
//! |---|---|
//! | `options.rs` | [`XdpOptions`]: `--port xdp:IFACE,...` |
//! | `bound.rs` | what is bound to an interface: program, sockets; modes and what to do when there are none |
//! | `handed.rs` | the same, made by another process and handed over: what the two say to each other |
//! | `helper.rs` | that other process, `ccnicd-xdp` |
//! | `lane.rs` | a queue: its frames and where they are |
//! | `incoming.rs` | packets from the interface: rings, checksums that are missing |
//! | `outgoing.rs` | packets to the interface: into frames, checksums, segmentation |
//! | `keeper.rs` | the thread that binds the port again when its interface returns, or takes what a helper hands over then |
//!
//! ```text
//!   fetch ◄── rx ◄── kernel                  frames to receive into: fill ring ─► kernel ─► rx ring ─► burst ─► fill ring
//!   send ──► tx ──► kernel, woken once       frames to send from: stack ─► tx ring ─► kernel ─► completion ring ─► stack
//!            a burst
//! ```
//!
//! The port's memory is the UMEM: the kernel, or the NIC, writes packets there, and receivers' copies are made from there; packets to send
//! are copied out of their sender's memory into a frame. So each direction has one copy of ours.

mod bound;
mod handed;
pub mod helper;
mod incoming;
mod keeper;
mod lane;
pub(super) mod options;
mod outgoing;

use crate::memory::RegionMemory;
use anyhow::Context;
use ccnic::Desc;
use ccnic::nic::Origin;
use ccnic_control::messages::QueueStatus;
use ccnic_shm::{NativeMemory, Pages, Region};
use rustix::event::PollFd;

pub use handed::Helped;
pub use options::{Choice, Mode, XdpOptions};

use super::outside::ByFlow;
use super::unsent::Unsent;
use super::{Burst, Doze, Losses, OutsidePort, Statistics};
use bound::Bound;
use keeper::Keeper;
use lane::{Lane, umem_bytes};

/// Looks at the port's queues between two looks at the keeper.
const LOOKS: u32 = 256;

/// Bytes of the memory of so many queues. (Packets are copied by whole buffers: behind the last one is room.)
fn size(queues: u16, ring: u32) -> u32 {
    u32::from(queues) * umem_bytes(ring) + ccnic::layout::LARGE_BUF
}

/// The memory of a port with so many queues.
fn memory(options: &XdpOptions, queues: u16) -> anyhow::Result<Region> {
    Region::create(size(queues, options.ring), Pages::Small)
        .context("no memory for packets: lower ring, or queues")
}

/// Queues of a network interface.
#[derive(Debug)]
pub struct XdpPort {
    mem: NativeMemory,
    bound: Bound,
    /// All but what the switch counts, by queue. `tx` is from the interface, `rx` to it.
    counters: Vec<QueueStatus>,
    /// The queue that is looked at next.
    next: usize,
    looks: u32,
    /// With several queues: which flow is sent on which.
    flows: ByFlow,
    keeper: Keeper,
}

/// Whether the interface and as many queues are there, or the helper is. Nothing is taken.
///
/// # Errors
/// What is missing, and what to do.
pub(super) fn check(options: &XdpOptions) -> anyhow::Result<()> {
    match &options.helper {
        Some(helper) => Helped::connect(helper, &options.name).map(drop),
        None => bound::queues(options).map(drop),
    }
}

impl XdpPort {
    /// Takes the interface's queues, which a helper has `helped` to where the options name one.
    ///
    /// # Errors
    /// Which step failed, and what to do.
    pub fn open(options: &XdpOptions, helped: Option<Helped>) -> anyhow::Result<XdpPort> {
        match (&options.helper, helped) {
            (None, _) => XdpPort::bind(options),
            (Some(_), Some(helped)) => XdpPort::take_over(options, helped),
            (Some(helper), None) => XdpPort::take_over(options, Helped::connect(helper, &options.name)?),
        }
    }

    fn take_over(options: &XdpOptions, helped: Helped) -> anyhow::Result<XdpPort> {
        let (hands, bound, region) = helped.first(options)?;
        bound.log(&options.name);
        let (queues, mem) = (bound.lanes.len() as u16, region.memory());
        let keeper = Keeper::start_helped(options.clone(), hands, region.memory())?;
        Ok(XdpPort::of(mem, bound, queues, keeper))
    }

    fn bind(options: &XdpOptions) -> anyhow::Result<XdpPort> {
        let queues = bound::queues(options)?;
        let region = memory(options, queues)?;
        let mem = region.memory();
        let bound = Bound::open(options, queues, &mem)?;
        bound.log(&options.name);
        let keeper = Keeper::start(options.clone(), queues, region.memory(), &bound)?;
        Ok(XdpPort::of(mem, bound, queues, keeper))
    }

    fn of(mem: NativeMemory, bound: Bound, queues: u16, keeper: Keeper) -> XdpPort {
        let counters = (0..queues).map(|queue| QueueStatus { queue, ..QueueStatus::default() }).collect();
        XdpPort { mem, bound, counters, next: 0, looks: 0, flows: ByFlow::new(queues), keeper }
    }

    /// How it runs: what `ccnic status` calls its design.
    pub fn design(&self) -> &'static str {
        self.bound.design()
    }

    /// Takes over what the keeper has bound to an interface that has returned, or that there is none now. What was bound before goes to the
    /// keeper, which closes it.
    #[cold]
    fn renew(&mut self) {
        let Some(new) = self.keeper.take() else { return };
        let old = std::mem::replace(&mut self.bound, new);
        for (counters, lane) in self.counters.iter_mut().zip(&old.lanes) {
            counters.missed += lane.missed();
        }
        self.keeper.close(old);
    }
}

impl OutsidePort for XdpPort {
    fn queues(&self) -> usize {
        self.counters.len()
    }

    fn memory(&self) -> &NativeMemory {
        &self.mem
    }

    fn looks_are_cheap(&self) -> bool {
        true
    }

    fn fetch(&mut self, burst: &mut Burst, _: &dyn Fn(&[u8]) -> crate::ports::Accepts) -> usize {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS) {
            self.renew();
        }
        self.next = if self.next + 1 < self.counters.len() { self.next + 1 } else { 0 };
        let fill = self.bound.fill;
        let lane = self.bound.lanes.get_mut(self.next);
        let Some((lane, counters)) = lane.zip(self.counters.get_mut(self.next)) else { return 0 };
        lane.settle(counters);
        let (gathered, dropped) = lane.receive(&self.mem, fill);
        let packets = gathered.packets + dropped;
        if packets > 0 {
            counters.tx_packets += packets;
            counters.tx_bytes += gathered.bytes;
            counters.drop_bad_descriptor += dropped;
            gathered.into(burst, self.next);
        }
        packets as usize
    }

    fn send(&mut self, from: &Origin<'_, NativeMemory>, packets: &[Desc], lost: &mut Losses<'_>) {
        let most = self.bound.longest;
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            let at = self.flows.queue(from.mem, packet);
            let Some(counters) = self.counters.get_mut(at) else { return };
            let lane = self.bound.lanes.get_mut(at).ok_or(Unsent::Down);
            lane.and_then(|lane| lane.push(&self.mem, most, from.mem, packet))
                .unwrap_or_else(|why| why.lose(counters, packet, lost));
        }
        for (lane, counters) in self.bound.lanes.iter_mut().zip(&mut self.counters) {
            lane.send(counters);
        }
    }

    fn doze(&self) -> Option<&dyn Doze> {
        Some(self)
    }

    fn takes_offloads(&self) -> bool {
        true
    }
}

/// The kernel calls when packets come to a queue; the keeper, when the interface has returned.
impl Doze for XdpPort {
    fn arm(&self) -> bool {
        !self.has_work()
    }

    fn has_work(&self) -> bool {
        self.bound.lanes.iter().any(Lane::has_work)
    }

    fn calls<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        to.push(self.keeper.calls());
        to.extend(self.bound.lanes.iter().filter_map(Lane::calls));
    }

    fn disarm(&self, answered: &[PollFd<'_>]) {
        let alive = self.bound.lanes.iter().filter(|lane| lane.calls().is_some());
        alive.zip(answered.iter().skip(1)).for_each(|(lane, answer)| lane.answered(answer));
    }
}

impl Statistics for XdpPort {
    fn report(&self) -> Vec<QueueStatus> {
        let missed = |at: usize| self.bound.lanes.get(at).map_or(0, |lane| lane.missed());
        let report = |(at, counters): (usize, &QueueStatus)| {
            let mut status = *counters;
            status.missed += missed(at);
            status
        };
        self.counters.iter().enumerate().map(report).collect()
    }
}
