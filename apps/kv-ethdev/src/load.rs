//! The load generator's way to the other end of a port. Frames wait for one another and are sent together, as those of a generator that is the
//! NIC itself.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context;
use ccnic_kv_load::command::Args;
use ccnic_kv_load::protocol::{Reply, Request};
use ccnic_kv_load::transport::{Coder, Lost, Number, Speech, Transport};
use ccnic_tcp::udp::Template;

use crate::frames::{self, HEADERS, Head};
use crate::port::{BURST, Port};

/// The port that requests come from.
const UDP_PORT: u16 = 40_000;
/// Ethernet addresses of generator and server.
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const OWN: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// How long the server may be silent before it counts as ended: at first it starts.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two greetings.
const AGAIN: Duration = Duration::from_millis(50);
/// Polls without a frame after which the clock is read.
const QUIET: u32 = 1 << 20;

/// The other end of a port.
struct Wire<'a, P> {
    port: &'a mut P,
    head: Head,
    coder: Coder,
    /// Frames that wait to be sent: those from `sent` on, up to `made`.
    frames: Box<[Vec<u8>; BURST]>,
    sent: usize,
    made: usize,
    /// Polls in a row that brought nothing, and when a frame was seen last, as far as that is known.
    quiet: u32,
    heard: Instant,
}

/// Loads the server as `ccnic-kv-load` does, and prints what that prints; false when an answer was wrong.
///
/// # Errors
/// When the options do not go together, or the server does not answer.
pub fn run(port: &mut impl Port, args: &Args) -> anyhow::Result<bool> {
    args.run_over("DPDK", port.room().saturating_sub(HEADERS + 16 + 16), |server, speech| {
        anyhow::ensure!(
            speech == Speech::Rpc { shards: 1 },
            "the server has one thread, and speaks rpc: only"
        );
        let mut wire = Wire::new(port, server, speech)?;
        wire.greet()?;
        Ok(wire)
    })
}

impl<'a, P: Port> Wire<'a, P> {
    fn new(port: &'a mut P, server: SocketAddr, speech: Speech) -> anyhow::Result<Wire<'a, P>> {
        let own = SocketAddr::from((OWN, UDP_PORT));
        let mut template = Template::new(MACS, own, server).context("IPv4 only, as in rpc:10.9.0.1:11300")?;
        Ok(Wire {
            port,
            head: template.headers(0).try_into()?,
            coder: Coder::new(speech),
            frames: Box::new(std::array::from_fn(|_| Vec::new())),
            sent: 0,
            made: 0,
            quiet: 0,
            heard: Instant::now(),
        })
    }

    /// Asks for a key that nobody has until an answer comes.
    fn greet(&mut self) -> anyhow::Result<()> {
        let (start, mut asked, mut heard) = (Instant::now(), None, false);
        while !heard {
            let waited = start.elapsed() < PATIENCE && !self.port.stopped();
            anyhow::ensure!(waited, "the server does not answer");
            if asked.is_none_or(|asked: Instant| asked.elapsed() > AGAIN) {
                self.send(Number::MAX, Request::Get(b"is anybody there"))?;
                self.flush()?;
                asked = Some(Instant::now());
            }
            heard = self.receive(&mut |_, _| ())? > 0;
            std::thread::yield_now();
        }
        // Answers to earlier greetings: none is another request's.
        while self.receive(&mut |_, _| ())? > 0 {}
        Ok(())
    }

    /// Hands over frames that wait; false when some still do.
    fn send_frames(&mut self) -> bool {
        let waiting = self.frames.get(self.sent..self.made).unwrap_or_default();
        self.sent += self.port.send(waiting.len(), false, |i, place| match waiting.get(i) {
            Some(frame) if frame.len() <= place.len() => {
                place[..frame.len()].copy_from_slice(frame);
                frame.len()
            }
            _ => 0,
        });
        if self.sent == self.made {
            (self.sent, self.made) = (0, 0);
        }
        self.made == 0
    }
}

impl<P: Port> Transport for Wire<'_, P> {
    fn send(&mut self, number: Number, request: Request<'_>) -> Result<bool, Lost> {
        if self.made == BURST && !self.send_frames() {
            return Ok(false);
        }
        let (_, datagram) = self.coder.write(number, request);
        let Some(frame) = self.frames.get_mut(self.made) else { return Ok(false) };
        frames::finish(&mut self.head, datagram.len());
        frame.clear();
        frame.extend_from_slice(&self.head);
        frame.extend_from_slice(datagram);
        self.made += 1;
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Lost> {
        if self.made > 0 {
            self.send_frames();
        }
        Ok(())
    }

    fn receive(&mut self, take: &mut impl FnMut(Number, Reply<'_>)) -> Result<usize, Lost> {
        let Wire { port, coder, .. } = self;
        let mut replies = 0;
        let frames = port.receive(|frame| {
            if let Some((_, payload)) = frames::datagram(frame, UDP_PORT) {
                replies += usize::from(coder.read(payload, take));
            }
        });
        self.quiet = if frames == 0 { self.quiet + 1 } else { 0 };
        if self.quiet == QUIET {
            self.quiet = 0;
            if self.heard.elapsed() > PATIENCE || self.port.stopped() {
                return Err(Lost::Io(Error::new(ErrorKind::TimedOut, "the server has ended")));
            }
        } else if self.quiet == 1 {
            self.heard = Instant::now();
        }
        Ok(replies)
    }

    fn forget(&mut self, number: Number) -> bool {
        self.coder.forget(number)
    }

    fn strays(&self) -> u64 {
        self.coder.strays()
    }
}
