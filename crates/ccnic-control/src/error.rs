//! What can go wrong on the control socket, each with what the user can do about it.

use std::path::PathBuf;

use rustix::io::Errno;

/// An error of the control socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No NIC at the socket.
    #[error("no NIC answers at {}: {source}; start one with `ccnicd --socket {}`", path.display(), path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer.
        source: Errno,
    },
    /// A NIC's own socket cannot be made.
    #[error("{what}")]
    Socket {
        /// What is in the way, and what to do about it.
        what: String,
        /// The nearest that the kernel has for it.
        errno: Errno,
    },
    /// The NIC refused.
    #[error("the NIC refused: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// The NIC closed the connection.
    #[error("the NIC closed the connection without an answer; see its log")]
    Gone,
    /// A message that is not understood.
    #[error("a message on the control socket is not understood: {what}; use the same release on both sides")]
    Protocol {
        /// What was wrong with it.
        what: String,
    },
    /// A region that cannot be mapped.
    #[error(transparent)]
    Region(#[from] ccnic_shm::Error),
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
