//! `ccnic status`: what a running NIC does.

use std::path::PathBuf;

use anyhow::Context;
use ccnic_control::Connection;
use ccnic_control::messages::{QueueStatus, Status};
use clap::Args;

use crate::bench::table;

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The NIC's socket [default: as ccnicd's]
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Asks and prints.
pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let socket = args.socket.clone().unwrap_or_else(ccnicd::default_socket);
    let status = Connection::open(&socket)?.status()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status).context("could not write the status")?);
    } else {
        show(&status);
    }
    Ok(())
}

fn dropped(q: &QueueStatus) -> u64 {
    let hostile = q.drop_bad_chain + q.drop_bad_descriptor + q.drop_too_long;
    hostile + q.drop_ring_full + q.drop_no_buffer
}

fn show(status: &Status) {
    let Status { version, pid, uptime_s, wire, cores, programs } = status;
    println!("ccnicd {version}, process {pid}, up {uptime_s:.0} s, wire {wire}, polling on CPUs {cores:?}");
    let mut table = table(&[
        "program",
        "process",
        "design",
        "queue",
        "CPU",
        "TX packets",
        "RX packets",
        "dropped",
        "waited",
    ]);
    for program in programs {
        let spread = if program.rss.is_some() { ", RSS" } else { "" };
        let design = format!("{}{spread}", program.design);
        for q in &program.queues {
            let dropped = dropped(q);
            table.add_row(vec![
                program.name.clone(),
                program.pid.to_string(),
                design.clone(),
                q.queue.to_string(),
                q.core.to_string(),
                q.tx_packets.to_string(),
                q.rx_packets.to_string(),
                dropped.to_string(),
                (q.wait_no_buffer + q.wait_ring_full).to_string(),
            ]);
        }
    }
    if programs.is_empty() {
        println!("no program is attached");
    } else {
        println!("{table}");
    }
}
