//! Attacks by descriptors: whoever receives one closes it, and a close may block for as long as its owner likes.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Context;
use ccnic_control::Connection;
use ccnic_control::messages::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use crate::program::{PASSED_MOST, Program, attach_request, config, read_raw, send_raw};
use crate::stage::Stage;

/// How long a close blocks.
const BLOCKS: Duration = Duration::from_secs(20);
/// How long the NIC may take to answer before the next connection is tried.
const ANSWER: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Sockets at a time: more than any number of helping threads that a NIC would start for one user.
const SOCKETS: usize = 64;

/// A socket whose last close blocks, since what was written to it is never read; and its peer, which must live.
fn lingering() -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("could not listen on the loopback device")?;
    let address = listener.local_addr().context("could not ask for an address")?;
    let mut stream = TcpStream::connect(address).context("could not connect to ourselves")?;
    let (peer, _) = listener.accept().context("could not accept our own connection")?;
    stream.set_nonblocking(true).context("could not set up a socket")?;
    while stream.write(&[0; 65536]).is_ok() {}
    stream.set_nonblocking(false).context("could not set up a socket")?;
    set_socket_linger(&stream, Some(BLOCKS)).context("could not make a socket linger")?;
    Ok((stream, peer))
}

/// Waits for a message; false when none comes for long, or the connection ends.
fn answered(connection: &Connection) -> bool {
    let mut fds = [PollFd::new(connection, PollFlags::IN)];
    poll(&mut fds, Some(&ANSWER)).is_ok_and(|n| n > 0) && read_raw(connection, &mut [0; 65536])
}

/// Sends `message` with a lingering socket over a connection each, and closes its own copies first: the last is the NIC's.
fn linger(stage: &Stage<'_>, message: &Request) -> anyhow::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut peers = Vec::new();
    while stage.goes_on() && peers.len() < SOCKETS {
        let Some(connection) = stage.tried(Connection::open(stage.socket)) else { continue };
        let (stream, peer) = lingering()?;
        let sent = send_raw(&connection, &bytes, &[stream.as_fd()]);
        // The message is on its way; whoever has the other copy closes last.
        drop(stream);
        peers.push((peer, connection));
        stage.tried(sent.map_err(|e| format!("sending a socket: {e}")));
    }
    for (_, connection) in &peers {
        if !answered(connection) {
            stage.refused("no answer");
        }
    }
    stage.linger();
    Ok(())
}

pub fn linger_message(stage: &Stage<'_>) -> anyhow::Result<()> {
    linger(stage, &Request::Hello)
}

pub fn linger_region(stage: &Stage<'_>) -> anyhow::Result<()> {
    linger(stage, &attach_request("linger"))
}

/// Attaches, gives the NIC a notifier with a lingering socket in its queue, and leaves.
pub fn linger_notifier(stage: &Stage<'_>) -> anyhow::Result<()> {
    let mut peers = Vec::new();
    while stage.goes_on() {
        if peers.len() == SOCKETS {
            stage.linger();
            break;
        }
        let Some(program) = Program::attached(stage, "linger", &config(1, 64, 1024))? else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let Some(connection) = &program.connection else { continue };
        let (ours, theirs) = UnixStream::pair().context("could not make a pair of sockets")?;
        let (stream, peer) = lingering()?;
        send_raw(&ours, b"x", &[stream.as_fd()]).context("could not put a socket into a queue")?;
        drop(stream);
        peers.push(peer);
        let sent = connection.send(&Request::Notify { queue: 0, wakes: false }, Some(theirs.as_fd()));
        if stage.tried(sent).is_some() {
            let mut fds = [PollFd::new(&ours, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&ANSWER)); // the NIC's confirmation: it has its end
        }
    }
    Ok(())
}

/// As many descriptors as the kernel lets pass, with messages of all kinds.
pub fn many(stage: &Stage<'_>) -> anyhow::Result<()> {
    let file = File::open("/dev/null").context("could not open /dev/null")?;
    let fds = vec![file.as_fd(); PASSED_MOST];
    let attach = serde_json::to_vec(&attach_request("descriptors"))?;
    let notify = serde_json::to_vec(&Request::Notify { queue: 0, wakes: false })?;
    let mut connection = None;
    for message in [&b"\"hello\""[..], &attach, &notify, b"nonsense"].into_iter().cycle() {
        if !stage.goes_on() {
            break;
        }
        let open: &Connection = match &mut connection {
            Some(open) => open,
            none => match stage.tried(Connection::open(stage.socket)) {
                Some(new) => none.insert(new),
                None => continue,
            },
        };
        let sent = send_raw(open, message, &fds);
        let answers = !message.starts_with(b"{\"notify");
        let lost = sent.is_err() || (answers && !answered(open));
        stage.tried(sent.map_err(|e| format!("sending descriptors: {e}")));
        if lost {
            connection = None;
        }
    }
    Ok(())
}
