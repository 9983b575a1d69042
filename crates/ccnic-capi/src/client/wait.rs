//! `ccnic_wait`: polls for a while, then blocks until the NIC sends a notification or ends.

use std::time::{Duration, Instant};

use ccnic_client::Error;
use rustix::io::Errno;

use super::queue::CcnicQueue;
use crate::errno::Failure;

/// Polls before the thread blocks: some ten microseconds, longer than a round trip to the NIC.
const POLLS: u32 = 1000;

const GONE: Failure =
    Failure::new(Errno::NOTCONN, c"the NIC has ended; ccnic_reconnect attaches to its successor");

/// Waits until buffers can be received, and returns how many; 0 after `timeout` (`None`: no limit).
pub(crate) fn wait(queue: &mut CcnicQueue, timeout: Option<Duration>) -> Result<usize, Failure> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let over = || end.is_some_and(|end| Instant::now() >= end);
    for poll in 0..POLLS {
        let n = queue.park();
        if n > 0 {
            return Ok(n);
        }
        if poll % 32 == 0 && over() {
            break;
        }
        queue.pair.relax();
    }
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let notified = queue.pair.wait(left);
        // Packets that the NIC delivered before it ended are still received. A broken NIC may notify without a packet.
        let n = queue.park();
        match notified {
            Ok(()) if n == 0 => {}
            Err(Error::Gone) if n == 0 => return Err(GONE),
            Ok(()) | Err(Error::Gone | Error::TimedOut) => return Ok(n),
            Err(error) => return Err(error.into()),
        }
    }
}
