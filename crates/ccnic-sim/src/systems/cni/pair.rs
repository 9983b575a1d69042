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

/// The host's end of both: numbered messages, checked when they come back.
#[derive(Debug)]
pub struct QueueHost<M> {
    mem: M,
    sender: Sender,
    receiver: Receiver,
    size: usize,
    /// Messages of the queue that a message takes.
    parts: u64,
    payload: Vec<u8>,
    wanted: Vec<u8>,
    back: Vec<u8>,
    /// Parts, from the first ever: `u64`, since real memory carries more than 2^32 in minutes.
    sent: u64,
    received: u64,
    /// Parts that came back damaged or out of order.
    pub wrong: u64,
}

impl<M: SharedMemory> QueueHost<M> {
    /// Over queues that nobody has used. `size`: bytes of a message, which goes in parts of at most [`PAYLOAD`].
    pub fn new(mem: M, queues: &Queues, size: usize) -> QueueHost<M> {
        QueueHost {
            mem,
            sender: Sender::new(queues.to_nic),
            receiver: Receiver::new(queues.to_program),
            size,
            parts: size.div_ceil(PAYLOAD).max(1) as u64,
            payload: vec![0; size.min(PAYLOAD)],
            wanted: vec![0; size.min(PAYLOAD)],
            back: Vec::with_capacity(PAYLOAD),
            sent: 0,
            received: 0,
            wrong: 0,
        }
    }

    /// Messages under way, of which one may be begun only.
    pub fn in_flight(&self) -> u64 {
        self.sent.div_ceil(self.parts) - self.received()
    }

    /// Messages that are back, all of each.
    pub fn received(&self) -> u64 {
        self.received / self.parts
    }

    /// Some parts of a message have been sent, and not all.
    pub fn is_begun(&self) -> bool {
        !self.sent.is_multiple_of(self.parts)
    }

    /// Bytes of the part that is sent next, and of the one that is taken next.
    pub fn next_lens(&self) -> (usize, usize) {
        (self.len(self.sent), self.len(self.received))
    }

    fn len(&self, part: u64) -> usize {
        let before = (part % self.parts) as usize * PAYLOAD;
        self.size.saturating_sub(before).min(PAYLOAD)
    }

    /// Sends the next part of a message; false if there is no room.
    #[inline]
    pub fn send(&mut self) -> bool {
        if !self.sender.has_room(&self.mem) {
            return false;
        }
        let len = self.len(self.sent);
        self.payload.fill(self.sent as u8);
        let header = Header { handler: 0, from: 0, to: 1, len, tag: self.sent as u32 };
        self.sender.send(&self.mem, header, &self.payload[..len], Publish::ValidFirstBlockLast);
        self.sent += 1;
        true
    }

    /// Takes a part that has come back; false if there is none.
    #[inline]
    pub fn receive(&mut self) -> bool {
        let Some(header) = self.receiver.has(&self.mem, 0) else { return false };
        let header = self.receiver.take(&self.mem, header, &mut self.back);
        self.wanted.fill(self.received as u8);
        let right = header.tag == self.received as u32 && self.back == self.wanted[..self.len(self.received)];
        self.wrong += u64::from(!right);
        self.received += 1;
        true
    }
}

/// The NIC's end of both.
#[derive(Debug)]
pub struct QueueNic<M> {
    mem: M,
    sender: Sender,
    receiver: Receiver,
    payload: Vec<u8>,
}

impl<M: SharedMemory> QueueNic<M> {
    /// Over queues that nobody has used.
    pub fn new(mem: M, queues: &Queues) -> QueueNic<M> {
        QueueNic {
            mem,
            sender: Sender::new(queues.to_program),
            receiver: Receiver::new(queues.to_nic),
            payload: Vec::with_capacity(PAYLOAD),
        }
    }

    /// Bytes of the part that was sent back last.
    pub fn last_len(&self) -> usize {
        self.payload.len()
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
            let (mut program, mut nic) =
                (QueueHost::new(mem.clone(), &queues, size), QueueNic::new(mem, &queues));
            for round in 0..50 {
                while program.send() {}
                assert_eq!(program.in_flight(), u64::from(queues.entries()), "{round}");
                while nic.poll() {}
                assert!(program.send(), "heads are published when messages are taken");
                while program.receive() || nic.poll() {}
                assert_eq!((program.in_flight(), program.wrong), (0, 0));
            }
        }
    }

    /// A message of several parts is back when all of them are.
    #[test]
    fn messages_of_several_parts() {
        let queues = Queues::new(16);
        let mem = HeapMemory::new(queues.bytes());
        let (mut program, mut nic) = (QueueHost::new(mem.clone(), &queues, 500), QueueNic::new(mem, &queues));
        for message in 0..50 {
            while program.is_begun() || program.in_flight() == 0 {
                assert!(program.send());
            }
            assert!(nic.poll() && nic.poll());
            assert!(program.receive() && program.receive());
            assert_eq!((program.in_flight(), program.received()), (1, message), "a third part is under way");
            assert!(nic.poll() && !nic.poll() && program.receive() && !program.receive());
            assert_eq!((program.in_flight(), program.received(), program.wrong), (0, message + 1, 0));
        }
    }

    /// What the other side may write: any length.
    #[test]
    fn a_length_that_no_message_has_is_not_believed() {
        let queues = Queues::new(16);
        let mem = HeapMemory::new(queues.bytes());
        let (mut program, mut nic) =
            (QueueHost::new(mem.clone(), &queues, 8), QueueNic::new(mem.clone(), &queues));
        assert!(program.send());
        mem.store(0, mem.load(0) | 0xffff << 48);
        assert!(nic.poll() && program.receive());
        assert_eq!(program.wrong, 1);
    }
}
