//! A program with a MAC address: it sends numbered frames, and checks every byte of those that it receives.

use std::collections::BTreeMap;
use std::path::Path;

use ccnic::{Burst, Config};
use ccnic_check::oracle;
use ccnic_client::{Nic, Pages, QueuePair};

use super::{Daemon, until};

/// Bytes before a frame's number: two addresses and a type. The number has eight more.
const HEADER: usize = 14;
/// The shortest frame.
pub const SHORTEST: usize = HEADER + 8;

pub const BROADCAST: [u8; 6] = [0xff; 6];
pub const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 9];

/// The address of station `n`.
pub fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, n]
}

/// A frame that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    pub to: [u8; 6],
    pub from: [u8; 6],
    pub number: u64,
    pub len: usize,
}

/// An attached program. Its frames are numbered from 0, over all destinations.
pub struct Station {
    pub nic: Nic,
    pub pairs: Vec<QueuePair>,
    pub mac: [u8; 6],
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// By source and destination address: the next number that may come.
    next: BTreeMap<([u8; 6], [u8; 6]), u64>,
    bytes: Vec<u8>,
}

impl Station {
    /// Attaches station `n`, with posted receive buffers where it is to post them.
    #[track_caller]
    pub fn open(socket: &Path, n: u8, config: &Config) -> Station {
        let name = format!("station {n}");
        let mut nic = Nic::options().name(&name).config(config).pages(Pages::Small).open(socket).unwrap();
        let pairs = (0..config.queues).map(|queue| nic.queue_pair(queue).unwrap()).collect();
        let mut this = Station {
            nic,
            pairs,
            mac: mac(n),
            sent: 0,
            received: 0,
            next: BTreeMap::new(),
            bytes: Vec::new(),
        };
        this.receive();
        this
    }

    /// Sends a frame on the first queue; false when there is no room.
    pub fn send(&mut self, to: [u8; 6], len: usize) -> bool {
        self.send_as(to, self.mac, len)
    }

    /// As `send`, from another address.
    pub fn send_as(&mut self, to: [u8; 6], from: [u8; 6], len: usize) -> bool {
        let len = len.max(SHORTEST);
        self.bytes.resize(len, 0);
        oracle::fill(self.sent, 0, &mut self.bytes);
        let header = [&to[..], &from, &[0x88, 0xb5], &self.sent.to_le_bytes()].concat();
        self.bytes[..SHORTEST].copy_from_slice(&header);
        let (mut burst, pair) = (Burst::new(), &mut self.pairs[0]);
        pair.alloc(len as u16, len.div_ceil(4096), &mut burst);
        let mut rest = &self.bytes[..];
        for buf in burst.iter_mut() {
            let n = pair.write(buf, 0, rest);
            rest = &rest[n..];
        }
        let sent = !burst.is_empty() && pair.tx_burst(&mut burst) > 0;
        pair.free(&mut burst);
        self.sent += u64::from(sent);
        sent
    }

    /// The frames that can be received now, on all queues; each is whole, as it was sent, and in its place.
    #[track_caller]
    pub fn receive(&mut self) -> Vec<Came> {
        (0..self.pairs.len()).flat_map(|queue| self.receive_on(queue)).collect()
    }

    /// As `receive`, on one queue.
    #[track_caller]
    pub fn receive_on(&mut self, queue: usize) -> Vec<Came> {
        let (mut burst, mut came, mut frame) = (Burst::new(), Vec::new(), Vec::new());
        self.pairs[queue].rx_burst(&mut burst, 32);
        for buf in burst.as_slice() {
            self.pairs[queue].with(buf, |bytes| frame.extend_from_slice(bytes));
            if !buf.more() {
                came.push(self.check(&frame));
                frame.clear();
            }
        }
        assert!(frame.is_empty(), "a frame without its end");
        self.pairs[queue].free(&mut burst);
        self.received += came.len() as u64;
        came
    }

    /// Another program has this address from now on: its frames' numbers begin anew.
    pub fn forget(&mut self, mac: [u8; 6]) {
        self.next.retain(|(from, _), _| *from != mac);
    }

    #[track_caller]
    fn check(&mut self, frame: &[u8]) -> Came {
        let address = |at: usize| <[u8; 6]>::try_from(&frame[at..at + 6]).unwrap();
        let number = u64::from_le_bytes(frame[HEADER..SHORTEST].try_into().unwrap());
        let came = Came { to: address(0), from: address(6), number, len: frame.len() };
        self.bytes.resize(frame.len(), 0);
        oracle::fill(number, 0, &mut self.bytes);
        assert!(self.bytes[SHORTEST..] == frame[SHORTEST..], "{came:?}: not what was sent");
        let next = self.next.entry((came.from, came.to)).or_default();
        assert!(number >= *next, "{came:?} after {}: twice, or out of order", *next - 1);
        *next = number + 1;
        came
    }
}

/// A frame to all: those in `to` get it, and nobody else.
#[track_caller]
pub fn reach(daemon: &mut Daemon, stations: &mut [Station], from: usize, to: &[usize]) {
    assert!(stations[from].send(BROADCAST, 100));
    let (name, sent) = (format!("station {from}"), stations[from].sent);
    until("the frame to be dealt with", || daemon.program(&name).unwrap().queues[0].tx_packets == sent);
    for (at, station) in stations.iter_mut().enumerate() {
        let mut came = 0;
        until("the frame", || {
            came += station.receive().len();
            came > 0 || !to.contains(&at)
        });
        assert_eq!(came, usize::from(to.contains(&at)), "at {at}");
    }
}
