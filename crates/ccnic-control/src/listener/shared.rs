//! What the threads of a listener share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    /// Of connections, and of the one that waits for the next.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    pub(crate) fn new(account: Arc<Account>, inbox: Inbox) -> Shared {
        Shared {
            account,
            inbox,
            logs: UserLogs::default(),
            connections: Mutex::default(),
            threads: Mutex::default(),
        }
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

    /// Adds a thread to those that are waited for at the end, for a while; forgets those that have ended.
    pub(crate) fn add_thread(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Waits until all threads have ended, but not beyond `deadline`.
    pub(crate) fn wait_for_threads(&self, deadline: Instant) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                let _ = thread.join(); // a panic has been printed by the thread itself
            }
        }
    }
}
