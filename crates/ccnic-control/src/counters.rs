//! The counters of a queue. Each has its name, its unit and its explanation here and nowhere else: the status, `ccnic stats`,
//! `ccnic top`, the Prometheus endpoint and the table in `docs/operations.md` are made of this list.
//!
//! A new counter is a new entry of the list below, and a line of that table: a test shows what it has to be.

use serde::{Deserialize, Serialize};

/// What a counter says of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// They were moved.
    Traffic,
    /// They were not delivered, for this reason.
    Drop,
    /// They had to wait, for this reason.
    Wait,
    /// Something else that is worth knowing.
    Event,
    /// How long the port waited for its turns on a polling core: the same at all of its queues there. Of several queues, the highest
    /// counts, not the sum.
    Turn,
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes of packets, from the Ethernet header on, without the frame check sequence.
    Bytes,
    /// Polls of a queue.
    Polls,
    /// Anything else.
    Times,
    /// Microseconds, of the longest time so far: no counter, but like one it never falls.
    Microseconds,
}

impl Unit {
    /// Its name, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Packets => "packets",
            Unit::Bytes => "bytes",
            Unit::Polls => "polls",
            Unit::Times => "times",
            Unit::Microseconds => "\u{b5}s",
        }
    }
}

/// A counter of a queue. It begins with 0 when a port is attached, and never falls.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// Its name in the status: the field of [`QueueStatus`].
    pub name: &'static str,
    /// What it says of packets.
    pub kind: Kind,
    /// What it counts.
    pub unit: Unit,
    /// Its name for people: a few words.
    pub title: &'static str,
    /// What it means, in a sentence or two.
    pub help: &'static str,
    value: fn(&QueueStatus) -> u64,
}

impl Counter {
    /// Its value at a queue.
    pub fn of(&self, queue: &QueueStatus) -> u64 {
        (self.value)(queue)
    }

    /// Its value at several queues together.
    pub fn sum<'a>(&self, queues: impl IntoIterator<Item = &'a QueueStatus>) -> u64 {
        self.together(queues.into_iter().map(self.value))
    }

    /// Values of several queues together: the sum, or the highest.
    pub fn together(&self, values: impl Iterator<Item = u64>) -> u64 {
        values.fold(0, if self.kind == Kind::Turn { u64::max } else { u64::saturating_add })
    }

    /// Rates of several queues together: the sum, or the highest.
    pub fn rates_together(&self, rates: impl Iterator<Item = f64>) -> f64 {
        rates.fold(0.0, |a, b| if self.kind == Kind::Turn { a.max(b) } else { a + b })
    }

    /// True when its rate means something: it counts, rather than being the longest time of several.
    pub fn has_rate(&self) -> bool {
        self.unit != Unit::Microseconds
    }

    /// Why packets were dropped or had to wait: the label `reason` of its metric.
    pub fn reason(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Drop => self.name.strip_prefix("drop_"),
            Kind::Wait => self.name.strip_prefix("wait_"),
            Kind::Traffic | Kind::Event | Kind::Turn => None,
        }
    }

    /// The name of its Prometheus metric, without the `_total` of all counters or the unit. Drops are one metric, and waiting is another:
    /// their samples differ by [`reason`](Counter::reason).
    pub fn metric(&self) -> String {
        match self.kind {
            Kind::Drop => "ccnic_port_dropped_packets".to_owned(),
            Kind::Wait => "ccnic_port_rx_stalls".to_owned(),
            Kind::Traffic | Kind::Event | Kind::Turn => {
                format!("ccnic_port_{}", self.name.trim_end_matches("_us"))
            }
        }
    }

    /// The name of its samples: the metric's with `_total`, or, of a time, with `_seconds`, the unit that Prometheus has for times.
    pub fn sample(&self) -> String {
        self.metric() + if self.has_rate() { "_total" } else { "_seconds" }
    }
}

/// Values of all counters, in the order of [`COUNTERS`].
pub type Values = [u64; COUNTERS.len()];

