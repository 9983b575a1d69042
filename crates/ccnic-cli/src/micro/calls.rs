//! One request and its answer between two cores, by several ways: a word, coherent programmed I/O (`ccnic::call`), `ccnic_call` as
//! programs use it, and a ring (a packet through a loopback NIC). Each request is written whole, read whole by the other side, answered
//! with as many bytes, and the answer read.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use ccnic::call::{CallLayout, Caller, Server};
use ccnic::host::{self, QueuePair};
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::GroupedEpoch;
use ccnic::{Burst, Config, Layout, Tuning};
use ccnic_client::call as client;
use serde::Serialize;

use super::pingpong::{self, PingPongRound, Words};
use super::{Side, duet};
use crate::cpus::{Split, pin};

/// A way to ask and to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The ping-pong round trip of one word on one line: the least that is possible.
    Word,
    /// The protocol of calls, lines requested with ownership.
    Call,
    /// The same; lines requested to be read.
    CallRead,
    /// The same as `Call`; written lines are not demoted.
    CallUndemoted,
    /// `ccnic_call`: the protocol with timeout, sleep and another program's death.
    Program,
    /// A packet through a ring to a loopback NIC and back, in the tuning of programs.
    Ring,
}

impl Way {
    /// All ways, in the order of the table.
    pub const ALL: [Way; 6] =
        [Way::Word, Way::Call, Way::CallRead, Way::CallUndemoted, Way::Program, Way::Ring];
}

/// What is asked and answered.
const ASKED: u8 = 0x5a;

/// Measures one round of a way for `seconds`, with requests and answers of `size` bytes.
///
/// # Errors
/// When memory or threads cannot be made, or an answer is wrong.
pub fn round(way: Way, size: u16, seconds: f64) -> anyhow::Result<PingPongRound> {
    let tuned = |text: &str| text.parse::<Tuning>().context("a tuning of this program");
    match way {
        Way::Word => pingpong::round(Words::Shared, false, seconds),
        Way::Call => calls(size, seconds, Tuning::default()),
        Way::CallRead => calls(size, seconds, tuned("fetch=read")?),
        Way::CallUndemoted => calls(size, seconds, tuned("demote=off")?),
        Way::Program => program(size, seconds),
        Way::Ring => ring(size, seconds),
    }
}

/// That the answer is what was asked, inverted.
fn check(answer: &[u8]) -> anyhow::Result<()> {
    if answer.iter().any(|&byte| byte != !ASKED) {
        bail!("DEFECT: an answer is not what the other side has written");
    }
    Ok(())
}

fn invert(request: &[u8], answer: &mut [u8]) -> usize {
    answer.iter_mut().zip(request).for_each(|(to, from)| *to = !from);
    request.len()
}

/// Tells the other side to end, however this one ends.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn calls(size: u16, seconds: f64, tuning: Tuning) -> anyhow::Result<PingPongRound> {
    let layout = CallLayout::new(size.into())?;
    let stop = AtomicBool::new(false);
    let [measured, _] = duet(layout.size(), |side| {
        if side.number == 1 {
            return answer_calls(&side, &layout, tuning, &stop).map(|()| None);
        }
        let _stop = StopOnDrop(&stop);
        let mut caller = Caller::new(&layout);
        caller.set_tuning(tuning);
        let (request, mut answer) = (vec![ASKED; size.into()], vec![0; size.into()]);
        let measured = pingpong::time(seconds, || {
            caller.send(&side.mem, &request)?;
            while caller.take(&side.mem, &mut answer)?.is_none() {
                side.wait();
            }
            check(&answer)
        });
        measured.map(Some)
    })?;
    PingPongRound::of(measured?)
}

