//! What a device does to the host's memory: transfers, cut into packets as PCIe wants it; reads are as many at once as there are
//! tags.
//!
//! A descriptor of the interface has 16 bytes. Devices with larger ones move more over the link: a transfer has a scale, by
//! which its bytes on the link exceed those in memory.

use std::collections::VecDeque;

use ccnic::memory::LINE;

use super::Action;
use super::link::first_piece;
use super::nic::Purpose;
use super::root::Packet;
use crate::machine::World;
use crate::machine::directory::{NONE, PAGE};

/// A read of the host's memory.
#[derive(Debug)]
struct Transfer {
    at: u32,
    data: Vec<u8>,
    scale: u32,
    /// Requests not completed.
    left: u32,
    purpose: Purpose,
}

/// A read request: one packet, completed by one or more.
#[derive(Debug, Clone, Copy)]
struct Request {
    transfer: u32,
    at: u32,
    len: u32,
    /// Lines that the root complex has, counted from the first.
    done: u128,
    /// Bytes sent in completions, and arrived.
    sent: u32,
    arrived: u32,
}

/// Things by number; numbers are used again.
#[derive(Debug)]
struct Numbered<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Numbered<T> {
    fn add(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(i) => {
                self.all[i as usize] = Some(item);
                i
            }
            None => {
                self.all.push(Some(item));
                self.all.len() as u32 - 1
            }
        }
    }

    fn get(&self, i: u32) -> Option<&T> {
        self.all.get(i as usize)?.as_ref()
    }

    fn get_mut(&mut self, i: u32) -> Option<&mut T> {
        self.all.get_mut(i as usize)?.as_mut()
    }

    fn take(&mut self, i: u32) -> Option<T> {
        let item = self.all.get_mut(i as usize)?.take();
        if item.is_some() {
            self.free.push(i);
        }
        item
    }
}

/// Reads under way.
#[derive(Debug, Default)]
pub struct Dma {
    transfers: Numbered<Transfer>,
    requests: Numbered<Request>,
    /// Requests that wait for a tag.
    waiting: VecDeque<u32>,
    /// Tags taken, and the most that were.
    tags: u32,
    pub most_tags: u32,
    /// The request that a transaction of the caches belongs to.
    by_txn: Vec<u32>,
}

impl Dma {
    /// The bytes that a request is for.
    pub fn place(&self, request: u32) -> (u32, u32) {
        self.requests.get(request).map_or((0, 0), |r| (r.at, r.len))
    }

    /// A transaction fetches a line for a request.
    pub fn asked(&mut self, txn: u32, request: u32) {
        let i = txn as usize;
        if self.by_txn.len() <= i {
            self.by_txn.resize(i + 1, NONE);
        }
        self.by_txn[i] = request;
    }

