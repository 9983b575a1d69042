//! The hand-off: a bounded queue from one polling thread to another.
//!
//! One producer, one consumer, no lock, no allocation after it has been made. Nothing hostile writes here: it is private memory of
//! this process, so plain atomics do. The type is generic over them ([`Word`]) so that loom can run it.
//!
//! # The contract
//!
//! | | producer | consumer |
//! |---|---|---|
//! | may write | `tail`; the slots from its position up to one lap after what it has released | `head` |
//! | may read | `head`; slots that it has written and not released | `tail`; slots before it |
//! | hands over | by `tail` | by `head` |
//! | says that it has gone | by a bit in `tail` | by a bit in `head` |
//!
//! ```text
//!      producer                                             consumer
//!      slots: plain stores
//!  P1  tail: store_release             ------------->  P2   tail: load_acquire
//!                                                           slots: plain loads; the packets they name
//!  Q2  head: load_acquire              <-------------  Q1   head: store_release
//!      slots: loads, stores
//! ```
//!
//! Positions count items from the first and never wrap (63 bits). Each side keeps the other's position as it last read it and reads it
//! again only when that no longer suffices (the producer: no room; the consumer: nothing ready).
//!
//! A slot is the producer's again when the consumer has moved past it *and* the producer has looked at it a last time
//! ([`HandoffProducer::completed`]) or does not want to ([`HandoffProducer::release`]): that is how it learns which packets are done with.
//! When the consumer ends, by a panic too, the producer gets back what was not taken ([`HandoffProducer::take_back`]).

use std::sync::Arc;

use ccnic::Desc;

/// An atomic word of 64 bits, as far as the hand-off, and [the call](crate::Wake) that follows it, need one.
pub trait Word: Send + Sync + 'static {
    /// A word that holds zero.
    fn zero() -> Self;
    /// Reads with relaxed ordering.
    fn load(&self) -> u64;
    /// Writes with relaxed ordering.
    fn store(&self, value: u64);
    /// Reads with acquire ordering.
    fn load_acquire(&self) -> u64;
    /// Writes with release ordering.
    fn store_release(&self, value: u64);
    /// Orders a store of this thread before its next load, together with [`heavy_barrier`](Word::heavy_barrier) of another one.
    fn light_barrier();
    /// Orders stores before loads, of this thread and of every one that executes [`light_barrier`](Word::light_barrier).
    fn heavy_barrier();
}

/// The processor's own atomic words.
#[expect(
    clippy::disallowed_types,
    reason = "private memory of this process: no region, and no other memory to run on"
)]
mod native {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
    use std::sync::atomic::compiler_fence;

    /// A word of this process's memory.
    pub type NativeWord = AtomicU64;

    impl super::Word for AtomicU64 {
        fn zero() -> AtomicU64 {
            AtomicU64::new(0)
        }
        #[inline(always)]
        fn load(&self) -> u64 {
            AtomicU64::load(self, Relaxed)
        }
        #[inline(always)]
        fn store(&self, value: u64) {
            AtomicU64::store(self, value, Relaxed);
        }
        #[inline(always)]
        fn load_acquire(&self) -> u64 {
            AtomicU64::load(self, Acquire)
        }
        #[inline(always)]
        fn store_release(&self, value: u64) {
            AtomicU64::store(self, value, Release);
        }
        #[inline(always)]
        fn light_barrier() {
            compiler_fence(SeqCst);
        }
        fn heavy_barrier() {
            ccnic_shm::heavy_barrier();
        }
    }
}

pub use native::NativeWord;

/// In a position: the side that writes it has gone and writes it no more.
const CLOSED: u64 = 1 << 63;

/// What is passed on: a descriptor, and between which queues its packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Item {
    /// A segment of a packet. Its bytes stay where they are.
    pub desc: Desc,
    /// The producer's index of the queue that has fetched it.
    pub from: u16,
    /// The number of the queue that it goes to.
    pub to: u16,
    /// What else the two ends have agreed on; nothing to the hand-off.
    pub mark: u32,
}

