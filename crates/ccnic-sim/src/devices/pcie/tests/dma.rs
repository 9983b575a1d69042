//! What a device does to memory: when, in which order, how much at once, and what it leaves in the caches.

use std::cell::Cell;
use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic::memory::LINE;

use super::{Rig, costs, platform};
use crate::kernel::time::{Ps, ns};
use crate::platform::Platform;
use crate::run::mmio::{Found, dma_read, dma_write};

/// A machine of one core with a device, and so many bytes of memory.
fn machine(platform: &Platform, bytes: u32) -> Rig {
    Rig::new(platform, bytes, &[(0, 0)])
}

#[test]
fn reads_and_writes_take_what_the_platform_says() {
    let p = platform();
    let pcie = p.pcie.as_ref().unwrap();
    let near = |found: Option<f64>, expected: f64| {
        let found = found.unwrap();
        assert!((found - expected).abs() < 0.5, "{found} ns, not {expected}");
    };
    let read = |found| dma_read(&p, found).unwrap();
    let write = |found| dma_write(&p, found).unwrap();
    let (in_llc, on_write) = (pcie.dma_read.get(), pcie.dma_write.get());
    near(read(Found::Llc), in_llc);
    near(read(Found::Memory), in_llc + p.local_memory_ns() - p.llc_hit_ns());
    near(read(Found::Core), in_llc + p.local_hitm_ns() - p.llc_hit_ns());
    near(write(Found::Llc), on_write);
    near(write(Found::Memory), on_write);
    near(write(Found::Core), on_write + p.path.mesh.get() + p.path.snoop.get());
}

/// Bytes arrive as they are, whatever their address and length, and only they change.
#[test]
fn bytes_arrive_as_they_are() {
    for (at, len) in [(0, 64), (8, 8), (100, 1500), (4096 - 24, 48), (60, 8), (0, 4096), (1, 9000)] {
        let mut sim = machine(&platform(), 1 << 15);
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + i / 256) as u8 | 1).collect();
        sim.dma_write(at, &data, 1);
        sim.run(Ps::MAX);
        let end = at as usize + data.len();
        assert_eq!(sim.machine().bytes(at, data.len()), data);
        assert!(sim.machine().bytes(0, at as usize).iter().all(|b| *b == 0));
        assert!(sim.machine().bytes(end as u32, (1 << 15) - end).iter().all(|b| *b == 0));
        sim.dma_read(at, len as u32);
        let reads = sim.finish();
        assert_eq!(reads.len(), 1);
        assert_eq!(reads[0].1, data);
    }
}

#[test]
fn transfers_are_cut_as_pcie_wants_it() {
    let p = platform().overridden("pcie.payload", 256.0).unwrap();
    let p = p.overridden("pcie.read_request", 512.0).unwrap();
    let mut sim = machine(&p, 1 << 15);
    sim.dma_write(0, &[1; 1500], 1);
    sim.run(Ps::MAX);
    let up = sim.traffic().up;
    assert_eq!((up.packets, up.bytes), (6, 1500 + 6 * 24));
    sim.dma_read(0, 1500);
    sim.finish();
    let (reads, down) = {
        let traffic = sim.traffic();
        (traffic.up.packets - 6, traffic.down)
    };
    assert_eq!((reads, down.packets, down.bytes), (3, 6, 1500 + 6 * 20));
    // No packet crosses a page, and what starts within a line is cut at lines.
    let mut sim = machine(&p, 1 << 15);
    sim.dma_read(4096 - 100, 200);
    sim.finish();
    assert_eq!(sim.traffic().up.packets, 2);
    // A descriptor of 64 bytes on the link that has 16 in memory.
    let mut sim = machine(&p, 1 << 15);
    sim.dma_write(0, &[1; 16], 4);
    sim.finish();
    assert_eq!(sim.traffic().up.bytes, 64 + 24);
}

#[test]
fn no_more_reads_than_tags() {
    const READS: u32 = 64;
    let time = |tags: f64| {
        let p = platform().overridden("pcie.tags", tags).unwrap();
        let mut sim = machine(&p, 1 << 15);
        (0..READS).for_each(|i| sim.dma_read(i * 64, 64));
        let reads = sim.finish();
        assert_eq!(reads.len() as u32, READS);
        assert_eq!(sim.device(|pcie, _| pcie.dma.most_tags), (tags as u32).min(READS));
        ns(reads.iter().map(|r| r.0).max().unwrap())
    };
    let one = time(1.0);
    let each =
        platform().pcie.unwrap().dma_read.get() + platform().local_memory_ns() - platform().llc_hit_ns();
    assert!((one / (f64::from(READS) * each) - 1.0).abs() < 0.01, "{one}");
    assert!((one / time(8.0) / 8.0 - 1.0).abs() < 0.05);
    assert!(time(256.0) < 1.5 * each);
}

