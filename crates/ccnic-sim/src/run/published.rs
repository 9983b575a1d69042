//! Published systems by name, each on the platforms that it can be on: a message of any size there and back, and how many in a second.

use ccnic::{Config, Design};
use ccnic_load::{Load, payload};
use serde::Serialize;

use crate::bus::buses::Attachment;
use crate::platform::{AnyPlatform, BusPlatform, PioPlatform, Platform};
use crate::run::cni::across::{self, Way};
use crate::run::cni::work::CniWork;
use crate::run::loopback::simulate;
use crate::run::pio::work::{Means, PioSeries, PioWork, What};
use crate::systems::cni::Interface;
use crate::systems::cni::layout::Kind;
use crate::systems::plan::Plan;

/// A published system.
#[derive(Debug, Clone, Copy)]
pub struct System {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// The paper that describes it; empty for this project's own.
    pub paper: &'static str,
    what: Runs,
}

/// What a system consists of.
#[derive(Debug, Clone, Copy)]
enum Runs {
    /// The interface's rings between a program and a NIC on cores.
    Rings(fn() -> Config),
    /// The doorbell ring, and a device on PCIe of this kind.
    PcieNic(&'static str),
    /// A device of 1996; one with queues in the device also as two queues between cores.
    Cni(Kind, Attachment),
    /// Calls between a processor and a device.
    Call(Means),
}

/// What was seen of a system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Seen {
    /// Nanoseconds of a message there and back, one under way; the median where there is more than one value.
    pub round_trip_ns: f64,
    /// Million messages per second of one program, as many under way as the system takes.
    pub mpps: f64,
}

/// Why a system cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// No such system.
    #[error("no system {name:?}; choose one of {names}")]
    Unknown {
        /// As it was given.
        name: String,
        /// All names.
        names: String,
    },
    /// The platform has not what the system needs.
    #[error("{system} cannot be on {platform}: {reason}; choose {remedy}")]
    Platform {
        /// The system.
        system: &'static str,
        /// The platform.
        platform: String,
        /// What is missing.
        reason: &'static str,
        /// Platforms where it can be.
        remedy: String,
    },
    /// A message that it cannot carry.
    #[error("{system} carries messages of {least} to {most} bytes, not {bytes}; choose another size")]
    Size {
        /// The system.
        system: &'static str,
        /// Bytes asked for.
        bytes: usize,
        /// The shortest.
        least: usize,
        /// The longest.
        most: usize,
    },
    /// The simulation failed.
    #[error("{system} on {platform}: {reason}")]
    Run {
        /// The system.
        system: &'static str,
        /// The platform.
        platform: String,
        /// Why.
        reason: String,
    },
}

const CC_NIC: &str = "CC-NIC, ASPLOS '24";
const CNI: &str = "CNI, ISCA '96";
const PIO: &str = "PIO, 2024";

const fn system(name: &'static str, about: &'static str, paper: &'static str, what: Runs) -> System {
    System { name, about, paper, what }
}

