//! Messages to a NIC on another core and back: over the cachable queues of 1996 (CNI) and over this project's rings. The queues are those
//! that the simulator runs (`ccnic_sim::cni::pair`), here in real memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::bail;
use ccnic::host::{self, QueuePair};
use ccnic::ring::GroupedEpoch;
use ccnic::{Config, Layout};
use ccnic_load::Load;
use ccnic_shm::NativeMemory;
use ccnic_sim::cni::pair::{QueueHost, QueueNic, Queues};
use serde::Serialize;

use super::calls::{self, StopOnDrop, Way, serve_ring};
use super::pingpong::{self, PingPongRound, Words};
use super::{Side, duet};
use crate::clock::MachineClock;

/// What messages go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Two lines, one in each direction: one word is the message.
    Lines,
    /// Queues of 16 blocks in each direction: 4 messages.
    Cni16q,
    /// Of 512 blocks: 128 messages.
    Cni512q,
    /// The default rings.
    Rings,
}

impl Over {
    /// All, in the order of the table.
    pub const ALL: [Over; 4] = [Over::Lines, Over::Cni16q, Over::Cni512q, Over::Rings];
}

/// One round.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct QueueRound {
    /// Round trips of a lone message.
    pub lone: PingPongRound,
    /// Millions of messages per second, as many under way as fit or [`IN_FLIGHT`]; none over lines, which hold one.
    pub mmps: Option<f64>,
}

/// Messages under way at most where the rate is measured; fewer fit into small queues.
pub const IN_FLIGHT: u64 = 128;

/// Measures one round: `seconds` with one message of `size` bytes under way, and as long with many.
///
/// # Errors
/// When memory or threads cannot be made, or a message is wrong.
pub fn round(over: Over, size: u16, seconds: f64) -> anyhow::Result<QueueRound> {
    match over {
        Over::Lines => Ok(QueueRound { lone: pingpong::round(Words::Separate, false, seconds)?, mmps: None }),
        Over::Cni16q => queues(&Queues::new(16), size.into(), seconds),
        Over::Cni512q => queues(&Queues::new(512), size.into(), seconds),
        Over::Rings => Ok(QueueRound {
            lone: calls::round(Way::Ring, size, seconds)?,
            mmps: Some(rings(size, seconds)?),
        }),
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
        let mut program = QueueHost::new(side.mem.clone(), queues, size);
        let lone = pingpong::time(seconds, || exchange(&mut program, &side, 1, 1))?;
        let (start, mut messages) = (Instant::now(), 0);
        while start.elapsed().as_secs_f64() < seconds {
            exchange(&mut program, &side, IN_FLIGHT, IN_FLIGHT)?;
            messages += IN_FLIGHT;
        }
        let mmps = messages as f64 / start.elapsed().as_secs_f64() / 1e6;
        anyhow::Ok(Some(QueueRound { lone: PingPongRound::of(Some(lone))?, mmps: Some(mmps) }))
    })?;
    measured?.ok_or_else(|| anyhow::anyhow!("DEFECT: the program's side measured nothing"))
}

/// Sends while fewer than `most` messages are under way, and takes what is back, until `count` more have come.
fn exchange(program: &mut QueueHost<NativeMemory>, side: &Side, most: u64, count: u64) -> anyhow::Result<()> {
    let end = program.received() + count;
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
    let mut nic = QueueNic::new(side.mem.clone(), queues);
    while !stop.load(Ordering::Acquire) {
        if !nic.poll() {
            side.wait();
        }
    }
}

/// Packets through a ring to a loopback that copies them, by the load generator: millions per second.
fn rings(size: u16, seconds: f64) -> anyhow::Result<f64> {
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
            burst: 32,
            rx_burst: 32,
            inflight: IN_FLIGHT as usize,
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
    if outcome.packets == 0 {
        bail!("no packet came back over the rings within --seconds {seconds}: choose more");
    }
    Ok(outcome.packets as f64 / outcome.seconds / 1e6)
}

#[cfg(test)]
mod tests {
    use ccnic_testing::RegionMemory;

    use ccnic::SharedMemory;
    use ccnic_shm::{Pages, Region};

    use super::*;

    #[test]
    fn messages_of_one_part_and_of_several_come_back_over_all() {
        for (over, size) in Over::ALL.into_iter().flat_map(|over| [(over, 64), (over, 500)]) {
            // Where other programs have the CPUs, nothing may come back in a short time.
            let too_short = |e: &anyhow::Error| e.to_string().contains("choose more");
            let rounds = [0.002, 0.02, 0.2, 2.0].into_iter().map(|seconds| round(over, size, seconds));
            let mut done = rounds.filter(|done| !done.as_ref().is_err_and(too_short));
            let measured = done.next().expect("something comes back in two seconds").unwrap();
            assert!(measured.lone.round_trips > 0 && measured.lone.p50_ns > 0.0, "{over:?}");
            let many = measured.mmps;
            assert!(many.map_or(over == Over::Lines, |mmps| mmps > 0.0), "{over:?}: {many:?}");
        }
    }

    /// A program and a NIC on one thread, so that no message moves while the test looks.
    fn both(blocks: u32, size: usize) -> (Side, QueueHost<NativeMemory>, QueueNic<NativeMemory>) {
        let queues = Queues::new(blocks);
        let mem = Region::create(queues.bytes(), Pages::Small).unwrap().memory();
        let (program, nic) =
            (QueueHost::new(mem.clone(), &queues, size), QueueNic::new(mem.clone(), &queues));
        (Side { mem, number: 0, alone: true }, program, nic)
    }

    #[test]
    fn what_has_come_back_is_taken_and_more_is_sent_in_its_place() {
        let (side, mut program, mut nic) = both(16, 64);
        while program.send() {}
        assert_eq!(program.in_flight(), 4, "the queue is full");
        while nic.poll() {}
        exchange(&mut program, &side, 2, 3).unwrap();
        assert_eq!((program.received(), program.in_flight()), (3, 1), "never more than two");
        while nic.poll() {}
        exchange(&mut program, &side, 4, 1).unwrap();
        assert_eq!((program.received(), program.in_flight()), (4, 3));
    }

    #[test]
    fn a_damaged_message_is_a_defect() {
        let (side, mut program, mut nic) = both(16, 64);
        assert!(program.send());
        side.mem.store(16, !side.mem.load(16)); // of its payload
        assert!(nic.poll());
        let refused = exchange(&mut program, &side, 1, 1).unwrap_err().to_string();
        assert_eq!(refused, "DEFECT: 1 messages came back damaged or out of order");
    }
}