/// What a device writes later is never seen before what it wrote earlier, wherever the lines are.
#[test]
fn writes_are_seen_in_order() {
    const ROUNDS: u32 = 200;
    for lines_at_once in [92.0, 3.0] {
        let p = platform().overridden("pcie.write_lines", lines_at_once).unwrap();
        let mut sim = machine(&p, 1 << 20);
        sim.machine_mut().set_home(1 << 18, 1 << 18, 1);
        // Lines that its core owns, that the last-level cache has, that memory has, at home in either socket.
        let address = |r: u32| match r % 4 {
            0 => (1 << 16) + r * 64,
            1 => (1 << 17) + r * 64,
            2 => (1 << 18) + r * 64,
            _ => (1 << 19) + r * 64,
        };
        let flag = 0;
        for r in 1..=ROUNDS {
            if r % 4 == 1 {
                sim.machine_mut().fill_llc(0, address(r) / LINE, true);
            }
            let bytes = if r % 3 == 0 { vec![r as u8; 64] } else { u64::from(r).to_le_bytes().to_vec() };
            sim.dma_write(address(r), &bytes, 1);
            sim.dma_write(flag, &u64::from(r).to_le_bytes(), 1);
        }
        let seen = Rc::new(Cell::new(0));
        let count = Rc::clone(&seen);
        sim.spawn(0, move |agent| {
            (0..ROUNDS).step_by(4).for_each(|r| agent.store(address(r), 0));
            let mut last = 0;
            while last < u64::from(ROUNDS) {
                let now = agent.load_acquire(flag);
                assert!(now >= last);
                for r in last as u32 + 1..=now as u32 {
                    assert_ne!(agent.load(address(r)), 0, "{r} of {now}");
                }
                if now == last {
                    agent.relax();
                } else {
                    count.set(count.get() + 1);
                }
                last = now;
            }
        })
        .unwrap();
        sim.finish();
        assert!(sim.is_done(0));
        assert!(seen.get() > 5, "the core saw {} values of the flag only", seen.get());
    }
}

/// A core's read of the device brings what the device wrote before it answered: the completion pushes the writes ahead.
#[test]
fn a_completion_does_not_pass_a_posted_write() {
    const LINES: u32 = 400;
    let mut sim = machine(&platform(), 1 << 16);
    sim.machine_mut().map_registers(0, 0);
    // Together they keep the link busy beyond the moment at which the device answers.
    (1..=LINES).for_each(|i| sim.dma_write(i * 64, &[1; 64], 1));
    sim.spawn(0, |agent| {
        agent.mmio_read(0, 8);
        assert!(agent.now_ns() > 982.0 + 300.0, "{}", agent.now_ns());
        assert!((1..=LINES).all(|i| agent.load(i * 64) != 0));
    })
    .unwrap();
    sim.finish();
    assert!(sim.is_done(0));
}

#[test]
fn a_read_does_not_pass_a_write_of_the_same_line() {
    let mut sim = machine(&platform(), 1 << 16);
    for i in 1..=100u64 {
        sim.dma_write(64, &i.to_le_bytes(), 1);
        sim.dma_read(64, 8);
    }
    for (i, (_, data)) in (1..).zip(sim.finish()) {
        assert!(u64::from_le_bytes(data.try_into().unwrap()) >= i);
    }
}

/// A device's writes take no more of the last-level cache than its ways; its reads take nothing.
#[test]
fn devices_have_their_ways() {
    let p = platform().overridden("llc.size", 768.0).unwrap(); // 12 ways of 1024 lines
    let bytes: u32 = 1 << 21;
    let mut sim = machine(&p, bytes);
    let in_llc = |sim: &Rig| sim.machine().uncore.llcs[0].iter().count() as u32;
    (0..bytes).step_by(4096).for_each(|at| sim.dma_write(at, &[1; 4096], 1));
    sim.run(Ps::MAX);
    let (used, most) = (in_llc(&sim), p.pcie.as_ref().unwrap().ddio_ways.get() * 1024);
    assert!(used <= most && used > most * 9 / 10, "{used} lines of {most}");
    assert_eq!(sim.machine().traffic(0).memory_writes, u64::from(bytes / 64 - used));
    assert_eq!(sim.machine().traffic(0).memory_reads, 0);
    (0..bytes).step_by(4096).for_each(|at| sim.dma_read(at, 4096));
    sim.run(Ps::MAX);
    assert_eq!(in_llc(&sim), used);
    sim.machine().audit().unwrap();
}

