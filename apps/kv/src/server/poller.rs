//! Which of its sockets a thread has something to do for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// An epoll instance.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(256) })
    }

    /// Tells when there is something to read. `shared`: one of the threads that wait for the same socket is enough.
    pub(crate) fn add(&self, fd: impl AsFd, token: u64, shared: bool) -> io::Result<()> {
        let flags = EventFlags::IN | if shared { EventFlags::EXCLUSIVE } else { EventFlags::empty() };
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), flags)?)
    }

    /// Waits for room to write instead of something to read, or the other way round.
    pub(crate) fn wait_for_room(&self, fd: impl AsFd, token: u64, room: bool) -> io::Result<()> {
        let flags = if room { EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token), flags)?)
    }

    /// The tokens of what is ready, after at most so many milliseconds.
    pub(crate) fn wait(&mut self, milliseconds: u32) -> io::Result<impl Iterator<Item = u64>> {
        let nanoseconds = i64::from(milliseconds % 1000) * 1_000_000;
        let time = Timespec { tv_sec: i64::from(milliseconds / 1000), tv_nsec: nanoseconds };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.iter().map(|event| event.data.u64()))
    }
}
