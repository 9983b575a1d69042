//! The errors of a program's attachment to a NIC.

use std::fmt;
use std::path::PathBuf;

use ccnic::{ConfigError, QueueError};
use rustix::io::Errno;

/// An error of a program's attachment to a NIC. `Debug` writes the same message as `Display`, so that a
/// `main` that returns it prints what the user can do.
///
/// ```
/// use ccnic_client::{Config, Error, Nic};
///
/// let error = Nic::open("/nowhere/nic.sock").unwrap_err();
/// assert!(matches!(error, Error::Unreachable { .. }));
/// assert!(error.to_string().contains("start one with `ccnicd --socket /nowhere/nic.sock`"));
///
/// let config = Config { queues: 0, ..Config::default() };
/// let error = Nic::options().config(&config).open("/nowhere/nic.sock").unwrap_err();
/// assert_eq!(error.to_string(), "queues is 0; choose 1 to 256");
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration that is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The environment variable `CCNIC_TUNING` says nothing that a [`Tuning`](ccnic::Tuning) can be.
    #[error("CCNIC_TUNING is {text:?}: {why}")]
    Tuning {
        /// What it says.
        text: String,
        /// Why that is nothing.
        why: ConfigError,
    },
    /// The region could not be made.
    #[error(transparent)]
    Region(#[from] ccnic_shm::Error),
    /// No NIC answers at the socket.
    #[error("{}", ccnic_control::unreachable(path, *errno))]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The NIC refused.
    #[error("the NIC refused: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// The NIC has ended, or closed the connection.
    #[error("the NIC has gone; see its log")]
    Gone,
    /// Nothing to receive, or no answer to a call, came in the time given.
    #[error("nothing came in time")]
    TimedOut,
    /// A message of the control socket has another format.
    #[error("a message on the control socket is not understood: {what}; use the same release on both sides")]
    Protocol {
        /// What was wrong with it.
        what: String,
    },
    /// Anything else that went wrong on the control socket.
    #[error(transparent)]
    Control(ccnic_control::Error),
    /// The server of calls has ended.
    #[error("the server has gone; connect again when it is back")]
    ServerGone,
    /// A call could not be made, or its server has done what no server does.
    #[error("call: {what}")]
    Call {
        /// Which of these, and what to do about it.
        what: String,
    },
    /// A queue that the region does not have.
    #[error("queue {queue} does not exist: the region has {queues}")]
    NoQueue {
        /// The queue asked for.
        queue: u16,
        /// The queues there are.
        queues: u16,
    },
    /// A queue pair that has been taken before.
    #[error("queue {queue} has been taken before: a queue pair belongs to one thread")]
    QueueTaken {
        /// The queue asked for.
        queue: u16,
    },
    /// Queue pairs of another design.
    #[error("the region's rings are of design {has}, not {asked}")]
    WrongDesign {
        /// The design asked for.
        asked: &'static str,
        /// The design of the region.
        has: &'static str,
    },
    /// RSS parameters that are not valid.
    #[error("rss: {why}")]
    Rss {
        /// The field, and what it may be.
        why: String,
    },
    /// The NIC cannot do receive-side scaling.
    #[error("this NIC does no RSS: the sender chooses the queue")]
    NoRss,
    /// A flow rule that is not valid.
    #[error("flow rule: {why}")]
    Flow {
        /// The field, and what it may be.
        why: String,
    },
    /// The NIC has no flow rules.
    #[error("this NIC has no flow rules: RSS or the sender chooses the queue")]
    NoFlows,
    /// A reconnection without all queue pairs and pools.
    #[error("reconnecting needs all {given} queue pairs and pools of this NIC, and no others; got {brought}")]
    PairsMissing {
        /// Queue pairs and pools that have been taken.
        given: usize,
        /// Those passed to `reconnect`.
        brought: usize,
    },
    /// A reconnection while the NIC lives.
    #[error("the NIC is alive: nothing to reconnect")]
    StillAlive,
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

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<QueueError> for Error {
    fn from(error: QueueError) -> Error {
        match error {
            QueueError::NoQueue { queue, queues } => Error::NoQueue { queue, queues },
            QueueError::WrongDesign { asked, has } => {
                Error::WrongDesign { asked: asked.name(), has: has.name() }
            }
        }
    }
}

impl From<ccnic_control::Error> for Error {
    fn from(error: ccnic_control::Error) -> Error {
        use ccnic_control::Error as Control;
        match error {
            Control::Unreachable { path, errno } => Error::Unreachable { path, errno },
            Control::Refused { reason } => Error::Refused { reason },
            Control::Gone => Error::Gone,
            Control::Protocol { what } => Error::Protocol { what },
            Control::Region(error) => Error::Region(error),
            Control::Os { what, errno } => Error::Os { what, errno },
            other => Error::Control(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::Design;
    use ccnic_control::Error as Control;

    #[test]
    fn errors_of_other_crates_become_variants_of_this_one() {
        let gone = Error::from(Control::Gone);
        assert!(matches!(gone, Error::Gone));
        let refused = Error::from(Control::Refused { reason: "no".to_owned() });
        assert!(matches!(&refused, Error::Refused { reason } if reason == "no"));
        let none = Error::from(QueueError::NoQueue { queue: 7, queues: 2 });
        assert_eq!(none.to_string(), QueueError::NoQueue { queue: 7, queues: 2 }.to_string());
        let wrong = QueueError::WrongDesign { asked: Design::Packed, has: Design::Padded };
        assert_eq!(Error::from(wrong).to_string(), wrong.to_string());
    }

    #[test]
    fn debug_prints_the_message() {
        let error = Error::Unreachable { path: "/tmp/x".into(), errno: Errno::NOENT };
        assert_eq!(format!("{error:?}"), error.to_string());
        assert!(error.to_string().contains("ccnicd --socket /tmp/x"));
    }
}
