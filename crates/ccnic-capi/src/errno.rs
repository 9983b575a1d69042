//! Errors for C: a negative errno value, and a text with the details, kept per thread for `ccnic_last_error`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;

thread_local! {
    static LAST: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"no error")) };
}

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    errno: Errno,
    text: Cow<'static, CStr>,
}

impl Failure {
    /// A failure with a static text. Bursts use only this one: it allocates nothing.
    pub(crate) const fn new(errno: Errno, text: &'static CStr) -> Failure {
        Failure { errno, text: Cow::Borrowed(text) }
    }

    /// A failure whose text is made at run time. A NUL in it becomes a question mark.
    pub(crate) fn with_text(errno: Errno, text: &str) -> Failure {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        Failure { errno, text: Cow::Owned(text) }
    }

    /// Keeps the text for `ccnic_last_error`; returns what the C function returns.
    #[cold]
    pub(crate) fn report(self) -> c_int {
        let text = self.text;
        // Fails while the thread ends and its locals have been destroyed; then no one can read the text.
        let _ = LAST.try_with(|last| last.replace(text));
        -self.errno.raw_os_error()
    }

    /// What the C function would return.
    #[cfg(test)]
    pub(crate) fn code(&self) -> c_int {
        -self.errno.raw_os_error()
    }
}

/// An argument that must not be NULL is NULL.
pub(crate) const NULL: Failure = Failure::new(Errno::INVAL, c"an argument that must not be NULL is NULL");
pub(crate) const CLOSED: Failure = Failure::new(Errno::BADF, c"the handle has been closed: open another one");
pub(crate) const BAD_BUFFER: Failure =
    Failure::new(Errno::FAULT, c"a buffer handle names no bytes of this NIC's buffers");
pub(crate) const NO_END: Failure =
    Failure::new(Errno::INVAL, c"the last packet has no end: its last buffer must not be marked `more`");
pub(crate) const TOO_FEW_ENTRIES: Failure =
    Failure::new(Errno::INVAL, c"n is too small for one packet, which takes CCNIC_SEGMENTS(len) buffers");
pub(crate) const TOO_LONG: Failure =
    Failure::new(Errno::MSGSIZE, c"a packet is longer than the MTU, or has more than 8 buffers");

pub(crate) const EMPTY: Failure =
    Failure::new(Errno::INVAL, c"a packet has no bytes, or a segment without data");
pub(crate) const NOT_SHARED: Failure = Failure::new(
    Errno::OPNOTSUPP,
    c"this program manages its buffers itself (CCNIC_HOST_MANAGED, e810): only ccnic_nic_tx_copy reaches it",
);
pub(crate) const NOT_ONE_ROOM: Failure = Failure::new(
    Errno::MSGSIZE,
    c"the next packet is longer than a room, or a chain: use ccnic_nic_rx_burst()",
);

impl From<ccnic_client::Error> for Failure {
    fn from(error: ccnic_client::Error) -> Failure {
        use ccnic_client::Error;
        let errno = match &error {
            Error::Unreachable { errno, .. } | Error::Os { errno, .. } => *errno,
            Error::Region(error) => region(error),
            Error::Control(error) => control(error),
            Error::Refused { .. } => Errno::PERM,
            Error::Gone | Error::ServerGone => Errno::CONNRESET,
            Error::Call { .. } => Errno::PROTO,
            Error::TimedOut => Errno::TIMEDOUT,
            Error::Protocol { .. } => Errno::PROTO,
            Error::QueueTaken { .. } => Errno::BUSY,
            Error::StillAlive => Errno::ISCONN,
            Error::NoRss | Error::NoFlows => Errno::OPNOTSUPP,
            Error::Config(_)
            | Error::Rss { .. }
            | Error::Flow { .. }
            | Error::Tuning { .. }
            | Error::NoQueue { .. }
            | Error::WrongDesign { .. }
            | Error::PairsMissing { .. } => Errno::INVAL,
            _ => Errno::IO,
        };
        Failure::with_text(errno, &error.to_string())
    }
}

