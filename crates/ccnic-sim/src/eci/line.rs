//! A line: its states in the caches of both nodes, what its home knows of it, and requests for it.

use std::collections::VecDeque;

/// Bytes of a line.
pub const LINE: u32 = 128;

/// A node: 0 is the processor, 1 what is at the other end of the link.
pub type Node = usize;

/// The line that an address is in.
pub fn number(at: u32) -> u32 {
    at / LINE
}

/// The line's state in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not there.
    Invalid,
    /// To be read.
    Shared,
    /// To be written, and as it is at its home.
    Exclusive,
    /// Written.
    Modified,
}

/// What a home knows of the node that is not the line's home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// It does not have the line.
    Nothing,
    /// It may read it.
    Shared,
    /// It may write it.
    Owned,
}

/// A request for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Who wants it.
    pub node: Node,
    /// To write it.
    pub own: bool,
}

/// A line.
#[derive(Debug)]
pub struct Line {
    /// Where its memory, or what takes its place, is.
    pub home: Node,
    /// Its state in each node's cache.
    pub state: [State; 2],
    /// What its home knows.
    pub remote: Remote,
    /// The request that the home is working on.
    pub busy: Option<Request>,
    /// Those that wait for it.
    pub waiting: VecDeque<Request>,
}

impl Line {
    /// A line that no cache has.
    pub fn at_home(home: Node) -> Line {
        Line {
            home,
            state: [State::Invalid; 2],
            remote: Remote::Nothing,
            busy: None,
            waiting: VecDeque::new(),
        }
    }
}
