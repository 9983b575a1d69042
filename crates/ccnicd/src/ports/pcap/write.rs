//! Blocks of pcapng: a section with one interface of Ethernet, whose timestamps are nanoseconds.
//! (draft-ietf-opsawg-pcapng; all numbers little-endian, every block a multiple of four bytes.)

use ccnic::{Desc, SharedMemory};
use ccnic_shm::NativeMemory;

/// Bytes of a packet's block besides the packet and its padding.
const AROUND: usize = 32;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// What a file begins with.
pub(super) fn header() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |words: &[u32]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    // Byte order, version 1.0, a section of unknown length.
    put(&[SECTION, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    // LINKTYPE_ETHERNET, no limit of length; if_tsresol (9), one byte: 10^-9 seconds; the end of options.
    put(&[INTERFACE, 32, 1, 0, 9 | 1 << 16, 9, 0, 32]);
    bytes
}

/// Bytes of the block of a packet of `len` bytes.
pub(super) fn block_len(len: usize) -> usize {
    AROUND + len.next_multiple_of(4)
}

/// Appends the block of a packet, of whole segments that lie in `mem`, at a time in nanoseconds. `to` has room for it.
pub(super) fn packet(to: &mut Vec<u8>, time: u64, mem: &NativeMemory, segments: &[Desc], len: usize) {
    let block = block_len(len);
    let size = (block as u32).to_le_bytes();
    to.extend_from_slice(&ENHANCED_PACKET.to_le_bytes());
    to.extend_from_slice(&size);
    for word in [0, (time >> 32) as u32, time as u32, len as u32, len as u32] {
        to.extend_from_slice(&word.to_le_bytes());
    }
    for desc in segments {
        let at = to.len();
        to.resize(at + usize::from(desc.len()), 0);
        mem.read(desc.offset(), to.get_mut(at..).unwrap_or_default());
    }
    to.resize(to.len() + len.next_multiple_of(4) - len, 0);
    to.extend_from_slice(&size);
}