/// Every system.
const SYSTEMS: &[System] = &[
    system(
        "ccnic",
        "this project's default: epoch signals, inline payload",
        "",
        Runs::Rings(Config::default),
    ),
    system("cc-nic", "cleared signals, a buffer pool that both sides share", CC_NIC, Runs::Rings(paper)),
    system(
        "unoptimised",
        "the E810's interface over coherent memory, no buffer optimisations",
        CC_NIC,
        Runs::Rings(unoptimised),
    ),
    system("e810", "an Intel E810 on PCIe", CC_NIC, Runs::PcieNic("e810")),
    system("cx6", "a ConnectX-6 on PCIe", CC_NIC, Runs::PcieNic("cx6")),
    system(
        "ni2w",
        "uncached registers, on the memory bus",
        CNI,
        Runs::Cni(Kind::Ni2w, Attachment::MemoryBus),
    ),
    system("ni2w-io", "the same on the I/O bus", CNI, Runs::Cni(Kind::Ni2w, Attachment::IoBus)),
    system("ni2w-cache", "the same on the cache bus", CNI, Runs::Cni(Kind::Ni2w, Attachment::CacheBus)),
    system(
        "cni4",
        "four cachable blocks, on the memory bus",
        CNI,
        Runs::Cni(Kind::Cni4, Attachment::MemoryBus),
    ),
    system("cni4-io", "the same on the I/O bus", CNI, Runs::Cni(Kind::Cni4, Attachment::IoBus)),
    system(
        "cni16q",
        "cachable queues of 16 blocks; also between cores",
        CNI,
        Runs::Cni(Kind::Cni16Q, Attachment::MemoryBus),
    ),
    system("cni16q-io", "the same on the I/O bus", CNI, Runs::Cni(Kind::Cni16Q, Attachment::IoBus)),
    system(
        "cni512q",
        "cachable queues of 512 blocks; also between cores",
        CNI,
        Runs::Cni(Kind::Cni512Q, Attachment::MemoryBus),
    ),
    system("cni512q-io", "the same on the I/O bus", CNI, Runs::Cni(Kind::Cni512Q, Attachment::IoBus)),
    system(
        "cni16qm",
        "queues in main memory, 16 blocks cached in the device",
        CNI,
        Runs::Cni(Kind::Cni16Qm, Attachment::MemoryBus),
    ),
    system("pio", "the program begins, lines at home in the device (figure 4a)", PIO, Runs::Call(Means::Eci)),
    system("pio-shared", "the same, answers in state Shared", PIO, Runs::Call(Means::EciShared)),
    system("pio-device", "the device begins (figure 4b)", PIO, Runs::Call(Means::DeviceInitiated)),
    system(
        "pio-cpu-homed",
        "as pio, lines at home in the processor (figure 4c)",
        PIO,
        Runs::Call(Means::CpuHomed),
    ),
    system("pio-device-cpu-homed", "both (figure 4d)", PIO, Runs::Call(Means::DeviceInitiatedCpuHomed)),
    system("fastforward", "two processors that poll lines in memory", PIO, Runs::Call(Means::Fastforward)),
    system("pio-pcie", "loads and stores over PCIe", PIO, Runs::Call(Means::Pcie)),
    system("dma", "a DMA engine on PCIe, polled", PIO, Runs::Call(Means::Dma)),
    system("dma-interrupt", "the same with interrupts", PIO, Runs::Call(Means::DmaInterrupt)),
];

fn paper() -> Config {
    Config { design: Design::GroupedClear, ..Config::default() }
}

/// The interface of a PCIe NIC: it takes neither small buffers nor a shared pool.
fn doorbell() -> Config {
    Config { design: Design::Doorbell, small: false, shared_pool: false, ..Config::default() }
}

/// CC-NIC section 5.8, as in the figures.
fn unoptimised() -> Config {
    Config { sequential: true, recycle: false, ..doorbell() }
}

