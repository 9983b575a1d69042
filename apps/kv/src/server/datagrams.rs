//! Sockets that take requests in datagrams: text commands in memcached's frames, or the binary get and set.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;

use crate::protocol::Server;
use crate::protocol::udp::{Frames, LEAST, LONGEST, LONGEST_REPLY};
use crate::rpc;
use crate::store::{Store, TURN};

/// Datagrams that are answered before others have their turn, at most: fewer when their work is that of a turn.
const MOST: usize = 64;
/// The cost of a datagram that is sent, beside its bytes: a system call.
const DATAGRAM: usize = 4 << 10;
/// Replies to one request are no more than a turn.
const _: () = assert!(LONGEST_REPLY / LEAST * DATAGRAM <= TURN);
/// The longest value that an answer has room for: what a datagram of UDP over IPv4 holds, less our header.
const LONGEST_VALUE: usize = 65_507 - rpc::HEADER;

/// What the datagrams of a socket are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Rpc,
}

/// A socket, and room for an answer.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) socket: UdpSocket,
    kind: Kind,
    frames: Frames,
    answer: Vec<u8>,
}

impl Datagrams {
    pub(crate) fn new(socket: UdpSocket, kind: Kind) -> Datagrams {
        Datagrams { socket, kind, frames: Frames::new(LONGEST), answer: Vec::new() }
    }

    /// Answers what has come. What cannot be sent at once is dropped: who uses UDP asks again.
    pub(crate) fn turn(&mut self, buffer: &mut [u8], store: &Store, server: &Server, now: u32) {
        let mut work = 0;
        for _ in 0..MOST {
            let Ok((len, from)) = self.socket.recv_from(buffer) else { return };
            server.counters.bytes_read.fetch_add(len, Ordering::Relaxed);
            let mut session = store.session(now);
            work += len;
            let mut send = |datagram: &[u8]| {
                work += datagram.len() + DATAGRAM;
                let counters = &server.counters;
                match self.socket.send_to(datagram, from) {
                    Ok(_) => counters.bytes_written.fetch_add(datagram.len(), Ordering::Relaxed),
                    Err(_) => counters.udp_replies_dropped.fetch_add(1, Ordering::Relaxed),
                };
            };
            match self.kind {
                Kind::Text => self.frames.answer(&buffer[..len], &mut session, server, send),
                Kind::Rpc => {
                    let answer = &mut self.answer;
                    answer.clear();
                    rpc::answer(&buffer[..len], None, &mut session, LONGEST_VALUE, |header, value, _| {
                        answer.extend_from_slice(header);
                        value.lend(|part| answer.extend_from_slice(part));
                    });
                    session.release();
                    if !self.answer.is_empty() {
                        send(&self.answer);
                    }
                }
            }
            work += session.spent();
            if work >= TURN {
                return;
            }
        }
    }
}
