//! The state of the NIC in the OpenMetrics text format, which Prometheus reads.

use std::fmt;

use ccnic_control::counters::{COUNTERS, Counter, Kind};
use ccnic_control::latency::{BOUNDS_NS, LatencyStatus};
use ccnic_control::messages::{ProgramStatus, QueueStatus, Status};
use ccnic_control::printable;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::{Registry, Unit};

/// Queues that are shown: some 10 MiB of text, if each has a port of its own. Programs must not make a scrape as long as they like.
const QUEUES: usize = 2048;
/// Characters of a program's name that are shown.
const NAME: usize = 64;

/// The media type of what [`text`] gives.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text of a scrape.
pub(super) fn text(status: &Status) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot::new(status)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The state at one moment, with labels that are fit to print.
#[derive(Debug)]
struct Snapshot {
    version: String,
    wire: String,
    uptime_s: f64,
    /// CPU, and seconds for which it was busy.
    cores: Vec<(String, f64)>,
    ports: Vec<Port>,
    /// Queues that are not shown.
    left_out: u32,
}

#[derive(Debug)]
struct Port {
    id: String,
    name: String,
    design: String,
    latency: Option<LatencyStatus>,
    /// Each with its number.
    queues: Vec<(String, QueueStatus)>,
}

impl Snapshot {
    fn new(status: &Status) -> Snapshot {
        let cores = status.cores.iter().zip(&status.busy_ns);
        let mut left = QUEUES;
        let ports = status.programs.iter().map(|port| Port::new(port, &mut left)).collect();
        let there: usize = status.programs.iter().map(|port| port.queues.len()).sum();
        Snapshot {
            version: status.version.clone(),
            wire: status.wire.clone(),
            uptime_s: status.uptime_s,
            cores: cores.map(|(cpu, ns)| (cpu.to_string(), *ns as f64 / 1e9)).collect(),
            ports,
            left_out: there.saturating_sub(QUEUES).try_into().unwrap_or(u32::MAX),
        }
    }
}

impl Port {
    /// With the first `left` of its queues, which are taken off.
    fn new(port: &ProgramStatus, left: &mut usize) -> Port {
        let queues: Vec<_> =
            port.queues.iter().take(*left).map(|queue| (queue.queue.to_string(), *queue)).collect();
        *left -= queues.len();
        Port {
            id: port.id.to_string(),
            name: printable(&port.name).chars().take(NAME).collect(),
            design: port.design.clone(),
            latency: port.latency,
            queues,
        }
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.nic(&mut encoder)?;
        self.port_infos(&mut encoder)?;
        self.latencies(&mut encoder)?;
        families().iter().try_for_each(|family| self.queues(&mut encoder, family))
    }
}

impl Snapshot {
    fn nic(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let about = "Version and dataplane of the daemon.";
        encoder
            .encode_descriptor("ccnic_nic", about, None, MetricType::Info)?
            .encode_info(&[("version", self.version.as_str()), ("wire", self.wire.as_str())])?;
        encoder
            .encode_descriptor(
                "ccnic_uptime",
                "Time since the daemon has started.",
                Some(&Unit::Seconds),
                MetricType::Gauge,
            )?
            .encode_gauge(&self.uptime_s)?;
        encoder
            .encode_descriptor(
                "ccnic_queues_left_out",
                "Queues that are not shown here, because there are too many.",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&self.left_out)?;
        let about = "Time that a polling core has spent in polls that moved packets.";
        let mut cores =
            encoder.encode_descriptor("ccnic_core_busy", about, Some(&Unit::Seconds), MetricType::Counter)?;
        self.cores.iter().try_for_each(|(cpu, seconds)| {
            ConstCounter::new(*seconds).encode(cores.encode_family(&[("cpu", cpu.as_str())])?)
        })
    }

    fn port_infos(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let about = "Ports: attached programs, and others of a switch.";
        let mut ports = encoder.encode_descriptor("ccnic_port", about, None, MetricType::Info)?;
        self.ports.iter().try_for_each(|port| {
            let Port { id, name, design, .. } = port;
            ports.encode_info(&[("id", id.as_str()), ("port", name), ("design", design)])
        })
    }

