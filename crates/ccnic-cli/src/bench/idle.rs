//! `ccnic bench idle`: what a NIC uses while nobody sends, and how long a packet takes after a pause.
//!
//! Beside them, what no NIC that sleeps can do better: how long a bare thread takes to wake that waits on the NIC's CPU.
//!
//! Three NICs: one that polls all the time, one that sleeps, and one that sleeps beside a program that sleeps as well while it waits for
//! its packet. The program sends one packet after each pause.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use ccnic::Burst;
use ccnic_client::{Nic, QueuePair};
use clap::Args;
use serde::Serialize;

use crate::cpus::{Split, pin, warn_if_crowded};
use crate::nic_process::{NicOptions, NicProcess};
use crate::print::{self, Column, Progress, Table, units};
use crate::stats::median;

/// How long a packet may take: only a broken NIC needs more.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of `bench idle`.
#[derive(Debug, Args)]
pub struct IdleArgs {
    /// Seconds without a packet, in which the NIC's CPU time is measured
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Packets whose round trips are measured
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    packets: u32,
    /// Milliseconds without a packet before each of them
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=60_000))]
    pause: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A NIC, and what its program does while it waits.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    args: &'static [&'static str],
    program_sleeps: bool,
}

const CASES: [Case; 3] = [
    Case { name: "polls", args: &["--sleep-after", "0"], program_sleeps: false },
    Case { name: "sleeps", args: &[], program_sleeps: false },
    Case { name: "both sleep", args: &[], program_sleeps: true },
];

/// What was measured of one of them.
#[derive(Debug, Clone, Serialize)]
struct Row {
    nic: &'static str,
    /// CPU time of the whole daemon, as a share of one core.
    idle_share: f64,
    /// Round trips after a pause, in nanoseconds.
    p50_ns: f64,
    p99_ns: f64,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Measured {
    rows: Vec<Row>,
    /// How long a bare thread takes to wake, at the median, in nanoseconds.
    wake_ns: f64,
}

/// Measures and prints.
pub fn run(args: &IdleArgs) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.seconds.is_finite() && (0.1..=3600.0).contains(&args.seconds),
        "--seconds is {}; choose 0.1 to 3600",
        args.seconds
    );
    let split = Split::of_machine()?;
    warn_if_crowded(1)?;
    let progress = Progress::of_measurements("idle", CASES.len() + 1, args.json);
    progress.say("a bare thread".to_owned());
    let wake_ns = wake_ns(args, &split)?;
    progress.step();
    let mut rows = Vec::new();
    for case in CASES {
        progress.say(case.name.to_owned());
        rows.push(measure(args, case, &split)?);
        progress.step();
    }
    drop(progress);
    let measured = Measured { rows, wake_ns };
    print::result(args.json, &measured, || table(args, &measured).text())
}

fn measure(args: &IdleArgs, case: Case, split: &Split) -> anyhow::Result<Row> {
    let options = NicOptions { cores: &[split.nic()], args: case.args, ..NicOptions::default() };
    let process = NicProcess::start_with(options)?;
    // In a thread of its own, so that the next NIC does not inherit its CPU.
    let program = || {
        pin(split.host(0))?;
        run_program(args, case, &process)
    };
    std::thread::scope(|scope| scope.spawn(program).join().ok().context("the program's thread panicked")?)
}

