//! A host, a NIC and an oracle over one region, in one thread, driven by operations.
//!
//! A script is a list of [`Op`], so that proptest writes scripts and shrinks them. Every operation checks
//! what it sees; [`Rig::finish`] asks for everything back and counts the buffers.

use std::collections::VecDeque;

use ccnic::host::{HostDrops, NotSmall, QueuePair};
use ccnic::layout::{LARGE_BUF, SMALL_BUF};
use ccnic::nic::{Fetched, NicQueue};
use ccnic::recovery::{Inventory, post_again};
use ccnic::ring::{Consumer, Ring};
use ccnic::{Buf, Burst, Config, Desc, Layout, host, testing};

use crate::memory::Memory;
use crate::oracle::{Held, Oracle, Packet, content, fill};
pub use crate::wire::Wire;

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Host: allocates packets of one length into the outbox and writes them.
    Alloc {
        /// Bytes of each; above 4 KiB a chain.
        len: u16,
        /// How many.
        packets: usize,
    },
    /// Host: allocates one packet with these segments.
    Chain(Vec<u16>),
    /// Host: frees the last packet of the outbox unsent.
    Drop,
    /// Host: transmits the outbox.
    Transmit,
    /// Host: sends copies of packets, the first of this length, each a byte longer, up to 128 bytes.
    SendSmall {
        /// Bytes of the first.
        len: u16,
        /// How many.
        packets: usize,
    },
    /// Host: receives at most so many small packets by copying them.
    ReceiveSmall(usize),
    /// NIC: so many polls.
    Poll(usize),
    /// Host: receives at most so many buffers into the inbox.
    Receive(usize),
    /// Host: frees so many packets of the inbox.
    Free(usize),
    /// Host: moves so many packets from the inbox to the outbox, with new content.
    Echo(usize),
    /// NIC: a planned handover to a successor.
    Handover,
    /// NIC: dies between two bursts; the host recovers its buffers; a successor takes over.
    Crash,
}

/// A host, a NIC and an oracle over one region.
pub struct Rig<M: Memory, R: Ring> {
    /// The region's memory.
    pub memory: M,
    /// The region's geometry.
    pub layout: Layout,
    /// The host side.
    pub host: QueuePair<M::Side, R>,
    /// The NIC side.
    pub nic: NicQueue<M::Side, R>,
    /// Packets that the NIC has fetched.
    pub fetched: Fetched,
    /// What may come back.
    pub oracle: Oracle,
    /// What the program holds: outbox and inbox.
    pub held: Held,
    /// Allocated and not transmitted.
    pub outbox: Burst,
    /// Received and not freed, by packet.
    pub inbox: VecDeque<Vec<Buf>>,
    prepared: VecDeque<Packet>,
    wire: Wire,
    /// The NIC has been without a buffer.
    starved: bool,
    next: u64,
}

impl<M: Memory, R: Ring> Rig<M, R> {
    /// A fresh region. The design of `config` is set to the ring's.
    ///
    /// # Panics
    /// When the configuration is out of range.
    pub fn new(config: &Config, wire: Wire) -> Rig<M, R> {
        let config = Config { design: R::DESIGN, ..*config };
        let layout = Layout::new(&config).unwrap_or_else(|e| panic!("{config:?}: {e}"));
        let memory = M::new(layout.size());
        host::format(&memory.host(), &layout);
        let loaded = Layout::load(&memory.nic(), layout.size());
        assert_eq!(loaded, Ok(layout), "the NIC sees another region than the host made");
        let host = testing::pair(memory.host(), &layout, 0).unwrap_or_else(|e| panic!("{e}"));
        let nic = testing::nic(memory.nic(), &layout, 0).unwrap_or_else(|e| panic!("{e}"));
        Rig {
            held: Held::new(&layout),
            fetched: Fetched::default(),
            oracle: Oracle::default(),
            outbox: Burst::new(),
            inbox: VecDeque::new(),
            prepared: VecDeque::new(),
            memory,
            layout,
            host,
            nic,
            wire,
            starved: false,
            next: 0,
        }
    }

