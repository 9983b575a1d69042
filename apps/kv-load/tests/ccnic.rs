//! Over a ccnic NIC with a switch, and as the NIC of the store: the RPC, to a store of the test's own, and what it loses.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../tcp/tests/common/mod.rs"]
mod common;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccnic_client::Design;
use ccnic_kv_load::protocol::rpc::HEADER;
use ccnic_kv_load::run::{Load, Outcome, Pace, run};
use ccnic_kv_load::transport::{AsNic, Attached, Speech};
use ccnic_kv_load::workload::{Plan, Sizes, Workload};
use ccnic_tcp::{Datagrams, Options, Reply, Stack};
use common::{Nic, alone, until};

const PORT: u16 = 11_300;
const SHARDS: u16 = 2;

/// A store of two threads' ports in one thread, which does not answer every `loses`-th request.
#[derive(Default)]
struct Store {
    values: HashMap<Vec<u8>, Vec<u8>>,
    ports: [u64; SHARDS as usize],
    requests: u64,
    loses: Option<u64>,
}

impl Datagrams for Store {
    fn datagram(&mut self, _: SocketAddr, to: SocketAddr, payload: &[u8], reply: &mut Reply<'_>) {
        self.requests += 1;
        if self.loses.is_some_and(|loses| self.requests.is_multiple_of(loses)) {
            return;
        }
        self.ports[usize::from(to.port() - PORT)] += 1;
        let (header, rest) = payload.split_at(HEADER);
        let (key, value) = rest.split_at(usize::from(header[2]));
        let mut answer = header.to_vec();
        answer[1..8].fill(0);
        if header[0] == 2 {
            self.values.insert(key.to_vec(), value.to_vec());
        } else if let Some(value) = self.values.get(key) {
            answer[4..8].copy_from_slice(&(value.len() as u32).to_le_bytes());
            answer.extend_from_slice(value);
        } else {
            answer[1] = 1;
        }
        assert!(reply.put(&answer), "{} bytes", answer.len());
    }
}

/// Puts a load on a store: what fits into a packet of the server's.
fn measure(store: Store, pace: Pace) -> (Outcome, Store) {
    let (outcome, store) = measure_up_to(1400, store, &load(pace));
    (outcome.unwrap(), store)
}

/// Puts a load with values of up to so many bytes on a store.
fn measure_up_to(largest: u32, store: Store, load: &Load) -> (anyhow::Result<Outcome>, Store) {
    let nic = Nic::start(&[]);
    let mut server: Stack = nic.host("10.9.0.1/24", "fd09::1/64");
    (0..SHARDS).for_each(|shard| server.bind(PORT + shard).unwrap());
    let at = SocketAddr::from(([10, 9, 0, 1], PORT));
    let load_it = || {
        let speech = Speech::Rpc { shards: SHARDS };
        let attached = Attached::open(&nic.socket, "10.9.0.2/24", at, speech, 1500, None)?;
        run(attached, &Plan::draw(&workload(largest))?, load)
    };
    serve_meanwhile(server, store, load_it)
}

fn workload(largest: u32) -> Workload {
    Workload { objects: 500, largest, gets: 0.8, ..Workload::of_the_paper(Sizes::Geo) }
}

fn load(pace: Pace) -> Load {
    Load {
        pace,
        inflight: 32,
        measured: Duration::from_millis(300),
        warmup: Duration::ZERO,
        timeout: Duration::from_millis(300),
        patience: Some(Duration::from_secs(60)),
        preload: true,
        run: 1,
    }
}

/// Has a stack serve a store while a load is measured.
fn serve_meanwhile(
    mut server: Stack,
    mut store: Store,
    load_it: impl FnOnce() -> anyhow::Result<Outcome>,
) -> (anyhow::Result<Outcome>, Store) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serves = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if server.poll_datagrams(&mut store) == 0 {
                    std::thread::yield_now();
                }
            }
            store
        });
        let outcome = load_it();
        over.store(true, Ordering::Relaxed);
        let store = serves.join().unwrap();
        (outcome, store)
    })
}

