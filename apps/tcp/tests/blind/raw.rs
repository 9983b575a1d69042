//! A host without a TCP of its own: it sends the segments that a test writes, from whatever address, and shows what comes back.

use std::collections::VecDeque;

use ccnic_client::{Burst, Pages, QueuePair};
use ccnic_frame::{Headers, checksum};
use ccnic_tcp::{Conn, Listener, Stack};

use crate::common::{Nic, until};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;

pub const SERVER: [u8; 4] = [10, 9, 0, 1];
pub const PEER: [u8; 4] = [10, 9, 0, 99];
/// The server's port.
pub const PORT: u16 = 7;
const MAC: [u8; 6] = [2, 0, 0, 0, 9, 99];

/// A segment to the server, or from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The other end than the server's.
    pub peer: [u8; 4],
    pub port: u16,
    /// The server's.
    pub to: u16,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub options: Vec<u8>,
    pub data: Vec<u8>,
}

impl Segment {
    pub fn new(port: u16, flags: u8, seq: u32, ack: u32) -> Segment {
        Segment {
            peer: PEER,
            port,
            to: PORT,
            flags,
            seq,
            ack,
            window: 60_000,
            options: Vec::new(),
            data: Vec::new(),
        }
    }

    pub fn data(mut self, data: &[u8]) -> Segment {
        self.data = data.to_vec();
        self
    }

    pub fn from(mut self, peer: [u8; 4]) -> Segment {
        self.peer = peer;
        self
    }

    /// With a largest segment of so many bytes.
    pub fn size(mut self, size: u16) -> Segment {
        self.options = [&[2, 4][..], &size.to_be_bytes()].concat();
        self
    }

    pub fn frame(&self, to: [u8; 6]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut tcp = [&self.port.to_be_bytes()[..], &self.to.to_be_bytes()].concat();
        tcp.extend([self.seq.to_be_bytes(), self.ack.to_be_bytes()].concat());
        tcp.extend([(header as u8 / 4) << 4, self.flags]);
        tcp.extend([self.window.to_be_bytes(), [0; 2], [0; 2]].concat());
        tcp.extend([&self.options[..], &self.data].concat());
        ip(to, self.peer, 6, &tcp)
    }

    pub fn parse(frame: &[u8]) -> Option<Segment> {
        let headers = Headers::parse(frame, frame.len());
        if frame.get(12..14)? != [8, 0] || frame.get(23) != Some(&6) || frame[26..30] != SERVER {
            return None;
        }
        let tcp = &frame[headers.l4_at..headers.l4_end];
        let short = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let long = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        let header = usize::from(tcp[12] >> 4) * 4;
        Some(Segment {
            peer: frame[30..34].try_into().unwrap(),
            port: short(2),
            to: short(0),
            flags: tcp[13],
            seq: long(4),
            ack: long(8),
            window: short(14),
            options: tcp[20..header].to_vec(),
            data: tcp[header..].to_vec(),
        })
    }
}

/// An IPv4 packet to the server with right checksums.
pub fn ip(to: [u8; 6], from: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut frame = [&to[..], &MAC, &[8, 0, 0x45, 0], &len.to_be_bytes()].concat();
    frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend([&from[..], &SERVER, payload].concat());
    let headers = Headers::parse(&frame, frame.len());
    checksum::fill_ipv4(&mut frame, &headers).unwrap();
    if protocol == 6 {
        checksum::fill_l4(&mut frame, &headers, []).unwrap();
    }
    frame
}

/// An ICMP message with its checksum.
pub fn icmp(kind: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &rest, data].concat();
    let words = message.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let sum = words.fold(0, |sum: u32, word| (sum + word) % 0xffff);
    let sum = !(sum as u16);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// A server, and the raw host beside it on a switch.
pub struct Raw {
    pub server: Stack,
    pair: QueuePair,
    _program: ccnic_client::Nic,
    pings: u16,
    /// Frames that were sent since the last ping: more than the server's ring has places for would be lost.
    unsettled: usize,
    /// ARP requests that have come.
    pub questions: usize,
    /// Errors of ICMP that have come.
    pub errors: Vec<Vec<u8>>,
    /// Segments that have come and were not asked for yet.
    inbox: VecDeque<Segment>,
}

