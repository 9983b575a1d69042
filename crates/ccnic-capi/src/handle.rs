//! Handles that C holds by pointer, and a check that notices a stale one.
//!
//! A handle points into a [`Slot`], whose memory is never given back: whatever a program does with the pointer, the state beside the object
//! can be read, and says whether the object is open. A closed one has all calls refused (-EBADF). A queue or pool that is closed stays, since
//! recovery needs its ledger, and may be opened again; it goes with its owner (an attachment, a program). The slot of an object that has gone
//! is used again when [`REST`] others of its kind have gone after it: until then each stale pointer is noticed.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::errno::{CLOSED, Failure, NULL};

/// Slots of each kind that rest before one is used again.
const REST: usize = 64;

const OPEN: u32 = u32::from_le_bytes(*b"open");
/// The object is there, and refuses calls.
const SHUT: u32 = u32::from_le_bytes(*b"shut");
/// There is no object.
const GONE: u32 = u32::from_le_bytes(*b"gone");

/// The state before the object: in the line that a burst reads first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot<T> {
    state: AtomicU32,
    object: MaybeUninit<T>,
}

/// The slots of one kind whose objects have gone, the oldest first.
#[derive(Debug)]
pub(crate) struct Resting<T>(Mutex<VecDeque<SlotPointer<T>>>);

#[derive(Debug)]
struct SlotPointer<T>(NonNull<Slot<T>>);

// SAFETY: nobody but the list has the slot, in which there is no object.
unsafe impl<T> Send for SlotPointer<T> {}

impl<T> Resting<T> {
    pub(crate) const fn new() -> Resting<T> {
        Resting(Mutex::new(VecDeque::new()))
    }
}

/// An object that C holds by pointer.
pub(crate) trait Handle: Sized + 'static {
    /// Its free slots.
    fn resting() -> &'static Resting<Self>;
}

/// Makes types handles.
macro_rules! handles {
    ($($type:ty),*) => {$(
        impl crate::handle::Handle for $type {
            fn resting() -> &'static crate::handle::Resting<$type> {
                static RESTING: crate::handle::Resting<$type> = crate::handle::Resting::new();
                &RESTING
            }
        }
    )*};
}
pub(crate) use handles;

/// The slot of an object.
#[inline(always)]
fn slot<T>(object: *const T) -> *mut Slot<T> {
    object.cast_mut().wrapping_byte_sub(std::mem::offset_of!(Slot<T>, object)).cast()
}

/// The state of the object that a handle points to.
///
/// # Safety
/// The pointer came from this library, as a handle of this type. Its object may have gone.
#[inline(always)]
unsafe fn state<'a, T>(object: *const T) -> &'a AtomicU32 {
    // SAFETY: slots are never freed, and their states are accessed as atomics only.
    unsafe { &(*slot(object)).state }
}

/// The open object that a handle points to.
///
/// # Safety
/// Null, or a handle of this type that this library has given out, closed or not. If it is open, no thread closes it, or has it
/// [exclusively](exclusive), while the reference is used.
#[inline(always)]
pub(crate) unsafe fn shared<'a, T>(handle: *const T) -> Result<&'a T, Failure> {
    if handle.is_null() {
        return Err(NULL);
    }
    // SAFETY: guaranteed by the caller; an object that is open is there.
    unsafe { if state(handle).load(Ordering::Acquire) == OPEN { Ok(&*handle) } else { Err(CLOSED) } }
}

/// The open object that a handle points to, for the thread that it belongs to.
///
/// # Safety
/// As [`shared`]; no other thread uses it.
#[inline(always)]
pub(crate) unsafe fn exclusive<'a, T>(handle: *mut T) -> Result<&'a mut T, Failure> {
    if handle.is_null() {
        return Err(NULL);
    }
    // SAFETY: as in `shared`, and nobody else uses it.
    unsafe { if state(handle).load(Ordering::Acquire) == OPEN { Ok(&mut *handle) } else { Err(CLOSED) } }
}

/// Finds a handle open whose fields several threads use.
///
/// # Safety
/// Null, or a handle of this type that this library has given out.
pub(crate) unsafe fn check<T>(handle: *const T) -> Result<(), Failure> {
    // SAFETY: guaranteed by the caller.
    if !handle.is_null() && unsafe { state(handle) }.load(Ordering::Acquire) != OPEN {
        return Err(CLOSED);
    }
    if handle.is_null() { Err(NULL) } else { Ok(()) }
}

/// Shuts an open object, after `close` has done what that takes; it stays where it is.
///
/// # Safety
/// As [`exclusive`].
pub(crate) unsafe fn shut<T>(handle: *mut T, close: impl FnOnce(&mut T)) -> Result<(), Failure> {
    // SAFETY: guaranteed by the caller.
    close(unsafe { exclusive(handle)? });
    // SAFETY: a handle.
    unsafe { state(handle) }.store(SHUT, Ordering::Release);
    Ok(())
}

/// The owner of an object that C has a handle of. Dropping it drops the object; the memory stays.
#[derive(Debug)]
pub(crate) struct Owned<T: Handle>(NonNull<T>);