/// Makes [`QueueStatus`] and [`COUNTERS`] of the list.
macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident: $kind:ident, $unit:ident, $title:literal;)+) => {
        /// Counters of one queue since its port was attached: [`COUNTERS`] says of each what it counts. Packets that were not delivered
        /// count under their reason. Those that a release does not have are 0.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct QueueStatus {
            /// Queue number.
            pub queue: u16,
            /// CPU that polls it.
            pub core: usize,
            $($(#[doc = $help])+ #[serde(default)] pub $name: u64,)+
        }

        /// All counters of a queue.
        pub const COUNTERS: &[Counter] = &[$(Counter {
            name: stringify!($name),
            kind: Kind::$kind,
            unit: Unit::$unit,
            title: $title,
            help: concat!($($help),+).trim_ascii(),
            value: |queue| queue.$name,
        },)+];

        impl QueueStatus {
            /// A queue with these values.
            pub fn with_values(queue: u16, core: usize, values: Values) -> QueueStatus {
                let [$($name),+] = values;
                QueueStatus { queue, core, $($name),+ }
            }

            /// Adds what was counted of the same queue elsewhere; of times, the longest counts.
            pub fn add(&mut self, other: &QueueStatus) {
                $(self.$name = match Kind::$kind {
                    Kind::Turn => self.$name.max(other.$name),
                    _ => self.$name.saturating_add(other.$name),
                };)+
            }
        }
    };
}

