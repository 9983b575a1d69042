//! The hand-off between workers: random scripts against a model of it.

use std::collections::VecDeque;

use ccnic::Desc;
use ccnic_handoff::{HandoffConsumer, HandoffProducer, Item, handoff};
use proptest::prelude::*;

fn item(n: u64) -> Item {
    Item {
        desc: Desc::new(n as u32, n as u16, 0).with_meta(n),
        from: (n % 5) as u16,
        to: (n % 3) as u16,
        mark: !n as u32,
    }
}

#[derive(Debug, Clone)]
enum Op {
    Push(usize),
    Publish,
    Release,
    Completed,
    Peek(usize),
    Advance(usize),
    /// The consumer is dropped, and the producer takes back the items that it had not taken.
    DropConsumer,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0usize..9).prop_map(Op::Push),
        6 => Just(Op::Publish),
        2 => Just(Op::Release),
        4 => Just(Op::Completed),
        8 => (1usize..9).prop_map(Op::Peek),
        8 => (0usize..9).prop_map(Op::Advance),
        1 => Just(Op::DropConsumer),
    ]
}

/// The expected state of the queue, with numbers for items.
#[derive(Debug, Default)]
struct Model {
    pushed: u64,
    published: u64,
    taken: u64,
    released: u64,
    peeked: usize,
}

struct Rig {
    capacity: u64,
    producer: HandoffProducer,
    consumer: Option<HandoffConsumer>,
    model: Model,
}

impl Rig {
    fn apply(&mut self, op: &Op) {
        let Rig { capacity, producer, consumer, model } = self;
        match op {
            Op::Push(n) => {
                let room = capacity.saturating_sub(model.pushed - model.released) as usize;
                let got = producer.push((model.pushed..).take(*n).map(item));
                let gone = producer.consumer_gone();
                assert_eq!(got, if gone { 0 } else { room.min(*n) });
                model.pushed += got as u64;
            }
            Op::Publish => {
                producer.publish();
                model.published = model.pushed;
            }
            Op::Release => {
                producer.release();
                model.released = model.released.max(model.taken);
            }
            Op::Completed => {
                let mut expected = model.released..model.taken.max(model.released);
                let n = producer.completed(|i| assert_eq!(Some(i), expected.next().map(item)));
                assert_eq!((n as u64, expected.next()), (model.taken.saturating_sub(model.released), None));
                model.released = model.released.max(model.taken);
            }
            Op::Peek(most) => {
                let Some(consumer) = consumer else { return };
                let mut out = vec![Item::default(); *most];
                model.peeked = consumer.peek(&mut out);
                // The consumer may see fewer items than are published, but at least one if there is one.
                let ready = (model.published - model.taken) as usize;
                assert!(model.peeked <= ready.min(*most) && (model.peeked > 0) == (ready > 0));
                let expected: Vec<_> = (model.taken..).take(model.peeked).map(item).collect();
                assert_eq!(out[..model.peeked], expected);
            }
            Op::Advance(n) => {
                let n = (*n).min(model.peeked);
                let Some(consumer) = consumer else { return };
                consumer.advance(n);
                model.taken += n as u64;
                model.peeked -= n;
            }
            Op::DropConsumer => {
                *consumer = None;
                producer.completed(|_| {});
                let mut back = VecDeque::new();
                producer.take_back(|i| back.push_back(i));
                let first = model.taken.max(model.released);
                assert_eq!(back, (first..model.pushed).map(item).collect::<VecDeque<_>>());
                (model.released, model.published) = (model.pushed, model.pushed);
                assert!(producer.is_settled());
            }
        }
    }

    /// Checks that everything pushed was taken or has been taken back.
    fn finish(mut self) {
        self.apply(&Op::Publish);
        self.producer.close();
        while let Some(consumer) = &mut self.consumer {
            if consumer.is_finished() {
                break;
            }
            self.apply(&Op::Peek(8));
            self.apply(&Op::Advance(8));
        }
        self.apply(&Op::Completed);
        assert!(self.producer.is_settled());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_scripts(bits in 0u32..5, ops in prop::collection::vec(op(), 1..300)) {
        let capacity = 1 << bits;
        let (producer, consumer) = handoff(capacity);
        let model = Model::default();
        let mut rig = Rig { capacity: capacity as u64, producer, consumer: Some(consumer), model };
        ops.iter().for_each(|op| rig.apply(op));
        rig.finish();
    }
}