/// Attaches a store to the generator, which is its NIC, and puts a load on it.
fn measure_as_nic(design: Design, store: Store, load: &Load) -> (anyhow::Result<Outcome>, Store) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut options = Options::new("10.9.0.1/24".parse().unwrap());
    options.mtu = 9586;
    options.config.design = design;
    options.config.shared_pool = design != Design::Doorbell;
    std::thread::scope(|scope| {
        let generator = scope.spawn(|| {
            let at = SocketAddr::from(([10, 9, 0, 1], PORT));
            let as_nic = AsNic::listen(&socket, "10.9.0.2/24", at, Speech::Rpc { shards: 1 })?;
            run(as_nic, &Plan::draw(&workload(9500))?, load)
        });
        let mut server = None;
        until("the generator", || {
            server = Stack::open(&socket, &options).ok();
            std::thread::yield_now();
            server.is_some() || generator.is_finished()
        });
        let mut server = server.unwrap();
        server.bind(PORT).unwrap();
        serve_meanwhile(server, store, || generator.join().unwrap())
    })
}

#[test]
fn a_store_of_each_design_is_loaded_by_its_nic() {
    let _alone = alone();
    for design in [Design::GroupedEpoch, Design::GroupedClear, Design::Doorbell] {
        let (outcome, store) = measure_as_nic(design, Store::default(), &load(Pace::Closed));
        let outcome = outcome.unwrap();
        let tally = &outcome.tally;
        assert!(
            tally.is_right() && tally.gets > 0 && tally.sets > 0 && tally.hits == tally.gets,
            "{design}: {tally:?}"
        );
        assert_eq!(
            (tally.refused, tally.lost, outcome.strays, store.values.len()),
            (0, 0, 0, 500),
            "{design}"
        );
        assert!(store.values.values().any(|value| value.len() > 8192), "packets of three buffers");
    }
}

#[test]
fn every_value_comes_back_from_the_thread_that_owns_it() {
    let _alone = alone();
    let (outcome, store) = measure(Store::default(), Pace::Closed);
    let tally = &outcome.tally;
    assert!(tally.is_right() && tally.gets > 0 && tally.sets > 0 && tally.hits == tally.gets, "{tally:?}");
    assert_eq!((tally.refused, outcome.strays, store.values.len()), (0, 0, 500));
    assert!(store.ports.iter().all(|count| *count > 100), "{:?}", store.ports);
}

/// Requests and answers that are longer than a frame.
#[test]
fn long_values_go_in_fragments_both_ways() {
    let _alone = alone();
    // Few at a time: a ring has room for all of their fragments.
    let (outcome, store) = measure_up_to(9500, Store::default(), &Load { inflight: 8, ..load(Pace::Closed) });
    let outcome = outcome.unwrap();
    let tally = &outcome.tally;
    assert!(tally.is_right() && tally.gets > 0 && tally.sets > 0 && tally.hits > 0, "{tally:?}");
    assert_eq!((tally.refused, outcome.strays), (0, 0));
    assert!(store.values.values().filter(|value| value.len() > 1500).count() > 50);
    assert!(store.values.values().any(|value| value.len() > 8192));
}

#[test]
fn what_the_store_loses_is_counted() {
    let _alone = alone();
    let pace = Pace::Open { rate: 500.0, poisson: true };
    let (outcome, _) = measure(Store { loses: Some(40), ..Store::default() }, pace);
    let tally = &outcome.tally;
    assert!(tally.is_right() && tally.hits == tally.gets, "{tally:?}");
    assert!(outcome.preload.unwrap().1 > 0 && tally.lost > 0, "{tally:?}");
}

/// The store is there and answers ARP, but no request.
#[test]
fn a_store_that_answers_no_request_is_given_up() {
    let _alone = alone();
    let load = Load {
        patience: Some(Duration::from_millis(300)),
        timeout: Duration::from_millis(20),
        ..load(Pace::Closed)
    };
    let silent = || Store { loses: Some(1), ..Store::default() };
    for (outcome, store) in
        [measure_up_to(1400, silent(), &load), measure_as_nic(Design::GroupedEpoch, silent(), &load)]
    {
        let error = outcome.unwrap_err().to_string();
        let expected = "the store does not answer to the preload: nothing has come for 0.3 s, ";
        assert!(error.starts_with(expected), "{error}");
        assert!(store.requests > 0, "requests have come");
    }
}

#[test]
fn a_store_that_is_not_there_is_given_up() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let at = SocketAddr::from(([10, 9, 0, 1], PORT));
    let limit = Some(Duration::from_millis(300));
    let opened = Attached::open(&nic.socket, "10.9.0.2/24", at, Speech::Rpc { shards: SHARDS }, 1500, limit);
    let error = opened.err().unwrap().to_string();
    assert_eq!(error, "10.9.0.1 does not answer");
}
