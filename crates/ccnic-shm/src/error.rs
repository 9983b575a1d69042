//! The errors of regions.

use rustix::io::Errno;

/// An error of a region.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A region above 4 GiB: offsets have 32 bits.
    #[error("a region of {size} bytes is too large: offsets have 32 bits; lower --buffers or --ring")]
    TooLarge {
        /// Bytes asked for.
        size: u32,
    },
    /// A region larger than the NIC accepts.
    #[error(
        "the region has {size} bytes, this NIC takes {most}; lower the buffers, or raise ccnicd --region-max"
    )]
    TooMuch {
        /// Bytes of the region.
        size: u32,
        /// Bytes that the NIC accepts.
        most: u32,
    },
    /// A descriptor that is not a region.
    #[error("the descriptor passed is not a ccnic region: {why}")]
    NotARegion {
        /// The property that is missing.
        why: &'static str,
    },
    /// A system call failed.
    #[error("could not {what}: {errno}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl Error {
    /// For `map_err`: names what was tried.
    pub(crate) fn os(what: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| Error::Os { what, errno }
    }
}
