//! Against stores of the test's own that do wrong: what they lose, damage or bring back is found and counted.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic_kv_load::protocol::rpc::HEADER;
use ccnic_kv_load::run::{Load, Outcome, Pace, run};
use ccnic_kv_load::transport::{Datagrams, Speech};
use ccnic_kv_load::workload::{Plan, Sizes, Workload};

/// What a store does wrong with its n-th answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Loses every hundredth request.
    Loses,
    /// Damages a byte of every hundredth value.
    Damages,
    /// Does every second set as if it were done.
    Forgets,
    /// Answers with another object's value, now and then.
    Confuses,
    /// Refuses every hundredth set.
    Refuses,
}

/// A store that speaks the paper's RPC.
struct Store {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// A store that does wrong after the first `good` requests.
    fn start(fault: Fault, good: u64) -> Store {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let over = Arc::clone(&over);
            std::thread::spawn(move || serve(&socket, fault, good, &over))
        };
        Store { address, over, thread: Some(thread) }
    }

    fn measure(&self, gets: f64) -> Outcome {
        let workload = Workload { objects: OBJECTS, gets, ..Workload::of_the_paper(Sizes::Fixed(100)) };
        let load = Load {
            pace: Pace::Closed,
            inflight: 8,
            measured: Duration::from_millis(300),
            warmup: Duration::ZERO,
            timeout: Duration::from_millis(20),
            patience: Some(Duration::from_secs(60)),
            preload: true,
            run: 1,
        };
        let transport = Datagrams::connect(self.address, Speech::Rpc { shards: 1 }).unwrap();
        run(transport, &Plan::draw(&workload).unwrap(), &load).unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const OBJECTS: u32 = 200;

fn serve(socket: &UdpSocket, fault: Fault, good: u64, over: &AtomicBool) {
    let (mut values, mut input) = (HashMap::<Vec<u8>, Vec<u8>>::new(), [0; 2048]);
    let (mut last, mut n) = (Vec::new(), 0_u64);
    while !over.load(Ordering::Relaxed) {
        let Ok((length, client)) = socket.recv_from(&mut input) else { continue };
        n += 1;
        let wrong = |which, every: u64| fault == which && n > good && n.is_multiple_of(every);
        if wrong(Fault::Loses, 100) {
            continue;
        }
        let (header, rest) = input[..length].split_at(HEADER);
        let (key, value) = rest.split_at(usize::from(header[2]));
        let mut answer = header.to_vec();
        answer[1..8].fill(0);
        if header[0] == 2 {
            if wrong(Fault::Refuses, 100) {
                answer[1] = 4;
            } else if !wrong(Fault::Forgets, 2) {
                values.insert(key.to_vec(), value.to_vec());
            }
        } else if let Some(value) = values.get(key) {
            let mut value = if wrong(Fault::Confuses, 50) { last.clone() } else { value.clone() };
            if wrong(Fault::Damages, 100) {
                value[60] ^= 0x10;
            }
            answer[4..8].copy_from_slice(&(value.len() as u32).to_le_bytes());
            answer.extend_from_slice(&value);
            last = value;
        } else {
            answer[1] = 1;
        }
        let _ = socket.send_to(&answer, client);
    }
}

#[test]
fn a_store_without_fault_is_right() {
    let outcome = Store::start(Fault::None, 0).measure(0.5);
    let tally = &outcome.tally;
    assert!(
        tally.is_right()
            && tally.refused == 0
            && tally.hits == tally.gets
            && tally.gets > 0
            && tally.sets > 0
    );
}

#[test]
fn what_is_lost_is_counted_and_a_preload_is_repeated() {
    let outcome = Store::start(Fault::Loses, 0).measure(0.95);
    assert!(outcome.preload.unwrap().1 > 0, "the preload was repeated");
    let tally = &outcome.tally;
    assert!(tally.lost > 0 && tally.is_right() && tally.hits == tally.gets);
}

#[test]
fn damage_is_found() {
    assert!(Store::start(Fault::Damages, 0).measure(0.95).tally.corrupt > 0);
    assert!(Store::start(Fault::Confuses, 0).measure(0.95).tally.corrupt > 0);
}

#[test]
fn an_old_value_is_found() {
    // The preload itself is done as it should be, with all its repetitions.
    let tally = Store::start(Fault::Forgets, 4 * u64::from(OBJECTS)).measure(0.5).tally;
    assert!(tally.stale > 0 && tally.corrupt == 0, "stale {}, corrupt {}", tally.stale, tally.corrupt);
}

#[test]
fn a_refusal_is_shown() {
    let tally = Store::start(Fault::Refuses, 4 * u64::from(OBJECTS)).measure(0.5).tally;
    assert!(tally.refused > 0 && tally.refusal.as_deref() == Some("out of memory") && tally.is_right());
}
