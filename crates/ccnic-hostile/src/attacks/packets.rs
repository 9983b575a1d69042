//! Attacks by what the NIC has to look at or to move: idle queues, queues that are full, bad descriptors, large packets.

use std::time::Duration;

use ccnic::desc::FLAG_MORE;
use ccnic::{Burst, Config};
use ccnic_client::{Nic, Pages};

use crate::filler::{Filler, word};
use crate::program::{Program, config};
use crate::stage::Stage;

/// The most queues that a program can have.
const QUEUES: u16 = 256;
/// Between two passes over rings that hold more than the NIC moves meanwhile.
const PAUSE: Duration = Duration::from_micros(100);

/// Up to `number` idle programs; one that is refused is tried again until the time is over.
fn idle(stage: &Stage<'_>, number: usize, config: &Config) -> anyhow::Result<()> {
    let mut programs = Vec::new();
    while stage.goes_on() {
        if programs.len() < number
            && let Some(program) = Program::attached(stage, "idle", config)?
        {
            programs.push(program);
            continue;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

pub fn idle_wide(stage: &Stage<'_>) -> anyhow::Result<()> {
    idle(stage, 8, &config(QUEUES, 64, 16))
}

pub fn idle_many(stage: &Stage<'_>) -> anyhow::Result<()> {
    idle(stage, 1000, &config(1, 64, 16))
}

/// Nothing can move, and the NIC can find that out at each queue in every turn.
pub fn full_rings(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(QUEUES, 64, 4096);
    fill(
        stage,
        "full-rings",
        &config,
        |first, _| Box::new(move |n| word(first + (n % 4096) as u32 * 4096, 64, 0)),
        false,
    )
}

pub fn bad_descriptors(stage: &Stage<'_>) -> anyhow::Result<()> {
    fill(
        stage,
        "bad-descriptors",
        &config(QUEUES, 1024, 16),
        |_, _| Box::new(|_| word(0xfff0, 0x1000, 0)),
        true,
    )
}

pub fn flood_4k(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(QUEUES, 1024, 8192);
    fill(
        stage,
        "flood-4k",
        &config,
        |first, buffers| Box::new(move |n| word(first + spread(n, buffers), 4096, 0)),
        true,
    )
}

pub fn flood_9000(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(QUEUES, 1024, 8192);
    fill(
        stage,
        "flood-9000",
        &config,
        |first, buffers| {
            Box::new(move |n| {
                let (len, flags) = if n % 3 < 2 { (4096, FLAG_MORE) } else { (9000 - 2 * 4096, 0) };
                word(first + spread(n, buffers), len, flags)
            })
        },
        true,
    )
}

/// The offset of a buffer, in an order that no cache foresees.
fn spread(n: u64, buffers: u32) -> u32 {
    (n.wrapping_mul(7919) % u64::from(buffers)) as u32 * 4096
}

/// The first word of a queue's n-th descriptor.
type Words = Box<dyn FnMut(u64) -> u64>;

/// Keeps the transmit rings full of the words that `words` makes, given the first buffer's offset and the number of buffers;
/// `drains`: takes what comes back.
fn fill(
    stage: &Stage<'_>,
    name: &str,
    config: &Config,
    words: impl FnOnce(u32, u32) -> Words,
    drains: bool,
) -> anyhow::Result<()> {
    let Some(program) = Program::attached(stage, name, config)? else {
        stage.linger();
        return Ok(());
    };
    let mut filler = Filler::new(&program);
    let mut word = words(program.layout.pool().buffers, config.buffers);
    while stage.goes_on() {
        if drains {
            filler.drain();
        }
        stage.did(filler.fill(u64::MAX, &mut word));
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// A program in a loop: as many packets of so many bytes as the NIC takes, nothing of them written but their first bytes, if any, and
/// nothing read but what the ring needs; all have this metadata word. `beside` is called between bursts.
fn send_all_the_time(
    stage: &Stage<'_>,
    name: &str,
    bytes: u16,
    (start, meta): (&[u8], u64),
    mut beside: impl FnMut(),
) -> anyhow::Result<()> {
    let config = Config { ring: 1024, buffers: 8192, ..Config::default() };
    let opened = Nic::options().name(name).config(&config).pages(Pages::Small).open(stage.socket);
    let Some(mut nic) = stage.tried(opened) else {
        stage.linger();
        return Ok(());
    };
    let mut pair = nic.queue_pair(0)?;
    let mut burst = Burst::new();
    while stage.goes_on() {
        pair.alloc(bytes, 48, &mut burst);
        for buf in burst.iter_mut().filter(|_| !start.is_empty()) {
            pair.write(buf, 0, start);
            buf.set_meta(meta);
        }
        stage.did(pair.tx_burst(&mut burst));
        pair.free(&mut burst);
        for _ in 0..2 {
            pair.rx_burst(&mut burst, 48);
            pair.free(&mut burst);
        }
        beside();
    }
    Ok(())
}

/// An honest program with large packets.
pub fn greedy(stage: &Stage<'_>) -> anyhow::Result<()> {
    send_all_the_time(stage, "greedy", 9000, (&[], 0), || ())
}

/// Of a type for local experiments, from an address of its own.
pub fn broadcast(stage: &Stage<'_>) -> anyhow::Result<()> {
    let header = [&[0xff; 6][..], &[2, 0, 0, 0, 0xff, 1], &[0x88, 0xb5]].concat();
    send_all_the_time(stage, "broadcast", 64, (&header, 0), || ())
}

/// Idle programs that a switch floods to.
const RECEIVERS: usize = 240;
/// Bytes of a super-packet, and of payload in each segment: as many segments as a switch cuts one packet into.
const SUPER: u16 = 8954;
const SEGMENT: u64 = 150;
/// Its metadata (`ccnic_offload.h`): TCP over IPv4, to be cut, with the checksum of each header.
const CUT: u64 = 1 << 33 | 1 << 35 | 1 << 37 | SEGMENT;

/// A super-packet to many receivers, none of which takes super-packets. They read nothing; or each takes all it gets, if it `drains`.
fn super_packets(stage: &Stage<'_>, name: &str, drains: bool) -> anyhow::Result<()> {
    let idle = Program::several(stage, "idle", &config(1, 128, 128), RECEIVERS)?;
    let rings: Vec<_> = idle.iter().map(Filler::new).collect();
    let [high, low] = (SUPER - 14).to_be_bytes();
    let mut header = [&[0xff; 6][..], &[2, 0, 0, 0, 0xff, 1], &[8, 0, 0x45, 0, high, low]].concat();
    header.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 9, 0, 66, 10, 9, 0, 255]);
    header.extend([3, 232, 7, 208, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 16, 1, 0, 0, 0, 0, 0]);
    let drain = || rings.iter().filter(|_| drains).for_each(Filler::drain);
    send_all_the_time(stage, name, SUPER, (&header, CUT), drain)
}

pub fn tso_full(stage: &Stage<'_>) -> anyhow::Result<()> {
    super_packets(stage, "tso-full", false)
}

pub fn tso_drained(stage: &Stage<'_>) -> anyhow::Result<()> {
    super_packets(stage, "tso-drained", true)
}

/// As `broadcast`, to many receivers, of the longest packets.
pub fn broadcast_long(stage: &Stage<'_>) -> anyhow::Result<()> {
    let idle = Program::several(stage, "idle", &config(1, 64, 64), RECEIVERS)?;
    let rings: Vec<_> = idle.iter().map(Filler::new).collect();
    let header = [&[0xff; 6][..], &[2, 0, 0, 0, 0xff, 1], &[0x88, 0xb5]].concat();
    send_all_the_time(stage, "broadcast-long", 9000, (&header, 0), || rings.iter().for_each(Filler::drain))
}
