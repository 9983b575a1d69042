//! A host without a stack: it sends the IPv6 packets and ARP that a test writes, and shows what comes.

use ccnic_client::{Burst, Pages, QueuePair};
use ccnic_frame::{Headers, checksum};
use ccnic_tcp::Stack;

use crate::common::{Nic, until};

pub const MAC: [u8; 6] = [2, 0, 0, 0, 9, 99];

/// Types of ICMPv6.
pub const ECHO: u8 = 128;
pub const REPLY: u8 = 129;
pub const SOLICITATION: u8 = 135;
pub const ADVERTISEMENT: u8 = 136;

pub fn octets(address: &str) -> [u8; 16] {
    address.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

/// An IPv6 packet to an Ethernet address, with a hop limit of 255 and right checksums.
pub fn packet(to: [u8; 6], [source, destination]: [&str; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16).to_be_bytes();
    let mut frame = [&to[..], &MAC, &[0x86, 0xdd, 0x60, 0, 0, 0], &len, &[protocol, 255]].concat();
    frame.extend([&octets(source)[..], &octets(destination), payload].concat());
    let headers = Headers::parse(&frame, frame.len());
    checksum::fill_l4(&mut frame, &headers, []).unwrap();
    frame
}

/// A message of neighbour discovery: flags, the target, and an option with the Ethernet address of this host, if it is to have one.
pub fn discovery(kind: u8, flags: u8, target: &str, option: Option<u8>) -> Vec<u8> {
    let option = option.map(|option| [&[option, 1][..], &MAC].concat()).unwrap_or_default();
    [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &octets(target), &option].concat()
}

/// An echo request with this number.
pub fn echo(number: u8) -> Vec<u8> {
    vec![ECHO, 0, 0, 0, 0, 7, 0, number]
}

/// Source, destination and ICMPv6 message of a packet.
pub fn icmp(frame: &[u8]) -> Option<([u8; 16], [u8; 16], &[u8])> {
    let is_icmp = frame.get(12..14)? == [0x86, 0xdd] && frame.get(20) == Some(&58);
    is_icmp.then(|| (frame[22..38].try_into().unwrap(), frame[38..54].try_into().unwrap(), &frame[54..]))
}

pub struct Raw {
    pair: QueuePair,
    _program: ccnic_client::Nic,
    /// What has come since the last question.
    pub seen: Vec<Vec<u8>>,
}

impl Raw {
    pub fn new(nic: &Nic) -> Raw {
        let options = ccnic_client::Nic::options().name("raw").mac(MAC).pages(Pages::Small);
        let mut program = options.open(&nic.socket).unwrap();
        let pair = program.queue_pair(0).unwrap();
        Raw { pair, _program: program, seen: Vec::new() }
    }

    pub fn send(&mut self, frame: &[u8]) {
        let mut burst = Burst::new();
        until("a buffer", || self.pair.alloc(frame.len() as u16, 1, &mut burst) == 1);
        burst.iter_mut().for_each(|buf| assert_eq!(self.pair.write(buf, 0, frame), frame.len()));
        until("room", || self.pair.tx_burst(&mut burst) == 1);
    }

    /// The first frame that `wanted` says yes to, while these are polled; what came before it is in `seen`.
    #[track_caller]
    pub fn find(&mut self, what: &str, stacks: &mut [Stack], wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        self.seen.clear();
        let mut found = None;
        until(what, || {
            stacks.iter_mut().for_each(|stack| _ = stack.poll());
            let mut burst = Burst::new();
            self.pair.rx_burst(&mut burst, 1);
            for buf in burst.as_slice() {
                let mut frame = vec![0; usize::from(buf.len())];
                self.pair.read(buf, 0, &mut frame);
                match wanted(&frame) {
                    true => found = Some(frame),
                    false => self.seen.push(frame),
                }
            }
            self.pair.free(&mut burst);
            found.is_some()
        });
        found.unwrap()
    }

    /// Asks, and returns the first ICMPv6 message of a type that comes: its source, destination and bytes.
    #[track_caller]
    pub fn ask(&mut self, stacks: &mut [Stack], frame: &[u8], kind: u8) -> ([u8; 16], [u8; 16], Vec<u8>) {
        self.send(frame);
        let answer =
            self.find("an answer", stacks, |frame| icmp(frame).is_some_and(|(.., icmp)| icmp[0] == kind));
        let (from, to, icmp) = icmp(&answer).unwrap();
        (from, to, icmp.to_vec())
    }
}
