//! Snapshots while the server runs, by a thread of their own: at an interval, and when somebody asks.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::{Options, say, unix_time};
use crate::store::{Store, snapshot};

/// As good as no interval.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// The thread.
#[derive(Debug)]
pub(crate) struct Snapshots {
    ask: Sender<()>,
    thread: JoinHandle<()>,
}

impl Snapshots {
    /// Starts it, where there is a file.
    pub(crate) fn start(options: &Options, store: &Arc<Store>) -> io::Result<Option<Snapshots>> {
        if options.snapshot.is_none() {
            return Ok(None);
        }
        let (ask, asked) = channel();
        let (options, store) = (options.clone(), store.clone());
        let every = options.snapshot_every.map_or(NEVER, |seconds| Duration::from_secs(seconds.into()));
        let run = move || {
            let mut last = Instant::now();
            loop {
                match asked.recv_timeout((last + every).saturating_duration_since(Instant::now())) {
                    Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                last = Instant::now();
                // One that fails is told, and nothing else: the one before it is still there.
                if let Err(error) = save(&options, &store) {
                    eprintln!("ccnic-kv: {error:#}");
                }
            }
        };
        let thread = Builder::new().name("kv-snapshot".into()).spawn(run)?;
        Ok(Some(Snapshots { ask, thread }))
    }

    /// One is written soon.
    pub(crate) fn ask(&self) {
        // The thread ends only when this is dropped.
        let _ = self.ask.send(());
    }

    /// Waits for the one that is being written.
    pub(crate) fn end(self) {
        drop(self.ask);
        let _ = self.thread.join();
    }
}

/// Writes one now.
pub(crate) fn save(options: &Options, store: &Store) -> anyhow::Result<()> {
    let Some(path) = &options.snapshot else { return Ok(()) };
    let items = snapshot::save(&mut store.session(unix_time()), path).context("--snapshot")?;
    say(options, &format!("{items} items written to {}", path.display()));
    Ok(())
}
