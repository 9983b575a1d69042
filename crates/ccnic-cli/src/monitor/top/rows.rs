//! What is shown of ports: numbers made of a reading and the interval before it.

use std::cmp::Ordering;

use ccnic_control::counters::{COUNTERS, Counter, Kind};
use ccnic_control::latency::LatencyStatus;
use ccnic_control::messages::{ProgramStatus, QueueStatus, Status};
use ccnic_control::printable;

use super::super::rates::Interval;

/// A line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct PortRow {
    pub id: u64,
    /// Fit to print.
    pub name: String,
    pub queues: usize,
    /// In a second. `None` until there are two readings.
    pub rates: Option<PortRates>,
    /// How long its packets took, of those that were sampled; of the time between two readings, or since it was attached.
    pub latency: LatencyStatus,
}

impl PortRow {
    /// What 99 % of the samples did not exceed, in nanoseconds.
    pub fn p99(&self) -> Option<f64> {
        self.latency.quantile_ns(0.99)
    }
}

/// See [`PortRow::latency`].
pub fn latency(port: &ProgramStatus, interval: Option<&Interval>) -> LatencyStatus {
    interval.map_or_else(|| port.latency.unwrap_or_default(), |interval| interval.latency(port))
}

/// What a port does in a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PortRates {
    pub tx_packets: f64,
    pub tx_bits: f64,
    pub rx_packets: f64,
    pub rx_bits: f64,
    pub dropped: f64,
}

/// What the table is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Id,
    Name,
    Tx,
    Rx,
    Latency,
    Dropped,
}

impl Sort {
    /// In the order of the columns.
    pub const ALL: [Sort; 6] = [Sort::Id, Sort::Name, Sort::Tx, Sort::Rx, Sort::Latency, Sort::Dropped];

    /// The one so many columns further.
    pub fn further(self, by: isize) -> Sort {
        let at = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        let at = (at as isize + by).rem_euclid(Sort::ALL.len() as isize);
        Sort::ALL.get(at as usize).copied().unwrap_or(self)
    }

    /// Rates begin with the highest, names and ids with the lowest. Equal ones are in the order of their ids.
    fn compare(self, a: &PortRow, b: &PortRow) -> Ordering {
        let (x, y) = (a.rates.unwrap_or_default(), b.rates.unwrap_or_default());
        match self {
            Sort::Id => a.id.cmp(&b.id),
            Sort::Name => a.name.cmp(&b.name),
            Sort::Tx => y.tx_packets.total_cmp(&x.tx_packets),
            Sort::Rx => y.rx_packets.total_cmp(&x.rx_packets),
            Sort::Latency => b.p99().unwrap_or(0.0).total_cmp(&a.p99().unwrap_or(0.0)),
            Sort::Dropped => y.dropped.total_cmp(&x.dropped),
        }
    }
}

/// The ports, sorted.
pub fn rows(status: &Status, interval: Option<&Interval>, sort: Sort, reversed: bool) -> Vec<PortRow> {
    let row = |port: &ProgramStatus| PortRow {
        id: port.id,
        name: printable(&port.name),
        queues: port.queues.len(),
        rates: interval.map(|interval| PortRates::of(port, interval)),
        latency: latency(port, interval),
    };
    let mut rows: Vec<_> = status.programs.iter().map(row).collect();
    rows.sort_by(|a, b| {
        let order = sort.compare(a, b);
        (if reversed { order.reverse() } else { order }).then(a.id.cmp(&b.id))
    });
    rows
}

impl PortRates {
    fn of(port: &ProgramStatus, interval: &Interval) -> PortRates {
        let mut sum = PortRates::default();
        for queue in &port.queues {
            for (counter, rate) in COUNTERS.iter().zip(interval.rates(port.id, queue)) {
                match (counter.name, counter.kind) {
                    ("tx_packets", _) => sum.tx_packets += rate,
                    ("tx_bytes", _) => sum.tx_bits += 8.0 * rate,
                    ("rx_packets", _) => sum.rx_packets += rate,
                    ("rx_bytes", _) => sum.rx_bits += 8.0 * rate,
                    (_, Kind::Drop) => sum.dropped += rate,
                    _ => {}
                }
            }
        }
        sum
    }
}

/// A counter of the selected port, beside its traffic.
#[derive(Debug, Clone, Copy)]
pub struct Detail {
    pub counter: &'static Counter,
    pub total: u64,
    /// In a second; of what counts, and with two readings.
    pub rate: Option<f64>,
}

/// The counters of a port that are not 0, but for its traffic: drops first, those that rise fastest before others.
pub fn details(port: &ProgramStatus, interval: Option<&Interval>) -> Vec<Detail> {
    let detail = |(at, counter): (usize, &'static Counter)| {
        let of = |queue: &QueueStatus, interval: &Interval| {
            interval.rates(port.id, queue).get(at).copied().unwrap_or(0.0)
        };
        let rate = |interval| counter.rates_together(port.queues.iter().map(|queue| of(queue, interval)));
        let rate = interval.filter(|_| counter.has_rate()).map(rate);
        Detail { counter, total: counter.sum(&port.queues), rate }
    };
    let beside = COUNTERS.iter().enumerate().filter(|(_, counter)| counter.kind != Kind::Traffic);
    let mut details: Vec<_> = beside.map(detail).filter(|detail| detail.total > 0).collect();
    details.sort_by(|a, b| {
        let drop_first = |detail: &Detail| detail.counter.kind != Kind::Drop;
        let fastest = b.rate.unwrap_or(0.0).total_cmp(&a.rate.unwrap_or(0.0));
        drop_first(a).cmp(&drop_first(b)).then(fastest).then(b.total.cmp(&a.total))
    });
    details
}
