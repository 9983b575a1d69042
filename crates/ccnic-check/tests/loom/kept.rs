//! Models of kept segments: a sender overwrites a value only after the hand-back of all packets that it was part of, while the NIC reads it
//! at any time before.

use ccnic::desc::FLAG_KEPT;

use super::*;

/// A value of one line is sent `copies` times at once and then replaced, `values` times over, through a ring of four units. The hand-back
/// alone says when: there is room all the time. A reader that hands back before it has read (`early`), or a writer that does not wait
/// (`waits`), must fail.
fn replaces<R: Ring, S: SharedMemory + Clone + 'static>(mem: S, early: bool, waits: bool) {
    let (values, copies, layout) = (2, 2, ring_layout(4));
    let to = mem.clone();
    let producer = thread::spawn(move || {
        let mut ring = R::Producer::resume(&to, &layout);
        let mut mark = 0;
        for value in 0..values {
            // `QueuePair::tx_released`
            while waits && ring.known_completed() < mark && ring.completed(&to) < mark {
                to.relax();
            }
            to.write(BYTES, &[value as u8 + 1; 8]);
            for _ in 0..copies {
                let desc = Desc::new(BYTES, 8, FLAG_KEPT).with_meta(value);
                assert_eq!(ring.push(&to, &[desc]), 1, "there is room");
            }
            mark = ring.position();
        }
    });
    let mut ring = R::Consumer::resume(&mem, &layout);
    let mut seen = 0;
    while seen < values * copies {
        let mut out = [Desc::default(); 4];
        let n = ring.pop(&mem, &mut out);
        if n == 0 {
            mem.relax();
            continue;
        }
        if early {
            ring.release_now(&mem, ring.position());
        }
        for desc in &out[..n] {
            assert_eq!((desc.meta, desc.kept()), (seen / copies, true), "order");
            mem.with(desc.offset(), 8, |bytes| assert_eq!(bytes, [desc.meta as u8 + 1; 8], "content"));
            seen += 1;
        }
        ring.release_now(&mem, ring.position());
    }
    join(producer);
}

fn view<R: Ring>() -> LoomView {
    memory::<R>(4, 1).memory()
}

macro_rules! models {
    ($($module:ident: $ring:ident);+ $(;)?) => {
        $(mod $module {
            use super::*;

            #[test]
            fn a_value_is_replaced_after_its_hand_back() {
                model(2, || replaces::<$ring, _>(view::<$ring>(), false, true));
            }

            #[test]
            #[should_panic(expected = "Causality violation")]
            fn a_hand_back_before_the_value_is_read_is_detected() {
                model(2, || replaces::<$ring, _>(view::<$ring>(), true, true));
            }

            #[test]
            #[should_panic] // a race, or the content of the next value
            fn a_sender_that_does_not_wait_is_detected() {
                model(2, || replaces::<$ring, _>(view::<$ring>(), false, false));
            }

            #[test]
            #[should_panic(expected = "Causality violation")]
            fn a_missing_release_is_detected() {
                model(2, || replaces::<$ring, _>(Faulty(view::<$ring>(), WeakRelease), false, true));
            }
        })+
    };
}

models! {
    grouped_epoch: GroupedEpoch;
    grouped_clear: GroupedClear;
    packed: Packed;
    padded: Padded;
    doorbell: Doorbell;
}
