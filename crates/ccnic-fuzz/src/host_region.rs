//! The host side over a region that its NIC changes between any two accesses.
//!
//! Checked: no panic, no access outside the region or the buffers, a bound on the accesses of each call, and
//! what the program is given: whole packets of at most `CHAIN_MAX` segments, each with data and inside one
//! buffer, no longer than the MTU. As long as the NIC forges nothing but its positions, no buffer that the
//! program holds is handed out again. (A NIC that forges descriptors or list heads can hand out a buffer
//! twice: it harms this program's packets only.)

use std::rc::Rc;

use ccnic::desc::CHAIN_MAX;
use ccnic::host::{HostDrops, Pool, QueuePair};
use ccnic::layout::{LARGE_BUF, SMALL_BUF};
use ccnic::nic::{FETCH, NicQueue, Pipeline, loopback};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Buf, Burst, Desc, Design, Layout, testing};

use crate::input::Input;
use crate::memory::{Region, View};
use crate::setup::{Setup, bounded, call, len};

/// The fuzz target.
pub fn host_region(bytes: &[u8]) {
    // With registers beside its rings, a NIC's position says that the descriptors are there.
    let setup = Setup::new(bytes, |config, input| input.byte() & 1 != 0 && config.design != Design::Doorbell);
    setup.layout.config().design.dispatch(Sides(setup));
}

struct Sides(Setup);

impl RingVisitor for Sides {
    type Output = ();

    fn visit<R: Ring>(self) {
        let Setup { region, layout, input, positions_only } = self.0;
        let mut run = Run::<R>::new(region, layout, input, positions_only);
        run.region.set_calm(false);
        while !run.input.is_used_up() {
            run.step();
            run.check();
        }
        run.retire();
    }
}

/// What the program holds: its bursts, and which buffers they are.
pub(crate) struct Held {
    pub(crate) bufs: Vec<Buf>,
    /// By slot of 128 bytes of the pool.
    slots: Vec<bool>,
    layout: Layout,
    /// A buffer that is held may not come again.
    strict: bool,
}

impl Held {
    pub(crate) fn new(layout: &Layout, strict: bool) -> Held {
        let pool = layout.pool();
        let slots = vec![false; ((pool.end - pool.buffers) / SMALL_BUF) as usize];
        Held { bufs: Vec::new(), slots, layout: *layout, strict }
    }

    fn range(&self, desc: Desc) -> std::ops::Range<usize> {
        let size = if desc.small() { SMALL_BUF } else { LARGE_BUF };
        let first = ((desc.offset() & !(size - 1)) - self.layout.pool().buffers) / SMALL_BUF;
        first as usize..(first + size / SMALL_BUF) as usize
    }

    /// The program holds these buffers from now on.
    pub(crate) fn take(&mut self, burst: &mut Burst) {
        let from = self.bufs.len();
        while let Some(buf) = burst.pop() {
            let range = self.range(buf.desc());
            let again = self.slots[range.clone()].iter().any(|held| *held);
            assert!(!again || !self.strict, "{:?} was handed out while it is held", buf.desc());
            self.slots[range].fill(true);
            self.bufs.push(buf);
        }
        self.bufs[from..].reverse();
    }

    /// The first of the buffers that the program holds, at most `max`, without part of a packet.
    fn give(&mut self, max: usize) -> Burst {
        let whole = self.bufs.iter().take(max).rposition(|buf| !buf.more()).map_or(0, |last| last + 1);
        let mut burst = Burst::new();
        for buf in self.bufs.drain(..whole).collect::<Vec<_>>() {
            let range = self.range(buf.desc());
            self.slots[range].fill(false);
            burst.push(buf).expect("a burst holds 64");
        }
        burst
    }

    /// The descriptors of all that the program holds.
    pub(crate) fn descs(&self) -> impl Iterator<Item = Desc> {
        self.bufs.iter().map(Buf::desc)
    }
}

pub(crate) struct Run<R: Ring> {
    pub(crate) region: Rc<Region>,
    layout: Layout,
    pub(crate) input: Rc<Input>,
    pub(crate) pairs: Vec<QueuePair<View, R>>,
    pub(crate) pool: Pool<View>,
    /// The NIC, as far as it follows the rules.
    pub(crate) nics: Vec<(NicQueue<View, R>, Pipeline)>,
    pub(crate) held: Held,
    drops: Vec<HostDrops>,
}

