//! Packets that are being put together.
//!
//! Whoever sends fragments decides what is kept here, so all of it is bounded: bytes, packets, fragments of a packet, time. When there is no
//! room, the source that has most makes it: the oldest packet of that goes. So others find room beside a host that fills it.
//!
//! * Fragments that overlap are no packet's, of either version (RFC 5722, RFC 8200 section 4.5): the packet is dropped, and what comes of it
//!   until its time is over. So is one whose last fragment is at odds with others. A fragment that has come before, byte for byte, is
//!   ignored.
//! * The time is over 30 s after the first fragment has come, 60 s over IPv6. It is looked at when fragments come, and when the stack has heard
//!   nothing for a while; there is no timer.
//! * Memory is taken when fragments come, and given back when their packet is whole or goes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use super::piece::{Key, Piece, whole};
use crate::engine::{Micros, NEVER};

/// Bytes that are kept, with what the tables take.
pub(crate) const BYTES: usize = 1 << 20;
/// Packets, those that were dropped and whose time is not over, too.
pub(crate) const PACKETS: usize = 256;
/// Fragments of a packet: over a link with the least MTU of IPv4 that is in use, 576, the longest packet has 119.
pub(crate) const PIECES: usize = 256;
/// How long a packet may take.
pub(crate) const LIFETIME_V4: Micros = 30_000_000;
pub(crate) const LIFETIME_V6: Micros = 60_000_000;
/// What is counted for a packet and for each of its fragments beside their bytes: entries of tables, and what an allocator adds.
const PER_PACKET: usize = 512;
const PER_PIECE: usize = 64;

/// What has come of a packet.
#[derive(Debug)]
struct Packet {
    /// A number that goes up from packet to packet.
    serial: u64,
    expires: Micros,
    /// The headers, once the first fragment has come.
    head: Box<[u8]>,
    /// The data, each with where it belongs: in order, without overlaps.
    pieces: Vec<(usize, Box<[u8]>)>,
    /// Bytes of data that have come, and where the last fragment ends.
    got: usize,
    end: Option<usize>,
    /// It was dropped: nothing of it is taken any more.
    dropped: bool,
    /// Bytes that are counted for it.
    charged: usize,
}

/// What becomes of a fragment.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// It is the next of `pieces` at this place.
    At(usize),
    /// It has come before.
    Again,
    /// It overlaps another one, or they disagree about the end.
    AtOdds,
}

impl Packet {
    fn place(&self, piece: &Piece<'_>) -> Place {
        let end = piece.at + piece.data.len();
        let place = self.pieces.partition_point(|(at, _)| *at < piece.at);
        if let Some((at, data)) = self.pieces.get(place)
            && *at == piece.at
            && **data == *piece.data
            && piece.more == (self.end != Some(end))
        {
            return Place::Again;
        }
        let behind = |(at, data): &(usize, Box<[u8]>)| at + data.len();
        let before = place.checked_sub(1).and_then(|before| self.pieces.get(before)).map_or(0, behind);
        let after = self.pieces.get(place).map_or(usize::MAX, |(at, _)| *at);
        let ends = match (piece.more, self.end) {
            (true, known) => known.is_none_or(|known| end < known),
            (false, known) => known.is_none_or(|known| end == known) && after == usize::MAX,
        };
        if before <= piece.at && end <= after && ends && self.pieces.len() < PIECES {
            Place::At(place)
        } else {
            Place::AtOdds
        }
    }
}

/// What the packets of one source take.
#[derive(Debug, Default)]
struct Share {
    packets: usize,
    bytes: usize,
    /// The number of the packet that has begun last.
    newest: u64,
}

/// What has been counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets that became whole.
    pub(crate) whole: u64,
    /// Packets whose time was over.
    pub(crate) expired: u64,
    /// Fragments that were at odds with others, or for which there was no room.
    pub(crate) dropped: u64,
}

/// The packets of a stack that are being put together.
#[derive(Debug)]
pub(crate) struct Reassembly {
    packets: HashMap<Key, Packet>,
    shares: HashMap<IpAddr, Share>,
    bytes: usize,
    begun: u64,
    /// No packet's time is over before.
    next: Micros,
    pub(crate) counts: Counts,
}

impl Default for Reassembly {
    fn default() -> Reassembly {
        let (packets, shares) = (HashMap::new(), HashMap::new());
        Reassembly { packets, shares, bytes: 0, begun: 0, next: NEVER, counts: Counts::default() }
    }
}

impl Reassembly {
    /// A fragment has come; returns the frame of the packet that is whole now.
    pub(crate) fn take(&mut self, now: Micros, piece: &Piece<'_>) -> Option<Vec<u8>> {
        if piece.is_whole() {
            // Others of this identification are another packet's (RFC 6946 section 4).
            let frame = whole(&piece.head(), std::iter::once(piece.data), piece.data.len());
            self.counts.whole += u64::from(frame.is_some());
            return frame;
        }
        self.expire(now);
        let new = usize::from(!self.packets.contains_key(&piece.key));
        self.make_room(new, new * PER_PACKET + PER_PIECE + piece.data.len());
        let packet = self.packet(now, piece.key);
        let place = if packet.dropped { Place::AtOdds } else { packet.place(piece) };
        match place {
            Place::Again => None,
            Place::AtOdds => {
                self.spoil(piece.key);
                None
            }
            Place::At(place) => self.add(piece, place),
        }
    }

