//! `ccnic bench switch`: packets between two programs through the switch, both ways, beside the loopback in the same rounds.
//!
//! One program is the load generator of `bench loopback`. The other sends each packet back, with the addresses exchanged, in the buffer
//! that it came in. So each packet that comes back has passed the switch twice, once in each direction, and all bytes of it are checked.
//!
//! With `--capture` the same load is measured once more in each round, while somebody captures: what that costs the path.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use anyhow::Context;
use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic::{Burst, Config};
use ccnic_client::{Nic, PairVisitor};
use ccnic_control::Connection;
use ccnic_control::capture::CaptureRequest;
use ccnic_load::{Clock, Frames, Load, LoadError, Outcome, payload, run_framed};
use ccnic_shm::NativeMemory;
use clap::Args;
use serde::Serialize;

use crate::clock::MachineClock;
use crate::cpus::{Split, pin, warn_if_crowded};
use crate::loopback::Bench;
use crate::loopback::rounds::ROUNDS;
use crate::nic_process::{NicOptions, NicProcess};
use crate::options::{self, InterfaceArgs, TrafficArgs};
use crate::print::{self, Column, Progress, Table, units};
use crate::stats::{Spread, median};

/// The addresses of the two programs.
const ADDRESSES: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Options of `bench switch`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// Bytes of the packets, 32 to 9600
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [64, 1500])]
    sizes: Vec<u16>,
    /// Packets in flight, at most, there and back together
    #[arg(long, default_value_t = 512, value_name = "PACKETS")]
    inflight: usize,
    /// Seconds to measure each load in each round
    #[arg(long, default_value_t = 0.1)]
    seconds: f64,
    /// Rounds that each load is measured in; medians are shown
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Measure once more while so many packets a second are captured (0: all), with the reasons of drops, as `ccnic capture --drops` does
    #[arg(long, value_name = "PACKETS")]
    capture: Option<u32>,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// One packet size in one round, in million packets per second that the NIC's core moves.
#[derive(Debug, Clone, Copy, Serialize)]
struct Round {
    loopback_mpps: f64,
    /// The sum of both directions.
    switch_mpps: f64,
    ratio: f64,
    /// While somebody captures, the same, and as a part of it without.
    capture_mpps: Option<f64>,
    capture_ratio: Option<f64>,
    lost: u64,
    corrupt: u64,
}

/// One packet size: medians over the rounds.
#[derive(Debug, Clone, Serialize)]
struct Row {
    size: u16,
    loopback_mpps: f64,
    switch_mpps: f64,
    /// Of the two in the same round.
    ratio: Spread,
    capture_mpps: Option<f64>,
    capture_ratio: Option<Spread>,
    /// Both programs share one CPU.
    programs_share_a_cpu: bool,
    lost: u64,
    corrupt: u64,
    rounds: Vec<Round>,
}

impl Row {
    fn of(size: u16, programs_share_a_cpu: bool, rounds: Vec<Round>) -> Row {
        let captures = rounds.iter().all(|round| round.capture_ratio.is_some());
        let capture_mpps = captures.then(|| median(rounds.iter().filter_map(|round| round.capture_mpps)));
        let capture_ratio =
            captures.then(|| Spread::of(rounds.iter().filter_map(|round| round.capture_ratio)));
        Row {
            size,
            capture_mpps,
            capture_ratio,
            loopback_mpps: median(rounds.iter().map(|round| round.loopback_mpps)),
            switch_mpps: median(rounds.iter().map(|round| round.switch_mpps)),
            ratio: Spread::of(rounds.iter().map(|round| round.ratio)),
            programs_share_a_cpu,
            lost: rounds.iter().map(|round| round.lost).sum(),
            corrupt: rounds.iter().map(|round| round.corrupt).sum(),
            rounds,
        }
    }
}

