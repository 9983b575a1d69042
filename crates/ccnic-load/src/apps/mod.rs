//! Applications on queue pairs, over real and simulated memory: a key-value server ([`kv`]), a server of small calls ([`echo`]), and the
//! overlay ([`overlay`]), which connects programs that use one NIC's interface to another NIC (CC-NIC sections 4 and 5.7).

pub mod echo;
pub mod kv;
pub mod overlay;

use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic::{Burst, SharedMemory};

/// Ethernet, IPv4 and UDP headers.
pub const HEADERS: usize = 14 + 20 + 8;

/// Calls `each` for every packet of a burst, with a copy of its bytes: it may use the queue pair's memory.
fn packets<M: SharedMemory, R: Ring>(
    pair: &QueuePair<M, R>,
    burst: &Burst,
    bytes: &mut Vec<u8>,
    mut each: impl FnMut(&[u8], u64),
) {
    for packet in burst.as_slice().split_inclusive(|buf| !buf.more()) {
        bytes.clear();
        packet.iter().for_each(|buf| pair.with(buf, |data| bytes.extend_from_slice(data)));
        each(bytes, packet.first().map_or(0, |buf| buf.meta()));
    }
}
