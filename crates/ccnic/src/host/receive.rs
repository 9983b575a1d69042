//! Receiving: from the ring to the program, by way of a private stage when it asks for little at a time.

use crate::buf::{Buf, Burst};
use crate::pool::Pool;
use crate::port::{Port, prefetch_payload};
use crate::ring::Consumer;

/// Descriptors that are taken from the ring at once, however few the program asks for: what lies ready then travels
/// while the program works on the first.
const STAGE: usize = 32;

/// The receiving end of a queue pair.
#[derive(Debug)]
pub(super) struct Receiver<C> {
    intake: Intake<C>,
    stage: Stage,
}

impl<C: Consumer> Receiver<C> {
    /// Receives from `ring`; `own` says that the program will write the received buffers next.
    pub(super) fn new(ring: C, own: bool) -> Receiver<C> {
        let intake = Intake { ring, own, vain: 0, taken: 0, bad_descriptor: 0 };
        Receiver { intake, stage: Stage::default() }
    }

    /// Receives the buffers of whole packets, at most `max` of them, into `to`; returns their number.
    #[inline(always)]
    pub(super) fn burst<P: Port>(&mut self, port: &P, pool: &mut Pool, to: &mut Burst, max: usize) -> usize {
        if self.stage.is_empty() {
            if max.min(to.space()) >= STAGE {
                return self.intake.take(port, pool, to, max);
            }
            self.intake.take(port, pool, self.stage.clear(), STAGE);
        }
        self.stage.hand_out(to, max)
    }

    /// Frees the packets that nobody has asked for.
    pub(super) fn abandon<P: Port>(&mut self, port: &P, pool: &mut Pool) {
        for buf in self.stage.rest() {
            pool.free(port, buf.desc().offset(), buf.class());
        }
        self.stage.clear();
    }

    /// Polls in vain since this was last asked.
    #[inline(always)]
    pub(super) fn vain(&mut self) -> u32 {
        core::mem::take(&mut self.intake.vain)
    }

    /// Descriptors taken from the ring since this was last asked.
    pub(super) fn taken(&mut self) -> usize {
        core::mem::take(&mut self.intake.taken)
    }

    /// Received descriptors that named no buffer of the region.
    pub(super) fn bad_descriptor(&self) -> u64 {
        self.intake.bad_descriptor
    }

    pub(super) fn ring(&self) -> &C {
        &self.intake.ring
    }
}

/// Takes descriptors from the ring, asks for their lines and checks them.
#[derive(Debug)]
struct Intake<C> {
    ring: C,
    own: bool,
    vain: u32,
    taken: usize,
    bad_descriptor: u64,
}

impl<C: Consumer> Intake<C> {
    #[inline(always)]
    fn take<P: Port>(&mut self, port: &P, pool: &mut Pool, to: &mut Burst, max: usize) -> usize {
        let n = self.ring.pop(port, to.places(max));
        if n == 0 {
            self.vain = self.vain.saturating_add(1);
            return 0;
        }
        self.taken += n;
        self.ring.release(port);
        if n == max {
            self.ring.prefetch(port, n); // a full burst: the next one is probably there already
        }
        let mut ok = true;
        for buf in to.places(n).iter() {
            let (desc, class) = (buf.desc(), buf.class());
            ok &= pool.holds(desc.offset(), u32::from(desc.len()), class);
            pool.received(desc.offset(), class);
            prefetch_payload(port, desc.offset(), u32::from(desc.len()), self.own);
        }
        let before = to.len();
        to.added(n);
        if !ok {
            self.drop_bad(pool, to);
        }
        to.len() - before
    }

    /// Drops received buffers that lie outside the pool: reading them would read something else.
    #[cold]
    #[inline(never)]
    fn drop_bad(&mut self, pool: &Pool, burst: &mut Burst) {
        let before = burst.len();
        burst.retain(|b| pool.holds(b.desc().offset(), u32::from(b.len()), b.class()));
        self.bad_descriptor += (before - burst.len()) as u64;
    }
}

/// Received buffers that wait to be asked for: a burst that is emptied from the front without moving the rest.
#[derive(Debug, Default)]
struct Stage {
    burst: Burst,
    next: usize,
}

impl Stage {
    /// True when nothing waits.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.next == self.burst.len
    }

    /// Readies an empty stage to be filled.
    #[inline(always)]
    fn clear(&mut self) -> &mut Burst {
        (self.next, self.burst.len) = (0, 0);
        &mut self.burst
    }

    fn rest(&self) -> &[Buf] {
        self.burst.bufs.get(self.next..self.burst.len).unwrap_or_default()
    }

    /// Moves whole packets, at most `max` buffers, to the end of `to`; returns their number.
    #[inline(always)]
    fn hand_out(&mut self, to: &mut Burst, max: usize) -> usize {
        let waiting = self.burst.bufs.get_mut(self.next..self.burst.len).unwrap_or_default();
        let most = max.min(to.space()).min(waiting.len());
        let n = waiting.iter().take(most).rposition(|buf| !buf.more()).map_or(0, |i| i + 1);
        for (place, buf) in to.places(n).iter_mut().zip(waiting) {
            core::mem::swap(place, buf);
        }
        to.added(n);
        self.next += n;
        n
    }
}