impl<R: Ring> Run<R> {
    pub(crate) fn new(region: Rc<Region>, layout: Layout, input: Rc<Input>, strict: bool) -> Run<R> {
        let queues = layout.config().queues;
        let pairs = (0..queues).map(|q| testing::pair(region.view(true), &layout, q));
        let nics = (0..queues)
            .map(|q| testing::nic(region.view(false), &layout, q).map(|nic| (nic, Pipeline::default())));
        Run {
            pairs: pairs.collect::<Result<_, _>>().expect("the region has these queues"),
            nics: nics.collect::<Result<_, _>>().expect("the region has these queues"),
            pool: Pool::new(region.view(true), &layout),
            held: Held::new(&layout, strict),
            drops: vec![HostDrops::default(); usize::from(queues)],
            region,
            layout,
            input,
        }
    }

    pub(crate) fn step(&mut self) {
        let (op, q) = (self.input.byte(), self.input.below(self.pairs.len()));
        let region = Rc::clone(&self.region);
        let reflect = op & 0x80 != 0 && self.layout.config().shared_pool;
        bounded(&region, call(self.layout.config()), "a call", || match op % 16 {
            0 | 1 => self.alloc(q),
            2 | 3 => self.send(q),
            4..7 => self.receive(q),
            7 if op & 0x40 == 0 => self.send_small(q),
            7 => self.send_filled(q),
            8 => self.receive_small(q),
            9 => self.free(q),
            10 => self.ask(q),
            11 => self.descs(q),
            12 => self.pool(),
            13 => self.region.change(0),
            _ => {
                let (nic, pipeline) = &mut self.nics[q];
                loopback(nic, pipeline, &region.view(false), reflect);
            }
        });
    }

    fn alloc(&mut self, q: usize) {
        let mut burst = Burst::new();
        let (len, max) = (len(&self.input, self.layout.config()), self.input.below(40));
        assert!(self.pairs[q].alloc(len, max, &mut burst) <= max);
        assert!(burst.as_slice().iter().all(|buf| u32::from(buf.len()) <= buf.capacity()));
        burst.iter_mut().for_each(|buf| self.pairs[q].with_mut(buf, |bytes| bytes.fill(7)));
        self.held.take(&mut burst);
    }

    fn send(&mut self, q: usize) {
        let mut burst = self.held.give(self.input.below(65));
        self.pairs[q].tx_burst(&mut burst);
        self.held.take(&mut burst);
    }

    fn receive(&mut self, q: usize) {
        let mut burst = Burst::new();
        let max = self.input.below(65);
        let n = self.pairs[q].rx_burst(&mut burst, max);
        assert_eq!(n, burst.len());
        let ends = burst.as_slice().iter().filter(|buf| !buf.more()).count();
        assert!(n <= max || ends == 1 && max > 0, "{n} buffers, {ends} packets, for {max}");
        self.check_packets(q, burst.as_slice());
        self.held.take(&mut burst);
    }

    fn check_packets(&self, q: usize, mut bufs: &[Buf]) {
        let (config, pool) = (self.layout.config(), self.layout.pool());
        while !bufs.is_empty() {
            let end = bufs.iter().position(|buf| !buf.more()).expect("half a packet") + 1;
            let (packet, rest) = bufs.split_at(end);
            assert!(end <= CHAIN_MAX, "a packet of {end} segments");
            let len: u32 = packet.iter().map(|buf| u32::from(buf.len())).sum();
            assert!(len <= u32::from(config.mtu), "a packet of {len} bytes, the MTU is {}", config.mtu);
            for buf in packet {
                let at = buf.desc().offset();
                assert!((pool.buffers..pool.end).contains(&at), "{buf:?} is outside the pool");
                assert!(!buf.is_empty() && u32::from(buf.len()) <= buf.capacity(), "{buf:?}");
                self.pairs[q].with(buf, |bytes| assert_eq!(bytes.len(), usize::from(buf.len())));
            }
            bufs = rest;
        }
    }

    fn send_small(&mut self, q: usize) {
        let bytes = [self.input.byte(); 128];
        let longest = self.small_len(q);
        let packets = (0..self.input.below(34)).map(|i| (&bytes[..(1 + i * 3).min(longest.into())], 0));
        let (packets, mut burst) = (packets.collect::<Vec<_>>(), Burst::new());
        let n = packets.len();
        assert!(self.pairs[q].tx_small(longest, packets.into_iter(), &mut burst) <= n);
        assert!(burst.is_empty());
    }

