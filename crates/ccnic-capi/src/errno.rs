//! Errors for C: a negative errno value, and a text that says more, kept for the thread.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;

thread_local! {
    static LAST: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"no error")) };
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: Errno,
    text: Cow<'static, CStr>,
}

impl Failure {
    /// With a text that needs no memory: for bursts.
    pub(crate) const fn new(errno: Errno, text: &'static CStr) -> Failure {
        Failure { errno, text: Cow::Borrowed(text) }
    }

    pub(crate) fn said(errno: Errno, text: &str) -> Failure {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        Failure { errno, text: Cow::Owned(text) }
    }

    /// Keeps the text for `ccnic_last_error`; returns what the C function returns.
    #[cold]
    pub(crate) fn tell(self) -> c_int {
        let text = self.text;
        // At a thread's end the place may be gone already; then there is nobody to read it.
        let _ = LAST.try_with(|last| last.replace(text));
        -self.errno.raw_os_error()
    }
}

impl From<ccnic_client::Error> for Failure {
    fn from(error: ccnic_client::Error) -> Failure {
        use ccnic_client::Error;
        let errno = match &error {
            Error::Unreachable { errno, .. } | Error::Os { errno, .. } => *errno,
            Error::Region(error) => region(error),
            Error::Control(error) => control(error),
            Error::Refused { .. } => Errno::PERM,
            Error::Gone => Errno::CONNRESET,
            Error::TimedOut => Errno::TIMEDOUT,
            Error::Protocol { .. } => Errno::PROTO,
            Error::QueueTaken { .. } => Errno::BUSY,
            Error::StillAlive => Errno::ISCONN,
            Error::NoRss => Errno::OPNOTSUPP,
            Error::Config(_)
            | Error::Rss { .. }
            | Error::NoQueue { .. }
            | Error::WrongDesign { .. }
            | Error::PairsMissing { .. } => Errno::INVAL,
        };
        Failure::said(errno, &error.to_string())
    }
}

impl From<ccnic_control::Error> for Failure {
    fn from(error: ccnic_control::Error) -> Failure {
        Failure::said(control(&error), &error.to_string())
    }
}

fn control(error: &ccnic_control::Error) -> Errno {
    use ccnic_control::Error;
    match error {
        Error::Unreachable { errno, .. } | Error::Os { errno, .. } => *errno,
        Error::Socket { errno, .. } => *errno,
        Error::Refused { .. } => Errno::PERM,
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

/// Runs a call that is not a burst: no panic leaves it.
pub(crate) fn guard(call: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(n)) => n,
        Ok(Err(failure)) => failure.tell(),
        Err(_) => DEFECT.tell(),
    }
}

/// An argument that must not be NULL is.
pub(crate) const NULL: Failure = Failure::new(Errno::INVAL, c"an argument that must not be NULL is NULL");

/// Runs a burst. Its hot path has nothing in it that panics; what it calls out of line is kept from ending the process too.
#[inline(always)]
pub(crate) fn burst(call: impl FnOnce() -> Result<usize, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(n)) => n as c_int,
        Ok(Err(failure)) => failure.tell(),
        Err(_) => DEFECT.tell(),
    }
}
