//! Tests of open NICs, with NICs in threads of the test.

use super::*;
use crate::test_nic::{PATIENCE, TestNic};
use ccnic::{Burst, Demote, Design};
use ccnic_shm::Adopt;

fn open(socket: &Path, design: Design) -> Nic {
    let shared_pool = design != Design::Doorbell;
    let config = Config { queues: 2, ring: 64, buffers: 128, design, shared_pool, ..Config::default() };
    Nic::options().config(&config).pages(Pages::Small).open(socket).unwrap()
}

/// Sends a packet of this byte and waits until it is back.
fn round_trip(pair: &mut QueuePair, byte: u8) {
    let mut burst = Burst::new();
    assert_eq!(pair.alloc(1, 1, &mut burst), 1);
    burst.iter_mut().for_each(|buf| assert_eq!(pair.write(buf, 0, &[byte]), 1));
    assert_eq!(pair.tx_burst(&mut burst), 1);
    pair.wait(PATIENCE).unwrap();
    assert_eq!(pair.rx_burst(&mut burst, 32), 1);
    assert!(pair.with(&burst.as_slice()[0], |bytes| bytes == [byte]));
    pair.free(&mut burst);
}

#[test]
fn packets_go_round_in_every_design_and_survive_the_nic() {
    for design in Design::ALL {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let first = TestNic::start(&socket, false);
        let mut nic = open(&socket, design);
        let mut pairs = [nic.queue_pair(0).unwrap(), nic.queue_pair(1).unwrap()];
        (0..100).for_each(|i| round_trip(&mut pairs[usize::from(i % 2)], i));
        assert!(matches!(nic.reconnect(&mut pairs, []), Err(Error::StillAlive)));
        drop(first);
        assert!(!nic.alive());
        assert!(matches!(pairs[0].wait(None), Err(Error::Gone)));
        assert!(matches!(nic.reconnect(&mut pairs, []), Err(Error::Unreachable { .. })));
        let _second = TestNic::start(&socket, false);
        let [one, _] = &mut pairs;
        assert!(matches!(nic.reconnect([one], []), Err(Error::PairsMissing { given: 2, brought: 1 })));
        nic.reconnect(&mut pairs, []).unwrap();
        (0..100).for_each(|i| round_trip(&mut pairs[usize::from(i % 2)], i));
    }
}

/// The region gets fresh memory once, before the successor is there; what the program holds stays where it
/// is.
fn memory_of_its_own(pages: Pages) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let first = TestNic::start(&socket, false);
    let config = Config { buffers: 128, ..Config::default() };
    let mut nic = Nic::options().config(&config).pages(pages).open(&socket).unwrap();
    let mut pair = nic.queue_pair(0).unwrap();
    let inode = |nic: &Nic| rustix::fs::fstat(nic.region()).unwrap().st_ino;
    let (base, old) = (nic.region().base(), inode(&nic));
    let mut held = Burst::new();
    assert_eq!(pair.alloc(4000, 1, &mut held), 1);
    held.iter_mut().for_each(|buf| assert_eq!(pair.write(buf, 0, &[7; 4000]), 4000));
    drop(first);
    assert!(matches!(nic.reconnect([&mut pair], []), Err(Error::Unreachable { .. })));
    let new = inode(&nic);
    assert_ne!(new, old, "the old NIC has sealed it");
    assert!(matches!(nic.reconnect([&mut pair], []), Err(Error::Unreachable { .. })));
    let _second = TestNic::start(&socket, false);
    assert_eq!(nic.reconnect([&mut pair], []).unwrap(), 0);
    assert_eq!((inode(&nic), nic.region().base()), (new, base));
    assert!(pair.with(&held.as_slice()[0], |bytes| bytes == [7; 4000]));
    (0..100).for_each(|i| round_trip(&mut pair, i));
    pair.free(&mut held);
}

#[test]
fn a_successor_gets_memory_of_its_own() {
    memory_of_its_own(Pages::Small);
    memory_of_its_own(Pages::Auto);
}

