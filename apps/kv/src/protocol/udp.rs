//! Requests and replies in datagrams. Each begins with a frame header of 8 bytes, big endian: request id, sequence number, number of
//! datagrams, zero.

use super::{Connection, Output, Server};
use crate::store::Session;

/// The frame header.
pub const HEADER: usize = 8;
/// The longest datagram of a reply, with its header, where the link takes it.
pub const LONGEST: usize = 1400;
/// Bytes of the longest reply to a datagram, whose sender may be forged: 48 datagrams of the longest.
pub const LONGEST_REPLY: usize = 64 << 10;
/// The answer in the place of a longer one, and of one that takes more work than a turn of a connection.
pub(super) const REPLY_TOO_LARGE: &str = "SERVER_ERROR reply too large for datagrams, ask over TCP";

/// The key of a datagram's first command: in all commands that have one it is the second word.
pub fn key(request: &[u8]) -> Option<&[u8]> {
    let words = request.get(HEADER..)?;
    let key = words.get(memchr::memchr(b' ', words)? + 1..)?;
    let end = memchr::memchr3(b' ', b'\r', b'\n', key).unwrap_or(key.len());
    key.get(..end)
}

/// A request and its replies, reused from one to the next.
#[derive(Debug)]
pub struct Frames {
    longest: usize,
    out: Output,
    datagram: Vec<u8>,
}

impl Frames {
    /// Nothing yet. Datagrams of replies are at most `longest` bytes long, with their header, and at most [`LONGEST`].
    pub fn new(longest: usize) -> Frames {
        Frames { longest: longest.clamp(HEADER + 1, LONGEST), out: Output::default(), datagram: Vec::new() }
    }

    /// Executes the commands of a datagram, and hands over each datagram of the reply: at most [`LONGEST_REPLY`] bytes, or an error alone. A
    /// request that consists of several datagrams, one that has no header, or one of the binary protocol is dropped, as memcached does.
    pub fn answer(
        &mut self,
        request: &[u8],
        session: &mut Session<'_>,
        server: &Server,
        mut send: impl FnMut(&[u8]),
    ) {
        let Some((header, mut commands)) = request.split_first_chunk::<HEADER>() else { return };
        if header[4..6] != [0, 1] || commands.is_empty() || commands[0] == super::binary::REQUEST {
            return;
        }
        self.out.clear();
        let mut connection = Connection::of_datagram(LONGEST_REPLY + 1);
        loop {
            let used = connection.advance(commands, session, server, &mut self.out);
            commands = &commands[used..];
            if used == 0 || commands.is_empty() {
                break;
            }
        }
        if self.out.len() > LONGEST_REPLY || connection.is_paused() || connection.is_used_up() {
            self.out.clear();
            self.out.put(REPLY_TOO_LARGE.as_bytes());
            self.out.put(b"\r\n");
        }
        connection.end(session);
        session.release();
        self.send([header[0], header[1]], &mut send);
    }

    fn send(&mut self, id: [u8; 2], send: &mut impl FnMut(&[u8])) {
        let count = self.out.len().div_ceil(self.longest - HEADER);
        let Ok(total) = u16::try_from(count) else { return };
        let total = total.to_be_bytes();
        for number in 0..count {
            let sequence = (number as u16).to_be_bytes();
            self.datagram.clear();
            self.datagram.extend([id[0], id[1], sequence[0], sequence[1], total[0], total[1], 0, 0]);
            for segment in self.out.segments() {
                let room = self.longest - self.datagram.len();
                self.datagram.extend_from_slice(&segment[..segment.len().min(room)]);
                if self.datagram.len() == self.longest {
                    break;
                }
            }
            self.out.sent(self.datagram.len() - HEADER);
            send(&self.datagram);
        }
    }
}
