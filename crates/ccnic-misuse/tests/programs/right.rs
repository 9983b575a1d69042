//! Accepted: what the refused programs do, done rightly. Were this refused, nothing would follow from the others.
#![forbid(unsafe_code)]

use ccnic_misuse::ccnic::ring::Ring;
use ccnic_misuse::{ccnic, ccnic_client, ccnic_frame, ccnic_handoff, ccnic_nic, ccnic_shm, ccnic_tcp};
use ccnic_client::{Buf, Burst, Nic, PairVisitor, QueuePair};
use std::path::Path;

pub fn client(nic: &mut Nic, pair: &mut QueuePair, burst: &mut Burst) {
    for buf in burst.iter_mut() {
        pair.with_mut(buf, |bytes| bytes.fill(1));
    }
    let sum: u32 = burst.as_slice().iter().map(|buf| pair.with(buf, |bytes| u32::from(bytes[0]))).sum();
    pair.tx_burst(burst);
    pair.rx_lend(32, |_, bytes, _| assert!(bytes.len() as u32 > sum)).unwrap();
    let _ = nic.reconnect([pair], []);
}

pub fn one(pair: &mut QueuePair, buf: Buf) {
    let mut kept = pair.keep(buf);
    pair.with_kept_mut(&mut kept, |bytes| bytes.fill(2));
    assert!(pair.free_kept(kept).is_ok());
}

pub fn threads(pair: QueuePair, other: &mut QueuePair) {
    std::thread::scope(|scope| {
        scope.spawn(move || pair.config().queues);
        scope.spawn(|| other.retire());
    });
}

pub struct Retire;

impl PairVisitor for Retire {
    type Output = ();
    fn visit<R: Ring>(self, pair: &mut ccnic::host::QueuePair<ccnic_shm::NativeMemory, R>) {
        pair.retire();
    }
}

pub fn nic(queue: &mut ccnic_nic::Queue, bufs: &mut [ccnic_nic::Desc]) {
    let n = queue.rx_burst(bufs);
    let _ = queue.tx_burst(&bufs[..n]);
}

pub fn region(path: &Path) -> u32 {
    let _ = ccnic_nic::Nic::options().listen(path);
    ccnic_shm::Region::create(4096, ccnic_shm::Pages::Small).unwrap().size()
}

pub fn handed(mut to: ccnic_handoff::HandoffProducer<ccnic_handoff::NativeWord>) {
    std::thread::spawn(move || to.take_back(|_| ()));
}

pub fn kept(memory: &mut ccnic_tcp::KeptMemory) {
    if let Some(value) = memory.alloc(100) {
        memory.free(value);
    }
}

pub fn meta() -> u64 {
    ccnic_frame::Meta::default().word()
}
