//! `struct ccnic_pool`: allocates and frees the buffers of an attachment without a queue.

use std::mem::MaybeUninit;
use std::sync::Arc;

use ccnic::host;
use ccnic::{Burst, Desc};
use ccnic_shm::NativeMemory;

use crate::abi::{ADOPT, CcnicBuf, hand_out};
use crate::errno::{BAD_BUFFER, Failure};
use crate::handle::handles;
use crate::held::{Fate, Held};

/// `struct ccnic_pool`. One thread uses it at a time, as with a queue; it stays until the attachment is closed.
#[derive(Debug)]
pub struct CcnicPool {
    pub(crate) pool: host::Pool<NativeMemory>,
    burst: Burst,
    /// In the debug mode.
    held: Option<Arc<Held>>,
}

handles!(CcnicPool);

impl CcnicPool {
    pub(crate) fn new(pool: host::Pool<NativeMemory>, held: Option<Arc<Held>>) -> CcnicPool {
        CcnicPool { pool, burst: Burst::new(), held }
    }

    /// Frees the buffers of the magazine. The pool can be opened again.
    pub(crate) fn close(&mut self) {
        self.pool.retire();
    }

    /// Allocates large buffers, as many as `out` has entries.
    pub(crate) fn alloc(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> usize {
        let mut done = 0;
        for out in out.chunks_mut(Burst::CAPACITY) {
            let got = self.pool.alloc(out.len(), &mut self.burst);
            done += hand_out(&mut self.burst, out);
            if got < out.len() {
                break;
            }
        }
        if let Some(held) = &self.held {
            held.take_written(out, done);
        }
        done
    }

    /// Frees all buffers. Handles that name no buffer are skipped; they are an error.
    pub(crate) fn free(&mut self, mut bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        if let Some(held) = &self.held {
            held.give("ccnic_pool_free", Fate::Freed, bufs)?;
        }
        let mut bad = false;
        while !bufs.is_empty() {
            let n = self.pool.free(bufs.iter().map(|buf| Desc::from(*buf)), &mut self.burst, ADOPT);
            // A bad handle ends the burst before it, so it is the first one of the next burst.
            bad |= n == 0;
            bufs = bufs.get(n.max(1)..).unwrap_or_default();
        }
        if bad { Err(BAD_BUFFER) } else { Ok(0) }
    }
}
