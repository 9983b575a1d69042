//! Queues of an interface that a [helper](super::helper) has opened and hands over: what it and the daemon say to each other.
//!
//! One JSON message per packet of a Unix `SOCK_SEQPACKET` socket, with descriptors beside it (SCM_RIGHTS):
//!
//! ```text
//!   daemon ──► Ask                                                     once
//!   daemon ◄── Handed, the port's memory, a socket for each queue      first
//!   daemon ◄── Handed, without sockets                                 whenever the interface has gone
//!   daemon ◄── Handed, a socket for each queue                         whenever it has returned
//! ```
//!
//! All of it lasts as long as the connection: when that ends, the helper takes the XDP program off the interface. The daemon says nothing
//! more, so it can be confined as one that has no such port. The helper is believed what the interface is; that its memory is memory, and
//! that its sockets are sockets of AF_XDP with such rings, is checked.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::memory::RegionMemory;
use anyhow::{Context, bail, ensure};
use ccnic_control::Connection;
use ccnic_shm::{NativeMemory, OfferedRegion, Region, Sealing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::bound::{Bound, Facts};
use super::lane::Lane;
use super::options::{QUEUES_MAX, RINGS, XdpOptions};
use super::size;

/// Of what is said here. A helper and a daemon of different versions refuse each other.
pub(super) const VERSION: u32 = 1;
/// How long a daemon waits for the first queues: an interface may have many.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a daemon wants.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) version: u32,
    /// The name of an interface.
    pub(super) interface: String,
}

/// What it gets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// Queues, and what is known of them.
    Handed {
        /// Entries of each of their rings.
        ring: u32,
        facts: Facts,
    },
    /// Why there are none.
    Refused(String),
}

/// A helper that has been asked for an interface's queues: by a daemon that is not confined yet, and may connect to whom it likes.
#[derive(Debug)]
pub struct Helped(Connection);

/// A helper, of whom queues have come and more may.
#[derive(Debug)]
pub(super) struct Hands {
    connection: Connection,
    ring: u32,
    /// The port's queues.
    queues: usize,
}

impl Helped {
    /// Asks the helper at `socket`. Starts no thread.
    ///
    /// # Errors
    /// There is none, or it does not listen.
    pub fn connect(socket: &Path, interface: &str) -> anyhow::Result<Helped> {
        let connection = Connection::open(socket).with_context(|| {
            format!(
                "no helper hands over {interface}: start one that this user may connect to \
                 (ccnicd-xdp --socket {} --interface {interface})",
                socket.display()
            )
        })?;
        connection.send(&Ask { version: VERSION, interface: interface.to_owned() }, None)?;
        Ok(Helped(connection))
    }

    /// The first queues, and the port's memory.
    ///
    /// # Errors
    /// The helper's reason; or what is wrong with what it has handed over.
    pub(super) fn first(self, options: &XdpOptions) -> anyhow::Result<(Hands, Bound, Region)> {
        let Helped(connection) = self;
        ensure!(readable(&connection, PATIENCE), "its helper has not answered for {} s", PATIENCE.as_secs());
        let (ring, facts, mut passed) = receive(&connection)?;
        ensure!(!passed.is_empty(), "its helper has handed over no memory");
        let memory = OfferedRegion::new(passed.remove(0)).context("its helper's memory cannot be used")?;
        let queues = passed.len();
        ensure!(
            (1..=QUEUES_MAX.into()).contains(&queues) && RINGS.contains(&ring) && ring.is_power_of_two(),
            "its helper has handed over {queues} queues with rings of {ring}"
        );
        ensure!(memory.size() >= size(queues as u16, ring), "its helper's memory is too small");
        let region = memory.map(Sealing::Required).context("its helper's memory cannot be used")?;
        let hands = Hands { connection, ring, queues };
        let bound = hands.bind(passed, facts, options, &region.memory())?;
        Ok((hands, bound, region))
    }
}