    /// Reads wait for a tag.
    pub fn is_short_of_tags(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl World {
    /// The device writes to memory.
    pub(crate) fn dma_write(&mut self, at: u32, data: &[u8], scale: u32) {
        let (mut at, mut rest) = (at, data);
        while !rest.is_empty() {
            let Some(pcie) = &mut self.pcie else { return };
            let page = PAGE - at % PAGE;
            let most = (pcie.costs.payload / scale).min(page);
            let n = first_piece(at, rest.len() as u32, most, LINE);
            let (now, later) = rest.split_at(n as usize);
            let sent = pcie.up.send(self.now, n * scale + pcie.costs.write_header, &pcie.costs);
            let arrival = sent + pcie.costs.up;
            self.later(arrival, Action::Up(Packet::Write { at, data: now.to_vec() }));
            (at, rest) = (at + n, later);
        }
    }

    /// The device reads memory; what it has read goes to the purpose.
    pub(crate) fn dma_read(&mut self, at: u32, len: u32, scale: u32, purpose: Purpose) {
        let Some(pcie) = &mut self.pcie else { return };
        let data = vec![0; len as usize];
        let transfer = pcie.dma.transfers.add(Transfer { at, data, scale, left: 0, purpose });
        let (mut at, mut len) = (at, len);
        let mut left = 0;
        while len > 0 {
            let n = first_piece(at, len, (pcie.costs.read_request / scale).min(PAGE - at % PAGE), LINE);
            let request = Request { transfer, at, len: n, done: 0, sent: 0, arrived: 0 };
            let request = pcie.dma.requests.add(request);
            pcie.dma.waiting.push_back(request);
            (at, len, left) = (at + n, len - n, left + 1);
        }
        if let Some(transfer) = pcie.dma.transfers.get_mut(transfer) {
            transfer.left = left;
        }
        self.send_requests();
    }

    /// Sends the read requests for which there are tags.
    fn send_requests(&mut self) {
        loop {
            let Some(pcie) = &mut self.pcie else { return };
            if pcie.dma.tags >= pcie.costs.tags {
                return;
            }
            let Some(request) = pcie.dma.waiting.pop_front() else { return };
            pcie.dma.tags += 1;
            pcie.dma.most_tags = pcie.dma.most_tags.max(pcie.dma.tags);
            let sent = pcie.up.send(self.now, pcie.costs.read_header, &pcie.costs);
            let arrival = sent + pcie.costs.up;
            self.later(arrival, Action::Up(Packet::Read(request)));
        }
    }

    /// The root complex has a line of a read request: takes its bytes, and sends the completions that are whole, in order.
    pub(crate) fn line_read(&mut self, txn: u32, line: u32) {
        let World { pcie: Some(pcie), memory, .. } = self else { return };
        let Some(number) = pcie.dma.by_txn.get(txn as usize).copied() else { return };
        let Some(request) = pcie.dma.requests.get_mut(number) else { return };
        let Some(transfer) = pcie.dma.transfers.get_mut(request.transfer) else { return };
        let (from, to) = (request.at.max(line * LINE), (request.at + request.len).min((line + 1) * LINE));
        let bytes = &memory[from as usize..to as usize];
        let place = (from - transfer.at) as usize;
        transfer.data[place..place + bytes.len()].copy_from_slice(bytes);
        request.done |= 1 << (line - request.at / LINE);
        let scale = transfer.scale;
        loop {
            let Some(pcie) = &mut self.pcie else { return };
            let costs = &pcie.costs;
            let Some(request) = pcie.dma.requests.get_mut(number) else { return };
            let (at, left) = (request.at + request.sent, request.len - request.sent);
            if left == 0 {
                return;
            }
            let n = first_piece(at, left, costs.payload / scale, costs.boundary);
            let (first, last) = (at / LINE, (at + n - 1) / LINE);
            let wanted = (u128::MAX >> (127 - (last - first))) << (first - request.at / LINE);
            if request.done & wanted != wanted {
                return;
            }
            request.sent += n;
            let sent = pcie.down.send(self.now, n * scale + costs.completion_header, costs);
            let arrival = sent + costs.down;
            self.later(arrival, Action::Data { request: number, bytes: n });
        }
    }

    /// A completion has reached the device.
    pub(crate) fn data_arrived(&mut self, number: u32, bytes: u32) {
        let Some(pcie) = &mut self.pcie else { return };
        let Some(request) = pcie.dma.requests.get_mut(number) else { return };
        request.arrived += bytes;
        if request.arrived < request.len {
            return;
        }
        let transfer = request.transfer;
        pcie.dma.requests.take(number);
        pcie.dma.tags -= 1;
        let Some(whole) = pcie.dma.transfers.get_mut(transfer) else { return };
        whole.left -= 1;
        let done = if whole.left == 0 { pcie.dma.transfers.take(transfer) } else { None };
        self.send_requests();
        if let Some(transfer) = done {
            self.read_done(transfer.purpose, &transfer.data);
        }
        self.run_engine();
    }
}
