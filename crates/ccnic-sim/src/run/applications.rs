//! Applications on a server with a PCIe NIC, and the clients that keep it busy (CC-NIC section 5.7).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ccnic::{Config, Design};
use ccnic_load::apps::echo::SEGMENT;
use ccnic_load::apps::kv::{ANSWER, REQUEST, Request};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal, Zipf};
use serde::Deserialize;

use crate::devices::pcie::{Answers, Pcie, Peer};
use crate::kernel::time::{Ps, ns, ps};
use crate::machine::Machine;
use crate::machine::sim::End;
use crate::platform::Platform;
use crate::systems::applications::{App, AppPlan, Served, build, places};
use crate::systems::plan::RunError;

/// CC-NIC section 5.7: objects, Zipf's exponent, the share of gets, connections of echo calls.
const OBJECTS: u32 = 1_000_000;
const ZIPF: f64 = 0.75;
const GETS: f64 = 0.95;
const CONNECTIONS: u32 = 96;
/// The largest packet: "limiting sizes to a 9600B MTU" (section 5.7).
const LARGEST: u32 = 9600 - REQUEST as u32;
/// Requests that clients have under way, of all queue pairs and of one: "enough to saturate the server".
const UNDER_WAY: u16 = 1024;
const OF_A_QUEUE: (u16, u16) = (32, 256);
/// The share of a last-level cache that is full of what is asked for most, when the load begins; packets have the rest.
const WARM: f64 = 0.75;
/// Large buffers of a queue pair, besides those of values.
const BUFFERS: u32 = 2048;

/// An application as plans say it: `app = { serve = "ads", over = "overlay" }`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// What is served.
    pub serve: Serve,
    /// By what packets come.
    pub over: Way,
    /// Instructions of a call of `echo` besides those of the interface: an input.
    #[serde(default)]
    pub instructions: f64,
    /// Objects of the key-value store; a million if absent.
    #[serde(default = "objects")]
    pub objects: u32,
}

fn objects() -> u32 {
    OBJECTS
}

/// What is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serve {
    /// Gets and sets of advertisements: lognormal sizes (CC-NIC section 5.7, after CliqueMap), 61 % below 100 bytes.
    Ads,
    /// Of geographic data, 13 % below 100 bytes.
    Geo,
    /// Calls of 64 bytes over TCP.
    Echo,
}

/// By what packets come to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The NIC's own queue pairs, one for each thread.
    Nic,
    /// The overlay, with as many threads as there are cores for, the same number for each thread of the application.
    Overlay,
    /// The overlay, with one thread for each thread of the application.
    OneToOne,
}

impl Serve {
    /// Mean and deviation of the logarithm of a value's size; chosen so that the published shares come out (61 % of ads and 13 % of geo
    /// below 100 bytes, 0.01 % of ads above 9600: CC-NIC section 5.7).
    fn logarithm(self) -> (f64, f64) {
        if self == Serve::Ads { (4.2345, 1.3270) } else { (6.5584, 1.6781) }
    }

    /// Sizes of values: what is larger than the largest packet is cut (ads) or drawn again (geo).
    fn sizes(self, count: u32, rng: &mut impl Rng) -> Vec<u32> {
        let (mean, deviation) = self.logarithm();
        let Ok(sizes) = LogNormal::new(mean, deviation) else { return Vec::new() };
        let mut one = || loop {
            let size = sizes.sample(rng);
            if self == Serve::Ads || size <= f64::from(LARGEST) {
                return (size as u32).clamp(1, LARGEST);
            }
        };
        (0..count).map(|_| one()).collect()
    }
}

/// Programs on other machines: each answer is followed by the next request to the same queue pair.
#[derive(Debug)]
struct Clients {
    queues: u16,
    under_way: u16,
    rng: SmallRng,
    zipf: Option<Zipf<f64>>,
    sizes: Rc<Vec<Vec<u32>>>,
    /// Answers that were none to what had been asked.
    wrong: Rc<Cell<u64>>,
}

