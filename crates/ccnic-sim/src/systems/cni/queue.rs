//! The cachable queue (CNI section 2.2): a circular queue in coherent memory with one sender and one receiver, over any
//! [`SharedMemory`], so that processors and devices, simulated or not, run the same source.
//!
//! It is not the ring of `ccnic`: that hands over descriptors of buffers, and its receiver clears what it has read. Here whole messages
//! lie in the queue, and the receiver writes none of its blocks.
//!
//! | optimisation | here |
//! |---|---|
//! | lazy pointers | the sender looks at the receiver's head only when its last look makes the queue full |
//! | message valid bits | the receiver looks at the first word of the next message, never at the sender's tail |
//! | sense reverse | a message is valid if its bit is that of the lap: 1 on the first, 0 on the second, and so on |
//!
//! The head is published as a count of messages, which holds pointer and sense (figure 4: equal pointers with different senses are a
//! full queue) in one word.

use ccnic::SharedMemory;

use super::header::{ENTRY, HEADER, Header, PAYLOAD};

/// Where a queue lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its first message.
    pub base: u32,
    /// The receiver's head, in a block of its own.
    pub head: u32,
    /// Messages that it holds: a power of two.
    pub entries: u32,
}

impl Shape {
    /// The place of a message, counted from the first ever.
    pub fn entry(&self, number: u32) -> u32 {
        self.base + number % self.entries * ENTRY
    }

    /// The valid bit of a message.
    fn sense(&self, number: u32) -> u64 {
        u64::from((number / self.entries).is_multiple_of(2))
    }
}

/// How the other side learns of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// By its valid bit: the first word is written last.
    Valid,
    /// By its valid bit, and the first block is written last, so that a receiver that polls it misses once.
    ValidFirstBlockLast,
    /// By a store to a register: blocks are written in order.
    Signal,
}

/// The sender's side.
#[derive(Debug)]
pub struct Sender {
    shape: Shape,
    /// Messages written so far: the tail, which nobody else sees.
    tail: u32,
    /// The receiver's head when it was last looked at.
    shadow_head: u32,
}

impl Sender {
    /// The sender of an empty queue.
    pub fn new(shape: Shape) -> Sender {
        Sender { shape, tail: 0, shadow_head: 0 }
    }

    /// Another message fits.
    pub fn has_room<M: SharedMemory>(&mut self, mem: &M) -> bool {
        if self.tail.wrapping_sub(self.shadow_head) >= self.shape.entries {
            self.shadow_head = mem.load_acquire(self.shape.head) as u32;
        }
        self.tail.wrapping_sub(self.shadow_head) < self.shape.entries
    }

    /// Writes a message into the room that there is.
    pub fn send<M: SharedMemory>(&mut self, mem: &M, header: Header, payload: &[u8], publish: Publish) {
        let at = self.shape.entry(self.tail);
        let first = header.word() | self.shape.sense(self.tail);
        let mut bytes = [0; ENTRY as usize];
        let end = HEADER + payload.len();
        bytes[8..HEADER].copy_from_slice(&header.tag.to_le_bytes());
        bytes[HEADER..end].copy_from_slice(payload);
        const BLOCK: usize = 64;
        match publish {
            Publish::Valid => mem.write(at + 8, &bytes[8..end]),
            Publish::ValidFirstBlockLast => {
                if end > BLOCK {
                    mem.write(at + BLOCK as u32, &bytes[BLOCK..end]);
                }
                mem.write(at + 8, &bytes[8..end.min(BLOCK)]);
            }
            Publish::Signal => {
                mem.store(at, first);
                mem.write(at + 8, &bytes[8..end]);
            }
        }
        if publish != Publish::Signal {
            mem.store_release(at, first);
        }
        self.tail = self.tail.wrapping_add(1);
    }
}

/// The receiver's side.
#[derive(Debug)]
pub struct Receiver {
    shape: Shape,
    head: u32,
}

impl Receiver {
    /// The receiver of an empty queue.
    pub fn new(shape: Shape) -> Receiver {
        Receiver { shape, head: 0 }
    }

    /// The address of the word that becomes valid with the `ahead`-th message from the next one on.
    pub fn valid_word(&self, ahead: u32) -> u32 {
        self.shape.entry(self.head.wrapping_add(ahead))
    }