fn run_program(args: &IdleArgs, case: Case, process: &NicProcess) -> anyhow::Result<Row> {
    let mut nic = Nic::options().name("ccnic bench idle").open(process.socket())?;
    let mut pair = nic.queue_pair(0)?;
    round_trip(&mut pair, case.program_sleeps)?; // everything is set up
    let pid = process.pid().context("the NIC is no process of this one")?;
    std::thread::sleep(Duration::from_millis(args.pause.into()));
    let (before, start) = (cpu_seconds(pid)?, Instant::now());
    std::thread::sleep(Duration::from_secs_f64(args.seconds));
    let idle_share = (cpu_seconds(pid)? - before) / start.elapsed().as_secs_f64();
    let mut times = Vec::new();
    for _ in 0..args.packets {
        std::thread::sleep(Duration::from_millis(args.pause.into()));
        times.push(round_trip(&mut pair, case.program_sleeps)?.as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    Ok(Row { nic: case.name, idle_share, p50_ns: at(0.5), p99_ns: at(0.99) })
}

/// Sends a packet and receives it.
fn round_trip(pair: &mut QueuePair, sleeps: bool) -> anyhow::Result<Duration> {
    let mut burst = Burst::new();
    anyhow::ensure!(pair.alloc(64, 1, &mut burst) == 1, "the pool has no buffer");
    let start = Instant::now();
    anyhow::ensure!(pair.tx_burst(&mut burst) == 1, "the ring has no room");
    while pair.rx_burst(&mut burst, 1) == 0 {
        if sleeps {
            pair.wait(PATIENCE).context("a packet did not come back")?;
        }
        anyhow::ensure!(start.elapsed() < PATIENCE, "a packet did not come back within {PATIENCE:?}");
    }
    let took = start.elapsed();
    pair.free(&mut burst);
    Ok(took)
}

/// How long a thread on the NIC's CPU takes to wake, at the median, when one on the program's sends it a byte after a pause.
fn wake_ns(args: &IdleArgs, split: &Split) -> anyhow::Result<f64> {
    let (mut ours, mut theirs) = UnixStream::pair().context("could not make a pair of sockets")?;
    let awake = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            pin(split.nic())?;
            while theirs.read(&mut [0]).context("could not wait for a byte")? > 0 {
                awake.store(true, Ordering::Release);
            }
            anyhow::Ok(())
        });
        let caller = scope.spawn(|| {
            pin(split.host(0))?;
            let mut times = Vec::new();
            for _ in 0..args.packets {
                std::thread::sleep(Duration::from_millis(args.pause.into()));
                let start = Instant::now();
                ours.write_all(&[0]).context("could not send a byte")?;
                while !awake.swap(false, Ordering::Acquire) {
                    anyhow::ensure!(start.elapsed() < PATIENCE, "a thread did not wake within {PATIENCE:?}");
                }
                times.push(start.elapsed().as_nanos() as f64);
            }
            drop(ours);
            Ok(median(times))
        });
        let wake = caller.join().ok().context("a thread panicked")?;
        sleeper.join().ok().context("a thread panicked")??;
        wake
    })
}

/// What all threads of a process have used.
fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let of = |task: PathBuf| {
        let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let tasks = std::fs::read_dir(&tasks).with_context(|| format!("could not read {}", tasks.display()))?;
    let used: u64 = tasks.filter_map(|task| of(task.ok()?.path())).sum();
    Ok(used as f64 / 1e9)
}

fn table(args: &IdleArgs, measured: &Measured) -> Table {
    let packets = units::count(args.packets as usize, "packet");
    let title = format!("{packets}, each after {} ms without one", args.pause);
    let columns = [
        Column::text("NIC"),
        Column::number("CPU of a core\nwhile idle"),
        Column::number("round trip\np50"),
        Column::number("\np99"),
    ];
    let mut table = Table::new(title, columns);
    for row in &measured.rows {
        table.row([
            row.nic.to_owned(),
            format!("{:.2} %", row.idle_share * 100.0),
            units::time(row.p50_ns),
            units::time(row.p99_ns),
        ]);
    }
    table.note(format!(
        "A bare thread on the NIC's CPU that waits for a byte wakes in {} at the median.",
        units::time(measured.wake_ns)
    ));
    table.note(
        "polls: --sleep-after 0. sleeps: the default. both sleep: the program waits for its packet without polling, too. CPU: of all \
         threads of the daemon.",
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::longest_line;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: IdleArgs,
    }

    #[test]
    fn the_table_fits_80_columns() {
        let args = Command::parse_from(["x"]).args;
        let row = |case: Case| Row { nic: case.name, idle_share: 0.0012, p50_ns: 12_345.0, p99_ns: 2e7 };
        let text = table(&args, &Measured { rows: CASES.map(row).into(), wake_ns: 9000.0 }).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        assert!(text.contains("both sleep") && text.contains("0.12 %") && text.contains("20ms"), "{text}");
    }

    #[test]
    fn this_process_has_used_some_time() {
        let before = cpu_seconds(std::process::id()).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {}
        assert!(cpu_seconds(std::process::id()).unwrap() > before);
        assert!(cpu_seconds(u32::MAX).is_err());
    }
}
