//! The NIC's state, for a thread of the NIC's own process.

use std::sync::Arc;

use super::shared::Shared;
use crate::inbox::Event;
use crate::messages::{Cursor, Reply, Status};

/// Whose turn it is when observers ask: no user has this uid.
const NOBODY: u32 = u32::MAX;

/// Reads the state of a [`Listener`](super::Listener)'s NIC, without a connection: what programs do to the socket does not
/// matter. It takes turns with the users' requests, all observers of a listener as one user.
#[derive(Debug, Clone)]
pub struct Observer(Arc<Shared>);

impl Observer {
    pub(super) fn new(shared: &Arc<Shared>) -> Observer {
        Observer(Arc::clone(shared))
    }

    /// The state, as [`Connection::status`](crate::Connection::status) gives it. `None` when the NIC has ended.
    ///
    /// Waits for the thread that calls [`Listener::poll`](super::Listener::poll): not to be called there.
    pub fn status(&self) -> Option<Status> {
        let mut status = self.page(Cursor::default())?;
        while let Some(from) = status.next {
            status.append(self.page(from)?).ok()?;
        }
        Some(status)
    }

    fn page(&self, from: Cursor) -> Option<Status> {
        match self.0.inbox.ask(NOBODY, Event::Status(from))? {
            Reply::Status(status) => Some(*status),
            _ => None,
        }
    }
}