    /// A length of small packets: those of at most a line are inline, where the rings have areas.
    fn small_len(&self, q: usize) -> u16 {
        [1, 63, 64, 65, 127, 128][self.input.below(6)].min(self.pairs[q].small_limit())
    }

    /// Packets that are written where the NIC reads them.
    fn send_filled(&mut self, q: usize) {
        let (len, n, byte) = (self.small_len(q), self.input.below(34), self.input.byte());
        let (mut burst, mut calls) = (Burst::new(), 0);
        let sent = self.pairs[q].tx_fill(len, n, &mut burst, |i, bytes| {
            assert_eq!((i, bytes.len()), (calls, usize::from(len)));
            bytes.fill(byte);
            calls += 1;
            u64::from(byte)
        });
        assert!(sent <= calls && calls <= n && burst.is_empty(), "{sent} sent, {calls} of {n} filled");
    }

    fn receive_small(&mut self, q: usize) {
        let (max, mtu) = (self.input.below(65), usize::from(self.layout.config().mtu));
        let (mut calls, small) = (0, SMALL_BUF as usize);
        let n = self.pairs[q].rx_small(max, |i, bytes, _| {
            assert_eq!(i, calls);
            assert!(!bytes.is_empty() && bytes.len() <= small.min(mtu), "{} bytes", bytes.len());
            calls += 1;
        });
        assert!(n.is_err() && calls == 0 || n == Ok(calls) && calls <= max);
    }

    fn free(&mut self, q: usize) {
        let mut burst = self.held.give(self.input.below(65));
        match burst.len() {
            1 => burst.pop().into_iter().for_each(|buf| self.pairs[q].free_one(buf)),
            _ => self.pairs[q].free(&mut burst),
        }
    }

    fn ask(&mut self, q: usize) {
        let (pair, ring) = (&mut self.pairs[q], self.layout.config().ring as usize);
        let armed = pair.arm();
        assert!(!armed || self.input.is_used_up() || pair.rx_ready() <= ring + 2 * FETCH);
        pair.disarm();
        let _ = pair.rx_waits();
        assert!(pair.tx_room() <= ring && pair.tx_waiting() <= ring && pair.rx_ready() <= ring + 2 * FETCH);
    }

    /// As a library for another language holds buffers: as descriptors.
    fn descs(&mut self, q: usize) {
        let mut burst = self.held.give(self.input.below(65));
        let descs: Vec<_> = burst.disown().collect();
        let pair = &mut self.pairs[q];
        match self.input.below(3) {
            0 => {
                let (valid, sent) = pair.tx_descs(descs.iter().copied(), &mut burst, ());
                assert!(sent <= valid && valid == descs.len(), "{sent} of {valid} of {}", descs.len());
                pair.free_descs(descs[sent..].iter().copied(), &mut burst, ());
            }
            1 => assert_eq!(pair.free_descs(descs.iter().copied(), &mut burst, ()), descs.len()),
            _ => {
                assert_eq!(pair.read_descs(descs.iter().copied(), &mut burst, (), |_, _, _| ()), descs.len())
            }
        }
        assert!(burst.is_empty());
    }

    fn pool(&mut self) {
        let mut burst = self.held.give(self.input.below(65));
        let descs: Vec<_> = burst.disown().collect();
        let n = descs.len();
        assert_eq!(self.pool.free(descs.into_iter(), &mut burst, ()), n);
        self.pool.alloc(self.input.below(20), &mut burst);
        self.held.take(&mut burst);
    }

    pub(crate) fn check(&mut self) {
        for (pair, last) in self.pairs.iter().zip(&mut self.drops) {
            let now = pair.drops();
            let grown = now.bad_descriptor >= last.bad_descriptor
                && now.bad_chain >= last.bad_chain
                && now.too_long >= last.too_long;
            assert!(grown, "{last:?} became {now:?}");
            *last = now;
        }
    }

    /// The program frees all that it holds, also in magazines.
    pub(crate) fn retire(&mut self) {
        while !self.held.bufs.is_empty() {
            let mut burst = self.held.give(Burst::CAPACITY);
            self.pairs[0].free(&mut burst);
        }
        self.pairs.iter_mut().for_each(QueuePair::retire);
        self.pool.retire();
    }
}
