//! Datagrams of a queue pair: requests are read where they have arrived, answers are written where they are sent from.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use ccnic_tcp::{Datagrams, Peer, Reply, Stack};

use super::spent::Spent;
use crate::protocol::Server;
use crate::protocol::udp::{Frames, LONGEST};
use crate::rpc;
use crate::store::Session;

/// Datagrams of long replies that may wait until there is room for them.
const MOST_LATER: usize = 4096;
/// Bytes of the headers of IPv6 and UDP.
const HEADERS: usize = 40 + 8;

/// What outlasts a burst.
#[derive(Debug)]
pub(crate) struct Text {
    frames: Frames,
    /// Datagrams of replies that wait, first come first sent: to whom, from which port, what. A burst lends the stack's buffers for one
    /// datagram to each request; further ones are sent after it.
    later: VecDeque<(Peer, u16, Vec<u8>)>,
}

impl Text {
    /// Nothing yet, for a link of this MTU.
    pub(crate) fn new(mtu: usize) -> Text {
        Text { frames: Frames::new(LONGEST.min(mtu.saturating_sub(HEADERS))), later: VecDeque::new() }
    }

    /// Whether datagrams wait for room.
    pub(crate) fn waits(&self) -> bool {
        !self.later.is_empty()
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn send_later(&mut self, stack: &mut Stack, server: &Server) {
        let mut written = 0;
        while let Some((to, port, datagram)) = self.later.front() {
            if !stack.send_to(*port, to, &[datagram]) {
                break;
            }
            written += datagram.len();
            self.later.pop_front();
        }
        if written > 0 {
            server.counters.bytes_written.fetch_add(written, Ordering::Relaxed);
        }
    }
}

/// One burst: it holds the shard of its requests until it is over, so that the keys that belong to this thread cost one lock together.
pub(crate) struct Burst<'a> {
    session: Session<'a>,
    server: &'a Server,
    text: &'a mut Text,
    spent: &'a mut Spent,
    read: usize,
    written: usize,
    dropped: usize,
}

impl<'a> Burst<'a> {
    pub(crate) fn new(
        session: Session<'a>,
        server: &'a Server,
        text: &'a mut Text,
        spent: &'a mut Spent,
    ) -> Burst<'a> {
        Burst { session, server, text, spent, read: 0, written: 0, dropped: 0 }
    }
}

impl Datagrams for Burst<'_> {
    fn datagram(&mut self, _: SocketAddr, to: SocketAddr, request: &[u8], reply: &mut Reply<'_>) {
        self.read += request.len();
        self.spent.request();
        // Other ports than that of text commands are for the binary get and set.
        if to.port() == self.server.settings.udp_port {
            self.text(to.port(), request, reply);
            return;
        }
        let longest = reply.room().saturating_sub(rpc::HEADER);
        let spent = &mut *self.spent;
        let sent = rpc::answer(request, &mut self.session, longest, |header, value| {
            spent.leave();
            reply.expect(header.len() + value.len());
            let put = reply.put(header) && reply.put(value);
            spent.enter();
            put.then_some(header.len() + value.len())
        });
        spent.leave();
        match sent {
            Some(Some(bytes)) => self.written += bytes,
            Some(None) => self.dropped += 1,
            None => {}
        }
    }
}

impl Burst<'_> {
    fn text(&mut self, port: u16, request: &[u8], reply: &mut Reply<'_>) {
        let Burst { session, server, text, spent, written, dropped, .. } = self;
        let Text { frames, later } = &mut **text;
        let (mut first, peer) = (true, reply.peer());
        frames.answer(request, session, server, |datagram| {
            spent.leave();
            if std::mem::take(&mut first) && later.is_empty() && reply.put(datagram) {
                *written += datagram.len();
            } else if later.len() < MOST_LATER {
                later.push_back((peer, port, datagram.to_vec()));
            } else {
                *dropped += 1;
            }
            spent.enter();
        });
        spent.leave();
    }

    /// The burst is over: tells the server what it counted.
    pub(crate) fn end(self) {
        let counters = &self.server.counters;
        if self.read > 0 {
            counters.bytes_read.fetch_add(self.read, Ordering::Relaxed);
            counters.bytes_written.fetch_add(self.written, Ordering::Relaxed);
        }
        if self.dropped > 0 {
            counters.udp_replies_dropped.fetch_add(self.dropped, Ordering::Relaxed);
        }
    }
}
