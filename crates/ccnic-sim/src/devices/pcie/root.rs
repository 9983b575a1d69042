//! The root complex: what a device does to memory goes through the host's caches here, in the order in which it came.
//!
//! A core of its own number stands for the root complex: it asks homes for lines as cores do, and is asked for them. For each
//! line that a device writes it asks for ownership at once (without data for a whole line), but it writes in order of arrival:
//! so many lines are under way together, and yet nobody sees a write before those that came earlier. What it has written goes
//! to the last-level cache at once (DDIO): in place where the line was there, else into the ways for devices.
//! Reads take a copy and leave nothing behind. A completion for a core waits for the writes before it; so does a read of a line
//! that is being written.

use std::collections::VecDeque;

use ccnic::memory::{LINE, lines};

use super::Action;
use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::core::Miss;
use crate::machine::directory::{NOBODY, NONE};
use crate::protocols::{Request, State};

/// A packet from the device.
#[derive(Debug)]
pub enum Packet {
    /// A posted write.
    Write { at: u32, data: Vec<u8> },
    /// A read request, by number.
    Read(u32),
    /// The completion of a core's read.
    Completion { core: u8, value: u64 },
}

/// What waits for its turn.
#[derive(Debug)]
enum Entry {
    Write(Piece),
    Read(u32),
    Completion { core: u8, value: u64 },
}

/// What a write does to one line.
#[derive(Debug)]
struct Piece {
    line: u32,
    from: usize,
    len: usize,
    bytes: [u8; LINE as usize],
}

impl Piece {
    fn whole(&self) -> bool {
        self.len == LINE as usize
    }
}

/// A line that is wanted for writes.
#[derive(Debug)]
struct Held {
    line: u32,
    /// Writes of the queue to it.
    writes: u32,
    /// The last-level cache had it.
    hit: bool,
}

/// What has reached the root complex and is not done.
#[derive(Debug, Default)]
pub struct Root {
    queue: VecDeque<Entry>,
    held: Vec<Held>,
    /// Lines to write in the queue.
    lines: usize,
    /// Packets that found too many of them.
    blocked: VecDeque<Packet>,
    /// When the last line was written.
    pub last: Ps,
}

impl Root {
    /// Packets and lines that are not done.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.blocked.len() + self.held.len()
    }
}

impl World {
    /// A packet from the device is there.
    pub(crate) fn reach_root(&mut self, packet: Packet) {
        let Some(pcie) = &mut self.pcie else { return };
        if pcie.root.lines >= pcie.costs.write_lines || !pcie.root.blocked.is_empty() {
            pcie.root.blocked.push_back(packet);
            return;
        }
        self.take_packet(packet);
        self.write_in_order();
    }

    fn take_packet(&mut self, packet: Packet) {
        let Some(pcie) = &mut self.pcie else { return };
        match packet {
            Packet::Completion { core, value } => {
                pcie.root.queue.push_back(Entry::Completion { core, value })
            }
            Packet::Read(request) => {
                let (at, len) = pcie.dma.place(request);
                let written = |line| pcie.root.held.iter().any(|h| h.line == line / LINE);
                if lines(at, len).any(written) {
                    pcie.root.queue.push_back(Entry::Read(request));
                } else {
                    self.read_lines_for(request);
                }
            }
            Packet::Write { at, data } => {
                let mut rest = data.as_slice();
                for line in lines(at, data.len() as u32) {
                    let from = at.max(line) - line;
                    let (now, later) = rest.split_at(rest.len().min((LINE - from) as usize));
                    rest = later;
                    let (from, len, mut bytes) = (from as usize, now.len(), [0; LINE as usize]);
                    bytes[from..from + len].copy_from_slice(now);
                    self.want_line(Piece { line: line / LINE, from, len, bytes });
                }
            }
        }
    }

    /// A write of a line takes its place, and the line is asked for.
    fn want_line(&mut self, piece: Piece) {
        let (line, whole) = (piece.line, piece.whole());
        let Some(pcie) = &mut self.pcie else { return };
        pcie.root.queue.push_back(Entry::Write(piece));
        pcie.root.lines += 1;
        if let Some(held) = pcie.root.held.iter_mut().find(|h| h.line == line) {
            held.writes += 1;
            return;
        }
        let core = pcie.core;
        let hit = self.lines.look(line).llc & 1 << self.cores[core as usize].socket != 0;
        pcie.root.held.push(Held { line, writes: 1, hit });
        if !self.cores[core as usize].state(line).owned() {
            self.own_line(core, line, whole);
        }
    }

