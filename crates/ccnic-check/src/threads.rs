//! Host and NIC on two threads over mapped memory, checked by the oracle. What ThreadSanitizer runs.
//!
//! No test here depends on timing: every loop ends by progress, and gives its core away when it makes none.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ccnic::pool::Pool;
use ccnic::ring::Ring;
use ccnic::{Burst, Config, Fetched, Layout, NicQueue, Port, QueuePair};

use crate::memory::{Memory, NativeMemory};
use crate::oracle::{Cut, Held, Oracle, Packet, fill};
use crate::rig::Wire;

/// Turns without any progress after which a side gives up: minutes, so that only a stuck interface gets there.
const PATIENCE: u64 = 1 << 26;

/// Sends `packets` packets to a NIC on another thread, which works on them by `wire`, and checks what comes back.
/// `wrap` puts a port of one's own around the native one.
///
/// # Panics
/// When the oracle says so.
pub fn run<P: Port + Send + 'static, R: Ring>(
    config: &Config,
    wire: Wire,
    packets: u64,
    wrap: impl Fn(ccnic_shm::NativePort) -> P,
) {
    let config = Config { design: R::DESIGN, ..*config };
    let layout = Layout::new(&config).unwrap_or_else(|e| panic!("{config:?}: {e}"));
    let memory = NativeMemory::new(layout.size());
    Pool::fill(&memory.host(), &layout);
    layout.store(&memory.host());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (nic, copies) = (wrap(memory.nic()), wrap(memory.nic()));
        let stop = &stop;
        let nic = scope.spawn(move || serve::<P, R>(nic, &copies, &layout, wire, stop));
        // However the program ends, the NIC ends too.
        let _stop = StopOnDrop(stop);
        let host = QueuePair::<P, R>::new(wrap(memory.host()), &layout, 0);
        let mut program = Program {
            host: host.unwrap_or_else(|| panic!("no queue 0")),
            oracle: Oracle::default(),
            held: Held::new(&layout),
            outbox: Burst::new(),
            prepared: Vec::new(),
            next: 0,
        };
        program.exchange(packets, wire, || nic.is_finished());
        stop.store(true, Ordering::Release);
        if let Err(cause) = nic.join() {
            resume_unwind(cause);
        }
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The NIC's thread: as the daemon's loopback, with a second burst fetched ahead.
fn serve<P: Port, R: Ring>(port: P, copies: &P, layout: &Layout, wire: Wire, stop: &AtomicBool) {
    let Some(mut nic) = NicQueue::<P, R>::new(port, layout, 0) else { panic!("no queue 0") };
    let (mut current, mut ahead) = (Fetched::default(), Fetched::default());
    while !stop.load(Ordering::Acquire) {
        if current.is_empty() {
            std::mem::swap(&mut current, &mut ahead);
            if current.is_empty() && nic.fetch(&mut current) == 0 {
                thread::yield_now();
                continue;
            }
        }
        if ahead.is_empty() && current.is_full() && nic.may_fetch_ahead() {
            nic.fetch_ahead(&mut ahead);
        }
        let packets = current.rest();
        let n = match wire {
            Wire::Reflect => nic.reflect(packets),
            _ => {
                let n = nic.deliver(copies, packets, ahead.rest());
                nic.complete(packets.get(..n).unwrap_or_default());
                n
            }
        };
        current.advance(n);
        nic.flush();
        if n == 0 {
            thread::yield_now();
        }
    }
    let counters = nic.counters;
    assert_eq!((nic.bad_descriptors(), counters.too_long, nic.bad_chains()), (0, 0, 0));
    nic.retire();
}

/// The host's thread.
struct Program<P: Port, R: Ring> {
    host: QueuePair<P, R>,
    oracle: Oracle,
    held: Held,
    outbox: Burst,
    prepared: Vec<Packet>,
    next: u64,
}

impl<P: Port, R: Ring> Program<P, R> {
    fn exchange(&mut self, packets: u64, wire: Wire, dead: impl Fn() -> bool) {
        let mut idle = 0;
        while self.oracle.received < packets {
            let got = self.receive(1 + self.next as usize % 64, wire);
            // So few at a time that neither ring is ever full of them for good: a loopback must not wait for itself.
            if self.next < packets && self.outbox.is_empty() {
                self.prepare(packets - self.next);
            }
            let sent = self.transmit();
            idle = if got + sent == 0 { idle + 1 } else { 0 };
            if idle > 0 {
                assert!(!dead(), "the NIC's thread has ended");
                assert!(
                    idle < PATIENCE,
                    "nothing moves: {} packets are outstanding",
                    self.oracle.outstanding()
                );
                thread::yield_now();
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
        self.host.alloc(len, n as usize, &mut self.outbox);
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

    fn transmit(&mut self) -> usize {
        let descs: Vec<_> = self.outbox.as_slice().iter().map(|b| b.desc()).collect();
        let n = self.host.tx_burst(&mut self.outbox);
        descs.iter().take(n).for_each(|desc| self.held.give(*desc));
        let whole = descs.iter().take(n).filter(|d| !d.more()).count();
        self.prepared.drain(..whole).for_each(|packet| self.oracle.sent(packet));
        n
    }

    fn receive(&mut self, max: usize, wire: Wire) -> usize {
        let mut burst = Burst::new();
        let n = self.host.rx_burst(&mut burst, max);
        let cut = if wire == Wire::Reflect { Cut::Same } else { Cut::Anew };
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
