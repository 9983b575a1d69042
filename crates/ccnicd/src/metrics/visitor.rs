//! A connection to the metrics: reads a request, writes an answer, ends. Nothing here blocks, and each state has its deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::http::{Answer, REQUEST_MAX, Refusal, Request};

/// How long a request may take to come.
const READING: Duration = Duration::from_secs(5);
/// How long an answer may take to be read.
const WRITING: Duration = Duration::from_secs(30);
/// How long the other side may take to close. Were its last bytes unread when we close, the kernel would take the answer back.
const CLOSING: Duration = Duration::from_secs(1);

/// Where a connection comes from: whom its share of the places is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Source(IpAddr);

impl From<IpAddr> for Source {
    /// A host has all addresses of its IPv6 network; this one all that begin with 127.
    fn from(address: IpAddr) -> Source {
        Source(match address.to_canonical() {
            IpAddr::V4(address) if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        })
    }
}

#[derive(Debug)]
enum State {
    Reading(Vec<u8>),
    Writing { answer: Answer, written: usize },
    Closing,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Visitor {
    stream: TcpStream,
    pub(super) source: Source,
    state: State,
    deadline: Instant,
}

impl AsFd for Visitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Visitor {
    /// # Errors
    /// When the system does not let a connection be read without blocking.
    pub(super) fn new(stream: TcpStream, from: IpAddr) -> std::io::Result<Visitor> {
        stream.set_nonblocking(true)?;
        let deadline = Instant::now() + READING;
        Ok(Visitor { stream, source: from.into(), state: State::Reading(Vec::new()), deadline })
    }

    /// What it waits for.
    pub(super) fn waits_for(&self) -> PollFlags {
        match self.state {
            State::Reading(_) | State::Closing => PollFlags::IN,
            State::Writing { .. } => PollFlags::OUT,
        }
    }

    /// When it has taken too long.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Goes on as far as it can without waiting. `metrics` gives the answer to a scrape. False when the connection is to be closed.
    pub(super) fn go_on(&mut self, metrics: impl FnOnce() -> Result<Answer, Refusal>) -> bool {
        let went_on = match &mut self.state {
            State::Reading(_) => self.read(metrics),
            State::Writing { .. } => self.write(),
            State::Closing => self.close(),
        };
        match went_on {
            Ok(there_is_more) => there_is_more,
            Err(e) => matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn read(&mut self, metrics: impl FnOnce() -> Result<Answer, Refusal>) -> std::io::Result<bool> {
        let State::Reading(request) = &mut self.state else { return Ok(false) };
        let mut bytes = [0; REQUEST_MAX];
        let room = bytes.get_mut(..REQUEST_MAX.saturating_sub(request.len())).unwrap_or_default();
        let n = self.stream.read(room)?;
        if n == 0 {
            return Ok(false);
        }
        request.extend_from_slice(room.get(..n).unwrap_or_default());
        let answer = match Request::read(request) {
            Request::Unfinished => return Ok(true),
            Request::Metrics => metrics().unwrap_or_else(Answer::from),
            Request::Refused(refusal) => refusal.into(),
        };
        self.state = State::Writing { answer, written: 0 };
        self.deadline = Instant::now() + WRITING;
        self.write()
    }

    fn write(&mut self) -> std::io::Result<bool> {
        let State::Writing { answer, written } = &mut self.state else { return Ok(false) };
        loop {
            let (head, body) = (answer.head.as_bytes(), answer.body.as_bytes());
            let rest = match written.checked_sub(head.len()) {
                None => head.get(*written..),
                Some(of_body) => body.get(of_body..),
            };
            let Some(rest) = rest.filter(|rest| !rest.is_empty()) else { break };
            match self.stream.write(rest)? {
                0 => return Ok(false),
                n => *written += n,
            }
        }
        self.stream.shutdown(Shutdown::Write)?;
        self.state = State::Closing;
        self.deadline = Instant::now() + CLOSING;
        self.close()
    }

    /// Waits for the other side's end.
    fn close(&mut self) -> std::io::Result<bool> {
        Ok(self.stream.read(&mut [0; REQUEST_MAX])? > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_source() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_eq!(source("127.0.0.1"), source("127.255.0.7"));
    }
}
