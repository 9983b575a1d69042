//! The tables of a platform file.

use super::read::{Fault, Read, field, string, table, tables};
use super::units::{
    Bytes, Count, GbitPerS, GbytesPerS, GflitPerS, Ghz, Kib, Mlps, Mpps, Multiple, Ns, On, Ratio,
};
use toml::Value;

tables! {
    /// `[topology]`: cores and sockets.
    Topology {
        /// Cores of the host's socket.
        host_cores: Count,
        /// Cores of the NIC's socket.
        nic_cores: Count,
        /// Host and NIC cores share one socket: no link.
        same_socket: On,
    }

    /// `[core]`: what bounds how much a core overlaps.
    Core {
        /// Clock.
        frequency: Ghz,
        /// Micro-operations per cycle.
        width: Count,
        /// Reorder buffer, micro-operations.
        rob: Count,
        /// Loads in flight.
        load_queue: Count,
        /// Stores that have not reached the cache.
        store_queue: Count,
        /// Lines that the L1 has asked for: load misses, ownership for stores, software prefetches.
        fill_buffers: Count,
        /// Lines that the L2 has asked for.
        super_queue: Count,
        /// Write-combining buffers.
        wc_buffers: Count,
        /// What a line takes of the core's path between registers and caches, one line at a time: a line of payload that is read or
        /// written, and one that comes from outside or is taken out by a snoop. Not modelled if absent: lines of one core overlap then.
        line: Option<Ns>,
        /// The penalty when a poll succeeds: the loop's branch was predicted to continue.
        mispredict: Ns,
        /// The penalty of a polling core whose line is invalidated: speculative loads are squashed (a memory-ordering machine clear).
        machine_clear: Ns,
    }

    /// `[l1]`, `[l2]`: per core; `[llc]`: per socket.
    Cache {
        /// Capacity.
        size: Kib,
        /// Associativity.
        ways: Count,
        /// Load to use.
        latency: Ns,
    }

    /// `[llc]`: how long a load takes is what [`Path`] adds up to.
    Llc {
        /// Capacity.
        size: Kib,
        /// Associativity.
        ways: Count,
        /// Slices, between which lines are spread by a hash; a slice's sets go by low bits of the address. Without them a hash spreads
        /// lines over all sets.
        slices: Option<Count>,
    }

    /// `[snoop_filter]`: the lines that private caches of a socket have, in the slices of `[llc]`. Without it there is room for all.
    SnoopFilter {
        /// Sets of a slice.
        sets: Count,
        /// Associativity.
        ways: Count,
    }

    /// `[path]`: the segments of a request's path. The machine adds them up as follows (M: modified in another core's L2).
    ///
    /// | access | segments |
    /// |---|---|
    /// | M, same socket | miss, mesh, lookup, mesh, snoop, mesh, fill |
    /// | LLC hit | miss, mesh, lookup, llc_data, mesh, fill |
    /// | local memory | miss, mesh, lookup, `memory.latency`, mesh, fill |
    /// | M in the other socket, homed there | miss, mesh, lookup, one_way, lookup, mesh, snoop, mesh, one_way, mesh, fill |
    /// | M in the other socket, homed here | the same with home_extra after the first lookup |
    /// | remote memory | miss, mesh, lookup, one_way, lookup, `memory.latency`, one_way, mesh, fill |
    Path {
        /// Detection of a miss in L1 and L2.
        miss: Ns,
        /// Between an L2 and a slice with its home agent, one way.
        mesh: Ns,
        /// Directory and LLC tags.
        lookup: Ns,
        /// Reading the LLC's data.
        llc_data: Ns,
        /// An L2 answers a snoop.
        snoop: Ns,
        /// From a line's arrival at the L2 to the register.
        fill: Ns,
        /// What a home agent adds for a line that is modified in the other socket.
        home_extra: Ns,
    }

    /// `[link]`: between the sockets, or between host and device.
    Link {
        /// Home agent to home agent, one way, unloaded.
        one_way: Ns,
        /// Per direction, all links together.
        rate: GflitPerS,
        /// Flits of a 64-byte line with its header.
        data_flits: Count,
        /// Slots for control messages that a line's header flit leaves.
        spare_slots: Count,
        /// What a home agent takes from the other socket of lines written around the caches (non-temporal stores).
        around_rate: GbytesPerS,
    }

    /// `[memory]`: per socket.
    Memory {
        /// At the home agent, idle, on top of the path.
        latency: Ns,
        /// Reads.
        rate: GbytesPerS,
        /// Latency under load, if it has been measured.
        curve: Option<Curve>,
    }

    /// `[protocol]`: the coherence protocol, and what it does where it has a choice.
    Protocol {
        /// Its name in [`protocols`](crate::protocols).
        kind: String,
        /// A read of a line that is modified in the other socket hands over ownership.
        migratory_remote: On,
        /// The same within a socket.
        migratory_local: On,
        /// Ownership for a store of a whole line moves no data.
        dataless_full_line: On,
        /// A read that misses at its own home agent starts reading memory before the other socket has answered.
        speculative_memory_read: On,
        /// A home agent adds `path.home_extra` for reads only. For requests for ownership, too, if absent.
        extra_for_reads_only: Option<On>,
        /// CLDEMOTE does something.
        demote: On,
    }

    /// `[prefetch.host]`, `[prefetch.nic]`.
    Prefetch {
        /// The host's cores.
        host: Prefetchers,
        /// The NIC's cores.
        nic: Prefetchers,
    }

    /// Hardware prefetchers of a core.
    Prefetchers {
        /// The other line of a 128-byte pair.
        adjacent: On,
        /// Ascending and descending lines of a page, into the L2.
        streamer: On,
        /// By the stride of an instruction, into the L1.
        ip: On,
        /// The first two follow stores, too, and then ask for ownership.
        stores: On,
        /// The first completes pairs of which a line was fetched by a software prefetch, too.
        software: On,
    }

    /// `[software]`: how fast a core executes the instructions of `platforms/instructions.toml`.
    Software {
        /// Share of `core.width` that executes an instruction in a cycle, on average, with every line in the first-level cache.
        dispatch: Ratio,
        /// Instructions of a packet, as a multiple of those that were counted: for software that is not ours. 1 if absent.
        packet: Option<Multiple>,
        /// Instructions of a call (a burst in one direction, or an empty poll), likewise.
        call: Option<Multiple>,
        /// Whether it deals with one packet after the other, so that all instructions for the packets of a line of a ring lie before it
        /// reads the next one. Ours takes the descriptors of a burst first. Off if absent.
        packet_at_a_time: Option<On>,
        /// Whether its software prefetches take effect. On if absent, as ours.
        prefetch: Option<On>,
    }

    /// `[targets]`: what calibration probes must show; leave out what has not been measured.
    Targets {
        /// Load of a line that is modified in another L2 of the socket.
        local_hitm: Option<Ns>,
        /// Load from the socket's own memory.
        local_memory: Option<Ns>,
        /// Load from the other socket's memory.
        remote_memory: Option<Ns>,
        /// Load of a line that is modified in the other socket and homed there.
        remote_hitm_writer_homed: Option<Ns>,
        /// Load of a line that is modified in the other socket and homed here.
        remote_hitm_reader_homed: Option<Ns>,
        /// All cores read the other socket's memory.
        remote_read_rate: Option<GbitPerS>,
        /// Ping-pong round trip, both words on one line.
        word_rtt_shared: Option<Ns>,
        /// Ping-pong round trip, a line for each direction.
        word_rtt_separate: Option<Ns>,
    }

    /// `[native]`: what `ccnic bench loopback` and `limit` measured on the machine itself, for comparison; nothing may be fitted to it. Rates are
    /// with 512 packets in flight for each queue pair, round trips the median of a lone packet's.
    Native {
        /// This project's default design, packets of 64 bytes.
        rate_64: Option<Mpps>,
        /// The same with 2 queue pairs, each with two cores.
        rate_64_pairs_2: Option<Mpps>,
        /// The same with 4.
        rate_64_pairs_4: Option<Mpps>,
        /// The same with 7.
        rate_64_pairs_7: Option<Mpps>,
        /// Packets of 1500 bytes.
        rate_1500: Option<Mpps>,
        /// The design of the CC-NIC paper.
        rate_64_paper: Option<Mpps>,
        /// The E810's doorbells and host-managed buffers.
        rate_64_e810: Option<Mpps>,
        /// A lone packet of 64 bytes.
        lone_64: Option<Ns>,
        /// A lone packet of 1500 bytes.
        lone_1500: Option<Ns>,
        /// The design of the CC-NIC paper.
        lone_64_paper: Option<Ns>,
        /// The E810's doorbells and host-managed buffers.
        lone_64_e810: Option<Ns>,
        /// Lines without a protocol, single ones in shuffled order, 128 bytes apart.
        lines_single: Option<Mlps>,
        /// Contiguous runs of them.
        lines_run: Option<Mlps>,
    }

    /// `[pcie]`: the link of a PCIe device, its host bridge, and DDIO.
    Pcie {
        /// After line coding, per direction.
        raw: GbitPerS,
        /// MPS, the largest payload of a packet.
        payload: Bytes,
        /// MRRS, the largest read request.
        read_request: Bytes,
        /// Header and framing of a memory write.
        write_header: Bytes,
        /// Header and framing of a read request.
        read_header: Bytes,
        /// Header and framing of a completion with data.
        completion_header: Bytes,
        /// What acknowledgements and flow control leave of `raw`.
        tlp_share: Ratio,
        /// A core's uncached read of 8 bytes.
        mmio_read: Ns,
        /// A core's uncached read of 64 bytes.
        mmio_read_line: Ns,
        /// A core's posted write, one way.
        posted_write: Ns,
        /// Until the root complex has accepted a core's posted write, and the core may send the next (uncached) or use the
        /// buffer again (write-combining).
        posted_accept: Ns,
        /// A device's read, request to completion, idle, data in the LLC.
        dma_read: Ns,
        /// A device's write, one way, until cores can see it.
        dma_write: Ns,
        /// Reads that a device has outstanding at most.
        tags: Count,
        /// Lines that the root complex is writing for a device at most.
        write_lines: Count,
        /// LLC ways into which a device's writes allocate.
        ddio_ways: Count,
    }

    /// `[device]`: a PCIe NIC.
    Device {
        /// `e810` or `cx6`.
        kind: String,
        /// Fixed latency inside the NIC, loopback.
        pipeline: Ns,
        /// The engine's time per packet.
        packet: Ns,
        /// Its time for each segment of a packet but the first.
        segment: Ns,
        /// The time of a doorbell; those of all queues come one after the other, and cores whose doorbells wait are held up.
        doorbell: Ns,
        /// Wire, or what the NIC passes on.
        line_rate: GbitPerS,
        /// TX descriptors that it fetches ahead at most.
        fetch: Count,
        /// Queues that it serves at once: a queue is served for `fetch` descriptors at most while others wait.
        contexts: Count,
        /// TX completions that it writes back together.
        tx_writeback: Count,
        /// RX descriptors that it writes back together.
        rx_writeback: Count,
        /// Size of a descriptor.
        descriptor: Bytes,
    }
}

