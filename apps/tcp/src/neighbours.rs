//! Ethernet addresses for datagrams to peers, and what the stacks of one attachment tell each other.
//!
//! The engine resolves addresses for its own packets. For datagrams that a program sends first the stack asks by itself and learns from the
//! answers, only about addresses that were asked for. ARP and neighbour discovery arrive on one queue of several, so its stack passes them on
//! to the others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ccnic_client::Waiter;
use ccnic_frame::headers::ARP;
use ccnic_frame::{Headers, L4, Meta, checksum};

use crate::attach::random;
use crate::engine::{Micros, Output};
use crate::fragments::Idents;
use crate::local::Addresses;
use crate::secret::Secret;

const BROADCAST: [u8; 6] = [0xff; 6];
/// Between two questions for the same address.
const AGAIN: Micros = 100_000;
/// How long an answer is believed.
const LIFETIME: Micros = 60_000_000;
/// Types of ICMPv6 messages of neighbour discovery: router and neighbour solicitations and advertisements, redirects.
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;
/// Those of neighbours alone.
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Addresses that are remembered.
const MOST: usize = 4096;
/// Frames that wait for another stack, those that are about neighbours, and others, which leave room for these.
const INBOX: usize = 256;
const INBOX_OF_OTHERS: usize = 64;

#[derive(Debug)]
struct Known {
    mac: Option<[u8; 6]>,
    asked: Micros,
    learnt: Micros,
}

/// Neighbours that the program sends datagrams to.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: HashMap<IpAddr, Known>,
}

impl Neighbours {
    /// The Ethernet address of a neighbour; asks for it when it is not known, not too often.
    pub(crate) fn find(
        &mut self,
        now: Micros,
        of: IpAddr,
        (mac, from): ([u8; 6], IpAddr),
        out: &mut impl Output,
    ) -> Option<[u8; 6]> {
        if !self.known.contains_key(&of) && self.known.len() == MOST {
            self.known.retain(|_, known| known.learnt + LIFETIME > now);
        }
        if self.known.len() == MOST && !self.known.contains_key(&of) {
            return None;
        }
        let known = self.known.entry(of).or_insert(Known { mac: None, asked: 0, learnt: 0 });
        let fresh = known.learnt + LIFETIME > now;
        if let Some(mac) = known.mac.filter(|_| fresh) {
            return Some(mac);
        }
        if known.asked + AGAIN <= now || known.asked == 0 {
            known.asked = now.max(1);
            match (from, of) {
                (IpAddr::V4(from), IpAddr::V4(of)) => ask_arp(mac, from, of, out),
                (IpAddr::V6(from), IpAddr::V6(of)) => ask_neighbour(mac, from, of, out),
                _ => {}
            }
        }
        None
    }

    /// Learns from a frame of ARP or neighbour discovery, if the address was asked for.
    pub(crate) fn learn(&mut self, now: Micros, frame: &[u8], headers: &Headers) {
        let Some(mac) = frame.get(6..12).and_then(|mac| mac.first_chunk::<6>()) else { return };
        if let Some(known) = about(frame, headers).and_then(|address| self.known.get_mut(&address)) {
            (known.mac, known.learnt) = (Some(*mac), now);
        }
    }
}

/// The address of the host that has sent a frame of ARP or neighbour discovery. An advertisement is about its target, and may come from
/// another address of the same host, such as its link-local one (RFC 4861 section 7.2.4). What a router has passed on counts for nothing
/// (section 7.1).
fn about(frame: &[u8], headers: &Headers) -> Option<IpAddr> {
    let sixteen = |at: usize| frame.get(at..)?.first_chunk::<16>().map(|b| IpAddr::from(*b));
    match (headers.ether_type, frame.get(headers.l4_at)) {
        (ARP, _) => frame.get(28..)?.first_chunk::<4>().map(|b| IpAddr::from(*b)),
        _ if frame.get(headers.l3_at + 7) != Some(&255) => None,
        (_, Some(&ADVERTISEMENT)) => sixteen(headers.l4_at + 8),
        _ => sixteen(headers.l3_at + 8),
    }
}

/// True for ARP, and for neighbour discovery.
pub(crate) fn concerns(frame: &[u8], headers: &Headers) -> bool {
    let discovery = || frame.get(headers.l4_at).is_some_and(|kind| DISCOVERY.contains(kind));
    headers.ether_type == ARP || headers.l4 == L4::Icmpv6 && discovery()
}

fn ask_arp(mac: [u8; 6], from: Ipv4Addr, of: Ipv4Addr, out: &mut impl Output) {
    let parts: [&[u8]; 8] = [
        &BROADCAST,
        &mac,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], // Ethernet, IPv4, a request
        &mac,
        &from.octets(),
        &[0; 6],
        &of.octets(),
        &[],
    ];
    send(&parts, out);
}

fn ask_neighbour(mac: [u8; 6], from: Ipv6Addr, of: Ipv6Addr, out: &mut impl Output) {
    let [.., a, b, c] = of.octets();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    let parts: [&[u8]; 8] = [
        &[0x33, 0x33, 0xff, a, b, c],
        &mac,
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255], // 32 bytes of ICMPv6, which no router has passed on
        &from.octets(),
        &group.octets(),
        &[SOLICITATION, 0, 0, 0, 0, 0, 0, 0],
        &of.octets(),
        &[&[1, 1][..], &mac].concat(), // our own address
    ];
    send(&parts, out);
}

