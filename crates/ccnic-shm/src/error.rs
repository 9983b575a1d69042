//! What can go wrong outside the rings, each with what the user can do about it.

use rustix::io::Errno;

/// An error of regions and of the control socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A region above 4 GiB: offsets have 32 bits.
    #[error("a region of {size} bytes is too large: offsets have 32 bits; lower --buffers or --ring")]
    TooLarge {
        /// Bytes asked for.
        size: u32,
    },
    /// A descriptor that cannot be a region.
    #[error("the descriptor passed is not a ccnic region: {why}")]
    NotARegion {
        /// The property that is missing.
        why: &'static str,
    },
    /// A system call failed.
    #[error("could not {what}: {source}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
}

impl Error {
    /// For `map_err`: names what was tried.
    pub(crate) fn os(what: &'static str) -> impl Fn(Errno) -> Error {
        move |source| Error::Os { what, source }
    }
}
