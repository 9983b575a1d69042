//! scratch
#![allow(missing_docs, clippy::unwrap_used)]
mod cpus;
mod load;
use ccnic::ring::*;
use ccnic::{Config, Design};
use load::Load;
fn go<R: Ring>(c: &Config, l: Load) {
    let dir = std::path::PathBuf::from(std::env::var("SOCK").unwrap());
    let mut p = ccnic_shm::Program::connect(&dir, "x", c, ccnic_shm::Pages::Small).unwrap();
    let mut q = p.queue_pair::<R>(0).unwrap();
    let o = load::run(&mut q, l).unwrap();
    println!(
        "{:8} size {} burst {} inflight {}: {:.2} Mpps {:.2} Gbps rtt min {} p50 {} p99 {} lost {} corrupt {} drops {:?}",
        c.design.name(),
        l.size,
        l.burst,
        l.inflight,
        o.packets as f64 / o.seconds / 1e6,
        o.packets as f64 * l.size as f64 * 8.0 / o.seconds / 1e9,
        o.rtt.min(),
        o.rtt.value_at_quantile(0.5),
        o.rtt.value_at_quantile(0.99),
        o.lost,
        o.corrupt,
        q.drops()
    );
}
fn main() {
    cpus::pin(0).unwrap();
    let secs = std::env::var("SECS").map(|s| s.parse().unwrap()).unwrap_or(0.5);
    let only: Vec<String> = std::env::args().skip(1).collect();
    for (size, burst, inflight) in [(64u16, 32usize, 512usize), (64, 1, 1), (64, 1, 512), (1500, 32, 128)] {
        for d in Design::ALL {
            if !only.is_empty() && !only.iter().any(|o| o == d.name()) {
                continue;
            }
            let e810 = d == Design::Doorbell;
            let dm = match std::env::var("DEMOTE").as_deref() {
                Ok("on") => ccnic::Demote::On,
                Ok("off") => ccnic::Demote::Off,
                _ => ccnic::Demote::Auto,
            };
            let c = Config {
                demote: dm,
                design: d,
                shared_pool: !e810,
                small: !e810,
                buffers: 4096,
                ..Config::default()
            };
            let l = Load {
                size,
                burst,
                rx_burst: 32,
                inflight,
                rate: None,
                seconds: secs,
                warmup: 0.2,
                alone: true,
            };
            match d {
                Design::GroupedEpoch => go::<GroupedEpoch>(&c, l),
                Design::GroupedClear => go::<GroupedClear>(&c, l),
                Design::Packed => go::<Packed>(&c, l),
                Design::Padded => go::<Padded>(&c, l),
                Design::Doorbell => go::<Doorbell>(&c, l),
            }
        }
    }
}
