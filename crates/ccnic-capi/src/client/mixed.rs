//! Bursts of copies and of packets in buffers.

use ccnic::Desc;
use ccnic::host::Outgoing;
use rustix::io::Errno;

use super::queue::{CcnicQueue, NO_BYTES, TX_NOT_SMALL};
use crate::abi::CcnicBuf;
use crate::errno::{BAD_BUFFER, Failure, TOO_LONG};

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
        self.check_open()?;
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
        let sent = self.pair.tx_mixed(packets, &mut self.burst);
        self.stats.tx_bytes += bufs.iter().take(sent).map(|buf| u64::from(buf.len())).sum::<u64>();
        self.stats.tx_packets += sent as u64;
        match bufs.first().zip(data.first()) {
            Some((buf, at)) if sent == 0 => self.why_not_mixed(*buf, !at.is_null()),
            _ => Ok(sent),
        }
    }

    /// Why the first packet was not sent.
    #[cold]
    #[inline(never)]
    fn why_not_mixed(&mut self, buf: CcnicBuf, copy: bool) -> Result<usize, Failure> {
        let (counter, failure) = match buf.len() {
            0 => (&mut self.stats.tx_bad_packet, NO_BYTES),
            len if copy && len > self.small() => (&mut self.stats.tx_bad_packet, TX_NOT_SMALL),
            len if len > self.mtu => (&mut self.stats.tx_bad_packet, TOO_LONG),
            len if copy => return self.why_none(len, 1),
            _ if buf.more() => (&mut self.stats.tx_bad_packet, CHAIN),
            _ if self.pair.tx_room() == 0 => {
                self.stats.tx_ring_full += 1;
                return Ok(0);
            }
            _ => (&mut self.stats.tx_bad_buffer, BAD_BUFFER),
        };
        *counter += 1;
        Err(failure)
    }
}
