//! How a thread of the NIC sleeps until a program sends.
//!
//! A program that was told that the NIC sleeps hands over a socket and writes to it when it sends to a NIC that is armed
//! (`ccnic::notify`). It may come late, or never; so the caller's descriptor is an epoll instance of its own, which the socket
//! is added to when it is there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ccnic_control::Notifier;
use rustix::event::epoll;

use crate::error::Error;
use crate::pair::NicPair;

/// The descriptor of a queue, once it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Sleep {
    epoll: Option<OwnedFd>,
    /// It has the program's socket, which stays the same.
    connected: bool,
}

impl Sleep {
    /// The descriptor, which stays the same.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(crate) fn fd(&mut self) -> Result<BorrowedFd<'_>, Error> {
        let epoll = match self.epoll.take() {
            Some(epoll) => epoll,
            None => epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::NoDescriptor)?,
        };
        Ok((*self.epoll.insert(epoll)).as_fd())
    }

    fn connect(&mut self, waker: BorrowedFd<'_>) -> Result<(), Error> {
        self.fd()?;
        if let Some(epoll) = self.epoll.as_ref().filter(|_| !self.connected) {
            epoll::add(epoll, waker, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
                .map_err(Error::NoDescriptor)?;
            self.connected = true;
        }
        Ok(())
    }

    /// Has the program wake the NIC with its next packet. False when there is something to do now: then it is not asked.
    ///
    /// # Errors
    /// When the program does not do so, or the system has no descriptor left.
    pub(crate) fn arm(&mut self, pair: &mut NicPair, notifier: &mut Option<Notifier>) -> Result<bool, Error> {
        if pair.tx_waits() {
            return Ok(false);
        }
        let Some(notifier) = notifier else { return Err(Error::Silent) };
        // The program is told, if it has not been, that its queue is watched.
        pair.notify_if_armed(notifier);
        self.connect(notifier.waker().ok_or(Error::Silent)?)?;
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
