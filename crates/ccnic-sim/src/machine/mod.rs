//! The simulated machine: cores, sockets, links, the directory, the bytes of memory, and what is going to happen.
//!
//! `execute` tells what cores do, `fabric` how requests travel, `protocol.rs` what homes and caches answer.

pub mod agent;
pub mod caches;
pub mod core;
pub mod costs;
pub mod directory;
pub mod home;
pub mod step;

use crate::devices::pcie::Pcie;
use crate::kernel::events::Events;
use crate::kernel::server::Server;
use crate::kernel::time::Ps;
use crate::machine::caches::Tags;
use crate::machine::core::Core;
use crate::machine::costs::Costs;
use crate::machine::directory::{Lines, NONE};
use crate::machine::home::Transaction;
use crate::observe::counters::{Counters, Traffic};
use crate::observe::trace::Trace;
use crate::observe::witness::{Commit, Rows};
use crate::platform::Platform;

/// A socket: what its cores share.
#[derive(Debug)]
pub struct Socket {
    /// The last-level cache. Its lines are clean or (`true`) newer than memory.
    pub llc: Tags<bool>,
    pub memory: Server,
    /// The direction of the link that leaves this socket.
    pub link: Server,
    /// The home agent, as it takes lines that the other socket writes around its caches.
    pub around: Server,
    /// Control messages that still fit in the headers of lines sent.
    pub spare: u32,
    pub traffic: Traffic,
}

/// The machine.
#[derive(Debug)]
pub struct World {
    /// The time of the last event.
    pub(crate) now: Ps,
    pub(crate) events: Events,
    pub(crate) cores: Vec<Core>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) lines: Lines,
    pub(crate) txns: Vec<Transaction>,
    pub(crate) free_txns: Vec<u32>,
    pub(crate) memory: Vec<u8>,
    pub(crate) costs: Costs,
    pub(crate) trace: Option<Box<Trace>>,
    pub(crate) pcie: Option<Box<Pcie>>,
    /// Lines that are mapped to the device, a bit each.
    pub(crate) mapped: Vec<u64>,
    /// For tests.
    pub(crate) rows: Rows,
    pub(crate) journal: Option<Vec<Commit>>,
    /// The run is over: programs are being taken down, and nothing takes time any more.
    pub(crate) ended: bool,
}

impl World {
    /// A machine with `bytes` bytes of memory and a core for each socket named in `cores`: whether it is a host core (0) or
    /// a NIC core (1) decides over its prefetchers.
    pub fn new(platform: &Platform, bytes: u32, cores: &[(u8, usize)]) -> World {
        let costs = Costs::of(platform);
        let sockets = if platform.topology.same_socket.get() { 1 } else { 2 };
        let llc_lines = platform.llc.size.get() * 1024 / 64;
        World {
            now: 0,
            events: Events::default(),
            cores: cores
                .iter()
                .map(|&(socket, side)| Core::new(platform, socket.min(sockets - 1), costs.prefetch[side & 1]))
                .collect(),
            sockets: (0..sockets)
                .map(|_| Socket {
                    llc: Tags::new(llc_lines, platform.llc.ways.get(), true),
                    memory: Server::default(),
                    link: Server::default(),
                    around: Server::default(),
                    spare: 0,
                    traffic: Traffic::default(),
                })
                .collect(),
            lines: Lines::new(bytes),
            txns: Vec::new(),
            free_txns: Vec::new(),
            memory: vec![0; bytes as usize],
            costs,
            trace: None,
            pcie: None,
            mapped: Vec::new(),
            rows: Rows::default(),
            journal: None,
            ended: false,
        }
    }

    /// Homes bytes in a socket; in a machine of one, there.
    pub fn set_home(&mut self, at: u32, bytes: u32, socket: u8) {
        let socket = socket.min(self.sockets.len() as u8 - 1);
        self.lines.set_home(at, bytes, socket);
    }

    /// The time of the last event.
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Sockets of the machine.
    pub fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// The counters of a core.
    pub fn counters(&self, core: usize) -> Counters {
        self.cores[core].counters
    }

    /// The traffic that leaves a socket.
    pub fn traffic(&self, socket: usize) -> Traffic {
        let s = &self.sockets[socket];
        Traffic { link_busy: s.link.busy(), memory_busy: s.memory.busy(), ..s.traffic }
    }

