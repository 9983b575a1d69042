//! Requests and replies in datagrams. Each begins with a frame header of 8 bytes, big endian: request id, sequence number, number of
//! datagrams, zero.

use super::{Connection, Output, Server};
use crate::store::Session;

/// The frame header.
pub const HEADER: usize = 8;
/// The longest datagram of a reply, with its header, where the link takes it.
pub const LONGEST: usize = 1400;
/// Bytes of all replies to a datagram, whose sender may be forged: 48 datagrams of the longest.
pub const LONGEST_REPLY: usize = 64 << 10;
/// A datagram of a reply counts as so many of them at least, as it costs more than its bytes: so they are 256 at most.
pub const LEAST: usize = 256;
/// Bytes of the longest reply without a value, which any command may have: a key in base64, and other words of the meta commands.
const ROOM: usize = 512;
/// The answer in the place of a longer one, and of commands that take more work than a turn of a connection.
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

    /// Executes the commands of a datagram, and hands over each datagram of their replies. As with memcached each reply is a message of its
    /// own. All have [`LONGEST_REPLY`] bytes at most: a command that has no room is answered by an error, and is the last. A request that
    /// consists of several datagrams, one that has no header, or one of the binary protocol is dropped, as memcached does; so is what begins
    /// with no small letter, as answers do and commands do not: two servers to which somebody has sent one in the other's name would answer
    /// each other for ever.
    pub fn answer(
        &mut self,
        request: &[u8],
        session: &mut Session<'_>,
        server: &Server,
        mut send: impl FnMut(&[u8]),
    ) {
        let Some((header, mut commands)) = request.split_first_chunk::<HEADER>() else { return };
        if header[4..6] != [0, 1] || !commands.first().is_some_and(u8::is_ascii_lowercase) {
            return;
        }
        let id = [header[0], header[1]];
        let (mut connection, mut left) = (Connection::of_datagram(), LONGEST_REPLY);
        while !commands.is_empty() {
            // What a command does whose reply may have no room would be done unseen.
            if left < ROOM || connection.is_out_of_work() {
                self.refuse(id, &mut send);
                break;
            }
            self.out.clear();
            let used = connection.advance_by_one(left, commands, session, server, &mut self.out);
            commands = &commands[used..];
            // Others need not wait while datagrams are sent.
            session.release();
            if self.out.len() > left || connection.is_broken_off() {
                self.refuse(id, &mut send);
                break;
            }
            left -= self.send(id, &mut send).min(left);
            if used == 0 {
                break; // a line without its end
            }
        }
        connection.end(session);
        self.out.clear();
    }

    /// Sends an error in the place of what was put.
    fn refuse(&mut self, id: [u8; 2], send: &mut impl FnMut(&[u8])) {
        self.out.clear();
        self.out.put(REPLY_TOO_LARGE.as_bytes());
        self.out.put(b"\r\n");
        self.send(id, send);
    }

    /// Sends what was put as one message; returns what it counts.
    fn send(&mut self, id: [u8; 2], send: &mut impl FnMut(&[u8])) -> usize {
        let count = self.out.len().div_ceil(self.longest - HEADER);
        let Ok(total) = u16::try_from(count) else { return 0 };
        let (total, mut cost) = (total.to_be_bytes(), 0);
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
            let len = self.datagram.len() - HEADER;
            self.out.sent(len);
            cost += len.max(LEAST);
            send(&self.datagram);
        }
        cost
    }
}
