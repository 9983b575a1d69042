//! `ccnic bench hostile`: what good programs feel of hostile ones on the same polling core.
//!
//! Each round has a fresh daemon and good programs (one by default), which are measured alone and then beside an attack of
//! `ccnic-hostile`, in a process of its own. Attacks are interleaved: a round of each, then the next round.
//! It reports and never asserts speed; it fails when packets are damaged, or lost and not counted, the daemon dies, or its memory limit
//! is exceeded.

mod account;
mod attacker;
mod blocked;
mod daemon;
mod flow;
mod good;
mod lacked;
mod own_clock;
mod rows;
mod stranger;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use ccnic_hostile::{ATTACKS, Attack, Report};
use clap::Args;

use crate::cpus::{Split, pin_to, warn_if_crowded, warn_if_disturbed};
use crate::options;
use crate::print::{self, Column, Progress, Table};
use attacker::Attacker;
use blocked::{Blocked, watch};
use daemon::{Daemon, Taken};
use good::{Good, Phase, Scene, Wire};
use lacked::{Lacked, Look};
use rows::{Round, Row};
use stranger::{Answers, Stranger};
use table::Setting;

/// Priorities where they are permitted: the daemon and the stranger come before the good program, which comes before the attacks.
const DAEMON_NICE: i32 = -15;
const GOOD_NICE: i32 = -10;
/// Between the first sign of an attack and the measurement.
const SETTLED: Duration = Duration::from_millis(100);
/// Longer than any round: an attack that is left behind ends of itself.
const LONGEST: Duration = Duration::from_secs(120);

/// Options of `bench hostile`.
#[derive(Debug, Args)]
pub struct HostileArgs {
    /// Attacks to measure; several with commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = known)]
    attacks: Vec<&'static Attack>,
    /// List the attacks and end
    #[arg(long)]
    list: bool,
    /// Rounds of each attack; medians and worst cases are shown
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each round alone, and as many beside the attack
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// What the daemon does with packets
    #[arg(long, value_enum, default_value_t)]
    wire: Wire,
    /// Good programs, each with its own region
    #[arg(long, default_value_t = 1, value_name = "PROGRAMS", value_parser = clap::value_parser!(u8).range(1..=64))]
    good: u8,
    /// With a switch: packets a second that each program may flood, to groups and unknown addresses [default: no limit]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    storm: Option<u32>,
    /// The daemon to be attacked [default: the ccnicd beside this program]
    #[arg(long, value_name = "FILE")]
    daemon: Option<PathBuf>,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
    /// Be this attack: how the measurement starts itself
    #[arg(long, hide = true, requires = "socket", value_parser = known)]
    attack: Option<&'static Attack>,
    #[arg(long, hide = true)]
    socket: Option<PathBuf>,
    #[arg(long, hide = true, default_value_t = 1)]
    seed: u64,
    #[arg(long, hide = true, value_delimiter = ',')]
    cpus: Vec<usize>,
}

fn known(name: &str) -> Result<&'static Attack, String> {
    ccnic_hostile::find(name).ok_or_else(|| "no such attack; --list shows them".to_owned())
}

/// Measures and prints; false when something is broken. With `--attack`: attacks until it is killed.
pub fn run(args: &HostileArgs) -> anyhow::Result<bool> {
    if let (Some(attack), Some(socket)) = (args.attack, &args.socket) {
        pin_to(&args.cpus)?;
        ccnic_hostile::run(attack.name, socket, args.seed, LONGEST)?;
        return Ok(true);
    }
    if args.list {
        print::line(&list().text());
        return Ok(true);
    }
    options::rounds(args.rounds)?;
    options::seconds(args.seconds)?;
    if args.storm.is_some() && args.wire != Wire::Switch {
        anyhow::bail!("--storm is a limit of a switch; add --wire switch");
    }
    warn_if_crowded(1)?;
    let attacks: Vec<&Attack> =
        if args.attacks.is_empty() { ATTACKS.iter().collect() } else { args.attacks.clone() };
    let split = Split::of_machine()?;
    let rows = measure(args, &split, &attacks)?;
    warn_if_disturbed(rows.iter().flat_map(|row| &row.rounds).map(Round::undisturbed));
    let setting = Setting {
        shared: split.host.len() < 2,
        wire: args.wire,
        storm: args.storm,
        good: args.good,
        priority: daemon::may_raise_priority(GOOD_NICE),
        other_user: rustix::process::geteuid().is_root(),
    };
    print::result(args.json, &rows, || table::table(&rows, args.rounds, args.seconds, setting).text())?;
    Ok(rows.iter().all(|row| row.defects.is_empty()))
}

