//! Datagrams over a ccnic NIC: a queue pair and its UDP, in the thread that generates the load; no kernel on the way.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ccnic_tcp::{Datagrams as Handler, Options, Peer, Reply as Answer, Stack};

use super::udp::{Coder, Speech};
use super::{Lost, Number, Transport};
use crate::protocol::{Reply, Request};

/// The port that requests come from.
const PORT: u16 = 40_000;
/// How long the store may take to tell its Ethernet address, without a limit: a day.
const PATIENCE: Duration = Duration::from_secs(86_400);

/// A queue pair, and the store's ports.
pub struct Attached {
    stack: Stack,
    peers: Vec<Peer>,
    coder: Coder,
    /// Polls in a row that brought nothing.
    quiet: u32,
}

/// Polls without a frame after which the NIC is asked whether it lives.
const QUIET: u32 = 1 << 16;

impl Attached {
    /// Bytes of the largest value: with its key and all headers it fits into one packet, which may go in fragments.
    pub const LARGEST: usize = 65_000;

    /// Attaches to the NIC at `socket` as the host with the address `own` (`10.9.0.2/24`), and finds the store at `server` within `limit`. What
    /// is longer than `mtu` goes in fragments.
    ///
    /// # Errors
    /// When no NIC is there, or no such store answers.
    pub fn open(
        socket: &Path,
        own: &str,
        server: SocketAddr,
        speech: Speech,
        mtu: usize,
        limit: Option<Duration>,
    ) -> anyhow::Result<Attached> {
        let mut options = Options::new(own.parse().context("--address")?);
        options.name = Some("ccnic-kv-load".to_owned());
        options.mtu = mtu;
        options.reconnect = false; // what was measured without a NIC would say nothing
        let reached = || format!("could not attach to the NIC at {}", socket.display());
        let mut stack = Stack::open(socket, &options).with_context(reached)?;
        stack.bind(PORT)?;
        let peers = (0..speech.ports()).map(|shard| {
            let port = server.port().checked_add(shard).context("--shards: not so many ports")?;
            let at = SocketAddr::new(server.ip(), port);
            stack
                .peer_blocking(at, limit.unwrap_or(PATIENCE))
                .with_context(|| format!("{} does not answer", server.ip()))
        });
        let peers = peers.collect::<anyhow::Result<_>>()?;
        Ok(Attached { stack, peers, coder: Coder::new(speech), quiet: 0 })
    }
}

impl Transport for Attached {
    fn send(&mut self, number: Number, request: Request<'_>) -> Result<bool, Lost> {
        let (shard, datagram) = self.coder.write(number, request);
        Ok(self.stack.send_to(PORT, &self.peers[usize::from(shard)], &[datagram]))
    }

    fn flush(&mut self) -> Result<(), Lost> {
        self.stack.flush();
        Ok(())
    }

    fn receive(&mut self, take: &mut impl FnMut(Number, Reply<'_>)) -> Result<usize, Lost> {
        let mut replies = Replies { coder: &mut self.coder, take, count: 0 };
        let frames = self.stack.poll_datagrams(&mut replies);
        let count = replies.count;
        self.quiet = if frames > 0 { 0 } else { self.quiet + 1 };
        if self.quiet == QUIET {
            self.quiet = 0;
            self.stack
                .wait(Duration::from_micros(1))
                .map_err(|error| Lost::Io(std::io::Error::other(error)))?;
        }
        Ok(count)
    }

    fn forget(&mut self, number: Number) -> bool {
        self.coder.forget(number)
    }

    fn strays(&self) -> u64 {
        self.coder.strays()
    }
}

/// Takes the replies of one poll.
struct Replies<'a, F> {
    coder: &'a mut Coder,
    take: &'a mut F,
    count: usize,
}

impl<F: FnMut(Number, Reply<'_>)> Handler for Replies<'_, F> {
    #[inline]
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, payload: &[u8], _: &mut Answer<'_>) {
        self.count += usize::from(self.coder.read(payload, self.take));
    }
}
