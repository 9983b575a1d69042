//! Checked requests on their way from the threads of connections to the thread that calls the handler.
//!
//! Each connection has at most one request here, so their number is bounded. Users take turns: a user with a thousand connections
//! delays another one's request by one of its own.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccnic::rss::Rss;
use ccnic_frame::Takes;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

use crate::capture::CaptureRequest;
use crate::error::Error;
use crate::flow::FlowRequest;
use crate::listener::{AttachRequest, ClientId};
use crate::messages::{Change, Cursor, Reply};
use crate::notifier::Notifier;

/// What the handler is asked for.
#[derive(Debug)]
pub(crate) enum Event {
    Hello,
    Status(Cursor),
    MacTable(u32),
    /// The whole of it: the thread of the connection makes pages.
    Config,
    Change(Box<Change>),
    Capture(CaptureRequest, UnixStream),
    Attach(Box<AttachRequest>),
    SetRss(ClientId, Option<Box<Rss>>),
    SetTakes(ClientId, Takes),
    Flow(ClientId, Box<FlowRequest>),
    Notify(ClientId, u16, Notifier),
    Detach(ClientId),
}

/// An event, and where its answer goes. Dropping it tells the thread that waits that there will be none. The event comes first: when
/// that thread goes on, nobody else holds anything of the program.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) event: Event,
    pub(crate) answer: SyncSender<Reply>,
}

#[derive(Debug, Default)]
struct State {
    /// By uid.
    waiting: HashMap<u32, VecDeque<Asked>>,
    /// The users with something waiting, in the order of their turns.
    turns: VecDeque<u32>,
    closed: bool,
}

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Counts while something waits. Nobody else has this descriptor.
    wake: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> Result<Inbox, Error> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::os("make an eventfd"))?;
        Ok(Inbox { state: Mutex::default(), wake })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the handler on behalf of a user and waits for its answer. `None` when the NIC has ended.
    pub(crate) fn ask(&self, uid: u32, event: Event) -> Option<Reply> {
        let (answer, reply) = sync_channel(1);
        self.push(uid, Asked { event, answer });
        reply.recv().ok()
    }

    /// Tells the handler something that has no answer.
    pub(crate) fn tell(&self, uid: u32, event: Event) {
        let (answer, _) = sync_channel(1);
        self.push(uid, Asked { event, answer });
    }

    fn push(&self, uid: u32, asked: Asked) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        let queue = state.waiting.entry(uid).or_default();
        queue.push_back(asked);
        if queue.len() == 1 {
            state.turns.push_back(uid);
        }
        drop(state);
        let _ = write(&self.wake, &1u64.to_ne_bytes()); // full: it can be read all the more
    }

    /// Requests that wait now.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.state().waiting.values().map(VecDeque::len).sum()
    }

    /// The request whose turn it is.
    pub(crate) fn next(&self) -> Option<Asked> {
        let mut state = self.state();
        let Some(uid) = state.turns.pop_front() else {
            let _ = read(&self.wake, &mut [0; 8]); // nothing waits any more
            return None;
        };
        let queue = state.waiting.get_mut(&uid)?;
        let asked = queue.pop_front();
        if queue.is_empty() {
            state.waiting.remove(&uid);
        } else {
            state.turns.push_back(uid);
        }
        asked
    }

    /// Takes no further requests; those that wait get no answer.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.turns.clear();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}

/// Can be read while something waits.
impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A thread that asks and says what it got.
    fn ask(inbox: &Arc<Inbox>, uid: u32, id: ClientId) -> std::thread::JoinHandle<Option<Reply>> {
        let before = inbox.len();
        let thread = std::thread::spawn({
            let inbox = Arc::clone(inbox);
            move || inbox.ask(uid, Event::Detach(id))
        });
        while inbox.len() == before {
            std::thread::yield_now();
        }
        thread
    }

    #[test]
    fn users_take_turns() {
        let inbox = Arc::new(Inbox::new().unwrap());
        let threads: Vec<_> = [(1, 10), (1, 11), (1, 12), (2, 20), (2, 21), (3, 30)]
            .map(|(uid, id)| ask(&inbox, uid, id))
            .into();
        let mut order = Vec::new();
        while let Some(Asked { event: Event::Detach(id), answer }) = inbox.next() {
            order.push(id);
            answer.send(Reply::Done).unwrap();
        }
        assert_eq!(order, [10, 20, 30, 11, 21, 12]);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == Some(Reply::Done)));
        assert!(read(&inbox.wake, &mut [0; 8]).is_err(), "nothing waits");
    }

    #[test]
    fn nobody_waits_for_a_nic_that_has_ended() {
        let inbox = Arc::new(Inbox::new().unwrap());
        let waiting = ask(&inbox, 1, 1);
        inbox.close();
        assert_eq!(waiting.join().unwrap(), None);
        assert_eq!(inbox.ask(1, Event::Hello), None);
        inbox.tell(1, Event::Detach(1));
        assert_eq!(inbox.len(), 0);
    }
}
