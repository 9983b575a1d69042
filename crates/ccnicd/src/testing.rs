//! What tests of several modules do.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "for tests")]

use ccnic::Burst;
use ccnic::host::QueuePair;
use ccnic::layout::LARGE_BUF;
use ccnic::ring::Ring;
use ccnic_shm::NativeMemory;

/// UDP over IPv4 with this payload, no checksums.
pub(crate) fn udp(payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    let mut frame = [[2; 6], [4; 6]].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((28 + len).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9, 0, 9]);
    frame.extend((8 + len).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// Sends a packet; false when there is no room, or no buffer.
pub(crate) fn send<R: Ring>(host: &mut QueuePair<NativeMemory, R>, bytes: &[u8]) -> bool {
    send_saying(host, bytes, 0)
}

/// Sends a packet with metadata; false when there is no room, or no buffer.
pub(crate) fn send_saying<R: Ring>(host: &mut QueuePair<NativeMemory, R>, bytes: &[u8], meta: u64) -> bool {
    let mut burst = Burst::new();
    host.alloc(bytes.len() as u16, bytes.len().div_ceil(LARGE_BUF as usize), &mut burst);
    let mut rest = bytes;
    for buf in burst.iter_mut() {
        let n = host.write(buf, 0, rest);
        rest = &rest[n..];
        buf.set_meta(meta);
    }
    let sent = host.tx_burst(&mut burst) > 0;
    host.free(&mut burst);
    sent
}