/// Measures and prints.
pub fn run(args: &SwitchArgs) -> anyhow::Result<()> {
    let config = args.interface.config(1);
    let traffic = |size: u16| TrafficArgs {
        size,
        burst: 32,
        rx_burst: 32,
        inflight: args.inflight,
        queues: 1,
        seconds: args.seconds,
        rate: None,
        whole_bursts: false,
    };
    options::rounds(args.rounds)?;
    for size in &args.sizes {
        let least = payload::MIN_ETHERNET;
        anyhow::ensure!(*size >= least, "--sizes names {size}; choose {least} to {}", config.mtu);
        traffic(*size).check(&config, "--queues")?;
    }
    fits(args.inflight, config.ring)?;
    let loopback = Bench::new(None, 1, false)?;
    let switch = SwitchBench::new()?;
    warn_if_crowded(1)?;
    let steps = args.rounds * args.sizes.len() * (2 + usize::from(args.capture.is_some()));
    let progress = Progress::of_measurements("switch", steps, args.json);
    let mut rounds = vec![Vec::new(); args.sizes.len()];
    for number in 1..=args.rounds {
        for (size, rounds) in args.sizes.iter().zip(&mut rounds) {
            let traffic = traffic(*size);
            progress.say(format!("round {number}: loopback, {size} B"));
            let back = loopback.run(&config, &traffic)?.totals;
            progress.step();
            progress.say(format!("round {number}: switch, {size} B"));
            let outcome = switch.run(&config, &traffic)?;
            progress.step();
            let mpps = |outcome: &Outcome| 2.0 * outcome.packets as f64 / outcome.seconds / 1e6;
            let switch_mpps = mpps(&outcome);
            let mut capture_mpps = None;
            let (mut lost, mut corrupt) = (back.lost + outcome.lost, back.corrupt + outcome.corrupt);
            if let Some(rate) = args.capture {
                progress.say(format!("round {number}: switch and capture, {size} B"));
                let capturing = switch.capture(rate)?;
                let outcome = switch.run(&config, &traffic)?;
                capturing.end()?;
                progress.step();
                capture_mpps = Some(mpps(&outcome));
                (lost, corrupt) = (lost + outcome.lost, corrupt + outcome.corrupt);
            }
            rounds.push(Round {
                capture_mpps,
                capture_ratio: capture_mpps.map(|mpps| mpps / switch_mpps),
                loopback_mpps: back.mpps,
                switch_mpps,
                ratio: switch_mpps / back.mpps,
                lost,
                corrupt,
            });
        }
    }
    drop(progress);
    let share = switch.programs_share();
    let rows: Vec<Row> =
        args.sizes.iter().zip(rounds).map(|(size, rounds)| Row::of(*size, share, rounds)).collect();
    print::result(args.json, &rows, || table(args, &rows).text())
}

/// All packets in flight may come to a program that stands still for a moment, and a switch waits for no receiver. A ring holds as many
/// packets as it has descriptors only if its groups are full, which the last one of a burst is not.
///
/// # Errors
/// When they might not fit.
fn fits(inflight: usize, ring: u32) -> anyhow::Result<()> {
    let most = ring as usize / 2;
    anyhow::ensure!(
        inflight <= most,
        "--inflight is {inflight}; choose 1 to {most}, or at least --ring {}: a switch drops what does not fit a receive ring",
        (2 * inflight).next_power_of_two()
    );
    Ok(())
}

/// A switch, and the CPUs of its two programs.
struct SwitchBench {
    nic: NicProcess,
    split: Split,
}

impl SwitchBench {
    fn new() -> anyhow::Result<SwitchBench> {
        let split = Split::of_machine()?;
        let options =
            NicOptions { cores: &[split.nic()], args: &["--wire", "switch"], ..NicOptions::default() };
        Ok(SwitchBench { nic: NicProcess::start_with(options)?, split })
    }

    /// True when both programs have one CPU.
    fn programs_share(&self) -> bool {
        self.split.host(0) == self.split.host(1)
    }