impl System {
    /// Every system, by paper.
    pub fn all() -> &'static [System] {
        SYSTEMS
    }

    /// The system of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<System, SystemError> {
        let names = || SYSTEMS.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
        let found = SYSTEMS.iter().find(|system| system.name == name);
        found.copied().ok_or_else(|| SystemError::Unknown { name: name.into(), names: names() })
    }

    /// The built-in platforms that it can be on.
    pub fn platforms(&self) -> Vec<&'static str> {
        let fits = |name: &&str| AnyPlatform::named(name).is_ok_and(|p| self.missing(&p).is_none());
        AnyPlatform::names().into_iter().filter(fits).collect()
    }

    /// Checks that it can be on a platform, and carry messages of so many bytes.
    ///
    /// # Errors
    /// Why it cannot, and what to choose.
    pub fn check(&self, platform: &AnyPlatform, bytes: usize) -> Result<(), SystemError> {
        if let Some(reason) = self.missing(platform) {
            let remedy = self.platforms().join(", ");
            return Err(SystemError::Platform {
                system: self.name,
                platform: platform.name().into(),
                reason,
                remedy,
            });
        }
        let (least, most) = self.sizes();
        if !(least..=most).contains(&bytes) {
            return Err(SystemError::Size { system: self.name, bytes, least, most });
        }
        Ok(())
    }

    /// The shortest and the longest message.
    pub fn sizes(&self) -> (usize, usize) {
        const LARGEST: usize = 9600;
        match self.what {
            Runs::Rings(_) | Runs::PcieNic(_) => (payload::MIN.into(), LARGEST),
            Runs::Cni(..) => (8, LARGEST),
            // A line of the device's messages.
            Runs::Call(Means::DeviceInitiated | Means::DeviceInitiatedCpuHomed) => (8, 128),
            // What fits into a slot beside its number.
            Runs::Call(Means::Fastforward) => (8, 120),
            Runs::Call(_) => (8, LARGEST),
        }
    }

    /// What its round trip is.
    pub fn round_trip(&self) -> &'static str {
        match self.what {
            Runs::Rings(_) | Runs::PcieNic(_) => {
                "a packet from a program through the NIC and back, alone, median"
            }
            Runs::Cni(..) => "a message to the other side and back, alone, mean",
            Runs::Call(_) => "a request and its answer of the same size, median",
        }
    }

    /// What its rate is.
    pub fn rate(&self) -> &'static str {
        match self.what {
            Runs::Rings(_) | Runs::PcieNic(_) => "256 packets in flight, bursts of 32",
            Runs::Cni(..) => {
                "as many under way as the queues take, 256 at most; of devices a stream in one direction"
            }
            Runs::Call(_) => "one call after the other",
        }
    }

    /// What a platform has not that the system needs.
    fn missing(&self, platform: &AnyPlatform) -> Option<&'static str> {
        match (self.what, platform) {
            (Runs::Rings(_), AnyPlatform::Sockets(p)) => {
                p.device.is_some().then_some("its NIC is a device on PCIe, which serves no rings but its own")
            }
            (Runs::Rings(_), AnyPlatform::Buses(_)) => None,
            (Runs::Rings(_), AnyPlatform::Device(_)) => Some("it simulates single messages, not queues"),
            (Runs::PcieNic(kind), AnyPlatform::Sockets(p)) => match &p.device {
                None => Some("it has no PCIe NIC"),
                Some(device) => (device.kind != kind).then_some("its PCIe NIC is another one"),
            },
            (Runs::PcieNic(_), _) => Some("it has no PCIe NIC"),
            (Runs::Cni(..), AnyPlatform::Buses(_)) => None,
            (Runs::Cni(Kind::Cni16Q | Kind::Cni512Q, Attachment::MemoryBus), AnyPlatform::Sockets(p)) => {
                p.device.is_some().then_some("its NIC is a device on PCIe, which has no queues in memory")
            }
            (Runs::Cni(..), _) => Some("it has no bus for the device"),
            (Runs::Call(means), AnyPlatform::Device(p)) => lacks(means, p),
            (Runs::Call(_), _) => Some("no device of it holds answers back"),
        }
    }

    /// Simulates messages of so many bytes.
    ///
    /// # Errors
    /// When the system cannot be on the platform, or the simulation fails.
    pub fn run(&self, platform: &AnyPlatform, bytes: usize) -> Result<Seen, SystemError> {
        self.check(platform, bytes)?;
        let found = match (self.what, platform) {
            (Runs::Rings(config), AnyPlatform::Sockets(p)) => loopback(p, config(), bytes),
            (Runs::PcieNic(_), AnyPlatform::Sockets(p)) => loopback(p, doorbell(), bytes),
            (Runs::Rings(config), _) => across(platform, Way::Rings(config()), bytes),
            (Runs::Cni(kind, _), AnyPlatform::Sockets(_)) => {
                across(platform, Way::Queue(kind.blocks()), bytes)
            }
            (Runs::Cni(kind, attachment), AnyPlatform::Buses(p)) => device(p, kind, attachment, bytes),
            (Runs::Call(means), AnyPlatform::Device(p)) => call(p, means, bytes),
            _ => Err("it cannot be there".to_owned()), // `check` has refused it
        };
        let platform = || platform.name().to_owned();
        found.map_err(|reason| SystemError::Run { system: self.name, platform: platform(), reason })
    }
}

fn lacks(means: Means, platform: &PioPlatform) -> Option<&'static str> {
    match means {
        Means::Pcie | Means::Dma | Means::DmaInterrupt => None,
        Means::Fastforward => platform.socket.is_none().then_some("it has no second processor, [socket]"),
        _ => platform.device.is_none().then_some("it has no device on a coherent link, [device]"),
    }
}

/// Packets in flight at most, and sent together, where the rate is asked for: as in the figures.
const IN_FLIGHT: u32 = 256;
const BURST: usize = 32;
/// Large buffers of a region: enough for the packets in flight, a ring of posted buffers and two magazines.
const BUFFERS: u32 = 2048;

