//! A program and a NIC that sends its messages back, over two cachable queues in any [`SharedMemory`]: simulated cores, processors on a
//! bus, threads. What CNI's devices are when the NIC is software, as CC-NIC's is.

use ccnic::SharedMemory;

use super::message::{Header, PAYLOAD};
use super::queue::{Publish, Receiver, Sender, Shape};
use crate::bus::node::BLOCK;

/// The two queues, and where they lie: first what the program writes, then, on pages of its own, what the NIC writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    to_nic: Shape,
    to_program: Shape,
    /// Where that of the NIC begins.
    middle: u32,
}

impl Queues {
    /// Two queues of so many blocks each: a power of two from 4 on.
    pub fn new(blocks: u32) -> Queues {
        const PAGE: u32 = 4096;
        let bytes = blocks * BLOCK;
        // A head is written by the receiver, so it lies beside the queue that the receiver sends by.
        let middle = (bytes + BLOCK).next_multiple_of(PAGE);
        let entries = bytes / super::message::ENTRY;
        Queues {
            to_nic: Shape { base: 0, head: middle + bytes, entries },
            to_program: Shape { base: middle, head: bytes, entries },
            middle,
        }
    }

    /// Bytes of both.
    pub fn bytes(&self) -> u32 {
        2 * self.middle
    }

    /// What the NIC writes, from here to the end.
    pub fn of_nic(&self) -> u32 {
        self.middle
    }

    /// Messages that each holds.
    pub fn entries(&self) -> u32 {
        self.to_nic.entries
    }
}

/// The program's side: numbered messages, checked when they come back.
#[derive(Debug)]
pub struct Program<M> {
    mem: M,
    sender: Sender,
    receiver: Receiver,
    payload: Vec<u8>,
    wanted: Vec<u8>,
    back: Vec<u8>,
    sent: u32,
    received: u32,
    /// Messages that came back damaged or out of order.
    pub wrong: u64,
}

impl<M: SharedMemory> Program<M> {
    /// Over queues that nobody has used. `size`: bytes of a message, at most [`PAYLOAD`].
    pub fn new(mem: M, queues: &Queues, size: usize) -> Program<M> {
        Program {
            mem,
            sender: Sender::new(queues.to_nic),
            receiver: Receiver::new(queues.to_program),
            payload: vec![0; size.min(PAYLOAD)],
            wanted: vec![0; size.min(PAYLOAD)],
            back: Vec::with_capacity(PAYLOAD),
            sent: 0,
            received: 0,
            wrong: 0,
        }
    }

    /// Messages under way.
    pub fn in_flight(&self) -> u32 {
        self.sent.wrapping_sub(self.received)
    }

    /// Sends the next message; false if there is no room.
    #[inline]
    pub fn send(&mut self) -> bool {
        if !self.sender.has_room(&self.mem) {
            return false;
        }
        self.payload.fill(self.sent as u8);
        let header = Header { handler: 0, from: 0, to: 1, len: self.payload.len(), tag: self.sent };
        self.sender.send(&self.mem, header, &self.payload, Publish::ValidFirstBlockLast);
        self.sent = self.sent.wrapping_add(1);
        true
    }

    /// Takes a message that has come back; false if there is none.
    #[inline]
    pub fn receive(&mut self) -> bool {
        let Some(header) = self.receiver.has(&self.mem, 0) else { return false };
        let header = self.receiver.take(&self.mem, header, &mut self.back);
        self.wanted.fill(self.received as u8);
        let right = header.tag == self.received && self.back == self.wanted;
        self.wrong += u64::from(!right);
        self.received = self.received.wrapping_add(1);
        true
    }
}

/// The NIC's side.
#[derive(Debug)]
pub struct Nic<M> {
    mem: M,
    sender: Sender,
    receiver: Receiver,
    payload: Vec<u8>,
}

impl<M: SharedMemory> Nic<M> {
    /// Over queues that nobody has used.
    pub fn new(mem: M, queues: &Queues) -> Nic<M> {
        Nic {
            mem,
            sender: Sender::new(queues.to_program),
            receiver: Receiver::new(queues.to_nic),
            payload: Vec::with_capacity(PAYLOAD),
        }
    }

    /// Sends the next message back; false if there is none, or no room.
    #[inline]
    pub fn poll(&mut self) -> bool {
        let Some(header) = self.receiver.has(&self.mem, 0) else { return false };
        if !self.sender.has_room(&self.mem) {
            return false;
        }
        let header = self.receiver.take(&self.mem, header, &mut self.payload);
        let back = Header { from: header.to, to: header.from, len: self.payload.len(), ..header };
        self.sender.send(&self.mem, back, &self.payload, Publish::ValidFirstBlockLast);
        true
    }
}

#[cfg(test)]
mod tests {
    use ccnic::heap::HeapMemory;

    use super::*;

    /// Fills both queues and empties them, many laps long.
    #[test]
    fn messages_come_back_as_they_were() {
        for (blocks, size) in [(4, 0), (16, 52), (16, 64), (512, 244)] {
            let queues = Queues::new(blocks);
            let mem = HeapMemory::new(queues.bytes());
            let (mut program, mut nic) = (Program::new(mem.clone(), &queues, size), Nic::new(mem, &queues));
            for round in 0..50 {
                while program.send() {}
                assert_eq!(program.in_flight(), queues.entries(), "{round}");
                while nic.poll() {}
                assert!(program.send(), "heads are published when messages are taken");
                while program.receive() || nic.poll() {}
                assert_eq!((program.in_flight(), program.wrong), (0, 0));
            }
        }
    }

    /// What the other side may write: any length.
    #[test]
    fn a_length_that_no_message_has_is_not_believed() {
        let queues = Queues::new(16);
        let mem = HeapMemory::new(queues.bytes());
        let (mut program, mut nic) = (Program::new(mem.clone(), &queues, 8), Nic::new(mem.clone(), &queues));
        assert!(program.send());
        mem.store(0, mem.load(0) | 0xffff << 48);
        assert!(nic.poll() && program.receive());
        assert_eq!(program.wrong, 1);
    }
}
