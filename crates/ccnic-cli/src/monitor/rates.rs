//! What a NIC's counters rose by between two readings of its status.

use std::collections::HashMap;

use ccnic_control::counters::{COUNTERS, Counter, Values};
use ccnic_control::latency::LatencyStatus;
use ccnic_control::messages::{ProgramStatus, QueueStatus, Status};

/// The time between two readings, and what the counters were at the first.
#[derive(Debug)]
pub struct Interval {
    seconds: f64,
    /// By port and queue.
    before: HashMap<(u64, u16), Values>,
    /// By port: how long its packets took, until then.
    latencies: HashMap<u64, LatencyStatus>,
    /// Seconds that each core was busy, meanwhile.
    busy: Vec<f64>,
}

impl Interval {
    /// From `before` to `now`, by the NIC's own clock. `None` where they are not of one NIC, or no time has passed.
    pub fn between(before: &Status, now: &Status) -> Option<Interval> {
        let seconds = now.uptime_s - before.uptime_s;
        if before.pid != now.pid || seconds.is_nan() || seconds <= 0.0 {
            return None;
        }
        let queues = before.programs.iter().flat_map(|port| port.queues.iter().map(|queue| (port.id, queue)));
        let busy = now.busy_ns.iter().zip(&before.busy_ns);
        Some(Interval {
            seconds,
            before: queues.map(|(port, queue)| ((port, queue.queue), queue.values())).collect(),
            latencies: before.programs.iter().filter_map(|port| Some((port.id, port.latency?))).collect(),
            busy: busy.map(|(now, before)| now.saturating_sub(*before) as f64 / 1e9).collect(),
        })
    }

    /// How long it was.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// What a port's queue has counted in a second, in the order of [`COUNTERS`]; 0 for what does not count. A queue that was not there
    /// before has begun with 0.
    pub fn rates(&self, port: u64, queue: &QueueStatus) -> [f64; COUNTERS.len()] {
        let before = self.before.get(&(port, queue.queue)).copied().unwrap_or([0; COUNTERS.len()]);
        let now = queue.values();
        std::array::from_fn(|at| {
            let value = |of: &Values| of.get(at).copied().unwrap_or(0);
            if !COUNTERS.get(at).is_some_and(Counter::has_rate) {
                return 0.0;
            }
            value(&now).saturating_sub(value(&before)) as f64 / self.seconds
        })
    }

    /// How long the packets of a port took, of those that were sampled meanwhile.
    pub fn latency(&self, port: &ProgramStatus) -> LatencyStatus {
        let before = self.latencies.get(&port.id).copied().unwrap_or_default();
        port.latency.unwrap_or_default().since(&before)
    }

    /// The share of the time that the core with this index in [`Status::cores`] was busy. `None` where the NIC does not say.
    pub fn busy(&self, core: usize) -> Option<f64> {
        self.busy.get(core).map(|busy| (busy / self.seconds).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The state of a NIC with two cores, after so many seconds.
    pub fn status(uptime_s: f64, programs: Vec<ProgramStatus>) -> Status {
        Status {
            version: "0.1.0".to_owned(),
            pid: 7,
            uptime_s,
            wire: "switch".to_owned(),
            cores: vec![1, 3],
            programs,
            ..Status::default()
        }
    }

    /// A program with these queues, numbered from 0.
    pub fn port(id: u64, name: &str, queues: impl IntoIterator<Item = QueueStatus>) -> ProgramStatus {
        let numbered =
            queues.into_iter().zip(0..).map(|(queue, number)| QueueStatus { queue: number, ..queue });
        ProgramStatus {
            id,
            name: name.to_owned(),
            pid: 4242,
            design: "ccnic".to_owned(),
            rss: None,
            latency: None,
            memory: None,
            queues: numbered.collect(),
        }
    }

    fn sent(tx_packets: u64) -> QueueStatus {
        QueueStatus { tx_packets, core: 1, ..QueueStatus::default() }
    }

    #[test]
    fn rates_are_of_the_time_between() {
        let before = Status {
            busy_ns: vec![1_000_000_000, 0],
            ..status(10.0, vec![port(1, "a", [sent(100), sent(7)])])
        };
        let now = Status {
            busy_ns: vec![1_500_000_000, 9_000_000_000],
            ..status(12.0, vec![port(1, "a", [sent(300), sent(7)]), port(2, "b", [sent(50)])])
        };
        let interval = Interval::between(&before, &now).unwrap();
        assert_eq!(interval.seconds(), 2.0);
        let rate = |port: usize, queue: usize| {
            let port = &now.programs[port];
            interval.rates(port.id, &port.queues[queue])[0]
        };
        assert_eq!([rate(0, 0), rate(0, 1), rate(1, 0)], [100.0, 0.0, 25.0]);
        assert_eq!((interval.busy(0), interval.busy(1), interval.busy(2)), (Some(0.25), Some(1.0), None));
    }

    #[test]
    fn latencies_are_of_the_time_between() {
        let with = |sum_ns, n| {
            let mut latency = LatencyStatus { sum_ns, ..LatencyStatus::default() };
            latency.classes[3] = n;
            ProgramStatus { latency: Some(latency), ..port(1, "a", [sent(1)]) }
        };
        let (before, now) = (status(1.0, vec![with(5000, 7)]), status(2.0, vec![with(7400, 10)]));
        let interval = Interval::between(&before, &now).unwrap();
        let between = interval.latency(&now.programs[0]);
        assert_eq!((between.samples(), between.mean_ns()), (3, Some(800.0)));
        assert_eq!(interval.latency(&port(1, "a", [])).samples(), 0, "a NIC that says nothing");
        let new = ProgramStatus { id: 2, ..with(900, 1) };
        assert_eq!(interval.latency(&new).samples(), 1, "it has come meanwhile");
    }

    #[test]
    fn another_nic_has_no_rates() {
        let at = |uptime_s| status(uptime_s, Vec::new());
        assert!(Interval::between(&at(1.0), &Status { pid: 8, ..at(2.0) }).is_none());
        for later in [1.0, 0.5, f64::NAN] {
            assert!(Interval::between(&at(1.0), &at(later)).is_none(), "{later}");
        }
    }

    #[test]
    fn a_counter_that_falls_has_no_rate() {
        let interval = Interval::between(
            &status(1.0, vec![port(1, "a", [sent(5)])]),
            &status(2.0, vec![port(1, "a", [sent(3)])]),
        );
        assert_eq!(interval.unwrap().rates(1, &sent(3))[0], 0.0);
    }
}
