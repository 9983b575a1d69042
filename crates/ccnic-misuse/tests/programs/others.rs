//! NICs of one's own, the hand-off between threads, frames, kept values.
#![forbid(unsafe_code)]

use ccnic_misuse::{ccnic_control, ccnic_frame, ccnic_handoff, ccnic_nic, ccnic_tcp};
use ccnic_handoff::{HandoffConsumer, HandoffProducer, Item, NativeWord};

pub fn a_nic_queue_of_two_threads(queue: &ccnic_nic::Queue) {
    std::thread::scope(|scope| {
        scope.spawn(|| queue.stats()); //~ E0277
    });
}

pub fn a_nic_queue_copied(queue: &ccnic_nic::Queue) -> ccnic_nic::Queue {
    queue.clone() //~ E0308
}

pub fn the_region_of_a_program(program: &ccnic_nic::Program) {
    program.region().agent(); //~ E0133
}

pub fn released_and_asked(program: ccnic_nic::Program) -> i32 {
    drop(program);
    program.pid() //~ E0382
}

pub fn rooms_that_overlap(queue: &mut ccnic_nic::Queue, room: &mut [u8]) {
    let _ = queue.rx_copy(2, 64, |_, _| &mut *room); //~ lifetime
}

pub fn two_producers(producer: &HandoffProducer<NativeWord>) -> HandoffProducer<NativeWord> {
    producer.clone() //~ E0308
}

pub fn two_consumers(consumer: &HandoffConsumer<NativeWord>) -> HandoffConsumer<NativeWord> {
    consumer.clone() //~ E0308
}

pub fn an_item_after_the_producer(producer: HandoffProducer<NativeWord>, item: Item) {
    std::thread::spawn(move || drop(producer));
    drop((producer, item)); //~ E0382
}

pub fn two_headers_at_once(segmenter: &mut ccnic_frame::Segmenter, segment: &ccnic_frame::Segment, sum: ccnic_frame::Sum) {
    let one = segmenter.header(segment, sum);
    let other = segmenter.header(segment, sum); //~ E0499
    let _ = (one, other);
}

pub fn places_of_a_kept_value(memory: &ccnic_tcp::KeptMemory, kept: &ccnic_tcp::Kept) {
    memory.places(kept); //~ E0133
}

pub fn a_kept_value_freed_twice(memory: &mut ccnic_tcp::KeptMemory, kept: ccnic_tcp::Kept) {
    memory.free(kept);
    memory.free(kept); //~ E0382
}

pub fn a_kept_value_lent_for_longer(memory: &ccnic_tcp::KeptMemory, kept: &ccnic_tcp::Kept) {
    let mut bytes: &[u8] = &[];
    memory.read(kept, 0..1, |part| bytes = part); //~ E0521
    let _ = bytes;
}

pub fn written_while_it_is_lent(memory: &mut ccnic_tcp::KeptMemory, mut kept: ccnic_tcp::Kept, other: ccnic_tcp::Kept) {
    memory.read(&other, 0..1, |part| drop(memory.write(&mut kept, 0, part))); //~ E0500
}

pub fn a_connection_after_its_end(connection: ccnic_control::Connection) {
    drop(connection);
    connection.has_ended(); //~ E0382
}
