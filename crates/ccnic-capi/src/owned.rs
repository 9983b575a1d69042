//! A queue that an attachment owns and a thread of the program uses. It is never freed before its owner: a closed one says so.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue that can be closed, and opened again.
pub(crate) trait Openable {
    /// True while it is open; for the owner to look at while the queue's thread is at work.
    fn in_use(&self) -> &Arc<AtomicBool>;
    /// Opens it again.
    fn reopen(&mut self);
}

/// A queue, its owner's handle.
#[derive(Debug)]
pub(crate) struct Owned<Q> {
    queue: NonNull<Q>,
    in_use: Arc<AtomicBool>,
}

// SAFETY: a queue has no thread affinity, only one user at a time (the contract of the headers).
unsafe impl<Q: Send> Send for Owned<Q> {}

impl<Q: Openable> Owned<Q> {
    pub(crate) fn new(queue: Q) -> Owned<Q> {
        let in_use = Arc::clone(queue.in_use());
        Owned { queue: NonNull::from(Box::leak(Box::new(queue))), in_use }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    /// What its thread uses; valid as long as this lives.
    pub(crate) fn handle(&self) -> NonNull<Q> {
        self.queue
    }

    /// Opens a closed queue again.
    pub(crate) fn reopen(&mut self) -> NonNull<Q> {
        // SAFETY: closed, so no thread uses it.
        unsafe { self.queue.as_mut() }.reopen();
        self.queue
    }
}

impl<Q> Drop for Owned<Q> {
    fn drop(&mut self) {
        // SAFETY: made by `new` from a box, freed here alone; no thread uses it any more (its owner has checked that).
        drop(unsafe { Box::from_raw(self.queue.as_ptr()) });
    }
}