    fn latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let about = "Sampled bursts of a program: from the NIC's last look at its ring before it has found the burst, until all of \
                     its packets were delivered.";
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut latencies = encoder.encode_descriptor("ccnic_port_latency", about, unit, kind)?;
        for port in &self.ports {
            let Some(latency) = port.latency.as_ref().filter(|_| !port.queues.is_empty()) else { continue };
            let bounds = BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9).chain([f64::INFINITY]);
            let classes: Vec<_> = bounds.zip(latency.classes).collect();
            let labels = [("id", port.id.as_str()), ("port", port.name.as_str())];
            let (sum, samples) = (latency.sum_ns as f64 / 1e9, latency.samples());
            latencies.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, samples, &classes, None)?;
        }
        Ok(())
    }

    fn queues(&self, encoder: &mut DescriptorEncoder<'_>, family: &Family) -> fmt::Result {
        let (unit, kind) = match family.counts {
            true => (None, MetricType::Counter),
            false => (Some(&Unit::Seconds), MetricType::Gauge),
        };
        let mut metric = encoder.encode_descriptor(&family.name, family.help, unit, kind)?;
        for port in &self.ports {
            for (number, queue) in &port.queues {
                for counter in &family.counters {
                    sample(&mut metric, port, number, counter, queue)?;
                }
            }
        }
        Ok(())
    }
}

fn sample(
    metric: &mut MetricEncoder<'_>,
    port: &Port,
    number: &str,
    counter: &Counter,
    queue: &QueueStatus,
) -> fmt::Result {
    let value = counter.of(queue);
    let labels = [("id", port.id.as_str()), ("port", port.name.as_str()), ("queue", number)];
    match counter.reason() {
        None if !counter.has_rate() => metric.encode_family(&labels)?.encode_gauge(&(value as f64 / 1e6)),
        None => ConstCounter::new(value).encode(metric.encode_family(&labels)?),
        Some(why) => {
            let [id, port, queue] = labels;
            let labels = [id, port, queue, ("reason", why)];
            ConstCounter::new(value).encode(metric.encode_family(&labels)?)
        }
    }
}

/// Counters of one metric.
struct Family {
    name: String,
    help: &'static str,
    /// False of times.
    counts: bool,
    counters: Vec<&'static Counter>,
}

/// The metrics of queues.
fn families() -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for counter in COUNTERS {
        let name = counter.metric();
        match families.iter_mut().find(|family| family.name == name) {
            Some(family) => family.counters.push(counter),
            None => {
                let (help, counts) = (help(counter), counter.has_rate());
                families.push(Family { name, help, counts, counters: vec![counter] });
            }
        }
    }
    families
}