    fn own_line(&mut self, core: u8, line: u32, whole: bool) {
        let request = if whole && self.costs.dataless { Request::OwnWhole } else { Request::Own };
        let txn = self.ask(core, line, request, self.now);
        self.cores[core as usize].misses.push(Miss { txn, ..Miss::new(line, request) });
    }

    /// What the root complex asked for is there.
    pub(crate) fn root_filled(&mut self, txn: u32) {
        let t = self.txns[txn as usize];
        self.end_txn(txn);
        if let Some(trace) = &mut self.trace {
            let (socket, home) = (self.cores[t.core as usize].socket, self.lines.home(t.line));
            trace.answered(txn, &t, socket, home, self.now);
        }
        if t.request == Request::Peek {
            self.line_read(txn, t.line);
        } else {
            // It stays expected until all writes to it are done; until then whoever asks for it waits. The transaction is over.
            if let Some(miss) = self.cores[t.core as usize].miss(t.line) {
                miss.txn = NONE;
            }
            self.place(t.core, t.line, t.grant);
            self.write_in_order();
        }
    }

    /// Does what is at the front of the queue, as far as it can be done now.
    fn write_in_order(&mut self) {
        loop {
            let Some(pcie) = &mut self.pcie else { return };
            let core = pcie.core;
            match pcie.root.queue.front() {
                None => break,
                Some(Entry::Write(piece)) => {
                    let (line, whole) = (piece.line, piece.whole());
                    let c = &self.cores[core as usize];
                    if !c.state(line).owned() {
                        if !c.expects(line) {
                            self.own_line(core, line, whole); // it was taken away again
                        }
                        break;
                    }
                }
                Some(_) => {}
            }
            match pcie.root.queue.pop_front() {
                Some(Entry::Write(piece)) => {
                    (pcie.root.lines, pcie.root.last) = (pcie.root.lines - 1, self.now);
                    let (at, bytes) = (piece.line * LINE, &piece.bytes[piece.from..piece.from + piece.len]);
                    self.bytes_mut(at + piece.from as u32, piece.len).copy_from_slice(bytes);
                    self.written(core, piece.line);
                    self.unblock();
                }
                Some(Entry::Read(request)) => self.read_lines_for(request),
                Some(Entry::Completion { core, value }) => {
                    let arrival = self.now + self.pcie.as_ref().map_or(0, |p| p.costs.to_root);
                    self.later(arrival, Action::ReadBack { core, value });
                }
                None => break,
            }
        }
    }

    /// Takes in packets that had no room.
    fn unblock(&mut self) {
        loop {
            let Some(pcie) = &mut self.pcie else { return };
            if pcie.root.lines >= pcie.costs.write_lines {
                return;
            }
            let Some(packet) = pcie.root.blocked.pop_front() else { return };
            self.take_packet(packet);
        }
    }

    /// A line has been written: whoever asks for it gets it; else it goes to the last-level cache, unless there is more to
    /// write to it.
    fn written(&mut self, core: u8, line: u32) {
        let Some(pcie) = &mut self.pcie else { return };
        let Some(i) = pcie.root.held.iter().position(|h| h.line == line) else { return };
        pcie.root.held[i].writes -= 1;
        let last = pcie.root.held[i].writes == 0;
        let hit = pcie.root.held[i].hit;
        if last {
            pcie.root.held.swap_remove(i);
        }
        let misses = &mut self.cores[core as usize].misses;
        let miss = misses.iter().position(|m| m.line == line);
        let deferred = miss.map_or(NONE, |i| misses[i].deferred);
        if let Some(i) = miss
            && (last || deferred != NONE)
        {
            misses.swap_remove(i);
        }
        if deferred != NONE {
            self.answer(deferred, core);
            if !last {
                self.own_line(core, line, false); // more is to come: do not wait until its turn
            }
        } else if last {
            self.cores[core as usize].caches.set_state(line, State::Invalid);
            let known = self.lines.get(line);
            (known.owner, known.sharers, known.forward) = (NOBODY, 0, NOBODY);
            let socket = self.cores[core as usize].socket;
            let ways = match &self.pcie {
                Some(pcie) if !hit => pcie.costs.ddio_ways,
                _ => u32::MAX,
            };
            self.keep_in_ways(socket, line, true, ways);
        }
    }

    /// Asks for the lines of a read request.
    fn read_lines_for(&mut self, request: u32) {
        let Some(pcie) = &self.pcie else { return };
        let (core, (at, len)) = (pcie.core, pcie.dma.place(request));
        for line in lines(at, len) {
            let txn = self.ask(core, line / LINE, Request::Peek, self.now);
            if let Some(pcie) = &mut self.pcie {
                pcie.dma.asked(txn, request);
            }
        }
    }
}
