//! Every interface in every place that it can have: messages of all lengths, both ways, between several nodes; nothing is lost,
//! nothing comes twice, what one node sends another comes in order.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::bus::End;

fn platform(nodes: u32) -> BusPlatform {
    BusPlatform::named("cni-1996").unwrap().overridden("machine.nodes", nodes.into()).unwrap()
}

fn interfaces() -> Vec<Interface> {
    let places = [Attachment::CacheBus, Attachment::MemoryBus, Attachment::IoBus];
    let all = Kind::ALL.into_iter().flat_map(|kind| places.map(|attachment| (kind, attachment)));
    let all =
        all.flat_map(|(k, a)| [false, true].map(|snarfing| Interface { kind: k, attachment: a, snarfing }));
    all.filter(|interface| interface.check().is_ok()).collect()
}

#[test]
fn the_places_are_those_of_the_paper() {
    let count = |kind| interfaces().iter().filter(|i| i.kind == kind && !i.snarfing).count();
    assert_eq!(Kind::ALL.map(count), [3, 2, 2, 2, 1]);
}

/// Every node sends to every other at once, more than windows and queues hold, before it looks at what has come.
#[test]
fn nothing_is_lost_when_all_send_at_once() {
    const NODES: usize = 4;
    const EACH: u32 = 60;
    for interface in interfaces() {
        let platform = platform(NODES as u32);
        let done = Rc::new(RefCell::new(0));
        let sim = build(&platform, interface, 0, |node| {
            let done = Rc::clone(&done);
            Box::new(move |mut end: Endpoint<'_>| {
                for tag in 0..EACH {
                    for to in (0..NODES).filter(|to| *to != node) {
                        let len = (tag as usize * 31 + to) % 245;
                        end.send(to, 7, tag, &vec![(tag as u8) ^ node as u8; len]);
                    }
                }
                let mut next = [0; NODES];
                for _ in 0..EACH as usize * (NODES - 1) {
                    let message = end.wait();
                    let (from, tag) = (message.header.from, message.header.tag);
                    assert_eq!((next[from], message.header.to), (tag, node), "{interface:?}");
                    let len = (tag as usize * 31 + node) % 245;
                    assert_eq!(message.payload, vec![(tag as u8) ^ from as u8; len], "{interface:?}");
                    next[from] += 1;
                }
                *done.borrow_mut() += 1;
            })
        });
        assert_eq!(sim.unwrap().run(), End::Done, "{interface:?}");
        assert_eq!(*done.borrow(), NODES);
    }
}

/// CNI section 2.2: a block that goes to the processor takes one invalidation and one read, and polling takes no bus at all.
#[test]
fn a_block_takes_an_invalidation_and_a_read() {
    let interface = Interface { kind: Kind::Cni512Q, attachment: Attachment::MemoryBus, snarfing: false };
    let counts = |messages: u32| {
        let mut sim = build(&platform(2), interface, 0, |node| {
            Box::new(move |mut end: Endpoint<'_>| {
                for tag in 0..messages {
                    if node == 0 {
                        end.cpu.work(5000);
                        end.send(1, 0, tag, &[1; 244]);
                    } else {
                        end.wait();
                    }
                }
            })
        })
        .unwrap();
        assert_eq!(sim.run(), End::Done);
        (sim.node(0).counts(), sim.node(1).counts())
    };
    // Between two whole laps of 128 messages.
    let (before, after) = (counts(256), counts(384));
    for (before, after) in [(before.0, after.0), (before.1, after.1)] {
        let (reads, invalidations) = (after.reads - before.reads, after.invalidations - before.invalidations);
        assert!((512..520).contains(&reads), "{reads} reads for 512 blocks");
        assert!((512..520).contains(&invalidations), "{invalidations} invalidations for 512 blocks");
    }
}
