//! Both ends of a channel on the heap: calls of all lengths, and an other side that writes what it must not.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::heap::HeapMemory;
use crate::memory::SharedMemory;
use crate::{ConfigError, FetchMode, Tuning};

struct Channel {
    mem: HeapMemory,
    layout: CallLayout,
    caller: Caller,
    server: Server,
}

fn channel(capacity: u32) -> Channel {
    let layout = CallLayout::new(capacity).unwrap();
    let mem = HeapMemory::new(layout.size());
    Channel { mem, layout, caller: Caller::new(&layout), server: Server::new(&layout) }
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed) as u8).collect()
}

impl Channel {
    /// A call whose request and answer have these lengths.
    fn call(&mut self, request: usize, answer: usize, seed: usize) {
        let Channel { mem, layout, caller, server } = self;
        let mut seen = std::vec![0xee; layout.capacity() as usize + 8];
        assert_eq!(server.take(mem, &mut seen), Ok(None));
        caller.send(mem, &bytes(request, seed)).unwrap();
        assert_eq!(caller.take(mem, &mut seen), Ok(None));
        assert!(server.ready(mem) && !caller.ready(mem));
        assert_eq!(server.take(mem, &mut seen), Ok(Some(request)));
        assert_eq!(seen[..request], bytes(request, seed));
        assert!(seen[request..].iter().all(|&byte| byte == 0xee), "nothing is written behind the message");
        server.answer(mem, &bytes(answer, seed + 1)).unwrap();
        assert!(caller.ready(mem) && caller.is_waiting() && !server.ready(mem));
        assert_eq!(caller.take(mem, &mut seen), Ok(Some(answer)));
        assert_eq!(seen[..answer], bytes(answer, seed + 1));
        assert!(!caller.is_waiting());
    }
}

#[test]
fn messages_of_all_lengths_arrive_whole() {
    for capacity in [1, 55, 56, 57, 120, 121, 1000, 4088] {
        let mut channel = channel(capacity);
        for fetch in FetchMode::ALL {
            channel.caller.set_tuning(Tuning { fetch, ..Tuning::default() });
            channel.server.set_tuning(Tuning { fetch, ..Tuning::default() });
            let step = (capacity as usize / 400).max(1);
            for len in (0..=capacity as usize).step_by(step) {
                channel.call(len, capacity as usize - len, len);
            }
            channel.call(capacity as usize, 0, 3);
        }
    }
}

#[test]
fn a_short_buffer_gets_the_beginning_and_the_length() {
    let Channel { mem, mut caller, mut server, .. } = channel(200);
    caller.send(&mem, &bytes(150, 0)).unwrap();
    let mut seen = [0; 60];
    assert_eq!(server.take(&mem, &mut seen), Ok(Some(150)));
    assert_eq!(seen[..], bytes(150, 0)[..60]);
    server.answer(&mem, &bytes(10, 0)).unwrap();
    assert_eq!(caller.take(&mem, &mut []), Ok(Some(10)));
}

#[test]
fn the_slots_change_their_roles_with_every_call() {
    let mut channel = channel(56);
    let slots = channel.layout.slots();
    for call in 0..4_u64 {
        channel.call(3, 2, call as usize);
        let kinds = slots.map(|slot| channel.mem.load(slot) >> 32 & 0xff);
        assert_eq!(kinds, if call % 2 == 0 { [1, 2] } else { [2, 1] }, "request and answer");
    }
}

/// The number has 24 bits in the word: a message of 2^24 calls ago cannot be taken for the one that is due, for its slot holds another one.
#[test]
fn numbers_of_calls_wrap_in_the_word() {
    let mut channel = channel(56);
    channel.caller.start_at((1 << 24) - 3);
    channel.server.start_at((1 << 24) - 3);
    for call in 0..6 {
        channel.call(5, 6, call);
    }
}

/// Whatever the word of the message that is due holds but itself and what it held before is refused, unless it is another length that
/// fits.
#[test]
fn a_word_that_is_not_due_is_refused() {
    let mut channel = channel(100);
    channel.call(1, 2, 0);
    let Channel { mem, layout, caller, server } = &mut channel;
    caller.send(mem, b"x").unwrap();
    let [old, right] = layout.slots().map(|slot| mem.load(slot));
    assert!(server.ready(mem) && old != right, "both are messages");
    let flipped = (0..64).map(|bit| right ^ (1 << bit));
    let lengths = [99, 100, 101, 1 << 31, u32::MAX].map(|len| right & !0xffff_ffff | u64::from(len));
    for word in flipped.chain(lengths).chain([0, 1, old, u64::MAX]) {
        let [_, at] = layout.slots();
        mem.store(at, word);
        let fits = word >> 32 == right >> 32 && word as u32 <= 100;
        let mut buffer = [0; 200];
        match server.take(mem, &mut buffer) {
            Ok(Some(len)) => {
                assert!(fits && len == word as u32 as usize, "{word:#x}");
                server.start_at(1); // as before it took it
            }
            refused => assert_eq!(refused, Err(Malformed { word, call: 1 })),
        }
        assert!(buffer[100..].iter().all(|&byte| byte == 0), "nothing beyond the capacity");
    }
}

/// A server that answers what was not asked, and one that answers twice.
#[test]
fn an_answer_out_of_turn_is_refused_or_not_looked_at() {
    let mut channel = channel(56);
    channel.call(1, 1, 0);
    let Channel { mem, layout, caller, .. } = &mut channel;
    let [a, _] = layout.slots();
    mem.store(a, u64::MAX);
    assert_eq!(caller.take(mem, &mut []), Ok(None), "the caller waits for nothing");
    caller.send(mem, b"q").unwrap();
    assert_eq!(caller.take(mem, &mut []), Err(Malformed { word: u64::MAX, call: 1 }));
}

#[test]
fn a_header_is_checked() {
    let layout = CallLayout::new(1000).unwrap();
    let mem = HeapMemory::new(layout.size());
    layout.store(&mem);
    let mut good = [0; CALL_HEADER_BYTES];
    mem.read(0, &mut good);
    assert_eq!(CallLayout::from_header(&good, layout.size()), Ok(layout));
    let with = |at: usize, value: u64| {
        let mut header = good;
        header[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        CallLayout::from_header(&header, layout.size())
    };
    assert_eq!(with(0, 7), Err(ConfigError::NotARegion));
    assert_eq!(with(8, 7), Err(ConfigError::Version { found: 7, known: 1 }));
    let range = |value| Err(ConfigError::Range { field: "capacity", value, min: 1, max: MAX_MESSAGE.into() });
    assert_eq!(with(16, 0), range(0));
    assert_eq!(with(16, u64::MAX), range(u32::MAX.into()));
    let large = CallLayout::new(2000).unwrap().size();
    assert_eq!(with(16, 2000), Err(ConfigError::Truncated { needs: large, has: layout.size() }));
    assert!(CallLayout::new(MAX_MESSAGE).unwrap().size() < 4 << 20);
}
