//! Waiting for packets: first by polling, then asleep until the NIC wakes this thread or goes.

use std::time::{Duration, Instant};

use ccnic_client::Error;
use rustix::io::Errno;

use crate::errno::Failure;
use crate::queue::Queue;

/// Turns of polling before the thread goes to sleep: some ten microseconds, longer than any round trip under way takes.
const TURNS: u32 = 1000;

const GONE: Failure =
    Failure::new(Errno::NOTCONN, c"the NIC has gone; ccnic_reconnect attaches to its successor");

/// Waits until buffers are ready, and returns how many; 0 when `timeout` is over (`None`: never).
pub(crate) fn wait(queue: &mut Queue, timeout: Option<Duration>) -> Result<usize, Failure> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let over = || end.is_some_and(|end| Instant::now() >= end);
    for turn in 0..TURNS {
        let n = queue.ready()?;
        if n > 0 {
            return Ok(n);
        }
        if turn % 32 == 0 && over() {
            break;
        }
        queue.pair.relax();
    }
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let woken = queue.pair.wait(left);
        // What the NIC delivered before it went is not lost; a broken one may wake us for what is no packet.
        let n = queue.ready()?;
        match woken {
            Ok(()) if n == 0 => {}
            Err(Error::Gone) if n == 0 => return Err(GONE),
            Ok(()) | Err(Error::Gone | Error::TimedOut) => return Ok(n),
            Err(error) => return Err(error.into()),
        }
    }
}
