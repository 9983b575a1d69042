//! `struct ccnic_pool`: allocates and frees the buffers of an attachment without a queue.

use std::mem::MaybeUninit;

use ccnic::host;
use ccnic::{Burst, Desc};
use ccnic_shm::NativeMemory;

use crate::abi::{CcnicBuf, hand_out};
use crate::errno::{BAD_BUFFER, CLOSED, Failure};
use crate::handle::{OpenState, Reopen};

/// `struct ccnic_pool`. One thread uses it at a time, as with a queue; its memory stays until the attachment is closed.
#[derive(Debug)]
pub struct CcnicPool {
    state: OpenState,
    pub(crate) pool: host::Pool<NativeMemory>,
    burst: Burst,
}

impl Reopen for CcnicPool {
    fn state(&mut self) -> &mut OpenState {
        &mut self.state
    }
}

impl CcnicPool {
    pub(crate) fn new(pool: host::Pool<NativeMemory>) -> CcnicPool {
        CcnicPool { state: OpenState::new(), pool, burst: Burst::new() }
    }

    fn check_open(&self) -> Result<(), Failure> {
        if self.state.is_open() { Ok(()) } else { Err(CLOSED) }
    }

    /// Frees the buffers of the magazine. The pool can be opened again.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        self.check_open()?;
        self.pool.retire();
        self.state.set(false);
        Ok(())
    }

    /// Allocates large buffers, as many as `out` has entries.
    pub(crate) fn alloc(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        self.check_open()?;
        let mut done = 0;
        for out in out.chunks_mut(Burst::CAPACITY) {
            let got = self.pool.alloc(out.len(), &mut self.burst);
            done += hand_out(&mut self.burst, out);
            if got < out.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Frees all buffers. Handles that name no buffer are skipped; they are an error.
    pub(crate) fn free(&mut self, mut bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        self.check_open()?;
        let mut bad = false;
        while !bufs.is_empty() {
            let n = self.pool.free(bufs.iter().map(|buf| Desc::from(*buf)), &mut self.burst);
            // A bad handle ends the burst before it, so it is the first one of the next burst.
            bad |= n == 0;
            bufs = bufs.get(n.max(1)..).unwrap_or_default();
        }
        if bad { Err(BAD_BUFFER) } else { Ok(0) }
    }
}