/// The tuning in force in a queue pair.
struct InForce;

impl PairVisitor for InForce {
    type Output = Tuning;

    fn visit<R: Ring>(self, pair: &mut host::QueuePair<NativeMemory, R>) -> Tuning {
        pair.tuning()
    }
}

#[test]
fn a_nic_tells_its_tuning_and_so_does_its_successor() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let [one, two, own]: [Tuning; 3] =
        ["fetch=read,ahead=1", "demote=off", "idle=spin"].map(|text| text.parse().unwrap());
    let first = TestNic::start_tuned(&socket, one.word());
    let options = Nic::options().config(&Config { queues: 2, buffers: 128, ..Config::default() });
    let mut told = options.open(&socket).unwrap();
    let mut pair = told.queue_pair(0).unwrap();
    let mut headstrong = options.clone().tuning(own).open(&socket).unwrap();
    let mut other = headstrong.queue_pair(0).unwrap();
    assert_eq!((told.tuning(), pair.dispatch(InForce)), (one, one));
    assert_eq!((headstrong.tuning(), other.dispatch(InForce)), (own, own));
    drop(first);
    let _second = TestNic::start_tuned(&socket, two.word());
    told.reconnect([&mut pair], []).unwrap();
    headstrong.reconnect([&mut other], []).unwrap();
    assert_eq!((told.tuning(), pair.dispatch(InForce)), (two, two));
    assert_eq!(told.queue_pair(1).unwrap().dispatch(InForce), two);
    assert_eq!((headstrong.tuning(), other.dispatch(InForce)), (own, own));
    (0..100).for_each(|i| round_trip(&mut pair, i));
}

#[test]
fn a_region_that_says_when_to_demote_is_obeyed() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let _nic = TestNic::start_tuned(&socket, Tuning { demote: Demote::On, ..Tuning::default() }.word());
    let config = Config { demote: Demote::Off, buffers: 128, ..Config::default() };
    let mut nic = Nic::options().config(&config).open(&socket).unwrap();
    assert_eq!(nic.queue_pair(0).unwrap().dispatch(InForce).demote, Demote::Off);
}

#[test]
fn a_queue_pair_can_be_taken_once() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let _nic = TestNic::start(&socket, false);
    let mut nic = open(&socket, Design::Packed);
    let _pair = nic.queue_pair(1).unwrap();
    assert!(matches!(nic.queue_pair(1), Err(Error::QueueTaken { queue: 1 })));
    assert!(matches!(nic.queue_pair(2), Err(Error::NoQueue { queue: 2, queues: 2 })));
}

#[test]
fn rss_is_kept_for_a_nic_that_can_do_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let first = TestNic::start(&socket, false);
    let mut nic = open(&socket, Design::GroupedEpoch);
    assert!(matches!(nic.set_rss(Some(&Rss::new(3))), Err(Error::Rss { .. })));
    assert!(matches!(nic.set_rss(Some(&Rss::new(2))), Err(Error::NoRss)));
    assert_eq!(nic.rss(), None);
    drop(first);
    let second = TestNic::start(&socket, true);
    nic.reconnect([], []).unwrap();
    assert_eq!(nic.rss(), Some(&Rss::new(2)));
    nic.set_rss(None).unwrap();
    drop(second);
    assert!(matches!(nic.set_rss(Some(&Rss::new(1))), Err(Error::Gone)));
    assert_eq!(nic.rss(), Some(&Rss::new(1)));
}

#[expect(unsafe_code, reason = "a promise")]
fn adopt() -> Adopt {
    // SAFETY: descriptors of `disown`, each handed over once.
    unsafe { Adopt::promise() }
}