/// Words of a slot.
const WORDS: usize = 3;

impl Item {
    #[inline(always)]
    fn to_words(self) -> [u64; WORDS] {
        let desc = self.desc;
        let word = u64::from(desc.offset()) | u64::from(desc.len()) << 32 | u64::from(desc.flags()) << 48;
        let rest = u64::from(self.from) | u64::from(self.to) << 16 | u64::from(self.mark) << 32;
        [word, desc.meta, rest]
    }

    #[inline(always)]
    fn from_words([word, meta, rest]: [u64; WORDS]) -> Item {
        let desc = Desc::new(word as u32, (word >> 32) as u16, (word >> 48) as u8).with_meta(meta);
        Item { desc, from: rest as u16, to: (rest >> 16) as u16, mark: (rest >> 32) as u32 }
    }
}

/// A position on lines of its own: two, since processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Position<W>(W);

#[derive(Debug)]
struct Queue<W> {
    /// Items published, written by the producer.
    tail: Position<W>,
    /// Items taken, written by the consumer.
    head: Position<W>,
    /// A power of two of them.
    slots: Box<[[W; WORDS]]>,
}

impl<W: Word> Queue<W> {
    #[inline(always)]
    fn slot(&self, position: u64) -> Option<&[W; WORDS]> {
        self.slots.get(position as usize & (self.slots.len() - 1))
    }

    #[inline(always)]
    fn read(&self, position: u64) -> Item {
        self.slot(position)
            .map_or_else(Item::default, |slot| Item::from_words(slot.each_ref().map(Word::load)))
    }

    #[inline(always)]
    fn write(&self, position: u64, item: Item) {
        if let Some(slot) = self.slot(position) {
            for (word, value) in slot.iter().zip(item.to_words()) {
                word.store(value);
            }
        }
    }
}

/// Makes a queue of at least `capacity` items.
pub fn handoff<W: Word>(capacity: usize) -> (HandoffProducer<W>, HandoffConsumer<W>) {
    let slot = || [W::zero(), W::zero(), W::zero()];
    let slots = (0..capacity.next_power_of_two()).map(|_| slot()).collect();
    let queue = Arc::new(Queue { tail: Position(W::zero()), head: Position(W::zero()), slots });
    let producer = HandoffProducer {
        queue: Arc::clone(&queue),
        tail: 0,
        published: 0,
        head: 0,
        released: 0,
        consumer_gone: false,
    };
    (producer, HandoffConsumer { queue, head: 0, tail: 0, producer_gone: false })
}

/// The end that items are put in at. Belongs to one thread; dropping it closes it.
#[derive(Debug)]
pub struct HandoffProducer<W: Word = NativeWord> {
    queue: Arc<Queue<W>>,
    /// Where the next item goes.
    tail: u64,
    /// Items before this are published.
    published: u64,
    /// The consumer's position as last read. May be stale: the consumer is there at least.
    head: u64,
    /// Slots of items before this may be written again.
    released: u64,
    consumer_gone: bool,
}

impl<W: Word> HandoffProducer<W> {
    /// Items that can be pushed now.
    #[inline(always)]
    pub fn room(&self) -> usize {
        if self.consumer_gone { 0 } else { self.queue.slots.len() - (self.tail - self.released) as usize }
    }

    /// Puts items in, as many of the first as there is room for; returns how many. The consumer sees them after
    /// [`publish`](HandoffProducer::publish).
    #[inline(always)]
    pub fn push(&mut self, items: impl Iterator<Item = Item>) -> usize {
        let mut n = 0;
        for item in items.take(self.room()) {
            self.queue.write(self.tail, item);
            self.tail += 1;
            n += 1;
        }
        n
    }

