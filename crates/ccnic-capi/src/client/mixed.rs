//! Bursts of copies and of packets in buffers.

use ccnic::Desc;
use ccnic::host::Outgoing;
use rustix::io::Errno;

use super::queue::{CcnicQueue, NO_BUFFER, NO_BYTES, TX_NOT_SMALL};
use crate::abi::{ADOPT, CcnicBuf};
use crate::errno::{BAD_BUFFER, Failure, TOO_LONG};
use crate::held::Fate;

const CHAIN: Failure =
    Failure::new(Errno::INVAL, c"a packet has several buffers: send it with ccnic_tx_burst()");

impl CcnicQueue {
    /// Sends packets of one buffer each, and copies of those whose address is not null, as many as there is room for; returns their
    /// number. `packet` makes a slice of an address and a length. A packet that can never be sent ends the burst; if it is the
    /// first one, it is an error.
    #[inline(always)]
    pub(crate) fn transmit_mixed<'a>(
        &mut self,
        bufs: &[CcnicBuf],
        data: &[*const u8],
        packet: impl Fn(*const u8, u16) -> &'a [u8],
    ) -> Result<usize, Failure> {
        let in_buffers =
            |skip| bufs.iter().zip(data).skip(skip).filter(|(_, at)| at.is_null()).map(|(buf, _)| buf);
        if let Some(held) = &self.held {
            held.give("ccnic_tx_mixed", Fate::Sent, in_buffers(0))?;
        }
        let sent = self.transmit_given_mixed(bufs, data, packet);
        if let Some(held) = &self.held {
            held.take(in_buffers(*sent.as_ref().unwrap_or(&0)).copied());
        }
        sent
    }

    #[inline(always)]
    fn transmit_given_mixed<'a>(
        &mut self,
        bufs: &[CcnicBuf],
        data: &[*const u8],
        packet: impl Fn(*const u8, u16) -> &'a [u8],
    ) -> Result<usize, Failure> {
        let (small, mtu) = (self.small(), self.mtu);
        let packets = bufs.iter().zip(data).map_while(
            #[inline(always)]
            |(buf, &at)| {
                let most = if at.is_null() { mtu } else { small };
                if buf.len().wrapping_sub(1) >= most {
                    return None;
                }
                Some(if at.is_null() {
                    Outgoing::Buffer(Desc::from(*buf))
                } else {
                    Outgoing::Copy(packet(at, buf.len()), buf.meta)
                })
            },
        );
        let sent = self.pair.tx_mixed(packets, &mut self.burst, ADOPT);
        self.stats.tx_bytes += bufs.iter().take(sent).map(|buf| u64::from(buf.len())).sum::<u64>();
        self.stats.tx_packets += sent as u64;
        if sent < bufs.len() { self.stopped_mixed(bufs, data, sent) } else { Ok(sent) }
    }

    /// Why a burst stopped after `sent` packets: the next one can never be sent, or it waits for room or for a buffer, and so do those
    /// behind it. It is an error only if nothing has been sent; otherwise the next burst begins with the packet and reports it.
    #[cold]
    #[inline(never)]
    fn stopped_mixed(
        &mut self,
        bufs: &[CcnicBuf],
        data: &[*const u8],
        sent: usize,
    ) -> Result<usize, Failure> {
        let mut left = bufs.iter().zip(data).skip(sent).map(|(buf, at)| (*buf, !at.is_null()));
        let Some((first, copy)) = left.next() else { return Ok(sent) };
        if let Some(failure) = self.never_sent(first, copy) {
            if sent > 0 {
                return Ok(sent);
            }
            let bad = failure == BAD_BUFFER;
            let counter = if bad { &mut self.stats.tx_bad_buffer } else { &mut self.stats.tx_bad_packet };
            *counter += 1;
            return Err(failure);
        }
        // What lies behind a packet that can never be sent does not wait.
        let (mut waiting, mut copies) = (1, u64::from(copy));
        for (_, copy) in left.take_while(|&(buf, copy)| self.never_sent(buf, copy).is_none()) {
            (waiting, copies) = (waiting + 1, copies + u64::from(copy));
        }
        if !copy || self.ring_is_full(first.len()) {
            self.stats.tx_ring_full += waiting;
            return Ok(sent);
        }
        self.stats.alloc_failed += copies;
        if sent > 0 { Ok(sent) } else { Err(NO_BUFFER) }
    }

    /// Why a packet can never be sent by [`transmit_mixed`](CcnicQueue::transmit_mixed), if so.
    fn never_sent(&self, buf: CcnicBuf, copy: bool) -> Option<Failure> {
        Some(match buf.len() {
            0 => NO_BYTES,
            len if copy && len > self.small() => TX_NOT_SMALL,
            len if len > self.mtu => TOO_LONG,
            _ if copy => return None,
            _ if buf.more() => CHAIN,
            _ if !self.pair.holds(Desc::from(buf)) => BAD_BUFFER,
            _ => return None,
        })
    }
}
