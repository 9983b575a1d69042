//! The processor's side: sending and receiving active messages by way of each interface.
//!
//! CNI section 4.1: a processor that cannot send takes messages in and keeps them in its own memory, so that nodes do not wait for each
//! other in a circle. Queues in main memory need that only when they are about to overflow.

use std::collections::VecDeque;

use crate::bus::agent::Agent;
use crate::bus::buses::Cycle;
use crate::platform::Messaging;

use super::device::{DATA, MESSAGE_THERE, POP, READY, ROOM, STATUS};
use super::layout::{self, Kind};
use super::message::{HEADER, Header, PAYLOAD};
use super::queue::{Publish, Receiver, Sender};
use crate::bus::network::MESSAGE;
use ccnic::SharedMemory;

/// A message that has been received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Its header.
    pub header: Header,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A processor's hold on its network interface.
#[derive(Debug)]
pub struct Endpoint<'a> {
    /// The processor.
    pub cpu: Agent<'a>,
    kind: Kind,
    sender: Sender,
    receiver: Receiver,
    /// What a poll of the status register has shown, until it is used.
    status: u64,
    kept: VecDeque<Received>,
    /// Messages that had to be kept, because another one could not be sent.
    pub kept_in_all: u64,
    send: Cycle,
    receive: Cycle,
    copy: Cycle,
}

impl<'a> Endpoint<'a> {
    /// The processor's side of an interface that nobody has used yet.
    pub fn new(cpu: Agent<'a>, software: &Messaging, kind: Kind) -> Endpoint<'a> {
        Endpoint {
            cpu,
            kind,
            sender: Sender::new(layout::send(kind)),
            receiver: Receiver::new(layout::receive(kind)),
            status: 0,
            kept: VecDeque::new(),
            kept_in_all: 0,
            send: software.send.get().into(),
            receive: software.receive.get().into(),
            copy: software.copy.get().into(),
        }
    }

    /// Sends a message of at most [`PAYLOAD`] bytes.
    pub fn send(&mut self, to: usize, handler: u8, tag: u32, payload: &[u8]) {
        let header = Header { handler, from: self.cpu.node(), to, len: payload.len().min(PAYLOAD), tag };
        self.cpu.work(self.send);
        while !self.try_send(header, payload) {
            if self.overflows()
                && let Some(message) = self.take()
            {
                self.kept_in_all += 1;
                self.kept.push_back(message);
            } else {
                self.wait_for_room();
            }
        }
    }

    /// Sends bytes of any length in as many messages as they take; the tag of the last one is `last`, that of the others 0.
    pub fn send_bytes(&mut self, to: usize, handler: u8, last: u32, bytes: &[u8]) {
        let parts = bytes.chunks(PAYLOAD).count();
        for (i, part) in bytes.chunks(PAYLOAD).enumerate() {
            self.send(to, handler, if i + 1 == parts { last } else { 0 }, part);
        }
    }

    /// A message, if there is one.
    pub fn poll(&mut self) -> Option<Received> {
        if let Some(message) = self.kept.pop_front() {
            self.cpu.work(self.receive);
            return Some(message);
        }
        self.take()
    }

    /// Waits for a message.
    pub fn wait(&mut self) -> Received {
        loop {
            if let Some(message) = self.poll() {
                return message;
            }
            if self.kind.has_queues() {
                self.cpu.poll_words(&[self.receiver.valid_word(0)]);
            } else {
                self.status = self.cpu.poll_register(STATUS, MESSAGE_THERE);
            }
        }
    }

    /// Messages have to be taken in while none can be sent.
    fn overflows(&self) -> bool {
        !self.kind.in_memory() || self.receiver.has(&self.cpu, self.half()).is_some()
    }

    fn half(&self) -> u32 {
        layout::receive(self.kind).entries / 2
    }

    fn wait_for_room(&mut self) {
        let head = layout::send(self.kind).head;
        match self.kind {
            Kind::Ni2w | Kind::Cni4 => self.status = self.cpu.poll_register(STATUS, ROOM | MESSAGE_THERE),
            Kind::Cni16Qm => self.cpu.poll_words(&[head, self.receiver.valid_word(self.half())]),
            Kind::Cni16Q | Kind::Cni512Q => self.cpu.poll_words(&[head, self.receiver.valid_word(0)]),
        }
    }

    /// The status register has this bit. What a wait has seen is as good as a load.
    fn has(&mut self, bit: u64) -> bool {
        if std::mem::take(&mut self.status) & bit == 0 {
            return self.cpu.load_register(STATUS) & bit != 0;
        }
        true
    }

    fn try_send(&mut self, header: Header, payload: &[u8]) -> bool {
        let cpu = self.cpu;
        match self.kind {
            Kind::Ni2w => {
                if !self.has(ROOM) {
                    return false;
                }
                for word in header.with(payload).bytes[..header.size().next_multiple_of(8)].chunks(8) {
                    cpu.work(self.copy.saturating_sub(1)); // the store itself is the rest
                    cpu.store_register(DATA, word_of(word));
                }
            }
            Kind::Cni4 => {
                if !self.has(ROOM) {
                    return false;
                }
                // The blocks are used again and again: a queue of one message.
                let at = layout::send(self.kind).base;
                cpu.write(at, &header.with(payload).bytes[..header.size()]);
                cpu.store_register(READY, 1);
            }
            _ => {
                if !self.sender.has_room(&cpu) {
                    return false;
                }
                self.sender.send(&cpu, header, payload, Publish::Signal);
                cpu.store_register(READY, 1);
            }
        }
        true
    }

    fn take(&mut self) -> Option<Received> {
        let mut payload = Vec::new();
        let header = match self.kind {
            Kind::Ni2w => {
                if !self.has(MESSAGE_THERE) {
                    return None;
                }
                let (header, bytes) = self.load_message();
                payload.extend_from_slice(&bytes[HEADER..header.size()]);
                header
            }
            Kind::Cni4 => {
                if !self.has(MESSAGE_THERE) {
                    return None;
                }
                let (at, mut bytes) = (layout::receive(self.kind).base, [0; MESSAGE]);
                let len = Header::of(self.cpu.load(at)).size();
                self.cpu.read(at, &mut bytes[..len]);
                self.cpu.store_register(POP, 1);
                payload.extend_from_slice(&bytes[HEADER..len]);
                Header::read(&bytes)
            }
            _ => {
                let header = self.receiver.has(&self.cpu, 0)?;
                self.receiver.take(&self.cpu, header, &mut payload)
            }
        };
        self.cpu.work(self.receive);
        Some(Received { header, payload })
    }

    /// NI2w: a message from the data register, 8 bytes at a time.
    fn load_message(&self) -> (Header, [u8; MESSAGE]) {
        let mut bytes = [0; MESSAGE];
        let (mut at, mut size) = (0, HEADER);
        while at < size {
            bytes[at..at + 8].copy_from_slice(&self.cpu.load_register(DATA).to_le_bytes());
            self.cpu.work(self.copy);
            at += 8;
            size = Header::read(&bytes).size();
        }
        (Header::read(&bytes), bytes)
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
