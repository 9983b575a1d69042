//! Reserve and commit: packets that a program writes where the NIC reads them.

use std::mem::MaybeUninit;

use ccnic::Burst;
use ccnic::layout::LARGE_BUF;
use rustix::io::Errno;

use super::queue::{CcnicQueue, NO_BYTES};
use crate::errno::{Failure, TOO_LONG};

const NO_PLACE: Failure =
    Failure::new(Errno::MSGSIZE, c"no place has more than CCNIC_LARGE_SIZE bytes: use ccnic_buf_alloc()");
const LONGER_THAN_PLACE: Failure =
    Failure::new(Errno::MSGSIZE, c"a packet is longer than the place that was reserved for it");
const NOT_RESERVED: Failure = Failure::new(
    Errno::INVAL,
    c"n places are not reserved: reserve more, and send nothing else before ccnic_tx_commit()",
);

impl CcnicQueue {
    /// Reserves places for as many packets of up to `len` bytes as `out` has entries for, at most [`Burst::CAPACITY`]: writes
    /// their addresses and returns their number.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, len: u16, out: &mut [MaybeUninit<*mut u8>]) -> Result<usize, Failure> {
        if u32::from(len) > LARGE_BUF || len > self.mtu || len == 0 {
            return Err(self.no_place(len));
        }
        let base = self.view.base;
        let mut places = out.iter_mut();
        let want = places.len().min(Burst::CAPACITY);
        let n = self.pair.tx_reserve(
            len,
            want,
            &mut self.reserved,
            #[inline(always)]
            |_, at| {
                if let Some(place) = places.next() {
                    place.write(base.wrapping_add(at as usize));
                }
            },
        );
        if n == 0 && want > 0 { self.why_none(len, want) } else { Ok(n) }
    }

    #[cold]
    #[inline(never)]
    fn no_place(&mut self, len: u16) -> Failure {
        self.cancel();
        self.stats.tx_bad_packet += 1;
        match len {
            0 => NO_BYTES,
            _ if len > self.mtu => TOO_LONG,
            _ => NO_PLACE,
        }
    }

    /// Sends the packets in the first `n` places, of the lengths `lens` (as reserved if there are none) and with the metadata
    /// `metas` (0 if there are none), and gives the others back; returns `n`. After an error nothing has been sent, and the places
    /// stay reserved.
    #[inline(always)]
    pub(crate) fn commit(
        &mut self,
        n: usize,
        lens: Option<&[u16]>,
        metas: Option<&[u64]>,
    ) -> Result<usize, Failure> {
        static NO_METAS: [u64; Burst::CAPACITY] = [0; Burst::CAPACITY];
        if n > self.reserved.places() {
            return Err(NOT_RESERVED);
        }
        let most = self.reserved.place_len();
        let as_reserved = [most; Burst::CAPACITY];
        let lens = lens.unwrap_or_else(|| as_reserved.get(..n).unwrap_or_default());
        let metas = metas.unwrap_or(&NO_METAS);
        let (mut bytes, mut bad) = (0, false);
        for &len in lens {
            bytes += u64::from(len);
            bad |= len.wrapping_sub(1) >= most;
        }
        if bad {
            return Err(self.misfit(lens));
        }
        let mut packets = lens.iter().zip(metas);
        let sent = self.pair.tx_commit(
            &mut self.reserved,
            n,
            #[inline(always)]
            |_| packets.next().map_or((0, 0), |(&len, &meta)| (len, meta)),
        );
        let sent = sent.ok_or(NOT_RESERVED)?;
        self.stats.tx_packets += sent as u64;
        self.stats.tx_bytes += bytes;
        Ok(sent)
    }

    #[cold]
    #[inline(never)]
    fn misfit(&mut self, lens: &[u16]) -> Failure {
        self.stats.tx_bad_packet += 1;
        if lens.contains(&0) { NO_BYTES } else { LONGER_THAN_PLACE }
    }

    /// Gives back what is reserved.
    pub(crate) fn cancel(&mut self) {
        self.pair.tx_commit(&mut self.reserved, 0, |_| (0, 0));
    }
}
