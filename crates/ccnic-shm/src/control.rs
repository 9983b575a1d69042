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
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::rss::RssMessage;

/// The longest message; a longer one is refused.
const MESSAGE_MAX: usize = 64 << 10;

/// What a program asks of the NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Who are you?
    Hello,
    /// Serve the region whose descriptor comes with this message, until the connection ends.
    Attach {
        /// A name for the status display.
        name: String,
        /// The address that the program goes by, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mac: Option<[u8; 6]>,
        /// How received packets are spread over its queues, from the first packet on. Only where [`Hello::rss`] says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rss: Option<RssMessage>,
    },
    /// Spread received packets like this from now on; `None`: each comes back on the queue pair that it was sent on.
    Rss(Option<RssMessage>),
    /// Wake me by the socket that comes with this message, a connected stream socket of the Unix family: a byte for every sleep of
    /// this queue pair of my region (`ccnic::notify`), and one as soon as you do. That byte is the only answer: on this connection the
    /// end alone is news to a program that sleeps. Without it the program does not rely on being woken.
    Notify {
        /// Queue number.
        queue: u16,
    },
    /// What are you doing?
    Status,
}

/// What the NIC answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To `Hello`.
    Hello(Hello),
    /// To `Attach`: the queue pairs are being polled.
    Attached,
    /// To `Rss`: so it is.
    Done,
    /// To `Status`.
    Status(Status),
    /// The request was refused.
    Refused {
        /// Why, and what to do about it.
        reason: String,
    },
}

/// What a program must know before it makes a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the daemon.
    pub version: String,
    /// The NUMA node whose cores poll: the NIC segment is homed there.
    pub node: u32,
    /// The NIC spreads received packets over queues (RSS).
    #[serde(default)]
    pub rss: bool,
}

/// The state of a NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Process of the daemon.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// What programs are connected to.
    pub wire: String,
    /// CPUs that poll.
    pub cores: Vec<usize>,
    /// Attached programs.
    pub programs: Vec<ProgramStatus>,
}

/// One attached program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// The ring design that it chose.
    pub design: String,
    /// What its packets are spread over its queues by, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<RssMessage>,
    /// Its queue pairs.
    pub queues: Vec<QueueStatus>,
}

/// Counters of one queue pair since it was attached. Packets and bytes that were not delivered count under their reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Queue number.
    pub queue: u16,
    /// CPU that polls it.
    pub core: usize,
    /// Packets from the program.
    pub tx_packets: u64,
    /// Bytes from the program.
    pub tx_bytes: u64,
    /// Packets to the program.
    pub rx_packets: u64,
    /// Bytes to the program.
    pub rx_bytes: u64,
    /// Dropped: a descriptor named no bytes of the pool.
    pub drop_bad_descriptor: u64,
    /// Dropped: a chain of too many segments.
    pub drop_bad_chain: u64,
    /// Dropped: longer than the MTU.
    pub drop_too_long: u64,
    /// Dropped, with RSS: the receive ring was full.
    #[serde(default)]
    pub drop_ring_full: u64,
    /// Dropped, with RSS: the pool had no buffer.
    #[serde(default)]
    pub drop_no_buffer: u64,
    /// Waited: the receive ring was full.
    pub wait_ring_full: u64,
    /// Waited: the pool had no buffer.
    pub wait_no_buffer: u64,
}

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
        let unreachable = |source| Error::Unreachable { path: path.to_owned(), source };
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

    /// As [`send`](Connection::send), without waiting: fails when the other side has not read what came before.
    pub(crate) fn send_now(
        &self,
        message: &impl Serialize,
        passing: Option<BorrowedFd<'_>>,
    ) -> Result<(), Error> {
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
        // Room for a few descriptors, so that a peer that sends more cannot make us lose track of any.
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

    /// True when the other side has gone. What it said before it went does not matter.
    pub(crate) fn has_ended(&self) -> bool {
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
