//! The answering program's end: the channels of all its callers, polled by one thread.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ccnic::Tuning;
use ccnic::call::Server as Protocol;
use ccnic_control::SocketAccess;
use ccnic_control::call::{CallChannel, CallListener};
use ccnic_shm::{NativeMemory, heavy_barrier, take_part_in_barriers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

use super::{NAP, POLLS, memory, relax};
use crate::error::Error;
use crate::tuning::tuning_of_environment;

/// Polls after which the event of callers that have come or gone is looked at, under load.
const LOOK: u32 = 1024;

/// Answers calls. Belongs to one thread; a program with several opens a socket for each. [The module](super) has an example.
///
/// Requests are copied out of the shared memory before the handler sees them. A caller that writes what no caller writes is disconnected;
/// it can harm only its own calls. A handler that takes long delays all callers.
#[derive(Debug)]
pub struct CallServer {
    channels: Vec<Channel>,
    /// Where a request and an answer lie while the handler works: as long as the longest of any caller.
    request: Vec<u8>,
    answer: Vec<u8>,
    tuning: Tuning,
    polls: u32,
    stop: Arc<AtomicBool>,
    listener: CallListener,
}

/// One caller.
#[derive(Debug)]
struct Channel {
    protocol: Protocol,
    mem: NativeMemory,
    shared: CallChannel,
    /// It has written what it must not.
    broken: bool,
}

/// Wakes a server's thread, or ends its [`serve`](CallServer::serve), from another one. Example: [`CallServer::poll`].
#[derive(Debug, Clone)]
pub struct CallWaker {
    event: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
}

impl CallWaker {
    /// Ends [`CallServer::serve`]. [The module](super) has an example.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Ends [`CallServer::wait`]. Example: [`CallServer::poll`].
    pub fn wake(&self) {
        let _ = write(&self.event, &1_u64.to_ne_bytes()); // an error says that it is awake
    }
}

impl CallServer {
    /// Listens at `socket`, where whoever may write to the file may call. [The module](super) has an example.
    ///
    /// # Errors
    /// When the socket cannot be made, or a server listens there.
    pub fn listen(socket: impl AsRef<Path>) -> Result<CallServer, Error> {
        let tuning = tuning_of_environment()?;
        take_part_in_barriers();
        Ok(CallServer {
            channels: Vec::new(),
            request: Vec::new(),
            answer: Vec::new(),
            tuning,
            polls: 0,
            stop: Arc::default(),
            listener: CallListener::new(socket.as_ref(), &SocketAccess::default())?,
        })
    }

    /// For another thread, to wake or stop this one. [The module](super) has an example.
    pub fn waker(&self) -> CallWaker {
        CallWaker { event: Arc::clone(self.listener.event()), stop: Arc::clone(&self.stop) }
    }

    /// Callers that are connected. Example: [`poll`](CallServer::poll).
    pub fn callers(&self) -> usize {
        self.channels.len()
    }

    /// Answers calls until [`CallWaker::stop`]; sleeps while there are none. [The module](super) has an example.
    ///
    /// # Errors
    /// As [`wait`](CallServer::wait).
    pub fn serve(&mut self, mut handler: impl FnMut(&[u8], &mut [u8]) -> usize) -> Result<(), Error> {
        while !self.stop.load(Ordering::Acquire) {
            if self.poll(&mut handler) == 0 {
                self.wait(None)?;
            }
        }
        self.stop.store(false, Ordering::Release);
        Ok(())
    }

    /// Answers one call of each caller that has one; returns how many. `handler` gets the request and memory for the longest answer, and
    /// returns the length of its answer. For a thread that has other things to do, too:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ccnic_client::call::{CallServer, Caller};
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("calls.sock");
    /// let mut server = CallServer::listen(&socket)?;
    /// let waker = server.waker();
    /// let caller = std::thread::spawn(move || {
    ///     let n = Caller::open(&socket)?.call(b"ping", &mut [0; 64], Duration::from_secs(10));
    ///     waker.wake(); // the server looks at its other work
    ///     n
    /// });
    ///
    /// let mut answered = 0;
    /// while answered == 0 || server.callers() > 0 {
    ///     server.wait(Duration::from_millis(10))?;
    ///     answered += server.poll(|_, answer| {
    ///         answer[..4].copy_from_slice(b"pong");
    ///         4
    ///     });
    /// }
    /// assert_eq!((answered, caller.join().unwrap()?), (1, 4));
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    #[inline]
    pub fn poll(&mut self, mut handler: impl FnMut(&[u8], &mut [u8]) -> usize) -> usize {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(LOOK) {
            self.admit();
        }
        let mut answered = 0;
        for channel in &mut self.channels {
            answered += usize::from(channel.poll(&mut self.request, &mut self.answer, &mut handler));
        }
        answered
    }

    /// Waits until there is a call to answer, a caller has come or gone, or [`CallWaker::wake`]; for `timeout` at most (`None`: without
    /// limit). Polls for some tens of microseconds, then sleeps. Example: [`poll`](CallServer::poll).
    ///
    /// # Errors
    /// [`Error::Os`] when the system refuses to wait.
    pub fn wait(&mut self, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        let timeout = timeout.into();
        for _ in 0..POLLS {
            if self.ready() {
                return Ok(());
            }
            self.channels.first().inspect(|channel| relax(&channel.mem, &self.tuning));
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let woken = self.sleep(left.map_or(NAP, |left| left.min(NAP)))?;
            self.admit();
            if woken || self.ready() || left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
        }
    }

    fn ready(&self) -> bool {
        self.channels.iter().any(Channel::ready)
    }

    /// Sleeps once, unless there is a call. True when a caller or another thread has woken it.
    fn sleep(&self, timeout: Duration) -> Result<bool, Error> {
        self.channels.iter().for_each(|channel| channel.protocol.announce_sleep(&channel.mem));
        heavy_barrier();
        let mut woken = self.ready();
        if !woken {
            let callers = self.channels.iter().filter(|channel| !channel.broken);
            let mut fds: Vec<PollFd<'_>> = [self.listener.event().as_fd()]
                .into_iter()
                .chain(callers.clone().map(|channel| channel.shared.as_fd()))
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
                Ok(n) => woken = n > 0,
                Err(Errno::INTR) => woken = true,
                Err(e) => return Err(Error::os("wait for calls")(e)),
            }
            for (channel, _) in callers.zip(fds.iter().skip(1)).filter(|(_, fd)| !fd.revents().is_empty()) {
                channel.shared.take_wakes();
            }
        }
        self.channels.iter().for_each(|channel| channel.protocol.disarm(&channel.mem));
        Ok(woken)
    }

    /// Takes up callers that have come, and drops those that have gone.
    #[cold]
    fn admit(&mut self) {
        self.listener.clear_event();
        for shared in self.listener.take() {
            let mut protocol = Protocol::new(shared.layout());
            protocol.set_tuning(self.tuning);
            let most = protocol.capacity() as usize;
            if self.request.len() < most {
                self.request.resize(most, 0);
                self.answer.resize(most, 0);
            }
            self.channels.push(Channel { protocol, mem: memory(shared.region()), shared, broken: false });
        }
        // What a caller has asked before it went is answered first: it may have been asked for its effect.
        self.channels.retain(|channel| !channel.shared.has_ended() || channel.ready());
    }
}

