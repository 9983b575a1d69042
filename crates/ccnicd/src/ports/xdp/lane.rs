//! A queue of an interface: its socket, and which of its frames are where.
//!
//! The first half of a lane's frames is to receive into, the other half to send from; each has as many as a ring has entries, so that no ring of the
//! kernel is ever too small for what is put into it.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use ccnic_control::messages::QueueStatus;
use ccnic_shm::NativeMemory;
use ccnic_shm::xdp::{FRAME, OpenError, Options, Socket};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::ports::unsent::Unsent;

/// Calls that wake the kernel in one turn: it sends 32 packets in each. What is left waits for the next turn.
const CALLS: usize = 64;

/// Bytes of the UMEM of a lane whose rings have so many entries.
pub(super) fn umem_bytes(ring: u32) -> u32 {
    2 * ring * FRAME
}

/// A queue.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) socket: Socket,
    /// Where its UMEM begins in the port's memory.
    pub(super) base: u32,
    pub(super) ring: u32,
    /// Frames to receive into that are not the kernel's: those of the last burst. Addresses in the UMEM.
    pub(super) held: Vec<u64>,
    /// Frames to send from that are free; the last one is taken next, for its lines may still be in a cache.
    pub(super) free: Vec<u64>,
    /// Of what was pushed since the last [`send`](Self::send).
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// The socket reports an error: it does not call any more, or all the time.
    dead: Cell<bool>,
}

impl Lane {
    /// Opens the socket of a queue, whose UMEM is the queue's own part of the port's memory.
    ///
    /// # Errors
    /// Which step has failed.
    pub(super) fn open(
        mem: &NativeMemory,
        interface: u32,
        queue: u32,
        ring: u32,
        how: How,
    ) -> Result<Lane, OpenError> {
        let base = queue * umem_bytes(ring);
        let umem = base..base + umem_bytes(ring);
        let How { zero_copy, segments } = how;
        let socket = Socket::open(mem, &Options { interface, queue, ring, umem, zero_copy, segments })?;
        Ok(Lane::of(socket, queue, ring))
    }

    /// The same of a socket that a helper has opened.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn adopt(
        mem: &NativeMemory,
        socket: OwnedFd,
        queue: u32,
        ring: u32,
    ) -> Result<Lane, OpenError> {
        Socket::adopt(socket, mem, ring).map(|socket| Lane::of(socket, queue, ring))
    }

    fn of(socket: Socket, queue: u32, ring: u32) -> Lane {
        let frames =
            |range: std::ops::Range<u32>| range.map(|frame| u64::from(frame) * u64::from(FRAME)).collect();
        Lane {
            socket,
            base: queue * umem_bytes(ring),
            ring,
            held: frames(0..ring),
            free: frames(ring..2 * ring),
            packets: 0,
            bytes: 0,
            dead: Cell::default(),
        }
    }

    /// Packets that came and that the kernel has dropped for want of room here.
    pub(super) fn missed(&self) -> u64 {
        self.socket.missed()
    }

    /// True when packets have come, the kernel has yet to be asked to send some, or it lacks frames to receive into: a new queue has none at
    /// all, so a worker that slept before its first look at it would never be called.
    pub(super) fn has_work(&self) -> bool {
        self.socket.rx.has_more() || !self.socket.tx.is_consumed() || !self.held.is_empty()
    }

    /// What the kernel calls by when packets come.
    pub(super) fn calls(&self) -> Option<PollFd<'_>> {
        (!self.dead.get()).then(|| PollFd::new(&self.socket, PollFlags::IN))
    }

    /// What has become of [`calls`](Self::calls).
    pub(super) fn answered(&self, answer: &PollFd<'_>) {
        self.dead.set(answer.revents().intersects(PollFlags::ERR | PollFlags::NVAL));
    }

    /// Takes back the frames that the kernel has sent.
    pub(super) fn reclaim(&mut self) {
        let (first, ring) = (u64::from(self.ring) * u64::from(FRAME), self.ring);
        let done = self.socket.completion.available();
        for at in 0..done {
            let Some(addr) = self.socket.completion.peek(at) else { break };
            let frame = addr - addr % u64::from(FRAME);
            // Nothing else comes from a kernel that works; were it otherwise, frames would be lost, and no more.
            if (first..2 * first).contains(&frame) && self.free.len() < ring as usize {
                self.free.push(frame);
            }
        }
        self.socket.completion.release(done);
    }

    /// Between bursts: sees to what the kernel had no time or room to send.
    #[inline(always)]
    pub(super) fn settle(&mut self, counters: &mut QueueStatus) {
        if self.free.len() < self.ring as usize {
            self.reclaim();
            if self.socket.tx.waiting() > 0 {
                self.wake(counters);
            }
        }
    }

    /// Has the kernel send what was pushed.
    #[inline(always)]
    pub(super) fn send(&mut self, counters: &mut QueueStatus) {
        if self.packets > 0 {
            counters.rx_packets += std::mem::take(&mut self.packets);
            counters.rx_bytes += std::mem::take(&mut self.bytes);
            self.socket.tx.publish();
            self.wake(counters);
        }
    }

    /// Wakes the kernel, if it is to be woken, until it has sent all or cannot send more now.
    fn wake(&mut self, counters: &mut QueueStatus) {
        if !self.socket.tx.needs_wakeup() {
            return;
        }
        let mut waiting = self.socket.tx.waiting();
        for _ in 0..CALLS {
            match self.socket.wake_for_sending() {
                Ok(()) => return,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::BUSY) => {
                    // It has taken a packet that the driver did not.
                    counters.rx_packets = counters.rx_packets.saturating_sub(1);
                    Unsent::Refused.count(counters, 1);
                }
                Err(Errno::NOBUFS | Errno::NOMEM) => return,
                Err(_) => return self.take_back(counters),
            }
            let left = self.socket.tx.waiting();
            if left == 0 || left == waiting {
                return;
            }
            waiting = left;
        }
    }

    /// The interface is down, or gone: what it has not taken is dropped. (A driver that uses the memory itself may be looking at the ring;
    /// it keeps what it has.)
    #[cold]
    fn take_back(&mut self, counters: &mut QueueStatus) {
        if self.socket.zero_copy() {
            return;
        }
        while let Some(piece) = self.socket.tx.unpublish() {
            let packets = u64::from(!piece.more());
            counters.rx_packets = counters.rx_packets.saturating_sub(packets);
            counters.rx_bytes = counters.rx_bytes.saturating_sub(piece.len.into());
            Unsent::Down.count(counters, packets);
            self.free.push(piece.addr);
        }
    }
}

/// How a socket is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct How {
    pub(super) zero_copy: bool,
    pub(super) segments: bool,
}
