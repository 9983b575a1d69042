//! The control socket between programs and the NIC: one JSON message per packet of a Unix `SOCK_SEQPACKET` socket,
//! with a region's descriptor beside it (SCM_RIGHTS) where one is handed over.
//!
//! A program that attaches keeps its connection open: the connection's end is how either side learns that the other
//! has died.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::messages::{Reply, Request, Status};

/// The longest message; a longer one is refused.
const MESSAGE_MAX: usize = 64 << 10;

/// One end of a control connection.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
}

impl From<OwnedFd> for Connection {
    fn from(fd: OwnedFd) -> Connection {
        Connection { fd }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Connection {
    /// Connects to a NIC.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when none listens at `path`.
    pub fn open(path: &Path) -> Result<Connection, Error> {
        let unreachable = |errno| Error::Unreachable { path: path.to_owned(), errno };
        let address = SocketAddrUnix::new(path).map_err(unreachable)?;
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(Error::os("make a socket"))?;
        connect(&fd, &address).map_err(unreachable)?;
        Ok(Connection { fd })
    }

    /// Sends a message, and a descriptor with it.
    ///
    /// # Errors
    /// When the peer has gone.
    pub fn send(&self, message: &impl Serialize, passing: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        self.send_with(message, passing, SendFlags::empty())
    }

    /// As [`send`](Connection::send), without blocking.
    ///
    /// # Errors
    /// When the peer has gone, or has not read what came before.
    pub fn send_now(&self, message: &impl Serialize, passing: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        self.send_with(message, passing, SendFlags::DONTWAIT)
    }

    fn send_with(
        &self,
        message: &impl Serialize,
        passing: Option<BorrowedFd<'_>>,
        flags: SendFlags,
    ) -> Result<(), Error> {
        let bytes = serde_json::to_vec(message).map_err(|e| Error::Protocol { what: e.to_string() })?;
        let fds = passing.as_slice();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        sendmsg(&self.fd, &[IoSlice::new(&bytes)], &mut control, flags | SendFlags::NOSIGNAL)
            .map(drop)
            .map_err(Error::os("send to the control socket"))
    }

    /// Receives a message, and the descriptor that came with it. `None` at the end of the connection.
    ///
    /// # Errors
    /// When the message is not understood or too long.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<Option<(T, Option<OwnedFd>)>, Error> {
        let mut bytes = vec![0; MESSAGE_MAX];
        // Room for a few descriptors: the kernel closes those that do not fit, and we close all but the last.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let buffers = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.fd, buffers, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                other => break other.map_err(Error::os("receive from the control socket"))?,
            }
        };
        let mut passed = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fds.for_each(|fd| passed = Some(fd));
            }
        }
        if got.bytes == 0 {
            return Ok(None);
        }
        let message = serde_json::from_slice(bytes.get(..got.bytes).unwrap_or_default())
            .map_err(|e| Error::Protocol { what: e.to_string() })?;
        Ok(Some((message, passed)))
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// [`Error::Refused`] with the NIC's reason, or what went wrong on the way.
    pub fn ask(&self, request: &Request, passing: Option<BorrowedFd<'_>>) -> Result<Reply, Error> {
        self.send(request, passing)?;
        match self.receive()? {
            Some((Reply::Refused { reason }, _)) => Err(Error::Refused { reason }),
            Some((reply, _)) => Ok(reply),
            None => Err(Error::Gone),
        }
    }

    /// Asks a NIC for its state.
    ///
    /// # Errors
    /// As [`ask`](Connection::ask).
    pub fn status(&self) -> Result<Status, Error> {
        match self.ask(&Request::Status, None)? {
            Reply::Status(status) => Ok(status),
            other => Err(Error::Protocol { what: format!("{other:?} in answer to a status request") }),
        }
    }

    /// True when the other side has closed the connection or ended, even if messages of it have not been read.
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::RDHUP)];
        !poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n == 0)
    }

    /// The process at the other end.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn peer_pid(&self) -> Result<i32, Error> {
        rustix::net::sockopt::socket_peercred(&self.fd)
            .map(|c| c.pid.as_raw_nonzero().get())
            .map_err(Error::os("ask who is at the control socket"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::socketpair;
    use std::os::unix::fs::MetadataExt;

    fn pair() -> (Connection, Connection) {
        let kind = SocketType::SEQPACKET;
        let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        (one.into(), other.into())
    }

    #[test]
    fn a_message_arrives_whole_with_its_descriptor() {
        let (one, other) = pair();
        let file = tempfile::tempfile().unwrap();
        one.send(&Request::Notify { queue: 3 }, Some(file.as_fd())).unwrap();
        one.send(&Request::Hello, None).unwrap();
        let (message, fd) = other.receive::<Request>().unwrap().unwrap();
        assert_eq!(message, Request::Notify { queue: 3 });
        let got = std::fs::File::from(fd.unwrap()).metadata().unwrap();
        assert_eq!(got.ino(), file.metadata().unwrap().ino());
        let (message, fd) = other.receive::<Request>().unwrap().unwrap();
        assert!(message == Request::Hello && fd.is_none());
    }

    #[test]
    fn the_end_is_seen_and_is_no_error() {
        let (one, other) = pair();
        one.send(&Request::Hello, None).unwrap();
        assert!(!other.has_ended());
        drop(one);
        assert!(other.has_ended(), "although a message waits");
        assert!(other.receive::<Request>().unwrap().is_some());
        assert!(other.receive::<Request>().unwrap().is_none());
        assert!(other.send(&Reply::Done, None).is_err());
        assert!(matches!(other.status(), Err(Error::Os { .. })));
    }

    #[test]
    fn what_is_no_request_is_refused_and_the_next_message_is_read() {
        let (one, other) = pair();
        one.send(&"nonsense", None).unwrap();
        one.send(&"x".repeat(MESSAGE_MAX + 1), None).unwrap();
        one.send(&Request::Status, None).unwrap();
        assert!(matches!(other.receive::<Request>(), Err(Error::Protocol { .. })));
        assert!(matches!(other.receive::<Request>(), Err(Error::Protocol { .. })), "cut at the limit");
        assert_eq!(other.receive::<Request>().unwrap().unwrap().0, Request::Status);
    }

    #[test]
    fn a_peer_that_does_not_read_blocks_nobody_who_does_not_want_to_wait() {
        let (one, _other) = pair();
        let full = (0..10_000).find_map(|_| one.send_now(&Request::Hello, None).err());
        assert!(matches!(full, Some(Error::Os { errno: Errno::AGAIN, .. })));
    }

    #[test]
    fn a_refusal_is_an_error_with_the_reason() {
        let (one, other) = pair();
        other.send(&Reply::Refused { reason: "because".into() }, None).unwrap();
        let why = one.ask(&Request::Hello, None).unwrap_err();
        assert_eq!(why.to_string(), "the NIC refused: because");
        drop(other);
        assert!(one.ask(&Request::Hello, None).is_err());
    }
}