impl Clients {
    fn request(&mut self, queue: u16) -> Vec<u8> {
        let Some(zipf) = &self.zipf else {
            let mut call = vec![0; SEGMENT];
            let connections = CONNECTIONS.div_ceil(self.queues.into()).max(1);
            if let Some(last) = call.last_mut() {
                *last = self.rng.random_range(0..connections) as u8;
            }
            return call;
        };
        let sizes = self.sizes.get(usize::from(queue)).map_or(&[][..], Vec::as_slice);
        // Objects of all queue pairs are equally popular: of as many neighbours in rank each has one.
        let rank = zipf.sample(&mut self.rng) as usize - 1;
        let object = (rank / usize::from(self.queues)).min(sizes.len().saturating_sub(1));
        let size = sizes.get(object).copied().unwrap_or(0);
        let set = !self.rng.random_bool(GETS);
        let number = u64::from(if set { 0 } else { size });
        let mut request = Request { set, object: object as u32, number }.to_bytes().to_vec();
        request.resize(REQUEST + if set { size as usize } else { 0 }, 0);
        request
    }
}

impl Peer for Clients {
    fn begin(&mut self) -> Vec<(u16, Vec<u8>)> {
        let (each, queues) = (self.under_way, self.queues);
        (0..each).flat_map(|_| 0..queues).map(|queue| (queue, self.request(queue))).collect()
    }

    fn answered(&mut self, queue: u16, packet: &[u8]) -> Option<Vec<u8>> {
        let right = match self.zipf {
            None => packet.len() == SEGMENT,
            // The number of a request is the length of the value that it asks for; its answer repeats it.
            Some(_) => packet.split_at_checked(ANSWER).is_some_and(|(header, value)| {
                header.last_chunk().is_some_and(|number| u64::from_le_bytes(*number) == value.len() as u64)
            }),
        };
        self.wrong.set(self.wrong.get() + u64::from(!right));
        Some(self.request(queue))
    }
}

/// How long is simulated, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Before measuring.
    pub warmup: f64,
    /// Measuring.
    pub measured: f64,
}

/// Simulates an application with so many threads; `config` is the interface of the overlay.
///
/// # Errors
/// When the platform has no NIC or not so many cores, or an answer was wrong.
pub fn run(
    platform: &Platform,
    app: Application,
    threads: u16,
    config: Config,
    span: Span,
) -> Result<BTreeMap<String, f64>, RunError> {
    let cores = platform.topology.nic_cores.get() as u16;
    let overlay = (app.over != Way::Nic).then_some(config);
    let queues = match app.over {
        Way::Overlay => threads.max(cores - cores % threads.max(1)),
        Way::Nic | Way::OneToOne => threads,
    };
    let mut rng = SmallRng::seed_from_u64(1);
    let sizes: Rc<Vec<Vec<u32>>> = Rc::new(match app.serve {
        Serve::Echo => Vec::new(),
        values => (0..queues).map(|_| values.sizes(app.objects / u32::from(queues), &mut rng)).collect(),
    });
    let served = match app.serve {
        Serve::Echo => App::Echo { connections: CONNECTIONS, instructions: app.instructions },
        _ => App::KeyValue(Rc::clone(&sizes)),
    };
    let plan = AppPlan { app: served, threads, queues, overlay, buffers: BUFFERS };
    let mut served = build(platform, &plan)?;
    served.begin(threads)?;
    warm(&mut served, platform, app.over);
    let wrong = Rc::new(Cell::new(0));
    let clients = Clients {
        queues,
        under_way: (UNDER_WAY / queues).clamp(OF_A_QUEUE.0, OF_A_QUEUE.1),
        rng,
        zipf: if app.serve == Serve::Echo { None } else { Zipf::new(f64::from(app.objects), ZIPF).ok() },
        sizes,
        wrong: Rc::clone(&wrong),
    };
    let device = served.device;
    served
        .sim
        .machine_mut()
        .with_device(device, |pcie: &mut Pcie, port| pcie.set_peer(port, Box::new(clients)));
    served.go_on(ps(span.warmup * 1e3))?;
    let before = Seen::of(&served.sim.machine());
    served.go_on(ps(span.measured * 1e3))?;
    let after = Seen::of(&served.sim.machine());
    let dropped = served.state.borrow().dropped;
    if wrong.get() + dropped > 0 {
        return Err(RunError::Answers { wrong: wrong.get(), dropped });
    }
    Ok(after.since(&before, usize::from(threads)))
}