    /// Captures so many packets a second until it is ended. What is captured is read on the CPU of the second program.
    fn capture(&self, rate: u32) -> anyhow::Result<Capturing> {
        let request = CaptureRequest { port: None, snap: SNAP, drops: true, rate };
        let mut reader = Connection::open(self.nic.socket())?.capture(request)?;
        let socket = reader.get_ref().try_clone().context("could not copy the socket of a capture")?;
        let cpu = self.split.host(1);
        let thread = std::thread::spawn(move || {
            pin(cpu)?;
            let mut packets = 0;
            while reader.next_packet()?.is_some() {
                packets += 1;
            }
            anyhow::ensure!(packets > 0, "nothing was captured: this is no measurement of a capture");
            Ok(())
        });
        Ok(Capturing { socket, thread })
    }

    /// Runs one load between two programs that attach for it.
    fn run(&self, config: &Config, traffic: &TrafficArgs) -> anyhow::Result<Outcome> {
        let open = |name| Nic::options().name(name).config(config).open(self.nic.socket());
        let mut nics = [open("ccnic bench, there")?, open("ccnic bench, back")?];
        let [mut there, mut back] = {
            let [there, back] = &mut nics;
            [there.queue_pair(0)?, back.queue_pair(0)?]
        };
        let load = traffic.load(1);
        let [a, b] = ADDRESSES;
        let frames = Frames { sent: payload::ethernet(b, a), back: payload::ethernet(a, b) };
        let alone = self.split.alone(1) && !self.programs_share();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let returns = scope.spawn(|| {
                pin(self.split.host(1))?;
                back.dispatch(SendBack { over: &over, clock: MachineClock::new(alone) });
                anyhow::Ok(())
            });
            let outcome = pin(self.split.host(0)).and_then(|()| {
                Ok(there.dispatch(RunFramed { load, frames, clock: MachineClock::new(alone) })?)
            });
            over.store(true, Relaxed);
            returns.join().ok().context("a program thread panicked")??;
            outcome
        })
    }
}

/// Bytes that are captured of each packet, as whoever looks at headers would have it.
const SNAP: u32 = 128;

/// A capture that runs.
struct Capturing {
    socket: UnixStream,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Capturing {
    /// # Errors
    /// When nothing was captured.
    fn end(self) -> anyhow::Result<()> {
        self.socket.shutdown(Shutdown::Both).context("could not end a capture")?;
        self.thread.join().ok().context("the thread of a capture panicked")?
    }
}

/// The load on one program's queue pair, compiled for each ring type.
struct RunFramed {
    load: Load,
    frames: Frames<2>,
    clock: MachineClock,
}

impl PairVisitor for RunFramed {
    type Output = Result<Outcome, LoadError>;

    fn visit<R: Ring>(self, pair: &mut QueuePair<NativeMemory, R>) -> Self::Output {
        run_framed(pair, self.load, self.frames, &self.clock, || (), || ())
    }
}

/// The other program: sends what it receives back, until it is over.
struct SendBack<'a> {
    over: &'a AtomicBool,
    clock: MachineClock,
}

impl PairVisitor for SendBack<'_> {
    type Output = ();

    #[inline(always)]
    fn visit<R: Ring>(self, pair: &mut QueuePair<NativeMemory, R>) {
        let [a, b] = ADDRESSES;
        let (mut burst, mut addresses) = (Burst::new(), [0; 12]);
        addresses[..6].copy_from_slice(&a);
        addresses[6..].copy_from_slice(&b);
        while !self.over.load(Relaxed) {
            if burst.is_empty() && pair.rx_burst(&mut burst, 32) > 0 {
                let mut first = true;
                for buf in burst.iter_mut() {
                    if first {
                        pair.write(buf, 0, &addresses);
                    }
                    first = !buf.more();
                }
            }
            if (burst.is_empty() || pair.tx_burst(&mut burst) == 0) && !self.clock.give_way() {
                pair.relax();
            }
        }
        pair.free(&mut burst);
    }
}

