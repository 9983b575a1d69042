//! `ccnic status`: what a running NIC does.

use std::path::PathBuf;

use ccnic_control::counters::{COUNTERS, Kind};
use ccnic_control::messages::{
    MemoryStatus, ProgramStatus, QueueStatus, SandboxStatus, Share, Status, TuningStatus,
};
use ccnic_control::{Connection, printable};
use clap::Args;

use crate::print::{self, Column, Table};

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The NIC's socket [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON, with every counter
    #[arg(long)]
    json: bool,
}

/// Requests the status and prints it.
pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let socket = args.socket.clone().unwrap_or_else(ccnicd::default_socket);
    let status = Connection::open(&socket)?.status()?;
    print::result(args.json, &status, || table(&status).text())
}

/// A program's process, as the NIC sees it.
fn process(pid: i32) -> String {
    if pid == 0 { "another PID namespace".to_owned() } else { format!("process {pid}") }
}

/// A program, or another port, in a line.
pub fn about(program: &ProgramStatus) -> String {
    let (name, design) = (printable(&program.name), printable(&program.design));
    let outside = match program.design.as_str() {
        "tap" => Some("network interface of the kernel"),
        "pcap" => Some("file of packets"),
        "xdp-generic" => Some("interface by AF_XDP, generic"),
        "xdp-native" => Some("interface by AF_XDP, native"),
        "xdp-zero-copy" => Some("interface by AF_XDP, zero-copy"),
        _ => None,
    };
    if let Some(what) = outside {
        return format!("{name} ({what})");
    }
    let spread = if program.rss.is_some() { ", RSS" } else { "" };
    format!("{name} ({}, design {design}{spread})", process(program.pid))
}

/// Bytes, in MiB.
fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// What a program has taken of the NIC's memory, and what limits it.
pub fn memory(of: &MemoryStatus) -> String {
    let MemoryStatus { bytes, uid, user, named } = of;
    let share = |share: &Share| format!("{} of {} MiB", mib(share.used), mib(share.most));
    let named = named.as_ref().map(|named| format!(", those of its [[program]] entry {}", share(named)));
    let named = named.unwrap_or_default();
    format!("{} MiB; the programs of user {uid} have {}{named}", mib(*bytes), share(user))
}

/// Programs whose memory is shown.
const MEMORIES: usize = 8;

/// Which programs have taken how much memory.
fn memories(programs: &[ProgramStatus]) -> Vec<String> {
    let all = || programs.iter().filter_map(|program| Some((program, program.memory.as_ref()?)));
    let mut notes: Vec<_> = all()
        .take(MEMORIES)
        .map(|(program, of)| {
            format!("Memory of {} ({}): {}.", printable(&program.name), process(program.pid), memory(of))
        })
        .collect();
    let more = all().count().saturating_sub(MEMORIES);
    notes.extend((more > 0).then(|| format!("{more} more programs have memory: --json shows theirs.")));
    notes
}

/// What the NIC tells programs of the machine.
fn tuning(of: &TuningStatus) -> String {
    let TuningStatus { fetch, ahead, demote, idle, inline, loaded, source } = of;
    let [fetch, demote, idle, source] = [fetch, demote, idle, source].map(|text| printable(text));
    let from = match source.as_ref() {
        "measured" => "measured at its start",
        "cached" => "measured before, for this CPU model",
        "option" => "by --tuning",
        "default" => "the default",
        other => other,
    };
    format!(
        "Tuning: fetch={fetch},ahead={ahead},demote={demote},idle={idle},inline={inline},loaded={loaded} ({from})."
    )
}

/// What the NIC's process may not do.
fn sandbox(of: &SandboxStatus) -> String {
    let SandboxStatus { uid, capabilities, kept, landlock, seccomp } = of;
    let [capabilities, landlock, seccomp] = [capabilities, landlock, seccomp].map(|text| printable(text));
    let kept: Vec<_> = kept.iter().map(|name| printable(name)).collect();
    let kept = if kept.is_empty() { String::new() } else { format!(", but {}", kept.join(", ")) };
    format!("Sandbox: user {uid}, capabilities {capabilities}{kept}; Landlock {landlock}; seccomp {seccomp}.")
}

