//! The native bursts, each in a function of its own, so that `ccnic-check/tests/asm.rs` can read their assembly. Those that programs
//! and the daemon run in the widest registers (`Vectors::run`) are run so here, too.
//!
//! With a number as argument it exchanges that many bursts of 32 packets, for a count of the instructions of
//! each function: `valgrind --tool=callgrind target/release/examples/bursts 1000`, then
//! `callgrind_annotate --inclusive=yes`.

use std::hint::black_box;

use ccnic::host::{KeptBuf, QueuePair};
use ccnic::nic::{
    FETCH, Fetched, NicQueue, OtherCores, Pipeline, Steered, deliver_handed, spread, spread_across,
};
use ccnic::ring::{GroupedClear, GroupedEpoch, Ring};
use ccnic::rss::{Rss, Spreader};
use ccnic::{Burst, Config, Desc, Layout, host};
use ccnic_shm::{NativeMemory, Pages, Region, Vectors};
use ccnic_testing::RegionMemory;

/// Another core that polls all queues but the first: what is handed over to it, in place of a queue between threads.
struct Elsewhere {
    descs: [Desc; FETCH],
    len: usize,
}

impl OtherCores for Elsewhere {
    #[inline(always)]
    fn local(&self, queue: u16) -> Option<usize> {
        (queue == 0).then_some(0)
    }
    #[inline(always)]
    fn hand_off(&mut self, _: usize, _: u16, packets: &[Desc]) -> usize {
        let room = self.descs.get_mut(self.len..).unwrap_or_default();
        let n = packets.len().min(room.len());
        room.iter_mut().zip(packets).for_each(|(slot, desc)| *slot = *desc);
        self.len += n;
        n
    }
    #[inline(always)]
    fn publish(&mut self) {}
}

