//! Every value of a platform changes a result of something that can be simulated: one that is accepted and changes nothing would mislead.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ccnic::{Design, SharedMemory};
use ccnic_sim::applications::{self, Application, Serve, Span, Way};
use ccnic_sim::bus::buses::Attachment;
use ccnic_sim::calibrate::calibrate;
use ccnic_sim::cni::Interface;
use ccnic_sim::cni::layout::Kind;
use ccnic_sim::cni_run::programs::Macrobenchmark;
use ccnic_sim::cni_run::work::CniWork;
use ccnic_sim::eci;
use ccnic_sim::loopback::simulate;
use ccnic_sim::micro::{Held, Stores, access, stream};
use ccnic_sim::mmio::{Found, Target, dma_read, dma_write, mmio_read, store_burst, write_throughput};
use ccnic_sim::pio_run::work::{Means, PioSeries, PioWork, What};
use ccnic_sim::platform::{AnyPlatform, Entry, Platform};

use crate::common::plan;

/// Something that is simulated, and shows what a value changes.
struct Probe<M> {
    name: &'static str,
    /// The tables of the values that it may show; none: all.
    tables: &'static [&'static str],
    shows: Box<dyn Fn(&M) -> String>,
}

fn probe<M, R: std::fmt::Debug>(
    name: &'static str,
    tables: &'static [&'static str],
    run: impl Fn(&M) -> R + 'static,
) -> Probe<M> {
    Probe { name, tables, shows: Box::new(move |machine| format!("{:?}", run(machine))) }
}

/// Values that differ from one of an entry: a half, twice, the least, the greatest, with which a machine may not be possible.
fn others(entry: &Entry) -> Vec<f64> {
    match entry.value.as_str() {
        "true" => vec![0.0],
        "false" => vec![1.0],
        value => {
            let Ok(value) = value.parse::<f64>() else { return Vec::new() };
            let near = [
                value / 2.0,
                value * 2.0,
                value * 0.8,
                value * 1.25,
                value + 1.0,
                1.0,
                value * 16.0,
                value / 1e4,
            ];
            near.into_iter().filter(|x| *x != value).collect()
        }
    }
}

/// For each value the first probe that shows it on one of the machines, or none.
fn readers<M>(
    machines: &[M],
    entries: impl Fn(&M) -> Vec<Entry>,
    change: impl Fn(&M, &str, f64) -> Option<M>,
    probes: &[Probe<M>],
) -> BTreeMap<String, Option<&'static str>> {
    let mut found: BTreeMap<String, Option<&'static str>> = BTreeMap::new();
    for machine in machines {
        let mut unchanged: Vec<Option<String>> = vec![None; probes.len()];
        for entry in entries(machine) {
            if found.get(&entry.key).is_some_and(Option::is_some) {
                continue;
            }
            let changed = others(&entry).into_iter().filter_map(|value| change(machine, &entry.key, value));
            let changed: Vec<M> = changed.collect();
            let table = entry.key.split('.').next().unwrap_or_default();
            let shows = |(i, probe): (usize, &Probe<M>)| {
                if !probe.tables.is_empty() && !probe.tables.contains(&table) {
                    return None;
                }
                let before = unchanged[i].get_or_insert_with(|| (probe.shows)(machine)).clone();
                changed.iter().any(|changed| (probe.shows)(changed) != before).then_some(probe.name)
            };
            let reader = probes.iter().enumerate().find_map(shows);
            found.insert(entry.key, reader);
        }
    }
    found
}

fn nobody(readers: BTreeMap<String, Option<&'static str>>) -> Vec<String> {
    readers.iter().for_each(|(key, reader)| println!("{key}: {}", reader.unwrap_or("nobody")));
    readers.into_iter().filter(|(_, reader)| reader.is_none()).map(|(key, _)| key).collect()
}

/// Both sides of a loopback, with so many packets of a size in flight per pair of cores.
fn packets(
    name: &'static str,
    tables: &'static [&'static str],
    design: Design,
    queues: u16,
    size: u16,
    inflight: usize,
) -> Probe<Platform> {
    let mut plan = plan(design, queues, size, inflight, 20e-6);
    plan.config.small &= design != Design::Doorbell;
    probe(name, tables, move |p| {
        simulate(p, &plan).map(|s| (s.totals, s.counters)).map_err(|e| e.to_string())
    })
}

