//! What the table of a snooping protocol says: caches on one bus, no directory. A cache asks the bus for what its table says, every
//! other cache answers by its own, and the bus carries one transaction at a time, so that no state in between is needed.
//!
//! Transactions carry the names of the SPARC MBus (level 2) in their descriptions.

/// The state of a block in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum State {
    /// Not present.
    #[default]
    Invalid,
    /// May be read; other caches may have it, one of them may own it.
    Shared,
    /// May be read; other caches may have it; memory is out of date, and this cache answers for it.
    Owned,
    /// May be read and written; no other cache has it, memory is up to date.
    Exclusive,
    /// May be read and written; no other cache has it, memory is out of date.
    Modified,
}

impl State {
    /// Every state.
    pub const ALL: [State; 5] =
        [State::Invalid, State::Shared, State::Owned, State::Exclusive, State::Modified];

    /// The block may be read.
    pub fn readable(self) -> bool {
        self != State::Invalid
    }

    /// The block may be written.
    pub fn writable(self) -> bool {
        matches!(self, State::Exclusive | State::Modified)
    }

    /// Memory is out of date, and this cache answers for it: the block is written back when it is replaced.
    pub fn owns(self) -> bool {
        matches!(self, State::Owned | State::Modified)
    }
}

/// What a cache is asked by the processor or the device that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// A load.
    Load,
    /// A store to a part of the block.
    Store,
    /// A store to the whole block: nobody needs its old bytes.
    StoreBlock,
}

impl Access {
    /// Every access.
    pub const ALL: [Access; 3] = [Access::Load, Access::Store, Access::StoreBlock];
}

/// What the bus carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// Data to read (Coherent Read, CR).
    Read,
    /// Data to write: every other copy goes (Coherent Read and Invalidate, CRI).
    ReadInvalidate,
    /// Every other copy goes; no data (Coherent Invalidate, CI).
    Invalidate,
    /// A replaced block to its home (Write).
    WriteBack,
}

impl Transaction {
    /// Every transaction.
    pub const ALL: [Transaction; 4] =
        [Transaction::Read, Transaction::ReadInvalidate, Transaction::Invalidate, Transaction::WriteBack];
}

/// The state that a cache has after its own access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This one.
    Is(State),
    /// Exclusive, or Shared if another cache has the block.
    ByShared,
}

/// A row of the requester's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessRow {
    /// Its state before.
    pub state: State,
    /// What it is asked.
    pub access: Access,
    /// What it asks of the bus; nothing if the access hits.
    pub transaction: Option<Transaction>,
    /// Its state afterwards.
    pub next: Next,
}

/// A row of the requester's table.
pub const fn access(state: State, access: Access, transaction: Option<Transaction>, next: Next) -> AccessRow {
    AccessRow { state, access, transaction, next }
}

/// A row of the table of the other caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnoopRow {
    /// The cache's state before.
    pub state: State,
    /// What it sees on the bus.
    pub transaction: Transaction,
    /// Its state afterwards.
    pub next: State,
    /// It supplies the data in place of the block's home.
    pub supplies: bool,
}

/// A row of the table of the other caches.
pub const fn snoop(state: State, transaction: Transaction, next: State, supplies: bool) -> SnoopRow {
    SnoopRow { state, transaction, next, supplies }
}

/// A snooping protocol. Rows stand in the order of the enums.
#[derive(Debug, PartialEq, Eq)]
pub struct Snooping {
    /// Its name in platform files.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// What a cache does with an access.
    pub access: [AccessRow; State::ALL.len() * Access::ALL.len()],
    /// What every other cache does when it sees a transaction.
    pub snoop: [SnoopRow; State::ALL.len() * Transaction::ALL.len()],
    /// The state of a cache that takes in a block which it sees written back (data snarfing).
    pub snarfed: State,
}

impl Snooping {
    /// The requester's row.
    #[inline]
    pub fn access_row(&self, state: State, access: Access) -> &AccessRow {
        &self.access[state as usize * Access::ALL.len() + access as usize]
    }

    /// Another cache's row.
    #[inline]
    pub fn snoop_row(&self, state: State, transaction: Transaction) -> &SnoopRow {
        &self.snoop[state as usize * Transaction::ALL.len() + transaction as usize]
    }
}
