//! Memory of the switch that packets are copied into before they are looked at.
//!
//! A program can change a frame that it has sent until it has been copied out of its memory, so a check of a frame there proves nothing about
//! what its receivers get. What a port's policy looks into is copied once more than other frames, here, is looked at here, and goes on
//! from here. There is room before each frame for a VLAN tag.

use crate::memory::RegionMemory;
use ccnic::nic::FETCH;
use ccnic::{Desc, SharedMemory, layout::LARGE_BUF};
use ccnic_frame::vlan::{self, TAG};
use ccnic_frame::{MAX_HEADERS, Tci};
use ccnic_shm::{NativeMemory, Pages, Region};

/// Room for the longest packet of any port, and for all that one poll takes of a program.
const SIZE: u32 = 128 << 10;

/// Before the first frame. Copies may read whole vectors behind the last one, so there is a page that is never written.
const START: u32 = 64;
const END: u32 = 4096;

/// Frames begin at lines, where they are copied fastest, with so much room before each of them at least.
const LINE: u32 = 64;

/// A frame in this memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::switch) struct Frame {
    pub(in crate::switch) at: u32,
    pub(in crate::switch) len: u32,
}

impl Frame {
    /// Its bytes as segments of at most a large buffer, as receivers expect; all of them have this metadata word.
    pub(in crate::switch) fn segments(self, meta: u64) -> impl Iterator<Item = Desc> {
        let Frame { at, len } = self;
        (0..len).step_by(LARGE_BUF as usize).map(move |done| {
            let part = LARGE_BUF.min(len - done);
            Desc::new(at + done, part as u16, 0).with_meta(meta).with_more(done + part < len)
        })
    }

    /// Its segments.
    pub(in crate::switch) fn descs(self) -> usize {
        self.len.div_ceil(LARGE_BUF) as usize
    }
}

/// The memory, and how much of it the packets of this poll take.
#[derive(Debug)]
pub(in crate::switch) struct Private {
    mem: NativeMemory,
    next: u32,
}

impl Private {
    /// # Errors
    /// When there is no memory.
    pub(in crate::switch) fn new() -> Result<Private, ccnic_shm::Error> {
        Ok(Private { mem: Region::create(START + SIZE + END, Pages::Small)?.memory(), next: START })
    }

    pub(in crate::switch) fn memory(&self) -> &NativeMemory {
        &self.mem
    }

    /// All packets have been dealt with.
    pub(in crate::switch) fn clear(&mut self) {
        self.next = START;
    }

    /// Copies a packet of so many bytes, which lies in `from`. `None` when there is no room for it before the next
    /// [`clear`](Private::clear).
    #[inline(always)]
    pub(in crate::switch) fn hold(
        &mut self,
        from: &NativeMemory,
        packet: &[Desc],
        len: u32,
    ) -> Option<Frame> {
        let frame = Frame { at: self.next, len };
        if len > START + SIZE - frame.at {
            return None;
        }
        let mut at = frame.at;
        for desc in packet {
            from.copy_to(desc.offset(), &self.mem, at, desc.len().into());
            at += u32::from(desc.len());
        }
        self.next = (at + TAG as u32).next_multiple_of(LINE).min(START + SIZE);
        Some(frame)
    }

    /// The first bytes of a frame: as many as there are room for or it has.
    #[inline(always)]
    pub(in crate::switch) fn start<'a, const N: usize>(
        &self,
        frame: Frame,
        bytes: &'a mut [u8; N],
    ) -> &'a [u8] {
        const { assert!(N <= MAX_HEADERS) };
        let bytes = bytes.get_mut(..N.min(frame.len as usize)).unwrap_or_default();
        self.mem.read(frame.at, bytes);
        bytes
    }

    /// The frame without its outer tag, if it has one with something behind it.
    pub(in crate::switch) fn strip(&self, frame: Frame) -> Frame {
        let stripped = self.mem.with_mut(frame.at, frame.len.min(LINE), vlan::strip);
        match stripped {
            Some(_) => Frame { at: frame.at + TAG as u32, len: frame.len - TAG as u32 },
            None => frame,
        }
    }
}

