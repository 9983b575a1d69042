//! Flows of packets over a program's queues, with an oracle: each packet comes to the queue that a table in force since it was sent
//! says, in its flow's order.

use std::collections::HashMap;
use std::path::Path;

use ccnic::rss::{HASHED, Rss, Spreader};
use ccnic::{Burst, Config, Design};
use ccnic_client::{Nic, Pages, QueuePair};
use ccnic_control::messages::QueueStatus;

use super::{Daemon, Random, config, seed, until};

/// Queues of the program.
pub const QUEUES: u16 = 4;
/// Flows; each is always sent on one queue.
pub const FLOWS: u32 = 40;
/// Packets under way at most: no ring is ever full.
pub const WINDOW: u64 = 60;
/// Bytes of a packet.
pub const LEN: u16 = 90;

/// A UDP packet of a flow. Behind the headers: the flow, its number in the flow, the table that was in force.
pub fn packet(flow: u32, number: u64, table: u64) -> Vec<u8> {
    let mut bytes = vec![0; LEN.into()];
    bytes[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 76, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes[26..30].copy_from_slice(&flow.wrapping_mul(0x9e37_79b9).to_be_bytes());
    bytes[34..38].copy_from_slice(&(flow * 7 + 5000).to_be_bytes());
    bytes[42..46].copy_from_slice(&flow.to_le_bytes());
    bytes[46..54].copy_from_slice(&number.to_le_bytes());
    bytes[54..62].copy_from_slice(&table.to_le_bytes());
    bytes
}

/// A program with several queues, and what it has seen. Each flow is always sent on one queue.
pub struct Traffic {
    /// The attachment.
    pub program: Nic,
    /// Its queue pairs.
    pub pairs: Vec<QueuePair>,
    /// What was in force, in the order in which it came; `None`: back on the same queue.
    pub tables: Vec<Option<Spreader>>,
    sent: HashMap<u32, u64>,
    /// By flow and receive queue: the next number that may come.
    next: HashMap<(u32, u16), u64>,
    /// Where chance comes from.
    pub random: Random,
    /// Packets sent.
    pub total: u64,
    /// Packets received.
    pub received: u64,
    /// By receive queue.
    pub counts: [u64; QUEUES as usize],
}

impl Traffic {
    pub fn new(socket: &Path, design: Design) -> Traffic {
        // A host that manages its buffers posts those of a queue in batches: enough for all that is under way.
        let config = Config { queues: QUEUES, buffers: 2048, ..config(design) };
        let mut program =
            Nic::options().name("spread").config(&config).pages(Pages::Small).open(socket).unwrap();
        let pairs = (0..QUEUES).map(|q| program.queue_pair(q).unwrap()).collect();
        Traffic {
            program,
            pairs,
            tables: vec![None],
            sent: HashMap::new(),
            next: HashMap::new(),
            random: Random::new(seed()),
            total: 0,
            received: 0,
            counts: [0; QUEUES as usize],
        }
    }

    /// Another table, under load: what was sent before may come by the old one.
    pub fn set(&mut self, rss: Option<Rss>) {
        self.program.set_rss(rss.as_ref()).unwrap();
        assert_eq!(self.program.rss(), rss.as_ref());
        self.tables.push(rss.map(Spreader::new));
    }

    pub fn send(&mut self) {
        let flow = self.random.below(FLOWS.into()) as u32;
        let pair = &mut self.pairs[(flow % u32::from(QUEUES)) as usize];
        let number = self.sent.entry(flow).or_default();
        let mut burst = Burst::new();
        if pair.alloc(LEN, 1, &mut burst) == 0 {
            return;
        }
        let bytes = packet(flow, *number, self.tables.len() as u64 - 1);
        assert_eq!(pair.write(burst.iter_mut().next().unwrap(), 0, &bytes), bytes.len());
        if pair.tx_burst(&mut burst) == 0 {
            return pair.free(&mut burst);
        }
        *number += 1;
        self.total += 1;
    }

    pub fn turn(&mut self) {
        if self.total.saturating_sub(self.received) < WINDOW {
            self.send();
        }
        (0..QUEUES).for_each(|queue| self.receive(queue));
    }

    #[track_caller]
    pub fn receive(&mut self, queue: u16) {
        let mut burst = Burst::new();
        let pair = &mut self.pairs[usize::from(queue)];
        pair.rx_burst(&mut burst, 32);
        let packets: Vec<_> =
            burst.as_slice().iter().map(|buf| (buf.meta(), pair.with(buf, <[u8]>::to_vec))).collect();
        pair.free(&mut burst);
        for (meta, bytes) in packets {
            self.arrived(queue, meta, &bytes);
        }
    }

    #[track_caller]
    pub fn arrived(&mut self, queue: u16, meta: u64, bytes: &[u8]) {
        let flow = u32::from_le_bytes(bytes[42..46].try_into().unwrap());
        let [number, table] = [46, 54].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
        assert_eq!(bytes, packet(flow, number, table));
        let may = |by: &Option<Spreader>| match by {
            None => (meta, queue) == (0, (flow % u32::from(QUEUES)) as u16),
            Some(by) => {
                let hash = by.hash(bytes);
                let hashed = if by.rss().hash { HASHED | u64::from(hash.unwrap()) } else { 0 };
                (meta, queue) == (hashed, by.queue(hash))
            }
        };
        let tables = &self.tables[table as usize..];
        assert!(
            tables.iter().any(may),
            "flow {flow}, packet {number} of table {table} came to queue {queue}"
        );
        let next = self.next.entry((flow, queue)).or_default();
        assert!(number >= *next, "flow {flow}: packet {number} on queue {queue} after {}", *next - 1);
        *next = number + 1;
        self.received += 1;
        self.counts[usize::from(queue)] += 1;
    }

    #[track_caller]
    pub fn exchange(&mut self, packets: u64) {
        let goal = self.received + packets;
        until("packets that come back", || {
            self.turn();
            self.received >= goal
        });
    }

    /// Until all that was sent has come.
    #[track_caller]
    pub fn drain(&mut self) {
        until("the last packets", || {
            (0..QUEUES).for_each(|queue| self.receive(queue));
            self.total == self.received
        });
    }

    /// Until nothing is under way. Packets that a dead daemon had in its hands do not come.
    #[track_caller]
    pub fn settle(&mut self, daemon: &mut Daemon) {
        until("nothing under way", || {
            let queues = daemon.program("spread").unwrap().queues;
            let sum = |of: fn(&QueueStatus) -> u64| queues.iter().map(of).sum::<u64>();
            // Queues are counted one after the other: what moves meanwhile may be among the received only.
            let under_way = sum(|q| q.tx_packets).abs_diff(sum(|q| q.rx_packets));
            let waiting: usize = self.pairs.iter().map(|pair| pair.tx_waiting()).sum();
            (0..QUEUES).for_each(|queue| self.receive(queue));
            let ready: usize = self.pairs.iter().map(|pair| pair.rx_ready()).sum();
            (under_way, waiting, ready) == (0, 0, 0)
        });
        self.total = self.received;
    }

    /// A table that sends nothing to some queues, or all to one.
    pub fn any_table(&mut self) -> Rss {
        let queues = 1 + self.random.below(QUEUES.into()) as u16;
        let mut rss = Rss { hash: self.random.below(2) == 1, ..Rss::new(queues) };
        rss.table.rotate_left(self.random.below(128) as usize);
        rss.key.rotate_left(self.random.below(40) as usize);
        rss
    }
}