/// A key-value store on the PCIe NIC: answers of two segments.
fn store(platform: &Platform) -> Result<BTreeMap<String, f64>, String> {
    let app = Application { serve: Serve::Ads, over: Way::Nic, instructions: 0.0, objects: 1000 };
    let interface = applications::interface(Design::Doorbell, true);
    let span = Span { warmup: 10.0, measured: 10.0 };
    applications::run(platform, app, 1, interface, span).map_err(|e| e.to_string())
}

/// Tables of a machine with cores, of a PCIe NIC, and of what a calibration compares with.
const CORES: &[&str] = &[
    "topology",
    "core",
    "l1",
    "l2",
    "llc",
    "snoop_filter",
    "path",
    "link",
    "memory",
    "protocol",
    "prefetch",
    "software",
];
const PCIE: &[&str] = &["pcie", "device", "core"];
const TARGETS: &[&str] = &["targets"];

fn probes() -> Vec<Probe<Platform>> {
    let read = |p: &Platform| [Found::Llc, Found::Memory].map(|found| dma_read(p, found).ok().flatten());
    let streamed = |stores, pairs| move |p: &Platform| stream(p, stores, pairs).map(|s| s.gbit_per_s).ok();
    let (ours, e810) = (Design::GroupedEpoch, Design::Doorbell);
    vec![
        probe("access", CORES, |p| Held::ALL.map(|held| access(p, held).ok().flatten())),
        probe("MMIO", PCIE, |p| [8, 64].map(|bytes| mmio_read(p, bytes).ok().flatten())),
        probe("MMIO", PCIE, |p| store_burst(p, 30).ok().flatten()),
        probe("DMA", PCIE, read),
        probe("DMA", PCIE, |p| dma_write(p, Found::Core).ok().flatten()),
        packets("one packet", CORES, ours, 1, 64, 1),
        packets("packets", CORES, ours, 2, 64, 256),
        packets("packets", CORES, ours, 1, 1500, 256),
        packets("E810", PCIE, e810, 2, 64, 256),
        packets("E810", PCIE, e810, 2, 1500, 256),
        probe("key-value store", &["device"], store),
        packets("all cores", CORES, ours, 16, 64, 32),
        probe("calibration", TARGETS, |p| calibrate(p).map_err(|e| e.to_string())),
        probe("stream", CORES, streamed(Stores::NonTemporal, 1)),
        probe("stream", CORES, streamed(Stores::Caching, 4)),
        probe("writes", CORES, |p| write_throughput(p, Target::WriteBack, 4096).ok().flatten()),
    ]
}

/// Numbers that CC-NIC's machines leave out, so that they have entries to be changed.
const LEFT_OUT: [(&str, f64); 6] = [
    ("software.packet", 1.0),
    ("software.call", 1.0),
    ("software.packet_at_a_time", 0.0),
    ("software.prefetch", 1.0),
    ("core.line", 0.5),
    ("protocol.extra_for_reads_only", 0.0),
];

/// CC-NIC's machines: a coherent NIC and a PCIe NIC, with caches that a short run fills.
#[test]
fn every_value_of_sockets_has_an_effect() {
    let small = |name: &str| {
        let sizes = [("l1.size", 12.0), ("l2.size", 40.0), ("llc.size", 120.0)];
        let platform = Platform::named(name).unwrap();
        sizes.into_iter().chain(LEFT_OUT).fold(platform, |p, (key, value)| p.overridden(key, value).unwrap())
    };
    let [icx, e810, cx6, one] = ["icx", "icx-e810", "icx-cx6", "spr-one-socket"].map(small);
    let slow = icx.overridden("link.rate", 0.5).unwrap();
    let machines = [icx, slow, e810, cx6, one, sliced()];
    let found =
        readers(&machines, Platform::entries, |p, key, value| p.overridden(key, value).ok(), &probes());
    let mut nobody = nobody(found);
    // A list of points, which no number can stand for.
    nobody.retain(|key| key != "memory.curve");
    // Measurements that nothing is simulated from: `native.rs`.
    nobody.retain(|key| !key.starts_with("native."));
    // It says what the tables say: a link or none; alone it is refused.
    nobody.retain(|key| key != "topology.same_socket");
    assert_eq!(nobody, Vec::<String>::new());
    let (key, curve) = ("memory.curve", Platform::named("icx").unwrap());
    let mut file: toml::Table = super::text("icx").parse().unwrap();
    super::remove(&mut file, key);
    let flat = super::parse(&file).unwrap();
    let rate = |p: &Platform| stream(p, Stores::None, 16).unwrap().gbit_per_s;
    assert_ne!(rate(&flat), rate(&curve), "{key}");
}

