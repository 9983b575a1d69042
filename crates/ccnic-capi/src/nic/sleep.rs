//! How a thread of the NIC sleeps until a program sends: `ccnic_nic_rx_fd`, `ccnic_nic_rx_arm`, `ccnic_nic_rx_disarm`.
//!
//! A program that was told that the NIC sleeps hands over a socket and writes to it when it sends to a NIC that is armed
//! (`ccnic::notify`). It may come late, or never; so the caller's descriptor is an epoll instance of the library's own, which the socket
//! is added to when it is there.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use ccnic_control::Notifier;
use rustix::event::epoll;
use rustix::io::Errno;

use super::pair::NicPair;
use crate::errno::Failure;

const SILENT: Failure = Failure::new(
    Errno::AGAIN,
    c"the program does not wake the NIC, or not yet: look for its packets every ten milliseconds",
);

/// The descriptor of a queue, once it was asked for.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    epoll: Option<OwnedFd>,
    /// It has the program's socket, which stays the same.
    connected: bool,
}

impl Sleep {
    /// The descriptor, which stays the same until the program is released.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(super) fn fd(&mut self) -> Result<i32, Failure> {
        let epoll = match self.epoll.take() {
            Some(epoll) => epoll,
            None => epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os)?,
        };
        Ok(self.epoll.insert(epoll).as_raw_fd())
    }

    fn connect(&mut self, waker: BorrowedFd<'_>) -> Result<(), Failure> {
        self.fd()?;
        if let Some(epoll) = self.epoll.as_ref().filter(|_| !self.connected) {
            epoll::add(epoll, waker, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(os)?;
            self.connected = true;
        }
        Ok(())
    }

    /// Has the program wake the NIC with its next packet. False when there is something to do now: then it is not asked.
    ///
    /// # Errors
    /// When the program does not do so, or the system has no descriptor left.
    pub(super) fn arm(
        &mut self,
        pair: &mut NicPair,
        notifier: &mut Option<Notifier>,
    ) -> Result<bool, Failure> {
        if pair.tx_waits() {
            return Ok(false);
        }
        let Some(notifier) = notifier else { return Err(SILENT) };
        // The program is told, if it has not been, that its queue is watched.
        pair.notify_if_armed(notifier);
        self.connect(notifier.waker().ok_or(SILENT)?)?;
        // Before the ring is looked at: a call that comes later may be for a packet that is not seen here.
        notifier.take_calls();
        // A program that waits for what has been sent to it is notified before the NIC sleeps.
        let armed = pair.arm() && !pair.needs_notification();
        if !armed {
            pair.disarm();
        }
        Ok(armed)
    }
}

fn os(errno: Errno) -> Failure {
    Failure::with_text(errno, &format!("no descriptor to sleep by: {errno}"))
}
