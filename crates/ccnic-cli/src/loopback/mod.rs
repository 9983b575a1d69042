//! Packets from program threads through the NIC and back (CC-NIC section 5.1): one run of one load.

pub mod notes;
pub mod rounds;

use std::path::PathBuf;

use ccnic::Config;
use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic_client::{Nic, PairVisitor};
use ccnic_load::{Load, LoadError, Outcome, Totals};
use ccnic_shm::NativeMemory;

use crate::clock::MachineClock;
use crate::cpus::{CpuTime, Split, pin};
use crate::nic_process::NicProcess;
use crate::options::TrafficArgs;

/// A NIC and the CPUs of its programs: what several measurements share.
#[derive(Debug)]
pub struct Bench {
    nic: NicProcess,
    split: Split,
}

/// The results of one run.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The sum of all threads' results.
    pub totals: Totals,
    /// The least share of the measured time that a thread had its CPU. None when threads must share CPUs.
    pub cpu_share: Option<f64>,
}

impl Bench {
    /// Starts a NIC for `queues` queue pairs, or takes the one at `socket`.
    pub fn new(socket: Option<PathBuf>, queues: u16, reflect: bool) -> anyhow::Result<Bench> {
        let split = Split::of_machine()?;
        let nic = match socket {
            Some(path) => NicProcess::running(path)?,
            None => {
                let cores: Vec<usize> = split.nic.iter().copied().take(queues.into()).collect();
                NicProcess::start(&cores, reflect)?
            }
        };
        Ok(Bench { nic, split })
    }

    /// True when each side has CPUs of its own.
    pub fn alone(&self, queues: u16) -> bool {
        self.split.alone(queues.into())
    }

    /// Runs one load over a fresh attachment, one thread per queue pair.
    ///
    /// # Errors
    /// When the NIC cannot be reached, or returns no packet.
    pub fn run(&self, config: &Config, traffic: &TrafficArgs) -> anyhow::Result<Run> {
        let mut nic = Nic::options().name("ccnic bench").config(config).open(self.nic.socket())?;
        let pairs = (0..config.queues).map(|q| nic.queue_pair(q)).collect::<Result<Vec<_>, _>>()?;
        let load = traffic.load(config.queues);
        let alone = self.alone(config.queues);
        let seen = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(pairs)
                .map(|(i, mut pair)| {
                    let cpu = self.split.host(i);
                    let load = load.of_thread(i as u16, config.queues);
                    scope.spawn(move || {
                        pin(cpu)?;
                        let clock = MachineClock::new(alone);
                        Ok(pair.dispatch(RunLoad { load, clock })?)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|t| t.join().map_err(|_| anyhow::anyhow!("a program thread panicked")).and_then(|r| r))
                .collect::<anyhow::Result<Vec<_>>>()
        })?;
        let (outcomes, shares): (Vec<Outcome>, Vec<f64>) = seen.into_iter().unzip();
        let cpu_share = shares.into_iter().reduce(f64::min).filter(|_| alone);
        Ok(Run { totals: Totals::of(traffic.size, &outcomes)?, cpu_share })
    }
}

/// A load on a queue pair, compiled for each ring type: no branch in the measured loop.
struct RunLoad {
    load: Load,
    clock: MachineClock,
}

impl PairVisitor for RunLoad {
    type Output = Result<(Outcome, f64), LoadError>;

    fn visit<R: Ring>(self, pair: &mut QueuePair<NativeMemory, R>) -> Self::Output {
        let (mut begun, mut ended) = (CpuTime::default(), CpuTime::default());
        let outcome = ccnic_load::run(
            pair,
            self.load,
            &self.clock,
            || begun = CpuTime::now(),
            || ended = CpuTime::now(),
        )?;
        Ok((outcome, ended.share_since(begun)))
    }
}
