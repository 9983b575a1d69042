//! Calls: three of them in every interleaving; both sides asleep; a missing release and a missing barrier.

use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic::call::{CallLayout, Caller, Server};
use ccnic_check::faulty::{Fault, Faulty, WeakRelease};
use ccnic_check::loom_view::{LoomMemory, LoomView};
use loom::sync::Notify;
use loom::thread;

use super::{join, model};

/// A channel for messages of one line and of two.
fn channel() -> (CallLayout, LoomMemory) {
    let layout = CallLayout::new(100).unwrap_or_else(|e| panic!("{e}"));
    let mut memory = LoomMemory::new();
    for slot in layout.slots() {
        memory = memory.word(slot).bytes(slot..slot + 128);
    }
    for event in layout.events() {
        memory = memory.word(event);
    }
    (layout, memory)
}

/// The length of call `call`'s messages: one line, two lines, nothing.
fn length(call: u64) -> usize {
    [8, 64, 0].into_iter().cycle().nth(call as usize).unwrap_or(0)
}

/// Waits for a message of `take`, and checks it.
fn expect(call: u64, mark: u8, mut take: impl FnMut(&mut [u8]) -> Option<usize>) {
    let mut bytes = [0; 100];
    let n = loop {
        if let Some(n) = take(&mut bytes) {
            break n;
        }
    };
    assert_eq!(n, length(call), "length of call {call}");
    assert!(bytes[..n].iter().all(|&byte| byte == mark + call as u8), "content of call {call}");
}

/// Three calls, so that each slot has had both roles.
fn calls<S: SharedMemory + Clone + 'static>(mem: S, layout: &CallLayout) {
    let (to, theirs) = (mem.clone(), *layout);
    let thread = thread::spawn(move || {
        let mut server = Server::new(&theirs);
        for call in 0..3 {
            expect(call, 1, |bytes| {
                let taken = server.take(&to, bytes).unwrap_or_else(|e| panic!("{e}"));
                if taken.is_none() {
                    to.relax();
                }
                taken
            });
            server.answer(&to, &[101 + call as u8; 100][..length(call)]).unwrap_or_else(|e| panic!("{e}"));
        }
    });
    let mut caller = Caller::new(layout);
    for call in 0..3 {
        caller.send(&mem, &[1 + call as u8; 100][..length(call)]).unwrap_or_else(|e| panic!("{e}"));
        expect(call, 101, |bytes| {
            let taken = caller.take(&mem, bytes).unwrap_or_else(|e| panic!("{e}"));
            if taken.is_none() {
                mem.relax();
            }
            taken
        });
    }
    join(thread);
}

#[test]
fn calls_are_answered_in_turn() {
    model(3, || {
        let (layout, memory) = channel();
        calls(memory.memory(), &layout);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_missing_release_of_a_call_is_detected() {
    model(2, || {
        let (layout, memory) = channel();
        calls(Faulty(memory.memory(), WeakRelease), &layout);
    });
}

/// `Faulty` passes no barrier on.
#[derive(Debug, Clone, Copy)]
struct NoBarriers;

impl Fault for NoBarriers {}

/// Both sides sleep whenever there is nothing to take, and look once, after they have sent, whether the other one has to be woken.
fn calls_asleep<S: SharedMemory + Clone + 'static>(
    wrap: impl Fn(LoomView) -> S + Send + Sync + Copy + 'static,
) {
    model(2, move || {
        let (layout, memory) = channel();
        let mem = wrap(memory.memory());
        let [asks, answers] = [(); 2].map(|()| Rc::new(Notify::new()));
        let (to, wake, wait) = (mem.clone(), Rc::clone(&asks), Rc::clone(&answers));
        let thread = thread::spawn(move || {
            let mut server = Server::new(&layout);
            for call in 0..2 {
                expect(call, 1, |bytes| {
                    let taken = server.take(&to, bytes).unwrap_or_else(|e| panic!("{e}"));
                    if taken.is_none() {
                        server.announce_sleep(&to);
                        to.heavy_barrier();
                        if !server.ready(&to) {
                            wait.wait();
                        }
                        server.disarm(&to);
                    }
                    taken
                });
                server
                    .answer(&to, &[101 + call as u8; 100][..length(call)])
                    .unwrap_or_else(|e| panic!("{e}"));
                if server.caller_sleeps(&to) {
                    wake.notify();
                }
            }
        });
        let mut caller = Caller::new(&layout);
        for call in 0..2 {
            caller.send(&mem, &[1 + call as u8; 100][..length(call)]).unwrap_or_else(|e| panic!("{e}"));
            if caller.server_sleeps(&mem) {
                answers.notify();
            }
            expect(call, 101, |bytes| {
                let taken = caller.take(&mem, bytes).unwrap_or_else(|e| panic!("{e}"));
                if taken.is_none() && caller.arm(&mem) {
                    asks.wait();
                    caller.disarm(&mem);
                }
                taken
            });
        }
        join(thread);
    });
}

#[test]
fn sides_of_a_call_that_sleep_are_woken() {
    calls_asleep(|mem| mem);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_fence_before_the_sleep_of_a_call_is_detected() {
    calls_asleep(|mem| Faulty(mem, NoBarriers));
}