fn help(counter: &Counter) -> &'static str {
    match counter.kind {
        Kind::Drop => "Packets that were not delivered, by reason.",
        Kind::Wait => "Polls in which a packet had to wait, by reason; it was delivered later.",
        Kind::Traffic | Kind::Event | Kind::Turn => counter.help,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(programs: Vec<ProgramStatus>) -> Status {
        Status {
            version: "0.1.0".to_owned(),
            pid: 7,
            uptime_s: 2.5,
            wire: "switch".to_owned(),
            cores: vec![1, 3],
            busy_ns: vec![500_000_000, 0],
            programs,
            ..Status::default()
        }
    }

    fn port(id: u64, name: &str, queues: u16) -> ProgramStatus {
        let values = std::array::from_fn(|at| at as u64);
        ProgramStatus {
            id,
            name: name.to_owned(),
            pid: 1,
            design: "ccnic".to_owned(),
            rss: None,
            latency: None,
            memory: None,
            queues: (0..queues).map(|queue| QueueStatus::with_values(queue, 1, values)).collect(),
        }
    }

    /// Samples, each a line.
    fn samples(status: &Status) -> Vec<String> {
        let text = text(status).unwrap();
        assert!(text.ends_with("# EOF\n"), "{text}");
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    /// Times are in seconds.
    fn sampled(counter: &Counter, value: u64) -> f64 {
        if counter.has_rate() { value as f64 } else { value as f64 / 1e6 }
    }

    #[test]
    fn a_sample_for_each_counter_of_each_queue() {
        let samples = samples(&status(vec![port(4, "a", 2), port(1 << 32, "tap:t0", 1)]));
        for expected in [
            r#"ccnic_nic_info{version="0.1.0",wire="switch"} 1"#,
            "ccnic_uptime_seconds 2.5",
            "ccnic_queues_left_out 0",
            r#"ccnic_core_busy_seconds_total{cpu="1"} 0.5"#,
            r#"ccnic_core_busy_seconds_total{cpu="3"} 0.0"#,
            r#"ccnic_port_info{id="4",port="a",design="ccnic"} 1"#,
            r#"ccnic_port_tx_bytes_total{id="4",port="a",queue="1"} 1"#,
        ] {
            assert!(samples.iter().any(|sample| sample == expected), "{expected}: {samples:#?}");
        }
        for (at, counter) in COUNTERS.iter().enumerate() {
            let reason = counter.reason().map_or_else(String::new, |why| format!(",reason=\"{why}\""));
            let (name, value) = (counter.sample(), sampled(counter, at as u64));
            let expected = format!(r#"{name}{{id="4294967296",port="tap:t0",queue="0"{reason}}} {value}"#);
            assert_eq!(samples.iter().filter(|sample| **sample == expected).count(), 1, "{expected}");
        }
        assert_eq!(samples.len(), 3 + 2 + 2 + 3 * COUNTERS.len());
    }

    #[test]
    fn latencies_are_a_histogram_of_each_port_that_has_some() {
        let mut latency = LatencyStatus { sum_ns: 3_000_000_000, ..LatencyStatus::default() };
        (latency.classes[0], latency.classes[2], latency.classes[16]) = (5, 2, 1);
        let with = ProgramStatus { latency: Some(latency), ..port(4, "a", 1) };
        let samples = samples(&status(vec![with, port(5, "b", 1)]));
        let latencies: Vec<_> = samples.iter().filter(|sample| sample.contains("latency")).collect();
        for expected in [
            r#"ccnic_port_latency_seconds_sum{id="4",port="a"} 3.0"#,
            r#"ccnic_port_latency_seconds_count{id="4",port="a"} 8"#,
            r#"ccnic_port_latency_seconds_bucket{le="1e-7",id="4",port="a"} 5"#,
            r#"ccnic_port_latency_seconds_bucket{le="0.01",id="4",port="a"} 7"#,
            r#"ccnic_port_latency_seconds_bucket{le="+Inf",id="4",port="a"} 8"#,
        ] {
            assert!(latencies.iter().any(|sample| *sample == expected), "{expected}: {latencies:#?}");
        }
        assert_eq!(latencies.len(), 2 + 17);
    }

    #[test]
    fn names_stay_in_their_quotes() {
        let samples = samples(&status(vec![port(1, "a\"} 1\nccnic_fake 1\\ \r\u{1b}[2J", 1)]));
        let name = r#"port="a\"} 1\\nccnic_fake 1\\\\ \\r\\u{1b}[2J""#;
        let of_ports: Vec<_> = samples.iter().filter(|sample| sample.starts_with("ccnic_port")).collect();
        assert!(of_ports.iter().all(|sample| sample.contains(name)), "{of_ports:#?}");
        assert_eq!(of_ports.len(), 1 + COUNTERS.len());
        assert!(samples.iter().all(|sample| !sample.contains(char::is_control)), "{samples:#?}");
    }

    #[test]
    fn programs_cannot_make_it_as_long_as_they_like() {
        let long = "\u{1b}".repeat(255);
        let programs = (1..=20).map(|id| port(id, &long, 256)).collect();
        let text = text(&status(programs)).unwrap();
        assert!(text.len() < 10 << 20, "{} bytes", text.len());
        assert!(text.contains("\nccnic_queues_left_out 3072\n"));
        let shown = text.lines().filter(|line| line.starts_with("ccnic_port_rx_bytes_total{")).count();
        assert_eq!(shown, QUEUES);
    }

    #[test]
    fn a_nic_without_programs_has_metrics_too() {
        assert_eq!(samples(&status(Vec::new())).len(), 5);
    }
}
