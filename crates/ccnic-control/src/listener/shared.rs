//! What the threads of a listener share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ClientId;
use crate::account::Account;
use crate::connection::Connection;
use crate::inbox::Inbox;
use crate::log_limit::UserLogs;

/// Shared by the listener, its accepting thread and the threads of connections.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) account: Arc<Account>,
    pub(crate) inbox: Inbox,
    pub(crate) logs: UserLogs,
    connections: Mutex<HashMap<ClientId, Arc<Connection>>>,
}

impl Shared {
    pub(crate) fn new(account: Arc<Account>, inbox: Inbox) -> Shared {
        Shared { account, inbox, logs: UserLogs::default(), connections: Mutex::default() }
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<ClientId, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection to those that end with the listener. Its thread removes it before it closes it.
    pub(crate) fn add(&self, id: ClientId, connection: &Arc<Connection>) {
        self.connections().insert(id, Arc::clone(connection));
    }

    pub(crate) fn remove(&self, id: ClientId) {
        let connection = self.connections().remove(&id);
        drop(connection); // not the last reference: its thread calls
    }

    /// Ends all connections. Their threads close them.
    pub(crate) fn hang_up(&self) {
        self.connections().values().for_each(|connection| connection.hang_up());
    }
}
