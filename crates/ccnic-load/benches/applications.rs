//! What the applications' packets cost their threads, for `counts.py`, which counts instructions: one thread is the application, and the
//! NICs and clients around it, by turns.
//!
//! `cargo bench -p ccnic-load --bench applications -- kv --design paper --laps N --burst 32 --size 64`: N bursts of 32 gets, each of a
//! value of 64 bytes. `echo`: segments of calls. `overlay`: answers to gets that go down and come back up, over a ring of the E810's
//! design below. `--burst 0` polls in vain. `store`: gets that the store of `ccnic-kv` answers, without packets.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use ccnic::desc::Desc;
use ccnic::host::{self, QueuePair};
use ccnic::nic::{Fetched, NicQueue, Pipeline, loopback};
use ccnic::ring::{Doorbell, Ring, RingVisitor};
use ccnic::{Burst, Config, Design, Layout};
use ccnic_kv::rpc;
use ccnic_kv::store::{Limits, Store, Update};
use ccnic_load::apps::echo::{FastPath, SEGMENT};
use ccnic_load::apps::kv::{ANSWER, Request, Server, Values};
use ccnic_load::apps::overlay::Overlay;
use ccnic_shm::{NativeMemory, Pages, Region};
use ccnic_testing::RegionMemory;

type Mem = NativeMemory;

#[inline(never)]
fn step_app_kv<R: Ring>(server: &mut Server<Mem, R>) -> usize {
    server.poll(32, |_| {})
}

#[inline(never)]
fn step_app_echo<R: Ring>(service: &mut FastPath<Mem, R>) -> usize {
    service.poll(32, |_| {})
}

#[inline(never)]
fn step_app_overlay<R: Ring>(overlay: &mut Overlay<Mem, R, Mem, Doorbell>) -> (usize, usize) {
    overlay.poll()
}

#[inline(never)]
fn step_app_store(store: &Store, requests: &[Vec<u8>]) -> usize {
    let mut session = store.session(1);
    let found = |request: &Vec<u8>| {
        rpc::answer(request, None, &mut session, 9000, |_, value, _| value.heap_len()).unwrap()
    };
    requests.iter().map(found).sum()
}

/// Bursts of 32 gets of keys of 8 bytes.
fn store(laps: u64) {
    const OBJECTS: u64 = 100_000;
    let store = Store::new(1, &Limits { memory: 1 << 30, ..Limits::default() }, 1);
    let mut session = store.session(1);
    for i in 0..OBJECTS {
        session.update(&Update::set(&i.to_le_bytes(), &[7; 64]));
    }
    drop(session);
    for lap in 0..laps {
        let key = |i: u64| ((lap * 32 + i) * 7919 % OBJECTS).to_le_bytes();
        let get = |i: u64| [&rpc::request(rpc::Operation::Get, 8, 0, i)[..], &key(i)].concat();
        let requests: Vec<Vec<u8>> = (0..32).map(get).collect();
        assert_eq!(step_app_store(&store, &requests), 32 * 64);
    }
    println!("packets {laps}");
}

/// What is counted.
struct Case {
    app: String,
    laps: u64,
    burst: usize,
    size: u16,
    config: Config,
}

fn config(design: Design) -> Config {
    let shared_pool = design != Design::Doorbell;
    Config { ring: 1024, buffers: 4096, design, shared_pool, small: shared_pool, ..Config::default() }
}

fn region(config: &Config) -> (Region, Layout) {
    let layout = Layout::new(config).unwrap();
    let region = Region::create(layout.size(), Pages::Auto).unwrap();
    host::format(&region.memory(), &layout);
    (region, layout)
}

/// Takes what the program has sent; returns the packets.
fn take<R: Ring>(nic: &mut NicQueue<Mem, R>, fetched: &mut Fetched) -> usize {
    let mut packets = 0;
    while nic.fetch(fetched) > 0 {
        packets += fetched.rest().iter().filter(|desc: &&Desc| !desc.more()).count();
        nic.complete(fetched.rest());
        fetched.advance(fetched.rest().len());
        nic.flush();
    }
    packets
}