    /// Runs a script.
    pub fn run(&mut self, ops: &[Op]) {
        ops.iter().for_each(|op| self.apply(op));
    }

    /// Runs one operation.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Alloc { len, packets } => {
                self.alloc(*len, *packets);
            }
            Op::Chain(segments) => {
                self.chain(segments);
            }
            Op::Drop => self.drop_last(),
            Op::Transmit => {
                self.transmit();
            }
            Op::SendSmall { len, packets } => {
                self.send_small(*len, *packets);
            }
            Op::ReceiveSmall(max) => _ = self.receive_small(*max),
            Op::Poll(turns) => {
                for _ in 0..*turns {
                    self.poll();
                }
            }
            Op::Receive(max) => {
                self.receive(*max);
            }
            Op::Free(packets) => self.free(*packets),
            Op::Echo(packets) => self.echo(*packets),
            Op::Handover => self.handover(),
            Op::Crash => {
                self.crash();
            }
        }
    }

    /// Allocates and writes packets of `len` bytes; returns how many.
    pub fn alloc(&mut self, len: u16, packets: usize) -> usize {
        let before = self.outbox.len();
        let segments = usize::from(len).div_ceil(LARGE_BUF as usize);
        let got = self.host.alloc(len, packets * segments, &mut self.outbox);
        assert_eq!((self.outbox.len() - before, got % segments), (got, 0), "packets of {len} bytes");
        let got = got / segments;
        assert!(got <= packets, "{got} packets of {packets} asked for");
        for i in 0..got {
            self.prepare(before + i * segments, segments);
        }
        got
    }

    /// Allocates and writes one packet of these segments; false when there was no buffer or no space for it.
    pub fn chain(&mut self, segments: &[u16]) -> bool {
        let before = self.outbox.len();
        for &len in segments {
            if self.host.alloc(len, 1, &mut self.outbox) == 0 {
                while self.outbox.len() > before {
                    self.outbox.pop().into_iter().for_each(|buf| self.host.free_one(buf));
                }
                return false;
            }
        }
        let more = segments.len().saturating_sub(1);
        self.outbox.iter_mut().skip(before).take(more).for_each(|buf| buf.set_more(true));
        self.prepare(before, segments.len());
        true
    }

    /// Writes the packet in `segments` buffers of the outbox from `first` on, which are newly the program's.
    fn prepare(&mut self, first: usize, segments: usize) {
        let seq = self.next;
        self.next += 1;
        let mut packet = Packet { seq, segments: Vec::new() };
        for (i, buf) in self.outbox.iter_mut().skip(first).take(segments).enumerate() {
            self.held.take(buf.desc());
            assert_eq!(buf.more(), i + 1 < segments, "packet of {segments} segments, segment {i}");
            write(&self.host, buf, seq, packet.len());
            packet.segments.push(buf.len());
        }
        self.prepared.push_back(packet);
    }

    fn drop_last(&mut self) {
        let Some(packet) = self.prepared.pop_back() else { return };
        for _ in packet.segments {
            let Some(buf) = self.outbox.pop() else { panic!("the outbox lacks buffers") };
            self.held.give(buf.desc());
            self.host.free_one(buf);
        }
    }

    /// Transmits the outbox; returns the number of buffers taken.
    pub fn transmit(&mut self) -> usize {
        let descs: Vec<Desc> = self.outbox.as_slice().iter().map(Buf::desc).collect();
        let n = self.host.tx_burst(&mut self.outbox);
        assert_eq!(self.outbox.len(), descs.len() - n, "what is not taken stays");
        descs.iter().take(n).for_each(|desc| self.held.give(*desc));
        let mut left = n;
        while left > 0 {
            let Some(packet) = self.prepared.pop_front() else { panic!("took what was not there") };
            assert!(packet.segments.len() <= left, "took {left} of {} segments", packet.segments.len());
            left -= packet.segments.len();
            self.oracle.sent(packet);
        }
        n
    }

    /// Sends copies of packets of `len` bytes, and one more each up to 128; returns how many went.
    pub fn send_small(&mut self, len: u16, packets: usize) -> usize {
        let lens = (0..packets as u16).map(|i| len.saturating_add(i).clamp(1, SMALL_BUF as u16));
        let copies: Vec<_> = (self.next..).zip(lens.clone()).map(|(seq, len)| content(seq, len)).collect();
        let mut burst = Burst::new();
        let longest = lens.max().unwrap_or(1);
        let all: Vec<_> = copies.iter().map(Vec::as_slice).zip(self.next..).collect();
        let n = self.host.tx_small(longest, all.into_iter(), &mut burst);
        assert!(n <= packets && burst.is_empty(), "{n} of {packets} packets, {} left", burst.len());
        for bytes in copies.iter().take(n) {
            self.oracle.sent(Packet { seq: self.next, segments: vec![bytes.len() as u16] });
            self.next += 1;
        }
        n
    }

    /// Receives at most `max` small packets by copying them; returns their number.
    ///
    /// # Errors
    /// When the first that waits is not small.
    pub fn receive_small(&mut self, max: usize) -> Result<usize, NotSmall> {
        let mut got = Vec::new();
        let result = self.host.rx_small(max, |i, bytes, meta| {
            assert_eq!(i, got.len(), "packets are shown in order");
            got.push((meta, bytes.to_vec()));
        });
        assert_eq!(result.unwrap_or(0), got.len());
        assert!(got.len() <= max);
        for (seq, bytes) in got {
            self.oracle.received(seq, &[bytes], self.wire.cut(self.starved));
        }
        result
    }

    /// One poll of the NIC; returns the number of descriptors handled.
    pub fn poll(&mut self) -> usize {
        if self.fetched.is_empty() {
            self.nic.fetch(&mut self.fetched);
        }
        let packets = self.fetched.rest();
        if self.wire == Wire::Sink {
            consume(&mut self.oracle, packets);
        }
        let n = self.wire.serve(&mut self.nic, &self.memory.nic(), packets, &[]);
        self.starved |= self.nic.counters().no_buffer > 0;
        self.fetched.advance(n);
        self.nic.flush();
        n
    }

    /// Receives at most `max` buffers, or one packet; returns the number of buffers.
    pub fn receive(&mut self, max: usize) -> usize {
        let mut burst = Burst::new();
        let dropped = self.host.drops().no_buffer;
        let n = self.host.rx_burst(&mut burst, max);
        self.check_dropped(n, self.host.drops().no_buffer - dropped);
        let packets = burst.as_slice().iter().filter(|buf| !buf.more()).count();
        assert!(n <= max || packets == 1 && max > 0, "{n} buffers received of at most {max}");
        assert_eq!(n, burst.len());
        let mut bufs: Vec<Buf> = std::iter::from_fn(|| burst.pop()).collect();
        bufs.reverse();
        let mut packet = Vec::new();
        for buf in bufs {
            self.held.take(buf.desc());
            let last = !buf.more();
            packet.push(buf);
            if last {
                let packet = std::mem::take(&mut packet);
                self.check(&packet);
                self.inbox.push_back(packet);
            }
        }
        assert!(packet.is_empty(), "half a packet: {packet:?}");
        n
    }

    /// A call that received `n` buffers has dropped so many packets for want of a buffer: one, when it received nothing and the pool was
    /// dry. The buffers were in the rings then, or the program held them.
    fn check_dropped(&mut self, n: usize, dropped: u64) {
        if dropped > 0 {
            assert_eq!((n, dropped), (0, 1), "buffers received, packets dropped for want of one");
            testing::Allocator::walk(&self.memory.host(), &self.layout, |at, class| {
                assert!(class == testing::Class::Small, "the buffer at {at} was free");
            });
            self.oracle.may_lose(dropped);
        }
    }

    fn check(&mut self, packet: &[Buf]) {
        let content: Vec<Vec<u8>> = packet.iter().map(|buf| read(&self.host, buf)).collect();
        let seq = packet.first().map_or(0, Buf::meta);
        self.oracle.received(seq, &content, self.wire.cut(self.starved));
    }

    /// Frees the oldest packets of the inbox.
    pub fn free(&mut self, packets: usize) {
        let mut burst = Burst::new();
        for _ in 0..packets {
            let Some(packet) = self.inbox.pop_front() else { break };
            for buf in packet {
                self.held.give(buf.desc());
                if burst.space() == 0 {
                    self.host.free(&mut burst);
                }
                assert_eq!(burst.push(buf), Ok(()), "there was space");
            }
        }
        self.host.free(&mut burst);
        assert!(burst.is_empty());
    }

    fn echo(&mut self, packets: usize) {
        for _ in 0..packets {
            if self.inbox.front().is_none_or(|p| p.len() > self.outbox.space()) {
                return;
            }
            let Some(packet) = self.inbox.pop_front() else { return };
            let (first, segments) = (self.outbox.len(), packet.len());
            for buf in packet {
                self.held.give(buf.desc()); // and taken again by `prepare`
                assert_eq!(self.outbox.push(buf), Ok(()), "there was space");
            }
            self.prepare(first, segments);
        }
    }

    /// A successor takes over from a NIC that has retired with nothing fetched.
    pub fn handover(&mut self) {
        while !self.fetched.is_empty() && self.poll() > 0 {}
        if self.fetched.is_empty() {
            self.nic.retire();
            self.replace_nic();
        }
    }

    fn replace_nic(&mut self) {
        let Ok(nic) = testing::nic(self.memory.nic(), &self.layout, 0) else { panic!("no queue 0") };
        self.nic = nic; // as in a process that died: dropping a `NicQueue` writes nothing
        self.fetched = Fetched::default();
    }

    /// The program drops its queue pair and makes another. What it had not asked for is gone.
    pub fn renew_host(&mut self) {
        assert_eq!(
            (self.outbox.len(), self.held.count),
            (0, 0),
            "buffers of the old queue pair are freed first"
        );
        self.oracle.may_lose(self.oracle.outstanding() as u64);
        self.host.retire();
        let Ok(host) = testing::pair(self.memory.host(), &self.layout, 0) else { panic!("no queue 0") };
        self.host = host;
    }

    /// The NIC is dead, wherever it was: the host recovers, a successor takes over. Returns the buffers
    /// recovered.
    pub fn crash(&mut self) -> usize {
        // What the NIC had fetched and not dealt with is lost; `poll` has flushed the rest.
        let lost = self.fetched.rest().iter().filter(|d| !d.more()).count();
        self.oracle.may_lose(lost as u64);
        let recovered = self.reclaim();
        self.replace_nic();
        recovered
    }

    /// Returns the buffers that a dead NIC held to the pool.
    pub fn reclaim(&mut self) -> usize {
        let mem = self.memory.host();
        let mut inventory = Inventory::new(&mem, &self.layout);
        inventory.count_pair(&self.host);
        inventory.repair_rings(&mut self.host);
        let lost = inventory.reclaim();
        post_again(&mut self.host);
        lost
    }

    /// Sends, polls, receives and frees until nothing is under way.
    ///
    /// `may_starve`: the pool is so small that magazines can hold all of it. The NIC then drops what it
    /// cannot deliver.
    ///
    /// # Panics
    /// When nothing moves any more and packets are outstanding.
    pub fn settle(&mut self, may_starve: bool) {
        let mut idle = 0;
        while self.oracle.outstanding() > 0 || !self.outbox.is_empty() {
            let moved = self.transmit() + self.poll() + self.receive(Burst::CAPACITY);
            self.free(usize::MAX);
            idle = if moved == 0 { idle + 1 } else { 0 };
            if idle < 4 {
                continue;
            }
            if may_starve && !self.fetched.is_empty() {
                let packets = self.fetched.rest();
                consume(&mut self.oracle, packets);
                self.nic.complete(packets);
                self.fetched = Fetched::default();
                self.nic.flush();
                idle = 0;
                continue;
            }
            assert!(self.outbox.is_empty(), "stuck: the ring takes nothing more, {:?}", self.nic.counters());
            break; // what is missing now is lost, if it may be
        }
        self.free(usize::MAX);
        self.oracle.end();
        assert_eq!(self.held.count, 0, "the program has given everything back");
        let drops = HostDrops { no_buffer: 0, ..self.host.drops() };
        assert_eq!((drops, self.bad()), (HostDrops::default(), 0));
    }

    /// Packets that the NIC found illegal: none, from an honest host.
    pub fn bad(&self) -> u64 {
        let counters = self.nic.counters();
        counters.bad_descriptor + counters.bad_chain + counters.too_long
    }

    /// Settles, ends the NIC, and counts: every buffer is held exactly once.
    pub fn finish(mut self, may_starve: bool) {
        self.settle(may_starve);
        let config = *self.layout.config();
        let buffers = config.buffers as usize;
        self.nic.retire();
        self.host.retire(); // the spare buffer, too
        assert_eq!(self.reclaim(), 0, "a NIC that retired lost buffers");
        let mut all = Held::new(&self.layout);
        for len in [LARGE_BUF as u16, 1] {
            while self.host.alloc(len, 1, &mut self.outbox) == 1 {
                self.outbox.pop().iter().for_each(|buf| all.take(buf.desc()));
            }
        }
        if !config.shared_pool {
            let Some(queue) = self.layout.queue(0) else { panic!("no queue 0") };
            R::Consumer::resume(&self.memory.nic(), &queue.fill)
                .peek(&self.memory.nic(), |desc| all.take(desc));
        }
        // Freed and waiting for a full batch (one per class), or sent and not yet known to be completed.
        let small = if config.recycle { 0 } else { 31 * 32 + 31 };
        let unsignalled = if config.shared_pool { 0 } else { config.ring as usize * 32 };
        assert!(
            all.missing() <= small + unsignalled,
            "{config:?} {} slots of {buffers} buffers are gone",
            all.missing()
        );
    }
}