impl Served {
    /// Simulates until all threads serve their queues.
    fn begin(&mut self, threads: u16) -> Result<(), RunError> {
        for step in 1..=1000 {
            self.sim.run(ps(1e3) * step);
            if self.state.borrow().ready == threads {
                return Ok(());
            }
        }
        Err(self.stuck())
    }

    /// Simulates so much time.
    fn go_on(&mut self, time: Ps) -> Result<(), RunError> {
        let now = self.sim.machine().now();
        if self.sim.run(now + time) == End::Quiet { Err(self.stuck()) } else { Ok(()) }
    }

    fn stuck(&self) -> RunError {
        RunError::Stuck(ns(self.sim.machine().now()))
    }
}

/// Fills last-level caches as a long run would: the application's with what it knows of the objects that are asked for most, the overlay's
/// with their values.
fn warm(served: &mut Served, platform: &Platform, way: Way) {
    let lines = (f64::from(platform.llc.size.get()) * 1024.0 / 64.0 * WARM) as usize;
    let state = served.state.borrow();
    let mut machine = served.sim.machine_mut();
    let most = state.tables.iter().map(|(_, objects)| *objects).max().unwrap_or(0);
    let known = (0..most)
        .flat_map(|object| state.tables.iter().map(move |&(tables, objects)| (tables, objects, object)));
    let known = known.flat_map(|(tables, objects, object)| {
        let (entry, slot) = places(tables, objects, object);
        [entry / 64, slot / 64]
    });
    known.take(lines).for_each(|line| machine.fill_llc(0, line, false));
    if way != Way::Nic {
        let longest = state.values.iter().map(Vec::len).max().unwrap_or(0);
        let values =
            (0..longest).flat_map(|part| state.values.iter().filter_map(move |values| values.get(part)));
        let values = values.flat_map(|&(at, len)| at / 64..(at + len).div_ceil(64));
        values.take(lines).for_each(|line| machine.fill_llc(1, line, false));
    }
}

/// What is seen of a server at a moment.
struct Seen {
    at: Ps,
    answers: Answers,
    idle: Vec<Ps>,
}

impl Seen {
    fn of(machine: &Machine) -> Seen {
        Seen {
            at: machine.now(),
            answers: machine.find_device::<Pcie>().map(Pcie::answers).unwrap_or_default(),
            idle: (0..machine.agents()).map(|core| machine.counters(core).idle).collect(),
        }
    }

    /// Million answers per second, their bits on the wire, and the share of their time in which cores found something.
    fn since(&self, before: &Seen, threads: usize) -> BTreeMap<String, f64> {
        let time = (self.at - before.at) as f64;
        let busy: Vec<f64> =
            self.idle.iter().zip(&before.idle).map(|(now, then)| 1.0 - (now - then) as f64 / time).collect();
        let mean = |cores: &[f64]| cores.iter().sum::<f64>() / cores.len().max(1) as f64;
        let (app, others) = busy.split_at(threads.min(busy.len()));
        // The last agent is the device.
        let overlay = others.split_last().map_or(&[][..], |(_, overlay)| overlay);
        let answers = (self.answers.packets - before.answers.packets) as f64;
        let bits = (self.answers.bytes - before.answers.bytes) as f64 * 8.0;
        BTreeMap::from([
            ("mops".to_owned(), answers / time * 1e6),
            ("gbps".to_owned(), bits / time * 1e3),
            ("busy".to_owned(), mean(app)),
            ("overlay.busy".to_owned(), mean(overlay)),
            ("overlay.threads".to_owned(), overlay.len() as f64),
        ])
    }
}