impl Hands {
    /// What has been handed over anew, if something can be read.
    ///
    /// # Errors
    /// The helper has gone, or has handed over what cannot be used.
    pub(super) fn next(&self, options: &XdpOptions, mem: &NativeMemory) -> anyhow::Result<Bound> {
        let (ring, facts, passed) = receive(&self.connection)?;
        ensure!(ring == self.ring, "its rings have {ring} entries now");
        self.bind(passed, facts, options, mem)
    }

    fn bind(
        &self,
        sockets: Vec<OwnedFd>,
        facts: Facts,
        options: &XdpOptions,
        mem: &NativeMemory,
    ) -> anyhow::Result<Bound> {
        ensure!(sockets.len() <= self.queues, "it has {} queues now", sockets.len());
        let lane = |(queue, socket)| Lane::adopt(mem, socket, queue, self.ring);
        let lanes = (0..).zip(sockets).map(lane).collect::<Result<_, _>>();
        let lanes =
            lanes.context("a socket that its helper has handed over cannot be used (it takes Linux 6.4)")?;
        Ok(Bound::handed(lanes, facts, options))
    }
}

impl AsFd for Hands {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

fn receive(connection: &Connection) -> anyhow::Result<(u32, Facts, Vec<OwnedFd>)> {
    match connection.receive_many()? {
        Some((Answer::Handed { ring, facts }, passed)) => Ok((ring, facts, passed)),
        Some((Answer::Refused(why), _)) => bail!("its helper refuses: {why}"),
        None => bail!("its helper has ended the connection"),
    }
}

/// True when something can be read within this time, or the connection has ended.
pub(super) fn readable(connection: &Connection, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    poll(&mut [PollFd::new(connection, PollFlags::IN)], patience.as_ref()).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic_shm::Pages;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// What a daemon makes of an answer with a region of this size, if any, and so many sockets that are none of AF_XDP.
    fn taken(ring: u32, size: Option<u32>, sockets: usize) -> String {
        let (theirs, ours) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let facts =
            r#"{"interface":1,"mtu":1500,"is_virtual":true,"native":true,"zero_copy":false,"segments":true}"#;
        let facts = serde_json::from_str(facts).unwrap();
        let region = size.map(|size| Region::create(size, Pages::Small).unwrap());
        let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut passing: Vec<BorrowedFd<'_>> = region.iter().map(AsFd::as_fd).collect();
        passing.extend(std::iter::repeat_n(other.as_fd(), sockets));
        let theirs = Connection::from(theirs);
        theirs.send_many(&Answer::Handed { ring, facts }, &passing).unwrap();
        let outcome = Helped(Connection::from(ours)).first(&XdpOptions::new("v0"));
        format!("{:#}", outcome.unwrap_err())
    }

    #[test]
    fn what_is_handed_over_is_checked() {
        let enough = size(1, 64);
        for (ring, size, sockets, expected) in [
            (64, None, 0, "no memory"),
            (64, None, 1, "not a memfd"),
            (64, Some(enough), 0, "0 queues"),
            (64, Some(enough), 33, "33 queues"),
            (100, Some(enough), 1, "rings of 100"),
            (8192, Some(enough), 1, "rings of 8192"),
            (128, Some(enough), 1, "too small"),
            (64, Some(enough), 1, "a socket that its helper has handed over cannot be used"),
        ] {
            let why = taken(ring, size, sockets);
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_helper_that_is_not_there_and_one_that_refuses() {
        let none = Path::new("/nonexistent/helper.sock");
        let why = format!("{:#}", Helped::connect(none, "v0").unwrap_err());
        assert!(why.contains("ccnicd-xdp --socket /nonexistent/helper.sock --interface v0"), "{why}");
        let (theirs, ours) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        Connection::from(theirs).send(&Answer::Refused("no".to_owned()), None).unwrap();
        let why = format!("{:#}", Helped(Connection::from(ours)).first(&XdpOptions::new("v0")).unwrap_err());
        assert!(why.contains("refuses: no"), "{why}");
    }
}
