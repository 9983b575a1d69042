//! What tests of several modules do.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "for tests")]

use ccnic::Burst;
use ccnic::host::QueuePair;
use ccnic::layout::LARGE_BUF;
use ccnic::ring::Ring;
use ccnic_shm::NativeMemory;

/// Sends a packet; false when there is no room, or no buffer.
pub(crate) fn send<R: Ring>(host: &mut QueuePair<NativeMemory, R>, bytes: &[u8]) -> bool {
    let mut burst = Burst::new();
    host.alloc(bytes.len() as u16, bytes.len().div_ceil(LARGE_BUF as usize), &mut burst);
    let mut rest = bytes;
    for buf in burst.iter_mut() {
        let n = host.write(buf, 0, rest);
        rest = &rest[n..];
    }
    let sent = host.tx_burst(&mut burst) > 0;
    host.free(&mut burst);
    sent
}