    /// The packet of a fragment, which may be a new one.
    fn packet(&mut self, now: Micros, key: Key) -> &mut Packet {
        let Reassembly { packets, shares, bytes, begun, next, .. } = self;
        packets.entry(key).or_insert_with(|| {
            let expires = now.saturating_add(if key.from.is_ipv4() { LIFETIME_V4 } else { LIFETIME_V6 });
            (*begun, *next, *bytes) = (*begun + 1, expires.min(*next), *bytes + PER_PACKET);
            let share = shares.entry(key.from).or_default();
            (share.packets, share.bytes, share.newest) =
                (share.packets + 1, share.bytes + PER_PACKET, *begun);
            Packet {
                serial: *begun,
                expires,
                head: Box::default(),
                pieces: Vec::new(),
                got: 0,
                end: None,
                dropped: false,
                charged: PER_PACKET,
            }
        })
    }

    /// Keeps a fragment's data; returns the packet if it is whole.
    fn add(&mut self, piece: &Piece<'_>, place: usize) -> Option<Vec<u8>> {
        let packet = self.packets.get_mut(&piece.key)?;
        packet.pieces.insert(place, (piece.at, piece.data.into()));
        packet.got += piece.data.len();
        if piece.at == 0 {
            packet.head = piece.head();
        }
        if !piece.more {
            packet.end = Some(piece.at + piece.data.len());
        }
        let charge = PER_PIECE + piece.data.len();
        packet.charged += charge;
        self.bytes += charge;
        if let Some(share) = self.shares.get_mut(&piece.key.from) {
            share.bytes += charge;
        }
        if packet.end != Some(packet.got) {
            return None;
        }
        let packet = self.remove(&piece.key)?;
        let frame = whole(&packet.head, packet.pieces.iter().map(|(_, data)| &**data), packet.got);
        match frame {
            Some(_) => self.counts.whole += 1,
            None => self.counts.dropped += packet.pieces.len() as u64, // with the first one's headers it is too long
        }
        frame
    }

    /// Drops what has come of a packet, and the fragment that has just come; remembers that.
    fn spoil(&mut self, key: Key) {
        self.counts.dropped += 1;
        let Some(packet) = self.packets.get_mut(&key) else { return };
        packet.dropped = true;
        self.counts.dropped += packet.pieces.len() as u64;
        (packet.pieces, packet.head) = (Vec::new(), Box::default());
        let freed = packet.charged - PER_PACKET;
        packet.charged = PER_PACKET;
        self.bytes -= freed;
        if let Some(share) = self.shares.get_mut(&key.from) {
            share.bytes -= freed;
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Packet> {
        let packet = self.packets.remove(key)?;
        self.bytes -= packet.charged;
        if let Some(share) = self.shares.get_mut(&key.from) {
            share.packets -= 1;
            share.bytes -= packet.charged;
            if share.packets == 0 {
                self.shares.remove(&key.from);
            }
        }
        Some(packet)
    }

    /// Makes room for so many more packets and bytes. (Where the fragment's own packet goes, that is room for the one that it begins then.)
    fn make_room(&mut self, packets: usize, bytes: usize) {
        loop {
            let of_bytes = self.bytes + bytes > BYTES;
            if !of_bytes && self.packets.len() + packets <= PACKETS {
                return;
            }
            let most = |(_, share): &(&IpAddr, &Share)| {
                (if of_bytes { share.bytes } else { share.packets }, Reverse(share.newest))
            };
            let Some(source) = self.shares.iter().max_by_key(most).map(|(source, _)| *source) else { return };
            let of_source = self.packets.iter().filter(|(key, _)| key.from == source);
            let Some(oldest) = of_source.min_by_key(|(_, packet)| packet.serial).map(|(key, _)| *key) else {
                return;
            };
            let gone = self.remove(&oldest);
            self.counts.dropped += gone.map_or(0, |packet| packet.pieces.len() as u64);
        }
    }

    /// Drops the packets whose time is over.
    pub(crate) fn expire(&mut self, now: Micros) {
        if now < self.next {
            return;
        }
        let over = self.packets.iter().filter(|(_, packet)| packet.expires <= now);
        let over: Vec<Key> = over.map(|(key, _)| *key).collect();
        for key in over {
            let packet = self.remove(&key);
            self.counts.expired += u64::from(packet.is_some_and(|packet| !packet.dropped));
        }
        self.next = self.packets.values().map(|packet| packet.expires).min().unwrap_or(NEVER);
        if self.packets.is_empty() {
            (self.packets, self.shares) = (HashMap::new(), HashMap::new()); // their memory, too
        }
    }

    /// Packets and bytes that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.packets.len(), self.bytes)
    }
}
