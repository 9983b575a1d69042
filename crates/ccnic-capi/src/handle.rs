//! Objects that C holds by pointer: queues and pools. Their owner (an attachment, a program) allocates them once and frees
//! them when it is closed itself. A closed one stays in memory and refuses calls, and may be opened again.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An object that can be closed and opened again.
pub(crate) trait Reopen {
    /// Its state.
    fn state(&mut self) -> &mut OpenState;
}

/// Whether an object is open. Its thread reads a plain flag in every call; the owner, on any thread, reads an atomic copy.
#[derive(Debug)]
pub(crate) struct OpenState {
    open: bool,
    published: Arc<AtomicBool>,
}

impl OpenState {
    /// Open.
    pub(crate) fn new() -> OpenState {
        OpenState { open: true, published: Arc::new(AtomicBool::new(true)) }
    }

    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn set(&mut self, open: bool) {
        self.open = open;
        self.published.store(open, Ordering::Release);
    }
}

/// The owner's handle on an object.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    object: NonNull<T>,
    open: Arc<AtomicBool>,
}

// SAFETY: the objects have no thread affinity; one thread uses an object at a time (the contract of the headers).
unsafe impl<T: Send> Send for Owned<T> {}

impl<T: Reopen> Owned<T> {
    /// Takes over an open object.
    pub(crate) fn new(mut object: T) -> Owned<T> {
        let open = Arc::clone(&object.state().published);
        Owned { object: NonNull::from(Box::leak(Box::new(object))), open }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The pointer that C gets; valid until this is dropped.
    pub(crate) fn as_ptr(&self) -> NonNull<T> {
        self.object
    }

    /// Opens a closed object again.
    pub(crate) fn reopen(&mut self) -> NonNull<T> {
        // SAFETY: it is closed, so no thread uses it.
        unsafe { self.object.as_mut() }.state().set(true);
        self.object
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: made by `new` from a box and freed only here; its owner has checked that no thread uses it.
        drop(unsafe { Box::from_raw(self.object.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Object {
        state: OpenState,
        dropped: Arc<AtomicBool>,
    }

    impl Reopen for Object {
        fn state(&mut self) -> &mut OpenState {
            &mut self.state
        }
    }

    impl Drop for Object {
        fn drop(&mut self) {
            self.dropped.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_closed_object_stays_until_its_owner_goes() {
        let dropped = Arc::new(AtomicBool::new(false));
        let mut owned = Owned::new(Object { state: OpenState::new(), dropped: Arc::clone(&dropped) });
        let mut pointer = owned.as_ptr();
        assert!(owned.is_open());
        // SAFETY: alive, used by this thread only.
        unsafe { pointer.as_mut() }.state.set(false);
        assert!(!owned.is_open() && !dropped.load(Ordering::Relaxed));
        assert_eq!(owned.reopen(), pointer);
        // SAFETY: as above.
        assert!(owned.is_open() && unsafe { pointer.as_ref() }.state.is_open());
        drop(owned);
        assert!(dropped.load(Ordering::Relaxed));
    }
}
