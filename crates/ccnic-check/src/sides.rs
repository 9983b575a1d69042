//! The two sides of an interface, each on its own: a NIC that polls, and a program that sends and checks. The
//! caller provides how they yield: on two threads over mapped memory ([`threads`](crate::threads)), or on two
//! cores of a simulated machine.

use ccnic::host::QueuePair;
use ccnic::nic::{Fetched, NicQueue};
use ccnic::ring::Ring;
use ccnic::{Burst, Layout, SharedMemory};

use crate::oracle::{Held, Oracle, Packet, content, fill};
use crate::rig::Wire;

/// The NIC: as the daemon's loopback, with a second burst fetched ahead, until `stop` returns true. `idle` is
/// called after a poll without work.
///
/// # Panics
/// When an honest host has sent something illegal.
pub fn serve<S: SharedMemory, R: Ring>(
    mem: S,
    copies: &S,
    layout: &Layout,
    wire: Wire,
    stop: impl Fn() -> bool,
    idle: impl Fn(),
) {
    let Ok(mut nic) = NicQueue::<S, R>::new(mem, layout, 0) else { panic!("no queue 0") };
    let (mut current, mut ahead) = (Fetched::default(), Fetched::default());
    while !stop() {
        if current.is_empty() {
            std::mem::swap(&mut current, &mut ahead);
            if current.is_empty() && nic.fetch(&mut current) == 0 {
                idle();
                continue;
            }
        }
        if ahead.is_empty() && current.is_full() && nic.may_fetch_ahead() {
            nic.fetch_ahead(&mut ahead);
        }
        let packets = current.rest();
        let n = wire.serve(&mut nic, copies, packets, ahead.rest());
        current.advance(n);
        nic.flush();
        if n == 0 {
            idle();
        }
    }
    let counters = nic.counters();
    assert_eq!((counters.bad_descriptor, counters.too_long, counters.bad_chain), (0, 0, 0));
    nic.retire();
}

/// The program.
pub struct Program<S: SharedMemory, R: Ring> {
    /// The most packets in flight.
    pub most: usize,
    host: QueuePair<S, R>,
    oracle: Oracle,
    held: Held,
    outbox: Burst,
    prepared: Vec<Packet>,
    next: u64,
}

impl<S: SharedMemory, R: Ring> Program<S, R> {
    /// A program with a queue pair.
    ///
    /// # Panics
    /// When the region has no queue 0.
    pub fn new(mem: S, layout: &Layout) -> Program<S, R> {
        Program {
            most: usize::MAX,
            host: QueuePair::<S, R>::new(mem, layout, 0).unwrap_or_else(|e| panic!("{e}")),
            oracle: Oracle::default(),
            held: Held::new(layout),
            outbox: Burst::new(),
            prepared: Vec::new(),
            next: 0,
        }
    }

    /// Sends so many packets and checks what comes back. `idle` is called after a poll without progress, with
    /// the number of such polls in a row and of packets outstanding.
    ///
    /// # Panics
    /// When the oracle finds an error.
    pub fn exchange(&mut self, packets: u64, wire: Wire, mut idle: impl FnMut(u64, usize)) {
        let mut turns = 0;
        while self.oracle.received < packets {
            // Bursts of every length; a packet of several segments waits for one that holds it.
            let got = self.receive(1 + (self.next + turns) as usize % 64, wire);
            // Few enough that the two rings are never both full: a loopback would wait for itself.
            let room = self.most.saturating_sub(self.oracle.outstanding()) as u64;
            let mut sent = 0;
            if self.next < packets && self.outbox.is_empty() && room > 0 {
                let most = room.min(packets - self.next);
                if self.next.is_multiple_of(5) { sent = self.send_small(most) } else { self.prepare(most) }
            }
            sent += self.transmit();
            turns = if got + sent == 0 { turns + 1 } else { 0 };
            if turns > 0 {
                idle(turns, self.oracle.outstanding());
            }
        }
        self.oracle.end();
        assert_eq!((self.held.count, self.host.drops()), (0, Default::default()));
    }

    /// Allocates and writes the next packets: small, large and chains, in bursts of every size.
    fn prepare(&mut self, most: u64) {
        let kind = self.next % 11;
        let len = [64, 128, 129, 1500, 4096, 90, 64, 9000, 300, 64, 1][kind as usize];
        let n = (1 + self.next * 7 % 32).min(most).min(if len > 4096 { 9 } else { 32 });
        self.host.alloc(len, n as usize * usize::from(len).div_ceil(4096), &mut self.outbox);
        let mut segments = Vec::new();
        for buf in self.outbox.iter_mut() {
            self.held.take(buf.desc());
            let from = segments.iter().map(|&l| usize::from(l)).sum();
            buf.set_meta(self.next);
            self.host.with_mut(buf, |bytes| fill(self.next, from, bytes));
            segments.push(buf.len());
            if !buf.more() {
                self.prepared.push(Packet { seq: self.next, segments: std::mem::take(&mut segments) });
                self.next += 1;
            }
        }
    }

    /// Sends copies of the next packets, small ones.
    fn send_small(&mut self, most: u64) -> usize {
        let packets = self.next..self.next + most.min(1 + self.next % 32);
        let copies: Vec<_> = packets.clone().map(|seq| content(seq, 1 + (seq % 128) as u16)).collect();
        let all: Vec<_> = copies.iter().map(Vec::as_slice).zip(packets).collect();
        let n = self.host.tx_small(128, all.into_iter(), &mut Burst::new());
        for bytes in copies.iter().take(n) {
            self.oracle.sent(Packet { seq: self.next, segments: vec![bytes.len() as u16] });
            self.next += 1;
        }
        n
    }

    fn transmit(&mut self) -> usize {
        let descs: Vec<_> = self.outbox.as_slice().iter().map(|b| b.desc()).collect();
        let n = self.host.tx_burst(&mut self.outbox);
        descs.iter().take(n).for_each(|desc| self.held.give(*desc));
        let whole = descs.iter().take(n).filter(|d| !d.more()).count();
        self.prepared.drain(..whole).for_each(|packet| self.oracle.sent(packet));
        n
    }

    /// Receives; in every second call, small packets by copying them.
    fn receive(&mut self, max: usize, wire: Wire) -> usize {
        // Few enough packets are in flight that the NIC always has a buffer.
        let cut = wire.cut(false);
        if max.is_multiple_of(2) {
            let oracle = &mut self.oracle;
            let n = self.host.rx_small(max, |_, bytes, seq| oracle.received(seq, &[bytes.to_vec()], cut));
            if let Ok(n @ 1..) = n {
                return n;
            }
        }
        let mut burst = Burst::new();
        let n = self.host.rx_burst(&mut burst, max);
        let (mut packet, mut seq) = (Vec::new(), 0);
        for buf in burst.as_slice() {
            self.held.take(buf.desc());
            if packet.is_empty() {
                seq = buf.meta();
            }
            packet.push(self.host.with(buf, <[u8]>::to_vec));
            if !buf.more() {
                self.oracle.received(seq, &std::mem::take(&mut packet), cut);
            }
        }
        burst.as_slice().iter().for_each(|buf| self.held.give(buf.desc()));
        self.host.free(&mut burst);
        n
    }
}