    /// The `ahead`-th message from the next one on is there.
    pub fn has<M: SharedMemory>(&self, mem: &M, ahead: u32) -> Option<Header> {
        let number = self.head.wrapping_add(ahead);
        let word = mem.load_acquire(self.shape.entry(number));
        (word & 1 == self.shape.sense(number)).then(|| Header::of(word))
    }

    /// Takes the next message, whose header is known; its tag and its payload come into `to`.
    pub fn take<M: SharedMemory>(&mut self, mem: &M, mut header: Header, to: &mut Vec<u8>) -> Header {
        // The other side may write any length: no more than an entry is read.
        let len = header.len.min(PAYLOAD);
        let mut bytes = [0; ENTRY as usize];
        mem.read(self.shape.entry(self.head) + 8, &mut bytes[8..HEADER + len]);
        header.tag = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        to.clear();
        to.extend_from_slice(&bytes[HEADER..HEADER + len]);
        self.head = self.head.wrapping_add(1);
        mem.store_release(self.shape.head, self.head.into());
        header
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Memory without time.
    struct Plain(RefCell<Vec<u8>>);

    impl SharedMemory for Plain {
        type Adopt = ();

        fn load(&self, at: u32) -> u64 {
            let mut word = [0; 8];
            self.read(at, &mut word);
            u64::from_le_bytes(word)
        }
        fn store(&self, at: u32, value: u64) {
            self.write(at, &value.to_le_bytes());
        }
        fn load_acquire(&self, at: u32) -> u64 {
            self.load(at)
        }
        fn store_release(&self, at: u32, value: u64) {
            self.store(at, value);
        }
        fn compare_exchange(&self, _: u32, _: u64, _: u64) -> Result<u64, u64> {
            unreachable!("queues need no lock")
        }
        fn read(&self, at: u32, to: &mut [u8]) {
            to.copy_from_slice(&self.0.borrow()[at as usize..][..to.len()]);
        }
        fn write(&self, at: u32, from: &[u8]) {
            self.0.borrow_mut()[at as usize..][..from.len()].copy_from_slice(from);
        }
        fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
            f(&self.0.borrow()[at as usize..][..len as usize])
        }
        fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
            f(&mut self.0.borrow_mut()[at as usize..][..len as usize])
        }
        fn prefetch_read(&self, _: u32) {}
        fn prefetch_own(&self, _: u32) {}
        fn demote(&self, _: u32) {}
        fn relax(&self) {}
    }

    /// Fills and empties by turns, through many laps, with every way to publish.
    #[test]
    fn messages_come_once_and_in_order() {
        for publish in [Publish::Valid, Publish::ValidFirstBlockLast, Publish::Signal] {
            let shape = Shape { base: 64, head: 0, entries: 4 };
            let mem = Plain(RefCell::new(vec![0; 64 + 4 * ENTRY as usize]));
            let (mut sender, mut receiver) = (Sender::new(shape), Receiver::new(shape));
            let (mut sent, mut taken, mut payload) = (0u32, 0u32, Vec::new());
            for round in 0..200u32 {
                while sent - taken < round % 6 && sender.has_room(&mem) {
                    let len = (sent * 37 % 245) as usize;
                    let header = Header { handler: 3, from: 9, to: 5, len, tag: sent };
                    sender.send(&mem, header, &vec![sent as u8; len], publish);
                    sent += 1;
                }
                assert!(sent - taken <= 4, "never more than fit");
                assert_eq!(!sender.has_room(&mem), sent - taken == 4);
                assert_eq!(receiver.has(&mem, 3).is_some(), sent - taken == 4);
                for _ in 0..round % 4 {
                    let Some(header) = receiver.has(&mem, 0) else { break };
                    let header = receiver.take(&mem, header, &mut payload);
                    assert_eq!((header.tag, header.handler, header.from, header.to), (taken, 3, 9, 5));
                    assert_eq!(payload, vec![taken as u8; (taken * 37 % 245) as usize]);
                    taken += 1;
                }
                assert_eq!(receiver.has(&mem, 0).is_some(), taken < sent);
            }
            assert!(taken > 100);
        }
    }
}
