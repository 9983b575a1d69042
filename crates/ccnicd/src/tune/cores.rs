//! A program and a NIC on two cores, over a region of their own: the loads, by the interface's own code.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::memory::RegionMemory;
use anyhow::{Context, anyhow, ensure};
use ccnic::host::{self, QueuePair};
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::GroupedEpoch;
use ccnic::{Burst, Config, IdleMode, Layout, Tuning};
use ccnic_shm::{NativeMemory, Pages, Region, Vectors};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::Pair;
use super::trials::{Effort, Load, Machine};

/// What every byte of a packet is.
const BYTE: u8 = 0x5a;
/// Bytes of small and of large packets.
const SMALL: u16 = 64;
const LARGE: u16 = 1472;
/// Bytes that a program looks at closely.
const HEADERS: usize = 64;
/// Packets in a burst.
const BURST: usize = 32;
/// Small and large packets in flight under full load.
const WINDOW: usize = 512;
const LARGE_WINDOW: usize = 128;
/// Large packets are fewer a second: their slices last so many times as long.
const LARGE_SLICES: u32 = 6;
/// Of a slice, the part that a thread may have waited for its CPU: one in so many.
const DISTURBED: u64 = 50;
/// Empty polls between two looks at the clock.
const POLLS: u32 = 4096;
/// The NIC's side looks for a new tuning after so many polls.
const POLLS_BETWEEN_ORDERS: u32 = 32;
/// How long after the end of the time for all of it a side waits for the other: only a CPU that is not to be had takes so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// The nice value of the threads that measure. To Linux it belongs to a thread.
const HIGHEST: i32 = -20;

/// The word by which the NIC's side is told to end. No tuning is encoded so.
const STOP: u32 = u32::MAX;

/// What the program's side tells the NIC's side.
#[derive(Debug, Default)]
struct Orders {
    /// The tuning to use, or `STOP`.
    wanted: AtomicU32,
    /// The tuning in force.
    applied: AtomicU32,
}

/// Ends the NIC's side, also when the program's side fails.
struct StopAtEnd<'a>(&'a Orders);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.wanted.store(STOP, Ordering::Release);
    }
}

/// How long a thread has waited for a CPU, by the kernel's account.
#[derive(Debug)]
struct Delay(Option<File>);