impl Case {
    /// Requests to an application, and its answers.
    fn serve<R: Ring>(&self, nic: &mut NicQueue<Mem, R>, request: &[u8], mut app: impl FnMut() -> usize) {
        let mut fetched = Fetched::default();
        for _ in 0..self.laps {
            for _ in 0..self.burst {
                assert!(nic.deliver_bytes(&[request], 0));
            }
            nic.flush();
            assert_eq!(app(), self.burst);
            assert_eq!(take(nic, &mut fetched), self.burst);
        }
    }

    fn overlay<R: Ring>(&self, mut pair: QueuePair<Mem, R>, upper: NicQueue<Mem, R>) {
        let (region, layout) = region(&config(Design::Doorbell));
        let mem = region.memory();
        let lower = QueuePair::new(mem.clone(), &layout, 0).unwrap();
        let (mut device, mut pipeline) =
            (NicQueue::<_, Doorbell>::new(mem.clone(), &layout, 0).unwrap(), Pipeline::default());
        let mut overlay = Overlay::new(upper, lower);
        overlay.poll();
        let (mut burst, mut headers) = (Burst::new(), Burst::new());
        pair.alloc(self.size, 1, &mut burst);
        let value = pair.keep(burst.pop().unwrap());
        for _ in 0..self.laps {
            pair.alloc(ANSWER as u16, self.burst, &mut headers);
            assert_eq!(pair.tx_kept(&mut headers, (0..self.burst).map(|_| [value.whole()])), self.burst);
            let (mut down, mut up) = (0, 0);
            // A fetch brings 32 segments, 16 packets; in vain there is nothing to wait for.
            let rounds = self.burst.div_ceil(16).max(1);
            for round in 0..2 * rounds {
                let (sent, come) = step_app_overlay(&mut overlay);
                (down, up) = (down + sent, up + come);
                if round + 1 == rounds {
                    while loopback(&mut device, &mut pipeline, &mem, false) > 0 {}
                }
            }
            assert_eq!((down, up), (self.burst, self.burst));
            while pair.rx_burst(&mut burst, 32) > 0 {
                pair.free(&mut burst);
            }
        }
    }
}

impl RingVisitor for Case {
    type Output = ();

    fn visit<R: Ring>(self) {
        let (region, layout) = region(&self.config);
        let mut pair = QueuePair::<_, R>::new(region.memory(), &layout, 0).unwrap();
        let mut nic = NicQueue::<_, R>::new(region.memory(), &layout, 0).unwrap();
        match self.app.as_str() {
            "kv" => {
                let values = Values::new(&mut pair, &[self.size.into()]).unwrap();
                let mut server = Server::new(pair, values);
                server.poll(32, |_| {});
                let request = Request { set: false, object: 0, number: 1 }.to_bytes();
                self.serve(&mut nic, &request, || step_app_kv(&mut server));
            }
            "echo" => {
                let mut service = FastPath::new(pair);
                service.poll(32, |_| {});
                self.serve(&mut nic, &[1; SEGMENT], || step_app_echo(&mut service));
            }
            _ => self.overlay(pair, nic),
        }
        println!("packets {}", self.laps);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let value = |name: &str, other: &str| {
        let at = args.iter().position(|arg| arg == name);
        at.and_then(|at| args.get(at + 1)).cloned().unwrap_or(other.to_owned())
    };
    let number = |name: &str, other: &str| value(name, other).parse::<u64>().unwrap();
    let design = value("--design", "paper").parse::<Design>().unwrap();
    if args.first().is_some_and(|app| app == "store") {
        return store(number("--laps", "1000"));
    }
    design.dispatch(Case {
        app: args.first().filter(|arg| !arg.starts_with("--")).cloned().unwrap_or("kv".to_owned()),
        laps: number("--laps", "1000"),
        burst: number("--burst", "32") as usize,
        size: number("--size", "64") as u16,
        config: config(design),
    });
}