fn table(status: &Status) -> Table {
    let Status { version, pid, uptime_s, wire, cores, programs, .. } = status;
    let (version, wire) = (printable(version), printable(wire));
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    let title = format!(
        "ccnicd {version}, process {pid}, up {uptime_s:.0} s, dataplane {wire}, polling on CPU {}",
        cores.join(", ")
    );
    let columns = [
        Column::number("queue"),
        Column::number("CPU"),
        Column::number("TX\npackets"),
        Column::number("RX\npackets"),
        Column::number("dropped"),
        Column::number("RX\nstalls"),
        Column::prose("program"),
    ];
    let mut table = Table::new(title, columns);
    for program in programs {
        let about = about(program);
        for q in &program.queues {
            table.row([
                q.queue.to_string(),
                q.core.to_string(),
                q.tx_packets.to_string(),
                q.rx_packets.to_string(),
                q.dropped().to_string(),
                q.waited().to_string(),
                about.clone(),
            ]);
        }
    }
    if let Some(of) = &status.tuning {
        table.note(tuning(of));
    }
    if let Some(of) = &status.sandbox {
        table.note(sandbox(of));
    }
    if programs.is_empty() {
        table.note("No program is attached.");
    } else {
        table.note(
            "TX: from the program to the NIC; RX: to the program. dropped: not delivered, whatever the reason (`ccnic stats` shows \
             each). RX stalls: polls in which the receive ring was full or the pool had no free buffer; the packet was delivered \
             later.",
        );
    }
    memories(programs).into_iter().chain(reasons(status)).for_each(|note| table.note(note));
    table
}