/// Cores with more room for lines than the last-level cache has sets and the snoop filter has entries.
fn sliced() -> Platform {
    let values =
        [("llc.slices", 8.0), ("llc.size", 120.0), ("snoop_filter.sets", 4.0), ("snoop_filter.ways", 4.0)];
    let platform = Platform::named("spr-filter").unwrap();
    values.into_iter().chain(LEFT_OUT).fold(platform, |p, (key, value)| p.overridden(key, value).unwrap())
}

/// The machines that are named, and the same with the values of `also`, so that what they bound shows.
fn machines(names: &[&str], also: &[(&str, f64)]) -> Vec<AnyPlatform> {
    let of = |name: &&str| AnyPlatform::named(name).unwrap();
    let bound = |platform: AnyPlatform| {
        also.iter().fold(platform, |p, (key, value)| p.overridden(key, *value).unwrap_or(p))
    };
    names.iter().map(of).chain(names.iter().map(of).map(bound)).collect()
}

fn change(platform: &AnyPlatform, key: &str, value: f64) -> Option<AnyPlatform> {
    platform.overridden(key, value).ok()
}

#[test]
fn every_value_of_buses_has_an_effect() {
    let works = |kind: Kind, attachment| {
        let interface = Interface { kind, attachment, snarfing: false };
        [CniWork::RoundTrip(interface, 300), CniWork::Bandwidth(interface, 300), CniWork::LocalQueue]
    };
    let program = |kind: Kind, attachment| {
        let interface = Interface { kind, attachment, snarfing: false };
        CniWork::Macrobenchmark(interface, Macrobenchmark::Em3d)
    };
    let on = |p: &AnyPlatform, work: &CniWork| match p {
        AnyPlatform::Buses(p) => work.run_on(p),
        _ => unreachable!("a machine with buses"),
    };
    let mut probes: Vec<Probe<AnyPlatform>> = Vec::new();
    let places = [Attachment::MemoryBus, Attachment::IoBus, Attachment::CacheBus];
    for (kind, place) in
        [Kind::Ni2w, Kind::Cni4, Kind::Cni16Q, Kind::Cni16Qm].map(|kind| places.map(|p| (kind, p))).concat()
    {
        probes.push(probe(kind.name(), &[], move |p| works(kind, place).map(|work| on(p, &work))));
    }
    for place in [Attachment::IoBus, Attachment::MemoryBus] {
        probes.push(probe("em3d", &[], move |p| on(p, &program(Kind::Ni2w, place))));
    }
    let found = readers(&machines(&["cni-1996"], &[]), AnyPlatform::entries, change, &probes);
    assert_eq!(nobody(found), Vec::<String>::new());
}

/// Of a line that no cache has.
fn a_load(platform: &AnyPlatform) -> u64 {
    let AnyPlatform::Device(platform) = platform else { unreachable!("a machine with a device") };
    let took = Rc::new(Cell::new(0));
    let seen = Rc::clone(&took);
    let mut sim = eci::Sim::new(platform, 4096, |_| 0, None);
    sim.spawn(0, move |cpu| {
        cpu.load(0);
        seen.set(cpu.now());
    })
    .unwrap();
    sim.run();
    took.get()
}

#[test]
fn every_value_of_a_device_that_holds_answers_back_has_an_effect() {
    let all = |name, act: What, bytes: usize| {
        let means = [
            Means::Eci,
            Means::EciShared,
            Means::DeviceInitiated,
            Means::CpuHomed,
            Means::Fastforward,
            Means::Pcie,
            Means::Dma,
            Means::DmaInterrupt,
            Means::Cpu,
        ];
        let series = means.map(|by| PioSeries { act, by }).into_iter().filter(|series| series.is_simulated());
        let works: Vec<PioWork> = series.map(|series| PioWork { series, bytes }).collect();
        probe(name, &[], move |p: &AnyPlatform| match p {
            AnyPlatform::Device(p) => works.iter().map(|work| work.run_on(p)).collect::<Vec<_>>(),
            _ => unreachable!("a machine with a device"),
        })
    };
    let probes = [
        all("call", What::Call, 64),
        all("receive", What::Receive, 2000),
        all("transmit", What::Transmit, 2000),
        all("batch", What::Batch, 2000),
        probe("a load", &[], a_load),
    ];
    // With one place in one unit loads wait for each other until the link's timeout.
    let also = [("cache.units", 1.0), ("cache.slots", 1.0)];
    let found = readers(&machines(&["enzian", "pio-pc"], &also), AnyPlatform::entries, change, &probes);
    assert_eq!(nobody(found), Vec::<String>::new());
}