fn list() -> Table {
    let columns = [
        Column::text("attack"),
        Column::number("busy"),
        Column::number("with a\nswitch"),
        Column::prose("what it does"),
    ];
    let mut table = Table::new("Attacks of `ccnic bench hostile`", columns);
    for attack in &ATTACKS {
        let [busy, switched] = [attack.busy, attack.busy_switched].map(|programs| programs.to_string());
        table.row([attack.name.to_owned(), busy, switched, attack.about.to_owned()]);
    }
    table.note("busy: its programs that always have packets to be moved.");
    table
}

/// All rounds of all attacks.
fn measure(args: &HostileArgs, split: &Split, attacks: &[&Attack]) -> anyhow::Result<Vec<Row>> {
    let progress = Progress::of_measurements("hostile", args.rounds * attacks.len(), args.json);
    let mut seen: Vec<Vec<Round>> = attacks.iter().map(|_| Vec::new()).collect();
    for number in 1..=args.rounds {
        for (attack, seen) in attacks.iter().zip(&mut seen) {
            progress.say(format!("round {number}: {}", attack.name));
            let plan = Plan { args, split, attack, seed: number as u64 };
            seen.push(plan.round().with_context(|| format!("round {number} of {}", attack.name))?);
            progress.step();
        }
    }
    Ok(attacks
        .iter()
        .zip(seen)
        .map(|(attack, rounds)| Row::of(attack, args.wire, args.good, rounds))
        .collect())
}

/// A round to be measured.
struct Plan<'a> {
    args: &'a HostileArgs,
    split: &'a Split,
    attack: &'a Attack,
    seed: u64,
}

/// What a round showed besides the good programs' packets.
struct Surroundings {
    answers_alone: Answers,
    answers_beside: Answers,
    polling_alone: Option<Lacked>,
    polling_beside: Option<Lacked>,
    blocked: Option<Blocked>,
    daemon: Taken,
    attack: Report,
}

impl Plan<'_> {
    /// A fresh daemon, the good programs alone, then beside the attack.
    fn round(&self) -> anyhow::Result<Round> {
        let wire = (self.args.wire, self.args.storm);
        let mut daemon = Daemon::start(self.args.daemon.as_deref(), wire, self.split.nic(), DAEMON_NICE)?;
        let socket = daemon.socket().to_owned();
        let good = Good::open(&socket, self.args.wire, self.args.good.into())?;
        let cpu = self.split.host(0);
        let (scene, stranger) = (Scene::default(), Stranger::default());
        std::thread::scope(|scope| {
            let good = scope.spawn(|| good.run(&socket, cpu, GOOD_NICE, &scene));
            scope.spawn(|| stranger.run(&socket, DAEMON_NICE, &scene));
            let around = self.phases(&daemon, &scene, &stranger);
            scene.end();
            let good = good.join().map_err(|_| anyhow::anyhow!("the good program panicked"));
            let alive = daemon.is_running();
            let stopped = daemon.stop(); // whatever the stranger still waits for ends now
            let Surroundings {
                answers_alone,
                answers_beside,
                polling_alone,
                polling_beside,
                blocked,
                daemon,
                attack,
            } = around?;
            let good = good??;
            Ok(Round {
                good,
                answers_alone,
                answers_beside,
                polling_alone,
                polling_beside,
                blocked,
                daemon,
                attack,
                stopped,
                alive,
            })
        })
    }

    /// The phases of a round, one after the other.
    fn phases(&self, daemon: &Daemon, scene: &Scene, stranger: &Stranger) -> anyhow::Result<Surroundings> {
        let phase = Duration::from_secs_f64(self.args.seconds);
        std::thread::sleep(SETTLED);
        scene.set(Phase::Alone);
        let since =
            |before: Option<Look>| before.zip(daemon.look()).map(|(before, after)| after.since(&before));
        let before = daemon.look();
        std::thread::sleep(phase);
        let polling_alone = since(before);
        scene.set(Phase::Change);
        let answers_alone = stranger.take();
        let mut attacker = Attacker::start(self.attack, daemon.socket(), self.cpus(), self.seed)?;
        attacker.wait_until_it_has_begun()?;
        std::thread::sleep(SETTLED);
        scene.set(Phase::Beside);
        let before = daemon.look();
        let blocked = watch(daemon.polling_thread().as_deref(), phase, DAEMON_NICE);
        let polling_beside = since(before);
        let answers_beside = stranger.take();
        scene.set(Phase::Change);
        let taken = daemon.taken();
        let attack = attacker.report();
        Ok(Surroundings {
            answers_alone,
            answers_beside,
            polling_alone,
            polling_beside,
            blocked,
            daemon: taken,
            attack,
        })
    }

    /// CPUs of the attack: those of programs, without the good one's where there are others.
    fn cpus(&self) -> &[usize] {
        match self.split.host.as_slice() {
            [_, others @ ..] if !others.is_empty() => others,
            only => only,
        }
    }
}
