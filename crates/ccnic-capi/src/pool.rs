//! `struct ccnic_pool`: buffers of a NIC without a queue.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccnic::host;
use ccnic::{Burst, Desc};
use ccnic_shm::NativeMemory;

use crate::abi::CcnicBuf;
use crate::errno::Failure;
use crate::owned::Openable;
use crate::queue::{BAD_BUFFER, CLOSED, write};

/// A handle on the buffers of a NIC. Belongs to one thread at a time, as a queue does.
#[derive(Debug)]
pub struct Pool {
    /// False between closing and opening again.
    open: bool,
    /// The same, for the NIC to look at while the pool's thread is at work.
    in_use: Arc<AtomicBool>,
    pub(crate) pool: host::Pool<NativeMemory>,
    burst: Burst,
}

impl Openable for Pool {
    fn in_use(&self) -> &Arc<AtomicBool> {
        &self.in_use
    }

    fn reopen(&mut self) {
        self.open = true;
        self.in_use.store(true, Ordering::Release);
    }
}

impl Pool {
    pub(crate) fn new(pool: host::Pool<NativeMemory>) -> Pool {
        Pool { open: true, in_use: Arc::new(AtomicBool::new(true)), pool, burst: Burst::new() }
    }

    fn check_open(&self) -> Result<(), Failure> {
        if self.open { Ok(()) } else { Err(CLOSED) }
    }

    /// Returns what this handle keeps to the pool. It can be opened again.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        self.check_open()?;
        self.pool.retire();
        self.open = false;
        self.in_use.store(false, Ordering::Release);
        Ok(())
    }

    /// Allocates large buffers, as many as `out` has places for.
    pub(crate) fn alloc(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        self.check_open()?;
        let mut done = 0;
        for out in out.chunks_mut(Burst::CAPACITY) {
            let got = self.pool.alloc(out.len(), &mut self.burst);
            done += write(&mut self.burst, out);
            if got < out.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Frees all buffers; those that name none are skipped and are an error.
    pub(crate) fn free(&mut self, mut bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        self.check_open()?;
        let mut bad = false;
        while !bufs.is_empty() {
            let n = self.pool.free(bufs.iter().map(|buf| Desc::from(*buf)), &mut self.burst);
            // When none was freed, the first is bad: whatever stops a burst stands first in the next.
            bad |= n == 0;
            bufs = bufs.get(n.max(1)..).unwrap_or_default();
        }
        if bad { Err(BAD_BUFFER) } else { Ok(0) }
    }
}
