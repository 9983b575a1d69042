//! Copies of packets that a NIC gives to whoever captures them: the request, and what comes on the socket that was sent with it.
//!
//! ```text
//!   chunk:  bytes behind this header (4) | 0 (4) | packets that were not captured before it (8) | packet | packet | ...
//!   packet: captured (4) | length (4) | time (8) | port (8) | metadata (8) | direction (1) | reason (1) | 0 (6) | bytes, to a multiple of 8
//! ```
//!
//! Little-endian. A chunk may have no packets, only a number. The socket carries nothing else, and only from the NIC; it ends when either side closes it.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What is to be captured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// Packets from this port ([`ProgramStatus::id`](crate::messages::ProgramStatus::id)) and those to it; without: each packet once, as
    /// it comes from a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u64>,
    /// Bytes of a packet that are copied at most.
    pub snap: u32,
    /// Also what the switch drops.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drops: bool,
    /// Packets that are captured in a second at most; 0: no limit.
    pub rate: u32,
}

/// Which way a packet goes, as the switch sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the port.
    In,
    /// To the port.
    Out,
}

/// Why packets are dropped: the names of the counters, by the number in the stream.
const REASONS: [&str; 17] = [
    "",
    "drop_too_short",
    "drop_bad_source",
    "drop_no_destination",
    "drop_spoofed",
    "drop_vlan",
    "drop_isolated",
    "drop_storm",
    "drop_rate",
    "drop_over_mtu",
    "drop_flow_rule",
    "drop_ring_full",
    "drop_no_buffer",
    "drop_bad_offload",
    "drop_port_down",
    "drop_port_refused",
    "drop_reserved",
];

/// Why a packet was dropped, by the switch or by the port that it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Shorter than an Ethernet header.
    TooShort = 1,
    /// From a group address, or from none.
    BadSource,
    /// To the port that it came from, or there is no other.
    NoDestination,
    /// From an address that the port may not use.
    Spoofed,
    /// The port is not in its VLAN.
    Vlan,
    /// Between isolated ports.
    Isolated,
    /// More than the port may flood.
    Storm,
    /// More than may be sent to the port that it was for.
    Rate,
    /// Longer than the MTU of the port that it was for.
    OverMtu,
    /// A flow rule of the program that it was for says so.
    FlowRule,
    /// The port that it was for does not keep up.
    RingFull,
    /// The program that it was for has no buffer.
    NoBuffer,
    /// What its metadata request contradicts its headers.
    BadOffload,
    /// The interface that it was for is down.
    PortDown,
    /// The kernel has refused it.
    PortRefused,
    /// To an address of protocols that end at the next bridge.
    Reserved,
}

/// What is said of a packet before its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Bytes of it that are there.
    pub captured: u32,
    /// Bytes that it has.
    pub len: u32,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// The port ([`ProgramStatus::id`](crate::messages::ProgramStatus::id)).
    pub port: u64,
    /// Its metadata word (`ccnic_frame::Meta`).
    pub meta: u64,
    /// Which way it went.
    pub direction: Direction,
    /// The counter under which it was dropped, such as `drop_spoofed`, if it was.
    pub dropped: Option<&'static str>,
}

/// Bytes of a chunk, at most.
pub const CHUNK: usize = 128 << 10;
/// Bytes of a chunk's header.
pub const CHUNK_HEADER: usize = 16;
/// Bytes before those of a packet.
pub const PACKET_HEADER: usize = 40;
/// The longest packet that fits into a chunk.
pub const SNAP_MAX: u32 = 65_535;

impl Reason {
    /// The counter that counts it.
    pub fn counter(self) -> &'static str {
        REASONS.get(self as usize).copied().unwrap_or_default()
    }
}