#[test]
fn lines_in_the_cache_are_written_in_place() {
    let p = platform().overridden("llc.size", 768.0).unwrap();
    let mut sim = machine(&p, 1 << 20);
    let lines = 12 * 1024 * 3 / 4;
    (0..lines).for_each(|line| sim.machine_mut().fill_llc(0, line, false));
    let before = sim.machine().uncore.llcs[0].iter().count();
    (0..lines).for_each(|line| sim.dma_write(line * 64, &[1; 64], 1));
    sim.finish();
    let after: Vec<bool> = sim.machine().uncore.llcs[0].iter().map(|(_, dirty)| dirty).collect();
    let kept = after.len() as f64 / before as f64;
    assert!(
        kept > 0.95 && after.iter().filter(|dirty| **dirty).count() as f64 > 0.95 * before as f64,
        "{kept}"
    );
}

/// The root complex writes as many lines at once as it can hold: more of them, more throughput.
#[test]
fn the_root_complex_holds_so_many_lines() {
    let time = |lines: f64| {
        let p = platform().overridden("pcie.write_lines", lines).unwrap();
        let mut sim = machine(&p, 1 << 18);
        (0..2000).for_each(|i| sim.dma_write(i * 64, &[1; 64], 1));
        sim.finish();
        ns(sim.device(|pcie, _| pcie.last_write()))
    };
    let link = ns(costs().on_link(88)) * 2000.0;
    let in_host = platform().dma_write_in_host_ns();
    assert!((time(1.0) / (2000.0 * in_host) - 1.0).abs() < 0.05, "{}", time(1.0));
    assert!((time(92.0) / link - 1.0).abs() < 0.1, "{} of {link}", time(92.0));
}

/// Cores of both sockets and a device write words of the same few lines and read each other's: every word only ever rises, the
/// last value stays, and caches and directories agree.
#[test]
fn cores_and_a_device_share_lines() {
    const MOST: usize = 48;
    const WRITES: u64 = 3000;
    for (seed, migratory) in (1..=6).flat_map(|seed| [(seed, 0.0), (seed, 1.0)]) {
        let p = platform().overridden("protocol.migratory_local", migratory).unwrap();
        // Few lines have always more to be written, of many the last writes are seen.
        let lines = if seed < 4 { 6 } else { MOST as u32 };
        let p = p.overridden("pcie.write_lines", if seed % 2 == 0 { 4.0 } else { 92.0 }).unwrap();
        let mut sim = Rig::new(&p, 1 << 14, &[(0, 0), (0, 0), (1, 1)]);
        sim.machine_mut().set_home(1 << 12, 1 << 12, 1);
        // Half of the lines at home in each socket; word 0 is the device's, the next ones the cores'.
        let word = |line: u32, who: u32| (line % 2) * 4096 + line * 64 + who * 8;
        let mut random = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed);
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for who in 1..=3u32 {
            let start = next() | 1;
            sim.spawn(who as u8 - 1, move |agent| {
                let (mut random, mut seen) = (start, [[0u64; 4]; MOST]);
                for value in 1..=WRITES {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let (line, other) = ((random >> 33) as u32 % lines, (random >> 50) as u32 % 4);
                    agent.store_release(word(line, who), value);
                    let found = agent.load_acquire(word(line, other));
                    let before = std::mem::replace(&mut seen[line as usize][other as usize], found);
                    assert!(found >= before, "line {line} of {other}: {found} after {before}");
                    if value == WRITES {
                        (0..lines).for_each(|line| agent.store_release(word(line, who), WRITES + 1));
                    }
                }
            })
            .unwrap();
        }
        let mut last = [0; MOST];
        for value in 1..=WRITES {
            // Now and then a burst, mostly one by one while the cores run.
            if value % 64 > 16 {
                sim.run(value * 60_000);
            }
            let line = (next() % u64::from(lines)) as u32;
            last[line as usize] = value;
            sim.dma_write(word(line, 0), &value.to_le_bytes(), 1);
            if value % 16 == 0 {
                sim.dma_read(word(line, 0), 64);
            }
        }
        sim.run(Ps::MAX);
        assert!((0..3).all(|core| sim.is_done(core)));
        sim.machine().audit().unwrap();
        assert_eq!(sim.device(|pcie, _| pcie.root.waiting()), 0);
        for line in 0..lines {
            assert_eq!(sim.machine().word(word(line, 0)), last[line as usize]);
            assert!((1..=3).all(|who| sim.machine().word(word(line, who)) == WRITES + 1));
        }
    }
}
