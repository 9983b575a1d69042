//! The thread that reads a NIC's status again and again. The terminal never waits for a NIC that does not answer.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ccnic_control::Connection;
use ccnic_control::messages::Status;

/// What a look at the NIC has come to: its status, or why there is none.
pub type Reading = Result<Status, String>;

/// Readings of a NIC. The thread ends some time after this is dropped: as soon as the NIC answers, or will not.
#[derive(Debug)]
pub struct Feed {
    readings: Receiver<Reading>,
    period: Sender<Duration>,
}

impl Feed {
    /// Reads the status of the NIC at `socket` now and then every `period`.
    ///
    /// # Errors
    /// When the system can start no thread.
    pub fn start(socket: PathBuf, period: Duration) -> std::io::Result<Feed> {
        let (to, readings) = channel();
        let (periods, changes) = channel();
        std::thread::Builder::new()
            .name("status".to_owned())
            .spawn(move || read_again_and_again(&socket, period, &changes, &to))?;
        Ok(Feed { readings, period: periods })
    }

    /// Readings since the last call.
    pub fn readings(&self) -> impl Iterator<Item = Reading> {
        self.readings.try_iter()
    }

    /// Reads it every `period` from now on.
    pub fn set_period(&self, period: Duration) {
        let _ = self.period.send(period); // a thread that has panicked reads nothing more
    }
}

fn read_again_and_again(
    socket: &Path,
    mut period: Duration,
    changes: &Receiver<Duration>,
    to: &Sender<Reading>,
) {
    let mut connection = None;
    loop {
        let read_at = Instant::now();
        if to.send(read(socket, &mut connection)).is_err() {
            return;
        }
        loop {
            let left = (read_at + period).saturating_duration_since(Instant::now());
            match changes.recv_timeout(left) {
                Ok(other) => period = other,
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// Reads the status by a connection that is kept as long as it works.
fn read(socket: &Path, kept: &mut Option<Connection>) -> Reading {
    let mut read = || {
        let connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(socket)?,
        };
        let status = connection.status()?;
        *kept = Some(connection);
        Ok(status)
    };
    read().map_err(|e: ccnic_control::Error| e.to_string())
}
