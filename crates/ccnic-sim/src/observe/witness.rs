//! What tests ask of a run: which rows of the protocol's tables it has used, and every word stored, in the order of coherence.

use crate::machine::World;
use crate::protocols::{CACHE, DIRECTORY};

/// How often each row of the protocol's tables was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rows {
    /// Rows of [`DIRECTORY`].
    pub directory: [u64; DIRECTORY.len()],
    /// Rows of [`CACHE`].
    pub cache: [u64; CACHE.len()],
    /// Questions that no row answers: each is a defect of the simulator.
    pub missing: u64,
}

/// A word's value changed, for all to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The core that stored it.
    pub core: u8,
    /// The word.
    pub at: u32,
    /// Its new value.
    pub value: u64,
}

impl World {
    /// How often each row of the protocol's tables has been used.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Keeps a journal of all stores of words from now on.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// The journal, if it is kept.
    pub fn journal(&self) -> &[Commit] {
        self.journal.as_deref().unwrap_or_default()
    }

    /// Stores a word for a core that owns its line.
    #[inline]
    pub(crate) fn commit_word(&mut self, core: u8, at: u32, value: u64) {
        self.set_word(at, value);
        self.note(core, "store", at);
        if let Some(journal) = &mut self.journal {
            journal.push(Commit { core, at, value });
        }
    }
}
