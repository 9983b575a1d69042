//! Rules between the values of a platform. Each value alone is checked when it is read.

use super::description::Platform;
use super::read::Fault;
use super::tables::Pcie;
use crate::protocols;

type Check = Result<(), Fault>;

/// Cores of both sides together: what one directory entry and one simulation hold.
const CORES: u32 = 128;

pub(super) fn check(platform: &Platform) -> Check {
    topology(platform)?;
    core(platform)?;
    caches(platform)?;
    latencies(platform)?;
    link(platform)?;
    let protocols: Vec<&str> = protocols::ALL.iter().map(|p| p.name).collect();
    one_of("protocol.kind", &platform.protocol.kind, &protocols)?;
    targets(platform)?;
    pcie(platform)?;
    device(platform)
}

fn ensure(holds: bool, key: &str, reason: impl FnOnce() -> String, remedy: &str) -> Check {
    if holds { Ok(()) } else { Err(Fault::new(key, reason(), remedy)) }
}

fn at_most(key: &str, value: u32, most: u32) -> Check {
    ensure(
        value <= most,
        key,
        || format!("is {value}, more than {most}"),
        "no processor is that large: check it",
    )
}

fn topology(platform: &Platform) -> Check {
    let (host, nic) = (platform.topology.host_cores.get(), platform.topology.nic_cores.get());
    let reason = || format!("is {host}, which makes {} cores with topology.nic_cores", host + nic);
    ensure(
        host + nic <= CORES,
        "topology.host_cores",
        reason,
        "simulate at most 128 cores, both sides together",
    )
}

fn core(platform: &Platform) -> Check {
    let core = &platform.core;
    at_most("core.width", core.width.get(), 16)?;
    at_most("core.rob", core.rob.get(), 4096)?;
    at_most("core.load_queue", core.load_queue.get(), 1024)?;
    at_most("core.store_queue", core.store_queue.get(), 1024)?;
    at_most("core.fill_buffers", core.fill_buffers.get(), 1024)?;
    at_most("core.super_queue", core.super_queue.get(), 1024)?;
    at_most("core.wc_buffers", core.wc_buffers.get(), 1024)
}

fn caches(platform: &Platform) -> Check {
    let Platform { l1, l2, llc, .. } = platform;
    for (name, size, ways) in
        [("l1", &l1.size, &l1.ways), ("l2", &l2.size, &l2.ways), ("llc", &llc.size, &llc.ways)]
    {
        let (lines, ways) = (u64::from(size.get()) * 1024 / 64, ways.get());
        let reason =
            || format!("is {} KiB, {lines} lines, which {ways} ways do not share evenly", size.get());
        ensure(lines % u64::from(ways) == 0, &format!("{name}.size"), reason, "check size and ways")?;
    }
    slices(platform)
}

fn slices(platform: &Platform) -> Check {
    let llc = &platform.llc;
    if let Some(slices) = &llc.slices {
        let (slices, sets) = (slices.get(), llc.size.get() * 1024 / 64 / llc.ways.get());
        at_most("llc.slices", slices, 1024)?;
        let reason = || format!("is {slices}, which do not share the {sets} sets of [llc] evenly");
        ensure(sets % slices == 0, "llc.slices", reason, "check size, ways and slices")?;
    }
    let Some(filter) = &platform.snoop_filter else { return Ok(()) };
    let reason = || "is there although [llc] has no slices".into();
    ensure(llc.slices.is_some(), "snoop_filter", reason, "add llc.slices: the filter lies in them")?;
    at_most("snoop_filter.ways", filter.ways.get(), 64)?;
    at_most("snoop_filter.sets", filter.sets.get(), 1 << 14)
}

fn latencies(platform: &Platform) -> Check {
    let (l1, l2) = (platform.l1.latency.get(), platform.l2.latency.get());
    let slower = |key, this: f64, what: &str, that: f64| {
        ensure(
            this > that,
            key,
            || format!("is {this} ns, not above {what} of {that} ns"),
            "put the levels in order",
        )
    };
    slower("l2.latency", l2, "l1.latency", l1)?;
    let way = platform.llc_hit_ns();
    let reason = || {
        format!("and its neighbours add up to {way:.1} ns for an LLC hit, not above l2.latency of {l2} ns")
    };
    ensure(way > l2, "path.llc_data", reason, "an LLC hit takes miss + 2 mesh + lookup + llc_data + fill")?;
    let (memory, data) = (platform.memory.latency.get(), platform.path.llc_data.get());
    slower("memory.latency", memory, "path.llc_data", data)
}

fn link(platform: &Platform) -> Check {
    let same = platform.topology.same_socket.get();
    let Some(link) = &platform.link else {
        return ensure(
            same,
            "link",
            || "is missing".into(),
            "add [link], or set topology.same_socket to true",
        );
    };
    let reason = || "is there although topology.same_socket is true".into();
    ensure(!same, "link", reason, "remove [link], or set topology.same_socket to false")?;
    at_most("link.data_flits", link.data_flits.get(), 64)?;
    at_most("link.spare_slots", link.spare_slots.get(), 64)
}