/// Why packets were dropped, over all queues: those reasons that there were; and what a switch has flooded.
fn reasons(status: &Status) -> Vec<String> {
    let queues = || status.programs.iter().flat_map(|program| &program.queues);
    let drops = COUNTERS.iter().filter(|counter| counter.kind == Kind::Drop);
    let drops = drops.map(|counter| (counter.title, counter.sum(queues()))).filter(|(_, n)| *n > 0);
    let listed: Vec<_> = drops.map(|(why, n)| format!("{why} {n}")).collect();
    let mut notes = Vec::new();
    if !listed.is_empty() {
        notes.push(format!("Dropped, over all queues: {}.", listed.join(", ")));
    }
    let sum = |of: fn(&QueueStatus) -> u64| queues().map(of).fold(0, u64::saturating_add);
    let (flooded, copies) = (sum(|q| q.flooded), sum(|q| q.extra_copies));
    if flooded > 0 {
        let copies = flooded.saturating_add(copies);
        notes.push(format!("{flooded} packets were flooded, in {copies} copies."));
    }
    let refused = sum(|q| q.not_learned);
    if refused > 0 {
        notes.push(format!(
            "Source addresses were not learned {refused} times, for want of room (--mac-port, --mac-table)."
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::longest_line;

    fn status(programs: Vec<ProgramStatus>) -> Status {
        let wire = "loopback".to_owned();
        Status {
            version: "0.1.0".to_owned(),
            pid: 7,
            uptime_s: 3.2,
            wire,
            cores: vec![1, 3],
            programs,
            ..Status::default()
        }
    }

    #[test]
    fn counters_of_every_queue_in_80_columns() {
        let much = 123_456_789_012;
        let queue = |queue| QueueStatus {
            queue,
            core: 3,
            tx_packets: much,
            rx_packets: much,
            drop_too_long: 1,
            drop_no_buffer: 2,
            wait_ring_full: 30,
            wait_no_buffer: 4,
            ..QueueStatus::default()
        };
        let name = "a program with quite a long name".to_owned();
        let queues = vec![queue(0), queue(255)];
        let program = ProgramStatus {
            id: 1,
            name,
            pid: 4_194_304,
            design: "ccnic".to_owned(),
            rss: None,
            latency: None,
            memory: None,
            queues,
        };
        let text = table(&status(vec![program])).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        let row = text.lines().find(|line| line.trim_start().starts_with("255")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().take(6).collect();
        assert_eq!(cells, ["255", "3", "123456789012", "123456789012", "3", "34"], "{text}");
        assert!(text.contains("polling on CPU 1, 3"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = "Dropped, over all queues: longer than the sender's MTU 2, no receive buffer 4.";
        assert!(words.contains(why) && !words.contains("flooded"), "{text}");
    }

    #[test]
    fn what_a_switch_drops_and_floods() {
        let q = QueueStatus {
            drop_bad_source: 1,
            drop_no_destination: 20,
            drop_over_mtu: 300,
            drop_too_short: 4000,
            drop_bad_offload: 50_000,
            drop_port_down: 600_000,
            drop_port_refused: 7_000_000,
            drop_spoofed: 80_000_000,
            drop_vlan: 900_000_000,
            drop_isolated: 1_000_000_000,
            drop_storm: 20_000_000_000,
            drop_rate: 300_000_000_000,
            flooded: 7,
            extra_copies: 14,
            not_learned: 9,
            ..QueueStatus::default()
        };
        assert_eq!(q.dropped(), 321_987_654_321);
        let program = ProgramStatus {
            id: 1,
            name: "p".to_owned(),
            pid: 1,
            design: "ccnic".to_owned(),
            rss: None,
            latency: None,
            memory: None,
            queues: vec![q],
        };
        let text = table(&status(vec![program])).in_width(80);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for note in [
            "receiver's MTU 300, shorter",
            "interface down 600000, refused",
            "storm limit 20000000000, more than",
            "7 packets were flooded, in 21 copies.",
            "learned 9 times",
        ] {
            assert!(words.contains(note), "{text}");
        }
    }

    #[test]
    fn what_a_program_calls_itself_cannot_reach_the_terminal() {
        let name = "good\u{1b}]0;title\u{7}\u{202e}\nbad".to_owned();
        let design = "ccnic".to_owned();
        let queues = vec![QueueStatus::default()];
        let program =
            ProgramStatus { id: 1, name, pid: 0, design, rss: None, latency: None, memory: None, queues };
        let text = table(&status(vec![program])).in_width(160);
        assert!(text.contains("good\\u{1b}]0;title\\u{7}\\u{202e}\\nbad (another PID namespace,"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }

    #[test]
    fn memory_and_what_limits_it() {
        let share = |used: u64, most: u64| Share { used: used << 20, most: most << 20 };
        let program = |id, named| ProgramStatus {
            id,
            name: "web\u{7}".to_owned(),
            pid: 7,
            memory: Some(MemoryStatus { bytes: 3 << 19, uid: 1000, user: share(9, 384), named }),
            queues: vec![QueueStatus::default()],
            ..ProgramStatus::default()
        };
        let shown = |programs: Vec<ProgramStatus>| {
            let text = table(&status(programs)).in_width(80);
            assert!(longest_line(&text) <= 80, "{text}");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let text = shown(vec![program(1, Some(share(3, 64))), program(2, None)]);
        let one = "Memory of web\\u{7} (process 7): 1.5 MiB; the programs of user 1000 have 9.0 of 384.0 MiB, those of its [[program]] \
                   entry 3.0 of 64.0 MiB.";
        assert!(text.contains(one) && text.contains("have 9.0 of 384.0 MiB."), "{text}");
        let text = shown((1..=20).map(|id| program(id, None)).collect());
        assert!(text.matches("Memory of").count() == MEMORIES && text.contains("12 more programs"), "{text}");
    }

    #[test]
    fn the_tuning_and_where_it_is_from() {
        let shown = |source: &str| {
            let tuning = "fetch=read,ahead=2".parse().unwrap();
            table(&Status { tuning: Some(TuningStatus::new(tuning, source)), ..status(Vec::new()) })
                .in_width(80)
        };
        for (source, from) in [
            ("measured", "(measured at its start)"),
            ("cached", "(measured before, for this CPU model)"),
            ("option", "(by --tuning)"),
            ("default", "(the default)"),
            ("\u{1b}[2J", "(\\u{1b}[2J)"),
        ] {
            let text = shown(source).split_whitespace().collect::<Vec<_>>().join(" ");
            let line = format!("Tuning: fetch=read,ahead=2,demote=auto,idle=pause,inline=1,loaded=0 {from}.");
            assert!(text.contains(&line), "{text}");
        }
        assert!(longest_line(&shown("cached")) <= 80);
        assert!(!table(&status(Vec::new())).in_width(80).contains("Tuning"), "an older NIC");
    }

    #[test]
    fn a_nic_without_programs_has_a_note_instead_of_a_table() {
        assert!(table(&status(Vec::new())).in_width(80).ends_with("No program is attached."));
    }
}