/// These packets do not come back.
fn consume(oracle: &mut Oracle, packets: &[Desc]) {
    packets.iter().filter(|desc| !desc.more()).for_each(|desc| oracle.consumed(desc.meta));
}

/// Writes the bytes of packet `seq` from byte `from` on into a buffer, by one of two ways.
fn write<S: ccnic::SharedMemory, R: Ring>(host: &QueuePair<S, R>, buf: &mut Buf, seq: u64, from: usize) {
    buf.set_meta(seq);
    if seq.is_multiple_of(2) {
        host.with_mut(buf, |bytes| fill(seq, from, bytes));
        return;
    }
    let mut bytes = vec![0; usize::from(buf.len())];
    fill(seq, from, &mut bytes);
    assert_eq!(host.write(buf, 0, &bytes), bytes.len(), "all of it fits");
}

/// The bytes of a buffer, by one of two ways.
fn read<S: ccnic::SharedMemory, R: Ring>(host: &QueuePair<S, R>, buf: &Buf) -> Vec<u8> {
    if buf.meta().is_multiple_of(3) {
        return host.with(buf, <[u8]>::to_vec);
    }
    let mut bytes = vec![0; usize::from(buf.len())];
    assert_eq!(host.read(buf, 0, &mut bytes), bytes.len(), "all of it is there");
    bytes
}
