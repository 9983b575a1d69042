//! `ccnic capture`: packets of a running switch, into a file.
//!
//! The daemon copies, bounded and without waiting; this process filters and writes.

mod filter;
mod pcapng;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use ccnic_control::capture::{About, CaptureReader, CaptureRequest, SNAP_MAX};
use ccnic_control::{Connection, files, printable};
use ccnic_frame::{Meta, vlan};
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::monitor::stats::names;
use crate::print;
use crate::status::about as about_port;
use filter::Filter;
use pcapng::{Packet, Writer};

/// Options of `capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// The file to write, as pcapng; - for standard output
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// Packets from this port, and those to it, by its name or its id in `ccnic status --json` [default: each packet once, as it comes from
    /// any port]
    #[arg(short, long, value_name = "PORT")]
    port: Option<String>,
    /// Also packets that are dropped, by the switch or by the port that they are for; the reason is their comment
    #[arg(long)]
    drops: bool,
    /// Bytes of each packet at most
    #[arg(short, long, value_name = "BYTES", default_value_t = SNAP_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(SNAP_MAX)))]
    snap: u32,
    /// End after so many packets
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The NIC copies so many packets a second at most, before the filter; 0: no limit
    #[arg(long, value_name = "PACKETS", default_value_t = 100_000)]
    rate: u32,
    /// The NIC's socket [default: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Which packets, in the syntax of tcpdump: host, net, port, portrange, ether, proto, ip, ip6, arp, tcp, udp, icmp, vlan, less,
    /// greater, broadcast, multicast; and, or, not, parentheses
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Captures until it is interrupted, has as many packets as it was to have, or the NIC ends.
pub fn run(args: &CaptureArgs) -> anyhow::Result<()> {
    let filter: Filter = args.filter.join(" ").parse().context("the filter is not understood")?;
    let socket = args.socket.clone().unwrap_or_else(ccnicd::default_socket);
    let connection = Connection::open(&socket)?;
    let status = connection.status()?;
    let port = args.port.as_deref().map(|port| {
        let found = status.programs.iter().find(|program| names(port, program)).map(|program| program.id);
        found.with_context(|| {
            format!("no port is called {} or has that id; `ccnic status` shows the ports", printable(port))
        })
    });
    let port = port.transpose()?;
    let to: Box<dyn Write> = match args.write.to_str() {
        Some("-") => Box::new(io::stdout()),
        _ => Box::new(
            files::create_private_or_pipe(&args.write)
                .with_context(|| format!("could not make {}", args.write.display()))?,
        ),
    };
    let request = CaptureRequest { port, snap: args.snap, drops: args.drops, rate: args.rate };
    let reader = connection.capture(request)?;
    let (stop, signalled) = UnixStream::pair().context("could not make a pipe for signals")?;
    for signal in [SIGINT, SIGTERM] {
        let end = signalled.try_clone().context("could not copy the signal pipe")?;
        signal_hook::low_level::pipe::register(signal, end).context("could not watch for signals")?;
    }
    let file = Writer::new(BufWriter::new(to), concat!("ccnic capture ", env!("CARGO_PKG_VERSION")));
    let interfaces = BTreeMap::new();
    let mut session =
        Session { socket, file: file?, interfaces, snap: args.snap, filter, left: args.count, written: 0 };
    let outcome = session.run(reader, &stop);
    match outcome {
        // Nobody reads any more: that is an end, and no failure.
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {}
        outcome => outcome?,
    }
    Ok(())
}

/// What is written, and how far it is.
struct Session<W: Write> {
    socket: PathBuf,
    file: Writer<W>,
    /// By the port's id: its interface in the file.
    interfaces: BTreeMap<u64, u32>,
    snap: u32,
    filter: Filter,
    /// Packets that are still wanted; `None`: without end.
    left: Option<u64>,
    written: u64,
}

impl<W: Write> Session<W> {
    /// Writes until something can be read from `stop`, there are enough packets, or the NIC has ended.
    fn run(&mut self, mut reader: CaptureReader<UnixStream>, stop: &UnixStream) -> anyhow::Result<()> {
        let mut frame = Vec::new();
        while self.left != Some(0) && self.wait(&reader, stop)? {
            if !reader.has_more() {
                // It may bring no packet, only the number of those that were missed.
                if reader.advance()? {
                    continue;
                }
                break;
            }
            let Some((about, bytes)) = reader.next_packet()? else { break };
            with_tag(&mut frame, &about, bytes);
            let added = frame.len() - bytes.len();
            if self.filter.matches(&frame, about.len as usize + added) {
                self.packet(&about, &frame, added as u32)?;
            }
        }
        self.finish(reader.missed())
    }

    /// Waits for a packet. False when there is to be no other.
    fn wait(&mut self, reader: &CaptureReader<UnixStream>, stop: &UnixStream) -> anyhow::Result<bool> {
        if reader.has_more() {
            return Ok(true);
        }
        self.file.flush()?; // whoever looks at the file sees what has come
        loop {
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(reader.get_ref(), PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) => return Ok(fds[0].revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e).context("could not wait for packets"),
            }
        }
    }

    fn packet(&mut self, about: &About, frame: &[u8], added: u32) -> anyhow::Result<()> {
        let interface = match self.interfaces.get(&about.port) {
            Some(interface) => *interface,
            None => self.interface(about.port)?,
        };
        let comment = about.dropped.map(|counter| format!("dropped: {counter}"));
        let packet = Packet {
            interface,
            time: about.time,
            len: about.len.saturating_add(added),
            bytes: frame,
            direction: about.direction,
            comment: comment.as_deref(),
        };
        self.file.packet(&packet)?;
        self.written += 1;
        self.left = self.left.map(|left| left - 1);
        Ok(())
    }

    /// A port that no packet has come of yet.
    fn interface(&mut self, port: u64) -> anyhow::Result<u32> {
        // One that has gone meanwhile has its number.
        let status = Connection::open(&self.socket).and_then(|connection| connection.status()).ok();
        let found = status.and_then(|status| status.programs.into_iter().find(|program| program.id == port));
        let (name, what) = match &found {
            Some(program) => (printable(&program.name), about_port(program)),
            None => (format!("port {port}"), "a port that has gone".to_owned()),
        };
        let most = self.snap.saturating_add(vlan::TAG as u32);
        let interface = self.file.interface(&name, &what, most)?;
        self.interfaces.insert(port, interface);
        Ok(interface)
    }

    fn finish(&mut self, missed: u64) -> anyhow::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        if let Some(first) = self.interfaces.values().min() {
            self.file.statistics(*first, now, missed)?;
        }
        self.file.flush()?;
        print::warn(&format!(
            "{} packets captured, {missed} not captured (beyond --rate, or this process was too slow)",
            self.written
        ));
        Ok(())
    }
}

/// The packet as it would be on a wire: with the tag that its metadata ask for.
fn with_tag(frame: &mut Vec<u8>, about: &About, bytes: &[u8]) {
    frame.clear();
    let tci = Meta::from_word(about.meta).vlan();
    if let Some(tci) = tci {
        frame.resize(vlan::TAG, 0);
        frame.extend_from_slice(bytes);
        if vlan::insert(frame, tci) {
            return;
        }
        frame.clear();
    }
    frame.extend_from_slice(bytes);
}