    /// Shows the consumer what has been pushed; false when it has seen all of it.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        let more = self.published != self.tail;
        if more {
            self.published = self.tail;
            self.queue.tail.0.store_release(self.tail); // P1
        }
        more
    }

    #[inline(always)]
    fn look(&mut self) {
        let head = self.queue.head.0.load_acquire(); // Q2
        self.head = head & !CLOSED;
        self.consumer_gone = head & CLOSED != 0;
    }

    /// Makes room of all slots whose items the consumer has taken.
    #[inline(always)]
    pub fn release(&mut self) {
        self.look();
        self.released = self.released.max(self.head); // what was taken back has been released beyond the head
    }

    /// As [`release`](HandoffProducer::release), and shows each item that the consumer has taken since the last call, in order; returns their
    /// number.
    pub fn completed(&mut self, see: impl FnMut(Item)) -> usize {
        self.completed_of(usize::MAX, see)
    }

    /// As [`completed`](HandoffProducer::completed), of at most `most` items.
    pub fn completed_of(&mut self, most: usize, mut see: impl FnMut(Item)) -> usize {
        self.look();
        let from = self.released;
        let to = self.head.min(from.saturating_add(most as u64));
        (from..to).for_each(|position| see(self.queue.read(position)));
        self.released = from.max(to); // what was taken back has been released beyond the head
        (self.released - from) as usize
    }

    /// When the consumer has gone: shows each item that was pushed and never taken, in order; returns their number. They are the
    /// caller's again, once.
    pub fn take_back(&mut self, mut see: impl FnMut(Item)) -> usize {
        if !self.consumer_gone {
            return 0;
        }
        let from = self.head.max(self.released);
        (from..self.tail).for_each(|position| see(self.queue.read(position)));
        (self.released, self.published) = (self.tail, self.tail);
        (self.tail - from) as usize
    }

    /// True when the consumer has gone, as far as this side has looked: nothing pushed arrives any more.
    #[inline(always)]
    pub fn consumer_gone(&self) -> bool {
        self.consumer_gone
    }

    /// True when all that was pushed has been completed or taken back.
    pub fn is_settled(&self) -> bool {
        self.released == self.tail
    }

    /// Publishes, and says that nothing more comes. Nothing may be pushed afterwards.
    pub fn close(&mut self) {
        self.published = self.tail;
        self.queue.tail.0.store_release(self.tail | CLOSED); // P1
    }
}

impl<W: Word> Drop for HandoffProducer<W> {
    fn drop(&mut self) {
        self.close();
    }
}

/// The end that items are taken from. Belongs to one thread; dropping it closes it.
#[derive(Debug)]
pub struct HandoffConsumer<W: Word = NativeWord> {
    queue: Arc<Queue<W>>,
    /// The next item to take.
    head: u64,
    /// The producer's position as last read. May be stale: the producer is there at least.
    tail: u64,
    producer_gone: bool,
}

impl<W: Word> HandoffConsumer<W> {
    /// True when there is an item to take.
    #[inline(always)]
    pub fn is_ready(&mut self) -> bool {
        if self.tail == self.head {
            self.look();
        }
        self.tail != self.head
    }

    /// True when there is an item to take. Looks at the producer's position, and remembers nothing.
    pub fn waits(&self) -> bool {
        self.queue.tail.0.load_acquire() & !CLOSED != self.head // P2
    }

    /// Reads the first items into `out` without taking them; returns how many: at least one if there is one, but perhaps not all.
    #[inline(always)]
    pub fn peek(&mut self, out: &mut [Item]) -> usize {
        let _ = self.is_ready();
        let n = out.len().min((self.tail - self.head) as usize);
        for (position, slot) in (self.head..).zip(out.iter_mut().take(n)) {
            *slot = self.queue.read(position);
        }
        n
    }

    /// Done with the first `n` items, which must have been read: the producer may have their packets' buffers and the slots.
    #[inline(always)]
    pub fn advance(&mut self, n: usize) {
        self.head = (self.head + n as u64).min(self.tail);
        self.queue.head.0.store_release(self.head); // Q1
    }

    #[inline(always)]
    fn look(&mut self) {
        let tail = self.queue.tail.0.load_acquire(); // P2
        self.tail = tail & !CLOSED;
        self.producer_gone = tail & CLOSED != 0;
    }

