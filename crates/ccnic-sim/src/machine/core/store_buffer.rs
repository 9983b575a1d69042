//! Entries of the store buffer.

/// A store in the store buffer.
#[derive(Debug, Clone, Copy)]
pub struct Store {
    pub line: u32,
    pub what: Stored,
    /// Its position in program order: it is committed after every load before it.
    pub position: u64,
}

/// What a store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Writes payload. The bytes are in memory already, since only their holder looks at them.
    Payload,
    /// Writes a word.
    Word(u32, u64),
    /// Demotes the line (CLDEMOTE): a hint that takes effect after the stores before it.
    Demote,
    /// Writes a word to a device.
    Uncached(u32, u64),
}