/// Tells a host that probes one of our addresses, before it takes it, that it has an owner (RFC 4862 section 5.4.3). It has none itself, so
/// all nodes are told; the engine drops what comes from no address.
pub(crate) fn defend(mac: [u8; 6], ours: &Addresses, frame: &[u8], headers: &Headers, out: &mut impl Output) {
    let probes = headers.l4 == L4::Icmpv6
        && frame.get(headers.l4_at) == Some(&SOLICITATION)
        && frame.get(headers.l3_at + 7) == Some(&255) // no router has passed it on
        && crate::udp::addresses(frame, headers).is_some_and(|(from, _)| from.is_unspecified());
    let target = frame.get(headers.l4_at + 8..headers.l4_end).and_then(|rest| rest.first_chunk::<16>());
    let Some(target) = target.filter(|target| probes && ours.contain(IpAddr::from(**target))) else { return };
    if checksum::verify_l4(frame, headers, []) != Ok(true) {
        return;
    }
    let parts: [&[u8]; 8] = [
        &[0x33, 0x33, 0, 0, 0, 1],
        &mac,
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255],
        target,
        &ALL_NODES.octets(),
        &[ADVERTISEMENT, 0, 0, 0, 0x20, 0, 0, 0], // which overrides what is known
        target,
        &[&[2, 1][..], &mac].concat(),
    ];
    send(&parts, out);
}

fn send(parts: &[&[u8]], out: &mut impl Output) {
    let len = parts.iter().map(|part| part.len()).sum();
    out.frame(len, |bytes| {
        let mut rest = &mut bytes[..];
        for part in parts {
            let (to, after) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = after;
        }
        let headers = Headers::parse(bytes, len);
        if headers.l4 == L4::Icmpv6 {
            let _ = checksum::fill_l4(bytes, &headers, []); // which ICMPv6 has
        }
        (Meta::default(), ())
    });
}

/// A stack among those of one attachment.
#[derive(Debug)]
pub(crate) struct Group {
    members: Arc<Vec<Member>>,
    own: usize,
    idents: Arc<Idents>,
}

/// What others tell a stack.
#[derive(Debug, Default)]
struct Member {
    full: AtomicBool,
    frames: Mutex<Vec<Vec<u8>>>,
    waiter: OnceLock<Waiter>,
}

impl Group {
    /// As many as there are queues.
    pub(crate) fn new(queues: usize) -> Vec<Group> {
        let members: Arc<Vec<Member>> = Arc::new((0..queues).map(|_| Member::default()).collect());
        let idents = Arc::new(Idents::new(Secret::new([random(), random()])));
        (0..queues)
            .map(|own| Group { members: Arc::clone(&members), own, idents: Arc::clone(&idents) })
            .collect()
    }

    /// Says how this stack is woken.
    pub(crate) fn wakes(&self, waiter: &Waiter) {
        if let Some(member) = self.members.get(self.own) {
            let _ = member.waiter.set(waiter.clone()); // once for each stack
        }
    }

    /// Passes a frame about neighbours on to all others.
    pub(crate) fn tell(&self, frame: &[u8]) {
        self.tell_up_to(INBOX, frame);
    }

    /// Passes a packet on to all others, which may be for one of them. Where many wait it is lost.
    pub(crate) fn pass_on(&self, frame: &[u8]) {
        self.tell_up_to(INBOX_OF_OTHERS, frame);
    }

    /// There are other stacks.
    pub(crate) fn is_of_several(&self) -> bool {
        self.members.len() > 1
    }

    /// For packets that are sent in fragments: identifications that no other stack of the host gives out.
    pub(crate) fn idents(&self) -> Arc<Idents> {
        Arc::clone(&self.idents)
    }

    fn tell_up_to(&self, most: usize, frame: &[u8]) {
        for (_, member) in self.members.iter().enumerate().filter(|(i, _)| *i != self.own) {
            let mut frames = member.frames.lock().unwrap_or_else(PoisonError::into_inner);
            if frames.len() < most {
                frames.push(frame.to_vec());
            }
            member.full.store(true, Ordering::Release);
            drop(frames);
            if let Some(waiter) = member.waiter.get() {
                let _ = waiter.wake(); // without a descriptor it naps
            }
        }
    }

    /// Whether others have told this stack something.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.members.get(self.own).is_some_and(|member| member.full.load(Ordering::Acquire))
    }

    /// What others have told this stack; usually nothing, which costs a load.
    #[inline]
    pub(crate) fn told(&self) -> Option<Vec<Vec<u8>>> {
        let member = self.members.get(self.own)?;
        if !member.full.load(Ordering::Relaxed) {
            return None;
        }
        let mut frames = member.frames.lock().unwrap_or_else(PoisonError::into_inner);
        member.full.store(false, Ordering::Relaxed);
        Some(std::mem::take(&mut *frames))
    }
}