fn table(args: &SwitchArgs, rows: &[Row]) -> Table {
    let title = format!(
        "{}, bursts of 32, {} in flight: medians of {} of {} s",
        args.interface.design.name(),
        units::count(args.inflight, "packet"),
        units::count(args.rounds, "round"),
        args.seconds
    );
    let mut columns = vec![
        Column::number("packet\nbytes"),
        Column::number("loopback\nMpps"),
        Column::number("switch\nMpps"),
        Column::number("switch /\nloopback"),
        Column::number("min\u{2013}max"),
    ];
    if args.capture.is_some() {
        columns.extend([
            Column::number("capturing\nMpps"),
            Column::number("capturing /\nswitch"),
            Column::number("min\u{2013}max"),
        ]);
    }
    let mut table = Table::new(title, columns);
    for row in rows {
        let ratio = |ratio: f64| format!("{ratio:.2}");
        let mut cells = vec![
            row.size.to_string(),
            units::rate(row.loopback_mpps),
            units::rate(row.switch_mpps),
            ratio(row.ratio.median),
            units::range(&row.ratio, ratio),
        ];
        if let (Some(mpps), Some(spread)) = (row.capture_mpps, &row.capture_ratio) {
            cells.extend([units::rate(mpps), ratio(spread.median), units::range(spread, ratio)]);
        }
        table.row(cells);
    }
    if let Some(rate) = args.capture {
        let rate = if rate == 0 { "all".to_owned() } else { format!("{rate}") };
        table.note(format!(
            "capturing: while {rate} packets a second are captured, {SNAP} bytes of each, and read on the second program's CPU."
        ));
    }
    table.note(
        "Mpps: packets that the NIC's one core passes on. switch: from one program to the other, the sum of both directions; the second \
         program sends each packet back with the addresses exchanged. switch / loopback: of the same round; min\u{2013}max: of the rounds.",
    );
    if rows.iter().any(|row| row.programs_share_a_cpu) {
        table.note(
            "Both programs share one CPU, and wait for each other there: the switch itself may be faster.",
        );
    }
    let (lost, corrupt) = rows.iter().fold((0, 0), |(l, c), row| (l + row.lost, c + row.corrupt));
    table.note(if lost + corrupt == 0 {
        "All packets were read and checked; none was lost or damaged.".to_owned()
    } else {
        format!("DEFECT: {lost} packets were lost and {corrupt} came back damaged, twice or out of order.")
    });
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
        args: SwitchArgs,
    }

    #[test]
    fn what_might_not_fit_a_receive_ring_is_refused() {
        assert!(fits(512, 1024).is_ok());
        let refused = fits(1000, 1024).unwrap_err().to_string();
        assert!(
            refused.starts_with("--inflight is 1000; choose 1 to 512, or at least --ring 2048"),
            "{refused}"
        );
        assert!(fits(1000, 2048).is_ok());
    }

    #[test]
    fn the_table_fits_80_columns_and_names_losses() {
        let args = Command::parse_from(["x", "--rounds", "3"]).args;
        assert_eq!(args.sizes, [64, 1500]);
        let round = |switch_mpps, lost| {
            let ratio = switch_mpps / 20.0;
            let (capture_mpps, capture_ratio) = (None, None);
            Round { loopback_mpps: 20.0, switch_mpps, ratio, capture_mpps, capture_ratio, lost, corrupt: 0 }
        };
        let row = |lost| Row::of(64, true, vec![round(10.0, 0), round(18.0, lost), round(19.0, 0)]);
        let text = table(&args, &[row(0)]).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        let cells: Vec<&str> =
            text.lines().find(|l| l.trim_start().starts_with("64")).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["64", "20.0", "18.0", "0.90", "0.50\u{2013}0.95"], "{text}");
        assert!(text.contains("share one CPU") && text.contains("none was lost"), "{text}");
        assert!(table(&args, &[row(2)]).in_width(80).contains("DEFECT: 2 packets"));
        let args = Command::parse_from(["x", "--capture", "100000"]).args;
        let captured = |round: Round| Round { capture_mpps: Some(9.0), capture_ratio: Some(0.9), ..round };
        let text = table(&args, &[Row::of(64, false, vec![captured(round(10.0, 0)); 2])]).in_width(80);
        assert!(longest_line(&text) <= 80 && text.contains(" 9.00 ") && text.contains("0.90"), "{text}");
        assert!(text.contains("while 100000 packets a second are captured"), "{text}");
    }
}
