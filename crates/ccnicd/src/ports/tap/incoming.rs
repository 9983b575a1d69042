//! Packets from the kernel: read into memory of the port, made such that their receivers can take them.
//!
//! Where a packet goes is only known when it has been read, so it is read into the port's own memory and copied from there once for each
//! receiver. What the kernel has left out, checksums and segmentation, is computed here unless all receivers take it so.
//!
//! ```text
//!   kernel ─► read: virtio_net_hdr, frame ─┬─ complete ───────────────────────► burst of up to 32 segments
//!                                          ├─ checksum missing ─► fill it in ─►
//!                                          ├─ super-packet ─► cut: a header of its own before each part of the payload ─► as many
//!                                          │                                      bursts as it takes
//!                                          ├─ either, and all receivers take it ─► alone in a burst, with metadata
//!                                          └─ super-packet that is too long for one of them ─► cut into shorter ones, with metadata: no
//!                                                                                 payload is looked at
//! ```

use crate::memory::RegionMemory;
use ccnic::SharedMemory;
use ccnic::nic::FETCH;
use ccnic_frame::segment::Segments;
use ccnic_frame::vnet::{DATA_VALID, SHORT_BYTES};
use ccnic_frame::{Checksum, Headers, MAX_HEADERS, Meta, Refusal, Segmenter, Sum, VnetHeader, checksum};
use ccnic_shm::{NativeMemory, Pages, Region};

use crate::ports::Accepts;
use crate::ports::outside::Gathered;

/// Bytes of the longest frame: a super-packet of 64 KiB with an Ethernet header and two tags. One more shows that it was longer.
const LONGEST: u32 = (64 << 10) + 22;
const ROOM: u32 = LONGEST + 1;

/// No further frame is read into a burst of so many bytes.
const ENOUGH: u32 = 64 << 10;

/// The port's memory: headers of segments, then frames, and a page that is never written, for copies may read whole vectors.
const HEADER: u32 = MAX_HEADERS as u32;
const FRAMES: u32 = FETCH as u32 * HEADER;
const SIZE: u32 = FRAMES + ENOUGH + ROOM.next_multiple_of(64) + 4096;

/// A `virtio_net_hdr` as it is read.
pub(super) type Header = [u8; SHORT_BYTES];

/// A frame that has been read.
#[derive(Debug, Clone, Copy)]
struct Frame {
    at: u32,
    len: u32,
    /// What is requested, and so not in the frame; 0: nothing.
    meta: u64,
}

/// A super-packet that is being cut.
#[derive(Debug)]
struct Cut {
    /// Where it lies.
    at: u32,
    segmenter: Segmenter,
    /// Those that are left.
    segments: Segments,
    /// Each is a super-packet itself, of which this is requested, unless it has no more payload than one segment; `None`: each is complete.
    request: Option<Meta>,
}

impl Cut {
    /// The metadata word of a part with so many bytes of payload; `None` when it has to be complete.
    fn left_to_receivers(&self, payload: u32) -> Option<u64> {
        let meta = self.request?;
        let single = meta.segmentation().is_none_or(|cut| payload <= u32::from(cut.size));
        let checksum = Meta::default().with_l4_checksum(Checksum::Requested);
        Some(if single { checksum } else { meta }.word())
    }
}

/// What was read and not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReadCounters {
    /// The `virtio_net_hdr` contradicts the frame.
    pub(super) bad_offload: u64,
    /// Longer than any frame.
    pub(super) too_long: u64,
}

impl ReadCounters {
    pub(super) fn packets(&self) -> u64 {
        self.bad_offload + self.too_long
    }
}

/// Reads the frames of one TAP device.
#[derive(Debug)]
pub(super) struct Incoming {
    mem: NativeMemory,
    /// A frame that had no room in the burst before, or has to be alone in one.
    frame: Option<Frame>,
    /// A super-packet of which not all segments have been in a burst.
    cut: Option<Cut>,
}

impl Incoming {
    /// # Errors
    /// When there is no memory.
    pub(super) fn new() -> Result<Incoming, ccnic_shm::Error> {
        Ok(Incoming { mem: Region::create(SIZE, Pages::Small)?.memory(), frame: None, cut: None })
    }

    pub(super) fn memory(&self) -> &NativeMemory {
        &self.mem
    }

    /// True when there is something to pass on before more is read.
    pub(super) fn holds(&self) -> bool {
        self.frame.is_some() || self.cut.is_some()
    }

