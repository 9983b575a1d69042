//! Why a message cannot be sent or taken.

use core::fmt;

/// The other side has written a word that the protocol does not allow: it is defective or hostile. The channel is of no use any more.
///
/// ```
/// use ccnic::SharedMemory;
/// use ccnic::call::{CallLayout, Caller};
///
/// let layout = CallLayout::new(56)?;
/// let mem = ccnic::heap::HeapMemory::new(layout.size());
/// let mut caller = Caller::new(&layout);
/// caller.send(&mem, b"request")?;
/// mem.store(layout.slots()[1], u64::MAX); // what no server writes
/// let error = caller.take(&mem, &mut []).unwrap_err();
/// assert_eq!(error.to_string(), "the other side has written 0xffffffffffffffff where message 0 was due; restart it with the same release");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The word found.
    pub word: u64,
    /// The call whose message was due.
    pub call: u64,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Malformed { word, call } = self;
        write!(
            f,
            "the other side has written {word:#x} where message {call} was due; restart it with the same release"
        )
    }
}

impl core::error::Error for Malformed {}

/// Why a message cannot be sent. Nothing has been written.
///
/// ```
/// use ccnic::call::{CallError, CallLayout, Caller, Server};
///
/// let layout = CallLayout::new(56)?;
/// let mem = ccnic::heap::HeapMemory::new(layout.size());
/// let mut caller = Caller::new(&layout);
/// assert_eq!(caller.send(&mem, &[0; 57]), Err(CallError::TooLong { len: 57, capacity: 56 }));
/// caller.send(&mem, b"first")?;
/// assert_eq!(caller.send(&mem, b"second"), Err(CallError::OutOfTurn)); // there is no answer yet
/// assert_eq!(Server::new(&layout).answer(&mem, b""), Err(CallError::OutOfTurn)); // it has not taken the request
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// The message does not fit.
    TooLong {
        /// Its bytes.
        len: usize,
        /// The most bytes of a message of this channel.
        capacity: u32,
    },
    /// A request before the answer to the last one has been taken, or an answer without a request.
    OutOfTurn,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::TooLong { len, capacity } => {
                write!(
                    f,
                    "a message has {len} bytes; this channel takes {capacity}, so make it with a larger capacity"
                )
            }
            CallError::OutOfTurn => {
                write!(f, "a channel carries one call at a time: take the last answer first")
            }
        }
    }
}

impl core::error::Error for CallError {}