#[test]
fn pools_count_for_recovery() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let first = TestNic::start(&socket, false);
    let mut nic = open(&socket, Design::GroupedEpoch);
    let (mut pool, mut burst) = (nic.pool(), Burst::new());
    assert_eq!(pool.alloc(50, &mut burst), 50);
    drop(first);
    let _second = TestNic::start(&socket, false);
    assert!(matches!(nic.reconnect([], []), Err(Error::PairsMissing { given: 1, brought: 0 })));
    assert_eq!(nic.reconnect([], [&mut pool]).unwrap(), 0, "the pool handle holds them");
    let held: Vec<_> = burst.disown().collect();
    assert_eq!(pool.free(held.into_iter(), &mut burst, adopt()), 50);
}

/// Those of another one in their place: the buffers of its own would be taken for lost, and come to the program twice.
#[test]
fn reconnecting_takes_the_queue_pairs_of_this_nic_only() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let first = TestNic::start(&socket, false);
    let [mut nic, mut other] = [(); 2].map(|()| open(&socket, Design::GroupedEpoch));
    let (mut pair, mut foreign) = (nic.queue_pair(0).unwrap(), other.queue_pair(0).unwrap());
    let (mut pool, mut foreign_pool) = (nic.pool(), other.pool());
    drop(first);
    let _second = TestNic::start(&socket, false);
    let missing = |result| matches!(result, Err(Error::PairsMissing { given: 2, brought: 2 }));
    assert!(missing(nic.reconnect([&mut foreign], [&mut pool])));
    assert!(missing(nic.reconnect([&mut pair], [&mut foreign_pool])));
    assert_eq!(nic.reconnect([&mut pair], [&mut pool]).unwrap(), 0);
}

/// Sends a value, which is sent at once or copied, and waits until it is back.
fn answer(pair: &mut QueuePair, value: &ccnic::host::KeptBuf) {
    let mut headers = Burst::new();
    assert_eq!(pair.alloc(16, 1, &mut headers), 1);
    assert_eq!(pair.tx_kept(&mut headers, [[value.whole()]]), 1);
    let mut burst = Burst::new();
    while pair.rx_burst(&mut burst, 32) == 0 {
        pair.wait(PATIENCE).unwrap();
    }
    assert!(pair.with(&burst.as_slice()[0], |bytes| bytes[16..] == [7; 1000]));
    pair.free(&mut burst);
}

/// A value outlives NICs, among them one that does not know such segments and gets copies.
#[test]
fn kept_buffers_stay_the_programs_whatever_the_nic_knows() {
    for design in Design::ALL {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let mut running = TestNic::start(&socket, false);
        let mut nic = open(&socket, design);
        let mut pairs = [nic.queue_pair(0).unwrap(), nic.queue_pair(1).unwrap()];
        let mut burst = Burst::new();
        assert_eq!(pairs[0].alloc(1000, 1, &mut burst), 1);
        let mut value = pairs[0].keep(burst.pop().unwrap());
        assert_eq!(pairs[0].with_kept_mut(&mut value, |bytes| bytes.fill(7)), Some(()));
        for knows in [true, false, true] {
            (0..50).for_each(|_| answer(&mut pairs[0], &value));
            drop(running);
            // Sent to nobody: a successor delivers it, or drops it if it would take the value's buffer for its own.
            let mut headers = Burst::new();
            assert_eq!(pairs[0].alloc(16, 1, &mut headers), 1);
            assert_eq!(pairs[0].tx_kept(&mut headers, [[value.whole()]]), 1);
            let knew = pairs[0].knows_kept();
            assert!(!knew || !pairs[0].is_released(&value), "{design:?}");
            running = if knows { TestNic::start_older(&socket) } else { TestNic::start(&socket, false) };
            nic.reconnect(&mut pairs, []).unwrap();
            assert_eq!(pairs[0].knows_kept(), !knows);
            if knew {
                assert!(pairs[0].is_released(&value), "{design:?}: what it stood in was dropped");
                assert!(!pairs[0].rx_waits());
            } else {
                while pairs[0].rx_burst(&mut burst, 32) == 0 {
                    pairs[0].wait(PATIENCE).unwrap();
                }
                pairs[0].free(&mut burst);
            }
        }
        assert!(pairs[0].free_kept(value).is_ok());
        drop(running);
    }
}