macro_rules! audited {
    ($module:ident, $ring:ty) => {
        mod $module {
            use super::*;

            type Host = QueuePair<NativeMemory, $ring>;
            type Nic = NicQueue<NativeMemory, $ring>;

            #[inline(never)]
            pub(super) fn audit_alloc(host: &mut Host, burst: &mut Burst) -> usize {
                host.alloc(64, 32, burst)
            }
            #[inline(never)]
            pub(super) fn audit_free(host: &mut Host, burst: &mut Burst) {
                host.free(burst);
            }
            #[inline(never)]
            pub(super) fn audit_tx(vectors: Vectors, host: &mut Host, burst: &mut Burst) -> usize {
                vectors.run(
                    #[inline(always)]
                    || host.tx_burst(burst),
                )
            }
            #[inline(never)]
            pub(super) fn audit_rx(vectors: Vectors, host: &mut Host, burst: &mut Burst) -> usize {
                vectors.run(
                    #[inline(always)]
                    || host.rx_burst(burst, 32),
                )
            }
            #[inline(never)]
            pub(super) fn audit_send_small(
                vectors: Vectors,
                host: &mut Host,
                burst: &mut Burst,
                packets: &[&[u8]],
            ) -> usize {
                vectors.run(
                    #[inline(always)]
                    || host.tx_small(64, packets.iter().map(|packet| (*packet, 0)), burst),
                )
            }
            #[inline(never)]
            pub(super) fn audit_receive_small(vectors: Vectors, host: &mut Host) -> usize {
                let mut bytes = 0;
                let n = vectors.run(
                    #[inline(always)]
                    || host.rx_small(32, |_, packet, _| bytes += packet.len()),
                );
                n.map_or(0, |n| n + bytes)
            }
            /// The program's closures must be compiled for wide registers, too.
            #[inline(never)]
            pub(super) fn audit_fill(
                vectors: Vectors,
                host: &mut Host,
                burst: &mut Burst,
                line: &[u8; 64],
            ) -> usize {
                vectors.run(
                    #[inline(always)]
                    || {
                        host.tx_fill(
                            1024,
                            32,
                            burst,
                            #[inline(always)]
                            |_, to| {
                                to.as_chunks_mut().0.iter_mut().for_each(|to| *to = *line);
                                0
                            },
                        )
                    },
                )
            }
            #[inline(never)]
            pub(super) fn audit_kept(
                vectors: Vectors,
                host: &mut Host,
                headers: &mut Burst,
                value: &KeptBuf,
            ) -> usize {
                vectors.run(
                    #[inline(always)]
                    || host.tx_kept(headers, [[value.whole()]; 16]),
                )
            }
            #[inline(never)]
            pub(super) fn audit_lend(vectors: Vectors, host: &mut Host) -> usize {
                let mut bytes = 0;
                let n = vectors.run(
                    #[inline(always)]
                    || {
                        host.rx_lend(
                            32,
                            #[inline(always)]
                            |_, packet, _| bytes += packet.len(),
                        )
                    },
                );
                n.map_or(0, |n| n + bytes)
            }
            #[inline(never)]
            pub(super) fn audit_fetch(vectors: Vectors, nic: &mut Nic, fetched: &mut Fetched) -> usize {
                vectors.run(
                    #[inline(always)]
                    || nic.fetch(fetched),
                )
            }
            #[inline(never)]
            pub(super) fn audit_deliver(
                vectors: Vectors,
                nic: &mut Nic,
                from: &NativeMemory,
                fetched: &Fetched,
            ) -> usize {
                vectors.run(
                    #[inline(always)]
                    || nic.deliver(from, fetched.rest(), &[]),
                )
            }
            #[inline(never)]
            pub(super) fn audit_complete(nic: &mut Nic, fetched: &Fetched) {
                nic.complete(fetched.rest());
            }
            #[inline(never)]
            pub(super) fn audit_flush(nic: &mut Nic) {
                nic.flush();
            }
            #[inline(never)]
            pub(super) fn audit_spread(
                vectors: Vectors,
                nics: &mut [Nic],
                at: usize,
                pipeline: &mut Pipeline,
                mem: &NativeMemory,
                by: &Spreader,
            ) -> usize {
                vectors.run(
                    #[inline(always)]
                    || spread(nics, at, pipeline, mem, by, false),
                )
            }
            #[inline(never)]
            pub(super) fn audit_spread_across(
                vectors: Vectors,
                nics: &mut [Nic],
                pipeline: &mut Pipeline,
                mem: &NativeMemory,
                by: &Spreader,
                others: &mut Elsewhere,
            ) -> usize {
                vectors.run(
                    #[inline(always)]
                    || spread_across(nics, 0, pipeline, mem, by, false, others),
                )
            }
            #[inline(never)]
            pub(super) fn audit_deliver_handed(
                vectors: Vectors,
                nics: &mut [Nic],
                mem: &NativeMemory,
                steered: &mut Steered,
                reflect: bool,
            ) {
                vectors.run(
                    #[inline(always)]
                    || deliver_handed(nics, |queue| (queue == 1).then_some(0), mem, steered, reflect),
                );
            }

            /// `rounds` bursts of 32 packets sent and received back.
            pub(super) fn run(rounds: usize) {
                let Some((mut host, nic, mem)) = pair::<$ring>() else { return };
                let (mut nics, vectors) = ([nic], Vectors::chosen());
                let (mut burst, mut fetched) = (Burst::new(), Fetched::default());
                let by = Spreader::new(black_box(Rss::new(1)));
                let away = Spreader::new(black_box(Rss { table: [1; 128], ..Rss::new(1) }));
                let (mut pipeline, small) = (Pipeline::default(), [&[1u8; 64][..]; 32]);
                host.alloc(500, 1, &mut burst);
                let Some(value) = burst.pop().map(|buf| host.keep(buf)) else { return };
                for _ in 0..rounds {
                    let [nic] = &mut nics;
                    audit_alloc(&mut host, &mut burst);
                    assert_eq!(audit_tx(vectors, &mut host, &mut burst), 32);
                    audit_fetch(vectors, nic, &mut fetched);
                    let n = audit_deliver(vectors, nic, &mem, black_box(&fetched));
                    audit_complete(nic, &fetched);
                    audit_flush(nic);
                    assert_eq!(n, audit_rx(vectors, &mut host, &mut burst));
                    audit_tx(vectors, &mut host, &mut burst);
                    let n = all(|| audit_spread(vectors, &mut nics, 0, &mut pipeline, &mem, &by));
                    assert_eq!(n, audit_rx(vectors, &mut host, &mut burst));
                    audit_free(&mut host, &mut burst);
                    assert_eq!(audit_send_small(vectors, &mut host, &mut burst, black_box(&small)), 32);
                    assert_eq!(all(|| audit_spread(vectors, &mut nics, 0, &mut pipeline, &mem, &by)), 32);
                    assert!(all(|| audit_receive_small(vectors, &mut host)) > 0);
                    assert_eq!(audit_fill(vectors, &mut host, &mut burst, black_box(&[1; 64])), 32);
                    assert_eq!(all(|| audit_spread(vectors, &mut nics, 0, &mut pipeline, &mem, &by)), 32);
                    assert!(all(|| audit_lend(vectors, &mut host)) > 0);
                    host.alloc(64, 16, &mut burst);
                    assert_eq!(audit_kept(vectors, &mut host, &mut burst, &value), 16);
                    assert_eq!(all(|| audit_spread(vectors, &mut nics, 0, &mut pipeline, &mem, &by)), 32);
                    assert_eq!(audit_rx(vectors, &mut host, &mut burst), 16);
                    audit_free(&mut host, &mut burst);
                    audit_alloc(&mut host, &mut burst);
                    assert_eq!(audit_tx(vectors, &mut host, &mut burst), 32);
                    let mut others = Elsewhere { descs: [Desc::default(); FETCH], len: 0 };
                    let across =
                        || audit_spread_across(vectors, &mut nics, &mut pipeline, &mem, &away, &mut others);
                    assert_eq!(all(across), 32);
                    let mut steered = Steered::default();
                    others.descs.iter().take(others.len).for_each(|desc| _ = steered.push(*desc, 1));
                    audit_deliver_handed(vectors, &mut nics, &mem, &mut steered, black_box(false));
                    nics.iter_mut().for_each(|nic| nic.handed_over(others.len));
                    assert_eq!(audit_rx(vectors, &mut host, &mut burst), 32);
                    audit_free(&mut host, &mut burst);
                }
                assert!(host.free_kept(value).is_ok());
            }
        }
    };
}

/// What the NIC's polls bring until one brings nothing: a poll takes what it finds, which may be a part.
fn all(poll: impl FnMut() -> usize) -> usize {
    std::iter::repeat_with(poll).take_while(|n| *n > 0).sum()
}

/// Both sides of a queue pair, and the memory for the NIC's copies.
type Pair<R> = (QueuePair<NativeMemory, R>, NicQueue<NativeMemory, R>, NativeMemory);

fn pair<R: Ring>() -> Option<Pair<R>> {
    let config = black_box(Config { design: R::DESIGN, ..Config::default() });
    let layout = Layout::new(&config).ok()?;
    let region = Region::create(layout.size(), Pages::Small).ok()?;
    host::format(&region.memory(), &layout);
    let host = QueuePair::new(region.memory(), &layout, 0).ok()?;
    Some((host, NicQueue::new(region.memory(), &layout, 0).ok()?, region.memory()))
}

audited!(epoch, GroupedEpoch);
audited!(clear, GroupedClear);

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    epoch::run(rounds);
    clear::run(rounds);
}
