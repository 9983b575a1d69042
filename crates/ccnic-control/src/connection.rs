//! The control socket between programs and the NIC: one JSON message per packet of a Unix `SOCK_SEQPACKET` socket,
//! with descriptors beside it (SCM_RIGHTS) where some are handed over, as that of a region.
//!
//! A program that attaches keeps its connection open: the connection's end is how either side learns that the other
//! has died.
//!
//! No side waits for ever: see [`PATIENCE`] and the constants beside it.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, shutdown, socket_with, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::messages::{Reply, Request};

/// The longest message; a longer one is refused.
pub(crate) const MESSAGE_MAX: usize = 64 << 10;
/// The most descriptors that go with a message.
pub const DESCRIPTORS_MAX: usize = 64;
/// How long a program waits for a NIC to take a connection or a message.
const SENDING: Duration = Duration::from_secs(5);
/// How long a program waits for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a program waits to be attached: the NIC maps its region, which may take a while.
const ATTACHING: Duration = Duration::from_secs(30);

/// One end of a control connection.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
    /// Replies that this side has given up waiting for, and that may come yet.
    owed: AtomicUsize,
}

/// Who is at the other end of a connection, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process; 0 when that is in a PID namespace that this process does not see.
    pub pid: i32,
    /// Its user, in the user namespace of this process.
    pub uid: u32,
}

/// What waiting has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    Ready,
    TimedOut,
}