/// The header of a chunk with so many bytes behind it, before which so many packets were not captured.
pub fn chunk_header(bytes: usize, missed: u64) -> [u8; CHUNK_HEADER] {
    let mut header = [0; CHUNK_HEADER];
    header[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
    header[8..].copy_from_slice(&missed.to_le_bytes());
    header
}

impl About {
    /// Its bytes in the stream.
    pub fn header(&self) -> [u8; PACKET_HEADER] {
        let mut header = [0; PACKET_HEADER];
        header[..4].copy_from_slice(&self.captured.to_le_bytes());
        header[4..8].copy_from_slice(&self.len.to_le_bytes());
        header[8..16].copy_from_slice(&self.time.to_le_bytes());
        header[16..24].copy_from_slice(&self.port.to_le_bytes());
        header[24..32].copy_from_slice(&self.meta.to_le_bytes());
        header[32] = u8::from(self.direction == Direction::Out);
        let reason = REASONS.iter().position(|name| Some(*name) == self.dropped);
        header[33] = reason.unwrap_or(0) as u8;
        header
    }

    /// What such bytes say; `None` for such as no NIC writes.
    fn read(header: &[u8; PACKET_HEADER]) -> Option<About> {
        let (words, rest) = header.split_at(32);
        let word = |at: usize| words.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let lengths = word(0)?;
        Some(About {
            captured: lengths as u32,
            len: (lengths >> 32) as u32,
            time: word(8)?,
            port: word(16)?,
            meta: word(24)?,
            direction: match rest.first()? {
                0 => Direction::In,
                1 => Direction::Out,
                _ => return None,
            },
            dropped: match rest.get(1)? {
                0 => None,
                reason => Some(*REASONS.get(usize::from(*reason))?),
            },
        })
    }
}

/// Bytes that a packet takes in a chunk, of which so many are captured.
pub fn packet_bytes(captured: usize) -> usize {
    PACKET_HEADER + captured.next_multiple_of(8)
}

/// Reads what a NIC has captured. The NIC is not trusted: what no NIC writes is an error.
#[derive(Debug)]
pub struct CaptureReader<R> {
    from: R,
    chunk: Vec<u8>,
    at: usize,
    missed: u64,
}

impl<R: Read> CaptureReader<R> {
    /// From the other end of the socket that was sent with the request.
    pub fn new(from: R) -> CaptureReader<R> {
        CaptureReader { from, chunk: Vec::new(), at: 0, missed: 0 }
    }

    /// Packets that were not captured up to now: beyond the rate, or the reader was too slow.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// What it reads from.
    pub fn get_ref(&self) -> &R {
        &self.from
    }

    /// True when there is a packet that has been read already.
    pub fn has_more(&self) -> bool {
        self.at < self.chunk.len()
    }

    /// The next packet; waits for it, as its source does. `None` at the end.
    ///
    /// # Errors
    /// [`Error::Protocol`] for what no NIC writes; [`Error::Os`] of the source.
    pub fn next_packet(&mut self) -> Result<Option<(About, &[u8])>, Error> {
        while !self.has_more() {
            if !self.advance()? {
                return Ok(None);
            }
        }
        let wrong = || Error::Protocol { what: "a captured packet that cannot be".to_owned() };
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        let about = rest.first_chunk().and_then(About::read).ok_or_else(wrong)?;
        if about.captured > SNAP_MAX || about.captured > about.len {
            return Err(wrong());
        }
        let bytes = rest.get(PACKET_HEADER..PACKET_HEADER + about.captured as usize).ok_or_else(wrong)?;
        self.at += packet_bytes(bytes.len());
        Ok(Some((about, bytes)))
    }

    /// Waits for more packets, or for a number of [missed](CaptureReader::missed) ones and no packets. False at the end, also in the midst
    /// of what is sent together: a NIC that has died. Packets that have been read and not [taken](CaptureReader::next_packet) are gone.
    ///
    /// # Errors
    /// As [`next_packet`](CaptureReader::next_packet).
    pub fn advance(&mut self) -> Result<bool, Error> {
        let mut header = [0; CHUNK_HEADER];
        if !self.fill(&mut header)? {
            return Ok(false);
        }
        let [a, b, c, d, _, _, _, _, missed @ ..] = header;
        let bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        if bytes > CHUNK {
            return Err(Error::Protocol { what: format!("{bytes} captured bytes at once") });
        }
        self.missed = self.missed.saturating_add(u64::from_le_bytes(missed));
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(bytes, 0);
        let whole = self.fill(&mut chunk)?;
        (self.chunk, self.at) = (chunk, if whole { 0 } else { bytes });
        Ok(whole)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, Error> {
        match self.from.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                Ok(false)
            }
            Err(e) => {
                let errno = rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO);
                Err(Error::Os { what: "read what is captured", errno })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{COUNTERS, Kind};

    fn about(captured: u32) -> About {
        About {
            captured,
            len: captured + 1,
            time: u64::MAX - 7,
            port: 1 << 32,
            meta: 0x0123_4567_89ab_cdef,
            direction: Direction::Out,
            dropped: Some(Reason::Storm.counter()),
        }
    }

    /// A chunk of these packets.
    fn chunk(packets: &[(About, Vec<u8>)], missed: u64) -> Vec<u8> {
        let mut body = Vec::new();
        for (about, bytes) in packets {
            body.extend(about.header());
            body.extend(bytes);
            body.resize(body.len().next_multiple_of(8), 0);
        }
        [&chunk_header(body.len(), missed)[..], &body].concat()
    }

    #[test]
    fn reasons_are_counters() {
        for name in &REASONS[1..] {
            assert!(COUNTERS.iter().any(|c| c.name == *name && c.kind == Kind::Drop), "{name}");
        }
        assert_eq!((Reason::TooShort.counter(), Reason::Storm.counter()), (REASONS[1], REASONS[7]));
        assert_eq!((Reason::PortRefused.counter(), Reason::Reserved.counter()), (REASONS[15], REASONS[16]));
    }

    #[test]
    fn what_was_written_is_read() {
        let packets: Vec<_> = [0, 1, 8, 60, SNAP_MAX].map(|n| (about(n), vec![n as u8; n as usize])).into();
        let inwards = About { direction: Direction::In, dropped: None, ..about(3) };
        let stream = [chunk(&packets, 5), chunk(&[], 2), chunk(&[(inwards, vec![1, 2, 3])], 0)].concat();
        let mut reader = CaptureReader::new(&stream[..]);
        for (about, bytes) in packets.iter().chain([&(inwards, vec![1, 2, 3])]) {
            assert_eq!(reader.next_packet().unwrap(), Some((*about, &bytes[..])));
        }
        assert_eq!(reader.next_packet().unwrap(), None);
        assert_eq!(reader.missed(), 7);
        let mut cut = CaptureReader::new(&stream[..stream.len() - 1]);
        while cut.next_packet().unwrap().is_some() {}
    }

    #[test]
    fn what_no_nic_writes_is_refused() {
        let good = chunk(&[(about(8), vec![0; 8])], 0);
        for (at, byte) in [
            (3, 1),
            (0, 9),
            (CHUNK_HEADER, 9),
            (CHUNK_HEADER + 3, 1),
            (CHUNK_HEADER + 32, 2),
            (CHUNK_HEADER + 33, REASONS.len() as u8),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            bad.resize(CHUNK + 100, 0);
            let mut reader = CaptureReader::new(&bad[..]);
            let outcome = std::iter::from_fn(|| reader.next_packet().map(|p| p.map(drop)).transpose())
                .find(Result::is_err);
            assert!(matches!(outcome, Some(Err(Error::Protocol { .. }))), "{at}");
        }
    }
}
