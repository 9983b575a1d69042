//! What an in-order core is doing.

use std::collections::BTreeSet;

use crate::kernel::time::Ps;

use super::line::Node;

/// A core.
#[derive(Debug)]
pub struct Core {
    pub(super) node: Node,
    pub(super) clock: Ps,
    /// Lines in its first-level cache.
    pub(super) near: BTreeSet<u32>,
    /// The line that it waits for, and to write it.
    pub(super) waits: Option<(u32, bool)>,
    /// It has stored to a line of the other node since its last barrier.
    pub(super) asked: bool,
    pub(super) ended: bool,
}

impl Core {
    pub(super) fn new(node: Node) -> Core {
        Core { node, clock: 0, near: BTreeSet::new(), waits: None, asked: false, ended: false }
    }
}
