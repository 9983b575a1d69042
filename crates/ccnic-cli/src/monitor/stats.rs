//! `ccnic stats`: every counter of every queue; when it is watched, how fast they rise.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ccnic_control::counters::{COUNTERS, Kind};
use ccnic_control::latency::{BOUNDS_NS, LatencyStatus};
use ccnic_control::messages::{MemoryStatus, ProgramStatus, Status};
use ccnic_control::{Connection, printable};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use super::rates::Interval;
use crate::print::{self, Column, Table, units};
use crate::status::{about, memory};

/// Options of `stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// A port, by its name or its id in `ccnic status --json` [default: all ports]
    port: Option<String>,
    /// The NIC's socket [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON: when watched, an object in a line for each time
    #[arg(long)]
    json: bool,
    /// Print rates again and again, over so long each time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch: Option<u32>,
    /// End after so many times
    #[arg(long, value_name = "TIMES", requires = "watch", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

/// Requests the counters and prints them, once or again and again.
pub fn run(args: &StatsArgs) -> anyhow::Result<()> {
    let socket = args.socket.clone().unwrap_or_else(ccnicd::default_socket);
    let connection = Connection::open(&socket)?;
    let status = connection.status()?;
    let Some(seconds) = args.watch else {
        let report = Report::new(&status, args.port.as_deref(), None)?;
        return print::result(args.json, &report, || report.text());
    };
    watch(args, &socket, Duration::from_secs(seconds.into()), status)
}