/// The interface of the overlay, by its design.
pub fn interface(design: Design, recycle: bool) -> Config {
    let shared_pool = design != Design::Doorbell;
    Config {
        design,
        shared_pool,
        small: shared_pool,
        recycle,
        demote: ccnic::Demote::Off,
        ..Config::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(serve: Serve, over: Way, threads: u16, platform: &Platform) -> BTreeMap<String, f64> {
        served_for(serve, over, threads, platform, Span { warmup: 20.0, measured: 20.0 })
    }

    fn served_for(
        serve: Serve,
        over: Way,
        threads: u16,
        platform: &Platform,
        span: Span,
    ) -> BTreeMap<String, f64> {
        let app = Application { serve, over, instructions: 200.0, objects: 10_000 };
        run(platform, app, threads, interface(Design::GroupedClear, true), span).unwrap()
    }

    fn cx6() -> Platform {
        Platform::named("icx-cx6").unwrap().overridden("topology.nic_cores", 4.0).unwrap()
    }

    #[test]
    fn more_threads_answer_more_by_every_way() {
        for serve in [Serve::Ads, Serve::Geo, Serve::Echo] {
            for over in [Way::Nic, Way::Overlay, Way::OneToOne] {
                let [one, two] = [1, 2].map(|threads| served(serve, over, threads, &cx6())["mops"]);
                // One thread of echo calls keeps four of the overlay busy.
                let times = if (serve, over) == (Serve::Echo, Way::Overlay) { 1.05 } else { 1.2 };
                assert!(one > 0.5 && two > times * one, "{serve:?} {over:?}: {one} {two}");
            }
        }
        let threads = |over, threads| served(Serve::Ads, over, threads, &cx6())["overlay.threads"];
        assert_eq!(
            [threads(Way::Nic, 2), threads(Way::Overlay, 2), threads(Way::OneToOne, 2)],
            [0.0, 4.0, 2.0]
        );
        assert_eq!(threads(Way::Overlay, 3), 3.0, "as many for each thread");
    }

    #[test]
    fn a_run_repeats_and_what_is_not_there_is_refused() {
        let once = || served(Serve::Ads, Way::Overlay, 2, &cx6());
        assert_eq!(once(), once());
        let app = Application { serve: Serve::Ads, over: Way::OneToOne, instructions: 0.0, objects: 1000 };
        let span = Span { warmup: 1.0, measured: 1.0 };
        let refused = |platform: &str, threads| {
            let platform = Platform::named(platform).unwrap();
            run(&platform, app, threads, interface(Design::GroupedClear, true), span).unwrap_err().to_string()
        };
        assert!(refused("icx-cx6", 2).contains("cores"), "one core on the NIC's side");
        assert!(refused("icx", 2).contains("PCIe"), "no NIC below the overlay");
    }

    #[test]
    fn the_engine_and_the_wire_bound_the_nic() {
        // Four threads and a slow engine: 95 % of the answers have a second segment, which takes 100 ns here.
        let slow = cx6().overridden("device.segment", 100.0).unwrap();
        let mops = served(Serve::Ads, Way::Nic, 4, &slow)["mops"];
        assert!((mops / (1e3 / (13.2 + 95.0)) - 1.0).abs() < 0.06, "{mops}");
        // The first answers come all at once and take a quarter of a millisecond: waves as long go round for a while.
        let thin = cx6().overridden("device.line_rate", 50.0).unwrap();
        let gbps =
            served_for(Serve::Geo, Way::Nic, 4, &thin, Span { warmup: 500.0, measured: 1000.0 })["gbps"];
        assert!((gbps / 50.0 - 1.0).abs() < 0.06, "{gbps}");
    }

    #[test]
    fn wrong_answers_are_counted() {
        let wrong = Rc::new(Cell::new(0));
        let mut clients = Clients {
            queues: 1,
            under_way: 1,
            rng: SmallRng::seed_from_u64(1),
            zipf: Zipf::new(10.0, ZIPF).ok(),
            sizes: Rc::new(vec![vec![100; 10]]),
            wrong: Rc::clone(&wrong),
        };
        let answer = |len: u64, bytes: usize| {
            let mut answer = vec![0; ANSWER + bytes];
            answer[ANSWER - 8..ANSWER].copy_from_slice(&len.to_le_bytes());
            answer
        };
        assert!(clients.answered(0, &answer(100, 100)).is_some() && wrong.get() == 0);
        clients.answered(0, &answer(100, 99));
        clients.answered(0, &[0; 10]);
        assert_eq!(wrong.get(), 2);
    }

    /// "61% are less than 100B, compared to 13% in Geo" (CC-NIC section 5.7).
    #[test]
    fn sizes_have_the_published_shares() {
        for (serve, share) in [(Serve::Ads, 0.61), (Serve::Geo, 0.13)] {
            let sizes = serve.sizes(100_000, &mut SmallRng::seed_from_u64(3));
            let below = sizes.iter().filter(|size| **size < 100).count() as f64 / sizes.len() as f64;
            assert!((below - share).abs() < 0.01, "{serve:?} {below}");
            assert!(sizes.iter().all(|size| (1..=LARGEST).contains(size)));
        }
    }
}
