//! Closing connections that are refused before they have a thread.
//!
//! Closing a connection closes the descriptors that wait in its queue as well, which may block. A connection whose queue is empty, and
//! stays so, is closed at once; any other one by a thread that its user has made necessary, one for each user.

use std::collections::{HashMap, VecDeque};
use std::io::IoSliceMut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, recvmsg, shutdown};

use crate::connection::Connection;
use crate::messages::Reply;

/// Messages of a refused connection that are looked at. Its queue holds no more.
const MESSAGES: usize = 4096;
/// Bytes of stack: the thread only closes.
const STACK: usize = 64 << 10;

/// Connections that wait to be closed, by uid. A user that is here has a thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closers(Arc<Mutex<HashMap<u32, VecDeque<Connection>>>>);

impl Closers {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, VecDeque<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a program why it is refused and closes its connection. Never blocks.
    pub(super) fn refuse(&self, uid: u32, connection: Connection, reason: String) {
        let _ = connection.send_now(&Reply::Refused { reason }, None); // it need not read it
        self.let_go(uid, connection);
    }

    /// Closes a connection. Never blocks.
    pub(crate) fn let_go(&self, uid: u32, connection: Connection) {
        // Nothing can be sent to this end any more, so a queue that is empty stays empty.
        let stopped = shutdown(&connection, Shutdown::Read).is_ok();
        if !stopped || !empties(&connection) {
            self.close(uid, connection);
        }
    }

    /// Has a connection closed by the thread of its user.
    pub(super) fn close(&self, uid: u32, connection: Connection) {
        let mut waiting = self.waiting();
        let idle = !waiting.contains_key(&uid);
        waiting.entry(uid).or_default().push_back(connection);
        drop(waiting);
        if idle {
            self.start(uid);
        }
    }

    fn start(&self, uid: u32) {
        let this = self.clone();
        let thread = std::thread::Builder::new().name("ccnic-close".to_owned()).stack_size(STACK);
        if let Err(e) = thread.spawn(move || while this.close_next(uid) {}) {
            // Kept as they are: closing them here could block all programs.
            let kept = self.waiting().remove(&uid).unwrap_or_default();
            tracing::warn!("no thread to close {} refused connections of user {uid}: {e}", kept.len());
            std::mem::forget(kept);
        }
    }

    /// Closes a connection of a user; false when there is none.
    fn close_next(&self, uid: u32) -> bool {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(&uid).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(&uid);
        }
        drop(waiting);
        next.map(drop).is_some()
    }
}

/// Takes messages without descriptors from a connection's queue. True when nothing is left.
fn empties(connection: &Connection) -> bool {
    let take = |flags: RecvFlags| {
        let (mut byte, mut nothing) = ([0], RecvAncillaryBuffer::default());
        recvmsg(connection, &mut [IoSliceMut::new(&mut byte)], &mut nothing, flags | RecvFlags::DONTWAIT)
    };
    for _ in 0..MESSAGES {
        match take(RecvFlags::PEEK) {
            // There is no room for descriptors, and a look leaves them where they are.
            Ok(seen) if seen.flags.contains(ReturnFlags::CTRUNC) => return false,
            Ok(seen) if seen.bytes == 0 => return true,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(e) => return e == Errno::AGAIN,
        }
        if take(RecvFlags::empty()).is_err() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::pair;
    use crate::error::Error;
    use crate::messages::Request;
    use std::os::fd::AsFd;

    #[test]
    fn messages_without_descriptors_are_taken_and_others_left() {
        let (one, other) = pair();
        (0..5).for_each(|_| one.send(&Request::Hello, None).unwrap());
        assert!(empties(&other));
        one.send(&Request::Hello, None).unwrap();
        one.send(&Request::Hello, Some(one.as_fd())).unwrap();
        assert!(!empties(&other));
        assert!(other.receive::<Request>().unwrap().unwrap().1.is_some(), "the look has left it there");
        drop(one);
        assert!(empties(&other));
    }

    #[test]
    fn who_is_refused_learns_why_whatever_it_has_sent() {
        for (first, passing) in [(false, false), (true, false), (true, true)] {
            let (one, other) = pair();
            let (file, closers) = (std::fs::File::open("/dev/null").unwrap(), Closers::default());
            if first {
                one.send(&Request::Hello, passing.then_some(file.as_fd())).unwrap();
            }
            closers.refuse(1, other, "full".into());
            let why = one.ask(&Request::Hello, None).unwrap_err();
            assert!(matches!(&why, Error::Refused { reason } if reason == "full"), "{why}");
            while !closers.waiting().is_empty() {
                std::thread::yield_now();
            }
            assert!(one.has_ended());
        }
    }
}
