//! What can go wrong on the control socket, each with what the user can do about it.

use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use crate::text::printable;

/// An error of the control socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No NIC at the socket.
    #[error("no NIC answers at {}: {errno}; start one with `ccnicd --socket {}`", path.display(), path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer. Not a `source`: the message has it already, and who prints the chain would print it twice.
        errno: Errno,
    },
    /// A NIC's own socket cannot be made.
    #[error("{what}")]
    Socket {
        /// What is in the way, and what to do about it.
        what: String,
        /// The error number that fits best.
        errno: Errno,
    },
    /// The NIC refused a request.
    #[error("the NIC refused: {}", printable(reason))]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// The NIC has not answered in time.
    #[error(
        "the NIC has not taken or sent {what} for {seconds} s: it has stopped, is overloaded or at a limit; see its log, try again, or \
         restart it"
    )]
    NoAnswer {
        /// What was waited for.
        what: &'static str,
        /// For so long.
        seconds: u64,
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
    #[error("could not {what}: {errno}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl Error {
    pub(crate) fn no_answer(what: &'static str, patience: Duration) -> Error {
        Error::NoAnswer { what, seconds: patience.as_secs() }
    }

    /// For `map_err`: names what was tried.
    pub(crate) fn os(what: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| Error::Os { what, errno }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    /// A message that has its cause must not have it as a source as well: printed with its sources it would say it twice.
    #[test]
    fn a_cause_is_said_once() {
        let unreachable = Error::Unreachable { path: "/run/nic.sock".into(), errno: Errno::NOENT };
        assert!(unreachable.to_string().starts_with("no NIC answers at /run/nic.sock: No such file"));
        assert!(unreachable.source().is_none());
        let os = Error::os("make a socket")(Errno::MFILE);
        assert!(os.to_string().starts_with("could not make a socket: "));
        assert!(os.source().is_none());
    }
}
