//! A flow of numbered packets through one queue pair, with an oracle: none twice, none torn, none out of order, and none
//! missing but what a death accounts for.

use ccnic::Burst;
use ccnic_check::oracle;
use ccnic_client::QueuePair;

/// What a NIC may have had in its hands when it died: the burst it delivered and the one it had fetched ahead.
pub const IN_HAND: u64 = 64;

/// Packets of one size in a row.
const ROW: u64 = 32;

/// Packets going out and coming back. The number says the size and every byte.
pub struct Flow {
    /// The queue pair.
    pub pair: QueuePair,
    /// Packets that came back whole.
    pub received: u64,
    /// Packets that deaths accounted for.
    pub lost: u64,
    sizes: Vec<u16>,
    window: u64,
    /// Filled and not yet taken by the ring.
    out: Burst,
    sent: u64,
    expected: u64,
    /// Packets before this one may be missing, `may_lose` of them.
    doomed: u64,
    may_lose: u64,
    bytes: Vec<u8>,
}

impl Flow {
    /// Packets of `sizes` in turn, `window` of them under way.
    pub fn new(pair: QueuePair, sizes: &[u16], window: u64) -> Flow {
        Flow {
            pair,
            received: 0,
            lost: 0,
            sizes: sizes.to_vec(),
            window,
            out: Burst::new(),
            sent: 0,
            expected: 0,
            doomed: 0,
            may_lose: 0,
            bytes: Vec::new(),
        }
    }

    fn size(&self, number: u64) -> u16 {
        self.sizes[(number / ROW) as usize % self.sizes.len()]
    }

    /// Packets sent and not back.
    pub fn under_way(&self) -> u64 {
        self.sent - self.expected
    }

    /// The NIC died: up to [`IN_HAND`] of the packets under way may be missing.
    pub fn nic_died(&mut self) {
        assert!(self.expected >= self.doomed, "two deaths without a packet between them");
        (self.doomed, self.may_lose) = (self.sent, IN_HAND);
    }

    /// True when a packet has come back that was sent after the last death.
    pub fn recovered(&self) -> bool {
        self.expected > self.doomed || self.may_lose == 0
    }

    /// Sends if the window has room, receives what is there.
    #[track_caller]
    pub fn turn(&mut self) {
        self.send();
        self.receive();
    }

    /// Receives what is under way, sends nothing more. Not before [`recovered`](Flow::recovered): when the last packets are
    /// the missing ones, nobody comes after them to say so.
    #[track_caller]
    pub fn drain(&mut self) {
        while !self.out.is_empty() {
            self.pair.tx_burst(&mut self.out);
            self.receive();
        }
        super::until("the last packets", || {
            self.receive();
            self.under_way() == 0
        });
    }

    /// Until `packets` more have come back.
    #[track_caller]
    pub fn exchange(&mut self, packets: u64) {
        let goal = self.received + packets;
        super::until("packets that come back", || {
            self.turn();
            self.received >= goal
        });
    }

    fn send(&mut self) {
        if self.out.is_empty() {
            // After a death the missing ones count as under way until one behind them comes.
            let window = self.window + if self.recovered() { 0 } else { self.may_lose };
            let room = window.saturating_sub(self.under_way()).min(ROW - self.sent % ROW);
            let size = self.size(self.sent);
            let segments = usize::from(size).div_ceil(4096);
            let got = (self.pair.alloc(size, room as usize * segments, &mut self.out) / segments) as u64;
            let (mut at, first) = (0, self.sent);
            for buf in self.out.iter_mut() {
                let number = self.sent;
                buf.set_meta(number);
                self.bytes.resize(buf.len().into(), 0);
                oracle::fill(number, at, &mut self.bytes);
                assert_eq!(self.pair.write(buf, 0, &self.bytes), self.bytes.len());
                at += self.bytes.len();
                if !buf.more() {
                    assert_eq!(at, usize::from(size), "a packet as long as asked for");
                    (at, self.sent) = (0, self.sent + 1);
                }
            }
            assert_eq!((at, self.sent), (0, first + got), "whole packets");
        }
        self.pair.tx_burst(&mut self.out);
    }

    #[track_caller]
    fn receive(&mut self) {
        let mut burst = Burst::new();
        self.pair.rx_burst(&mut burst, 32);
        let mut at = 0;
        for buf in burst.as_slice() {
            if at == 0 {
                self.arrived(buf.meta());
            }
            let number = self.expected - 1;
            self.bytes.resize(buf.len().into(), 0);
            oracle::fill(number, at, &mut self.bytes);
            let same = self.pair.with(buf, |found| found == self.bytes);
            assert!(same, "packet {number}, segment at {at}: {:?}: not what was sent", buf.desc());
            at += self.bytes.len();
            if !buf.more() {
                assert_eq!(at, usize::from(self.size(number)), "packet {number}: bytes");
                (at, self.received) = (0, self.received + 1);
            }
        }
        assert_eq!(at, 0, "a packet without its end");
        self.pair.free(&mut burst);
    }

    #[track_caller]
    fn arrived(&mut self, number: u64) {
        let (expected, sent) = (self.expected, self.sent);
        assert!(number >= expected, "packet {number} after {}: twice, or out of order", expected - 1);
        assert!(number < sent, "packet {number} was never sent, {sent} were");
        let missing = number - expected;
        if missing > 0 {
            assert!(
                number <= self.doomed,
                "{expected} to {number} (not included) are missing: no death explains it"
            );
            assert!(missing <= self.may_lose, "{missing} packets missing, {} may be", self.may_lose);
            self.may_lose -= missing;
            self.lost += missing;
        }
        self.expected = number + 1;
    }
}