/// Inserts a tag into a frame that lies in such memory, before its EtherType. [`untag`] is to follow before the frame is used without it.
pub(in crate::switch) fn tag(mem: &NativeMemory, frame: Frame, tci: Tci) -> Frame {
    let tagged = Frame { at: frame.at - TAG as u32, len: frame.len + TAG as u32 };
    mem.with_mut(tagged.at, tagged.len.min(LINE), |room| vlan::insert(room, tci));
    tagged
}

/// Makes a frame that has been tagged as it was.
pub(in crate::switch) fn untag(mem: &NativeMemory, tagged: Frame) {
    mem.with_mut(tagged.at, tagged.len.min(LINE), vlan::strip);
}

/// The most segments of a frame in such memory.
const _: () = assert!((SIZE / LARGE_BUF) as usize <= FETCH);

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(mem: &NativeMemory, frame: Frame) -> Vec<u8> {
        mem.with(frame.at, frame.len, <[u8]>::to_vec)
    }

    #[test]
    fn frames_are_held_apart_and_tags_come_and_go() {
        let from = Region::create(64 << 10, Pages::Small).unwrap().memory();
        let frame: Vec<u8> = (0..120).collect();
        from.write(7, &frame[..50]);
        from.write(901, &frame[50..]);
        let chain = [Desc::new(7, 50, 0).with_more(true), Desc::new(901, 70, 0)];
        let mut private = Private::new().unwrap();
        let first = private.hold(&from, &chain, 120).unwrap();
        let second = private.hold(&from, &chain[..1], 50).unwrap();
        assert!(second.at >= first.at + 124 && second.at.is_multiple_of(LINE), "room for a tag");
        let mem = private.memory().clone();
        assert_eq!((bytes(&mem, first), bytes(&mem, second)), (frame.clone(), frame[..50].to_vec()));
        let tagged = tag(&mem, second, Tci::new(0x2007));
        assert_eq!(bytes(&mem, first), frame, "the one before it is not touched");
        assert_eq!(bytes(&mem, tagged), [&frame[..12], &[0x81, 0, 0x20, 7], &frame[12..50]].concat());
        assert_eq!(bytes(&mem, private.strip(tagged)), frame[..50]);
        untag(&mem, tag(&mem, second, Tci::new(1)));
        assert_eq!((bytes(&mem, second), private.strip(second)), (frame[..50].to_vec(), second));
        private.clear();
        assert_eq!(private.hold(&from, &chain, 120), Some(first));
    }

    #[test]
    fn the_longest_packet_has_room_and_more_than_all_has_not() {
        let from = Region::create(256 << 10, Pages::Small).unwrap().memory();
        let mut private = Private::new().unwrap();
        let packet: Vec<_> = (0..17).map(|i| Desc::new(i * 4096, 4096, 0).with_more(i < 16)).collect();
        let frame = private.hold(&from, &packet, 17 * 4096).unwrap();
        assert_eq!((frame.descs(), frame.segments(7).count()), (17, 17));
        assert!(
            frame
                .segments(7)
                .map(|desc| (desc.offset(), desc.more()))
                .eq((0..17).map(|i| (START + i * 4096, i < 16)))
        );
        assert_eq!(private.hold(&from, &packet, 17 * 4096), None);
        assert!((0..).map_while(|_| private.hold(&from, &packet[16..], 4096)).count() >= 14);
        assert_eq!(private.hold(&from, &packet[16..], 4096), None);
        let odd = Frame { at: 64, len: 4097 };
        assert_eq!(odd.segments(0).map(|desc| desc.len()).collect::<Vec<_>>(), [4096, 1]);
        assert_eq!(odd.descs(), 2);
    }
}
