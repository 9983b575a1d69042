//! The root complex: what a device does to memory goes through the host's caches here, in the order in which it arrived.
//!
//! The device's agent stands for the root complex: it asks home agents for lines as cores do, and is snooped for them. Ownership of
//! each line that a device writes is requested at once (without data for a whole line), but lines are written in order of
//! arrival: many requests overlap, and no agent sees a write before those that came earlier. A written line goes to the
//! last-level cache at once (DDIO): in place if it was there, else into the ways for devices.
//! Reads take a copy and leave nothing behind. A completion for a core waits for the writes before it, and so does a read of a line
//! that is being written.

use ccnic::memory::{LINE, lines};

use super::root::{Entry, Packet, Piece, Wanted};
use super::{Action, Pcie};
use crate::devices::Port;
use crate::protocols::table::Request;

impl Pcie {
    /// A packet from the device has arrived.
    pub(super) fn reach_root(&mut self, port: &mut Port<'_>, packet: Packet) {
        if self.root.lines >= self.costs.write_lines || !self.root.blocked.is_empty() {
            self.root.blocked.push_back(packet);
            return;
        }
        self.take_packet(port, packet);
        self.write_in_order(port);
    }

    fn take_packet(&mut self, port: &mut Port<'_>, packet: Packet) {
        match packet {
            Packet::Completion { core, value } => {
                self.root.queue.push_back(Entry::Completion { core, value });
            }
            Packet::Read(request) => {
                let (at, len) = self.dma.range(request);
                let written = |line| self.root.wanted.iter().any(|w| w.line == line / LINE);
                if lines(at, len).any(written) {
                    self.root.queue.push_back(Entry::Read(request));
                } else {
                    self.read_lines(port, request);
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
                    self.want_line(port, Piece { line: line / LINE, from, len, bytes });
                }
            }
        }
    }

    /// A write of a line is queued, and the line is requested.
    fn want_line(&mut self, port: &mut Port<'_>, piece: Piece) {
        let (line, whole) = (piece.line, piece.is_whole());
        self.root.queue.push_back(Entry::Write(piece));
        self.root.lines += 1;
        if let Some(wanted) = self.root.wanted.iter_mut().find(|w| w.line == line) {
            wanted.writes += 1;
            return;
        }
        self.root.wanted.push(Wanted { line, writes: 1, hit: port.is_in_llc(line) });
        if !port.owns(line) {
            port.request_to_write(line, whole);
        }
    }

    /// Does what is at the head of the queue, as far as it can be done now.
    pub(super) fn write_in_order(&mut self, port: &mut Port<'_>) {
        loop {
            if let Some(Entry::Write(piece)) = self.root.queue.front()
                && !port.owns(piece.line)
            {
                if !port.expects(piece.line) {
                    port.request_to_write(piece.line, piece.is_whole()); // it was taken away again
                }
                return;
            }
            match self.root.queue.pop_front() {
                Some(Entry::Write(piece)) => {
                    (self.root.lines, self.root.last) = (self.root.lines - 1, port.now());
                    let bytes = &piece.bytes[piece.from..piece.from + piece.len];
                    let at = piece.line * LINE + piece.from as u32;
                    port.bytes_mut(at, piece.len).copy_from_slice(bytes);
                    self.written(port, piece.line);
                    self.unblock(port);
                }
                Some(Entry::Read(request)) => self.read_lines(port, request),
                Some(Entry::Completion { core, value }) => {
                    let arrival = port.now() + self.costs.to_root;
                    self.later(port, arrival, Action::ReadBack { core, value });
                }
                None => return,
            }
        }
    }

    /// Takes in packets for which there was no room.
    fn unblock(&mut self, port: &mut Port<'_>) {
        while self.root.lines < self.costs.write_lines
            && let Some(packet) = self.root.blocked.pop_front()
        {
            self.take_packet(port, packet);
        }
    }

    /// A line has been written.
    fn written(&mut self, port: &mut Port<'_>, line: u32) {
        let Some(i) = self.root.wanted.iter().position(|w| w.line == line) else { return };
        let wanted = &mut self.root.wanted[i];
        wanted.writes -= 1;
        let (more, hit) = (wanted.writes > 0, wanted.hit);
        if !more {
            self.root.wanted.swap_remove(i);
        }
        port.write_done(line, more, hit);
    }

    /// Requests the lines of a read request.
    fn read_lines(&mut self, port: &mut Port<'_>, request: u32) {
        let (at, len) = self.dma.range(request);
        for line in lines(at, len) {
            let txn = port.request(line / LINE, Request::ReadCurrent);
            self.dma.requested(txn, request);
        }
    }
}
