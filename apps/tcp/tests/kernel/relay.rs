//! A bad wire between two switches: a program on both that passes frames on, and loses, doubles, delays and reorders them on the way, by a
//! random number generator with a seed. (What `tc netem` does, for kernels that are without it, and in both directions.)

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ccnic_client::{Burst, Nic, Pages, QueuePair};

/// What happens to frames: probabilities in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub lost: u32,
    pub doubled: u32,
    /// Of a frame.
    pub delay: Duration,
    /// This many are delayed by this much more, so that others pass them.
    pub late: (u32, Duration),
}

/// The wire. Dropping it cuts it.
pub struct Relay {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<[u64; 4]>>,
}

struct Frame {
    due: Instant,
    to: usize,
    bytes: Vec<u8>,
}

impl Relay {
    /// Between the switches at these sockets.
    pub fn start(sockets: [&Path; 2], faults: Faults) -> Relay {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut nics =
            sockets.map(|socket| Nic::options().name("relay").pages(Pages::Small).open(socket).unwrap());
        let mut pairs = nics.each_mut().map(|nic| nic.queue_pair(0).unwrap());
        let thread = std::thread::spawn(move || {
            let _nics = nics;
            let mut random = ccnic_hostile::Random::new(7);
            let (mut waiting, mut counts) = (Vec::<Frame>::new(), [0; 4]);
            while !stopped.load(Ordering::Relaxed) {
                let now = Instant::now();
                let before = waiting.len();
                for (from, pair) in pairs.iter_mut().enumerate() {
                    receive(pair, |bytes| {
                        let mut chance = |thousandths: u32| random.below(1000) < u64::from(thousandths);
                        if chance(faults.lost) {
                            counts[1] += 1;
                            return;
                        }
                        let copies = 1 + usize::from(chance(faults.doubled));
                        let late = chance(faults.late.0);
                        counts[2] += copies as u64 - 1;
                        counts[3] += u64::from(late);
                        let due = now + faults.delay + if late { faults.late.1 } else { Duration::ZERO };
                        for _ in 0..copies {
                            waiting.push(Frame { due, to: 1 - from, bytes: bytes.to_vec() });
                        }
                    });
                }
                let (ready, later): (Vec<_>, Vec<_>) = waiting.drain(..).partition(|frame| frame.due <= now);
                waiting = later;
                for frame in ready {
                    send(&mut pairs[frame.to], &frame.bytes);
                    counts[0] += 1;
                }
                if waiting.len() == before {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
            counts
        });
        Relay { stop, thread: Some(thread) }
    }

    /// Ends it; returns how many frames it has passed on, lost, doubled, and delayed.
    pub fn end(mut self) -> [u64; 4] {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn receive(pair: &mut QueuePair, mut frame: impl FnMut(&[u8])) {
    let (mut burst, mut bytes) = (Burst::new(), Vec::new());
    pair.rx_burst(&mut burst, 32);
    for buf in burst.as_slice() {
        pair.with(buf, |part| bytes.extend_from_slice(part));
        if !buf.more() {
            frame(&bytes);
            bytes.clear();
        }
    }
    pair.free(&mut burst);
}

fn send(pair: &mut QueuePair, frame: &[u8]) {
    let mut burst = Burst::new();
    pair.alloc(frame.len() as u16, 1, &mut burst);
    burst.iter_mut().for_each(|buf| {
        pair.write(buf, 0, frame);
    });
    pair.tx_burst(&mut burst);
    pair.free(&mut burst); // lost where there is no room, as on any wire
}