    /// The next burst, in the order of the frames: what has been read before, or what `read` gives until it fails. All earlier bursts
    /// have been dealt with. `read` fills in both, as one read of the device does, and returns the bytes of both; `accepts`: see
    /// [`OutsidePort::fetch`](crate::ports::OutsidePort::fetch).
    pub(super) fn gather(
        &mut self,
        counters: &mut ReadCounters,
        mut read: impl FnMut(&mut Header, &mut [u8]) -> Option<usize>,
        accepts: &dyn Fn(&[u8]) -> Accepts,
    ) -> Gathered {
        let mut burst = Gathered::new();
        if self.cut.is_some() {
            self.cut_more(&mut burst);
            return burst;
        }
        if let Some(Frame { at, len, meta }) = self.frame.take() {
            burst.push(&[(at, len)], meta);
            return burst;
        }
        let mut at = FRAMES;
        for _ in 0..FETCH {
            if burst.is_full() || at >= FRAMES + ENOUGH {
                break;
            }
            let mut header = Header::default();
            let got = self.mem.with_mut(at, ROOM, |room| read(&mut header, room));
            let Some(len) = got.map(|got| got.saturating_sub(SHORT_BYTES) as u32) else { break };
            if len > LONGEST {
                counters.too_long += 1;
                continue;
            }
            match self.prepare(header, at, len, accepts) {
                Ok(None) => {
                    if burst.is_empty() {
                        self.cut_more(&mut burst);
                    }
                    break;
                }
                Ok(Some(frame)) => {
                    let alone = frame.meta != 0;
                    if alone && !burst.is_empty() || !burst.push(&[(at, len)], frame.meta) {
                        self.frame = Some(frame);
                        break;
                    }
                    if alone {
                        break;
                    }
                }
                Err(_) => counters.bad_offload += 1,
            }
            at = (at + len).next_multiple_of(64);
        }
        burst
    }

    /// Does what the header of the frame at `at` asks for: `None` when it is to be cut from now on.
    fn prepare(
        &mut self,
        header: Header,
        at: u32,
        len: u32,
        accepts: &dyn Fn(&[u8]) -> Accepts,
    ) -> Result<Option<Frame>, Refusal> {
        let complete = Some(Frame { at, len, meta: 0 });
        let header = VnetHeader::from_bytes(&header).unwrap_or_default();
        if header.flags & !DATA_VALID == 0 && header.gso_type == 0 {
            return Ok(complete);
        }
        let Incoming { mem, cut, .. } = self;
        mem.with_mut(at, len, |frame| {
            let headers = Headers::parse(frame, frame.len());
            let offloads = header.offloads(&headers, frame.len())?;
            if let Some(partial) = offloads.partial {
                partial.fill(frame);
                return Ok(complete);
            }
            let meta = offloads.meta;
            if meta.l4_checksum() != Checksum::Requested {
                return Ok(complete);
            }
            let accepts = accepts(frame);
            let taken = accepts.takes.covers(meta);
            if taken && len <= accepts.longest {
                return Ok(Some(Frame { at, len, meta: meta.word() }));
            }
            let Some(how) = meta.segmentation() else {
                checksum::complete(meta, frame, &headers, [])?;
                return Ok(complete);
            };
            let segmenter = Segmenter::new(how, frame, &headers)?;
            let shorter = segmenter.parts(accepts.longest as usize).filter(|_| taken);
            let request = shorter.is_some().then_some(meta);
            let segments = shorter.unwrap_or_else(|| segmenter.segments());
            *cut = Some(Cut { at, segments, segmenter, request });
            Ok(None)
        })
    }

    /// Puts as many segments of the super-packet into the burst as have room.
    fn cut_more(&mut self, burst: &mut Gathered) {
        let Incoming { mem, cut, .. } = self;
        let Some(cutting) = cut else { return };
        let mut slot = 0;
        while let Some(segment) = cutting.segments.clone().next() {
            let (from, bytes) = (cutting.at + segment.payload.start as u32, segment.payload.len() as u32);
            let header = [(slot, cutting.segmenter.header_len() as u32), (from, bytes)];
            let left = cutting.left_to_receivers(bytes);
            if !burst.push(&header, left.unwrap_or(0)) {
                return;
            }
            let sum = if left.is_some() { Sum::new() } else { mem.with(from, bytes, Sum::of) };
            mem.write(slot, cutting.segmenter.header(&segment, sum));
            slot += HEADER;
            cutting.segments.next();
        }
        *cut = None;
    }
}