/// The rings and the NIC, once with one packet in flight and once with many.
fn loopback(platform: &Platform, config: Config, bytes: usize) -> Result<Seen, String> {
    let config = Config { queues: 1, buffers: BUFFERS, ..config };
    let size = u16::try_from(bytes).map_err(|e| e.to_string())?;
    let load = |inflight: usize| Load {
        size,
        burst: BURST.min(inflight),
        rx_burst: BURST,
        inflight,
        rate: None,
        seconds: 100e-6,
        warmup: 100e-6,
        packets: None,
        whole_bursts: false,
        phase: 0.0,
    };
    let totals = |inflight| {
        simulate(platform, &Plan { config, load: load(inflight) })
            .map(|s| s.totals)
            .map_err(|e| e.to_string())
    };
    let (one, many) = (totals(1)?, totals(IN_FLIGHT as usize)?);
    Ok(Seen { round_trip_ns: one.rtt_ns.p50 as f64, mpps: many.mpps })
}

/// Queues between cores, or rings between processors of a bus.
fn across(platform: &AnyPlatform, way: Way, bytes: usize) -> Result<Seen, String> {
    let (one, many) =
        (across::pace(platform, way, bytes, 1)?, across::pace(platform, way, bytes, IN_FLIGHT)?);
    Ok(Seen { round_trip_ns: one.0, mpps: many.1 })
}

/// A device of 1996: a message to another node and back, and a stream of messages to it.
fn device(platform: &BusPlatform, kind: Kind, attachment: Attachment, bytes: usize) -> Result<Seen, String> {
    let interface = Interface { kind, attachment, snarfing: false };
    let value = |work: CniWork, key: &str| {
        let found = work.run_on(platform)?;
        found.get(key).copied().ok_or_else(|| format!("a defect of ccnic: there is no {key}"))
    };
    let round_trip = value(CniWork::RoundTrip(interface, bytes), "round_trip_us")?;
    let rate = value(CniWork::Bandwidth(interface, bytes), "mbytes_per_s")?;
    Ok(Seen { round_trip_ns: round_trip * 1e3, mpps: rate / bytes as f64 })
}

/// A call and its answer; the next one begins after it.
fn call(platform: &PioPlatform, by: Means, bytes: usize) -> Result<Seen, String> {
    let found = PioWork { series: PioSeries { act: What::Call, by }, bytes }.run_on(platform)?;
    let median = found.get("median_ns").copied().ok_or("a defect of ccnic: there is no median")?;
    Ok(Seen { round_trip_ns: median, mpps: 1e3 / median })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On every platform where it can be, and refused by name elsewhere.
    #[test]
    fn every_system_runs_where_it_can_be_and_is_refused_elsewhere() {
        for system in System::all() {
            let fits = system.platforms();
            assert!(!fits.is_empty(), "{}", system.name);
            for name in AnyPlatform::names() {
                let platform = AnyPlatform::named(name).unwrap();
                let (least, _) = system.sizes();
                let found = system.run(&platform, least.max(64));
                if fits.contains(&name) {
                    let seen = found.unwrap();
                    assert!(
                        seen.round_trip_ns > 50.0 && seen.mpps > 1e-3,
                        "{} on {name}: {seen:?}",
                        system.name
                    );
                    // What is under way together is no slower than one after the other.
                    assert!(seen.mpps * seen.round_trip_ns > 990.0, "{} on {name}: {seen:?}", system.name);
                } else {
                    let error = found.unwrap_err().to_string();
                    let words = [system.name, name, "cannot be on", fits[0]];
                    assert!(words.iter().all(|word| error.contains(word)), "{error}");
                }
            }
        }
    }

    #[test]
    fn sizes_and_names_are_checked() {
        let enzian = AnyPlatform::named("enzian").unwrap();
        let error = System::named("pio-device").unwrap().run(&enzian, 129).unwrap_err().to_string();
        assert!(error.contains("8 to 128 bytes, not 129"), "{error}");
        let error = System::named("pdp11").unwrap_err().to_string();
        assert!(error.contains("cni512q") && error.contains("cx6"), "{error}");
    }

    /// Longer messages take longer, also where they are several messages of the network.
    #[test]
    fn longer_messages_take_longer() {
        for (name, platform) in [
            ("cni512q", "icx"),
            ("cni512q", "cni-1996"),
            ("ccnic", "icx"),
            ("pio", "enzian"),
            ("cc-nic", "cni-1996"),
        ] {
            let (system, platform) = (System::named(name).unwrap(), AnyPlatform::named(platform).unwrap());
            let seen = [64, 1500].map(|bytes| system.run(&platform, bytes).unwrap());
            assert!(seen[1].round_trip_ns > seen[0].round_trip_ns, "{name} {seen:?}");
            assert!(seen[1].mpps < seen[0].mpps, "{name} {seen:?}");
        }
    }
}
