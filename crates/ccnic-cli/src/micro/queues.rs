//! Messages to a NIC on another core and back: over the cachable queues of 1996 (CNI) and over this project's rings. The queues are those
//! that the simulator runs (`ccnic_sim::cni::pair`), here on real memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::bail;
use ccnic::host::{self, QueuePair};
use ccnic::ring::GroupedEpoch;
use ccnic::{Config, Layout};
use ccnic_load::Load;
use ccnic_sim::cni::pair::{Nic, Program, Queues};
use serde::Serialize;

use super::calls::{StopOnDrop, serve_ring};
use super::pingpong::{self, PingPongRound};
use super::{Side, duet};
use crate::clock::MachineClock;

/// What messages go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Queues of 16 blocks in each direction: 4 messages.
    Cni16q,
    /// Of 512 blocks: 128 messages.
    Cni512q,
    /// The default rings.
    Ccnic,
}

impl Over {
    /// All, in the order of the table.
    pub const ALL: [Over; 3] = [Over::Cni16q, Over::Cni512q, Over::Ccnic];

    /// Blocks of a queue; none of a ring.
    fn blocks(self) -> Option<u32> {
        match self {
            Over::Cni16q => Some(16),
            Over::Cni512q => Some(512),
            Over::Ccnic => None,
        }
    }
}

/// One round: with one message under way, and with as many as the queue holds or [`IN_FLIGHT`].
#[derive(Debug, Clone, Copy, Serialize)]
pub struct QueueRound {
    /// Round trips of a lone message.
    pub lone: PingPongRound,
    /// Millions of messages per second.
    pub mmps: f64,
}

/// Messages under way at most where the rate is measured; fewer fit into small queues.
pub const IN_FLIGHT: u32 = 128;

/// Measures one round: `seconds` with one message of `size` bytes under way, and as long with many.
///
/// # Errors
/// When memory or threads cannot be made, or a message is wrong.
pub fn round(over: Over, size: u16, seconds: f64) -> anyhow::Result<QueueRound> {
    match over.blocks() {
        Some(blocks) => queues(&Queues::new(blocks), size.into(), seconds),
        None => rings(size, seconds),
    }
}

fn queues(queues: &Queues, size: usize, seconds: f64) -> anyhow::Result<QueueRound> {
    let stop = AtomicBool::new(false);
    let [measured, _] = duet(queues.bytes(), |side| {
        if side.number == 1 {
            reflect(&side, queues, &stop);
            return Ok(None);
        }
        let _stop = StopOnDrop(&stop);
        let mut program = Program::new(side.mem.clone(), queues, size);
        let lone = pingpong::time(seconds, || exchange(&mut program, &side, 1, 1))?;
        let (start, mut messages) = (Instant::now(), 0);
        while start.elapsed().as_secs_f64() < seconds {
            exchange(&mut program, &side, IN_FLIGHT, IN_FLIGHT)?;
            messages += u64::from(IN_FLIGHT);
        }
        let mmps = messages as f64 / start.elapsed().as_secs_f64() / 1e6;
        anyhow::Ok(Some(QueueRound { lone: PingPongRound::of(Some(lone))?, mmps }))
    })?;
    measured?.ok_or_else(|| anyhow::anyhow!("DEFECT: the program's side measured nothing"))
}

/// Sends while fewer than `most` messages are under way, and takes what is back, until `count` more have come.
fn exchange(
    program: &mut Program<ccnic_shm::NativeMemory>,
    side: &Side,
    most: u32,
    count: u32,
) -> anyhow::Result<()> {
    let end = program.received().wrapping_add(count);
    while program.received() != end {
        let mut idle = true;
        while (program.is_begun() || program.in_flight() < most) && program.send() {
            idle = false;
        }
        while program.received() != end && program.receive() {
            idle = false;
        }
        if idle {
            side.wait();
        }
    }
    if program.wrong > 0 {
        bail!("DEFECT: {} messages came back damaged or out of order", program.wrong);
    }
    Ok(())
}

/// The NIC's side: sends every message back.
fn reflect(side: &Side, queues: &Queues, stop: &AtomicBool) {
    let mut nic = Nic::new(side.mem.clone(), queues);
    while !stop.load(Ordering::Acquire) {
        if !nic.poll() {
            side.wait();
        }
    }
}

fn rings(size: u16, seconds: f64) -> anyhow::Result<QueueRound> {
    let lone = loads(size, 1, seconds)?;
    let many = loads(size, IN_FLIGHT as usize, seconds)?;
    let times = PingPongRound {
        p50_ns: lone.rtt.value_at_quantile(0.5) as f64,
        p99_ns: lone.rtt.value_at_quantile(0.99) as f64,
        round_trips: lone.packets,
    };
    Ok(QueueRound { lone: times, mmps: many.packets as f64 / many.seconds / 1e6 })
}

/// Packets through a ring to a loopback that copies them, by the load generator.
fn loads(size: u16, inflight: usize, seconds: f64) -> anyhow::Result<ccnic_load::Outcome> {
    let layout = Layout::new(&Config::default())?;
    let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    let [measured, _] = duet(layout.size(), |side| {
        if side.number == 1 {
            return serve_ring(&side, &layout, &ready, &stop).map(|()| None);
        }
        let _stop = StopOnDrop(&stop);
        host::format(&side.mem, &layout);
        let mut pair = QueuePair::<_, GroupedEpoch>::new(side.mem.clone(), &layout, 0)?;
        ready.store(true, Ordering::Release);
        let load = Load {
            size,
            burst: inflight.min(32),
            rx_burst: 32,
            inflight,
            rate: None,
            seconds,
            warmup: seconds / 10.0,
            packets: None,
            whole_bursts: false,
            phase: 0.0,
        };
        let clock = MachineClock::new(side.alone);
        Ok(Some(ccnic_load::run(&mut pair, load, &clock, || (), || ())?))
    })?;
    let outcome = measured?.ok_or_else(|| anyhow::anyhow!("DEFECT: the program's side measured nothing"))?;
    if outcome.lost + outcome.corrupt > 0 {
        bail!("DEFECT: {} packets were lost, {} damaged", outcome.lost, outcome.corrupt);
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_part_and_of_several_come_back_over_all() {
        for (over, size) in Over::ALL.into_iter().flat_map(|over| [(over, 64), (over, 500)]) {
            let measured = round(over, size, 0.002).unwrap();
            assert!(measured.lone.round_trips > 0 && measured.lone.p50_ns > 0.0, "{over:?}");
            assert!(measured.mmps > 0.0, "{over:?}");
        }
    }
}