fn answer_calls(side: &Side, layout: &CallLayout, tuning: Tuning, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut server = Server::new(layout);
    server.set_tuning(tuning);
    let most = server.capacity() as usize;
    let (mut request, mut answer) = (vec![0; most], vec![0; most]);
    while !stop.load(Ordering::Acquire) {
        let Some(n) = server.take(&side.mem, &mut request)? else {
            side.wait();
            continue;
        };
        let n = invert(request.get(..n).unwrap_or_default(), &mut answer);
        server.answer(&side.mem, answer.get(..n).unwrap_or_default())?;
    }
    Ok(())
}

/// By the front door, server and caller on threads of this process.
fn program(size: u16, seconds: f64) -> anyhow::Result<PingPongRound> {
    let split = Split::of_machine()?;
    let directory = tempfile::tempdir().context("could not make a directory for a socket")?;
    let socket = directory.path().join("calls.sock");
    let mut server = client::CallServer::listen(&socket)?;
    let waker = server.waker();
    std::thread::scope(|scope| {
        let cpu = split.nic();
        let serving = scope.spawn(move || -> anyhow::Result<()> {
            pin(cpu)?;
            Ok(server.serve(invert)?)
        });
        let cpu = split.host(0);
        let calling = scope.spawn(move || {
            pin(cpu)?;
            let mut caller = client::Caller::open_with(&socket, size.into())?;
            let (request, mut answer) = (vec![ASKED; size.into()], vec![0; size.into()]);
            pingpong::time(seconds, || {
                caller.call(&request, &mut answer, None)?;
                check(&answer)
            })
        });
        let measured = calling.join();
        waker.stop();
        serving.join().map_err(|_| anyhow::anyhow!("the serving thread panicked"))??;
        PingPongRound::of(Some(measured.map_err(|_| anyhow::anyhow!("the calling thread panicked"))??))
    })
}

/// A packet through the default ring, inline where the tuning of programs says so, to a loopback that copies it. (It answers with the
/// same bytes: so they are inverted before they are sent.)
fn ring(size: u16, seconds: f64) -> anyhow::Result<PingPongRound> {
    let layout = Layout::new(&Config::default())?;
    let stop = AtomicBool::new(false);
    let ready = AtomicBool::new(false);
    let [measured, _] = duet(layout.size(), |side| {
        if side.number == 1 {
            return serve_ring(&side, &layout, &ready, &stop).map(|()| None);
        }
        let _stop = StopOnDrop(&stop);
        host::format(&side.mem, &layout);
        let mut pair = QueuePair::<_, GroupedEpoch>::new(side.mem.clone(), &layout, 0)?;
        ready.store(true, Ordering::Release);
        let (request, mut answer) = (vec![!ASKED; size.into()], vec![0; size.into()]);
        let mut burst = Burst::new();
        let measured = pingpong::time(seconds, || {
            pair.alloc(size, 1, &mut burst);
            for buf in burst.iter_mut() {
                pair.write(buf, 0, &request);
            }
            pair.tx_burst(&mut burst);
            while pair.rx_burst(&mut burst, 1) == 0 {
                side.wait();
            }
            for buf in burst.as_slice() {
                pair.with(buf, |bytes| {
                    if let Some(all) = bytes.get(..usize::from(size)) {
                        answer.copy_from_slice(all);
                    }
                });
            }
            pair.free(&mut burst);
            check(&answer)
        });
        measured.map(Some)
    })?;
    PingPongRound::of(measured?)
}

/// The NIC of a ring: a loopback.
pub(super) fn serve_ring(
    side: &Side,
    layout: &Layout,
    ready: &AtomicBool,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    while !ready.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) {
        side.wait();
    }
    let mut nic = NicQueue::<_, GroupedEpoch>::new(side.mem.clone(), layout, 0)?;
    let mut pipeline = Pipeline::default();
    while !stop.load(Ordering::Acquire) {
        if loopback(&mut nic, &mut pipeline, &side.mem, false) == 0 {
            side.wait();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_answered() {
        for way in Way::ALL {
            let measured = round(way, 100, 0.002).unwrap();
            assert!(measured.round_trips > 0 && measured.p50_ns > 0.0, "{way:?}");
        }
    }
}