impl Channel {
    #[inline]
    fn ready(&self) -> bool {
        !self.broken && self.protocol.ready(&self.mem)
    }

    /// Answers a call, if there is one.
    #[inline]
    fn poll(
        &mut self,
        request: &mut [u8],
        answer: &mut [u8],
        handler: &mut impl FnMut(&[u8], &mut [u8]) -> usize,
    ) -> bool {
        if self.broken {
            return false;
        }
        let len = match self.protocol.take(&self.mem, request) {
            Ok(None) => return false,
            Ok(Some(len)) => len,
            Err(e) => {
                self.give_up(&e);
                return false;
            }
        };
        let most = self.protocol.capacity() as usize;
        // The capacity bounds the length of a request, and the buffers are as long as the largest.
        let (request, answer) =
            (request.get(..len).unwrap_or_default(), answer.get_mut(..most).unwrap_or_default());
        let len = handler(request, answer).min(answer.len());
        // It cannot fail: the answer fits, and there is a request.
        if self.protocol.answer(&self.mem, answer.get(..len).unwrap_or_default()).is_ok()
            && self.protocol.caller_sleeps(&self.mem)
        {
            self.shared.wake();
        }
        true
    }

    /// Disconnects the caller; the end of its connection then removes it.
    #[cold]
    fn give_up(&mut self, why: &ccnic::call::Malformed) {
        tracing::warn!("a caller is disconnected: {why}");
        self.broken = true;
        self.shared.hang_up();
    }
}