counters! {
    /// Packets from the program; of a port to somewhere outside, from there.
    tx_packets: Traffic, Packets, "TX packets";
    /// Bytes from the program.
    tx_bytes: Traffic, Bytes, "TX bytes";
    /// Packets to the program; of a port to somewhere outside, to there.
    rx_packets: Traffic, Packets, "RX packets";
    /// Bytes to the program.
    rx_bytes: Traffic, Bytes, "RX bytes";
    /// A descriptor named no bytes of the pool. Counted at the queue that the packet was sent on.
    drop_bad_descriptor: Drop, Packets, "bad descriptor";
    /// A chain of too many segments. Counted at the queue that the packet was sent on.
    drop_bad_chain: Drop, Packets, "bad chain";
    /// Longer than the sender's MTU. Counted at the queue that the packet was sent on.
    drop_too_long: Drop, Packets, "longer than the sender's MTU";
    /// The receive ring was full, with RSS or of packets from other ports: the receiver does not keep up. Counted at the queue that the
    /// packet was for.
    drop_ring_full: Drop, Packets, "receive ring full";
    /// The pool had no buffer, with RSS or for packets from other ports. Counted at the queue that the packet was for.
    drop_no_buffer: Drop, Packets, "no receive buffer";
    /// From another port, and longer than this port's MTU. Counted at the queue that the packet was for.
    drop_over_mtu: Drop, Packets, "longer than the receiver's MTU";
    /// With several polling cores: the hand-off to the core that polls the receiver was full, or that core has stopped. Counted at
    /// the queue that the packet was sent on.
    drop_handoff_full: Drop, Packets, "hand-off full";
    /// By the switch: shorter than an Ethernet header. Counted at the queue that the packet was sent on.
    drop_too_short: Drop, Packets, "shorter than an Ethernet header";
    /// By the switch: the source address is a group's, or all zeros. Counted at the queue that the packet was sent on.
    drop_bad_source: Drop, Packets, "source address of no station";
    /// By the switch: the destination is a group whose protocols end at the next bridge (01:80:c2:00:00:00 to :0f, Cisco's). Counted at the
    /// queue that the packet was sent on.
    drop_reserved: Drop, Packets, "for the next bridge only";
    /// By the switch: the destination is at the port that the packet came from, or there is no other port. Counted at the queue that
    /// the packet was sent on.
    drop_no_destination: Drop, Packets, "destination at the sender, or no other port";
    /// By the switch: the port may not speak from an address that the packet claims. Counted at the queue that the packet was sent on.
    drop_spoofed: Drop, Packets, "source address that the port may not use";
    /// By the switch: the port is not in the packet's VLAN. Counted at the queue that the packet was sent on.
    drop_vlan: Drop, Packets, "VLAN that the port is not in";
    /// By the switch: both the port and the one of the destination are isolated. Counted at the queue that the packet was sent on.
    drop_isolated: Drop, Packets, "between isolated ports";
    /// By the switch: more packets to groups and unknown addresses than the port may send. Counted at the queue that the packet was sent
    /// on.
    drop_storm: Drop, Packets, "beyond the storm limit";
    /// By the switch: more than may be sent to the port. Counted at the first queue of the port that the packet was for.
    drop_rate: Drop, Packets, "more than the port may receive";
    /// By a port to somewhere outside, such as a TAP interface, or by the port of a program that does not take what is requested: what the
    /// packet's metadata, or the header that the kernel has put before it, request contradicts the packet. Counted at the queue that it was
    /// for, or has come from.
    drop_bad_offload: Drop, Packets, "offload that contradicts the packet";
    /// By a port to somewhere outside: its interface is down, or gone. Counted at the queue that the packet was for.
    drop_port_down: Drop, Packets, "interface down";
    /// By a port to somewhere outside: the kernel has refused the packet. Counted at the queue that the packet was for.
    drop_port_refused: Drop, Packets, "refused by the kernel";
    /// A flow rule of the receiver, or of the operator for it, says so. Counted at the queue that the packet was sent on; of one from
    /// another port, at the first queue of the program that it was for.
    drop_flow_rule: Drop, Packets, "dropped by a flow rule";
    /// Packets that the switch has sent to all other ports. Counted at the queue that they were sent on.
    flooded: Event, Packets, "flooded";
    /// Copies of flooded packets beyond the first of each, and copies for mirrors.
    extra_copies: Event, Packets, "extra copies of flooded packets";
    /// Times that a source address was not learned, for want of room in the address table or because of its limit for a port.
    not_learned: Event, Times, "addresses not learned";
    /// Came from outside, and the kernel or the device has dropped it, because the port had no room for it. Not counted otherwise.
    /// Of a file that is replayed: packets that cannot be sent.
    missed: Event, Packets, "missed outside";
    /// The port had sent what it may for now: the packet stayed with its sender.
    wait_rate: Wait, Polls, "waited: sending rate";
    /// The receive ring was full: the packet was delivered by a later poll.
    wait_ring_full: Wait, Polls, "waited: receive ring full";
    /// The pool had no buffer: the packet was delivered by a later poll.
    wait_no_buffer: Wait, Polls, "waited: no receive buffer";
    /// Turns of this program on the polling core that came more than a millisecond after the one before, while it was busy, because of
    /// other programs: time in which the polling thread had no CPU is not counted, as far as the kernel says. The same for all of its
    /// queues on that core.
    late_turns: Turn, Times, "turns more than a millisecond late";
    /// The longest time between two of these turns. The same for all of the program's queues on that core.
    longest_wait_us: Turn, Microseconds, "longest wait for a turn, \u{b5}s";
}

impl QueueStatus {
    /// The values of all counters.
    pub fn values(&self) -> Values {
        std::array::from_fn(|at| COUNTERS.get(at).map_or(0, |counter| counter.of(self)))
    }

    /// Packets that were not delivered, whatever the reason.
    pub fn dropped(&self) -> u64 {
        self.total(Kind::Drop)
    }

    /// Polls in which a packet had to wait, whatever the reason.
    pub fn waited(&self) -> u64 {
        self.total(Kind::Wait)
    }