fn one_of(key: &str, value: &str, known: &[&str]) -> Check {
    let remedy = format!("choose one of {}", known.join(", "));
    ensure(known.contains(&value), key, || format!("is {value:?}, which is not known"), &remedy)
}

fn targets(platform: &Platform) -> Check {
    let targets = &platform.targets;
    let remote = [
        ("targets.remote_memory", targets.remote_memory.as_ref().map(|x| x.get()), &targets.local_memory),
        (
            "targets.remote_hitm_writer_homed",
            targets.remote_hitm_writer_homed.as_ref().map(|x| x.get()),
            &targets.local_hitm,
        ),
        (
            "targets.remote_hitm_reader_homed",
            targets.remote_hitm_reader_homed.as_ref().map(|x| x.get()),
            &targets.local_hitm,
        ),
        ("targets.remote_read_rate", targets.remote_read_rate.as_ref().map(|x| x.get()), &None),
    ];
    for (key, value, local) in remote {
        let Some(value) = value else { continue };
        let reason = || "is there although there is no other socket".into();
        ensure(platform.link.is_some(), key, reason, "remove it, or describe the [link]")?;
        let local = local.as_ref().map_or(0.0, |x| x.get());
        let reason = || format!("is {value} ns, not above the local one of {local} ns");
        ensure(value > local, key, reason, "the other socket is farther away: check both")?;
    }
    if let (Some(shared), Some(separate)) = (&targets.word_rtt_shared, &targets.word_rtt_separate) {
        let (shared, separate) = (shared.get(), separate.get());
        let reason = || format!("is {separate} ns, below targets.word_rtt_shared of {shared} ns");
        ensure(
            separate >= shared,
            "targets.word_rtt_separate",
            reason,
            "two lines take longer than one: check both",
        )?;
    }
    Ok(())
}

fn pcie(platform: &Platform) -> Check {
    let Some(pcie) = &platform.pcie else { return Ok(()) };
    for (key, size) in [("pcie.payload", pcie.payload.get()), ("pcie.read_request", pcie.read_request.get())]
    {
        let holds = size.is_power_of_two() && (128..=4096).contains(&size);
        ensure(holds, key, || format!("is {size} bytes"), "PCIe knows powers of two from 128 to 4096")?;
    }
    let (word, line) = (pcie.mmio_read.get(), pcie.mmio_read_line.get());
    let reason = || format!("is {line} ns, below pcie.mmio_read of {word} ns");
    ensure(line >= word, "pcie.mmio_read_line", reason, "64 bytes take no less than 8: check both")?;
    pcie_ways(platform, pcie)?;
    at_most("pcie.tags", pcie.tags.get(), 1 << 16)?;
    at_most("pcie.write_lines", pcie.write_lines.get(), 1 << 16)?;
    let (io, all) = (pcie.ddio_ways.get(), platform.llc.ways.get());
    ensure(io <= all, "pcie.ddio_ways", || format!("is {io}, but the LLC has {all} ways"), "lower it")
}

/// What is measured at the ends must leave something for the ways between.
fn pcie_ways(platform: &Platform, pcie: &Pcie) -> Check {
    let link = |bytes: u32| f64::from(bytes) * 8.0 / (pcie.raw.get() * pcie.tlp_share.get());
    let more = |key, what: &str, total: f64, parts: f64| {
        ensure(
            total > parts,
            key,
            || format!("is {total} ns, not above the {parts:.1} ns that {what} take"),
            "check both: see devices/pcie/costs.rs of the simulator for the segments",
        )
    };
    let headers = [pcie.write_header.get(), pcie.read_header.get(), pcie.completion_header.get()];
    let [write, read, completion] = headers;
    let (posted, dma_write, dma_read) = (pcie.posted_write.get(), pcie.dma_write.get(), pcie.dma_read.get());
    let parts = link(write + 64) + platform.dma_write_in_host_ns();
    more("pcie.dma_write", "the host's caches and 64 bytes on the link", dma_write, parts)?;
    let up = dma_write - parts;
    let parts = up + link(read) + link(completion + 64) + platform.llc_hit_ns();
    more("pcie.dma_read", "the way up of pcie.dma_write and the host's caches", dma_read, parts)?;
    let down = dma_read - parts;
    let parts = down + link(write + 8);
    more("pcie.posted_write", "the way down of pcie.dma_read", posted, parts)?;
    let to_root = posted - parts;
    let there_and_back = 2.0 * to_root + link(write + 64);
    let accept = pcie.posted_accept.get();
    more("pcie.posted_accept", "the way to the root complex and back", accept, there_and_back)?;
    let parts = up + down + 2.0 * to_root + link(read) + link(completion + 8);
    more("pcie.mmio_read", "the ways of pcie.posted_write and pcie.dma_write", pcie.mmio_read.get(), parts)
}

fn device(platform: &Platform) -> Check {
    let Some(device) = &platform.device else { return Ok(()) };
    let reason = || "is there without a [pcie] to reach it by".into();
    ensure(platform.pcie.is_some(), "device", reason, "add [pcie], or remove [device]")?;
    one_of("device.kind", &device.kind, &["e810", "cx6"])?;
    at_most("device.descriptor", device.descriptor.get(), 256)
}
