//! The five network interfaces (CNI table 1), and where their queues lie in a node's memory.

use std::ops::Range;

use super::message::ENTRY;
use super::queue::Shape;
use crate::bus::cache::{Cache, Region};
use crate::bus::node::BLOCK;

/// A network interface of CNI table 1. The number is what is exposed to the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Two words of 4 bytes in uncached registers, as the CM-5's.
    Ni2w,
    /// Four blocks: cachable device registers.
    Cni4,
    /// A cachable queue of 16 blocks in each direction, at home in the device.
    Cni16Q,
    /// One of 512 blocks.
    Cni512Q,
    /// Queues of 512 blocks at home in main memory, of which the device's cache holds 16.
    Cni16Qm,
}

impl Kind {
    /// Every one.
    pub const ALL: [Kind; 5] = [Kind::Ni2w, Kind::Cni4, Kind::Cni16Q, Kind::Cni512Q, Kind::Cni16Qm];

    /// Its name in plans.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ni2w => "ni2w",
            Kind::Cni4 => "cni4",
            Kind::Cni16Q => "cni16q",
            Kind::Cni512Q => "cni512q",
            Kind::Cni16Qm => "cni16qm",
        }
    }

    /// Blocks of each of its queues; of one message where there is no queue.
    pub fn blocks(self) -> u32 {
        match self {
            Kind::Ni2w | Kind::Cni4 => 4,
            Kind::Cni16Q => 16,
            Kind::Cni512Q | Kind::Cni16Qm => 512,
        }
    }

    /// It has queues that the processor caches.
    pub fn has_queues(self) -> bool {
        matches!(self, Kind::Cni16Q | Kind::Cni512Q | Kind::Cni16Qm)
    }

    /// Its queues are at home in main memory.
    pub fn in_memory(self) -> bool {
        self == Kind::Cni16Qm
    }
}

/// The largest queue.
const QUEUE: u32 = 512 * BLOCK;
/// What the device watches: the queue of messages to send, and the head of the other one.
pub const WATCHED: Range<u32> = 0..QUEUE + BLOCK;
/// Everything that belongs to the interface.
const ALL: Range<u32> = 0..3 * QUEUE;
/// From here on memory is the user's.
pub const USER: u32 = 4 * QUEUE;

const SEND: u32 = 0;
const RECEIVE_HEAD: u32 = QUEUE;
const SEND_HEAD: u32 = QUEUE + BLOCK;
const RECEIVE: u32 = 2 * QUEUE;

/// The queue from the processor to the device.
pub fn send(kind: Kind) -> Shape {
    Shape { base: SEND, head: SEND_HEAD, entries: kind.blocks() * BLOCK / ENTRY }
}

/// The queue from the device to the processor.
pub fn receive(kind: Kind) -> Shape {
    Shape { base: RECEIVE, head: RECEIVE_HEAD, entries: kind.blocks() * BLOCK / ENTRY }
}

/// The addresses that the device is home of.
pub fn home(kind: Kind) -> Range<u32> {
    if kind.in_memory() { 0..0 } else { ALL }
}

/// The device's cache. Where the device is home, what it has is its memory, and holds everything.
pub fn cache(kind: Kind) -> Cache {
    let held = if kind.in_memory() { 16 } else { kind.blocks() };
    let queue = |at| Region { first: at / BLOCK, blocks: kind.blocks(), sets: held };
    let heads = Region { first: RECEIVE_HEAD / BLOCK, blocks: 2, sets: 2 };
    Cache::of_regions(&[queue(SEND), heads, queue(RECEIVE)])
}