    /// True when everything has been taken and nothing more comes.
    pub fn is_finished(&mut self) -> bool {
        !self.is_ready() && self.producer_gone
    }
}

impl<W: Word> Drop for HandoffConsumer<W> {
    fn drop(&mut self) {
        self.queue.head.0.store_release(self.head | CLOSED); // Q1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::desc::{FLAG_MORE, FLAG_SMALL};

    fn item(n: u64) -> Item {
        let desc = Desc::new(n as u32, n as u16, FLAG_SMALL | FLAG_MORE).with_meta(!n);
        Item { desc, from: n as u16, to: (n + 1) as u16, mark: !n as u32 }
    }

    fn taken(consumer: &mut HandoffConsumer, most: usize) -> Vec<Item> {
        let mut out = vec![Item::default(); most];
        let n = consumer.peek(&mut out);
        consumer.advance(n);
        out.truncate(n);
        out
    }

    #[test]
    fn an_item_survives_as_words() {
        for n in [0, 1, 255, 0xffff, 0xdead_beef] {
            assert_eq!(Item::from_words(item(n).to_words()), item(n));
        }
    }

    #[test]
    fn nothing_is_seen_before_it_is_published_and_none_is_lost_when_it_is_full() {
        let (mut producer, mut consumer) = handoff(4);
        assert_eq!(producer.push((0..6).map(item)), 4);
        assert_eq!(taken(&mut consumer, 8), []);
        producer.publish();
        assert_eq!(taken(&mut consumer, 3), [item(0), item(1), item(2)]);
        assert_eq!(producer.room(), 0, "nothing has been released");
        producer.release();
        assert_eq!(producer.push((4..9).map(item)), 3);
        producer.publish();
        assert_eq!(taken(&mut consumer, 8), [item(3)], "what it knew of");
        assert_eq!(taken(&mut consumer, 8), [item(4), item(5), item(6)]);
    }

    #[test]
    fn each_item_is_completed_once_and_in_order() {
        let (mut producer, mut consumer) = handoff(8);
        let mut seen = Vec::new();
        producer.push((0..6).map(item));
        producer.publish();
        assert_eq!(producer.completed(|i| seen.push(i)), 0);
        taken(&mut consumer, 2);
        assert_eq!((producer.completed(|i| seen.push(i)), producer.is_settled()), (2, false));
        taken(&mut consumer, 9);
        assert_eq!((producer.completed_of(3, |i| seen.push(i)), producer.is_settled()), (3, false));
        assert_eq!((producer.completed(|i| seen.push(i)), producer.is_settled()), (1, true));
        assert_eq!(seen, (0..6).map(item).collect::<Vec<_>>());
        assert_eq!(producer.take_back(|_| unreachable!()), 0, "the consumer is there");
    }

    #[test]
    fn what_a_dead_consumer_has_not_taken_comes_back_once() {
        let (mut producer, mut consumer) = handoff(8);
        producer.push((0..5).map(item));
        producer.publish();
        producer.push((5..7).map(item)); // not published
        taken(&mut consumer, 2);
        drop(consumer);
        let (mut done, mut back) = (Vec::new(), Vec::new());
        assert_eq!(producer.completed(|i| done.push(i)), 2);
        assert!(producer.consumer_gone());
        assert_eq!((producer.take_back(|i| back.push(i)), producer.take_back(|i| back.push(i))), (5, 0));
        assert_eq!(back, (2..7).map(item).collect::<Vec<_>>());
        assert_eq!((producer.room(), producer.push((0..3).map(item)), producer.is_settled()), (0, 0, true));
        producer.release();
        assert_eq!((producer.completed(|_| unreachable!()), producer.is_settled()), (0, true), "still");
    }

    #[test]
    fn a_consumer_takes_what_its_producer_left() {
        let (mut producer, mut consumer) = handoff::<NativeWord>(8);
        producer.push((0..3).map(item));
        assert!(!consumer.is_finished());
        drop(producer);
        assert!(!consumer.is_finished());
        assert_eq!(taken(&mut consumer, 8).len(), 3);
        assert!(consumer.is_finished());
    }
}
