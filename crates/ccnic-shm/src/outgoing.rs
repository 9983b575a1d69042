//! Payload that leaves through a descriptor: one copy, the kernel's.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::memory::NativeMemory;

/// The most pieces of payload of one packet.
pub const PIECES: usize = 32;

/// The pieces that the caller has in its own memory.
const HEADS: usize = 2;

impl NativeMemory {
    /// Writes `heads`, which lie in the caller's memory, and then `pieces` of payload (offset, length) as one packet to `fd`; returns
    /// the bytes written.
    ///
    /// The bytes of the payload are those that the kernel finds when it copies them: a program may change them until then.
    ///
    /// # Errors
    /// Of the system: `EFAULT` when a piece is not in the region. `InvalidInput` when there are more than [`PIECES`].
    pub fn write_to(
        &self,
        fd: BorrowedFd<'_>,
        heads: [&[u8]; HEADS],
        pieces: &[(u32, u32)],
    ) -> io::Result<usize> {
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; HEADS + PIECES];
        let heads =
            heads.map(|head| libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() });
        let payload = pieces
            .iter()
            .map(|(at, len)| libc::iovec { iov_base: self.at(*at).cast(), iov_len: *len as usize });
        let used = parts.get_mut(..HEADS + pieces.len()).ok_or(io::ErrorKind::InvalidInput)?;
        used.iter_mut().zip(heads.into_iter().chain(payload)).for_each(|(part, from)| *part = from);
        // SAFETY: the kernel reads `used.len()` entries, at most 34, and never writes through them. Each is memory of the caller, borrowed
        // until the call returns, or begins inside the reservation of the mapping and, being shorter than 4 GiB, ends in it: what is no
        // memory there is refused with EFAULT. Others may write the payload meanwhile, which the kernel copes with.
        let written = unsafe { libc::writev(fd.as_raw_fd(), used.as_ptr(), used.len() as libc::c_int) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Pages, Region};
    use ccnic::SharedMemory;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn pieces_become_one_packet_and_what_is_not_in_the_region_an_error() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let region = Region::create(8192, Pages::Small).unwrap();
        let mem = region.memory();
        mem.write(4000, &[7; 200]);
        mem.write(10, b"end");
        let n = mem.write_to(ours.as_fd(), [b"head", b"er"], &[(4000, 200), (10, 3)]).unwrap();
        let mut got = [0; 300];
        assert_eq!((n, theirs.recv(&mut got).unwrap()), (209, 209));
        assert_eq!([&got[..6], &got[206..209]], [&b"header"[..], b"end"]);
        assert!(got[6..206].iter().all(|byte| *byte == 7));
        for piece in [(8192, 1), (8000, 200), (u32::MAX, 100)] {
            let why = mem.write_to(ours.as_fd(), [&[], &[]], &[piece]).unwrap_err();
            assert_eq!(why.raw_os_error(), Some(libc::EFAULT), "{piece:?}");
        }
        assert!(mem.write_to(ours.as_fd(), [&[], &[]], &[(0, 1); PIECES]).is_ok());
        let why = mem.write_to(ours.as_fd(), [&[], &[]], &[(0, 1); PIECES + 1]).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::InvalidInput);
    }
}