/// Memory latency under load: `curve = { gbytes_per_s_ns = [[1.4, 91.2], ...], source = "..." }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<[f64; 2]>,
    source: String,
}

impl Curve {
    /// GB/s per socket and latency of a load in ns, as measured, path included; both ascend. A model of the memory alone
    /// takes what a point exceeds the first by.
    pub fn points(&self) -> &[[f64; 2]] {
        &self.points
    }

    /// Where it comes from.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl Read for Curve {
    fn read(value: &Value, at: &str) -> Result<Self, Fault> {
        let entry = table(value, at, &["gbytes_per_s_ns", "source"])?;
        let points: Points = field(entry, at, "gbytes_per_s_ns")?;
        if points.0.len() < 2 {
            return Err(Fault::new(at, "has fewer than two points", "add points, or leave the curve out"));
        }
        if let Some(pair) =
            points.0.windows(2).find(|pair| pair[1][0] <= pair[0][0] || pair[1][1] < pair[0][1])
        {
            let reason = format!("does not ascend from {:?} to {:?}", pair[0], pair[1]);
            return Err(Fault::new(at, reason, "sort it by rate, and drop points that measured noise"));
        }
        let source = entry.get("source").ok_or_else(|| {
            Fault::new(at, "has no source", "add source = \"who measured it, and where it is written\"")
        })?;
        Ok(Curve { points: points.0, source: string(source, &format!("{at}.source"))? })
    }
}

struct Points(Vec<[f64; 2]>);

impl Read for Points {
    fn read(value: &Value, at: &str) -> Result<Self, Fault> {
        let wrong = || {
            Fault::new(
                at,
                "is not a list of [GB/s, ns]",
                "write [[1.4, 91.2], [2.7, 92.6], ...], positive numbers",
            )
        };
        let number = |value: &Value| match value {
            Value::Float(x) => Some(*x),
            Value::Integer(i) => Some(*i as f64),
            _ => None,
        };
        let point = |value: &Value| {
            let [rate, latency] = value.as_array()?.as_slice() else { return None };
            let point = [number(rate)?, number(latency)?];
            point.iter().all(|x| x.is_finite() && *x > 0.0).then_some(point)
        };
        let points = value.as_array().ok_or_else(wrong)?;
        points.iter().map(|value| point(value).ok_or_else(wrong)).collect::<Result<_, _>>().map(Points)
    }
}
