//! Datagrams of the kernel: memcached's text behind its frame header, or the paper's RPC. Replies may be lost, or come late.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::{Lost, Number, Transport};
use crate::protocol::text::Frame;
use crate::protocol::{Reply, Request, rpc, text};

/// The longest datagram.
const LONGEST: usize = 65_536;
/// Replies that are taken from a socket in one turn, so that requests are not late meanwhile.
const TURN: usize = 32;
/// Datagrams of a reply, and replies that are not complete, at most: no store has the memory for more.
const PARTS: u16 = 1024;
const INCOMPLETE: usize = 4096;

/// Which protocol the datagrams speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// Memcached's text.
    Text,
    /// The paper's RPC, to one port for each server thread.
    Rpc {
        /// Server threads, each with a port of its own from the base port on.
        shards: u16,
    },
}

/// Sockets that are connected to a store: one, or one for each of its threads.
pub struct Datagrams {
    sockets: Vec<UdpSocket>,
    coder: Coder,
    input: Box<[u8]>,
    /// The server's host has answered last that nobody listens at the port.
    refused: bool,
}

impl Datagrams {
    /// Sockets to a store at `address`.
    ///
    /// # Errors
    /// When a socket cannot be opened, or a port would be above 65535.
    pub fn connect(address: SocketAddr, speech: Speech) -> std::io::Result<Datagrams> {
        let own: SocketAddr = if address.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let sockets = (0..speech.ports()).map(|shard| {
            let port = address.port().checked_add(shard).ok_or(ErrorKind::InvalidInput)?;
            let socket = UdpSocket::bind(own)?;
            socket.connect((address.ip(), port))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let sockets = sockets.collect::<std::io::Result<_>>()?;
        let (coder, input) = (Coder::new(speech), vec![0; LONGEST].into());
        Ok(Datagrams { sockets, coder, input, refused: false })
    }
}

impl Speech {
    /// Ports of the store.
    pub fn ports(self) -> u16 {
        match self {
            Speech::Text => 1,
            Speech::Rpc { shards } => shards.max(1),
        }
    }
}

impl Transport for Datagrams {
    fn send(&mut self, number: Number, request: Request<'_>) -> Result<bool, Lost> {
        let (shard, datagram) = self.coder.write(number, request);
        match self.sockets[usize::from(shard)].send(datagram) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            // Nobody listens there, or did not a moment ago: as good as lost on the way.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.refused = true;
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, take: &mut impl FnMut(Number, Reply<'_>)) -> Result<usize, Lost> {
        let mut replies = 0;
        for socket in &self.sockets {
            for _ in 0..TURN {
                match socket.recv(&mut self.input) {
                    Ok(length) => {
                        self.refused = false;
                        replies += usize::from(self.coder.read(&self.input[..length], take));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => self.refused = true,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(replies)
    }

    fn forget(&mut self, number: Number) -> bool {
        self.coder.forget(number)
    }

    fn clue(&self) -> Option<&'static str> {
        self.refused.then_some("nobody listens at its port")
    }

    fn strays(&self) -> u64 {
        self.coder.strays
    }
}

/// Turns requests into datagrams and datagrams into replies, whatever carries them.
pub struct Coder {
    speech: Speech,
    out: Vec<u8>,
    /// Replies of several datagrams of which some have come, by the frame's id.
    incomplete: HashMap<u16, Vec<Option<Vec<u8>>>>,
    /// The number of the latest request: a frame's id is its last 16 bits.
    latest: Number,
    strays: u64,
}

impl Coder {
    /// A coder for one protocol.
    pub fn new(speech: Speech) -> Coder {
        Coder { speech, out: Vec::new(), incomplete: HashMap::new(), latest: 0, strays: 0 }
    }

    /// A request as a datagram, and the server thread that it goes to.
    pub fn write(&mut self, number: Number, request: Request<'_>) -> (u16, &[u8]) {
        self.out.clear();
        self.latest = number;
        let shard = match self.speech {
            Speech::Text => {
                self.out.extend_from_slice(&Frame::of_request(number as u16));
                text::write(request, &mut self.out);
                0
            }
            Speech::Rpc { shards } => {
                rpc::write(request, number, &mut self.out);
                rpc::shard(request.key(), shards)
            }
        };
        (shard, &self.out)
    }

    /// Takes a datagram; true when it completes a reply.
    pub fn read(&mut self, datagram: &[u8], take: &mut impl FnMut(Number, Reply<'_>)) -> bool {
        let complete = match self.speech {
            Speech::Text => self.read_text(datagram, take),
            Speech::Rpc { .. } => rpc::read(datagram).ok().map(|(reply, number)| {
                take(number, reply);
                true
            }),
        };
        self.strays += u64::from(complete.is_none());
        complete.unwrap_or(false)
    }

    /// Nothing when the datagram is no part of a reply.
    fn read_text(&mut self, datagram: &[u8], take: &mut impl FnMut(Number, Reply<'_>)) -> Option<bool> {
        let (frame, bytes) = Frame::read(datagram)?;
        // The latest request with these last 16 bits.
        let number = self.latest.wrapping_sub(u64::from((self.latest as u16).wrapping_sub(frame.id)));
        let whole = |bytes: &[u8], take: &mut dyn FnMut(Number, Reply<'_>)| match text::read(bytes) {
            Ok(Some((reply, used))) if used == bytes.len() => {
                take(number, reply);
                Some(true)
            }
            _ => None,
        };
        if frame.parts == 1 {
            return whole(bytes, take);
        }
        if frame.parts > PARTS
            || self.incomplete.len() >= INCOMPLETE && !self.incomplete.contains_key(&frame.id)
        {
            return None;
        }
        let parts = self.incomplete.entry(frame.id).or_default();
        if parts.len() != usize::from(frame.parts) {
            *parts = vec![None; frame.parts.into()];
        }
        parts[usize::from(frame.part)] = Some(bytes.to_vec());
        if parts.iter().any(Option::is_none) {
            return Some(false);
        }
        let parts = self.incomplete.remove(&frame.id)?;
        let all: Vec<u8> = parts.into_iter().flatten().flatten().collect();
        whole(&all, take)
    }

    /// Forgets the parts of a reply; true, as datagrams may be lost.
    pub fn forget(&mut self, number: Number) -> bool {
        self.incomplete.remove(&(number as u16));
        true
    }

    /// Datagrams that were no part of a reply.
    pub fn strays(&self) -> u64 {
        self.strays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8; 16] = b"0123456789abcdef";

    fn replies(coder: &mut Coder, datagram: &[u8]) -> Vec<(Number, String)> {
        let mut all = Vec::new();
        coder.read(datagram, &mut |number, reply| all.push((number, format!("{reply:?}"))));
        all
    }

    #[test]
    fn a_reply_in_parts_is_put_together_in_any_order() {
        let mut coder = Coder::new(Speech::Text);
        coder.write(0x5_0003, Request::Get(KEY));
        coder.write(0x5_0004, Request::Get(KEY));
        assert!(replies(&mut coder, b"\x00\x03\x00\x01\x00\x02\x00\x00cd\r\nEND\r\n").is_empty());
        let second = replies(&mut coder, b"\x00\x03\x00\x00\x00\x02\x00\x00VALUE k 0 4\r\nab");
        let expected = Reply::Value { key: Some(b"k"), data: b"abcd" };
        assert_eq!(second, [(0x5_0003, format!("{expected:?}"))]);
        assert_eq!(coder.strays(), 0);
    }

    #[test]
    fn replies_that_do_not_end_take_bounded_memory() {
        let mut coder = Coder::new(Speech::Text);
        for id in 0..=u16::MAX {
            let [a, b] = id.to_be_bytes();
            assert!(replies(&mut coder, &[a, b, 0, 0, 0xff, 0xff, 0, 0, b'x']).is_empty());
            assert!(replies(&mut coder, &[a, b, 0, 0, 0, 2, 0, 0, b'x']).is_empty());
        }
        assert_eq!(coder.incomplete.len(), INCOMPLETE);
        assert!(coder.incomplete.values().all(|parts| parts.len() == 2));
    }

    #[test]
    fn what_comes_late_has_the_number_of_its_request() {
        let mut coder = Coder::new(Speech::Text);
        coder.write(0x1_0002, Request::Get(KEY));
        let late = replies(&mut coder, b"\xff\xff\x00\x00\x00\x01\x00\x00END\r\n");
        assert_eq!(late, [(0xffff, "Miss".to_owned())]);
    }

    #[test]
    fn datagrams_that_are_no_replies_are_counted() {
        let mut coder = Coder::new(Speech::Text);
        coder.write(70_000, Request::Get(KEY));
        for datagram in
            [&b""[..], b"\0\0\0\0\0\x01\0\0EN", b"\0\0\0\x05\0\x01\0\0END\r\n", b"\0\0\0\0\0\x01\0\0END\r\nx"]
        {
            assert!(replies(&mut coder, datagram).is_empty());
        }
        let mut rpc = Coder::new(Speech::Rpc { shards: 1 });
        assert!(replies(&mut rpc, b"short").is_empty());
        assert_eq!((coder.strays(), rpc.strays()), (4, 1));
    }
}
