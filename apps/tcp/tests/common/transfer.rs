//! Connections between two stacks, and what is sent over them.

use std::io::ErrorKind;
use std::net::SocketAddr;

use ccnic_tcp::{Conn, Event, Stack};

use super::{byte, until};

/// A port of a host.
pub fn at(host: &str, port: u16) -> SocketAddr {
    SocketAddr::new(host.parse().unwrap(), port)
}

/// Both ends of an established connection.
#[track_caller]
pub fn connection(server: &mut Stack, client: &mut Stack, host: &str) -> (Conn, Conn) {
    let listener = server.listen(7, 16).unwrap();
    let conn = client.connect(at(host, 7)).unwrap();
    let mut accepted = None;
    until("a connection", || {
        client.poll();
        server.poll();
        accepted = accepted.or_else(|| server.accept(listener));
        accepted.is_some() && client.room(conn) > 0
    });
    (accepted.unwrap(), conn)
}

/// Writes what is left of `len` bytes of a direction, and reads as much of the other one.
pub struct Transfer {
    conn: Conn,
    directions: [u8; 2],
    sent: usize,
    pub received: usize,
    len: usize,
    ended: bool,
}

impl Transfer {
    pub fn new(conn: Conn, directions: [u8; 2], len: usize) -> Transfer {
        Transfer { conn, directions, sent: 0, received: 0, len, ended: false }
    }

    /// Polls, writes and reads once; true when all has been written and read.
    pub fn step(&mut self, stack: &mut Stack) -> bool {
        stack.poll();
        while let Some(event) = stack.next_event() {
            assert!(!matches!(event, Event::Ready(conn, _) if conn != self.conn), "{event:?}");
        }
        let mut bytes = [0; 5000];
        if self.sent < self.len {
            let n = bytes.len().min(self.len - self.sent);
            (0..n).for_each(|i| bytes[i] = byte(self.directions[0], self.sent + i));
            match stack.write(self.conn, &bytes[..n]) {
                Ok(n) => self.sent += n,
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
            if self.sent == self.len {
                stack.shutdown(self.conn).unwrap();
            }
        }
        match stack.read(self.conn, &mut bytes) {
            Ok(0) => self.ended = true,
            Ok(n) => {
                let expected = |i: usize| byte(self.directions[1], self.received + i);
                assert!((0..n).all(|i| bytes[i] == expected(i)), "after {} bytes", self.received);
                self.received += n;
            }
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        self.ended && self.sent == self.len
    }
}
