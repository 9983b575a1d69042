//! Datagrams of a queue pair: requests are read where they have arrived, answers are written where they are sent from.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use ccnic_tcp::{Datagrams, Reply};

use crate::protocol::Server;
use crate::protocol::udp::Frames;
use crate::rpc;
use crate::store::Session;

/// Datagrams of long replies that may wait until the burst is over.
const MOST_LATER: usize = 4096;

/// What outlasts a burst.
#[derive(Debug, Default)]
pub(crate) struct Text {
    frames: Frames,
    /// Further datagrams of replies that take several: to whom, from which port, what.
    pub(crate) later: Vec<(SocketAddr, u16, Vec<u8>)>,
}

/// One burst: it holds the shard of its requests until it is over, so that the keys that belong to this thread cost one lock together.
pub(crate) struct Burst<'a> {
    pub(crate) session: Session<'a>,
    pub(crate) server: &'a Server,
    pub(crate) text: &'a mut Text,
    /// The port of text commands, 0: none. Other ports are for the binary get and set.
    pub(crate) text_port: u16,
    pub(crate) bytes: [usize; 2],
}

impl Datagrams for Burst<'_> {
    fn datagram(&mut self, from: SocketAddr, to: SocketAddr, request: &[u8], reply: &mut Reply<'_>) {
        self.bytes[0] += request.len();
        if to.port() == self.text_port {
            self.text(from, request, reply);
            return;
        }
        let longest = reply.room().saturating_sub(rpc::HEADER);
        let sent = rpc::answer(request, &mut self.session, longest, |header, value| {
            reply.expect(header.len() + value.len());
            // What there is no buffer for is dropped: who uses UDP asks again.
            let _ = reply.put(header) && reply.put(value);
            header.len() + value.len()
        });
        self.bytes[1] += sent.unwrap_or(0);
    }
}

impl Burst<'_> {
    fn text(&mut self, from: SocketAddr, request: &[u8], reply: &mut Reply<'_>) {
        let Text { frames, later } = &mut *self.text;
        let (mut first, port) = (true, self.text_port);
        let bytes = &mut self.bytes[1];
        frames.answer(request, &mut self.session, self.server, |datagram| {
            *bytes += datagram.len();
            if std::mem::take(&mut first) {
                reply.put(datagram);
            } else if later.len() < MOST_LATER {
                later.push((from, port, datagram.to_vec()));
            }
        });
    }

    /// The burst is over: tells the server what it counted.
    pub(crate) fn end(self) {
        let [read, written] = self.bytes;
        if read > 0 {
            self.server.counters.bytes_read.fetch_add(read, Ordering::Relaxed);
            self.server.counters.bytes_written.fetch_add(written, Ordering::Relaxed);
        }
    }
}
