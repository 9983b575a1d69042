//! Packets to the kernel: written out of their sender's memory, with what is requested for them as `virtio_net_hdr`.
//!
//! There is one copy, the kernel's, but for the first bytes of packets that request something: those are copied out once, checked and
//! made ready there. Packets come from programs: nothing that their metadata or headers say is believed.

use std::io;
use std::os::fd::BorrowedFd;

use ccnic::Desc;
use ccnic_frame::vnet::SHORT_BYTES;
use ccnic_frame::{Headers, Meta, VnetHeader};
use ccnic_shm::NativeMemory;
use ccnic_shm::outgoing::PIECES;
use rustix::io::Errno;

use super::join::Run;
use crate::ports::unsent::{BEYOND_MTU, Start, Unsent, requests};

impl From<io::Error> for Unsent {
    fn from(e: io::Error) -> Unsent {
        match Errno::from_io_error(&e) {
            Some(Errno::AGAIN) => Unsent::Full,
            Some(Errno::IO | Errno::BADFD | Errno::NETDOWN | Errno::NODEV | Errno::NXIO) => Unsent::Down,
            _ => Unsent::Refused,
        }
    }
}

/// Writes a packet, of whole segments, that lies in `mem`; returns its bytes.
pub(super) fn send(
    queue: BorrowedFd<'_>,
    mtu: u32,
    mem: &NativeMemory,
    packet: &[Desc],
) -> Result<u64, Unsent> {
    let len: usize = packet.iter().map(|desc| usize::from(desc.len())).sum();
    let meta = Meta::from_word(packet.first().map_or(0, |desc| desc.meta));
    let most = mtu as usize + BEYOND_MTU;
    if requests(meta) {
        return send_prepared(queue, most, mem, packet, len, meta);
    }
    if len > most {
        return Err(Unsent::OverMtu);
    }
    write(queue, mem, [&[0; SHORT_BYTES], &[]], packet, 0)?;
    Ok(len as u64)
}

/// Writes segments that have been joined; returns the bytes that they had.
pub(super) fn send_run(queue: BorrowedFd<'_>, mem: &NativeMemory, run: &Run) -> Result<u64, Unsent> {
    match run.with(|heads, pieces| mem.write_to(queue, heads, pieces)) {
        Some(written) => {
            written?;
            Ok(run.bytes)
        }
        None => Err(Unsent::BadOffload), // never of what was joined
    }
}

/// As `send`, for a packet that requests something.
#[inline(never)]
fn send_prepared(
    queue: BorrowedFd<'_>,
    most: usize,
    mem: &NativeMemory,
    packet: &[Desc],
    len: usize,
    meta: Meta,
) -> Result<u64, Unsent> {
    let mut start = Start::of(mem, packet, meta)?;
    let (copied, tagged) = (start.copied, start.tagged);
    let start = start.bytes();
    let headers = Headers::parse(start, len + tagged);
    let mut header = VnetHeader::prepare(meta, start, &headers)?;
    if header.flags == ccnic_frame::vnet::DATA_VALID {
        header.flags = 0;
    }
    let longest = match meta.segmentation() {
        Some(cut) => (headers.payload_at + usize::from(cut.size)).min(len + tagged),
        None => len + tagged,
    };
    if longest > most {
        return Err(Unsent::OverMtu);
    }
    let header = header.to_bytes();
    let header = header.get(..SHORT_BYTES).unwrap_or_default();
    write(queue, mem, [header, start], packet, copied as u32)?;
    Ok((len + tagged) as u64)
}

/// Writes what the caller has in its memory, then the packet less its first `skip` bytes.
fn write(
    queue: BorrowedFd<'_>,
    mem: &NativeMemory,
    heads: [&[u8]; 2],
    packet: &[Desc],
    mut skip: u32,
) -> io::Result<usize> {
    let mut pieces = [(0, 0); PIECES];
    let mut n = 0;
    for desc in packet {
        let part = skip.min(desc.len().into());
        skip -= part;
        let piece = (desc.offset() + part, u32::from(desc.len()) - part);
        if piece.1 > 0
            && let Some(slot) = pieces.get_mut(n)
        {
            *slot = piece;
            n += 1;
        }
    }
    mem.write_to(queue, heads, pieces.get(..n).unwrap_or_default())
}
