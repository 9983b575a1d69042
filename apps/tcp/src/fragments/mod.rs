//! Packets that are longer than a link: put together when they come in fragments, and cut when they are sent.
//!
//! | module | what it does |
//! |---|---|
//! | `piece` | reads a fragment |
//! | `reassembly` | keeps fragments until their packet is whole, within bounds that no sender moves |
//! | `input` | what becomes of whole packets, and pings whose answer is too long for one frame |
//! | `cut` | cuts a packet into fragments; identifications |
//! | `output` | long datagrams on their way to the ring |
//!
//! * A packet that was put together has its checksum computed here. What a fragment's metadata say about one proves nothing: *good* was said
//!   of other bytes, and a checksum that a sender in memory has left to others (*requested*) can be computed by nobody who sees a part of
//!   what it covers. Such a packet is right only if its checksum is in it.
//! * The IPv4 header has a checksum in each fragment, which is as good as that of other frames.
//! * The NIC spreads fragments by their addresses, since only the first one has ports. So all those of a packet come to one stack of several
//!   ([`Stack::open_many`](crate::Stack::open_many)), which is not always the one that has the connection, or the port: then the packet is
//!   passed on to all others. Each takes what is its own, and none answers what is nobody's: neither by RST nor by an error of ICMP.

mod cut;
mod input;
mod output;
mod piece;
mod reassembly;
#[cfg(test)]
mod tests;

pub(crate) use cut::{Idents, Long};
pub(crate) use reassembly::Reassembly;