impl Delay {
    /// Of this thread; any thread may read it.
    fn of_this_thread() -> Delay {
        Delay(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Nanoseconds; 0 where the kernel does not say.
    fn nanoseconds(&self) -> u64 {
        let mut text = [0; 80];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = read.and_then(|n| text.get(..n)).and_then(|text| str::from_utf8(text).ok());
        text.and_then(|text| text.split_whitespace().nth(1)).and_then(|ns| ns.parse().ok()).unwrap_or(0)
    }
}

/// The program's side of a measurement.
pub(super) struct TwoCores<'a> {
    pair: QueuePair<NativeMemory, GroupedEpoch>,
    orders: &'a Orders,
    /// Of both sides.
    delays: [Delay; 2],
    /// When the time is over.
    end: Instant,
    burst: Burst,
    in_flight: usize,
    /// Of what was received, so that it is read.
    seen: u64,
}

impl TwoCores<'_> {
    /// Runs `work` on the program's CPU of `pair`, with a NIC on the other, until it is done; it has `effort.limit`.
    ///
    /// # Errors
    /// When there is no memory, a thread cannot be pinned, or `work` fails.
    pub(super) fn run<T: Send>(
        pair: Pair,
        effort: Effort,
        work: impl FnOnce(&mut TwoCores<'_>) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let layout = Layout::new(&Config::default())?;
        let region = Region::create(layout.size(), Pages::Small)?;
        host::format(&region.memory(), &layout);
        let (orders, (ready, started)) = (&Orders::default(), channel());
        let (region, layout) = (&region, &layout);
        std::thread::scope(|scope| {
            let nic = scope.spawn(move || serve((pair.nic, effort.priority), region, layout, orders, ready));
            let program = scope.spawn(move || {
                let _stop = StopAtEnd(orders);
                take(pair.program, effort.priority)?;
                let nic = started.recv().map_err(|_| anyhow!("the NIC's side has not started"))?;
                let mut this = TwoCores {
                    pair: QueuePair::new(region.memory(), layout, 0)?,
                    orders,
                    delays: [nic, Delay::of_this_thread()],
                    end: Instant::now() + effort.limit,
                    burst: Burst::new(),
                    in_flight: 0,
                    seen: 0,
                };
                this.warm_up()?;
                work(&mut this)
            });
            let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<_>>| {
                thread.join().map_err(|_| anyhow!("a measuring thread panicked"))
            };
            let result = join(program)?;
            nic.join().map_err(|_| anyhow!("a measuring thread panicked"))??;
            result
        })
    }

    /// Brings code and lines into the caches.
    fn warm_up(&mut self) -> anyhow::Result<()> {
        for load in Load::ALL {
            self.rate(load, Tuning::default(), Duration::from_micros(500))?;
        }
        Ok(())
    }

    /// Has both sides use a tuning.
    fn apply(&mut self, tuning: Tuning) -> anyhow::Result<()> {
        self.pair.set_tuning(tuning);
        self.orders.wanted.store(tuning.word(), Ordering::Release);
        let mut polls = 0;
        while self.orders.applied.load(Ordering::Acquire) != tuning.word() {
            self.wait(&mut polls)?;
        }
        Ok(())
    }

    /// After an empty poll.
    #[inline(always)]
    fn wait(&self, polls: &mut u32) -> anyhow::Result<()> {
        self.pair.relax();
        *polls += 1;
        if polls.is_multiple_of(POLLS) {
            ensure!(Instant::now() < self.end + PATIENCE, "one side has no CPU: other processes use it");
        }
        Ok(())
    }

    /// Sends at most `n` packets of `size` bytes.
    #[inline(always)]
    fn send(&mut self, n: usize, size: u16) {
        self.in_flight += self.pair.tx_fill(
            size,
            n,
            &mut self.burst,
            #[inline(always)]
            |i, bytes| {
                bytes.fill(BYTE);
                i as u64
            },
        );
    }

    /// Receives and reads what is there, at most a burst.
    #[inline(always)]
    fn receive(&mut self) -> anyhow::Result<usize> {
        let mut seen = self.seen;
        let n = self.pair.rx_lend(
            BURST,
            #[inline(always)]
            |_, bytes, _| seen ^= look(bytes),
        );
        let n = n.map_err(|_| anyhow!("a packet came back in several segments"))?;
        self.seen = seen;
        self.in_flight = self.in_flight.checked_sub(n).context("more packets came back than were sent")?;
        Ok(n)
    }

    /// Sends as fast as packets come back; returns packets per second.
    #[inline(always)]
    fn full(&mut self, slice: Duration, size: u16, window: usize) -> anyhow::Result<f64> {
        let (start, mut received, mut turns, mut polls) = (Instant::now(), 0, 0u32, 0);
        let rate = loop {
            if self.in_flight + BURST <= window {
                self.send(BURST, size);
            }
            let n = self.receive()?;
            received += n;
            if n == 0 {
                self.wait(&mut polls)?;
            }
            turns += 1;
            if turns.is_multiple_of(16) {
                let passed = start.elapsed();
                if passed >= slice {
                    break received as f64 / passed.as_secs_f64();
                }
            }
        };
        while self.in_flight > 0 {
            if self.receive()? == 0 {
                self.wait(&mut polls)?;
            }
        }
        Ok(rate)
    }

    /// Sends one packet at a time; returns round trips per second.
    #[inline(always)]
    fn lone(&mut self, slice: Duration) -> anyhow::Result<f64> {
        let (start, mut trips, mut polls) = (Instant::now(), 0u32, 0);
        loop {
            self.send(1, SMALL);
            while self.receive()? == 0 {
                self.wait(&mut polls)?;
            }
            trips += 1;
            if trips.is_multiple_of(16) {
                let passed = start.elapsed();
                if passed >= slice {
                    return Ok(f64::from(trips) / passed.as_secs_f64());
                }
            }
        }
    }
}

impl Machine for TwoCores<'_> {
    fn rate(&mut self, load: Load, tuning: Tuning, slice: Duration) -> anyhow::Result<Option<f64>> {
        self.apply(tuning)?;
        let waited = |delays: &[Delay; 2]| delays.iter().map(Delay::nanoseconds).sum::<u64>();
        let before = waited(&self.delays);
        let slice = if load == Load::Large { slice * LARGE_SLICES } else { slice };
        // As programs are compiled.
        let rate = Vectors::chosen().run(
            #[inline(always)]
            || match load {
                Load::Full => self.full(slice, SMALL, WINDOW),
                Load::Large => self.full(slice, LARGE, LARGE_WINDOW),
                Load::Lone => self.lone(slice),
            },
        )?;
        let waited = waited(&self.delays).saturating_sub(before);
        std::hint::black_box(self.seen);
        Ok((u128::from(waited) <= slice.as_nanos() / u128::from(DISTURBED)).then_some(rate))
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.end
    }
}