impl Raw {
    /// `server` must have the address [`SERVER`].
    pub fn new(nic: &Nic, server: Stack) -> Raw {
        let mut options = ccnic_client::Nic::options().name("raw").pages(Pages::Small);
        let config = ccnic_client::Config { ring: 1024, buffers: 4096, ..ccnic_client::Config::default() };
        options = options.config(&config);
        let mut program = options.open(&nic.socket).unwrap();
        let pair = program.queue_pair(0).unwrap();
        Raw {
            server,
            pair,
            _program: program,
            pings: 0,
            unsettled: 0,
            questions: 0,
            errors: Vec::new(),
            inbox: VecDeque::new(),
        }
    }

    pub fn send_frame(&mut self, frame: &[u8]) {
        let mut burst = Burst::new();
        until("a buffer", || self.pair.alloc(frame.len() as u16, 1, &mut burst) == 1);
        burst.iter_mut().for_each(|buf| assert_eq!(self.pair.write(buf, 0, frame), frame.len()));
        until("room", || {
            self.server.poll();
            self.pair.tx_burst(&mut burst) == 1
        });
        self.unsettled += 1;
        if self.unsettled == 128 {
            self.settle();
        }
    }

    pub fn send(&mut self, segment: &Segment) {
        let frame = segment.frame(self.server.mac());
        self.send_frame(&frame);
    }

    /// An IPv4 packet of a protocol.
    pub fn send_ip(&mut self, from: [u8; 4], protocol: u8, payload: &[u8]) {
        let frame = ip(self.server.mac(), from, protocol, payload);
        self.send_frame(&frame);
    }

    /// An ARP request for the server's address that says who has another one.
    pub fn send_arp(&mut self, from: [u8; 4], mac: [u8; 6]) {
        let head = [&[0xff; 6][..], &MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        self.send_frame(&[&head[..], &mac, &from, &[0; 6], &SERVER].concat());
    }

    /// Receives; true when the answer to this ping has come.
    fn receive(&mut self, ping: u16) -> bool {
        let (mut burst, mut answered) = (Burst::new(), false);
        self.pair.rx_burst(&mut burst, 32);
        for buf in burst.as_slice() {
            let mut frame = vec![0; usize::from(buf.len())];
            self.pair.read(buf, 0, &mut frame);
            if frame[12..14] == [8, 6] && frame[20..22] == [0, 1] {
                self.questions += 1;
            }
            if let Some(segment) = Segment::parse(&frame).filter(|_| frame[..6] == MAC) {
                self.inbox.push_back(segment);
            }
            if frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] == 3 {
                self.errors.push(frame.clone());
            }
            answered |= frame[12..14] == [8, 0]
                && frame[23] == 1
                && frame[34] == 0
                && frame[40..42] == ping.to_be_bytes();
        }
        self.pair.free(&mut burst);
        answered
    }

    /// Waits until the server has had all that was sent, and has sent what it has to send now: the answers to two pings have come behind it.
    pub fn settle(&mut self) {
        self.unsettled = 0;
        for _ in 0..2 {
            self.pings = self.pings.wrapping_add(1);
            let ping = self.pings;
            let [a, b] = ping.to_be_bytes();
            self.send_ip(PEER, 1, &icmp(8, 0, [0, 7, a, b], b"are you there"));
            until("the answer to a ping", || {
                self.server.poll();
                self.receive(ping)
            });
        }
    }

    /// The server's answers to these segments, now.
    pub fn answers(&mut self, segments: &[Segment]) -> Vec<Segment> {
        segments.iter().for_each(|segment| self.send(segment));
        self.settle();
        self.inbox.drain(..).collect()
    }

    /// The only answer to a segment.
    #[track_caller]
    pub fn answer(&mut self, segment: &Segment) -> Segment {
        let mut answers = self.answers(std::slice::from_ref(segment));
        assert_eq!(answers.len(), 1, "{answers:#?} to {segment:?}");
        answers.remove(0)
    }

    /// Opens a connection from a port; returns it, and the next sequence numbers of both sides.
    #[track_caller]
    pub fn open(&mut self, listener: Listener, port: u16) -> (Conn, u32, u32) {
        let first = 1_000_000 + u32::from(port);
        let answer = self.answer(&Segment::new(port, SYN, first, 0).size(1460));
        assert_eq!((answer.flags, answer.ack), (SYN | ACK, first + 1));
        let (seq, ack) = (first + 1, answer.seq.wrapping_add(1));
        assert_eq!(self.answers(&[Segment::new(port, ACK, seq, ack)]), []);
        (self.server.accept(listener).unwrap(), seq, ack)
    }
}
