//! The cachable queue of CNI (1996): messages of one block and of two, through more than two laps of a queue of two places, in every
//! interleaving; a missing release and a head that is published too early.
//!
//! The queue is the simulator's own source, which `ccnic bench cni` runs on real memory. It is taken in as it is: the simulator and what
//! it depends on are not built for this.

#[path = "../../../ccnic-sim/src/systems/cni/header.rs"]
mod header;
#[path = "../../../ccnic-sim/src/systems/cni/queue.rs"]
#[allow(dead_code, reason = "what only devices of the simulator use")]
mod queue;

use ccnic::SharedMemory;
use ccnic_check::faulty::{Faulty, WeakRelease};
use ccnic_check::loom_view::{LoomMemory, LoomView};
use loom::thread;

use super::{join, model};
use header::{ENTRY, Header};
use queue::{Publish, Receiver, Sender, Shape};

/// So many messages that the third lap begins, whose valid bits are those of the first.
const MESSAGES: u32 = 5;

/// An empty queue of two messages, and the head that says so.
fn queue() -> (Shape, LoomView) {
    let shape = Shape { base: 64, head: 0, entries: 2 };
    let memory = LoomMemory::new().word(shape.head).word(shape.entry(0)).word(shape.entry(1));
    (shape, memory.bytes(shape.base..shape.base + 2 * ENTRY).memory())
}

/// The bytes of message `number`: one block, two, none.
fn payload(number: u32) -> Vec<u8> {
    let len = [8, 60, 0][number as usize % 3];
    (0..len).map(|i| i as u8 ^ (number as u8 + 1)).collect()
}

/// Takes all that another thread sends. A receiver that hands a place back before it has read it (`early`) must fail.
fn pass<S: SharedMemory + Clone + 'static>(from: S, shape: Shape, publish: Publish, early: bool) {
    let to = from.clone();
    let producer = thread::spawn(move || {
        let mut sender = Sender::new(shape);
        for number in 0..MESSAGES {
            while !sender.has_room(&to) {
                to.relax();
            }
            let payload = payload(number);
            let header = Header { handler: 1, from: 2, to: 3, len: payload.len(), tag: number };
            sender.send(&to, header, &payload, publish);
        }
    });
    let (mut receiver, mut bytes) = (Receiver::new(shape), Vec::new());
    for number in 0..MESSAGES {
        let header = loop {
            match receiver.has(&from, 0) {
                Some(header) => break header,
                None => from.relax(),
            }
        };
        if early {
            from.store_release(shape.head, u64::from(number) + 1);
        }
        let header = receiver.take(&from, header, &mut bytes);
        let expected = Header { handler: 1, from: 2, to: 3, len: bytes.len(), tag: number };
        assert_eq!((header, &bytes), (expected, &payload(number)), "once and in order");
    }
    assert!(receiver.has(&from, 0).is_none(), "nothing more");
    join(producer);
}

#[test]
fn messages_come_once_and_in_order() {
    for publish in [Publish::Valid, Publish::ValidFirstBlockLast] {
        model(2, move || {
            let (shape, mem) = queue();
            pass(mem, shape, publish, false);
        });
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_missing_release_of_a_message_is_detected() {
    model(2, || {
        let (shape, mem) = queue();
        pass(Faulty(mem, WeakRelease), shape, Publish::ValidFirstBlockLast, false);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_head_that_is_published_before_the_message_is_read_is_detected() {
    model(2, || {
        let (shape, mem) = queue();
        pass(mem, shape, Publish::ValidFirstBlockLast, true);
    });
}
