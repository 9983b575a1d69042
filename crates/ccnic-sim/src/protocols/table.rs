//! What a protocol's table says: the states of a line, requests, snoops, and the rows that connect them.
//!
//! Requests and snoops carry the names of CXL.cache (CXL specification, "CXL.cache protocol") in their descriptions; UPI has
//! opcodes for each.

/// The state of a line in a private cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub enum State {
    /// Not present.
    #[default]
    Invalid,
    /// May be read; other caches may have it.
    Shared,
    /// May be read, and supplies the data to the next reader; other caches may have it.
    Forward,
    /// May be read and written; no other cache has it, memory is up to date.
    Exclusive,
    /// May be read and written; no other cache has it, memory is out of date.
    Modified,
}

impl State {
    /// Every state.
    pub const ALL: [State; 5] =
        [State::Invalid, State::Shared, State::Forward, State::Exclusive, State::Modified];

    /// The line may be read.
    #[inline]
    pub fn readable(self) -> bool {
        self != State::Invalid
    }

    /// The line may be written.
    #[inline]
    pub fn writable(self) -> bool {
        self >= State::Exclusive
    }
}

/// What a core or a device asks of a line's home agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// Data to read (RdAny).
    Read,
    /// Ownership, with the data unless the requester has it: a store to a part of the line (RdOwn).
    ReadOwn,
    /// Ownership without data: a store to the whole line (RdOwnNoData).
    OwnNoData,
    /// The data as it is now; the requester keeps no copy: DMA (RdCurr).
    ReadCurrent,
    /// A write of the whole line to its home, around the caches: non-temporal stores (ItoMWr).
    WriteInvalidate,
    /// The line out of all caches, into memory if memory is out of date (CLFlush).
    Flush,
}

impl Request {
    /// Every request.
    pub const ALL: [Request; 6] = [
        Request::Read,
        Request::ReadOwn,
        Request::OwnNoData,
        Request::ReadCurrent,
        Request::WriteInvalidate,
        Request::Flush,
    ];
}

/// What the directory knows about the private caches' copies of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// No private cache has it. A last-level cache may.
    Uncached,
    /// At least one private cache has it, to read.
    Shared,
    /// One private cache has it, and may have modified it.
    Owned,
}

impl Sharing {
    /// Every value.
    pub const ALL: [Sharing; 3] = [Sharing::Uncached, Sharing::Shared, Sharing::Owned];
}

/// Which caches the home agent snoops before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Snoops {
    /// None.
    None,
    /// The owner.
    Owner(Snoop),
    /// Every sharer.
    Sharers(Snoop),
}

/// What a private cache is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Snoop {
    /// Supply the data to a reader (SnpData).
    Data,
    /// Supply the data to a writer, and invalidate (SnpInv).
    Invalidate,
    /// Invalidate without supplying data: the requester needs none, or gets it elsewhere (SnpInv).
    Drop,
    /// Supply the data, and keep the line as it is (SnpCur).
    Current,
}

/// Where the data comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Data {
    /// No data moves.
    None,
    /// The nearest copy: a last-level cache, a sharer in the same socket, memory. None moves if the requester has the line.
    Nearest,
    /// The owner supplies it.
    Owner,
}

/// The state that the requester gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grant {
    /// This one.
    Is(State),
    /// Exclusive; Modified if the copy supplied is newer than memory.
    Sole,
    /// What the owner's answer grants: [`CacheRow::grants`].
    Answered,
    /// None: it keeps no copy.
    Nothing,
}

/// One row of the home agent's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeRow {
    /// What the directory knows of the line.
    pub sharing: Sharing,
    /// What is asked.
    pub request: Request,
    /// Which caches are snooped first.
    pub snoops: Snoops,
    /// Where the data comes from.
    pub data: Data,
    /// What the requester gets.
    pub grant: Grant,
}

/// A row of the home agent's table.
pub const fn home(sharing: Sharing, request: Request, snoops: Snoops, data: Data, grant: Grant) -> HomeRow {
    HomeRow { sharing, request, snoops, data, grant }
}

/// One row of a private cache's table: how it answers a snoop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheRow {
    /// Its state before.
    pub state: State,
    /// What it is asked.
    pub snoop: Snoop,
    /// The row is for platforms where reading a modified line moves its ownership (`true`) or does not (`false`); `None` for both.
    pub migratory: Option<bool>,
    /// Its state afterwards.
    pub next: State,
    /// What a requester that reads is granted.
    pub grants: State,
    /// The data is newer than memory and no cache owns the line afterwards: the last-level cache takes it.
    pub writes_back: bool,
}

/// A row of a private cache's table.
pub const fn cache(
    state: State,
    snoop: Snoop,
    migratory: Option<bool>,
    next: State,
    grants: State,
) -> CacheRow {
    let kept = !matches!(next, State::Invalid | State::Modified);
    let writes_back = matches!(state, State::Modified) && kept && !matches!(grants, State::Modified);
    CacheRow { state, snoop, migratory, next, grants, writes_back }
}

/// Rows of a home agent's table: one for each [`Sharing`] and each [`Request`], in the order of the enums.
pub const HOME_ROWS: usize = Sharing::ALL.len() * Request::ALL.len();

/// A coherence protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name in platform files.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// What the home agent does.
    pub home: [HomeRow; HOME_ROWS],
    /// What a private cache does. A snooped cache has the line: caches tell the directory what they evict.
    pub cache: &'static [CacheRow],
}

impl Protocol {
    /// The home agent's row.
    #[inline]
    pub fn home_row(&self, sharing: Sharing, request: Request) -> &HomeRow {
        &self.home[home_number(sharing, request)]
    }

    /// The private cache's row and its number, if the table has one.
    #[inline]
    pub fn cache_row(&self, state: State, snoop: Snoop, migratory: bool) -> Option<(usize, &CacheRow)> {
        let asked = |row: &CacheRow| {
            row.state == state && row.snoop == snoop && row.migratory.is_none_or(|m| m == migratory)
        };
        let number = self.cache.iter().position(asked)?;
        Some((number, &self.cache[number]))
    }
}

/// The number of a home agent's row.
#[inline]
pub fn home_number(sharing: Sharing, request: Request) -> usize {
    sharing as usize * Request::ALL.len() + request as usize
}
