//! DMA: transfers, cut into packets as PCIe prescribes; as many read requests are outstanding as there are tags.
//!
//! A descriptor of the interface has 16 bytes. Devices with larger ones move more over the link: a transfer has a scale, the ratio of
//! its bytes on the link to those in memory.

use ccnic::memory::LINE;

use super::link::first_piece;
use super::nic::Purpose;
use super::reads::{ReadRequest, Transfer};
use super::root::Packet;
use super::{Action, Pcie};
use crate::devices::Port;
use crate::machine::directory::PAGE;
use crate::machine::ids::TxnId;

impl Pcie {
    /// The device writes to memory.
    pub(super) fn dma_write(&mut self, port: &mut Port<'_>, at: u32, data: &[u8], scale: u32) {
        let (mut at, mut rest) = (at, data);
        while !rest.is_empty() {
            let page = PAGE - at % PAGE;
            let most = (self.costs.payload / scale).min(page);
            let n = first_piece(at, rest.len() as u32, most, LINE);
            let (now, later) = rest.split_at(n as usize);
            let sent = self.up.send(port.now(), n * scale + self.costs.write_header, &self.costs);
            let arrival = sent + self.costs.up;
            self.later(port, arrival, Action::Up(Packet::Write { at, data: now.to_vec() }));
            (at, rest) = (at + n, later);
        }
    }

    /// The device reads memory; what it has read goes to the purpose.
    pub(super) fn dma_read(&mut self, port: &mut Port<'_>, at: u32, len: u32, scale: u32, purpose: Purpose) {
        let data = vec![0; len as usize];
        let transfer = self.dma.transfers.add(Transfer { at, data, scale, left: 0, purpose });
        let (mut at, mut len) = (at, len);
        let mut left = 0;
        while len > 0 {
            let n = first_piece(at, len, (self.costs.read_request / scale).min(PAGE - at % PAGE), LINE);
            let request = ReadRequest { transfer, at, len: n, done: 0, sent: 0, arrived: 0 };
            let request = self.dma.requests.add(request);
            self.dma.waiting.push_back(request);
            (at, len, left) = (at + n, len - n, left + 1);
        }
        if let Some(transfer) = self.dma.transfers.get_mut(transfer) {
            transfer.left = left;
        }
        self.send_requests(port);
    }

    /// Sends the read requests for which there are tags.
    fn send_requests(&mut self, port: &mut Port<'_>) {
        while self.dma.tags < self.costs.tags
            && let Some(request) = self.dma.waiting.pop_front()
        {
            self.dma.tags += 1;
            self.dma.most_tags = self.dma.most_tags.max(self.dma.tags);
            let sent = self.up.send(port.now(), self.costs.read_header, &self.costs);
            let arrival = sent + self.costs.up;
            self.later(port, arrival, Action::Up(Packet::Read(request)));
        }
    }

    /// The root complex has a line of a read request: copies its bytes, and sends the completions that are whole, in order.
    pub(super) fn line_read(&mut self, port: &mut Port<'_>, txn: TxnId, line: u32) {
        let Some(number) = self.dma.by_txn.get(txn as usize).copied() else { return };
        let Some(request) = self.dma.requests.get_mut(number) else { return };
        let Some(transfer) = self.dma.transfers.get_mut(request.transfer) else { return };
        let (from, to) = (request.at.max(line * LINE), (request.at + request.len).min((line + 1) * LINE));
        let bytes = port.bytes(from, (to - from) as usize);
        let first = (from - transfer.at) as usize;
        transfer.data[first..first + bytes.len()].copy_from_slice(bytes);
        request.done |= 1 << (line - request.at / LINE);
        let scale = transfer.scale;
        while let Some(n) = self.next_completion(number, scale) {
            let costs = &self.costs;
            let arrival = self.down.send(port.now(), n * scale + costs.completion_header, costs) + costs.down;
            self.later(port, arrival, Action::Data { request: number, bytes: n });
        }
    }

    /// The bytes of a request's next completion, if all of its lines are here.
    fn next_completion(&mut self, number: u32, scale: u32) -> Option<u32> {
        let request = self.dma.requests.get_mut(number)?;
        let (at, left) = (request.at + request.sent, request.len - request.sent);
        if left == 0 {
            return None;
        }
        // PCIe's read completion boundary is a line.
        let n = first_piece(at, left, self.costs.payload / scale, LINE);
        let (first, last) = (at / LINE, (at + n - 1) / LINE);
        let lines = (u128::MAX >> (127 - (last - first))) << (first - request.at / LINE);
        if request.done & lines != lines {
            return None;
        }
        request.sent += n;
        Some(n)
    }

    /// A completion has reached the device.
    pub(super) fn data_arrived(&mut self, port: &mut Port<'_>, number: u32, bytes: u32) {
        let Some(request) = self.dma.requests.get_mut(number) else { return };
        request.arrived += bytes;
        if request.arrived < request.len {
            return;
        }
        let transfer = request.transfer;
        self.dma.requests.take(number);
        self.dma.tags -= 1;
        let Some(whole) = self.dma.transfers.get_mut(transfer) else { return };
        whole.left -= 1;
        let done = if whole.left == 0 { self.dma.transfers.take(transfer) } else { None };
        self.send_requests(port);
        if let Some(transfer) = done {
            self.read_done(port, transfer.purpose, &transfer.data);
        }
        self.run_engine(port);
    }
}