// SAFETY: the objects have no thread affinity; one thread uses an object at a time (the contract of the headers).
unsafe impl<T: Handle + Send> Send for Owned<T> {}

impl<T: Handle> Owned<T> {
    /// Takes over an object, which is open.
    pub(crate) fn new(object: T) -> Owned<T> {
        let mut resting = T::resting().0.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = if resting.len() >= REST { resting.pop_front() } else { None };
        drop(resting);
        let slot = rested.map(|rested| rested.0).unwrap_or_else(|| {
            let new = Slot { state: AtomicU32::new(GONE), object: MaybeUninit::uninit() };
            NonNull::from(Box::leak(Box::new(new)))
        });
        // SAFETY: nobody else has the slot, and it is never freed; the place of the object lies in it.
        let place = unsafe { NonNull::new_unchecked((&raw mut (*slot.as_ptr()).object).cast::<T>()) };
        // SAFETY: as above; there is no object yet.
        unsafe {
            place.write(object);
            state(place.as_ptr()).store(OPEN, Ordering::Release);
        }
        Owned(place)
    }

    /// The owner of an open object of which C has the only pointer: who closes it.
    ///
    /// # Safety
    /// As [`exclusive`], and the handle is one that [`into_handle`](Owned::into_handle) gave.
    pub(crate) unsafe fn take(handle: *mut T) -> Result<Owned<T>, Failure> {
        let handle = NonNull::new(handle).ok_or(NULL)?;
        // SAFETY: a handle. Of two threads that close it at once, one finds it open.
        let found = unsafe { state(handle.as_ptr()) }.compare_exchange(
            OPEN,
            SHUT,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if found.is_ok() { Ok(Owned(handle)) } else { Err(CLOSED) }
    }

    /// Gives the object to C, which is to close it.
    pub(crate) fn into_handle(self) -> *mut T {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    pub(crate) fn is_open(&self) -> bool {
        // SAFETY: a handle.
        unsafe { state(self.0.as_ptr()) }.load(Ordering::Acquire) == OPEN
    }

    /// The pointer that C gets.
    pub(crate) fn as_ptr(&self) -> NonNull<T> {
        self.0
    }

    /// Opens a shut object again.
    pub(crate) fn reopen(&mut self) -> NonNull<T> {
        // SAFETY: a handle.
        unsafe { state(self.0.as_ptr()) }.store(OPEN, Ordering::Release);
        self.0
    }
}

impl<T: Handle> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the object is there until here, and its owner has checked that no thread uses it. Zeroes: the inline functions of the
        // headers then find no buffers.
        unsafe {
            state(self.0.as_ptr()).store(GONE, Ordering::Release);
            self.0.drop_in_place();
            self.0.write_bytes(0, 1);
        }
        let slot = NonNull::new(slot(self.0.as_ptr())).map(SlotPointer);
        T::resting().0.lock().unwrap_or_else(PoisonError::into_inner).extend(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Object(#[expect(dead_code, reason = "counted")] Arc<()>, u64);

    handles!(Object);

    #[test]
    fn a_shut_object_stays_until_its_owner_goes() {
        let count = Arc::new(());
        let mut owned = Owned::new(Object(Arc::clone(&count), 7));
        let handle = owned.as_ptr().as_ptr();
        // SAFETY: a handle, used by this thread only.
        unsafe {
            assert_eq!(shared(handle).map(|object| object.1), Ok(7));
            assert_eq!(shut(handle, |object| object.1 = 8), Ok(()));
            assert_eq!(shut(handle, |_| ()), Err(CLOSED));
            assert_eq!((exclusive(handle).map(|_| ()), owned.is_open()), (Err(CLOSED), false));
            assert_eq!((owned.reopen().as_ptr(), exclusive(handle).map(|object| object.1)), (handle, Ok(8)));
        }
        drop(owned);
        assert_eq!(Arc::strong_count(&count), 1);
        // SAFETY: a handle, whose object has gone.
        unsafe {
            assert_eq!(shared(handle).map(|_| ()), Err(CLOSED));
            assert_eq!(shared(std::ptr::null::<Object>()).map(|_| ()), Err(NULL));
            assert!(Owned::take(handle).is_err(), "closed twice");
        }
    }

    struct Other(u64);

    handles!(Other);

    #[test]
    fn a_stale_handle_is_noticed_until_many_others_have_gone() {
        let first = Owned::new(Other(0)).into_handle();
        // SAFETY: handles, used by this thread only.
        unsafe {
            drop(Owned::take(first).unwrap());
            for i in 1..REST {
                let next = Owned::new(Other(i as u64)).into_handle();
                assert!(next != first && shared(first).is_err() && Owned::take(first).is_err());
                assert_eq!(shared(next).map(|other| other.0), Ok(i as u64));
                drop(Owned::take(next).unwrap());
            }
        }
        assert_eq!(Owned::new(Other(0)).as_ptr().as_ptr(), first, "and then its memory is used again");
    }
}