impl From<ccnic_nic::Error> for Failure {
    fn from(error: ccnic_nic::Error) -> Failure {
        use ccnic_nic::Error;
        let errno = match error {
            Error::Control(ref error) => control(error),
            Error::Tuning(error) => return error.into(),
            Error::Sigbus(ref error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
            Error::Polled | Error::QueueTaken { .. } => Errno::BUSY,
            Error::NoQueue { .. } => Errno::INVAL,
            Error::Silent => Errno::AGAIN,
            Error::NoDescriptor(errno) => errno,
        };
        Failure::with_text(errno, &error.to_string())
    }
}

impl From<ccnic_nic::BurstError> for Failure {
    /// Allocates nothing.
    #[cold]
    fn from(error: ccnic_nic::BurstError) -> Failure {
        use ccnic_nic::BurstError;
        match error {
            BurstError::BadBuffer => BAD_BUFFER,
            BurstError::TooLong => TOO_LONG,
            BurstError::NoEnd => NO_END,
            BurstError::TooFewEntries => TOO_FEW_ENTRIES,
            BurstError::Empty => EMPTY,
            BurstError::NotShared => NOT_SHARED,
            BurstError::NotOneRoom => NOT_ONE_ROOM,
        }
    }
}

fn control(error: &ccnic_control::Error) -> Errno {
    use ccnic_control::Error;
    match error {
        Error::Unreachable { errno, .. } | Error::Os { errno, .. } => *errno,
        Error::Socket { errno, .. } => *errno,
        Error::Refused { .. } => Errno::PERM,
        Error::NoAnswer { .. } => Errno::TIMEDOUT,
        Error::Gone => Errno::CONNRESET,
        Error::Protocol { .. } => Errno::PROTO,
        Error::Region(error) => region(error),
    }
}

fn region(error: &ccnic_shm::Error) -> Errno {
    use ccnic_shm::Error;
    match error {
        Error::TooLarge { .. } | Error::TooMuch { .. } => Errno::TOOBIG,
        Error::NotARegion { .. } => Errno::INVAL,
        Error::Os { errno, .. } => *errno,
    }
}

/// The text of this thread's last failure.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"this thread is ending".as_ptr())
}

const DEFECT: Failure =
    Failure::new(Errno::NOTRECOVERABLE, c"a defect in libccnic: please report what it printed");

/// Runs a call that is not a burst. A panic becomes -ENOTRECOVERABLE.
pub(crate) fn guard(call: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(n)) => n,
        Ok(Err(failure)) => failure.report(),
        Err(_) => DEFECT.report(),
    }
}

/// Runs a burst. Its hot path contains no panic; a panic in the parts that are out of line is caught, too.
#[inline(always)]
pub(crate) fn burst(call: impl FnOnce() -> Result<usize, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(n)) => n as c_int,
        Ok(Err(failure)) => failure.report(),
        Err(_) => DEFECT.report(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_text() -> String {
        // SAFETY: `last` gives a string that is valid until this thread's next failure.
        unsafe { CStr::from_ptr(last()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_failure_is_a_negative_errno_and_a_text_of_its_thread() {
        assert_eq!(guard(|| Err(CLOSED)), -Errno::BADF.raw_os_error());
        assert!(last_text().contains("closed"));
        assert_eq!(burst(|| Err(Failure::with_text(Errno::INVAL, "a\0b"))), -Errno::INVAL.raw_os_error());
        assert_eq!(last_text(), "a?b");
        let other = std::thread::spawn(last_text).join().unwrap();
        assert_eq!(other, "no error");
        assert_eq!((guard(|| Ok(7)), burst(|| Ok(8))), (7, 8));
        assert_eq!(last_text(), "a?b", "success leaves the text");
    }

    #[test]
    fn a_panic_does_not_leave_the_library() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let codes = (guard(|| panic!("on purpose")), burst(|| panic!("on purpose")));
        std::panic::set_hook(hook);
        assert_eq!(codes, (-Errno::NOTRECOVERABLE.raw_os_error(), -Errno::NOTRECOVERABLE.raw_os_error()));
        assert!(last_text().contains("defect"));
    }

    #[test]
    fn each_error_of_the_client_has_its_errno() {
        let gone = ccnic_client::Error::Gone;
        assert_eq!(Failure::from(gone).code(), -Errno::CONNRESET.raw_os_error());
        let taken = ccnic_client::Error::QueueTaken { queue: 3 };
        assert_eq!(Failure::from(taken).code(), -Errno::BUSY.raw_os_error());
        let absent = ccnic_client::Error::NoQueue { queue: 3, queues: 2 };
        assert_eq!(Failure::from(absent).code(), -Errno::INVAL.raw_os_error());
    }
}