/// Prints rates every `period`.
fn watch(args: &StatsArgs, socket: &std::path::Path, period: Duration, first: Status) -> anyhow::Result<()> {
    let mut before = first;
    let mut due = Instant::now() + period;
    let mut left = args.count;
    while left != Some(0) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due = (due + period).max(Instant::now());
        // A connection that is no program's is closed when it says nothing for a minute.
        let now = Connection::open(socket)?.status()?;
        let interval = Interval::between(&before, &now);
        let report = Report::new(&now, args.port.as_deref(), interval.as_ref())?;
        let text = if args.json { print::json_line(&report)? } else { report.text() + "\n" };
        if !print::line_is_read(&text) {
            break;
        }
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Report {
    /// Seconds since the NIC has started.
    uptime_s: f64,
    /// Seconds that the rates are of; none of a single reading, or when the NIC was started anew meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// CPUs that poll.
    cores: Vec<CoreRow>,
    ports: Vec<PortRows>,
}

#[derive(Debug, Serialize)]
struct CoreRow {
    cpu: usize,
    /// The share of the time that it was busy: since the start, or in `seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    busy: Option<f64>,
}

#[derive(Debug, Serialize)]
struct PortRows {
    id: u64,
    name: String,
    #[serde(skip)]
    about: String,
    /// How long packets that it sent took through the NIC, of those that were sampled: since it was attached, or in `seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<LatencyRow>,
    /// What it has taken of the NIC's memory, and what limits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryStatus>,
    queues: Vec<QueueRow>,
}

#[derive(Debug, Serialize)]
struct LatencyRow {
    /// Bursts.
    samples: u64,
    mean_ns: f64,
    p50_ns: f64,
    p99_ns: f64,
    /// Those that took longer than the class before, and not longer than `le_ns`; null: than anything.
    classes: Vec<LatencyClass>,
}

#[derive(Debug, Serialize)]
struct LatencyClass {
    le_ns: Option<u64>,
    samples: u64,
}

impl LatencyRow {
    /// None without samples.
    fn new(latency: &LatencyStatus) -> Option<LatencyRow> {
        let bounds = BOUNDS_NS.iter().map(|bound| Some(*bound)).chain([None]);
        let class = |(le_ns, samples): (Option<u64>, &u64)| LatencyClass { le_ns, samples: *samples };
        Some(LatencyRow {
            samples: latency.samples(),
            mean_ns: latency.mean_ns()?,
            p50_ns: latency.quantile_ns(0.5)?,
            p99_ns: latency.quantile_ns(0.99)?,
            classes: bounds.zip(&latency.classes).map(class).collect(),
        })
    }

    fn text(&self) -> String {
        let [p50, p99, mean] = [self.p50_ns, self.p99_ns, self.mean_ns].map(units::time);
        let bursts = units::count(self.samples as usize, "sampled burst");
        format!("Latency of {bursts}: p50 {p50}, p99 {p99}, mean {mean}.")
    }
}

#[derive(Debug, Serialize)]
struct QueueRow {
    queue: u16,
    /// The CPU that polls it.
    core: usize,
    /// By the names of the counters, since the port was attached.
    total: Map<String, Value>,
    /// The same in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<Map<String, Value>>,
}

impl Report {
    /// # Errors
    /// When there is no port with this name or id.
    fn new(status: &Status, port: Option<&str>, interval: Option<&Interval>) -> anyhow::Result<Report> {
        let ports: Vec<_> =
            status.programs.iter().filter(|p| port.is_none_or(|port| names(port, p))).collect();
        if let (Some(port), []) = (port, ports.as_slice()) {
            anyhow::bail!(
                "no port is called {} or has that id; `ccnic status` shows the ports",
                printable(port)
            );
        }
        let core = |(at, cpu): (usize, &usize)| CoreRow {
            cpu: *cpu,
            busy: match interval {
                Some(interval) => interval.busy(at),
                None => status.busy_ns.get(at).map(|ns| (*ns as f64 / 1e9 / status.uptime_s).clamp(0.0, 1.0)),
            },
        };
        Ok(Report {
            uptime_s: status.uptime_s,
            seconds: interval.map(Interval::seconds),
            cores: status.cores.iter().enumerate().map(core).collect(),
            ports: ports.into_iter().map(|port| PortRows::new(port, interval)).collect(),
        })
    }

    /// A table for each port.
    fn text(&self) -> String {
        let busy =
            |core: &CoreRow| Some(format!("CPU {} busy {}", core.cpu, units::percent(Some(core.busy?))));
        let busy: Vec<_> = self.cores.iter().filter_map(busy).collect();
        let when = match self.seconds {
            Some(seconds) => format!("In {seconds:.1} s"),
            None => format!("Since the start, {:.0} s ago", self.uptime_s),
        };
        let head = if busy.is_empty() { format!("{when}:") } else { format!("{when}: {}", busy.join(", ")) };
        let tables = self.ports.iter().map(|port| port.table(self.seconds.is_some()).text());
        let none = self.ports.is_empty().then(|| "No program is attached.".to_owned());
        [head].into_iter().chain(tables).chain(none).collect::<Vec<_>>().join("\n\n")
    }
}

/// Whether somebody who says `port` means this one.
pub fn names(port: &str, of: &ProgramStatus) -> bool {
    of.name == port || printable(&of.name) == port || port.parse() == Ok(of.id)
}

impl PortRows {
    fn new(port: &ProgramStatus, interval: Option<&Interval>) -> PortRows {
        let queues = port.queues.iter().map(|queue| QueueRow {
            queue: queue.queue,
            core: queue.core,
            total: COUNTERS.iter().map(|c| (c.name.to_owned(), c.of(queue).into())).collect(),
            per_second: interval.map(|interval| rates_by_name(interval.rates(port.id, queue))),
        });
        let latency = match interval {
            Some(interval) => interval.latency(port),
            None => port.latency.unwrap_or_default(),
        };
        PortRows {
            id: port.id,
            name: port.name.clone(),
            about: about(port),
            latency: LatencyRow::new(&latency),
            memory: port.memory,
            queues: queues.collect(),
        }
    }

    /// The traffic, and the other counters that are not zero.
    fn table(&self, watched: bool) -> Table {
        let mut columns = vec![Column::text("counter"), Column::number("total")];
        columns.extend(watched.then(|| Column::number("per\nsecond")));
        let several = self.queues.len() > 1;
        columns.extend(
            several.then(|| Column::prose(if watched { "per second, by queue" } else { "by queue" })),
        );
        let mut table = Table::new(format!("Port {}: {}", self.id, self.about), columns);
        for counter in COUNTERS {
            let totals = || self.queues.iter().map(|queue| (queue.queue, queue.total(counter.name)));
            let rates = || self.queues.iter().map(|queue| (queue.queue, queue.per_second(counter.name)));
            let total = counter.together(totals().map(|(_, n)| n));
            if counter.kind != Kind::Traffic && total == 0 {
                continue;
            }
            let mut row = vec![counter.name.to_owned(), total.to_string()];
            row.extend(watched.then(|| whole(counter.rates_together(rates().map(|(_, n)| n)))));
            row.extend(several.then(|| match watched {
                true => by_queue(rates().map(|(queue, n)| (queue, whole(n)))),
                false => by_queue(totals().map(|(queue, n)| (queue, n.to_string()))),
            }));
            table.row(row);
        }
        self.latency.iter().for_each(|latency| table.note(latency.text()));
        self.memory.iter().for_each(|of| table.note(format!("Memory: {}.", memory(of))));
        table
    }
}

/// Rates by the names of the counters, of those that have one.
fn rates_by_name(rates: [f64; COUNTERS.len()]) -> Map<String, Value> {
    let rates = COUNTERS.iter().zip(rates).filter(|(counter, _)| counter.has_rate());
    rates.map(|(counter, rate)| (counter.name.to_owned(), rate.into())).collect()
}

impl QueueRow {
    fn total(&self, name: &str) -> u64 {
        self.total.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    fn per_second(&self, name: &str) -> f64 {
        self.per_second.as_ref().and_then(|of| of.get(name)).and_then(Value::as_f64).unwrap_or(0.0)
    }
}

/// A rate without its fraction.
fn whole(rate: f64) -> String {
    format!("{rate:.0}")
}

/// The queues whose number is not 0.
fn by_queue(numbers: impl Iterator<Item = (u16, String)>) -> String {
    let there = numbers.filter(|(_, n)| n != "0").map(|(queue, n)| format!("{queue}: {n}"));
    let there = there.collect::<Vec<_>>().join(", ");
    if there.is_empty() { "-".to_owned() } else { there }
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::{port, status};
    use super::*;
    use crate::print::longest_line;
    use ccnic_control::messages::QueueStatus;

    fn queue(n: u64) -> QueueStatus {
        let traffic = QueueStatus {
            tx_packets: 10 * n,
            tx_bytes: 640 * n,
            rx_packets: 8 * n,
            ..QueueStatus::default()
        };
        QueueStatus { rx_bytes: 512 * n, drop_no_destination: n / 4, wait_ring_full: n / 2, ..traffic }
    }

    fn nic(uptime_s: f64, n: u64) -> Status {
        let busy_ns = vec![uptime_s as u64 * 250_000_000, 0];
        Status {
            busy_ns,
            ..status(uptime_s, vec![port(1, "a", [queue(n), queue(3)]), port(2, "b", [queue(n)])])
        }
    }

    #[test]
    fn totals_of_a_port_and_of_its_queues() {
        let text = Report::new(&nic(100.0, 1000), Some("a"), None).unwrap().text();
        assert!(
            text.starts_with(
                "Since the start, 100 s ago: CPU 1 busy 25 %, CPU 3 busy 0 %\n\nPort 1: a (process 4242,"
            ),
            "{text}"
        );
        let row = |of: &str| text.lines().find_map(|line| line.strip_prefix(of)).map(str::trim);
        assert_eq!(row("tx_packets"), Some("10030  0: 10000, 1: 30"), "{text}");
        assert_eq!(row("drop_no_destination"), Some("250  0: 250"), "{text}");
        assert!(
            !text.contains("bad_chain") && !text.contains("Port 2") && longest_line(&text) <= 80,
            "{text}"
        );
    }

    #[test]
    fn latencies_since_the_start_and_when_watched() {
        let with = |uptime_s, n: u64| {
            let mut latency = LatencyStatus { sum_ns: 160 * n + 900, ..LatencyStatus::default() };
            (latency.classes[1], latency.classes[3]) = (n, 1);
            let mut nic = nic(uptime_s, 1);
            nic.programs[0].latency = Some(latency);
            nic
        };
        let (before, now) = (with(1.0, 99), with(2.0, 199));
        let report = Report::new(&before, None, None).unwrap();
        let said = "Latency of 100 sampled bursts: p50 151 ns, p99 200 ns, mean 167 ns.";
        let text = report.text();
        assert!(text.contains(said) && text.matches("Latency").count() == 1, "{text}");
        let interval = Interval::between(&before, &now);
        let report = Report::new(&now, None, interval.as_ref()).unwrap();
        let json: Value = serde_json::from_str(&print::json_line(&report).unwrap()).unwrap();
        let latency = &json["ports"][0]["latency"];
        assert_eq!((&latency["samples"], &latency["mean_ns"]), (&100.into(), &160.0.into()), "{json}");
        let classes = latency["classes"].as_array().unwrap();
        assert_eq!((&classes[1]["le_ns"], &classes[1]["samples"]), (&200.into(), &100.into()));
        assert_eq!((classes.len(), &classes[16]["le_ns"]), (17, &Value::Null));
        assert!(json["ports"][1].get("latency").is_none(), "{json}");
    }

    #[test]
    fn rates_when_watched() {
        let (before, now) = (nic(100.0, 1000), nic(102.0, 3000));
        let interval = Interval::between(&before, &now);
        let report = Report::new(&now, None, interval.as_ref()).unwrap();
        let text = report.text();
        let row = text.lines().find_map(|line| line.strip_prefix("rx_packets")).map(str::trim);
        assert_eq!(row, Some("24024    8000  0: 8000"), "{text}");
        assert!(text.starts_with("In 2.0 s: CPU 1 busy 25 %") && text.contains("Port 2: b"), "{text}");
        let json: Value = serde_json::from_str(&print::json_line(&report).unwrap()).unwrap();
        let queue = &json["ports"][0]["queues"][0];
        assert_eq!((json["seconds"].as_f64(), json["cores"][0]["busy"].as_f64()), (Some(2.0), Some(0.25)));
        assert_eq!(
            (&queue["total"]["tx_packets"], &queue["per_second"]["tx_packets"]),
            (&30_000.into(), &10_000.0.into())
        );
        assert_eq!(queue["total"].as_object().unwrap().len(), COUNTERS.len());
    }

    #[test]
    fn a_port_is_named_by_name_or_id() {
        let nic = Status { programs: vec![port(1, "2", []), port(2, "x\u{1b}[2J", [])], ..nic(1.0, 0) };
        let found = |name: &str| {
            Report::new(&nic, Some(name), None).unwrap().ports.iter().map(|p| p.id).collect::<Vec<_>>()
        };
        assert_eq!((found("1"), found("2"), found("x\\u{1b}[2J")), (vec![1], vec![1, 2], vec![2]));
        let refused = Report::new(&nic, Some("y\u{1b}"), None).unwrap_err().to_string();
        assert!(refused.contains("y\\u{1b} ") && refused.contains("ccnic status"), "{refused}");
        assert!(!Report::new(&nic, None, None).unwrap().text().contains('\u{1b}'));
        let none = Report::new(&Status { programs: vec![], ..nic }, None, None).unwrap().text();
        assert!(none.ends_with("No program is attached."), "{none}");
    }
}
