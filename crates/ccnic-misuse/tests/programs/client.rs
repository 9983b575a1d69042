//! The front door of programs.
#![forbid(unsafe_code)]

use ccnic_misuse::ccnic::ring::Ring;
use ccnic_misuse::{ccnic, ccnic_client, ccnic_shm};
use ccnic_client::{Buf, Burst, Desc, KeptBuf, Nic, PairVisitor, Pool, QueuePair};

pub fn two_exclusive_slices(pair: &QueuePair, buf: &mut Buf) {
    pair.with_mut(buf, |one| pair.with_mut(buf, |other| one[0] = other[0])); //~ E0500 E0501
}

pub fn written_while_it_is_read(pair: &QueuePair, buf: &mut Buf) {
    pair.with(buf, |bytes| pair.write(buf, 0, bytes)); //~ E0500
}

pub fn a_slice_beyond_its_buffer(pair: &QueuePair, buf: &Buf) {
    let mut kept: &[u8] = &[];
    pair.with(buf, |bytes| kept = bytes); //~ E0521
    let _ = kept;
}

pub fn a_slice_beyond_the_call_that_received_it(pair: &mut QueuePair) {
    let mut kept: Vec<&[u8]> = Vec::new();
    let _ = pair.rx_lend(32, |_, bytes, _| kept.push(bytes)); //~ E0521
}

pub fn a_small_slice_beyond_its_call(pair: &mut QueuePair) {
    let mut kept: Vec<&[u8]> = Vec::new();
    let _ = pair.rx_small(32, |_, bytes, _| kept.push(bytes)); //~ E0521
}

pub fn received_while_packets_are_lent(pair: &mut QueuePair, burst: &mut Burst) {
    let _ = pair.rx_lend(32, |_, _, _| drop(pair.rx_burst(burst, 1))); //~ E0500 E0501
}

pub fn a_place_beyond_its_packet(pair: &mut QueuePair, burst: &mut Burst) {
    let mut kept: Vec<&mut [u8]> = Vec::new();
    pair.tx_fill(64, 4, burst, |_, place| { kept.push(place); 0 }); //~ E0521
}

pub fn sent_while_a_place_is_written(pair: &mut QueuePair, burst: &mut Burst, other: &mut Burst) {
    pair.tx_fill(64, 4, burst, |_, _| pair.tx_burst(other) as u64); //~ E0500 E0501
}

pub fn read_after_it_was_sent(pair: &mut QueuePair, burst: &mut Burst) {
    let buf = &burst.as_slice()[0];
    pair.tx_burst(burst); //~ E0502
    pair.with(buf, |_| ());
}

pub fn written_after_it_was_freed(pair: &mut QueuePair, buf: Buf) {
    pair.free_one(buf);
    let mut buf = buf; //~ E0382
    pair.with_mut(&mut buf, |bytes| bytes.fill(1));
}

pub fn freed_twice(pair: &mut QueuePair, buf: Buf) {
    pair.free_one(buf);
    pair.free_one(buf); //~ E0382
}

pub fn in_two_bursts(one: &mut Burst, other: &mut Burst, buf: Buf) {
    let _ = one.push(buf);
    let _ = other.push(buf); //~ E0382
}

pub fn copied(buf: &Buf) -> Buf {
    buf.clone() //~ E0308
}

pub fn a_burst_copied(burst: &Burst) -> Burst {
    burst.clone() //~ E0308
}

pub fn made_of_a_descriptor(desc: Desc) -> Buf {
    desc.into() //~ E0277
}

pub fn made_of_its_parts(desc: Desc) -> Buf {
    Buf::new(desc, todo!()) //~ E0624
}

pub fn a_descriptor_put_in_its_place(buf: &mut Buf, desc: Desc) {
    use ccnic::desc::Slot;
    buf.set(desc, ccnic::desc::Sealed(())); //~ E0603
}

pub fn descriptors_without_a_promise(pair: &mut QueuePair, burst: &mut Burst, desc: Desc) {
    pair.free_descs([desc].into_iter(), burst, ()); //~ E0308
}

pub fn descriptors_freed_in_a_pool(pool: &mut Pool, burst: &mut Burst, desc: Desc) {
    pool.free([desc].into_iter(), burst, ()); //~ E0308
}

pub fn descriptors_sent(pair: &mut QueuePair, burst: &mut Burst, desc: Desc) {
    pair.tx_mixed([ccnic_client::Outgoing::Buffer(desc)].into_iter(), burst, ()); //~ E0308
}

pub fn freed_and_kept(pair: &mut QueuePair, kept: KeptBuf) {
    let _ = pair.free_kept(kept);
    let _ = pair.take_back(kept); //~ E0382
}

pub fn changed_while_a_part_is_to_be_sent(pair: &mut QueuePair, mut kept: KeptBuf, headers: &mut Burst) {
    let part = kept.whole();
    pair.with_kept_mut(&mut kept, |bytes| bytes.fill(1)); //~ E0502
    pair.tx_kept(headers, [[part]]);
}

pub fn kept_and_copied(kept: &KeptBuf) -> KeptBuf {
    kept.clone() //~ E0308
}

pub fn used_by_two_threads(pair: &QueuePair) {
    std::thread::scope(|scope| {
        scope.spawn(|| pair.config().queues); //~ E0277
    });
}

pub fn a_pool_of_two_threads(pool: &mut Pool) {
    std::thread::scope(|scope| {
        scope.spawn(|| pool.retire());
        scope.spawn(|| pool.retire()); //~ E0499
    });
}

pub fn kept_parts_of_two_threads(kept: &KeptBuf) {
    std::thread::scope(|scope| {
        scope.spawn(|| kept.len()); //~ E0277
    });
}

pub fn reconnected_with_one_pair_for_two(nic: &mut Nic, pair: &mut QueuePair) {
    let _ = nic.reconnect([&mut *pair, &mut *pair], []); //~ E0499
}

pub fn reconnected_while_a_packet_is_lent(nic: &mut Nic, pair: &mut QueuePair, buf: &Buf) {
    pair.with(buf, |_| drop(nic.reconnect([pair], []))); //~ E0505
}

pub fn asked_after_it_was_closed(nic: Nic) {
    drop(nic);
    let _ = nic.status(); //~ E0382
}

pub fn its_region_used_directly(nic: &Nic) {
    nic.region().agent(); //~ E0133
}

pub struct Leak;

impl PairVisitor for Leak {
    type Output = ccnic_shm::NativeMemory;
    fn visit<R: Ring>(self, pair: &mut ccnic::host::QueuePair<ccnic_shm::NativeMemory, R>) -> Self::Output {
        pair.mem.clone() //~ E0616
    }
}