    fn total(&self, kind: Kind) -> u64 {
        let of_kind = COUNTERS.iter().filter(|counter| counter.kind == kind);
        of_kind.map(|counter| counter.of(self)).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1, 2, 3 and so on.
    fn numbered() -> QueueStatus {
        QueueStatus::with_values(3, 1, std::array::from_fn(|at| at as u64 + 1))
    }

    #[test]
    fn the_status_has_each_counter_under_its_name() {
        let json = serde_json::to_value(numbered()).unwrap();
        let fields = json.as_object().unwrap();
        assert_eq!(fields.len(), COUNTERS.len() + 2, "and the queue and its core");
        for (at, counter) in COUNTERS.iter().enumerate() {
            assert_eq!(fields[counter.name], at as u64 + 1, "{}", counter.name);
            assert_eq!(counter.of(&numbered()), at as u64 + 1, "{}", counter.name);
        }
        assert_eq!(serde_json::from_value::<QueueStatus>(json).unwrap(), numbered());
        assert_eq!(QueueStatus::with_values(3, 1, numbered().values()), numbered());
    }

    #[test]
    fn names_and_kinds_agree() {
        for Counter { name, kind, unit, title, help, .. } in COUNTERS {
            let of_name = match name.split('_').next() {
                Some("tx" | "rx") => Kind::Traffic,
                Some("drop") => Kind::Drop,
                Some("wait") => Kind::Wait,
                Some("late" | "longest") => Kind::Turn,
                _ => Kind::Event,
            };
            assert_eq!(*kind, of_name, "{name}");
            assert!(*kind != Kind::Drop || *unit == Unit::Packets, "{name}");
            assert!(
                help.ends_with('.') && !help.contains(['|', '\n']) && title.len() <= 44,
                "{name}: {help}"
            );
        }
    }

    #[test]
    fn samples_differ_by_metric_or_reason() {
        let mut samples: Vec<_> = COUNTERS.iter().map(|c| (c.metric(), c.reason())).collect();
        let all = samples.len();
        samples.sort_unstable();
        samples.dedup();
        assert_eq!(samples.len(), all);
        let of = |name| COUNTERS.iter().find(|c| c.name == name).map(|c| (c.metric(), c.reason())).unwrap();
        assert_eq!(of("drop_port_down"), ("ccnic_port_dropped_packets".into(), Some("port_down")));
        assert_eq!(of("wait_no_buffer"), ("ccnic_port_rx_stalls".into(), Some("no_buffer")));
        assert_eq!(of("rx_bytes"), ("ccnic_port_rx_bytes".into(), None));
    }

    #[test]
    fn sums_are_of_one_kind_and_do_not_overflow() {
        let queue = QueueStatus {
            tx_packets: 1,
            drop_bad_chain: 20,
            drop_port_refused: 300,
            wait_no_buffer: 4000,
            flooded: 50_000,
            ..QueueStatus::default()
        };
        assert_eq!((queue.dropped(), queue.waited()), (320, 4000));
        let most = QueueStatus { drop_bad_chain: u64::MAX, drop_too_long: 1, ..QueueStatus::default() };
        assert_eq!(most.dropped(), u64::MAX);
        let bad_chain = COUNTERS.iter().find(|c| c.name == "drop_bad_chain").unwrap();
        assert_eq!((bad_chain.sum([&queue, &queue]), bad_chain.sum([&queue, &most])), (40, u64::MAX));
        let late = QueueStatus { late_turns: 3, longest_wait_us: 1500, ..queue };
        let of = |name| COUNTERS.iter().find(|c| c.name == name).unwrap();
        assert_eq!(of("late_turns").sum([&late, &late]), 3, "it is said of the port, at each of its queues");
        assert_eq!(of("longest_wait_us").sum([&queue, &late]), 1500);
        assert!(of("late_turns").has_rate() && !of("longest_wait_us").has_rate());
        assert_eq!(of("longest_wait_us").sample(), "ccnic_port_longest_wait_seconds");
    }

    /// The table of the counters as the documentation has it.
    fn table() -> String {
        let row = |counter: &Counter| {
            let reason = counter.reason().map_or_else(String::new, |why| format!("{{reason=\"{why}\"}}"));
            let (name, unit, help) = (counter.name, counter.unit.name(), counter.help);
            format!("| `{name}` | {unit} | `{}{reason}` | {help} |\n", counter.sample())
        };
        COUNTERS.iter().map(row).collect()
    }

    #[test]
    fn the_documentation_lists_every_counter() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(
            text.contains(&table()),
            "the table of counters in docs/operations.md is to be:\n{}",
            table()
        );
    }
}