    /// A word of memory, as the last store to it left it.
    #[inline]
    pub fn word(&self, at: u32) -> u64 {
        let at = at as usize & !7;
        self.memory.get(at..at + 8).and_then(|w| w.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    /// Sets a word of memory.
    #[inline]
    pub fn set_word(&mut self, at: u32, value: u64) {
        let at = at as usize & !7;
        if let Some(word) = self.memory.get_mut(at..at + 8) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Replaces a word if it is `current`; otherwise says what it is.
    pub fn swap_word(&mut self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.word(at);
        if found != current {
            return Err(found);
        }
        self.set_word(at, new);
        Ok(found)
    }

    /// Bytes of memory.
    pub fn bytes(&self, at: u32, len: usize) -> &[u8] {
        &self.memory[at as usize..at as usize + len]
    }

    /// Bytes of memory, to change.
    pub fn bytes_mut(&mut self, at: u32, len: usize) -> &mut [u8] {
        &mut self.memory[at as usize..at as usize + len]
    }

    /// Sends a line over the link from a socket to the other; returns when it is there.
    pub fn send_line(&mut self, from: u8, at: Ps) -> Ps {
        let (line, one_way, spare) = (self.costs.line, self.costs.one_way, self.costs.spare);
        let s = &mut self.sockets[from as usize];
        s.traffic.lines += 1;
        s.spare = (s.spare + spare).min(64);
        let there = s.link.serve(at, line) + one_way;
        self.note_link(from);
        there
    }

    #[inline]
    fn note_link(&mut self, socket: u8) {
        if let Some(trace) = &mut self.trace {
            trace.link(socket, self.now, self.sockets[socket as usize].link.busy());
        }
    }

    /// Sends a control message: in the header of a line where there is room, in a flit of its own otherwise.
    pub fn send_control(&mut self, from: u8, at: Ps) -> Ps {
        let (control, one_way) = (self.costs.control, self.costs.one_way);
        let s = &mut self.sockets[from as usize];
        s.traffic.controls += 1;
        if s.spare > 0 {
            s.spare -= 1;
            return at + one_way;
        }
        let there = s.link.serve(at, control) + one_way;
        self.note_link(from);
        there
    }

    /// Reads a line from a socket's memory; returns when the data is there.
    pub fn read_memory(&mut self, socket: u8, at: Ps) -> Ps {
        let s = &mut self.sockets[socket as usize];
        s.traffic.memory_reads += 1;
        let load = s.memory.load(at);
        s.memory.serve(at, self.costs.memory_line) + self.costs.memory + extra(&self.costs.curve, load)
    }

    /// Writes a line to the memory that it is at home in, from a socket.
    pub fn write_memory(&mut self, line: u32, from: u8, at: Ps) {
        let home = self.lines.home(line);
        let at = if home == from { at } else { self.send_line(from, at) };
        let s = &mut self.sockets[home as usize];
        s.traffic.memory_writes += 1;
        s.memory.serve(at, self.costs.memory_line);
    }

    /// Writes a line from a core around the caches, when its home has said so (`granted`); returns when the core knows that the
    /// home has it. What comes from the other socket crosses the link and is taken at a rate of its own.
    pub(crate) fn put(&mut self, line: u32, core: u8, granted: Ps) -> Ps {
        let (home, from) = (self.lines.home(line), self.cores[core as usize].socket);
        if home == from {
            self.write_memory(line, home, granted);
            return granted;
        }
        let there = self.send_line(from, granted);
        let taken = self.sockets[home as usize].around.serve(there, self.costs.around);
        self.write_memory(line, home, taken);
        self.send_control(home, taken)
    }

    /// Puts a line into the last-level cache of a socket.
    pub fn keep_in_llc(&mut self, socket: u8, line: u32, dirty: bool) {
        self.keep_in_ways(socket, line, dirty, u32::MAX);
    }

    /// The same; a line that is new there goes into the first `ways` of its set.
    pub(crate) fn keep_in_ways(&mut self, socket: u8, line: u32, dirty: bool, ways: u32) {
        let bit = 1 << socket;
        let known = self.lines.get(line);
        known.llc |= bit;
        let dirty = dirty || known.dirty & bit != 0;
        if dirty {
            known.dirty |= bit;
        }
        let llc = &mut self.sockets[socket as usize].llc;
        if let Some(slot) = llc.set_state(line, dirty) {
            llc.touch(slot);
            return;
        }
        if let (_, Some((gone, was_dirty))) = llc.insert(line, dirty, ways, |_| false) {
            let known = self.lines.get(gone);
            known.llc &= !bit;
            known.dirty &= !bit;
            if was_dirty {
                self.write_memory(gone, socket, self.now);
            }
        }
    }

    /// Takes a line out of all last-level caches. What they had newer than memory goes on with whoever gets the line.
    pub fn drop_from_llc(&mut self, line: u32) {
        let known = self.lines.get(line);
        let llc = known.llc;
        (known.llc, known.dirty) = (0, 0);
        for socket in 0..self.sockets.len() {
            if llc & 1 << socket != 0 {
                self.sockets[socket].llc.remove(line);
            }
        }
    }

    /// A new transaction.
    pub(crate) fn new_txn(&mut self, txn: Transaction) -> u32 {
        match self.free_txns.pop() {
            Some(i) => {
                self.txns[i as usize] = txn;
                i
            }
            None => {
                self.txns.push(txn);
                self.txns.len() as u32 - 1
            }
        }
    }

    /// Ends a transaction.
    pub(crate) fn end_txn(&mut self, txn: u32) {
        debug_assert_ne!(txn, NONE);
        self.free_txns.push(txn);
    }
}

/// The extra latency of memory at a share of its rate, between the points of the curve.
fn extra(curve: &[(f64, Ps)], load: f64) -> Ps {
    let above = curve.iter().position(|(share, _)| *share > load);
    match above {
        None => curve.last().map_or(0, |p| p.1),
        Some(0) => 0,
        Some(i) => {
            let ((x0, y0), (x1, y1)) = (curve[i - 1], curve[i]);
            y0 + ((load - x0) / (x1 - x0) * (y1 - y0) as f64) as Ps
        }
    }
}