/// The NIC's side: polls as a worker does, until it is told to end.
fn serve(
    (cpu, priority): (usize, bool),
    region: &Region,
    layout: &Layout,
    orders: &Orders,
    ready: Sender<Delay>,
) -> anyhow::Result<()> {
    take(cpu, priority)?;
    let (mem, mut pipeline) = (region.memory(), Pipeline::default());
    let mut queue = NicQueue::<_, GroupedEpoch>::new(region.memory(), layout, 0)?;
    if ready.send(Delay::of_this_thread()).is_err() {
        return Ok(()); // the other side has failed, and says why
    }
    let (mut word, mut idle) = (Tuning::default().word(), IdleMode::default());
    loop {
        let wanted = orders.wanted.load(Ordering::Acquire);
        if wanted == STOP {
            return Ok(());
        }
        if wanted != word {
            let tuning = Tuning::from_word(wanted).context("the program's side wants no tuning")?;
            queue.set_tuning(tuning);
            (word, idle) = (wanted, tuning.idle);
            orders.applied.store(word, Ordering::Release);
        }
        Vectors::chosen().run(
            #[inline(always)]
            || {
                for _ in 0..POLLS_BETWEEN_ORDERS {
                    if loopback(&mut queue, &mut pipeline, &mem, false) == 0 && idle == IdleMode::Pause {
                        std::hint::spin_loop();
                    }
                }
            },
        );
    }
}

/// What a program does with a packet: reads all of it, and hashes its headers.
#[inline(always)]
fn look(packet: &[u8]) -> u64 {
    let words = packet.as_chunks::<8>().0;
    let all = words.iter().fold(0, |all, word| all ^ u64::from_le_bytes(*word));
    let headers = words.iter().take(HEADERS / 8);
    headers.fold(all, |hash, word| (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3)) // FNV-1a's
}

/// Pins this thread to a CPU; with `priority` before all others there, if the system lets it.
fn take(cpu: usize, priority: bool) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("could not pin a thread to CPU {cpu}"))?;
    if priority && let Err(e) = setpriority_process(None, HIGHEST) {
        tracing::debug!("measuring at ordinary priority: {e}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::placement::allowed_cpus;

    fn effort(limit: Duration) -> Effort {
        Effort { rounds: 1, slice: Duration::from_micros(200), limit, priority: false }
    }

    /// On one CPU the two sides share it, which the rule of disturbed rounds is for.
    fn pair() -> Pair {
        let cpus = allowed_cpus().unwrap();
        Pair { nic: cpus[cpus.len() - 1], program: cpus[0] }
    }

    #[test]
    fn both_loads_run_with_every_kind_of_tuning_and_lose_nothing() {
        TwoCores::run(pair(), effort(Duration::from_secs(60)), |cores| {
            for text in ["default", "fetch=read", "ahead=4", "demote=on", "demote=off", "idle=spin"] {
                for load in Load::ALL {
                    let rate = cores.rate(load, text.parse()?, Duration::from_micros(200))?;
                    assert!(
                        rate.is_none_or(|rate| rate.is_finite() && rate > 0.0),
                        "{load:?} {text}: {rate:?}"
                    );
                    assert_eq!(cores.in_flight, 0);
                    assert_eq!(cores.pair.tuning().word(), cores.orders.applied.load(Ordering::Acquire));
                }
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_failure_ends_both_sides() {
        let failed = TwoCores::run(pair(), effort(Duration::ZERO), |cores| -> anyhow::Result<()> {
            assert!(cores.is_late());
            anyhow::bail!("no")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no");
        let nowhere = Pair { nic: CpuSet::MAX_CPU - 1, ..pair() };
        let error = TwoCores::run(nowhere, effort(Duration::ZERO), |_| Ok(())).unwrap_err();
        assert!(format!("{error:#}").contains("pin a thread"), "{error:#}");
    }
}
