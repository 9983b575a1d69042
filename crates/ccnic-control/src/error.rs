//! What can go wrong on the control socket, each with what the user can do about it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use crate::text::printable_lines;

/// An error of the control socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No NIC at the socket.
    #[error("{}", unreachable(path, *errno))]
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
    #[error("the NIC refused: {}", printable_lines(reason))]
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

/// Nobody could be connected to at `path`: why, and what to do. A socket that this user may not open is a NIC's that is there.
pub fn unreachable(path: &Path, errno: Errno) -> String {
    let at = path.display();
    match errno {
        Errno::ACCESS | Errno::PERM => format!(
            "this user may not connect to the NIC at {at}: {errno}; start ccnicd with --socket-mode 0660 and --socket-group GROUP, a group \
             of this user, who must be let through the directories of that path, too; or be the user of ccnicd"
        ),
        Errno::PROTOTYPE => {
            format!("the socket {at} is no NIC's: {errno}; name another one, or start `ccnicd --socket PATH`")
        }
        _ => format!("no NIC answers at {at}: {errno}; start one with `ccnicd --socket {at}`"),
    }
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
        let denied = super::unreachable(Path::new("/run/nic.sock"), Errno::ACCESS);
        assert!(
            !denied.contains("no NIC") && denied.contains("--socket-mode 0660 and --socket-group"),
            "{denied}"
        );
        let os = Error::os("make a socket")(Errno::MFILE);
        assert!(os.to_string().starts_with("could not make a socket: "));
        assert!(os.source().is_none());
    }
}
