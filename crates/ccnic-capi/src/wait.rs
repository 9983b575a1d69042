//! Waiting for packets: first by polling, then by sleeping on the control connection, whose end says that the NIC has gone.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::errno::Failure;
use crate::queue::Queue;

/// Turns of polling before the first nap: some ten microseconds, longer than any round trip under way takes.
const TURNS: u32 = 1000;
/// The first nap; each is twice as long as the one before.
const SHORTEST: Duration = Duration::from_micros(10);
/// The longest nap: what a packet waits at most for a program that has waited long.
const LONGEST: Duration = Duration::from_millis(1);

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
    let mut nap = SHORTEST;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let gone = sleep(queue, left.map_or(nap, |left| left.min(nap)))?;
        let n = queue.ready()?;
        if n > 0 {
            return Ok(n); // what the NIC delivered before it went is not lost
        }
        if gone {
            return Err(GONE);
        }
        if left == Some(Duration::ZERO) {
            return Ok(0);
        }
        nap = (nap * 2).min(LONGEST);
    }
}

/// Sleeps for `nap`, less when the NIC goes meanwhile; then true.
fn sleep(queue: &Queue, nap: Duration) -> Result<bool, Failure> {
    let mut fds = [PollFd::new(&queue.control, PollFlags::RDHUP)];
    let nap = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) }; // at most LONGEST
    match poll(&mut fds, Some(&nap)) {
        Ok(n) => Ok(n > 0),
        Err(Errno::INTR) => Err(Failure::new(Errno::INTR, c"a signal came while waiting")),
        Err(errno) => Err(Failure::new(errno, c"could not wait for the NIC")),
    }
}