impl From<OwnedFd> for Connection {
    fn from(fd: OwnedFd) -> Connection {
        Connection { fd, owed: AtomicUsize::new(0) }
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
    /// [`Error::Unreachable`] when none listens at `path`, [`Error::NoAnswer`] when it takes no connections.
    pub fn open(path: &Path) -> Result<Connection, Error> {
        let unreachable = |errno| Error::Unreachable { path: path.to_owned(), errno };
        let address = SocketAddrUnix::new(path).map_err(unreachable)?;
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(Error::os("make a socket"))?;
        set_socket_timeout(&fd, Timeout::Send, Some(SENDING))
            .map_err(Error::os("limit the time to connect"))?;
        match connect(&fd, &address) {
            Ok(()) => Ok(Connection::from(fd)),
            Err(Errno::AGAIN) => Err(Error::no_answer("a connection", SENDING)),
            Err(errno) => Err(unreachable(errno)),
        }
    }

    /// A connection to a NIC that has ended.
    ///
    /// # Errors
    /// When there is no file descriptor to be had.
    pub fn ended() -> Result<Connection, Error> {
        let (ours, _) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(Error::os("make a socket"))?;
        Ok(Connection::from(ours))
    }

    /// Sends a message, and a descriptor with it.
    ///
    /// # Errors
    /// When the peer has gone; [`Error::NoAnswer`] when it does not read.
    pub fn send(&self, message: &impl Serialize, passing: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        self.send_many(message, passing.as_slice())
    }

    /// As [`send`](Connection::send), with [some descriptors](DESCRIPTORS_MAX).
    ///
    /// # Errors
    /// As of [`send`](Connection::send).
    pub fn send_many(&self, message: &impl Serialize, passing: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.send_with(message, passing, SendFlags::empty()).map_err(|e| match e {
            Error::Os { errno: Errno::AGAIN, .. } => Error::no_answer("a message", SENDING),
            e => e,
        })
    }

    /// As [`send`](Connection::send), without blocking.
    ///
    /// # Errors
    /// When the peer has gone, or has not read what came before.
    pub fn send_now(&self, message: &impl Serialize, passing: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        self.send_with(message, passing.as_slice(), SendFlags::DONTWAIT)
    }

    /// As [`send`](Connection::send), for `patience` at most.
    pub(crate) fn send_within(&self, message: &impl Serialize, patience: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        loop {
            match self.send_now(message, None) {
                Err(Error::Os { errno: Errno::AGAIN, .. }) => {}
                other => return other,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.wait(PollFlags::OUT, Some(left))? == Waited::TimedOut {
                return Err(Error::no_answer("a reply", patience));
            }
        }
    }

    fn send_with(
        &self,
        message: &impl Serialize,
        fds: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<(), Error> {
        let bytes = serde_json::to_vec(message).map_err(|e| Error::Protocol { what: e.to_string() })?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        sendmsg(&self.fd, &[IoSlice::new(&bytes)], &mut control, flags | SendFlags::NOSIGNAL)
            .map(drop)
            .map_err(Error::os("send to the control socket"))
    }

    /// Waits until something can be read or sent, or the connection has ended; for `patience` at most (`None`: without limit).
    pub(crate) fn wait(&self, what: PollFlags, patience: Option<Duration>) -> Result<Waited, Error> {
        let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let mut fds = [PollFd::new(self, what)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => Ok(Waited::TimedOut),
            Ok(_) | Err(Errno::INTR) => Ok(Waited::Ready),
            Err(e) => Err(Error::os("wait at the control socket")(e)),
        }
    }

    /// Receives a message, and the descriptor that came with it. `None` at the end of the connection.
    ///
    /// Closes other descriptors that came with it, which may block.
    ///
    /// # Errors
    /// When the message is not understood or too long.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<Option<(T, Option<OwnedFd>)>, Error> {
        // Room for a few descriptors: the kernel closes those that do not fit, and we close all but the last.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let message = self.receive_into(&mut space)?;
        Ok(message.map(|(message, mut passed)| (message, passed.pop())))
    }

    /// As [`receive`](Connection::receive), with all descriptors, in their order. For a peer that is trusted with what closing them takes.
    ///
    /// # Errors
    /// As of [`receive`](Connection::receive).
    pub fn receive_many<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>, Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        self.receive_into(&mut space)
    }

    fn receive_into<T: DeserializeOwned>(
        &self,
        space: &mut [MaybeUninit<u8>],
    ) -> Result<Option<(T, Vec<OwnedFd>)>, Error> {
        let mut bytes = vec![0; MESSAGE_MAX];
        let mut control = RecvAncillaryBuffer::new(space);
        let mut reset = false;
        let got = loop {
            let buffers = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.fd, buffers, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) if reset => return Ok(None),
                // The peer has closed without reading all; what it had sent can still be read.
                Err(Errno::CONNRESET) => reset = true,
                other => break other.map_err(Error::os("receive from the control socket"))?,
            }
        };
        let mut passed = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                passed.extend(fds);
            }
        }
        if got.bytes == 0 {
            return Ok(None);
        }
        let message = serde_json::from_slice(bytes.get(..got.bytes).unwrap_or_default())
            .map_err(|e| Error::Protocol { what: e.to_string() })?;
        Ok(Some((message, passed)))
    }

    /// Sends a request and waits for the answer: for 10 s, to `Attach` for 30 s. Not for two threads at once.
    ///
    /// # Errors
    /// [`Error::Refused`] with the NIC's reason, [`Error::NoAnswer`], or what went wrong on the way.
    pub fn ask(&self, request: &Request, passing: Option<BorrowedFd<'_>>) -> Result<Reply, Error> {
        let patience = if matches!(request, Request::Attach { .. }) { ATTACHING } else { PATIENCE };
        self.ask_within(request, passing, patience)
    }

    pub(crate) fn ask_within(
        &self,
        request: &Request,
        passing: Option<BorrowedFd<'_>>,
        patience: Duration,
    ) -> Result<Reply, Error> {
        if let Err(e) = self.send(request, passing) {
            // A NIC that takes no more programs says why and closes: its reason can still be read.
            let refusal = matches!(e, Error::Os { errno: Errno::PIPE | Errno::CONNRESET, .. });
            let last = if refusal { self.receive::<Reply>() } else { Ok(None) };
            return match last {
                Ok(Some((Reply::Refused { reason }, _))) => Err(Error::Refused { reason }),
                _ => Err(e),
            };
        }
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.wait(PollFlags::IN, Some(left))? == Waited::TimedOut {
                self.owed.fetch_add(1, Ordering::Relaxed);
                return Err(Error::no_answer("an answer", patience));
            }
            let Some((reply, _)) = self.receive()? else { return Err(Error::Gone) };
            let earlier = self.owed.load(Ordering::Relaxed);
            if earlier > 0 {
                self.owed.store(earlier - 1, Ordering::Relaxed); // to a request that was given up
                continue;
            }
            return match reply {
                Reply::Refused { reason } => Err(Error::Refused { reason }),
                reply => Ok(reply),
            };
        }
    }

    /// True when the other side has closed the connection or ended, even if messages of it have not been read.
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::RDHUP)];
        !poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n == 0)
    }

    /// Ends the connection for both sides, without closing it. Never blocks.
    pub fn hang_up(&self) {
        let _ = shutdown(&self.fd, Shutdown::Both); // an error says that it has ended already
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn peer(&self) -> Result<Peer, Error> {
        let credentials = getsockopt(&self.fd, PeerCredentials)
            .map_err(|e| Error::os("ask who is at the control socket")(Errno::from_raw_os_error(e as i32)))?;
        Ok(Peer { pid: credentials.pid(), uid: credentials.uid() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// Both ends of a connection.
    pub(crate) fn pair() -> (Connection, Connection) {
        let kind = SocketType::SEQPACKET;
        let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        (one.into(), other.into())
    }

    #[test]
    fn a_message_arrives_whole_with_its_descriptor() {
        let (one, other) = pair();
        let file = tempfile::tempfile().unwrap();
        one.send(&Request::Notify { queue: 3, wakes: false }, Some(file.as_fd())).unwrap();
        one.send(&Request::Hello, None).unwrap();
        let (message, fd) = other.receive::<Request>().unwrap().unwrap();
        assert_eq!(message, Request::Notify { queue: 3, wakes: false });
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
        assert_eq!(other.peer().unwrap().pid, std::process::id().cast_signed());
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

    #[test]
    fn an_answer_that_comes_too_late_is_not_taken_for_another() {
        let (one, other) = pair();
        let ask = |patience| one.ask_within(&Request::Hello, None, patience);
        let late = ask(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(late, Error::NoAnswer { .. }) && late.to_string().contains("see its log"), "{late}");
        assert!(ask(Duration::ZERO).is_err());
        for reason in ["first", "second", "third"] {
            other.send(&Reply::Refused { reason: reason.into() }, None).unwrap();
        }
        assert_eq!(ask(PATIENCE).unwrap_err().to_string(), "the NIC refused: third");
    }

    #[test]
    fn a_refusal_is_read_although_the_nic_has_closed() {
        for unread in [false, true] {
            let (one, other) = pair();
            other.send(&Reply::Refused { reason: "full".into() }, None).unwrap();
            if unread {
                one.send(&Request::Hello, None).unwrap(); // never read: the end is a reset
            }
            drop(other);
            let why = one.ask(&Request::Hello, None).unwrap_err();
            assert_eq!(why.to_string(), "the NIC refused: full");
            assert!(one.ask(&Request::Hello, None).is_err());
        }
    }

    #[test]
    fn a_reply_waits_for_its_reader_but_not_for_ever() {
        let (one, other) = pair();
        let held =
            std::iter::repeat_with(|| one.send_now(&Reply::Done, None)).take_while(Result::is_ok).count();
        let why = one.send_within(&Reply::Done, Duration::from_millis(5)).unwrap_err();
        assert!(matches!(why, Error::NoAnswer { .. }));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| one.send_within(&Reply::Done, Duration::from_secs(60)));
            // All of them: Linux calls a socket writable when three quarters of its buffer are free.
            for _ in 0..held {
                assert!(other.receive::<Reply>().unwrap().is_some());
            }
            assert!(waiting.join().unwrap().is_ok());
        });
    }

    #[test]
    fn a_nic_that_takes_no_connection_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nic.sock");
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _first = Connection::open(&path).unwrap();
        let why = Connection::open(&path).unwrap_err();
        assert!(matches!(why, Error::NoAnswer { .. }), "{why}");
    }
}
